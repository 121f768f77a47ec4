"""Runs a whole saga in process: with the real engine and your code, but without AWS and without waiting."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import timedelta
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

from sagas.authoring.definition.definition import definition_of
from sagas.authoring.saga import ReqT, Saga
from sagas.core.rules import in_wait
from sagas.testing.outcome import Outcome, outcome_of
from sagas.testing.scripts import (
    CHILD,
    FIRST_ID,
    Failing,
    Moment,
    check_plans,
    refuse_in_an_event_loop,
    request_of,
    sent,
    settle_seconds,
)

if TYPE_CHECKING:
    from sagas.testing.simulation import Simulation


def run(
    saga_class: type[Saga[ReqT]],
    request: ReqT,
    *,
    fail: Mapping[str, Failing] | None = None,
    clients: Mapping[str, Any] | Callable[[str], Any] | None = None,
    saga_id: str = FIRST_ID,
    signals: Mapping[str, object] | None = None,
    at: Mapping[str, timedelta] | None = None,
    settle: timedelta = timedelta(0),
) -> Outcome:
    """Run a saga and its children to the end, or until the saga waits for an operator.

    Request and results are encoded as JSON, as in production. As there, each attempt of a step or undo has a new
    instance from ``create()``. Coroutines run in one event loop, which ``run`` closes at the end. Waits and delays
    between retries are skipped. Time passes while code runs, and an attempt that exceeds its ``timeout`` fails with
    ``TimedOut``. To test that without waiting, pass ``fail={"pay": TimedOut("...")}``.

    Args:
        saga_class: the saga.
        request: an instance of the saga's request type.
        fail: by the name of a step or undo, the exception that every attempt raises instead of running, or a list with
            an exception per attempt. In a list, ``None`` lets the attempt run, and attempts beyond the list run:
            ``[RuntimeError(), None]`` fails once, then works. For a child, prefix the name with the step and the
            child's position: ``payouts[3].pay``.
        clients: the clients that ``ctx.client(service)`` returns, by service, or a function such as ``boto3.client``.
        saga_id: the saga's id.
        signals: the value to send to each wait, by the wait's name. For a child, prefix the name as in ``fail``. A wait
            without a signal times out. Time is skipped, so a wait of a year takes no time.
        at: the time from the beginning of a wait to its signal. Default: none. With a negative time, the signal comes
            before its wait: when the saga starts.
        settle: how long the saga waits for a release if a stored value does not fit its type, as ``settle=`` of
            ``SagaService``.

    Raises:
        InvalidRequest: the request does not fit its type.
        TooLarge: the request or a signal has more than 256 KB of JSON, which the API refuses.
        ValueError: ``fail`` names an unknown step or undo, ``signals`` or ``at`` name an unknown wait, one of them
            names a child that was not started, or ``settle`` is a negative time.
        DefinitionError: ``create()`` raised, or ``saga_class`` is not a saga class.
        RuntimeError: an event loop runs already, and the saga has coroutines.
        TypeError: ``fail`` has something other than exceptions, a signal does not fit its wait's type, ``at`` has
            something other than a timedelta, ``settle`` is not a timedelta, or one of the others is not a dict.
    """
    definition = definition_of(saga_class)
    check_plans(definition, fail, signals, at)
    failing = dict(fail or {})
    signalled = dict(signals or {})
    data = request_of(definition, request)
    refuse_in_an_event_loop(definition, "run")
    # Imported here, because this loads boto3, which would slow down unit tests that do not run a saga.
    from sagas.testing.simulation import Simulation

    with closing(Simulation([definition], clients, settle_seconds(settle), repeat(saga_id))) as simulation:
        if signalled:
            simulation.reached = signalling(simulation, signalled, at or {})
        simulation.start(definition, data, fail=failing)
        simulation.play()
        for parameter, paths in (("fail", failing), ("signals", signalled)):
            for path in paths:
                _check_position(simulation, saga_id, path, parameter)
        return outcome_of(simulation, saga_id)


def signalling(
    simulation: Simulation, signals: Mapping[str, object], at: Mapping[str, timedelta]
) -> Callable[[Moment], None]:
    """Return a function that sends the signals of a saga and its children once their waits begin, or earlier."""

    def send(saga_id: str, step: str, path: str) -> None:
        state = simulation.stored(saga_id)
        type_ = simulation.definition(state.saga).step(step).signal_type
        simulation.send_signal(saga_id, step, sent(signals[path], type_, path))

    def send_if_it_waits(saga_id: str, step: str, path: str) -> None:
        state = simulation.stored(saga_id)
        if in_wait(state) and state.current is not None and state.current.name == step:
            send(saga_id, step, path)

    def reached(moment: Moment) -> None:
        _, prefix = simulation.place(moment.saga_id)
        state = simulation.stored(moment.saga_id)
        if moment.name == "before" and moment.attempt == 1 and moment.step == state.steps[0].name and not moment.undo:
            for step in state.steps:
                path = f"{prefix}{step.name}"
                if path in signals and at.get(path, timedelta()) < timedelta():
                    send(moment.saga_id, step.name, path)
        path = f"{prefix}{moment.step}"
        after = at.get(path, timedelta())
        if moment.name == "after" and not moment.undo and path in signals and after >= timedelta():
            simulation.later(after.total_seconds(), partial(send_if_it_waits, moment.saga_id, moment.step, path))

    return reached


def _check_position(simulation: Simulation, saga_id: str, path: str, parameter: str) -> None:
    """Check that the child in a path like ``payouts[3].pay`` exists, if its siblings were started."""
    remaining = path
    while match := CHILD.match(remaining):
        name = match[1]
        position = int(match[2])
        remaining = match[3]
        own = (entry for entry in simulation.entries(saga_id).values() if entry.step == name)
        begun = next((entry for entry in own if entry.action == "ChildrenStarted"), None)
        total = position + 1 if begun is None else len(json.loads(begun.payload or "[]"))
        if position >= total:
            raise ValueError(f'{parameter}: "{path}": the step "{name}" had {total} children, counted from 0')
        child = simulation.children(saga_id).get(name, {}).get(position)
        if child is None:
            return
        saga_id = child.saga_id
