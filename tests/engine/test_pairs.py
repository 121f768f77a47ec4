"""Pairs of releases on tables and queues, whose sagas do what ``tests/model/oracle.py`` says, whatever dies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, pairwise
from random import Random
from typing import Any

import pytest

from sagas.core.states import SagaState, SagaStatus
from sagas.engine.supervise.recovery import RecoveryFilter
from sagas.testing.faults import DEATHS, LOST_ANSWERS, Fault, Point
from tests.faults.invariants import check
from tests.faults.sagas import STAGE
from tests.faults.world import CrashWorld, Effect, world
from tests.model.lived import Act, some_script
from tests.model.oracle import Oracle
from tests.model.pairs import (
    CHILDREN,
    WAITS,
    Case,
    Part,
    Release,
    Script,
    of_two_steps,
    saga_class,
    some_pair,
    with_new_undos,
)
from tests.model.shrinking import refuse
from tests.support.hostile import FULL

_ACTS = (
    *(
        "StepCompleted",
        "StepSkipped",
        "StepFailed",
        "WaitStarted",
        "SignalReceived",
        "WaitEnded",
        "WaitTimedOut",
        "ChildrenStarted",
    ),
    *("ChildrenEnded", "CancelRequested", "CompensationStarted", "StepCompensated", "StepDeadLettered"),
    *("CompensationFailed", "CompensationPostponed", "SagaRetried", "StepPostponed"),
)
_REQUEST = "4711"
_CHANGES = (
    *(("text", "text"),) * 4,
    *(("text", "secret"), ("secret", "text"), ("text", "number"), ("secret", "number")),
)
"""The types of the request before and after."""
_MOST_EVENTS = 400
"""Deliveries and visits of the supervisor until a saga is at rest."""


@dataclass(slots=True)
class Journey:
    """A saga on its way through a deployment; fields that :class:`tests.model.lived.Life` has, too, mean the same.

    Args:
        requests: the type of the request in each release.
        upcast: the second one converts what it cannot read.
        paused_until: when its type is resumed; 0 before the pause, -1 after it.
        returned: the first release came back while the saga waited for a release.
    """

    world: CrashWorld
    old: Release
    new: Release
    script: Script
    requests: tuple[str, str] = ("text", "text")
    upcast: bool = False
    deployed: Release = ()
    saga_id: str = ""
    deployed_at: int = -1
    back_at: int = -1
    cancelled_at: int = -1
    asked: float = 0.0
    paused_until: float = 0.0
    retried: bool = False
    returned: bool = False
    served: list[bool] = field(default_factory=list[bool])
    turn: int = 0
    unreadable: bool = False
    children: list[type[Any]] = field(default_factory=list[type[Any]])
    sent: dict[str, Part] = field(default_factory=dict[str, Part])

    def __post_init__(self) -> None:
        self.unreadable = self.requests[1] == "number" and not self.upcast
        names = {name for part in (*self.old, *self.new) if part.kind == "children" for name in part.of.split()}
        self.children = [CHILDREN[name] for name in sorted(names)]

    def begin(self) -> None:
        """Start the saga with the first release."""
        self.world.reset()
        self.deploy(self.old)
        steps = [part for part in self.old if not part.retired]
        STAGE.reject = {steps[self.script.fails].name} if self.script.fails >= 0 else set()
        self.world.call(lambda engine: engine.starter.start("pair", _REQUEST, key="key"))
        (state,) = self.world.asked()
        self.saga_id = state.saga_id
        for part in steps if self.script.signal == "early" else ():
            if part.kind == "signal":
                self._signal(part.name)

    def deploy(self, release: Release) -> None:
        """Deploy a release. The queues of steps that it has not are gone, and so is what they had."""
        self._have(release)
        gone = {f"pair-{part.name}" for part in (*self.old, *self.new)} - {f"pair-{part.name}" for part in release}
        letters = self.world.mailbox.letters
        letters[:] = [letter for letter in letters if letter.queue not in gone]

    def _have(self, release: Release) -> None:
        """From now on functions have this release."""
        self.deployed = release
        new = release is self.new
        code = saga_class(release, self.requests[new], upcast=new and self.upcast)
        self.world.deploy(code, *self.children, settle=self.script.settle)

    def shown(self) -> tuple[str, Any]:
        """All that readers see of the saga, and its result."""
        with self.world.wire.aside():
            reader = self.world.engine.reader
            trail, _ = reader.audit("pair", self.saga_id, 100, 0)
            saga = reader.show("pair", self.saga_id)
            return json.dumps([saga, trail, reader.list(["pair"], None, 10, None)]), saga["result"]

    def acts(self) -> list[Act]:
        """What the audit trail says."""
        places = {part.name: place for place, part in enumerate(part for part in self.old if not part.retired)}
        return [
            Act(row["action"], places.get(row["step"] or "", -1), _error(row))
            for row in self.world.entries(self.saga_id)
            if row["action"] in _ACTS and not (row["action"] == "StepPostponed" and _error(row))
        ]

    def state(self) -> SagaState:
        """The saga, as it is stored."""
        with self.world.wire.aside():
            found = self.world.engine.control.get(self.saga_id)
        assert found is not None
        return found

    def run(self) -> str:
        """Go on until only a person would; return its status, or that it does not come to rest."""
        for _ in range(_MOST_EVENTS):
            state = self.state()
            if state.ended or state.status is SagaStatus.DEAD_LETTERED:
                self.world.settle()
                return self.state().status
            if len(self.world.entries(self.saga_id)) == state.seq:  # otherwise somebody died while a fact was journaled
                self.meet_the_script(state)
            if not self.world.happen():
                self.world.clock.advance(60)  # it is paused
            self.served += [self.deployed is self.new] * (len(self.acts()) - len(self.served))
        return "restless"

    def meet_the_script(self, state: SagaState) -> None:
        """Let happen what the script has for this moment."""
        script, acts = self.script, len(self.acts())
        waits = state.settling_since > 0 and state.lease is None  # a takeover waits, too, and no script has that
        if self.deployed_at < 0 and 0 <= script.deploys <= acts:
            self.deployed_at = acts
            (self._have if script.mixed else self.deploy)(self.new)
        if self.back_at < 0 <= self.deployed_at and 0 <= script.back <= acts:
            self.back_at = acts
            self.deploy(self.old)
        if waits and script.returns and not self.returned:
            self.returned = True
            self.deploy(self.old)
        if script.mixed and self.deployed_at >= 0 and not (self.retried or self.back_at >= 0 or self.returned):
            self.turn += 1
            self._have(self.new if self.turn % script.mixed else self.old)
        self._pause(acts)
        if waits and script.asks and self.asked < self.world.clock.now():
            self.asked = self.world.clock.now()
            only = RecoveryFilter(saga_id=self.saga_id)
            self.world.call(lambda engine: engine.recovery.run(60.0, requested=only))
        cancels = (waits and script.cancels == WAITS) or 0 <= script.cancels <= acts
        if cancels and not self.retried and not state.undoing and self.cancelled_at < 0:
            self.cancelled_at = acts
            self.world.cancel()
        if name := self._asks_for_a_signal():  # of the next wait, once the script had its say after this one
            self._signal(name)

    def _pause(self, acts: int) -> None:
        now = self.world.clock.now()
        if 0 <= self.script.pauses <= acts and not self.paused_until:
            self.paused_until = now + 600
            self.world.call(lambda engine: engine.pausing.pause("pair", "ada"))
        elif 0 < self.paused_until <= now:
            self.paused_until = -1
            self.world.call(lambda engine: engine.pausing.resume("pair", "ada"))

    def _signal(self, name: str) -> None:
        part = self.sent[name] = next(part for part in self.deployed if part.name == name)
        self.world.call(lambda engine: engine.signals.send("pair", self.saga_id, name, part.value, "ada"))

    def _asks_for_a_signal(self) -> str:
        """The step that waits for one that is to be sent, and is deployed as such a wait."""
        state, kinds = self.state(), {part.name: part.kind for part in self.deployed}
        step = state.current
        if step is None or self.script.signal != "asked" or state.waiting_for != "signal" or state.cancel.at:
            return ""
        return step.name if kinds.get(step.name) == "signal" and not step.signalled else ""

    def retry(self) -> str:
        """Deploy the first release again, and retry the saga."""
        self.deploy(with_new_undos(self.old, self.new) if self.script.keeps_new_undos else self.old)
        self.retried = True
        self.world.operate("retry", "the code is back")
        return self.run()


_UNFIT = ("CodeGone", "TypeChanged")


def _error(row: dict[str, Any]) -> str:
    """Return the type of an error that says that code does not fit."""
    return row["error"] if row["error"] in _UNFIT and row["action"] != "CompensationPostponed" else ""


def wrong(world: CrashWorld, case: Case) -> str:
    """What is wrong with a saga; empty if nothing is."""
    world.wire.begin([Point(number, Fault[name]) for number, name in case.faults])
    journey = Journey(world, *case[:5])
    journey.begin()
    status = journey.run()
    if any(_unheard(world, number, name) for number, name in case.faults) or (case.faults and _overtaken(journey)):
        return ""
    oracle = Oracle(journey)
    for retried in (False, True):
        foretold = oracle.retried() if retried else oracle.foretell()
        acts = journey.acts()
        if (acts, status) != (oracle.acts, foretold):
            return f"{status} after {acts}; not {foretold} after {oracle.acts}"
        if retried or status not in (SagaStatus.DEAD_LETTERED, SagaStatus.COMPENSATION_FAILED):
            break
        status = journey.retry()
    if dead := world.dead_letters:
        return f"dead letters: {dead}"
    steps = [part for part in journey.old if not part.retired]
    undone = [steps[act.place] for act in journey.acts() if act.fact == "StepCompensated"]
    by_code = [part.name for part in undone if part.kind != "children"]
    executed = dict.fromkeys(one.name for one in world.events if isinstance(one, Effect) and one.undo)
    if [*executed] != by_code:
        return f"undone: {executed}"
    if found := _wrongly_shown(journey, oracle, status):
        return found
    journey.deploy(tuple(part._replace(undo=part.undo or part.name in executed) for part in journey.old))
    return "; ".join(check(world, world.wire.points))


def _wrongly_shown(journey: Journey, oracle: Oracle, status: str) -> str:
    """What readers see under the second release, and should not; a result that is not the saga's."""
    journey.deploy(journey.new)
    shown, result = journey.shown()
    hides = {part.name for part in (*oracle.by.values(), *journey.new) if _secret(part)}
    secrets = [Part(name).value for name in hides] + ["4711"] * ("secret" in journey.requests)
    if seen := [secret for secret in secrets if secret in shown]:
        return f"shown: {seen}"
    gives = oracle.gives
    hidden = gives is not None and gives.kind != "time" and gives.name in hides
    expected = "***" if hidden else gives and gives.value
    return "" if status is not SagaStatus.COMPLETED or result == expected else f"the result is {result}"


