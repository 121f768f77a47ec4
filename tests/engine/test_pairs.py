"""Pairs of releases on tables and queues, whose sagas do what ``tests/model/oracle.py`` says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Any, cast

import pytest

from sagas.core import arrivals, rules
from sagas.core.commands import Postpone
from sagas.core.rules import Plan
from sagas.core.states import SagaState, SagaStatus
from sagas.engine import advance
from sagas.engine.supervise.recovery import RecoveryFilter
from sagas.errors import NotFound, Rejected, SagaError
from sagas.store.control.control import ControlItems
from sagas.store.outcomes import Fenced
from tests.engine.changing import First, WithoutPay, deployed, in_flight
from tests.model.lived import Act, some_script
from tests.model.oracle import Oracle
from tests.model.pairs import (
    NAMES,
    OTHER,
    WAITS,
    Leg,
    Part,
    Release,
    Script,
    definition,
    saga_class,
    some_pair,
    with_new_undos,
)
from tests.support.bench import Bench
from tests.support.hostile import FULL
from tests.support.sagas import FAIL, LOG

_ALL = (*(Part(name) for name in (*NAMES, OTHER.name)), Part("legs", "children"))
_ACTS = (
    *("StepCompleted", "StepFailed", "WaitStarted", "SignalReceived", "WaitEnded", "WaitTimedOut", "ChildrenStarted"),
    *("ChildrenEnded", "CancelRequested", "CompensationStarted", "StepCompensated", "StepDeadLettered"),
    *("CompensationFailed", "SagaRetried"),
)


@dataclass(slots=True)
class Journey:
    """A saga on its way through a deployment; the fields that :class:`tests.model.lived.Life` has, too, mean the same.

    Args:
        queues: the queues of all steps that any release may have.
    """

    b: Bench
    queues: dict[str, str]
    old: Release
    new: Release
    script: Script
    deployed: Release = ()
    saga_id: str = ""
    deployed_at: int = -1
    back_at: int = -1
    cancelled_at: int = -1
    asked: float = 0.0
    retried: bool = False

    def begin(self) -> None:
        """Start the saga with the first release."""
        LOG.clear()
        FAIL.clear()
        self.b.stack.settle_seconds = int(self.script.settle)
        self.deploy(self.old)
        steps = [part for part in self.old if not part.retired]
        if self.script.fails >= 0:
            FAIL[steps[self.script.fails].name] = Rejected("no")
        self.saga_id = self.b.start("pair", "x")
        for part in steps if self.script.signal == "early" else ():
            if part.kind == "signal":
                self.b.engine.signals.send("pair", self.saga_id, part.name, "yes", "ada")

    def deploy(self, release: Release) -> None:
        """Deploy a release. The queues of steps that it has not are gone, and so is what they had."""
        self.deployed = release
        steps = definition(release).steps if definition(release).has_code else ()
        kept = {step.name: self.queues[step.name] for step in steps}
        for name, url in self.queues.items():
            if name not in kept:
                for record in self.b.stack.receive_from(url, 10):
                    self.b.stack.sqs.delete_message(QueueUrl=url, ReceiptHandle=record["receiptHandle"])
        self.b.stack.queues["pair"] = kept
        self.b.engine = self.b.deploy(saga_class(release), Leg)

    def acts(self) -> list[Act]:
        """What the audit trail says."""
        places = {part.name: place for place, part in enumerate(part for part in self.old if not part.retired)}
        found = list[Act]()
        for entry in self.b.stack.entries(self.saga_id):
            if entry["action"] in _ACTS:
                details = cast("dict[str, Any]", entry.get("details") or {})
                error = str(details.get("error", {}).get("type", ""))
                unfit = error if error in ("CodeGone", "TypeChanged") else ""
                found.append(Act(str(entry["action"]), places.get(str(entry.get("step", "")), -1), unfit))
        return found

    def run(self) -> SagaStatus:
        """Go on until only a person would."""
        for _ in range(150):
            state = self.b.state(self.saga_id)
            if state.ended or state.status is SagaStatus.DEAD_LETTERED:
                return state.status
            self._meet_the_script()
            self._deliver()
        raise AssertionError("it does not come to rest")

    def _meet_the_script(self) -> None:
        script, state = self.script, self.b.state(self.saga_id)
        acts, waits = len(self.acts()), state.settling_since > 0
        if self.deployed_at < 0 and 0 <= script.deploys <= acts:
            self.deployed_at = acts
            self.deploy(self.new)
        if self.back_at < 0 <= self.deployed_at and 0 <= script.back <= acts:
            self.back_at = acts
            self.deploy(self.old)
        if waits and script.returns and self.deployed is not self.old:
            self.deploy(self.old)
        if waits and script.asks and self.asked < self.b.clock.now():
            self.asked = self.b.clock.now()
            self.b.engine.recovery.run(60.0, requested=RecoveryFilter(saga_id=self.saga_id))
        cancels = (waits and script.cancels == WAITS) or 0 <= script.cancels <= acts
        if cancels and not self.retried and not state.undoing and self.cancelled_at < 0:
            self.cancelled_at = acts
            self.b.engine.operations.cancel("pair", self.saga_id, "ada")
        while name := self._asks_for_a_signal():
            self.b.engine.signals.send("pair", self.saga_id, name, "yes", "ada")

    def _asks_for_a_signal(self) -> str:
        """The step that waits for one that is to be sent, and is deployed as such a wait."""
        state, kinds = self.b.state(self.saga_id), {part.name: part.kind for part in self.deployed}
        step = state.current
        if step is None or self.script.signal != "asked" or state.waiting_for != "signal" or state.cancel.at:
            return ""
        return step.name if kinds.get(step.name) == "signal" and not step.signalled else ""

    def _deliver(self) -> None:
        """Deliver one message; where there is none, let time pass, and the supervisor look."""
        for saga, name in self.b.stack.steps():
            end = self.b.deliver(saga, name)
            if end is not None:
                if isinstance(end, Postpone):
                    self.b.clock.advance(max(0.0, end.until - self.b.clock.now()) + 0.001)
                return
        if not self.b.end_waits():
            ends = self.b.state(self.saga_id).not_before
            self.b.clock.advance(max(61.0, ends - self.b.clock.now() + 1))
            self.b.recover()

    def retry(self) -> SagaStatus:
        """Deploy the first release again, and retry the saga."""
        self.deploy(with_new_undos(self.old, self.new) if self.script.keeps_new_undos else self.old)
        self.retried = True
        self.b.engine.operations.retry("pair", self.saga_id, "the code is back", "ada")
        return self.run()


def wrong(journey: Journey) -> str:
    """What is wrong with a saga; empty if nothing is."""
    journey.begin()
    status = journey.run()
    oracle = Oracle(journey)
    for retried in (False, True):
        foretold = oracle.retried() if retried else oracle.foretell()
        acts = journey.acts()
        if (acts, status) != (oracle.acts, foretold):
            return f"{status} after {acts}; not {foretold} after {oracle.acts}"
        if retried or status not in (SagaStatus.DEAD_LETTERED, SagaStatus.COMPENSATION_FAILED):
            break
        status = journey.retry()
    if dead := journey.b.dead_letters("pair"):
        return f"{dead} dead letters"
    steps = [part for part in journey.old if not part.retired]
    undone = [steps[act.place] for act in journey.acts() if act.fact == "StepCompensated"]
    by_code = [f"-{part.name}" for part in undone if part.kind != "children"]
    executed = [what for what in LOG if what.startswith("-")]
    return "" if executed == by_code else f"undone: {executed}"


def _journeys(b: Bench, chance: Random) -> Iterator[Journey]:
    queues = dict(b.stack.queues["pair"])
    while True:
        old, new = some_pair(chance)
        yield Journey(b, queues, old, new, some_script(old, chance))


@pytest.mark.parametrize("part", range(200 if FULL else 1))
def test_some_pairs(bench: Callable[..., Bench], part: int) -> None:
    chance = Random(None if FULL else 12 + part)  # noqa: S311 - it selects cases, and makes no secret
    for journey in islice(_journeys(bench(saga_class(_ALL), Leg), chance), 100):
        assert wrong(journey) == "", (journey.old, journey.new, journey.script)


def _claims_of_any_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = ControlItems.claim_step

    def of_any_kind(self: ControlItems, *given: Any, kind: str | None = None, **named: Any) -> Any:
        return claim(self, *given, **named)

    monkeypatch.setattr(ControlItems, "claim_step", of_any_kind)


def _a_queue_that_is_gone_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advance, "NotFound", Fenced)


@pytest.mark.parametrize("mistake", [_claims_of_any_kind, _a_queue_that_is_gone_is_an_error])
def test_a_mistake_is_noticed(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch, mistake: Callable[[pytest.MonkeyPatch], None]
) -> None:
    mistake(monkeypatch)

    def noticed(journey: Journey) -> bool:
        try:
            return wrong(journey) != ""
        except NotFound:
            return True

    journeys = _journeys(bench(saga_class(_ALL), Leg), Random(12))  # noqa: S311 - it selects cases, and makes no secret
    assert any(map(noticed, islice(journeys, 50)))


def test_code_that_is_not_there_is_never_passed_in_silence(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If nobody asked whether the code fits, the message would die visibly."""
    b = bench(First)
    in_flight(b, "book")
    deployed(b, WithoutPay)
    for module in (advance, arrivals, rules):
        monkeypatch.setattr(module, "misfit", _fits)
    with pytest.raises(SagaError, match="step 'pay' has no code to run"):
        b.deliver("change", "pay")


def _fits(plan: Plan, state: SagaState, now: float) -> None:
    return None
