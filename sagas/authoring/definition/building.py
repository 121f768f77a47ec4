"""Builds the frozen definition of a saga class, and reports mistakes in the class."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from sagas.authoring.definition.definition import (
    DEFINITION,
    ChildrenDefinition,
    Condition,
    Parameter,
    SagaDefinition,
    SagaOptions,
    StepDefinition,
    StepSource,
    UndoDefinition,
    is_exception_types,
    is_step_name,
)
from sagas.authoring.definition.members import AnyStep, Members
from sagas.authoring.policies import (
    DEFAULT_RETRY,
    LONGEST_WAIT,
    MAX_TIMEOUT,
    CircuitBreaker,
    Exhausted,
    Retry,
    attempt_seconds,
)
from sagas.authoring.redaction import REQUEST, redaction_of
from sagas.authoring.shapes.base import UnsupportedType
from sagas.authoring.shapes.compiler import shape_of, type_name
from sagas.authoring.signatures import (
    NameScope,
    Signature,
    as_method,
    bare,
    can_hold,
    can_hold_context,
    is_optional,
    names_none,
    read_signature,
    resolve,
)
from sagas.authoring.steps import DEFAULT_TIMEOUT, Step, Undoable, WaitOptions
from sagas.errors import DefinitionError, NotYet, PermanentError, WrongResult

if TYPE_CHECKING:
    from sagas.authoring.search_keys import SearchKey

MAX_RETRY_SECONDS = 14 * 24 * 3600
"""SQS keeps a message for at most 14 days."""

DEEPEST = 5
"""The maximum number of levels of sagas below each other, including the top level."""

_FIXED = ("request", "ctx")


class _Builder(Struct):
    """The class that is being read, and the steps defined so far."""

    where: str
    options: SagaOptions
    request_type: Any
    members: Members
    scope: NameScope
    bound: dict[Any, Any]
    reserved: frozenset[str]
    module: dict[str, Any]
    steps: list[StepDefinition] = field(default_factory=list[StepDefinition])

    def check_names(self) -> None:
        """Check that the names of all steps, undos and results are valid, unique and not reserved."""
        undos = {undo.name for undo in self.members.undos.values()}
        methods = self.members.methods
        results: dict[str, str] = {}
        for name, step in self.members.steps.items():
            where = f'{self.where}: step "{name}"'
            method = methods[name]
            self._check_name(method, where)
            if name in _FIXED:
                raise DefinitionError(f'{where}: the name "{name}" is reserved for a parameter of every step')
            result = method if step.options.result is None else step.options.result
            self._check_name(result, f"{where}: result {result!r}")
            other = results.setdefault(result, name)
            if other != name:
                raise DefinitionError(
                    f'{where}: its result has the same name as the result of step "{other}": "{result}"'
                )
            if result not in (name, method) and (result in methods or result in methods.values() or result in undos):
                raise DefinitionError(
                    f'{where}: its result has the same name as another step or compensation: "{result}"'
                )
        for undo in undos:
            self._check_name(undo, f'{self.where}: compensation "{undo}"')

    def _check_name(self, name: Any, where: str) -> None:
        if not (isinstance(name, str) and is_step_name(name)):
            raise DefinitionError(f"{where}: a name must be an ASCII identifier of at most 40 characters")
        if name in _FIXED:
            raise DefinitionError(f'{where}: the name "{name}" is reserved for a parameter of every step')
        if name in self.reserved or name.startswith("__"):
            raise DefinitionError(f'{where}: the name "{name}" is reserved: it is a member of Saga')

    def add_step(self, name: str, step: AnyStep) -> None:
        """Add the definitions of the next step and its undo."""
        where = f'{self.where}: step "{name}"'
        options = step.options
        retry, timeout = _policies(
            _first(options.retry, self.options.retry, DEFAULT_RETRY),
            _first(options.timeout, self.options.step_timeout, DEFAULT_TIMEOUT),
            where,
        )
        breaker = cast("object", options.circuit_breaker)
        if breaker is not None and not isinstance(breaker, CircuitBreaker):
            raise DefinitionError(f"{where}: circuit_breaker must be a CircuitBreaker, not {breaker!r}")
        if options.undo_when not in ("completed", "started"):
            raise DefinitionError(f'{where}: undo_when must be "completed" or "started", not {options.undo_when!r}')
        on_exhausted = self._policy(step, retry.on_exhausted, "on_exhausted", where)
        on_timeout = retry.on_exhausted if options.on_timeout is None else options.on_timeout
        definition = StepDefinition(
            name=name,
            function=_no_code,
            parameters=(),
            result=self.members.methods[name] if options.result is None else options.result,
            result_type=None,
            retry=retry,
            timeout=timeout,
            on_exhausted=on_exhausted,
            on_timeout=self._policy(step, on_timeout, "on_timeout", where),
            circuit_breaker=options.circuit_breaker,
            undo_when=options.undo_when,
            retired=options.retired,
            pivot=options.pivot,
            in_doubt_on=self._in_doubt_on(options.in_doubt_on, where),
            when=self._condition(step, where),
        )
        self._check_pivot(definition, where)
        if options.wait is not None:
            definition = self._wait(definition, step, options.wait, where)
        else:
            definition = self._step(definition, step, where)
        undo = self.members.undos.get(name)
        pivot = self._pivot_before(step)
        self.steps.append(definition)
        if undo is None:
            return
        where = f'{where}: compensation "{undo.name}"'
        if definition.children is not None:
            raise DefinitionError(f"{where}: a children step cannot have a compensation; each child undoes itself")
        if definition.pivot:
            raise DefinitionError(f"{where}: a pivot is the point of no return, so it cannot have a compensation")
        if pivot:
            raise DefinitionError(f'{where}: steps after the pivot "{pivot}" are never undone')
        undo_retry = undo.options.retry
        if isinstance(undo_retry, Retry) and undo_retry.on_exhausted not in (None, Exhausted.COMPENSATE):
            raise DefinitionError(
                f"{where}: remove on_exhausted from its retry; an undo that fails always waits for an operator"
            )
        undo_retry = _first(undo_retry, self.options.undo_retry)
        follows = undo_retry is None
        retry, timeout = _policies(_first(undo_retry, retry), _first(undo.options.timeout, timeout), where)
        signature = read_signature(undo.function, self.scope, self.bound, where)
        if signature.says_return and not can_hold(None, signature.returns):
            raise DefinitionError(
                f"{where}: it returns {type_name(signature.returns)}; a compensation must return None"
            )
        # The undo can take the step's own result, so the step is in self.steps already.
        parameters = self._parameters(signature, where, retired=definition.retired, undone=definition)
        none = signature.returns in (None, type(None))
        self.steps[-1] = replace(
            definition,
            undo=UndoDefinition(undo.name, undo.function, parameters, retry, timeout, follows, none),
        )

    def _in_doubt_on(self, own: object, where: str) -> tuple[type[BaseException], ...] | None:
        """The exception types that leave the outcome of a step in doubt: those of its class and its own."""
        _check_doubt(self.options.in_doubt_on, self.where)
        if own is None:
            return None
        if not is_exception_types(own):
            expected = "in_doubt_on must be a list of exception types, as in in_doubt_on=[BadGateway], or None"
            raise DefinitionError(f"{where}: {expected}, not {own!r}")
        types = tuple(cast("Iterable[type[BaseException]]", own))
        _check_doubt(types, where)
        return (*self.options.in_doubt_on, *types)

    def _condition(self, step: AnyStep, where: str) -> Condition | None:
        """The condition of a step: a function, or an earlier step whose result is a bool."""
        when: object = step.options.when
        if when is None:
            return None
        if step.options.pivot:
            raise DefinitionError(f"{where}: a pivot cannot be skipped: the steps behind it have no undo")
        if isinstance(when, Undoable):
            return self._result_as_condition(step, when, where)
        if not inspect.isfunction(when):
            raise DefinitionError(f"{where}: when must be a plain function, or an earlier step, not {when!r}")
        if inspect.iscoroutinefunction(when):
            raise DefinitionError(f"{where}: when must be a plain function, not a coroutine")
        if when.__name__ == "<lambda>":
            example = "write a function, as in def large(request: Order) -> bool: return request.euros > 500"
            raise DefinitionError(f"{where}: when is a lambda, which cannot have type annotations; {example}")
        method = as_method(when, f"{where}: when")
        for name in ("self", "ctx"):
            if name in inspect.signature(when).parameters:
                only = "a condition depends on the request and earlier results only"
                raise DefinitionError(f'{where}: when: parameter "{name}": {only}')
        signature = read_signature(method, self.scope, self.bound, f"{where}: when")
        if bare(signature.returns) is not bool:
            returned = f", not {type_name(signature.returns)}" if signature.says_return else ""
            raise DefinitionError(f'{where}: when must be annotated "-> bool"{returned}')
        parameters = self._parameters(signature, f"{where}: when", retired=step.options.retired)
        return Condition(f"{when.__name__}()", when, parameters)

    def _result_as_condition(self, step: AnyStep, when: Undoable, where: str) -> Condition:
        """The condition that an earlier step's result is true."""
        methods = self.members.methods
        producer = next((earlier for earlier in self.steps if methods[earlier.name] == when.name), None)
        if producer is None:
            raise DefinitionError(f'{where}: when: "{when.name}" is not an earlier step')
        type_ = producer.result_type if producer.when is None else producer.result_type | None
        if bare(type_) is not bool:
            raise DefinitionError(f'{where}: when: step "{producer.name}" returns {type_name(type_)}, not bool')
        signature = Signature({producer.result: bool}, bool)
        parameters = self._parameters(signature, f"{where}: when", retired=step.options.retired)
        return Condition(producer.name, _the_result, parameters)

    def _pivot_before(self, step: AnyStep) -> str:
        """The name of the pivot that new sagas run before a step; empty if there is none."""
        pivots = (earlier.name for earlier in self.steps if earlier.pivot and not earlier.retired)
        return "" if step.options.retired else next(pivots, "")

    def _policy(self, step: AnyStep, policy: Exhausted | None, option: str, where: str) -> Exhausted:
        """What happens when a step has failed for good. After a pivot, the saga must be neither undone nor ended."""
        if not isinstance(cast("object", policy), Exhausted | None):
            raise DefinitionError(f"{where}: {option} must be a member of Exhausted, not {policy!r}")
        pivot = self._pivot_before(step)
        if pivot and policy in (Exhausted.COMPENSATE, Exhausted.FAIL):
            expected = f'{option} must be DEAD_LETTER or CONTINUE after the pivot "{pivot}"'
            raise DefinitionError(f"{where}: {expected}, not {policy}; the saga must complete")
        return policy or (Exhausted.DEAD_LETTER if pivot else Exhausted.COMPENSATE)

    def _check_pivot(self, definition: StepDefinition, where: str) -> None:
        for option, value in (("pivot", definition.pivot), ("retired", definition.retired)):
            if not isinstance(cast("object", value), bool):
                raise DefinitionError(f"{where}: {option} must be True or False, not {value!r}")
        if not definition.pivot or definition.retired:
            return
        for earlier in self.steps:
            if earlier.pivot and not earlier.retired:
                raise DefinitionError(f'{where}: a saga can have only one pivot, and "{earlier.name}" is one')
        if Exhausted.CONTINUE in (definition.on_exhausted, definition.on_timeout):
            raise DefinitionError(
                f"{where}: a pivot cannot have Exhausted.CONTINUE: the saga cannot continue without it"
            )

    def _step(self, definition: StepDefinition, step: AnyStep, where: str) -> StepDefinition:
        """Complete the definition of an ordinary step."""
        signature = read_signature(step.function, self.scope, self.bound, where)
        if not signature.says_return:
            raise DefinitionError(f"{where}: add a return annotation; a step without a result returns None")
        self.check_type(signature.returns, f"{where}: the result")
        within = step.options.within
        continues = Exhausted.CONTINUE in (definition.on_exhausted, definition.on_timeout)
        if within is not None and not (
            isinstance(cast("object", within), timedelta) and timedelta(0) < within <= LONGEST_WAIT
        ):
            raise DefinitionError(f"{where}: within must be a positive timedelta of at most 365 days, not {within!r}")
        if within is None and step.options.on_timeout is not None:
            raise DefinitionError(f"{where}: on_timeout= needs within=")
        if continues and within is None:
            raise DefinitionError(f"{where}: Exhausted.CONTINUE is for waits, and for steps with within")
        if continues and not is_optional(signature.returns):
            raise DefinitionError(
                f'{where}: its result must be annotated "... | None", because the saga can continue without it'
            )
        return replace(
            definition,
            function=step.function,
            parameters=self._parameters(signature, where, retired=definition.retired),
            result_type=signature.returns,
            within=definition.within if within is None else within.total_seconds(),
        )

    def _wait(self, definition: StepDefinition, step: AnyStep, wait: WaitOptions, where: str) -> StepDefinition:
        """Complete the definition of a wait, and of its code if it has any."""
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
                returned = type_name(signature.returns) if signature.says_return else "nothing"
                raise DefinitionError(f"{where}: until is annotated to return {returned}, not a datetime")
            parameters = self._parameters(signature, f"{where}: until", retired=definition.retired)
            return replace(definition, result_type=type(None), function=function, parameters=parameters, asks=True)
        try:
            value = resolve(wait.value, self.module, self.scope)
        except DefinitionError as error:
            raise DefinitionError(f"{where}: the signal type {error}") from None
        self.check_type(value, f"{where}: the signal")
        result = value | None if wait.on_timeout is Exhausted.CONTINUE and not is_optional(value) else value
        definition = replace(definition, signal_type=value, result_type=result, public=wait.public)
        if not isinstance(step, Step) and wait.public:
            problem = "public=True needs a method that sends ctx.callback_url to somebody"
            raise DefinitionError(f"{where}: {problem}; write @wait_for(..., public=True) above such a method")
        if not isinstance(step, Step):
            return definition
        signature = read_signature(step.function, self.scope, self.bound, where)
        if signature.says_return and not can_hold(None, signature.returns):
            returned = type_name(signature.returns)
            raise DefinitionError(f"{where}: it returns {returned}; it must return None, as the result is the signal")
        parameters = self._parameters(signature, where, retired=definition.retired)
        return replace(definition, function=step.function, parameters=parameters, asks=True)

    def _children(self, definition: StepDefinition, step: AnyStep, wait: WaitOptions, where: str) -> StepDefinition:
        """Complete the definition of a step that starts other sagas."""
        sagas: list[SagaDefinition] = []
        for child in wait.types:
            saga = vars(child).get(DEFINITION)
            if not isinstance(saga, SagaDefinition):
                raise DefinitionError(f"{where}: {child.__name__} is not a saga class, or serves only as a base")
            sagas.append(saga)
            if self.options.name in [saga.name, *(other.name for other in saga.family)]:
                raise DefinitionError(f'{where}: saga "{self.options.name}" would start itself, through "{saga.name}"')
            depth = 1 + max(saga.depth for saga in sagas)
            if depth > DEEPEST:
                raise DefinitionError(
                    f"{where}: sagas can be nested {DEEPEST} deep; with its children this one is {depth} deep"
                )
        several = len(sagas) > 1
        requests: Any = list[sagas[0].request_type]
        if several:
            requests = tuple[tuple(saga.request_type for saga in sagas)]
        signature = read_signature(step.function, self.scope, self.bound, where)
        if not signature.says_return or not can_hold(requests, signature.returns):
            returned = type_name(signature.returns) if signature.says_return else "nothing"
            raise DefinitionError(f"{where}: it is annotated to return {returned}; expected {type_name(requests)}")
        absent = wait.tolerate > 0 or wait.on_timeout is Exhausted.CONTINUE
        results = [
            last.result_type | None
            if (absent or last.when is not None) and not is_optional(last.result_type)
            else last.result_type
            for last in (saga.result_step for saga in sagas)
        ]
        of_children = ChildrenDefinition(
            tuple(sagas), requests, several, wait.concurrency, wait.tolerate, wait.in_reverse
        )
        return replace(
            definition,
            waits_for="children",
            on_timeout=self._policy(step, wait.on_timeout, "on_failed", where),
            function=step.function,
            parameters=self._parameters(signature, where, retired=definition.retired),
            result_type=tuple[tuple(results)] if several else list[results[0]],
            children=of_children,
        )

    def _parameters(
        self, signature: Signature, where: str, *, retired: bool, undone: StepDefinition | None = None
    ) -> tuple[Parameter, ...]:
        """Find the source of each parameter by its name."""
        parameters: list[Parameter] = []
        for name, type_ in signature.parameters.items():
            place = f'{where}: parameter "{name}"'
            if name == "request":
                _check_holds(type_, self.request_type, "the request", place)
                parameters.append(Parameter(name, StepSource.REQUEST, type_))
                continue
            if name == "ctx":
                if not can_hold_context(type_):
                    raise DefinitionError(f"{place} is annotated {type_name(type_)}, which cannot hold the Context")
                parameters.append(Parameter(name, StepSource.CONTEXT, type_))
                continue
            producer = self._producer(name, place)
            if producer.retired and not retired:
                raise DefinitionError(
                    f'{place} is the result of the retired step "{producer.name}", which new sagas skip'
                )
            _check_holds(type_, producer.result_type, f'the result of step "{producer.name}"', place)
            skippable = producer.when is not None and producer is not undone  # a skipped step is not undone
            if skippable and not is_optional(type_):
                raise DefinitionError(f'{place} must be annotated "... | None": step "{producer.name}" can be skipped')
            polls = self.members.steps[producer.name].options.within is not None
            if producer is undone and (polls or producer.undo_when == "started") and not is_optional(type_):
                option = 'undo_when="started"' if producer.undo_when == "started" else "within="
                raise DefinitionError(
                    f'{place} must be annotated "... | None": with {option}, a step that never completed can be undone'
                )
            # Children always have a result, even if the saga continues without some of them.
            continues = producer.children is None and Exhausted.CONTINUE in (
                producer.on_exhausted,
                producer.on_timeout,
            )
            declared = names_none(type_) or (producer is undone and is_optional(type_))
            optional = declared or skippable or continues
            parameters.append(Parameter(name, StepSource.RESULT, type_, producer.name, optional))
        return tuple(parameters)

    def _producer(self, name: str, where: str) -> StepDefinition:
        """Return the earlier step whose result is called ``name``."""
        for earlier in self.steps:
            if earlier.result == name:
                return earlier
        for stored, step in self.members.steps.items():
            if name not in (step.options.result, self.members.methods[stored], stored):
                continue
            why = f'is the result of step "{stored}", which is not an earlier step'
            earlier = next((earlier for earlier in self.steps if earlier.name == stored), None)
            if earlier is not None:
                why = f'is unknown: the result of step "{stored}" is called "{earlier.result}"'
            raise DefinitionError(f"{where} {why}")
        names = ", ".join([*_FIXED, *(earlier.result for earlier in self.steps)])
        raise DefinitionError(f"{where} is unknown; expected one of {names}")

    def check_type(self, type_: Any, what: str) -> None:
        """Check that values of a type can be stored."""
        try:
            shape_of(type_, self.scope.names)
        except UnsupportedType as error:
            raise DefinitionError(f"{what} has an unsupported type: {error}") from None