def _secret(part: Part) -> bool:
    return part.result == "secret" and part.kind in ("", "signal")


@pytest.fixture(scope="module")
def made() -> Iterator[CrashWorld]:
    with world() as one, one.wire.installed():
        yield one


_TWO_STEPS = [*of_two_steps()]


def _pair(chance: Random) -> tuple[Release, Release]:
    """One as authors edit them, or one whose steps change more."""
    return some_pair(chance, values=True) if chance.random() < 0.75 else chance.choice(_TWO_STEPS)


def _cases(made: CrashWorld, chance: Random) -> Iterator[Case]:
    """Cases, each undisturbed, then with a death or a lost answer at one of its requests. The first one is to be run
    before the second is made."""
    while True:
        old, new = _pair(chance)
        script = some_script(old, chance)._replace(pauses=chance.choice((-1, -1, 0, 1, 2, 3)))
        case = Case(old, new, script, chance.choice(_CHANGES), chance.random() < 0.5)
        yield case
        if any(part.polls for part in (*old, *new)):
            continue  # whether a step that died polls again depends on where it died
        yield case._replace(faults=(_some_fault(made.wire.trace, chance.choice((*DEATHS, *LOST_ANSWERS)), chance),))


def _some_fault(trace: list[str], fault: Fault, chance: Random) -> tuple[int, str]:
    """At one of the requests of a run. A step that does not hear of its own effect fails, which no script has: it
    dies."""
    number = chance.randint(1, len(trace))
    return number, fault.name if not trace[number - 1].startswith("effect") else Fault.DIES_AFTER.name


