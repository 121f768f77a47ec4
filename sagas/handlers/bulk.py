"""The function of the work queue ``bulk``, for due work and for work that takes longer than a run of the supervisor."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

from sagas.engine.engine import Engine
from sagas.handlers.invocation import warm
from sagas.handlers.tasks.due import recover_due
from sagas.handlers.tasks.purging import purge_due
from sagas.handlers.tasks.sweeping import continue_sweep
from sagas.handlers.tasks.working import handle_records
from sagas.handlers.telemetry import telemetry, traced, tracer
from sagas.messaging.work import BULK, Work


@lru_cache(maxsize=1)
def _engine() -> Engine:
    observer = telemetry()
    return Engine.from_environment(os.environ, observer, observer.plain_logger, tracer())


@traced("pubsub", "bulk")
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Handle the messages of an SQS event; see :func:`sagas.handlers.tasks.working.handle_records`."""
    return handle_records(event, context, _engine(), {"recover": recover_due, "purge": purge_due, "sweep": _sweep})


def _sweep(work: Work, context: Any, engine: Engine) -> None:
    """Continue a sweep, and send the next message if there is more to do."""
    follow = continue_sweep(work, context, engine)
    engine.queues.send_work(BULK, [Work(work.task, details, work.hops + 1) for details in follow])


def reset() -> None:
    """Forget the engine, so the next invocation reads the environment again."""
    _engine.cache_clear()
    tracer.cache_clear()


warm(lambda: _engine().warm("recovery", "purger"))
