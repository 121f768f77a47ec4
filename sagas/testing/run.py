"""A whole saga in process: the real automaton and the author's code, with no AWS and no waiting."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from sagas.authoring.codec import decode, encode
from sagas.authoring.definition.definition import SagaDefinition, definition_of
from sagas.authoring.saga import ReqT, Saga
from sagas.authoring.steps import Member, Step
from sagas.authoring.waits import Wait
from sagas.engine.read.views import audit_view, step_status
from sagas.errors import InvalidRequest, listed
from sagas.store.journal.entries import RESULTS, Entry

if TYPE_CHECKING:
    from sagas.testing.in_process import InProcessRun

Raised = BaseException | type[BaseException]
Failing = Raised | Sequence[Raised | None]
"""What every attempt raises instead of running; or what each raises in turn: ``None`` where it runs, as do the rest."""
_CHILD = re.compile(r"(\w+)\[(\d+)\]\.(.+)", re.ASCII)
"""A child of a step, and what of it is meant."""
T = TypeVar("T")
_SAGA_ID = "00000000-0000-7000-8000-000000000000"


class Record(dict[str, Any]):
    """A dict as the API shows it; its keys can be read as attributes as well."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Results(dict[str, Any]):
    """What each step returned, by the name of its result; by the step itself (``results[Trip.book]``) also typed."""

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
            return self[getattr(options, "result", None) or key.name]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the saga.

    Args:
        status: its last status, such as ``"COMPLETED"``.
        results: what each step returned that completed, by result name, also if it was undone later. By the step itself
            (``outcome.results[Trip.book]``) it has the type that the step declares.
        error: ``step``, ``type`` and ``message`` of what ended the forward way; ``None`` if nothing did.
        audit: the audit trail, oldest first: ``seq``, ``at``, ``action``, ``step``, ``attempt``, ``status``,
            ``details`` and the rest of what the API shows.
        steps: the last status of each step, by its name.
        in_doubt: names of steps with an execution of unknown outcome.
        result: what the saga resulted in: what its last step did, or the one that the class keyword ``result`` names;
            ``None`` unless it is COMPLETED.
        waited: how long each wait took, by its name.
        children: of each step that has children, what became of each of them, in order.
    """

    status: str
    results: Results
    error: Record | None
    audit: list[Record]
    steps: dict[str, str]
    in_doubt: tuple[str, ...] = ()
    result: Any = None
    waited: dict[str, timedelta] = field(default_factory=dict[str, timedelta])
    children: dict[str, list[Outcome]] = field(default_factory=lambda: dict[str, list[Outcome]]())

    def __repr__(self) -> str:
        """A page that one can read: what became of each step, the audit trail, and the last stack trace."""
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
) -> Outcome:
    """Run a saga to its end, or until it waits for an operator; its children too.

    Request and results travel as JSON, as they do in production. Each execution of a step or undo has a new instance
    from ``create()``, since in production it may run in another process. Waits and delays between retries are skipped.
    Time passes while code runs, and what ends after its ``timeout`` has failed with ``TimedOut``. To play that without
    waiting: ``fail={"pay": TimedOut("...")}``.

    Args:
        saga_class: the saga.
        request: an instance of its request type.
        fail: what every attempt of a step or undo raises instead of running, by its name; or a list of what each raises
            in turn (``[RuntimeError(), None]`` fails once, then works): ``None`` where it runs, and so the rest. A
            child's step or undo is named with the step and the child's position: ``payouts[3].pay``.
        clients: what ``ctx.client(service)`` returns: clients by service, or a function such as ``boto3.client``.
        saga_id: the saga's id.
        signals: what is sent to each wait, by its name (of a child's, as for ``fail``); one without a signal times out.
            Time is skipped: a wait of a year takes none.
        at: how long after its wait began a signal is sent; at once by default.

    Raises:
        InvalidRequest: the request is not of its type.
        ValueError: ``fail`` names no step or undo of this saga, ``signals`` or ``at`` no wait, one of them a child that
            there was not, or a moment before a wait began.
        DefinitionError: ``create()`` raised, or it is no saga class.
        TypeError: what it says to raise is no exception, a signal is not of its wait's type, ``at`` has what is no
            timedelta, or one of them is no dict.
    """
    definition = definition_of(saga_class)
    for what, given in (("fail", fail), ("signals", signals), ("at", at)):
        if not isinstance(cast("object", given), Mapping | None):
            raise TypeError(f'{what}: must be a dict by the names of steps, as in {what}={{"pay": ...}}, not {given!r}')
    failing, signalled = dict(fail or {}), dict(signals or {})
    _check(definition, failing)
    _check_signals(definition, signalled, at or {})
    try:
        data = encode(request, definition.request_type)
        decode(data, definition.request_type)
    except InvalidRequest as error:
        raise InvalidRequest(f"request: {error}: {listed(error.problems)}", error.problems) from None
    from sagas.testing.in_process import InProcessRun  # with boto3, which tests of mere functions need not wait for
    from sagas.testing.store import memory_store

    with memory_store() as store:
        played = InProcessRun(definition, failing, clients, saga_id, data, store, signalled, at)
        played.play()
        for what, paths in (("fail", failing), ("signals", signalled)):
            for path in paths:
                _check_position(played, saga_id, path, what)
        return _outcome(played, definition, saga_id)


def _check(definition: SagaDefinition, fail: Mapping[str, object]) -> None:
    for path, failing in fail.items():
        own, name = _owner(definition, path, "fail")
        undos = [step.undo.name for step in own.steps if step.undo is not None]
        known = list(dict.fromkeys([*(step.name for step in own.steps), *undos]))
        if name not in known:
            raise ValueError(f'fail: {own.name} has no step or undo "{name}"; it has {", ".join(known)}')
        each = cast("Sequence[object]", failing) if isinstance(failing, list | tuple) else [failing]
        for one in each:
            raises = issubclass(one if isinstance(one, type) else type(one), BaseException)
            if not raises and (one is not None or each is not failing):
                raise TypeError(f'fail: "{path}" must be an exception or its class, or a list of them, not {failing!r}')
        if any(step.name == name and not step.asks for step in own.steps):
            raise ValueError(f'fail: "{path}" only waits: there is no code of it to fail')


def _owner(definition: SagaDefinition, path: str, what: str) -> tuple[SagaDefinition, str]:
    """The saga type that a path like ``payouts[3].pay`` leads to, and the name at its end."""
    while match := _CHILD.match(path):
        name, position, rest = match[1], int(match[2]), match[3]
        step = next((one for one in definition.steps if one.name == name), None)
        if step is None or step.children is None:
            raise ValueError(f'{what}: {definition.name} has no step "{name}" with children')
        types = step.children.sagas
        if step.children.several and position >= len(types):
            raise ValueError(f'{what}: the step "{name}" has {len(types)} children, counted from 0')
        definition, path = types[position if step.children.several else 0], rest
    return definition, path


def _check_signals(definition: SagaDefinition, signals: Mapping[str, object], at: Mapping[str, timedelta]) -> None:
    for path, value in signals.items():
        own, name = _owner(definition, path, "signals")
        waits = {step.name: step for step in own.steps if step.waits_for == "signal"}
        if name not in waits:
            known = ", ".join(waits) or "none"
            raise ValueError(f'signals: {own.name} has no wait "{name}" for a signal; it has {known}')
        try:
            encode(value, waits[name].signal_type)
        except InvalidRequest as error:
            raise TypeError(f'signals: "{path}": {error}: {listed(error.problems)}') from None
    for name, after in at.items():
        if name not in signals:
            raise ValueError(f'at: no signal for "{name}" is among signals')
        if not isinstance(cast("object", after), timedelta):
            raise TypeError(f'at: "{name}" must be a timedelta from the beginning of its wait on, not {after!r}')
        if after < timedelta():
            raise ValueError(f'at: "{name}" must be after its wait began, not {-after} before')


def _check_position(played: InProcessRun, saga_id: str, path: str, what: str) -> None:
    """Check that the child meant by a path like ``payouts[3].pay`` was one, where its siblings were started."""
    rest = path
    while match := _CHILD.match(rest):
        name, position, rest = match[1], int(match[2]), match[3]
        own = (entry for entry in played.entries(saga_id).values() if entry.step == name)
        begun = next((entry for entry in own if entry.action == "ChildrenStarted"), None)
        total = position + 1 if begun is None else len(json.loads(begun.payload or "[]"))
        if position >= total:
            raise ValueError(f'{what}: "{path}": the step "{name}" had {total} children, counted from 0')
        siblings = (one for one in played.children(saga_id) if one.parent is not None and one.parent.step == name)
        child = next((one for one in siblings if one.parent is not None and one.parent.position == position), None)
        if child is None:
            return
        saga_id = child.saga_id


def _outcome(played: InProcessRun, definition: SagaDefinition, saga_id: str) -> Outcome:
    state, entries = played.stored(saga_id), played.entries(saga_id)
    error, result = entries.get(state.error_seq), definition.result_step
    seqs = {step.name: step.result_seq for step in state.steps if step.result_seq}
    outcome = Outcome(
        status=state.status.value,
        results=Results(
            (step.result, decode(json.loads(entries[seqs[step.name]].payload or "null"), step.result_type))
            for step in definition.steps
            if step.name in seqs
        ),
        error=None if error is None else Record(step=error.step, **error.details["error"]),
        audit=[Record(audit_view(entry)) for entry in entries.values()],
        steps={step.name: step_status(state, index).value for index, step in enumerate(state.steps)},
        in_doubt=state.in_doubt,
        waited=_waited(entries.values()),
        children=_children(played, definition, saga_id),
    )
    return replace(outcome, result=outcome.results.get(result.result)) if outcome.status == "COMPLETED" else outcome


def _children(played: InProcessRun, definition: SagaDefinition, saga_id: str) -> dict[str, list[Outcome]]:
    """What became of a saga's children, by step: of each position the last that was started."""
    found: dict[str, dict[int, Outcome]] = {step.name: {} for step in definition.steps if step.children is not None}
    types = {one.name: one for one in definition.children}
    for child in sorted(played.children(saga_id), key=lambda one: one.parent.round if one.parent else 0):
        if child.parent is not None:
            own = _outcome(played, types[child.saga], child.saga_id)
            found[child.parent.step][child.parent.position] = own
    return {name: [own[position] for position in sorted(own)] for name, own in found.items()}


def _waited(entries: Iterable[Entry]) -> dict[str, timedelta]:
    """How long each wait took: until its end, or until something else put an end to it."""
    began, waited = dict[str, float](), dict[str, timedelta]()
    for entry in entries:
        ends = entry.action in (*RESULTS, "WaitTimedOut")
        for name in [name for name in began if (ends and name == entry.step) or entry.action == "CompensationStarted"]:
            waited[name] = timedelta(seconds=round(entry.at - began.pop(name), 3))
        if entry.action == "WaitStarted" and entry.step is not None:
            began[entry.step] = entry.at
    return waited
