"""Running user code: which inputs it names, what it returns, what it raises."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from datetime import datetime
from types import AsyncGeneratorType, GeneratorType
from typing import Any, cast

from sagas.authoring.codec import decode, encode
from sagas.authoring.definition.definition import Parameter, SagaDefinition, Source, StepDefinition, UndoDefinition
from sagas.authoring.definition.instance_state import note_on_instance_state
from sagas.authoring.policies import LONGEST_WAIT
from sagas.authoring.redaction import REQUEST
from sagas.authoring.shapes.compiler import type_name
from sagas.core.states import SagaState
from sagas.engine.attempt.context import StepContext
from sagas.errors import InvalidRequest, PermanentError, SagaError, TimedOut, TypeChanged, WrongResult, listed, text_of

REQUEST_SEQ = 1
"""The journal entry that holds the request."""

LARGEST_RESULT = 4_000_000
"""Bytes of JSON that a step may return: what is larger would fit into no answer of the API."""


class StepExited(SagaError):
    """User code called ``sys.exit``, or cancelled its own task: the attempt failed, the function lives on."""


def inputs_needed(parameters: tuple[Parameter, ...], state: SagaState) -> dict[str, int]:
    """Return, for each parameter that takes a payload, the journal entry that holds it; 0 where there is none."""
    results = {step.name: step.result_seq for step in state.steps}
    needed: dict[str, int] = {}
    for parameter in parameters:
        if parameter.source is Source.REQUEST:
            needed[parameter.name] = REQUEST_SEQ
        elif parameter.source is Source.RESULT:
            if parameter.step not in results:
                raise PermanentError(f"this saga was started without the step {parameter.step!r}")
            if not results[parameter.step] and not parameter.optional:
                raise PermanentError(f"in this saga the step {parameter.step!r} has no result yet")
            needed[parameter.name] = results[parameter.step]
    return needed


def secrets_in(
    definition: SagaDefinition, parameters: tuple[Parameter, ...], payloads: Mapping[str, str | None]
) -> list[str]:
    """Return the values that are not to be shown of what a step or undo was given, as texts to look for."""
    found = list[str]()
    for parameter in parameters if definition.redaction.hides else ():
        text = payloads.get(parameter.name)
        if text is not None:
            found += definition.redaction.shown(parameter.step or REQUEST, json.loads(text))[1]
    return found


def new_instance(definition: SagaDefinition) -> Any:
    """Return what the saga's ``create()`` makes; what that raises is raised."""
    instance: Any = definition.saga_class.create()
    if instance is None or inspect.iscoroutine(instance):  # a return forgotten, or a create() that is async
        raise TypeError(f"it returned {type(instance).__name__}, not an instance")
    return instance


class Runner:
    """Calls steps and undos on one instance a saga class, made on first use."""

    def __init__(self) -> None:
        self._instances: dict[type[Any], Any] = {}

    def instance(self, definition: SagaDefinition) -> Any:
        """Return the saga's instance, which its ``create()`` makes on first use; what that raises is raised."""
        if definition.saga_class not in self._instances:
            self._instances[definition.saga_class] = new_instance(definition)
        return self._instances[definition.saga_class]

    def run(
        self,
        definition: SagaDefinition,
        step: StepDefinition,
        undo: bool,
        payloads: Mapping[str, str | None],
        context: StepContext,
        began: Callable[[], None] = lambda: None,
    ) -> str | None:
        """Run a step, or its undo. Returns the result as JSON text; ``None`` for an undo."""
        code = step.code(undo=undo)
        arguments: dict[str, Any] = {}
        for parameter in code.parameters:
            if parameter.source is Source.CONTEXT:
                arguments[parameter.name] = context
                continue
            # A payload is read as what its producer declared: what takes it may declare less.
            text = payloads[parameter.name]
            producer = None if parameter.step is None else definition.step(parameter.step)
            produced = definition.request_type if producer is None else producer.result_type
            try:
                arguments[parameter.name] = None if text is None else decode(json.loads(text), produced)
            except InvalidRequest as error:
                whose = "the request" if producer is None else f"the result of step {producer.name!r}"
                told = f"{whose} does not fit {type_name(produced)} any more: {listed(error.problems)}"
                raise TypeChanged(told) from None
        instance = self.instance(definition)
        began()
        try:
            result = _called(code, instance, arguments, context)
        except Exception as error:
            _note_state(error, definition, code, instance)
            raise
        if isinstance(code, UndoDefinition):
            if kind := _not_run(result):
                told = f"returned a {kind} that has not run; it must have done its work when it returns"
                raise WrongResult(f"compensation {code.name!r} {told}")
            if code.declares_none and result is not None:
                raise WrongResult(f"compensation {code.name!r} returned {type(result).__name__}, but declares None")
            return None
        return _written(step, result)