def _unheard(world: CrashWorld, number: int, fault: str) -> bool:
    """Whether a step did not hear of its own effect, and lived: a script has nothing like it."""
    trace = world.wire.trace
    return Fault[fault] not in DEATHS and number <= len(trace) and trace[number - 1].startswith("effect")


def _overtaken(journey: Journey) -> bool:
    """Whether a cancel came while the value of an accepted signal could not be read: a script has nothing like it."""
    waits = {part.name for part in journey.old if part.kind == "signal"}
    rows = journey.world.entries(journey.saga_id)
    return any(
        (row["action"], after["action"]) == ("StepPostponed", "CancelRequested") and row["step"] in waits
        for row, after in pairwise(rows)
    )


@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 500 if FULL else 6))])
def test_some_pairs(made: CrashWorld, part: int) -> None:
    chance = Random(None if FULL else 12 + part)  # noqa: S311 - it selects cases, and makes no secret
    for case in islice(_cases(made, chance), 100):
        refuse(case, partial(wrong, made))


_ONCE_WRONG = (
    # The journal did not say that a job is in doubt, which the undo decided that was deployed when the step failed.
    Case(old=(Part("a"),), new=(Part("a", undo=True, own=True, polls=True),), script=Script(fails=0, deploys=0)),
    # An operator who asked again and again put off the end of a wait for a release.
    Case(
        old=(Part("a", undo=True), Part("b")),
        new=(Part("b"),),
        script=Script(fails=1, deploys=1, settle=900.0, asks=True),
    ),
    # A message of a step that is gone could not wait for the end of a lease, and died.
    Case(
        old=(Part("a", "children"), Part("b")),
        new=(Part("c"),),
        script=Script(deploys=1, cancels=2, mixed=3),
        faults=((49, "NO_ANSWER"),),
    ),
    # A wait that no longer has code began with the number of an execution that was lost.
    Case(
        old=(Part("a", "signal"), Part("b", "signal", undo=True), Part("c", "signal", undo=True, takes="b")),
        new=(Part("c", "signal"),),
        script=Script(deploys=4),
        faults=((38, "DIES_AFTER"),),
    ),
    # Children that failed did not wait for the policy of a step that is no step of children any more.
    Case(
        old=(Part("a", "children"),),
        new=(Part("a"),),
        script=Script(fails=0, deploys=1, settle=900.0),
    ),
    # Nor do children that complete need it.
    Case(
        old=(Part("a", "children"), Part("b")),
        new=(Part("b"),),
        script=Script(deploys=1),
    ),
    # The audit trail did not say that an undo turned out not to be owed.
    Case(
        old=(Part("a", "signal", undo=True),),
        new=(Part("a", "signal"),),
        script=Script(signal="never", deploys=0),
    ),
    # A message to a queue that was gone, after the commit, died.
    Case(
        old=(Part("a"), Part("b")),
        new=(Part("a"),),
        script=Script(deploys=0, settle=900.0),
    ),
)


