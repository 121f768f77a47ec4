"""The engine of a step's function, whose attempts Powertools drives. Tests ask it for whichever parts they need."""

from __future__ import annotations

from functools import partial

from sagas.engine.attempt.idempotency import IdempotentAttempt
from sagas.engine.engine import Engine as Engine

engine_of = partial(Engine.from_environment, attempt=IdempotentAttempt)
"""Makes an engine from an environment."""
