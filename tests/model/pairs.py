"""Two releases of a saga type as data, and what becomes of a saga that was started with the first.

A saga is driven through the automaton alone, delivery by delivery. :class:`Oracle` says beforehand what it will do: it
is written from the rules (docs/concepts/protocol.md, rule 17) and knows nothing of ``sagas.core.fit``.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from itertools import permutations, product
from random import Random
from typing import Any, NamedTuple

from msgspec import structs

from sagas import Saga, children, sleep, step, wait_for
from sagas.authoring.definition.definition import SagaDefinition, definition_of
from sagas.core import events as ev
from sagas.core.automaton import decide
from sagas.core.commands import (
    CancelArrived,
    ChildrenSeen,
    Discard,
    MessageArrived,
    Postpone,
    RetryArrived,
    Run,
    Send,
    SignalArrived,
    StallNoticed,
    Write,
)
from sagas.core.rules import Plan
from sagas.core.states import Lease, SagaState, SagaStatus, StepState
from sagas.engine.registry import SagaType, plan_for
from tests.support.sagas import perform

HOUR = 3600.0


class Part(NamedTuple):
    """One step of a release.

    Args:
        name: its name.
        kind: ``""`` for a plain step, ``signal``, ``time`` or ``children``.
        undo: it has an undo of its own.
        retired: new sagas skip it.
    """

    name: str
    kind: str = ""
    undo: bool = False
    retired: bool = False


Release = tuple[Part, ...]


class Script(NamedTuple):
    """What happens to a saga.

    Args:
        fails: the position of the step that fails; -1 for none.
        signal: when each signal is sent: ``early`` (at the start), ``asked`` (once its wait has begun) or ``never``.
        deploys: the second release is deployed once the saga has done so many acts; -1 for never.
        cancels: it is cancelled likewise. ``WAITS``: while it waits for a release.
        settle: seconds for which it waits for a release.
        returns: the first release is deployed again while it waits for a release.
        back: the first release is deployed again once the saga has done so many acts; -1 for never.
        asks: an operator asks for its message at each look while it waits for a release.
        mends: the retry meets the first release with the undos that the second has added, not the first one itself.
    """

    fails: int = -1
    signal: str = "asked"
    deploys: int = -1
    cancels: int = -1
    settle: float = 0.0
    returns: bool = False
    back: int = -1
    asks: bool = False
    mends: bool = False


WAITS = 1_000


class Leg(Saga[str], name="leg"):
    """A child."""

    @step
    def go(self) -> None:
        perform("go")


def _members(part: Part) -> Iterator[tuple[str, Any]]:
    name = part.name

    def code(self: Any) -> None:
        perform(name)

    def undo(self: Any) -> None:
        perform(f"-{name}")

    def legs(self: Any) -> list[str]:
        return ["one"]

    made: Any
    if part.kind == "children":
        made = children(Leg, retired=part.retired)(legs)
    elif part.kind == "time":
        made = sleep(timedelta(seconds=HOUR), retired=part.retired)
    elif part.kind == "signal":
        made = wait_for(str, timeout=timedelta(seconds=HOUR), retired=part.retired)
        made = made(code) if part.undo else made
    else:
        made = step(retired=part.retired)(code)
    yield name, made
    if part.undo:
        yield f"undo_{name}", made.compensate(undo)


@lru_cache(5_000)
def saga_class(release: Release) -> type[Any]:
    """Return the class of a release."""
    members = dict(member for part in release for member in _members(part))
    return types.new_class("Pair", (Saga[str],), {"name": "pair"}, lambda body: body.update(members))


@lru_cache(5_000)
def definition(release: Release) -> SagaDefinition:
    """Return the definition of a release."""
    return definition_of(saga_class(release))


@lru_cache(5_000)
def plan(release: Release, steps: tuple[tuple[str, str, bool], ...], settle: float) -> Plan:
    """Return the plan by which a release judges a saga with these steps: name, kind, undo."""
    was = [StepState(name, waits_for=kind, undo=undo) for name, kind, undo in steps]
    return plan_for(definition(release), was, settle)


class Act(NamedTuple):
    """A journaled fact of a saga, its step, and the type of the error if code that does not fit is the reason."""

    fact: str
    index: int = -1
    error: str = ""


def mended(old: Release, new: Release) -> Release:
    """Return the first release with the undos that the second has added."""
    added = {part.name for part in new if part.undo and part.kind in ("", "signal")}
    return tuple(part._replace(undo=part.undo or (part.name in added and part.kind in ("", "signal"))) for part in old)


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
        back_at: the number of acts after which the first one was back; -1 for never.
        cancelled_at: the number of acts after which a cancel was accepted; -1 for none.
        looks: how often its message was looked at in vain.
        settled: it waited for a release.
        due: when the supervisor looks at it.
        asked: when an operator asked for its message last.
        retried: it came to rest, and was retried.
    """

    old: Release
    new: Release
    script: Script
    state: SagaState
    deployed: Release
    now: float = 10_000.0
    queued: Send | None = Send(0, False, 1)
    acts: list[Act] = field(default_factory=list[Act])
    deployed_at: int = -1
    back_at: int = -1
    cancelled_at: int = -1
    looks: int = 0
    settled: bool = False
    due: float = 0.0
    asked: float = 0.0
    retried: bool = False

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
        self.deployed = mended(self.old, self.new) if self.script.mends else self.old
        self.retried = True
        self.arrive(RetryArrived(self._lease()))
        return self.run()

    def _lease(self) -> Lease:
        return Lease("mine", self.now + 10, self.now + 20)

    def _meet_the_script(self) -> None:
        """Let happen what the script has for this moment: the deployment, then a cancel, then signals."""
        script, waits = self.script, self.state.settling_since > 0
        if self.deployed_at < 0 and 0 <= script.deploys <= len(self.acts):
            self.deployed, self.deployed_at = self.new, len(self.acts)
        if self.back_at < 0 <= self.deployed_at and 0 <= script.back <= len(self.acts):
            self.deployed, self.back_at = self.old, len(self.acts)
        self.settled = self.settled or waits
        if waits and script.returns:
            self.deployed = self.old
        if waits and script.asks and self.asked < self.now:
            self.asked = self.now
            self.arrive(StallNoticed(self._lease(), asked=True))
        if not self.retried and ((waits and script.cancels == WAITS) or 0 <= script.cancels <= len(self.acts)):
            before = self.state
            self.arrive(CancelArrived("ada"))
            if self.state is not before:
                self.cancelled_at = len(self.acts)
                self.arrive(StallNoticed(self._lease()))
        while self._asks_for_a_signal:
            self.arrive(SignalArrived(self.state.cursor))
            self.arrive(StallNoticed(self._lease()))

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
            return self.arrive(ChildrenSeen(self._lease(), self._join(state)))
        sent = self.queued
        if sent is None:
            self.now = max(self.now + 60, state.not_before, self.due)
            return self.arrive(StallNoticed(self._lease()))
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
        """Have the automaton decide, and do what it says."""
        steps = tuple((one.name, one.waits_for, one.undo) for one in self.state.steps)
        by = plan(self.deployed, self._structure or steps, self.script.settle)
        decision = decide(by, self.state, event, self.now)
        while True:
            self.state = decision.state
            match decision.then:
                case Write(fact):
                    pass
                case Run() as run:
                    fact, wrong = self._executed(run)
                    if wrong:
                        return wrong
                case Postpone(until):
                    self.looks, self.due = self.looks + 1, until
                    if isinstance(event, MessageArrived) and self.queued is not None:
                        self.queued = Send(self.queued.index, self.queued.undo, self.queued.dispatch, until)
                    return ""
                case other:
                    if decision.send is not None:
                        self.queued = decision.send
                    elif isinstance(other, Discard) or isinstance(event, MessageArrived):
                        self.queued = None
                    return ""
            index = getattr(fact, "index", -1)
            failure = getattr(fact, "failure", None)
            unfit = failure is not None and (failure.code_missing or failure.type_changed)
            if isinstance(fact, ev.WaitStarted):
                fact = structs.replace(fact, until=self.now + HOUR)
            decision = decide(by, self.state, fact, self.now)
            if decision.state is self.state:
                return f"{fact} changed nothing"
            if not isinstance(fact, ev.SagaRecovered):
                self.acts.append(Act(type(fact).__name__, index, failure.type if unfit else ""))
            event = MessageArrived(0, False, 0, 0, "", self._lease()) if decision.then is None else event

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
            return ev.StepCompensated(run.index, run.attempt), ""
        if code.kind != was.waits_for:
            return None, f"{was.name} is to run, and is {code.kind or 'a step'} now"
        if code.kind == "children":
            return ev.ChildrenStarted(run.index, run.attempt, 1, ("leg",)), ""
        if code.kind == "signal":
            return ev.WaitStarted(run.index, run.attempt, self.now + HOUR), ""
        if run.index == self.script.fails:
            return ev.StepFailed(run.index, run.attempt, ev.Failure("RuntimeError"), permanent=True), ""
        return ev.StepCompleted(run.index, run.attempt), ""


