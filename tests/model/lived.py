"""A saga that is driven through the automaton alone, delivery by delivery, and what may happen to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from random import Random
from typing import Any, NamedTuple

from msgspec import structs

from sagas.core import events as ev
from sagas.core.automaton import decide
from sagas.core.commands import (
    CancelArrived,
    ChildrenSeen,
    CompensateArrived,
    Decision,
    MessageArrived,
    Postpone,
    RetryArrived,
    Run,
    Send,
    SignalArrived,
    Visited,
    Write,
)
from sagas.core.rules import ForwardPlan, Plan, forward, undo_still_owed
from sagas.core.states import Lease, SagaState, SagaStatus, StepState
from sagas.engine.registry import SagaType, plan_for
from tests.model.pairs import WAIT, WAITS, Part, Release, Script, definition, with_new_undos

FIRST = Send(0, False, 1)
"""The message of a new saga."""


@lru_cache(5_000)
def plan(release: Release, steps: tuple[tuple[str, str, bool], ...], settle: float) -> Plan:
    """Return the plan by which a release judges a saga with these steps: name, kind, undo."""
    was = [StepState(name, waits_for=kind, undo=undo) for name, kind, undo in steps]
    return plan_for(definition(release), was, settle)


class Act(NamedTuple):
    """A journaled fact of a saga, its step, and the type of the error if code that does not fit is the reason."""

    fact: str
    place: int = -1
    error: str = ""


@dataclass(slots=True)
class Life:
    """A saga on its way through the automaton.

    Args:
        old, new: the releases.
        script: what happens to it.
        state: as it is stored.
        now: epoch seconds.
        queued: its message.
        acts: its facts so far.
        deployed: whose code runs.
        deployed_at: the number of acts after which the second release came; -1 for never.
        before: the saga when that came.
        back_at: the number of acts after which the first one was back; -1 for never.
        cancelled_at: the number of acts after which a cancel was accepted; -1 for none.
        looks: how often its message arrived while the code did not fit.
        settled: it waited for a release.
        due: when the supervisor looks at it.
        asked: when an operator asked for its message last.
        retried: it came to rest, and was retried.
        served: by act, whether a function with the second release journaled it.
        turn: how many functions have had a turn since the second release came.
        unreadable, upcast, sent: which values can be read. The automaton alone has none.
        polled: the positions of steps that were not ready.
    """

    old: Release
    new: Release
    script: Script
    state: SagaState
    deployed: Release
    now: float = 10_000.0
    queued: Send | None = FIRST
    acts: list[Act] = field(default_factory=list[Act])
    deployed_at: int = -1
    before: SagaState | None = None
    back_at: int = -1
    cancelled_at: int = -1
    looks: int = 0
    settled: bool = False
    due: float = 0.0
    asked: float = 0.0
    retried: bool = False
    served: list[bool] = field(default_factory=list[bool])
    turn: int = 0
    unreadable: bool = False
    upcast: bool = False
    sent: dict[str, Part] = field(default_factory=dict[str, Part])
    polled: set[int] = field(default_factory=set[int])

    @classmethod
    def begin(cls, old: Release, new: Release, script: Script) -> Life:
        """Start the saga with the first release."""
        steps = SagaType(definition(old)).new_steps
        state = SagaState("id", "pair", "1", steps, created_at=10_000.0, updated_at=10_000.0)
        life = cls(old, new, script, state, old)
        if script.signal == "early":
            for index, one in enumerate(steps):
                if one.waits_for == "signal":
                    life.arrive(SignalArrived(index))
        return life

    @property
    def at_rest(self) -> bool:
        """Whether only a person would go on with it."""
        return self.state.ended or self.state.status is SagaStatus.DEAD_LETTERED

    def run(self) -> str:
        """Go on until it is at rest. Return what is wrong; empty if nothing is."""
        for _ in range(100):
            if self.at_rest:
                return ""
            self._meet_the_script()
            if wrong := self._deliver():
                return wrong
        return "it does not come to rest"

    def retry(self) -> str:
        """Deploy the first release again, retry the saga, and go on."""
        self.deployed = with_new_undos(self.old, self.new) if self.script.keeps_new_undos else self.old
        self.retried = True
        self.arrive(RetryArrived(self._lease()))
        return self.run()

    def compensate(self) -> str:
        """Have the saga undone by an operator although it has completed, and go on."""
        self.arrive(CompensateArrived(self._lease(), force=True))
        return self.run()

    def _lease(self) -> Lease:
        return Lease("mine", self.now + 10, self.now + 20)

    def _meet_the_script(self) -> None:
        """Let happen what the script has for this moment: the deployment, then a cancel, then signals."""
        script, waits = self.script, self.state.settling_since > 0
        if self.deployed_at < 0 and 0 <= script.deploys <= len(self.acts):
            self.deployed, self.deployed_at, self.before = self.new, len(self.acts), self.state
        if self.back_at < 0 <= self.deployed_at and 0 <= script.back <= len(self.acts):
            self.deployed, self.back_at = self.old, len(self.acts)
        self.settled = self.settled or waits
        if waits and script.returns:
            self.deployed = self.old
        back = self.retried or self.back_at >= 0 or (self.settled and script.returns)
        if script.mixed and self.deployed_at >= 0 and not back:
            self.turn += 1
            self.deployed = self.new if self.turn % script.mixed else self.old
        if waits and script.asks and self.asked < self.now:
            self.asked = self.now
            self.arrive(Visited(self._lease(), asked=True))
        if not self.retried and ((waits and script.cancels == WAITS) or 0 <= script.cancels <= len(self.acts)):
            before = self.state
            self.arrive(CancelArrived("ada"))
            if self.state is not before:
                self.cancelled_at = len(self.acts)
                self.arrive(Visited(self._lease()))
        while self._asks_for_a_signal:
            self.arrive(SignalArrived(self.state.cursor))
            self.arrive(Visited(self._lease()))

    @property
    def _asks_for_a_signal(self) -> bool:
        """Whether it waits for one that is to be sent, and is deployed as such a wait."""
        step, kinds = self.state.current, {part.name: part.kind for part in self.deployed}
        asks = self.state.waiting_for == "signal" and self.script.signal == "asked" and not self.state.cancel.at
        return asks and step is not None and not step.signalled and kinds.get(step.name) == "signal"

    def _deliver(self) -> str:
        """Deliver the message, or let the supervisor look, if it has none."""
        state = self.state
        if self.at_rest:
            return ""
        if state.joins:
            self.now = max(self.now, self.due)
            return self.arrive(ChildrenSeen(self._lease(), self._join(state)))
        sent = self.queued
        if sent is None:
            self.now = max(self.now + 60, state.not_before, self.due)
            return self.arrive(Visited(self._lease()))
        self.now = max(self.now, sent.not_before)
        return self.arrive(MessageArrived(sent.index, sent.undo, sent.dispatch, 0, "m", self._lease()))

    def _join(self, state: SagaState) -> Any:
        step = state.steps[state.cursor]
        if state.undoing:
            return ev.StepCompensated(state.cursor, step.undo_attempts.made)
        failed = state.cursor == self.script.fails
        why = ev.Failure("ChildrenFailed") if failed else None
        return ev.ChildrenEnded(state.cursor, int(not failed), int(failed), why)

    def arrive(self, event: Any) -> str:
        """Have the automaton decide, and do what it says. Return what is wrong; empty if nothing is."""
        by = plan(self.deployed, self._structure, self.script.settle)
        decision, delivered = decide(by, self.state, event, self.now), isinstance(event, MessageArrived)
        asks = False
        while True:
            self.state = decision.state
            match decision.then:
                case Write(fact):
                    pass
                case Run() as run:
                    if self._loses(run):
                        return ""
                    asks = True
                    fact, wrong = self._executed(run)
                    if wrong:
                        return wrong
                case Postpone(until):
                    self._postponed(until, delivered)
                    return ""
                case _:
                    self.queued = decision.send or (None if delivered else self.queued)
                    return ""
            decision, delivered = self._journaled(by, fact), True
            decision = self._asked(by, fact, decision) if asks else decision
            if decision.state is self.state:
                return f"{fact} changed nothing"

    def _asked(self, by: Plan, fact: ev.Fact, decision: Decision) -> Decision:
        """What follows if the attempt that goes on to a step asks its condition."""
        after = decision.state
        step = after.current
        own = by.steps[after.cursor].forward if step is not None else None
        said = {part.name: part.when for part in self.deployed}.get(step.name) if step is not None else ""
        goes_on = decision.send is not None and after.cursor > self.state.cursor and forward(after)
        if not goes_on or said != "no" or not isinstance(own, ForwardPlan):
            return decision
        steps = list(by.steps)
        steps[after.cursor] = structs.replace(steps[after.cursor], forward=structs.replace(own, skip="no"))
        return decide(structs.replace(by, steps=tuple(steps)), self.state, fact, self.now)

    def _loses(self, run: Run) -> bool:
        """Whether the worker dies in an undo; its message comes back once its lease has expired."""
        if not run.undo or run.index != self.script.loses or self.deployed_at >= 0:
            return False
        self.deployed, self.deployed_at, self.before = self.new, len(self.acts), self.state
        self.now, self.queued = self.now + 60, None
        return True

    def _postponed(self, until: float, delivered: bool) -> None:
        self.looks, self.due = self.looks + 1, until
        if delivered and self.queued is not None:
            self.queued = structs.replace(self.queued, not_before=until)

    def _journaled(self, by: Plan, fact: Any) -> Decision:
        if isinstance(fact, ev.WaitStarted):
            fact = structs.replace(fact, until=self.now + WAIT)
        failure: ev.Failure | None = getattr(fact, "failure", None)
        error = failure.type if failure is not None and (failure.code_missing or failure.type_changed) else ""
        if not isinstance(fact, ev.MessageResent):
            self.acts.append(Act(type(fact).__name__, getattr(fact, "index", -1), error))
            self.served.append(self.deployed is self.new)
        return decide(by, self.state, fact, self.now)

    @property
    def _structure(self) -> tuple[tuple[str, str, bool], ...]:
        """The steps as they were at the start: an undo that has run is no longer marked."""
        return tuple((one.name, one.kind, one.undo or one.kind == "children") for one in self.old if not one.retired)

    def _executed(self, run: Run) -> tuple[Any, str]:
        """What the deployed code makes of a step, or of its undo."""
        was = self.state.steps[run.index]
        code = next((part for part in self.deployed if part.name == was.name), None)
        if code is None or (run.undo and not code.undo):
            return None, f"{'the undo of ' if run.undo else ''}{was.name} is to run, and is not deployed"
        if run.undo:
            by = plan(self.deployed, self._structure, self.script.settle)
            if undo_still_owed(by, run.index, was):
                return ev.StepCompensated(run.index, run.attempt), ""
            return ev.CompensationPostponed(
                run.index, run.attempt, "", 0.0, self.now, self.now, because=ev.NOT_OWED
            ), ""
        if code.kind != was.waits_for:
            return None, f"{was.name} is to run, and is {code.kind or 'a step'} now"
        if code.when == "no":
            return ev.StepSkipped(run.index, run.attempt, "no"), ""
        if code.kind == "children":
            return ev.ChildrenStarted(run.index, run.attempt, 1, ("leg",)), ""
        if code.kind:
            return ev.WaitStarted(run.index, run.attempt, self.now + WAIT), ""
        if code.polls and run.index not in self.polled:
            self.polled.add(run.index)
            return ev.StepPostponed(run.index, run.attempt, "", 2.0, self.now + 2, self.now), ""
        if run.index == self.script.fails:
            return ev.StepFailed(run.index, run.attempt, ev.Failure("RuntimeError"), permanent=True), ""
        return ev.StepCompleted(run.index, run.attempt), ""


@lru_cache(5_000)
def alone(old: Release, fails: int, signal: str) -> tuple[tuple[Act, ...], str]:
    """Return the acts of a saga whose release stays, and how it ends."""
    life = Life.begin(old, old, Script(fails, signal))
    assert life.run() == ""
    return tuple(life.acts), life.state.status


def scripts(old: Release) -> Iterator[Script]:
    """All that may happen to a saga of a release."""
    signals = (
        ("early", "asked", "never") if any(part.kind == "signal" for part in old if not part.retired) else ("asked",)
    )
    steps = [part for part in old if not part.retired]
    failing = [place for place, part in enumerate(steps) if part.kind in ("", "children")]
    for fails, signal in product((-1, *failing), signals):
        lost = Script(fails, signal, loses=0)
        for loses in (place for place, part in enumerate(steps) if part.undo):
            lost = lost._replace(loses=loses)
            yield from (lost, lost._replace(settle=900.0), lost._replace(settle=900.0, returns=True))
        for deploys in range(len(alone(old, fails, signal)[0])):
            at_once, later = Script(fails, signal, deploys), Script(fails, signal, deploys, settle=900.0)
            yield from (at_once, later, at_once._replace(keeps_new_undos=True), later._replace(asks=True))
            yield from (later._replace(cancels=WAITS), later._replace(returns=True))
            yield from (at_once._replace(back=deploys + more) for more in (1, 2, 3))
            yield from (one._replace(cancels=deploys + more) for one in (at_once, later) for more in (0, 1))
            yield from (one._replace(mixed=each) for one in (at_once, later) for each in (2, 3))
            yield from (later._replace(mixed=2, back=deploys + 2), later._replace(mixed=3, cancels=deploys + 1))


def some_script(old: Release, chance: Random) -> Script:
    """One of the things that may happen to a saga of a release."""
    return chance.choice(list(scripts(old)))
