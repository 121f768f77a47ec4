"""The function of the work queue ``now``, for urgent work without step code, such as the end of a wait."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

from sagas.engine.engine import Engine
from sagas.handlers.invocation import warm
from sagas.handlers.tasks.due import recover_due
from sagas.handlers.tasks.working import MOST_FAILURES, handle_records
from sagas.handlers.telemetry import telemetry, traced, tracer
from sagas.messaging.work import CHILDREN, LOOK, NOW, START, ChildrenToStart, OneSaga, SagasToAdvance, Work

_SPARE = 10.0
"""Seconds at the end of the function's time in which it takes no further saga."""


@lru_cache(maxsize=1)
def _engine() -> Engine:
    observer = telemetry()
    return Engine.from_environment(os.environ, observer, observer.plain_logger, tracer())


@traced("pubsub", "now")
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Handle the messages of an SQS event; see :func:`sagas.handlers.tasks.working.handle_records`."""
    tasks = {LOOK: _look, "recover": recover_due, CHILDREN: _children, START: _start}
    return handle_records(event, context, _engine(), tasks, {CHILDREN: _failed_looks}, {CHILDREN: _children_again})


def _look(work: Work, context: Any, engine: Engine) -> None:
    """Advance a saga. If the saga is not due yet, send a message for later."""
    saga = OneSaga.of(work)
    until = engine.codeless_advancer.look(saga.saga_id, saga.dispatch)
    if until:
        remaining = max(until - engine.clock.now(), 1.0)
        engine.queues.send_work(NOW, [Work(work.task, work.details, work.hops + 1)], remaining)


def _children(work: Work, context: Any, engine: Engine) -> None:
    """Advance parents and children. If time runs out, send another message for the rest."""
    request = SagasToAdvance.of(work)
    for position, saga_id in enumerate(request.sagas):
        if position and context.get_remaining_time_in_millis() / 1000 < _SPARE:
            remaining = {"sagas": request.sagas[position:], "thorough": request.thorough}
            engine.queues.send_work(NOW, [Work(work.task, remaining, work.hops + 1)])
            return
        _count(engine.children.look(saga_id, thorough=request.thorough))


def _count(unread: bool) -> None:
    """Count a look at a parent that is on the attention list because what it needs cannot be read."""
    if unread:
        telemetry().measure("InputsUnread", 1)


def _children_again(work: Work, context: Any, engine: Engine) -> None:
    """Advance the same sagas again. The first time may have been interrupted, so complete what it began."""
    _children(Work(work.task, {**work.details, "thorough": True}, work.hops), context, engine)


def _failed_looks(work: Work, context: Any, engine: Engine) -> None:
    """Handle a message that failed repeatedly, for example because many results do not fit the function.

    Each saga then gets a separate message. A parent that still fails goes on the attention list.
    """
    request = SagasToAdvance.of(work)
    if len(request.sagas) > 1:
        alone = [{"sagas": [saga_id], "thorough": request.thorough} for saga_id in request.sagas]
        engine.queues.send_work(NOW, [Work(work.task, details, work.hops + 1) for details in alone])
        return
    engine.children.list_stuck(request.sagas[0], MOST_FAILURES)
    _count(engine.children.look(request.sagas[0], thorough=request.thorough))


def _start(work: Work, context: Any, engine: Engine) -> None:
    """Start children of a step."""
    _count(engine.children.start(ChildrenToStart.of(work)))


def reset() -> None:
    """Forget the engine, so the next invocation reads the environment again."""
    _engine.cache_clear()
    tracer.cache_clear()


warm(lambda: _engine().warm("codeless_advancer", "children", "recovery"))