class Oracle:
    """Says what a saga will do.

    Args:
        life: the saga: its releases, its script, and when it met what the script has.
    """

    def __init__(self, life: Life) -> None:
        self.script = life.script
        self.steps = [part for part in life.old if not part.retired]
        self._old, self._new = ({part.name: part for part in release} for release in (life.old, life.new))
        self._deployed_at, self._back_at, self._cancelled_at = life.deployed_at, life.back_at, life.cancelled_at
        self._mended = mended(life.old, life.new)
        self._returned = False
        self.acts: list[Act] = []
        self.waited = False
        self.stands = dict[int, str]()
        """By position: ``done``, ``begun`` (children), ``undone`` or ``stuck``."""
        self.status = ""
        self._cause = ""

    def foretell(self) -> str:
        """Say the status in which it comes to rest, and its acts until then."""
        self.status = self._forward(0)
        return self.status

    def retried(self) -> str:
        """Say the same of what follows once the first release is deployed again, and the saga retried."""
        self._returned = True
        if self.script.mends:
            self._old = {part.name: part for part in self._mended}
        self._act("SagaRetried")
        if self.status == "DEAD_LETTERED":
            self.status = self._forward(len([place for place, how in self.stands.items() if how != "begun"]))
        else:
            again = [place for place, how in self.stands.items() if how == "stuck"]
            for place in sorted(again, reverse=True):
                if self._owed(place, self._code):
                    self._undo(place, self.steps[place])
            self.status = self._undone()
        return self.status

    def _act(self, fact: str, index: int = -1, error: str = "") -> None:
        self.acts.append(Act(fact, index, error))

    @property
    def _code(self) -> dict[str, Part]:
        """What is deployed."""
        came = 0 <= self._deployed_at <= len(self.acts)
        back = self._returned or 0 <= self._back_at <= len(self.acts)
        return self._new if came and not back else self._old

    def _misfit(self, place: int) -> str:
        """Code of a step runs, or a wait begins or is answered, only by code of the same name and kind."""
        was = self.steps[place]
        now = self._code.get(was.name)
        return "CodeGone" if now is None else "TypeChanged" if now.kind != was.kind else ""

    def _released(self) -> bool:
        """Whether a release comes that fits."""
        self.waited = self.waited or self.script.settle > 0
        self._returned = self._returned or (self.script.returns and self.script.settle > 0)
        return self._returned

    @property
    def _cancelled(self) -> bool:
        return len(self.acts) == self._cancelled_at

    def _forward(self, place: int) -> str:
        while place < len(self.steps):
            was = self.steps[place]
            if self._cancelled:
                return self._turned("cancel")
            if error := self._misfit(place):
                if self._cancelled_while_waiting():
                    return self._turned("cancel")
                if not self._released():
                    return self._dead(place, error)
            end = getattr(self, f"_{was.kind or 'plain'}")(place)
            if end:
                return end
            self.stands[place] = "done"
            place += 1
        return "COMPLETED"

    def _cancelled_while_waiting(self) -> bool:
        cancelled = self.script.cancels == WAITS and self.script.settle > 0 and not self._returned
        self.waited = self.waited or cancelled
        return cancelled

    def _dead(self, place: int, error: str) -> str:
        self._act("StepDeadLettered", place, error)
        return "DEAD_LETTERED"

    def _plain(self, place: int) -> str:
        if place == self.script.fails:
            self._act("StepFailed", place)
            return self._turned("failure")
        self._act("StepCompleted", place)
        return ""

    def _time(self, place: int) -> str:
        """A wait that has begun needs no code."""
        self._act("WaitStarted", place)
        if self._cancelled:
            return self._turned("cancel")
        self._act("WaitEnded", place)
        return ""

    def _signal(self, place: int) -> str:
        """An accepted signal is taken, whatever is deployed. A wait that nobody could answer does not time out."""
        self._act("WaitStarted", place)
        if self.script.signal != "early":
            if self._cancelled:
                return self._turned("cancel")
            if error := self._misfit(place):
                if self._cancelled_while_waiting():
                    return self._turned("cancel")
                if not self._released():
                    return self._dead(place, error)
        if self.script.signal == "never":
            self._act("WaitTimedOut", place)
            return self._turned("failure")
        self._act("SignalReceived", place)
        return ""

    def _children(self, place: int) -> str:
        """Children that have begun are joined without code, and undone."""
        self._act("ChildrenStarted", place)
        self.stands[place] = "begun"
        if self._cancelled:
            return self._turned("cancel")
        self._act("ChildrenEnded", place)
        return self._turned("failure") if place == self.script.fails else ""

    def _turned(self, cause: str) -> str:
        code, self._cause = self._code, cause
        if cause == "cancel":
            self._act("CancelRequested")
        self._act("CompensationStarted")
        below = len(self.steps)
        while (place := self._next(below, code)) is not None:
            code = self._undo(place, self.steps[place])
            below = place
        return self._undone()

    def _undone(self) -> str:
        if "stuck" in self.stands.values():
            return "COMPENSATION_FAILED"
        return "CANCELLED" if self._cause == "cancel" else "COMPENSATED"

    def _next(self, below: int, code: dict[str, Part]) -> int | None:
        """The last step before ``below`` that owes an undo to the code that looks for one: what had an undo at the
        start, and what has one now and is of its kind still."""
        done = (place for place in reversed(range(below)) if self.stands.get(place) in ("done", "begun"))
        return next((place for place in done if self._owed(place, code)), None)

    def _owed(self, place: int, code: dict[str, Part]) -> bool:
        was = self.steps[place]
        now = code.get(was.name)
        added = now is not None and now.kind == was.kind and now.undo
        return was.kind == "children" or was.undo or added

    def _undo(self, place: int, was: Part) -> dict[str, Part]:
        """Undo a step; return the code that looks for the next. What was to be undone by a later release, and is deployed
        no more, is not passed in silence."""
        now = self._code.get(was.name)
        fits = was.kind == "children" or (now is not None and now.undo)
        if fits or (was.undo and self._released()):
            code = self._code
            self._act("StepCompensated", place)
            self.stands[place] = "undone"
            return code
        code = self._code
        self._act("CompensationFailed", place, "CodeGone")
        self.stands[place] = "stuck"
        return code


