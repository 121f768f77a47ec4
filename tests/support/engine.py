"""All parts of an engine in one composition, as no function has them: tests ask for whichever they need."""

from __future__ import annotations

from sagas.engine.composition.api import Api
from sagas.engine.composition.families import Families
from sagas.engine.composition.running import Running
from sagas.engine.composition.supervisor import Supervisor


class Engine(Running, Families, Supervisor, Api):
    """Every function's parts."""
