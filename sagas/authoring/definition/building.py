"""From a saga class to its frozen definition, with every mistake found on the way."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, cast

from sagas.authoring.definition.definition import (
    DEFINITION,
    ChildrenDefinition,
    Parameter,
    SagaDefinition,
    Source,
    StepDefinition,
    UndoDefinition,
)
from sagas.authoring.definition.instance_state import check_instance_state
from sagas.authoring.definition.members import AnyStep, Members
from sagas.authoring.find_by import find_by_of
from sagas.authoring.options import SagaOptions
from sagas.authoring.policies import DEFAULT_RETRY, LONGEST_WAIT, CircuitBreaker, Exhausted, Retry
from sagas.authoring.redaction import REQUEST, redaction_of
from sagas.authoring.shapes.base import UnsupportedType
from sagas.authoring.shapes.compiler import shape_of, type_name
from sagas.authoring.signatures.assignability import can_hold, can_hold_context, is_optional
from sagas.authoring.signatures.scope import Scope, resolve
from sagas.authoring.signatures.signatures import Signature, as_method, read_signature
from sagas.authoring.steps import Step, WaitOptions
from sagas.errors import DefinitionError

MAX_TIMEOUT = 890
"""Seconds. Lambda ends a function after 900; the rest is for the commit."""

MAX_RETRY_SECONDS = 14 * 24 * 3600
"""SQS keeps a message for at most 14 days."""

DEEPEST = 5
"""Sagas that may be children of each other, the topmost one counted."""

_FIXED = ("request", "ctx")


@dataclass(slots=True)
class _Builder:
    """One run: what is known of the class, and the steps made so far."""

    where: str
    name: str
    request_type: Any
    members: Members
    scope: Scope
    bound: dict[Any, Any]
    reserved: frozenset[str]
    module: dict[str, Any]
    made: list[StepDefinition] = field(default_factory=list[StepDefinition])

    def check_names(self) -> None:
        """Check the names of steps, undos and results against each other and against what is reserved."""
        undos = {undo.name for undo in self.members.undos.values()}
        results: dict[str, str] = {}
        for name, step in self.members.steps.items():
            where = f'{self.where}: step "{name}"'
            self._check_name(name, where)
            result = name if step.options.result is None else step.options.result
            self._check_name(result, f"{where}: result {result!r}")
            other = results.setdefault(result, name)
            if other != name:
                raise DefinitionError(f'{where}: its result is called "{result}" like that of step "{other}"')
            if result != name and (result in self.members.steps or result in undos):
                raise DefinitionError(f'{where}: its result is called "{result}" like another step or compensation')
        for undo in undos:
            self._check_name(undo, f'{self.where}: compensation "{undo}"')

    def _check_name(self, name: Any, where: str) -> None:
        if not (isinstance(name, str) and name.isidentifier() and name.isascii() and len(name) <= 40):
            raise DefinitionError(f"{where}: a name is an ASCII identifier of at most 40 characters")
        if name in _FIXED:
            raise DefinitionError(f'{where}: the name "{name}" is taken: it fills a parameter of every step')
        if name in self.reserved or name.startswith("__"):
            raise DefinitionError(f'{where}: the name "{name}" is taken by a member of Saga')

    def add_step(self, name: str, step: AnyStep) -> None:
        """Make the definition of the next step and of its undo."""
        where = f'{self.where}: step "{name}"'
        options = step.options
        retry, timeout = _policies(options.retry, options.timeout, where)
        breaker = cast("object", options.circuit_breaker)
        if breaker is not None and not isinstance(breaker, CircuitBreaker):
            raise DefinitionError(f"{where}: circuit_breaker must be a CircuitBreaker, not {breaker!r}")
        if options.undo_when not in ("completed", "started"):
            raise DefinitionError(f'{where}: undo_when must be "completed" or "started", not {options.undo_when!r}')
        on_exhausted = self._policy(step, retry.on_exhausted, "on_exhausted", where)
        definition = StepDefinition(
            name=name,
            function=_asks_nobody,
            parameters=(),
            result=name if options.result is None else options.result,
            result_type=None,
            retry=retry,
            timeout=timeout,
            on_exhausted=on_exhausted,
            circuit_breaker=options.circuit_breaker,
            undo_when=options.undo_when,
            retired=bool(options.retired),
            pivot=options.pivot,
        )
        self._check_pivot(definition, where)
        if options.wait is not None:
            definition = self._wait(definition, step, options.wait, where)
        else:
            definition = self._step(definition, step, where)
        undo, pivot = self.members.undos.get(name), self._pivot_before(step)
        self.made.append(definition)
        if undo is None:
            return
        where = f'{where}: compensation "{undo.name}"'
        if definition.children is not None:
            raise DefinitionError(f"{where}: children are undone by their own compensations")
        if definition.pivot:
            raise DefinitionError(f"{where}: a pivot has no undo: it is the point of no return")
        if pivot:
            raise DefinitionError(f'{where}: the step is behind the pivot "{pivot}", where nothing is undone')
        given = undo.options.retry
        if isinstance(given, Retry) and given.on_exhausted not in (None, Exhausted.COMPENSATE):
            raise DefinitionError(
                f"{where}: its retry has on_exhausted, but an undo that fails always needs an operator"
            )
        retry, timeout = _policies(
            retry if undo.options.retry is None else undo.options.retry,
            timeout if undo.options.timeout is None else undo.options.timeout,
            where,
        )
        signature = read_signature(undo.function, self.scope, self.bound, where)
        if signature.says_return and not can_hold(None, signature.returns):
            raise DefinitionError(f"{where}: it returns {type_name(signature.returns)}; an undo returns None")
        # the step is made already: its undo may take its result
        parameters = self._parameters(signature, where, retired=definition.retired, undone=definition)
        none = signature.returns in (None, type(None))
        self.made[-1] = replace(
            definition, undo=UndoDefinition(undo.name, undo.function, parameters, retry, timeout, declares_none=none)
        )

    def _pivot_before(self, step: AnyStep) -> str:
        """The name of the pivot that new sagas take before a step; empty if there is none."""
        pivots = (made.name for made in self.made if made.pivot and not made.retired)
        return "" if step.options.retired else next(pivots, "")

    def _policy(self, step: AnyStep, given: Exhausted | None, option: str, where: str) -> Exhausted:
        """What happens when a step has failed for good. Behind a pivot nothing that undoes the saga, or ends it."""
        pivot = self._pivot_before(step)
        if pivot and given in (Exhausted.COMPENSATE, Exhausted.FAIL):
            told = f'{option} must be DEAD_LETTER or CONTINUE behind the pivot "{pivot}", where nothing is undone'
            raise DefinitionError(f"{where}: {told}, not {given}")
        return given or (Exhausted.DEAD_LETTER if pivot else Exhausted.COMPENSATE)

    def _check_pivot(self, definition: StepDefinition, where: str) -> None:
        if not isinstance(cast("object", definition.pivot), bool):
            raise DefinitionError(f"{where}: pivot must be True or False, not {definition.pivot!r}")
        if not definition.pivot or definition.retired:
            return
        for made in self.made:
            if made.pivot and not made.retired:
                raise DefinitionError(f'{where}: a saga has one pivot at most, and "{made.name}" is one')
        if definition.on_exhausted is Exhausted.CONTINUE:
            raise DefinitionError(f"{where}: a pivot cannot have Exhausted.CONTINUE: a saga does not go on without it")

    def _step(self, definition: StepDefinition, step: AnyStep, where: str) -> StepDefinition:
        """Complete the definition of a step that does something itself."""
        signature = read_signature(step.function, self.scope, self.bound, where)
        if not signature.says_return:
            raise DefinitionError(f"{where}: it has no return annotation; a step without a result returns None")
        self.check_type(signature.returns, f"{where}: the result")
        patience, goes_on = step.options.patience, definition.on_exhausted is Exhausted.CONTINUE
        if patience is not None and not (
            isinstance(cast("object", patience), timedelta) and timedelta(0) < patience <= LONGEST_WAIT
        ):
            raise DefinitionError(
                f"{where}: patience must be a positive timedelta of at most a year (365 days), not {patience!r}"
            )
        if goes_on and patience is None:
            raise DefinitionError(f"{where}: Exhausted.CONTINUE is for waits, and for steps with patience")
        if goes_on and not is_optional(signature.returns):
            raise DefinitionError(f'{where}: its result must be annotated "... | None": it goes on without one')
        return replace(
            definition,
            function=step.function,
            parameters=self._parameters(signature, where, retired=definition.retired),
            result_type=signature.returns,
            patience=definition.patience if patience is None else patience.total_seconds(),
        )

    def _wait(self, definition: StepDefinition, step: AnyStep, wait: WaitOptions, where: str) -> StepDefinition:
        """Complete the definition of a wait, which may have code that asks, or that says until when."""
        if definition.on_exhausted is Exhausted.CONTINUE:
            raise DefinitionError(f"{where}: its retry cannot have Exhausted.CONTINUE; on_timeout can")
        if wait.kind == "children":
            return self._children(definition, step, wait, where)
        length = 0.0 if wait.length is None else wait.length.total_seconds()
        on_timeout = self._policy(step, wait.on_timeout, "on_timeout", where)
        definition = replace(definition, waits_for=wait.kind, wait=length, asks=False, on_timeout=on_timeout)
        if wait.kind == "time":
            if wait.until is None:
                return replace(definition, result_type=type(None))
            function = as_method(wait.until, f"{where}: until")
            signature = read_signature(function, self.scope, self.bound, f"{where}: until")
            if signature.returns is not datetime:
                told = type_name(signature.returns) if signature.says_return else "nothing"
                raise DefinitionError(f"{where}: until is annotated to return {told}, not a datetime")
            parameters = self._parameters(signature, f"{where}: until", retired=False)
            return replace(definition, result_type=type(None), function=function, parameters=parameters, asks=True)
        try:
            value = resolve(wait.value, self.module, self.scope)
        except DefinitionError as error:
            raise DefinitionError(f"{where}: the type of its signal {error}") from None
        self.check_type(value, f"{where}: the signal")
        result = value | None if wait.on_timeout is Exhausted.CONTINUE and not is_optional(value) else value
        definition = replace(definition, signal_type=value, result_type=result, public=wait.public)
        if not isinstance(step, Step) and wait.public:
            told = "public=True needs a method that passes ctx.callback_url on; without one nobody learns the URL"
            raise DefinitionError(f"{where}: {told}. Write @wait_for(..., public=True) over that method")
        if not isinstance(step, Step):
            return definition
        signature = read_signature(step.function, self.scope, self.bound, where)
        if signature.says_return and not can_hold(None, signature.returns):
            told = type_name(signature.returns)
            raise DefinitionError(f"{where}: it returns {told}; code that asks returns None, the result is the signal")
        parameters = self._parameters(signature, where, retired=False)
        return replace(definition, function=step.function, parameters=parameters, asks=True)

    def _children(self, definition: StepDefinition, step: AnyStep, wait: WaitOptions, where: str) -> StepDefinition:
        """Complete the definition of a step that starts other sagas."""
        sagas: list[SagaDefinition] = []
        for one in wait.types:
            found = vars(one).get(DEFINITION)
            if not isinstance(found, SagaDefinition):
                raise DefinitionError(f"{where}: {one.__name__} is no saga class, or is a base only")
            sagas.append(found)
            if self.name in [found.name, *(other.name for other in found.family)]:
                raise DefinitionError(f'{where}: saga "{self.name}" would start itself, by "{found.name}"')
        deep = 1 + max(one.depth for one in sagas)
        if deep > DEEPEST:
            raise DefinitionError(f"{where}: with its children it is {deep} sagas deep, {DEEPEST} are the most")
        several = len(sagas) > 1
        requests: Any = list[sagas[0].request_type]
        if several:
            requests = tuple[tuple(one.request_type for one in sagas)]
        signature = read_signature(step.function, self.scope, self.bound, where)
        if not signature.says_return or not can_hold(requests, signature.returns):
            told = type_name(signature.returns) if signature.says_return else "nothing"
            raise DefinitionError(f"{where}: it is annotated to return {told}, not the requests: {type_name(requests)}")
        absent = wait.tolerate > 0 or wait.on_timeout is Exhausted.CONTINUE
        results = [one.result_step.result_type for one in sagas]
        results = [one if not absent or is_optional(one) else one | None for one in results]
        of_children = ChildrenDefinition(
            tuple(sagas), requests, several, wait.concurrency, wait.tolerate, wait.in_reverse
        )
        return replace(
            definition,
            waits_for="children",
            on_timeout=self._policy(step, wait.on_timeout, "on_failed", where),
            function=step.function,
            parameters=self._parameters(signature, where, retired=False),
            result_type=tuple[tuple(results)] if several else list[results[0]],
            children=of_children,
        )

    def _parameters(
        self, signature: Signature, where: str, *, retired: bool, undone: StepDefinition | None = None
    ) -> tuple[Parameter, ...]:
        """Find what fills each parameter, by its name."""
        parameters: list[Parameter] = []
        for name, type_ in signature.parameters.items():
            here = f'{where}: parameter "{name}"'
            if name == "request":
                _check_holds(type_, self.request_type, "the request", here)
                parameters.append(Parameter(name, Source.REQUEST, type_))
                continue
            if name == "ctx":
                if not can_hold_context(type_):
                    raise DefinitionError(f"{here} is annotated {type_name(type_)}, which cannot hold the Context")
                parameters.append(Parameter(name, Source.CONTEXT, type_))
                continue
            producer = self._producer(name, here)
            if producer.retired and not retired:
                text = f'is the result of the retired step "{producer.name}", which new sagas skip'
                raise DefinitionError(f"{here} {text}")
            _check_holds(type_, producer.result_type, f'the result of step "{producer.name}"', here)
            polls = self.members.steps[producer.name].options.patience is not None
            if producer is undone and (polls or producer.undo_when == "started") and not is_optional(type_):
                why = "with patience=, as a step that raised NotYet is undone though it never completed,"
                why = 'with undo_when="started"' if producer.undo_when == "started" else why
                raise DefinitionError(f'{here} must be annotated "... | None": {why} it may be absent')
            optional = producer is undone and is_optional(type_)
            goes_on = Exhausted.CONTINUE in (producer.on_exhausted, producer.on_timeout)
            optional = optional or (goes_on and producer.children is None)  # which have a result all the same
            parameters.append(Parameter(name, Source.RESULT, type_, producer.name, optional))
        return tuple(parameters)

    def _producer(self, name: str, where: str) -> StepDefinition:
        """Return the step made so far whose result is called ``name``."""
        for made in self.made:
            if made.result == name:
                return made
        for step in self.members.steps.values():
            if name not in (step.options.result, step.name):
                continue
            why = f'is the result of step "{step.name}", which is not an earlier step'
            if any(made.name == step.name for made in self.made):
                why = f'is unknown: the result of step "{step.name}" is called "{step.options.result}"'
            raise DefinitionError(f"{where} {why}")
        known = ", ".join([*_FIXED, *(made.result for made in self.made)])
        raise DefinitionError(f"{where} is unknown; known here are {known}")

    def check_type(self, type_: Any, what: str) -> None:
        """Check that values of a type can be kept."""
        try:
            shape_of(type_, self.scope.names)
        except UnsupportedType as error:
            raise DefinitionError(f"{what} is of an unsupported type: {error}") from None


def _asks_nobody(instance: object) -> None:
    """Stand for the code of a wait that has none."""


def _check_holds(type_: Any, produced: Any, producer: str, where: str) -> None:
    if not can_hold(type_, produced):
        raise DefinitionError(
            f"{where} is annotated {type_name(type_)}, which cannot hold {producer}, a {type_name(produced)}"
        )


def _policies(retry: object, timeout: object, where: str) -> tuple[Retry, float]:
    if retry is None:
        retry = DEFAULT_RETRY
    if not isinstance(retry, Retry):
        raise DefinitionError(f"{where}: retry must be a Retry, not {retry!r}")
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds <= MAX_TIMEOUT:
        told = f"timeout must be seconds or a timedelta, over 0 and at most {MAX_TIMEOUT} seconds, not {timeout!r}"
        raise DefinitionError(f"{where}: {told}")
    if retry.longest_wait > MAX_RETRY_SECONDS:
        raise DefinitionError(f"{where}: all retries together may wait longer than 14 days, which SQS does not")
    return retry, float(seconds)


def build(
    cls: type[Any],
    options: SagaOptions,
    request_type: Any,
    members: Members,
    *,
    scope: Scope,
    bound: dict[Any, Any],
    reserved: Iterable[str],
) -> SagaDefinition:
    """Return the definition of a saga class."""
    where = f'{cls.__name__} (saga "{options.name}")'
    module: dict[str, Any] = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}
    builder = _Builder(where, options.name, request_type, members, scope, bound, frozenset(reserved), module)
    builder.check_type(request_type, f"{where}: the request")
    builder.check_names()
    if all(step.options.retired for step in members.steps.values()):
        raise DefinitionError(f"{where}: it has no steps; decorate methods with @step")
    for name, step in members.steps.items():
        builder.add_step(name, step)
    check_instance_state(cls, where, builder.made)
    current = [step for step in builder.made if not step.retired]
    if not any(step.asks for step in current):
        raise DefinitionError(f"{where}: it only waits; decorate a method with @step")
    if options.result is not None and all(options.result not in (step.result, step.name) for step in current):
        known = ", ".join(step.result for step in current)
        raise DefinitionError(f'{where}: the class keyword result names no step: "{options.result}"; known are {known}')
    types = {REQUEST: request_type} | {step.name: step.result_type for step in builder.made}
    of_children = {step.name: step.children.hidden for step in builder.made if step.children is not None}
    redaction = redaction_of(where, types, options.redact, of_children)
    return SagaDefinition(
        name=options.name,
        version=options.version,
        saga_class=cls,
        request_type=request_type,
        steps=tuple(builder.made),
        lock_expiry=options.lock_expiry,
        stale_after=options.stale_after,
        max_recovery_attempts=options.max_recovery_attempts,
        auto_disable=options.auto_disable,
        orphans=options.orphans,
        description=inspect.cleandoc(vars(cls).get("__doc__") or ""),
        timeout=options.timeout,
        result=options.result,
        cancellable=options.cancellable,
        redaction=redaction,
        find_by=find_by_of(where, request_type, redaction, options.find_by),
    )