def _check_doubt(types: Iterable[type[BaseException]], where: str) -> None:
    for type_ in types:
        if issubclass(type_, PermanentError | NotYet) and not issubclass(type_, WrongResult):
            raise DefinitionError(f"{where}: in_doubt_on cannot have {type_.__name__}: it says what happened")


def _the_result(**result: bool) -> bool:
    """Is the condition that the result of an earlier step, the only argument, is true."""
    return next(iter(result.values()))


def _no_code(instance: object) -> None:
    """Stands in for the function of a wait that has no code."""


def _check_holds(type_: Any, produced: Any, producer: str, where: str) -> None:
    if not can_hold(type_, produced):
        raise DefinitionError(
            f"{where} is annotated {type_name(type_)}, which cannot hold {producer} of type {type_name(produced)}"
        )


def _policies(retry: object, timeout: object, where: str) -> tuple[Retry, float]:
    if not isinstance(retry, Retry):
        raise DefinitionError(f"{where}: retry must be a Retry, not {retry!r}")
    seconds = attempt_seconds(timeout)
    if seconds is None:
        expected = f"timeout must be seconds or a timedelta, more than 0 and at most {MAX_TIMEOUT} seconds"
        raise DefinitionError(f"{where}: {expected}, not {timeout!r}")
    if retry.longest_wait > MAX_RETRY_SECONDS:
        raise DefinitionError(f"{where}: all retries together can take longer than 14 days, the limit of SQS")
    return retry, seconds


