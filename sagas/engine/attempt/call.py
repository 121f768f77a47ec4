"""Calls user code: converts its inputs and results, and handles its exceptions."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from contextvars import copy_context
from datetime import datetime
from types import AsyncGeneratorType, GeneratorType
from typing import Any, Literal, Self, cast

from sagas.authoring.codec import decode, encode
from sagas.authoring.definition.definition import (
    Condition,
    Parameter,
    SagaDefinition,
    StepDefinition,
    StepSource,
    UndoDefinition,
)
from sagas.authoring.policies import LONGEST_WAIT
from sagas.authoring.redaction import REQUEST
from sagas.authoring.shapes.compiler import type_name
from sagas.core.ids import types_hash
from sagas.core.states import SagaState
from sagas.engine.attempt.context import StepContext
from sagas.engine.attempt.course import Value
from sagas.errors import (
    InvalidRequest,
    NotYet,
    PermanentError,
    SagaError,
    TimedOut,
    TypeChanged,
    WrongResult,
    leaves,
    listed,
    text_of,
)
from sagas.store.journal.entries import REQUEST_SEQ

_CHILDREN_CHANGED = "its children have other types now, or another order"
CallsCode = Callable[
    [SagaDefinition, StepDefinition, bool, Mapping[str, str | None], StepContext, Callable[[], None], Collection[str]],
    str | None,
]
"""The function that calls the code of steps and undos: :func:`call_code` with its first argument."""
LARGEST_RESULT = 4_000_000
"""A step may return this many bytes of JSON. Larger results would not fit into a response of the API."""


_NO_STATE = "each attempt has an instance of its own; return the value, and let the later step take it as a parameter"


class StepExited(SagaError):
    """User code called ``sys.exit``, raised ``GeneratorExit`` or cancelled its own task. The attempt failed, but the
    function continues."""


def inputs_needed(parameters: tuple[Parameter, ...], state: SagaState) -> dict[str, int]:
    """Return the number of the journal entry for each parameter with a payload; 0 if there is no entry."""
    results = {step.name: step.result_seq for step in state.steps}
    needed: dict[str, int] = {}
    for parameter in parameters:
        if parameter.source is StepSource.REQUEST:
            needed[parameter.name] = REQUEST_SEQ
        elif parameter.source is StepSource.RESULT:
            needed[parameter.name] = results.get(parameter.step or "", 0)
    return needed


def check_results(parameters: tuple[Parameter, ...], state: SagaState) -> None:
    """Raise TypeChanged for code that takes a result which the saga does not have. The code does not fit it, and
    another release may."""
    results = {step.name: step.result_seq for step in state.steps}
    for parameter in parameters:
        if parameter.source is StepSource.RESULT and not parameter.optional:
            if parameter.step not in results:
                raise TypeChanged(f"this saga was started without the step {parameter.step!r}")
            if not results[parameter.step]:
                raise TypeChanged(f"in this saga the step {parameter.step!r} has no result yet")


def secrets_in(definition: SagaDefinition, parameters: tuple[Parameter, ...], values: Mapping[str, Value]) -> list[str]:
    """Return the redacted values in the inputs of a step or undo, as texts to search for: as they are stored, and as
    the code gets them, with defaults and after an ``upcast``."""
    secrets = list[str]()
    redaction = definition.redaction
    for parameter in parameters:
        text, hidden = values.get(parameter.name, Value(None))
        source = parameter.step or REQUEST
        if text is None or not (hidden or source in redaction.hidden):
            continue
        stored = json.loads(text)
        secrets += redaction.view(source, stored, hidden)[1]
        with suppress(Exception):  # the code does not get a value that does not fit, or that cannot be written again
            given = encode(definition.stored(source, stored), redaction.types[source])
            secrets += redaction.view(source, given, hidden)[1]
    return secrets


def changed_children(definition: SagaDefinition, state: SagaState) -> list[str]:
    """Return the steps whose children had other types, or another order, when this saga started them."""
    was = {step.name: step.fan_out.of for step in state.steps if step.fan_out.of}
    return [
        step.name
        for step in definition.steps
        if step.children is not None
        and step.name in was
        and was[step.name] != types_hash(saga.name for saga in step.children.sagas)
    ]


def new_instance(definition: SagaDefinition) -> Any:
    """Return the instance that the saga's ``create()`` returns. Its exceptions propagate."""
    instance: Any = definition.saga_class.create()
    if instance is None or inspect.iscoroutine(instance):  # create() lacks a return, or is async
        expected = f"it must return an instance of {definition.saga_class.__name__}"
        raise TypeError(f"create() returned {type(instance).__name__}; {expected}")
    return instance


