"""Proves that the undos of a saga bring back the state of before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from sagas.authoring.definition.definition import SagaDefinition, StepDefinition, definition_of
from sagas.authoring.saga import ReqT, Saga
from sagas.testing.outcome import outcome_of
from sagas.testing.run import signalling
from sagas.testing.scripts import Moment, check_plans, ids_from, refuse_in_an_event_loop, request_of

if TYPE_CHECKING:
    from sagas.core.states import SagaState
    from sagas.engine.attempt.call import CallsCode
    from sagas.testing.simulation import Simulation

_FIRST_ID = "00000000-0000-7000-9000-000000000000"
"""No other saga of a test has ids like this one, whose effects could be mistaken for those of this saga."""
_UNDONE = ("CANCELLED", "COMPENSATED")
Place = tuple[object, ...]


class _Missing:
    """Stands for a key that a dict does not have."""

    def __repr__(self) -> str:
        return "nothing"


_MISSING = _Missing()


def assert_undoes(
    saga_class: type[Saga[ReqT]],
    request: ReqT,
    *,
    state: Callable[[], object],
    clients: Mapping[str, Any] | Callable[[str], Any] | None = None,
    signals: Mapping[str, object] | None = None,
    at: Mapping[str, timedelta] | None = None,
    but: Collection[str] = (),
) -> None:
    """Assert that a saga, cancelled at any of its steps, leaves the world as it was.

    For each step before the pivot, sagas run in process until a cancel is accepted at this step, and are undone:

    - *cancelled at* the step: while its code runs;
    - *cancelled in* the step: while it waits or sleeps, if it does, and once all its children have completed;
    - the step *twice*: its code runs, its outcome is lost, and it runs again;
    - the step *undone twice*: likewise its undo;
    - the step *fails*: before it does anything, if its undo is declared with ``undo_when="started"``.

    After each of them ``state()`` must be equal to what it was before. A step that the request skips has none.

    Args:
        saga_class: the saga.
        request: an instance of its request type, with which all steps complete.
        state: returns what the steps change, such as ``lambda: (dict(seats), ledger.total())``.
        clients: the clients of ``ctx.client``, as for :func:`sagas.testing.run`.
        signals: the values of waits, likewise.
        at: the times of these values, likewise.
        but: names of steps whose effects may stay, such as a mail.

    Raises:
        AssertionError: a saga left something behind, or was not undone. The text names the step, what happened to it,
            both states, and where they differ.
        ValueError: one of the steps does not complete with this request, or ``but``, ``signals`` or ``at`` have unknown
            names.
        InvalidRequest, TooLarge, DefinitionError, RuntimeError, TypeError: as :func:`sagas.testing.run`.
    """
    definition = definition_of(saga_class)
    names = [step.name for step in definition.steps]
    for name in but:
        if name not in names:
            raise ValueError(f'but: {definition.name} has no step "{name}"; it has {", ".join(names)}')
    check_plans(definition, {}, signals, at)
    data = request_of(definition, request)
    refuse_in_an_event_loop(definition, "assert_undoes")
    trials = _Trials(definition, data, state, clients, signals or {}, at or {}, frozenset(but), ids_from(_FIRST_ID))
    pivot = next((index for index, step in enumerate(definition.steps) if step.pivot), len(names))
    for step in definition.steps[:pivot]:
        trials.of(step)


@dataclass
class _Trials:
    """The sagas that prove the undos of one type, one after the other."""

    definition: SagaDefinition
    request: Any
    state: Callable[[], object]
    clients: Mapping[str, Any] | Callable[[str], Any] | None
    signals: Mapping[str, object]
    at: Mapping[str, timedelta]
    but: frozenset[str]
    ids: Any

    def of(self, step: StepDefinition) -> None:
        """Run the sagas of one step."""
        slept = False
        if step.asks:
            first = self._run(step, f"cancelled at {step.name}", _Trial(cancels="returned"))
            if first.skipped:
                return
            slept = first.slept
        if slept or step.waits_for in ("signal", "time"):
            asleep = self._run(step, f"cancelled in {step.name}", _Trial(cancels="asleep"))
            if asleep.skipped:
                return
        if step.waits_for == "children":
            self._run(step, f"cancelled in {step.name}, with its children completed", _Trial(cancels="joined"))
        if step.waits_for in ("signal", "time"):
            self._run(step, f"cancelled behind {step.name}", _Trial(cancels="passed"))
        if step.asks:
            self._run(step, f"{step.name} twice", _Trial(cancels="returned", twice=True))
        if step.undo is not None:
            ends = "returned" if step.asks and not step.waits_for else "passed"
            self._run(step, f"{step.name} undone twice", _Trial(cancels=ends, undone_twice=True))
        if step.undo is not None and step.undo_when == "started" and step.asks:
            self._run(step, f"{step.name} fails", _Trial(cancels="calling", fails=True))

    def _run(self, step: StepDefinition, name: str, trial: _Trial) -> _Trial:
        """Run one saga, and compare the state after it with the state before it."""
        # Imported here, because this loads boto3, which would slow down unit tests that do not run a saga.
        from sagas.testing.simulation import Simulation

        simulation = Simulation([self.definition], self.clients, 0.0, self.ids)
        before = deepcopy(self.state())
        trial.begin(simulation, self, step)
        trial.saga_id = simulation.start(self.definition, self.request)
        try:
            simulation.play()
            trial.finish()
        finally:
            simulation.close()
        outcome = outcome_of(simulation, trial.saga_id)
        after = self.state()
        trial.skipped = outcome.steps[step.name] == "SKIPPED"
        if outcome.status not in _UNDONE:
            raise AssertionError(f"{name}: the saga was not undone\n{outcome}")
        if not trial.led and not trial.skipped:
            error = "" if outcome.error is None else f" ({outcome.error.type}: {outcome.error.message})"
            text = f'step "{step.name}" does not complete with this request'
            raise ValueError(f"assert_undoes: {text}; the saga ended {outcome.status}{error}")
        places = [place for place in _different(before, after) if not _is_in(place, trial.may_stay)]
        if places:
            lines = [f"{name}: undone, but the state differs", f"before: {before!r}", f"after: {after!r}"]
            lines += [f"  {_shown(place)}: {_at(before, place)!r} → {_at(after, place)!r}" for place in places]
            raise AssertionError("\n".join([*lines, str(outcome)]))
        return trial


@dataclass
class _Trial:
    """One saga: when it is cancelled, and what happens to the step before.

    ``cancels``: the moment of the cancel: ``calling`` or ``returned`` of the step's code; ``asleep``, while the step
    waits; ``joined``, once its children have completed; ``passed``, once the step has completed.
    """

    cancels: str
    twice: bool = False
    undone_twice: bool = False
    fails: bool = False
    saga_id: str = ""
    led: bool = False
    """Whether the request has led to what is proved: otherwise the proof would be empty."""
    cancelled: bool = False
    slept: bool = False
    skipped: bool = False
    may_stay: set[Place] = field(default_factory=set[Place])

    def begin(self, simulation: Simulation, trials: _Trials, step: StepDefinition) -> None:
        """Have the simulation do what this trial is about."""
        self._simulation = simulation
        self._trials = trials
        self._step = step
        self._index = trials.definition.steps.index(step)
        self._sends = signalling(simulation, trials.signals, trials.at)
        simulation.reached = self._reached
        simulation.wraps = self._wraps
        simulation.ended = self._ended

    def finish(self) -> None:
        """Undo a saga that has completed, since its last step is the one that was to be cancelled."""
        if self._simulation.stored(self.saga_id).status == "COMPLETED":
            self.led = self.led or self.cancels == "passed"
            self._simulation.compensate(self.saga_id)
            self._simulation.play()

    def _reached(self, moment: Moment) -> None:
        if moment.saga_id == self.saga_id and not moment.undo:
            index = next(i for i, step in enumerate(self._trials.definition.steps) if step.name == moment.step)
            is_asleep = self._simulation.stored(self.saga_id).status == "WAITING"
            at_the_step = index == self._index
            self.led = self.led or (at_the_step and self.cancels in ("asleep", "joined", moment.name))
            self.slept = self.slept or (at_the_step and moment.name == "after" and is_asleep)
            is_now = moment.name == self.cancels or (self.cancels == "asleep" and self.slept)
            # Behind the step, which has completed or was skipped. Past a pivot, nothing could be undone any more.
            if (at_the_step and is_now) or (index > self._index and moment.name in ("before", "calling")):
                self.led = self.led or self.cancels == "passed"
                self._cancel()
        if not self.cancelled:
            self._sends(moment)

    def _ended(self, child: SagaState) -> None:
        """Cancel the saga once the last of its step's children has completed."""
        parent = child.parent
        if (
            self.cancels != "joined"
            or parent is None
            or (parent.saga_id, parent.step) != (self.saga_id, self._step.name)
        ):
            return
        children = self._simulation.children(self.saga_id)[self._step.name].values()
        total = self._simulation.stored(self.saga_id).steps[self._index].fan_out.children
        if sum(each.ended or each.saga_id == child.saga_id for each in children) == total:
            self._cancel()

    def _cancel(self) -> None:
        self.cancelled = True
        self._simulation.cancel(self.saga_id)

    def _wraps(self, call: CallsCode) -> CallsCode:
        """Return a function that calls code as this trial wants it."""

        def calling(definition: Any, step: StepDefinition, undo: bool, payloads: Any, context: Any, *rest: Any) -> Any:
            own = context.saga_id == self.saga_id and step.name == self._step.name
            if own and self.fails and not undo:
                raise RuntimeError(f"assert_undoes: step {step.name} fails before it does anything")
            with self._noting(step.name if context.saga_id == self.saga_id else ""):
                if own and (self.undone_twice if undo else self.twice):
                    lost = replace(context)
                    with suppress(Exception):  # its outcome is lost
                        call(definition, step, undo, payloads, lost, lambda: None, rest[1])
                    context.attempt += 1
                return call(definition, step, undo, payloads, context, *rest)

        return calling

    @contextmanager
    def _noting(self, step: str) -> Generator[None]:
        """Note what a step changes whose effect may stay."""
        if step not in self._trials.but:
            yield
            return
        before = deepcopy(self._trials.state())
        try:
            yield
        finally:
            self.may_stay |= {*_different(before, self._trials.state())}