def moment(payload: str | None, now: float) -> float:
    """Return the epoch seconds until which a step says the saga is to wait. ``now``: epoch seconds."""
    until: datetime = decode(json.loads(payload or "null"), datetime)
    if until.tzinfo is None:
        raise ValueError("until returned a datetime without a time zone")
    if until.timestamp() > now + LONGEST_WAIT.total_seconds():
        raise ValueError(f"until returned {until.isoformat()}, which is more than a year (365 days) ahead")
    return max(round(until.timestamp(), 3), 0.001)


def _written(step: StepDefinition, result: object) -> str:
    """Return a step's result as JSON text."""
    try:
        written = json.dumps(encode(result, step.returned_type), separators=(",", ":"), ensure_ascii=False)
    except InvalidRequest as error:
        hint = "; is a return missing?" if result is None else ""
        declared = f"the {type_name(step.returned_type)} it declares"
        told = f"the result of step {step.name!r} is not {declared}: {listed(error.problems)}{hint}"
        raise WrongResult(told) from None
    except Exception as error:
        told = f"cannot be read: {type(error).__name__}: {text_of(error)}"
        raise WrongResult(f"the result of step {step.name!r} {told}") from error
    size = len(written.encode())
    if size > LARGEST_RESULT:
        too_large = f"has {size:,} bytes of JSON, {LARGEST_RESULT:,} are allowed"
        rather = "keep it in S3 and return where, as an S3Object"
        raise WrongResult(f"the result of step {step.name!r} {too_large}: {rather}")
    return written


def _note_state(
    error: Exception, definition: SagaDefinition, code: StepDefinition | UndoDefinition, instance: object
) -> None:
    """Say in the stack trace who sets the attribute that the code did not find on its instance, if somebody does."""
    missing = error.__cause__ if isinstance(error, TimedOut) else error
    if isinstance(missing, AttributeError) and missing.obj is instance:
        note = note_on_instance_state(definition, code.name, missing.name or "")
        if note:
            missing.add_note(note)


def _called(
    code: StepDefinition | UndoDefinition, instance: Any, arguments: dict[str, Any], context: StepContext
) -> Any:
    """Return what the code returned in time. That it gives up (``PermanentError``) holds whenever it says so."""
    try:
        result = code.function(instance, **arguments)
        if inspect.isawaitable(result):
            from sagas.engine.attempt.coroutines import awaited_in_time

            result = awaited_in_time(result, context)
    except BaseException as error:
        cancelled = isinstance(error, _of_asyncio("CancelledError"))
        if not cancelled and not isinstance(error, Exception | SystemExit):
            raise
        if context.overtime >= 0 and not isinstance(error, PermanentError):
            told = "it was cancelled" if cancelled else f"it raised {type(error).__name__}: {text_of(error)}"
            raise TimedOut(_too_late(context, code.timeout, told)) from error
        if isinstance(error, SystemExit):
            raise StepExited(f"the step called sys.exit({text_of(error)})") from error
        if cancelled:
            context.raise_if_cancelled()
            raise StepExited("the step was cancelled by its own code") from error
        raise
    if context.overtime >= 0:
        raise TimedOut(_too_late(context, code.timeout, "what it returned is refused"))
    return result


def _too_late(context: StepContext, timeout: float, told: str) -> str:
    return f"it ended {context.overtime:.1f} s after its timeout of {timeout:g} s; {told}"


def _not_run(value: Any) -> str:
    """Return the type of what in a value has not run, or not ended without an error; empty if there is nothing."""
    seen, remaining, futures = set[int](), [value], (Future, *_of_asyncio("Future"))
    while remaining:
        one = remaining.pop()
        if isinstance(one, futures):
            future = cast("Future[Any]", one)
            if not future.done() or future.cancelled() or future.exception() is not None:
                return type(future).__name__
        elif isinstance(one, GeneratorType | AsyncGeneratorType | map | filter) or inspect.isawaitable(one):
            return type(cast("object", one)).__name__
        elif isinstance(one, dict | list | tuple | set | frozenset) and id(cast("object", one)) not in seen:
            seen.add(id(cast("object", one)))
            remaining += cast("dict[Any, Any]", one).values() if isinstance(one, dict) else cast("list[Any]", one)
    return ""


def _of_asyncio(name: str) -> tuple[type[Any], ...]:
    """Return a class of asyncio; nothing where nobody has imported it, so that there is none of its objects."""
    asyncio = sys.modules.get("asyncio")
    return () if asyncio is None else (getattr(asyncio, name),)