KINDS = (("", False), ("", True), ("signal", False), ("signal", True), ("time", False), ("children", False))
OTHER = Part("other", "", True)


def of_two_steps() -> Iterator[tuple[Release, Release]]:
    """All pairs whose first release has two steps: each is gone, as it was or of another kind in the second one. Some
    of these have another order, a step more, or a retired one: no saga may notice."""
    number = 0
    for first, second in product(KINDS, repeat=2):
        old = (Part("a", *first), Part("b", *second))
        for one, two in product((None, *KINDS), repeat=2):
            kept = [Part(name, *kind) for name, kind in (("a", one), ("b", two)) if kind is not None]
            number += 1
            order = list(permutations(kept))[number % 2 if len(kept) == 2 else 0]
            more = (OTHER,) if not kept or number % 3 == 0 else ()
            some = tuple(part._replace(retired=number % 5 == 0 and bool(more)) for part in order)
            yield old, (*more, *some)


@lru_cache(5_000)
def alone(old: Release, fails: int, signal: str) -> tuple[tuple[Act, ...], str]:
    """Return the acts of a saga whose release stays, and how it ends."""
    life = Life.begin(old, old, Script(fails, signal))
    assert life.run() == ""
    return tuple(life.acts), life.state.status


def scripts(old: Release) -> Iterator[Script]:
    """All that may happen to a saga of a release."""
    signals = ("early", "asked", "never") if any(part.kind == "signal" for part in old if not part.retired) else ("asked",)
    steps = [part for part in old if not part.retired]
    failing = [place for place, part in enumerate(steps) if part.kind in ("", "children")]
    for fails, signal in product((-1, *failing), signals):
        for deploys in range(len(alone(old, fails, signal)[0])):
            at_once, later = Script(fails, signal, deploys), Script(fails, signal, deploys, settle=900.0)
            yield from (at_once, later, at_once._replace(mends=True), later._replace(asks=True))
            yield from (later._replace(cancels=WAITS), later._replace(returns=True))
            yield from (at_once._replace(back=deploys + more) for more in (1, 2, 3))
            yield from (one._replace(cancels=deploys + more) for one in (at_once, later) for more in (0, 1))


