"""Runs a whole saga in process: with the real engine and your code, but without AWS and without waiting."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from sagas.authoring.codec import decode, encode
from sagas.authoring.definition.definition import SagaDefinition, definition_of
from sagas.authoring.policies import Exhausted
from sagas.authoring.saga import ReqT, Saga
from sagas.authoring.steps import Member, Step
from sagas.authoring.waits import Wait
from sagas.core.states import StepStatus
from sagas.engine.read.views import audit_view, step_status
from sagas.errors import InvalidRequest, TooLarge, TypeChanged, listed
from sagas.operations import LARGEST_BODY
from sagas.store.journal.entries import RESULTS, Entry

if TYPE_CHECKING:
    from sagas.testing.in_process import InProcessRun

Raised = BaseException | type[BaseException]
Failing = Raised | Sequence[Raised | None]
"""The exception that every attempt raises instead of running, or a list with an exception per attempt. In a list,
``None`` lets the attempt run, and attempts beyond the list run."""
_CHILD = re.compile(r"(\w+)\[(\d+)\]\.(.+)", re.ASCII)
"""A step with children, the position of a child, and the path within this child."""
T = TypeVar("T")
_SAGA_ID = "00000000-0000-7000-8000-000000000000"


class AttributeDict(dict[str, Any]):
    """A dict like the API's objects. Its keys can also be read as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Results(dict[str, Any]):
    """The results of steps by their names. If you index by the step itself (``results[Trip.book]``), the value is
    typed; it is ``None`` for a step that was skipped, or whose result the saga continued without."""

    continued: Collection[str] = ()

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, key: Step[..., Coroutine[Any, Any, T]], /) -> T: ...
        @overload
        def __getitem__(self, key: Step[..., T] | Wait[T], /) -> T: ...
        @overload
        def __getitem__(self, key: str, /) -> Any: ...
        def __getitem__(self, key: Any, /) -> Any: ...

    else:

        def __missing__(self, key):
            if not isinstance(key, Member):
                raise KeyError(key)
            options = getattr(key, "options", None)
            name = getattr(options, "result", None) or key.name
            return None if name in self.continued else self[name]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of the saga.

    Args:
        status: its last status, such as ``"COMPLETED"``.
        results: the result of each completed step, by result name, even if the step was undone later. Indexed by the
            step itself (``outcome.results[Trip.book]``), the value has the step's declared type.
        error: ``step``, ``type`` and ``message`` of the error that stopped the saga; ``None`` if there was none.
        audit: the audit trail, oldest first: ``seq``, ``at``, ``action``, ``step``, ``attempt``, ``status``,
            ``details`` and the other fields of the API.
        steps: the last status of each step, by step name.
        in_doubt: the steps whose outcome is unknown.
        result: the saga's result: the result of its last step, or of the step that the class keyword ``result`` names;
            ``None`` unless the saga is COMPLETED.
        waited: how long each wait took, by the wait's name.
        children: for each step with children, the outcomes of the children, in order.
    """

    status: str
    results: Results
    error: AttributeDict | None
    audit: list[AttributeDict]
    steps: dict[str, str]
    in_doubt: tuple[str, ...] = ()
    result: Any = None
    waited: dict[str, timedelta] = field(default_factory=dict[str, timedelta])
    children: dict[str, list[Outcome]] = field(default_factory=lambda: dict[str, list[Outcome]]())

    def __repr__(self) -> str:
        """Return a readable text: the status of each step, the audit trail, and the last stack trace."""
        lines = [f"Outcome {self.status}"]
        if self.error is not None:
            lines.append(f"  error: {self.error.type} in {self.error.step}: {self.error.message}")
        for name, status in self.steps.items():
            waited = f", waited {self.waited[name]}" if name in self.waited else ""
            lines.append(f"  {name}: {status}{waited}")
        lines += [f"  {name} = {value!r}" for name, value in self.results.items()]
        for entry in self.audit:
            what = entry.action + (f" {entry.step}" if entry.step else "")
            attempt = f" (attempt {entry.attempt})" if entry.attempt else ""
            lines.append(f"  {entry.seq:>3} {entry.at} {what}{attempt}: {entry.status}")
        traces = [entry.details["stack_trace"] for entry in self.audit if "stack_trace" in entry.details]
        return "\n".join(lines + traces[-1:])


def run(
    saga_class: type[Saga[ReqT]],
    request: ReqT,
    *,
    fail: Mapping[str, Failing] | None = None,
    clients: Mapping[str, Any] | Callable[[str], Any] | None = None,
    saga_id: str = _SAGA_ID,
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
    for parameter, value in (("fail", fail), ("signals", signals), ("at", at)):
        if not isinstance(cast("object", value), Mapping | None):
            example = f'{parameter}={{"pay": ...}}'
            raise TypeError(f"{parameter}: must be a dict by step name, such as {example}, not {value!r}")
    if not isinstance(cast("object", settle), timedelta):
        raise TypeError(f"settle: must be a timedelta, not {settle!r}")
    if settle < timedelta():
        raise ValueError(f"settle: must be at least 0, not {settle!r}")
    failing = dict(fail or {})
    signalled = dict(signals or {})
    _check(definition, failing)
    _check_signals(definition, signalled, at or {})
    try:
        data = _sent(request, definition.request_type, "request")
        decode(data, definition.request_type)
    except InvalidRequest as error:
        raise InvalidRequest(f"request: {error}: {listed(error.problems)}", error.problems) from None
    _refuse_in_an_event_loop(definition)
    # Imported here, because this loads boto3, which would slow down unit tests that do not run a saga.
    from sagas.testing.in_process import InProcessRun
    from sagas.testing.store import memory_store

    with memory_store() as store:
        process = InProcessRun(definition, failing, clients, saga_id, data, store, signalled, at, settle)
        with closing(process):
            process.play()
        for parameter, paths in (("fail", failing), ("signals", signalled)):
            for path in paths:
                _check_position(process, saga_id, path, parameter)
        return _outcome(process, definition, saga_id)


def _sent(value: object, declared: Any, what: str) -> Any:
    """Return a value in JSON builtins, as the body of a call. One that the API refuses for its size is refused."""
    data = encode(value, declared)
    size = len(json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode())
    if size > LARGEST_BODY:
        limit = f"is {size:,} bytes of JSON; the API takes {LARGEST_BODY:,}"
        raise TooLarge(f"{what}: {limit}: put the data into S3 and send an S3Object")
    return data


def _refuse_in_an_event_loop(definition: SagaDefinition) -> None:
    """Raise an error if a coroutine of the saga or its children cannot run, because an event loop runs already."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:
        return
    for step in definition.steps:
        for code in (step, step.undo):
            if code is not None and inspect.iscoroutinefunction(code.function):
                text = f"run() was called in an event loop, in which the coroutine {code.name!r} cannot run"
                raise RuntimeError(f"{text}: call run() from a plain function, or await asyncio.to_thread(run, ...)")
        for child in step.children.sagas if step.children is not None else ():
            _refuse_in_an_event_loop(child)