def _different(before: object, after: object, place: Place = ()) -> list[Place]:
    """Return where two states differ: by the keys of dicts and the positions of tuples."""
    if isinstance(before, dict) and isinstance(after, dict):
        ours = cast("dict[object, object]", before)
        theirs = cast("dict[object, object]", after)
        keys = list(dict.fromkeys([*ours, *theirs]))
        return [
            found
            for key in keys
            for found in _different(ours.get(key, _MISSING), theirs.get(key, _MISSING), (*place, key))
        ]
    if isinstance(before, tuple) and isinstance(after, tuple):
        pairs = list(zip(cast("tuple[object, ...]", before), cast("tuple[object, ...]", after), strict=False))
        if len(pairs) == max(len(cast("tuple[object, ...]", before)), len(cast("tuple[object, ...]", after))):
            return [found for position, pair in enumerate(pairs) for found in _different(*pair, (*place, position))]
    return [] if before is after or before == after else [place]


def _is_in(place: Place, places: Collection[Place]) -> bool:
    """Whether a place is one of these, or inside one of them."""
    return any(place[: len(other)] == other for other in places)


def _at(state: Any, place: Place) -> Any:
    """Return the part of a state at a place."""
    part = state
    for key in place:
        try:
            part = part[key]
        except KeyError:
            return _MISSING
    return part


def _shown(place: Place) -> str:
    return "".join(f"[{key!r}]" for key in place) or "the state"