NAMES = "abcdefgh"


def some_pair(chance: Random) -> tuple[Release, Release]:
    """A release of up to four steps, and what one to three edits make of it."""
    old = [Part(name, *chance.choice(KINDS)) for name in NAMES[: chance.randint(1, 4)]]
    if len(old) > 1 and chance.random() < 0.2:
        spot = chance.randrange(len(old))
        old[spot] = old[spot]._replace(retired=True)
    new = list(old)
    for _ in range(chance.randint(1, 3)):
        _edit(new, chance)
    if all(part.retired for part in new):
        new.append(OTHER)
    return tuple(old), tuple(new)


def _edit(parts: list[Part], chance: Random) -> None:
    """Change a release as its author may: a step is added, removed, renamed, moved, retired, or is of another kind, or
    an undo comes or goes."""
    free = next(name for name in NAMES if name not in {part.name for part in parts})
    edits = ("add", "remove", "rename", "move", "kind", "undo", "undo", "retire")
    edit = chance.choice(edits) if parts else "add"
    if edit == "add":
        parts.insert(chance.randint(0, len(parts)), Part(free, *chance.choice(KINDS)))
        return
    spot = chance.randrange(len(parts))
    part = parts.pop(spot)
    if edit == "move":
        parts.insert(chance.randint(0, len(parts)), part)
    elif edit == "rename":
        parts.insert(spot, part._replace(name=free))
    elif edit == "kind":
        kind, undo = chance.choice(KINDS)
        parts.insert(spot, part._replace(kind=kind, undo=undo))
    elif edit == "undo":
        parts.insert(spot, part._replace(undo=not part.undo and part.kind in ("", "signal")))
    elif edit == "retire":
        parts.insert(spot, part._replace(retired=True))


def some_script(old: Release, chance: Random) -> Script:
    """One of the things that may happen to a saga of a release."""
    return chance.choice(list(scripts(old)))