def _check(definition: SagaDefinition, fail: Mapping[str, object]) -> None:
    for path, failing in fail.items():
        own, name = _owner(definition, path, "fail")
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


def _owner(definition: SagaDefinition, path: str, parameter: str) -> tuple[SagaDefinition, str]:
    """Return the saga type that a path like ``payouts[3].pay`` leads to, and the name at the end of the path."""
    while match := _CHILD.match(path):
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
        own, name = _owner(definition, path, "signals")
        waits = {step.name: step for step in own.steps if step.waits_for == "signal"}
        if name not in waits:
            names = ", ".join(waits) or "none"
            raise ValueError(f'signals: {own.name} has no wait "{name}" for a signal; it has {names}')
        try:
            _sent(value, waits[name].signal_type, f'signals: "{path}"')
        except InvalidRequest as error:
            raise TypeError(f'signals: "{path}": {error}: {listed(error.problems)}') from None
    for name, after in at.items():
        if name not in signals:
            raise ValueError(f'at: signals has no "{name}"')
        if not isinstance(cast("object", after), timedelta):
            raise TypeError(f'at: "{name}" must be a timedelta since its wait began, not {after!r}')


def _check_position(process: InProcessRun, saga_id: str, path: str, parameter: str) -> None:
    """Check that the child in a path like ``payouts[3].pay`` exists, if its siblings were started."""
    remaining = path
    while match := _CHILD.match(remaining):
        name = match[1]
        position = int(match[2])
        remaining = match[3]
        own = (entry for entry in process.entries(saga_id).values() if entry.step == name)
        begun = next((entry for entry in own if entry.action == "ChildrenStarted"), None)
        total = position + 1 if begun is None else len(json.loads(begun.payload or "[]"))
        if position >= total:
            raise ValueError(f'{parameter}: "{path}": the step "{name}" had {total} children, counted from 0')
        siblings = (child for child in process.children(saga_id) if child.parent and child.parent.step == name)
        child = next((child for child in siblings if child.parent and child.parent.position == position), None)
        if child is None:
            return
        saga_id = child.saga_id