def call_code(
    await_result: Callable[[Awaitable[Any], StepContext], Any],
    definition: SagaDefinition,
    step: StepDefinition,
    undo: bool,
    payloads: Mapping[str, str | None],
    context: StepContext,
    began: Callable[[], None],
    changed: Collection[str],
) -> str | None:
    """Call a step, or its undo, on an instance and with context variables of its own. Returns the result as JSON text;
    ``None`` for an undo. ``await_result`` awaits what ``async`` code returned. ``changed``: steps whose results cannot
    be used, even if they match their types."""
    code = step.code(undo=undo)
    arguments = _arguments(definition, code.parameters, payloads, context, changed)
    result = copy_context().run(_result, await_result, definition, code, arguments, context, began)
    if isinstance(code, UndoDefinition):
        if kind := _not_run(result):
            fault = f"returned a {kind} that has not run; it must have done its work when it returns"
            raise WrongResult(f"compensation {code.name!r} {fault}")
        if code.declares_none and result is not None:
            raise WrongResult(f"compensation {code.name!r} returned {type(result).__name__}, but declares None")
        return None
    return _written(step, result)


def why_skipped(
    definition: SagaDefinition, condition: Condition, payloads: Mapping[str, str | None], changed: Collection[str]
) -> str:
    """Return why a step with this condition is skipped; empty if it runs. The condition is called with context
    variables of its own. ``changed``: as for :func:`call_code`."""
    arguments = _arguments(definition, condition.parameters, payloads, None, changed)
    try:
        answer = cast("object", copy_context().run(condition.function, **arguments))
    except Exception as error:
        for leaf in leaves(error):
            if isinstance(leaf, NotYet | TypeChanged):  # what these say of a step, no condition can say
                expected = "it must return True or False"
                raise WrongResult(f"when: {condition.name} raised {type(leaf).__name__}; {expected}") from error
        raise
    except BaseException as error:
        ends: tuple[type[BaseException], ...] = (SystemExit, GeneratorExit, *_of_asyncio("CancelledError"))
        if isinstance(error, ends):
            raise StepExited(f"when: {condition.name} raised {type(error).__name__}") from error
        raise
    if not isinstance(answer, bool):
        raise WrongResult(f"when: {condition.name} returned {type(answer).__name__}, not bool")
    return "" if answer else f"{condition.name} is false"


def _arguments(
    definition: SagaDefinition,
    parameters: tuple[Parameter, ...],
    payloads: Mapping[str, str | None],
    context: StepContext | None,
    changed: Collection[str],
) -> dict[str, Any]:
    """Return the arguments of code. A payload is read as its producer's type: the consumer may declare only a part of
    it."""
    arguments: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.source is StepSource.CONTEXT:
            arguments[parameter.name] = context
            continue
        text = payloads[parameter.name]
        source = parameter.step or REQUEST
        misfit = _CHILDREN_CHANGED if parameter.step in changed else ""
        arguments[parameter.name] = None if text is None else definition.stored(source, json.loads(text), misfit)
    return arguments


def _result(
    await_result: Callable[[Awaitable[Any], StepContext], Any],
    definition: SagaDefinition,
    code: StepDefinition | UndoDefinition,
    arguments: dict[str, Any],
    context: StepContext,
    began: Callable[[], None],
) -> Any:
    """Return the code's result if it came in time. A late result is refused, but a late ``PermanentError`` is not."""
    instance = new_instance(definition)
    began()
    try:
        result = _called(await_result, definition, code, instance, arguments, context)
    except BaseException as error:
        if isinstance(error, AttributeError) and error.obj is instance:
            error.add_note(_NO_STATE)
        cancelled = isinstance(error, _of_asyncio("CancelledError"))
        if not cancelled and not isinstance(error, Exception | SystemExit | GeneratorExit):
            raise
        if context.overtime >= 0 and not any(isinstance(leaf, PermanentError) for leaf in leaves(error)):
            context.refuse()
            end = "it was cancelled" if cancelled else f"it raised {type(error).__name__}: {text_of(error)}"
            raise TimedOut(_too_late(context, code.timeout, end)) from error
        if isinstance(error, SystemExit):
            raise StepExited(f"the step called sys.exit({text_of(error)})") from error
        if isinstance(error, GeneratorExit):
            raise StepExited("the step raised GeneratorExit") from error
        if cancelled:
            context.raise_if_cancelled()
            raise StepExited("the step was cancelled by its own code") from error
        raise
    if context.overtime >= 0:
        context.refuse()
        raise TimedOut(_too_late(context, code.timeout, "its result is refused"))
    return result