@pytest.mark.parametrize("case", _ONCE_WRONG, ids=repr)
def test_what_was_wrong_once(made: CrashWorld, case: Case) -> None:
    refuse(case, partial(wrong, made))


_A, _B, _UNDONE = Part("a"), Part("b", takes="a"), (Part("a", undo=True), Part("b"))
_LONG = Script(settle=3 * 86_400.0, signal="never")
_UNFITTING = {
    "a step that is gone": (Case((_A, _B), (_A,), _LONG._replace(deploys=1)), 40, 130),
    "a step that is a wait now": (Case((_A, _B), (_A, Part("b", "signal")), _LONG._replace(deploys=1)), 40, 195),
    "an undo that is gone": (Case(_UNDONE, _UNDONE[1:], _LONG._replace(fails=1, deploys=1)), 40, 130),
    "a wait that is gone": (Case((_A, Part("b", "signal")), (_A,), _LONG._replace(deploys=2)), 40, 140),
    "a value that does not fit": (Case((_A, _B), (Part("a", result="number"), _B), _LONG._replace(deploys=1)), 65, 80),
}
"""Sagas that wait for a release, how many requests their own messages may make in an hour, and how many may be made in
all, with what the supervisor does for them. There are thirteen looks in the first hour. A look that needs a value
claims the step, journals and commits."""


@pytest.mark.parametrize("what", _UNFITTING)
def test_a_saga_that_waits_for_a_release_makes_few_requests(made: CrashWorld, what: str) -> None:
    case, own, most = _UNFITTING[what]
    made.wire.begin()
    journey = Journey(made, *case[:5])
    journey.begin()
    for _ in range(100):
        if journey.state().settling_since:
            break
        journey.meet_the_script(journey.state())
        made.happen()
    assert journey.state().settling_since
    hours = [_an_hour(made) for _ in range(3)]
    assert journey.state().settling_since
    made.wire.begin()
    made.reset()
    for _ in range(60):
        made.clock.advance(60)
        made.supervise()
    of_nobody = len(made.wire.trace)
    assert [hour for hour in hours if hour[0] > own or hour[1] - of_nobody > most] == []


def _an_hour(made: CrashWorld) -> tuple[int, int]:
    """How many requests the saga's own messages make in an hour, and how many are made in all."""
    began, end, own = len(made.wire.trace), made.clock.now() + 3_600, 0
    while made.clock.now() < end:
        coming = [letter for letter in made.letters if letter.visible_at <= made.clock.now()]
        handed_out = not coming or "recover" in min(coming, key=lambda letter: letter.visible_at).body
        before = len(made.wire.trace)
        made.happen()
        # Lambda deletes the messages.
        own += 0 if handed_out else sum(name != "delete message" for name in made.wire.trace[before:])
    return own, len(made.wire.trace) - began
