"""What a test plans for a saga, exceptions and signals, is checked before the saga starts."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import count
from typing import Any, NamedTuple, cast

from sagas.authoring.codec import decode, encode
from sagas.authoring.definition.definition import SagaDefinition
from sagas.errors import InvalidRequest, TooLarge, listed
from sagas.operations import LARGEST_BODY

Raised = BaseException | type[BaseException]
Failing = Raised | Sequence[Raised | None]
"""The exception that every attempt raises instead of running, or a list with an exception per attempt. In a list,
``None`` lets the attempt run, and attempts beyond the list run."""
ACTOR = "test"
"""The actor of what a test does."""
FIRST_ID = "00000000-0000-7000-8000-000000000000"
"""The id of the first saga of a test."""
CHILD = re.compile(r"(\w+)\[(\d+)\]\.(.+)", re.ASCII)
"""A step with children, the position of a child, and the path within this child."""


class Moment(NamedTuple):
    """A moment of an attempt: ``before``, ``calling``, ``returned`` or ``after``."""

    saga_id: str
    step: str
    undo: bool
    name: str
    attempt: int


class Died(BaseException):
    """A worker died. Not an ``Exception``: neither the engine nor a step may catch it."""


def ids_from(first: str) -> Iterator[str]:
    """Yield the ids of the sagas of a test, which count up."""
    for number in count():
        yield f"{first[:-12]}{number:012d}"


def settle_seconds(settle: object) -> float:
    """Return the seconds for which sagas wait for a release."""
    if not isinstance(settle, timedelta):
        raise TypeError(f"settle: must be a timedelta, not {settle!r}")
    if settle < timedelta():
        raise ValueError(f"settle: must be at least 0, not {settle!r}")
    return settle.total_seconds()


def sent(value: object, declared: Any, what: str) -> Any:
    """Return a value in JSON builtins, as the body of a call. One that the API refuses for its size is refused."""
    data = encode(value, declared)
    size = len(json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode())
    if size > LARGEST_BODY:
        limit = f"is {size:,} bytes of JSON; the API takes {LARGEST_BODY:,}"
        raise TooLarge(f"{what}: {limit}: put the data into S3 and send an S3Object")
    return data


def refuse_in_an_event_loop(definition: SagaDefinition, caller: str) -> None:
    """Raise an error if a coroutine of the saga or its children cannot run, because an event loop runs already.
    ``caller``: the function that the test has called."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:
        return
    for step in definition.steps:
        for code in (step, step.undo):
            if code is not None and inspect.iscoroutinefunction(code.function):
                text = f"{caller}() was called in an event loop, in which the coroutine {code.name!r} cannot run"
                raise RuntimeError(f"{text}: call {caller}() from a plain function, or by asyncio.to_thread()")
        for child in step.children.sagas if step.children is not None else ():
            refuse_in_an_event_loop(child, caller)


def request_of(definition: SagaDefinition, request: object) -> Any:
    """Return a request in JSON builtins. Raises ``InvalidRequest`` and ``TooLarge`` as a start does."""
    try:
        data = sent(request, definition.request_type, "request")
        decode(data, definition.request_type)
    except InvalidRequest as error:
        raise InvalidRequest(f"request: {error}: {listed(error.problems)}", error.problems) from None
    return data


def check_plans(
    definition: SagaDefinition,
    fail: Mapping[str, object] | None,
    signals: Mapping[str, object] | None,
    at: Mapping[str, timedelta] | None,
) -> None:
    """Check the exceptions that attempts of a saga and its children are to raise, their signals, and the times of
    these."""
    for parameter, value in (("fail", fail), ("signals", signals), ("at", at)):
        if not isinstance(cast("object", value), Mapping | None):
            example = f'{parameter}={{"pay": ...}}'
            raise TypeError(f"{parameter}: must be a dict by step name, such as {example}, not {value!r}")
    check_fail(definition, fail or {})
    _check_signals(definition, signals or {}, at or {})


def check_fail(definition: SagaDefinition, fail: Mapping[str, object]) -> None:
    """Check the exceptions that attempts of a saga and its children are to raise."""
    for path, failing in fail.items():
        own, name = owner_of(definition, path, "fail")
        undos = [step.undo.name for step in own.steps if step.undo is not None]
        names = list(dict.fromkeys([*(step.name for step in own.steps), *undos]))
        if name not in names:
            raise ValueError(f'fail: {own.name} has no step or undo "{name}"; it has {", ".join(names)}')
        each = cast("Sequence[object]", failing) if isinstance(failing, list | tuple) else [failing]
        for item in each:
            raises = issubclass(item if isinstance(item, type) else type(item), BaseException)
            if not raises and (item is not None or each is not failing):
                raise TypeError(f'fail: "{path}" must be an exception or its class, or a list of them, not {failing!r}')
        if any(step.name == name and not step.asks for step in own.steps):
            raise ValueError(f'fail: "{path}" only waits, so it has no code that can fail')


def owner_of(definition: SagaDefinition, path: str, parameter: str) -> tuple[SagaDefinition, str]:
    """Return the saga type that a path like ``payouts[3].pay`` leads to, and the name at the end of the path."""
    while match := CHILD.match(path):
        name = match[1]
        position = int(match[2])
        remaining = match[3]
        step = next((declared for declared in definition.steps if declared.name == name), None)
        if step is None or step.children is None:
            raise ValueError(f'{parameter}: {definition.name} has no step "{name}" with children')
        types = step.children.sagas
        if step.children.several and position >= len(types):
            raise ValueError(f'{parameter}: the step "{name}" has {len(types)} children, counted from 0')
        definition = types[position if step.children.several else 0]
        path = remaining
    return definition, path


def _check_signals(definition: SagaDefinition, signals: Mapping[str, object], at: Mapping[str, timedelta]) -> None:
    for path, value in signals.items():
        own, name = owner_of(definition, path, "signals")
        waits = {step.name: step for step in own.steps if step.waits_for == "signal"}
        if name not in waits:
            names = ", ".join(waits) or "none"
            raise ValueError(f'signals: {own.name} has no wait "{name}" for a signal; it has {names}')
        try:
            sent(value, waits[name].signal_type, f'signals: "{path}"')
        except InvalidRequest as error:
            raise TypeError(f'signals: "{path}": {error}: {listed(error.problems)}') from None
    for name, after in at.items():
        if name not in signals:
            raise ValueError(f'at: signals has no "{name}"')
        if not isinstance(cast("object", after), timedelta):
            raise TypeError(f'at: "{name}" must be a timedelta since its wait began, not {after!r}')