def _called(
    await_result: Callable[[Awaitable[Any], StepContext], Any],
    definition: SagaDefinition,
    code: StepDefinition | UndoDefinition,
    instance: Any,
    arguments: dict[str, Any],
    context: StepContext,
) -> Any:
    """Return what the code returns, within the instance's ``around``. A function that returns the end of a sleep or the
    requests of children is called without it."""
    entered = isinstance(code, UndoDefinition) or code.waits_for in ("", "signal")
    with _Around(definition.saga_class.around(instance, context)) if entered else nullcontext():
        result = code.function(instance, **arguments)
        if not inspect.isawaitable(result):
            return result
        try:
            return await_result(result, context)
        finally:
            context.resume()


class _Around(ExitStack):
    """Enters an ``around``, which may raise, but not swallow an exception."""

    def __init__(self, around: AbstractContextManager[object]) -> None:
        super().__init__()
        self._around = around

    def __enter__(self) -> Self:
        self.enter_context(self._around)
        return self

    def __exit__(self, *raised: Any) -> Literal[False]:
        _, error, _ = raised
        if super().__exit__(*raised) and error is not None:
            raise WrongResult("around must not swallow an exception") from error
        return False


def moment(payload: str | None, now: float) -> float:
    """Return the epoch seconds until which a step makes the saga wait. ``now``: epoch seconds."""
    until: datetime = decode(json.loads(payload or "null"), datetime)
    if until.tzinfo is None:
        raise ValueError("until() returned a datetime without a time zone")
    if until.timestamp() > now + LONGEST_WAIT.total_seconds():
        raise ValueError(f"until() returned {until.isoformat()}; a wait can last at most 365 days")
    return max(round(until.timestamp(), 3), 0.001)


def _written(step: StepDefinition, result: object) -> str:
    """Return a step's result as JSON text."""
    try:
        written = json.dumps(encode(result, step.returned_type), separators=(",", ":"), ensure_ascii=False)
    except InvalidRequest as error:
        hint = "; is a return missing?" if result is None else ""
        declared = f"the {type_name(step.returned_type)} it declares"
        mismatch = f"the result of step {step.name!r} is not {declared}: {listed(error.problems)}{hint}"
        raise WrongResult(mismatch) from None
    except Exception as error:
        fault = f"cannot be read: {type(error).__name__}: {text_of(error)}"
        raise WrongResult(f"the result of step {step.name!r} {fault}") from error
    size = len(written.encode())
    if size > LARGEST_RESULT:
        too_large = f"is {size:,} bytes of JSON; the limit is {LARGEST_RESULT:,}"
        instead = "store it in S3 and return an S3Object"
        raise WrongResult(f"the result of step {step.name!r} {too_large}: {instead}")
    return written


def _too_late(context: StepContext, timeout: float, end: str) -> str:
    return f"it ended {context.overtime:.1f} s after its timeout of {timeout:g} s; {end}"


def _not_run(value: Any) -> str:
    """Return the type of a part of ``value`` that was not run, such as a generator or an open future; empty if none."""
    seen = set[int]()
    remaining = [value]
    futures = (Future, *_of_asyncio("Future"))
    while remaining:
        part = remaining.pop()
        if isinstance(part, futures):
            future = cast("Future[Any]", part)
            if not future.done() or future.cancelled() or future.exception() is not None:
                return type(future).__name__
        elif isinstance(part, GeneratorType | AsyncGeneratorType | map | filter) or inspect.isawaitable(part):
            return type(cast("object", part)).__name__
        elif isinstance(part, dict | list | tuple | set | frozenset) and id(cast("object", part)) not in seen:
            seen.add(id(cast("object", part)))
            remaining += cast("dict[Any, Any]", part).values() if isinstance(part, dict) else cast("list[Any]", part)
    return ""


def _of_asyncio(name: str) -> tuple[type[Any], ...]:
    """Return a class of asyncio; empty if asyncio is not imported, because the class then has no instances."""
    asyncio = sys.modules.get("asyncio")
    return () if asyncio is None else (getattr(asyncio, name),)