def _first(*options: object) -> object:
    """Return the first option that is set: the step's, the class's, or the library's."""
    return next((option for option in options if option is not None), None)


def build(
    cls: type[Any],
    options: SagaOptions,
    request_type: Any,
    members: Members,
    *,
    scope: NameScope,
    bound: dict[Any, Any],
    reserved: Iterable[str],
) -> SagaDefinition:
    """Return the definition of a saga class."""
    where = f'{cls.__name__} (saga "{options.name}")'
    module: dict[str, Any] = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}
    builder = _Builder(where, options, request_type, members, scope, bound, frozenset(reserved), module)
    builder.check_type(request_type, f"{where}: the request")
    builder.check_names()
    if all(step.options.retired for step in members.steps.values()):
        raise DefinitionError(f"{where}: the class has no steps, or only retired ones; decorate methods with @step")
    for name, step in members.steps.items():
        builder.add_step(name, step)
    current = [step for step in builder.steps if not step.retired]
    if options.result is not None and all(options.result not in (step.result, step.name) for step in current):
        names = ", ".join(step.result for step in current)
        raise DefinitionError(
            f'{where}: result="{options.result}" is not the result of a step; expected one of {names}'
        )
    types = {REQUEST: request_type} | {step.name: step.result_type for step in builder.steps}
    for source, function in options.upcast.items():
        if source not in types:
            raise DefinitionError(f"{where}: upcast: {source!r} is not a source; expected one of {', '.join(types)}")
        if not callable(function) or inspect.iscoroutinefunction(function):
            raise DefinitionError(f"{where}: upcast: {source!r} must be a plain function, not {function!r}")
    of_children = {step.name: step.children.hidden for step in builder.steps if step.children is not None}
    redaction = redaction_of(where, types, options.redact, of_children, options.version)
    find_by: tuple[SearchKey, ...] = ()
    if options.find_by:
        from sagas.authoring.search_keys import find_by_of

        find_by = find_by_of(where, request_type, redaction, options.find_by)
    return SagaDefinition(
        name=options.name,
        version=options.version,
        saga_class=cls,
        request_type=request_type,
        steps=tuple(builder.steps),
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
        find_by=find_by,
        upcast=dict(options.upcast),
    )