def _outcome(process: InProcessRun, definition: SagaDefinition, saga_id: str) -> Outcome:
    state = process.stored(saga_id)
    entries = process.entries(saga_id)
    error = entries.get(state.error_seq)
    result = definition.step(state.result_step.name).result
    seqs = {step.name: step.result_seq for step in state.steps if step.result_seq}
    results = Results(
        (step.result, _stored(definition, step.name, entries[seqs[step.name]]))
        for step in definition.steps
        if step.name in seqs
    )
    without = {step.name for step in state.steps if step.status in (StepStatus.FAILED, StepStatus.SKIPPED)}
    results.continued = [
        step.result
        for step in definition.steps
        if step.name in without and (step.when or Exhausted.CONTINUE in (step.on_exhausted, step.on_timeout))
    ]
    outcome = Outcome(
        status=state.status.value,
        results=results,
        error=None if error is None else AttributeDict(step=error.step, **error.details["error"]),
        audit=[AttributeDict(audit_view(entry)) for entry in entries.values()],
        steps={step.name: step_status(state, index).value for index, step in enumerate(state.steps)},
        in_doubt=state.in_doubt,
        waited=_waited(entries.values()),
        children=_children(process, definition, saga_id),
    )
    return replace(outcome, result=outcome.results.get(result)) if outcome.status == "COMPLETED" else outcome


def _stored(definition: SagaDefinition, step: str, entry: Entry) -> Any:
    """Return a step's result as its later steps get it, or its JSON if they could not read it."""
    data = json.loads(entry.payload or "null")
    try:
        return definition.stored(step, data)
    except TypeChanged:
        return data


def _children(process: InProcessRun, definition: SagaDefinition, saga_id: str) -> dict[str, list[Outcome]]:
    """Return the outcomes of a saga's children, by step. If a position had several children, the last counts."""
    by_step: dict[str, dict[int, Outcome]] = {step.name: {} for step in definition.steps if step.children is not None}
    types = {type_.name: type_ for type_ in definition.children}
    for child in sorted(process.children(saga_id), key=lambda child: child.parent.round if child.parent else 0):
        if child.parent is not None:
            outcome = _outcome(process, types[child.saga], child.saga_id)
            by_step[child.parent.step][child.parent.position] = outcome
    return {name: [outcomes[position] for position in sorted(outcomes)] for name, outcomes in by_step.items()}


def _waited(entries: Iterable[Entry]) -> dict[str, timedelta]:
    """Return how long each wait took, until its end or until the saga's undo began."""
    began = dict[str, float]()
    waited = dict[str, timedelta]()
    for entry in entries:
        ends = entry.action in (*RESULTS, "WaitTimedOut")
        for name in [name for name in began if (ends and name == entry.step) or entry.action == "CompensationStarted"]:
            waited[name] = timedelta(seconds=round(entry.at - began.pop(name), 3))
        if entry.action == "WaitStarted" and entry.step is not None:
            began[entry.step] = entry.at
    return waited
