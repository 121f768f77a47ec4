"""What is not deployed is unknown: a saga waits for a release, and then for an operator. Nothing has a default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from sagas import Exhausted, NotYet, Rejected, Retry, Saga, children, step, wait_for
from sagas.core.rules import attention_code
from sagas.engine.committer import Committer
from sagas.errors import Conflict, Unavailable
from sagas.store.control.control import ControlItems
from tests.support.bench import Bench, Death, once
from tests.support.sagas import FAIL, LOG, perform

Make = Callable[..., Bench]
SETTLE = 900
ONCE = Retry.constant(max_retries=0, delay=0)


@dataclass(frozen=True)
class Order:
    item: str = "x"


def settling(make: Make, *classes: type[Any], settle: int = SETTLE) -> Bench:
    """Make a bench with this release, whose sagas wait fifteen minutes for the next one."""
    b = make(*classes)
    b.stack.settle_seconds = settle
    b.engine = b.deploy(*classes)
    return b


def pump(b: Bench, minutes: int) -> None:
    """Deliver what there is, and let the supervisor look, every five minutes, and then once a minute."""
    end = b.clock.now() + 60 * minutes
    while b.clock.now() < end:
        while b.end_waits():
            pass
        for saga, name in b.stack.steps():
            b.deliver(saga, name)
        b.recover()
        b.clock.advance(60 if end - b.clock.now() <= 300 else 300)


def listed(b: Bench, saga_id: str) -> bool:
    return any(saga["saga_id"] == saga_id for saga in b.engine.reader.attention(None, 10, None)["sagas"])


def why(b: Bench, saga_id: str) -> str:
    return attention_code(b.state(saga_id)).value


def retried(b: Bench, saga_id: str) -> str:
    """Retry a saga, and return the status in which it comes to rest."""
    b.engine.operations.retry(b.state(saga_id).saga, saga_id, "the code is back", "ada")
    pump(b, 5)
    return b.status(saga_id)


# An undo of a step that began and never completed.


class Packed(Saga[Order], name="pack"):
    @step
    def book(self, request: Order) -> str:
        perform("book")
        return "seat"

    @book.compensate
    def unbook(self) -> None:
        perform("unbook")

    @step(undo_when="started", retry=Retry.constant(max_retries=5, delay=600))
    def pack(self) -> str:
        perform("pack")
        return "box"

    @pack.compensate
    def unpack(self, pack: str | None) -> None:
        perform("unpack")


class PackedWhenCompleted(Saga[Order], name="pack"):
    book, unbook = Packed.book, Packed.unbook

    @step(retry=Retry.constant(max_retries=5, delay=600))
    def pack(self) -> str:
        perform("pack")
        return "box"

    @pack.compensate
    def unpack(self, pack: str) -> None:
        perform("unpack")


class NotPacked(Saga[Order], name="pack"):
    book, unbook = Packed.book, Packed.unbook


def started(make: Make, release: type[Any], settle: int = SETTLE) -> tuple[Bench, str]:
    """A saga whose second step failed once, and which is cancelled under a release without that step."""
    b = settling(make, release, settle=settle)
    FAIL["pack"] = OSError("the printer")
    saga_id = b.start("pack")
    b.deliver("pack", "book")
    b.deliver("pack", "pack")
    b.engine = b.deploy(NotPacked)
    b.engine.operations.cancel("pack", saga_id, "ann")
    return b, saga_id


def test_the_undo_of_a_started_step_waits_for_its_code(bench: Make) -> None:
    b, saga_id = started(bench, Packed)
    pump(b, 5)
    assert (b.status(saga_id), LOG) == ("COMPENSATING", ["book", "pack"])
    b.engine = b.deploy(Packed)
    pump(b, 10)
    assert (b.status(saga_id), LOG[2:]) == ("CANCELLED", ["unpack", "unbook"])


def test_without_it_an_operator_is_asked(bench: Make) -> None:
    b, saga_id = started(bench, Packed, settle=0)
    pump(b, 2)
    assert (b.status(saga_id), listed(b, saga_id)) == ("COMPENSATION_FAILED", True)
    b.engine = b.deploy(Packed)
    assert (retried(b, saga_id), LOG.count("unpack")) == ("CANCELLED", 1)


@pytest.mark.parametrize("settle", [0, SETTLE])
def test_an_undo_that_turns_out_not_to_be_owed_is_not_called(bench: Make, settle: int) -> None:
    b, saga_id = started(bench, PackedWhenCompleted, settle)
    pump(b, 5)
    b.engine = b.deploy(PackedWhenCompleted)
    if settle:
        pump(b, 10)
    else:
        assert b.status(saga_id) == "COMPENSATION_FAILED"
        retried(b, saga_id)
    assert (b.status(saga_id), LOG.count("unpack"), LOG.count("unbook")) == ("CANCELLED", 0, 1)
    assert b.state(saga_id).steps[1].undo_attempts.made == 0


# A step that polls, or a wait, whose undo is gone.


class Polled(Saga[Order], name="trip"):
    book, unbook = Packed.book, Packed.unbook

    @step
    def job(self) -> str:
        perform("job")
        raise NotYet(60, "the job")

    @job.compensate
    def stop(self) -> None:
        perform("stop")


class PolledWithoutUndo(Saga[Order], name="trip"):
    book, unbook = Packed.book, Packed.unbook

    @step
    def job(self) -> str:
        raise NotYet(60, "the job")


class WithoutJob(Saga[Order], name="trip"):
    book, unbook = Packed.book, Packed.unbook


class Waited(Saga[Order], name="trip"):
    book, unbook = Packed.book, Packed.unbook
    job = wait_for(str, timeout=timedelta(days=1), undo_when="started")

    @job.compensate
    def stop(self) -> None:
        perform("stop")

    @step
    def last(self) -> None: ...


class WaitedWithoutUndo(Saga[Order], name="trip"):
    book, unbook = Packed.book, Packed.unbook
    job = wait_for(str, timeout=timedelta(days=1), undo_when="started")
    last = Waited.last


@pytest.mark.parametrize(
    ("old", "new"), [(Polled, PolledWithoutUndo), (Polled, WithoutJob), (Waited, WaitedWithoutUndo)]
)
def test_the_undo_of_a_step_that_waits_settles(bench: Make, old: type[Any], new: type[Any]) -> None:
    b = settling(bench, old)
    saga_id = b.start("trip")
    pump(b, 1)
    assert b.status(saga_id) == "WAITING"
    b.engine = b.deploy(new)
    b.engine.operations.cancel("trip", saga_id, "ann")
    pump(b, 10)
    assert (b.status(saga_id), b.show(saga_id)["waiting"]["kind"]) == ("COMPENSATING", "release")
    assert "unbook" not in LOG, "undos keep their order"
    pump(b, 10)
    assert (b.status(saga_id), listed(b, saga_id), LOG.count("unbook")) == ("COMPENSATION_FAILED", True, 1)
    b.engine = b.deploy(old)
    assert (retried(b, saga_id), LOG.count("stop")) == ("CANCELLED", 1)


def test_a_wait_that_ended_without_its_code_is_undone_by_an_operator(bench: Make) -> None:
    b = settling(bench, Waited)
    saga_id = b.start("trip")
    pump(b, 1)
    b.engine = b.deploy(WithoutJob)
    b.clock.advance(86_400)
    pump(b, 20)
    assert (b.status(saga_id), why(b, saga_id)) == ("DEAD_LETTERED", "code_missing")
    b.engine = b.deploy(Waited)
    b.engine.operations.compensate("trip", saga_id, "ann", "no answer")
    pump(b, 3)
    assert LOG[1:] == ["stop", "unbook"]


# Policies of steps that have failed.


class Kid(Saga[Order], name="kid"):
    @step(retry=ONCE)
    def one(self) -> str:
        perform("kid")
        return "k"


def parents(policy: Exhausted) -> tuple[type[Any], type[Any]]:
    class Before(Saga[Order], name="trip"):
        book, unbook = Packed.book, Packed.unbook

        @children(Kid, on_failed=policy)
        def kids(self, request: Order) -> list[Order]:
            return [request]

        @step
        def last(self) -> str:
            perform("last")
            return "l"

    class After(Saga[Order], name="trip"):
        book, unbook, last = Before.book, Before.unbook, Before.last

    return Before, After


ENDS: dict[Exhausted, tuple[str, list[str]]] = {
    Exhausted.COMPENSATE: ("COMPENSATED", ["unbook"]),
    Exhausted.FAIL: ("FAILED", []),
    Exhausted.DEAD_LETTER: ("DEAD_LETTERED", []),
    Exhausted.CONTINUE: ("COMPLETED", ["last"]),
}


@pytest.mark.parametrize("back_after", [5, 30])
@pytest.mark.parametrize("policy", list(ENDS))
def test_children_that_failed_wait_for_the_policy(bench: Make, policy: Exhausted, back_after: int) -> None:
    before, after = parents(policy)
    b = settling(bench, before, Kid)
    FAIL["kid"] = RuntimeError("no")
    saga_id = b.start("trip")
    b.deliver("trip", "book")
    b.deliver("trip", "kids")
    b.end_waits()
    b.engine = b.deploy(after, Kid)
    pump(b, back_after)
    settles = back_after * 60 < SETTLE
    assert (b.status(saga_id), listed(b, saga_id)) == ("WAITING" if settles else "DEAD_LETTERED", not settles)
    assert LOG == ["book", "kid"]
    b.engine = b.deploy(before, Kid)
    if settles:
        pump(b, 8)
    else:
        assert why(b, saga_id) == "code_missing"
        retried(b, saga_id)
    assert (b.status(saga_id), [done for done in LOG[1:] if done != "kid"]) == ENDS[policy]
    assert LOG.count("kid") == 1, "a retry joins its children again, and starts none"


class Charged(Saga[Order], name="trip"):
    book, unbook = Packed.book, Packed.unbook

    @step(retry=Retry.constant(max_retries=0, delay=0, on_exhausted=Exhausted.DEAD_LETTER))
    def charge(self) -> str:
        perform("charge")
        return "paid"


class Passed(Saga[Order], name="trip"):
    book, unbook = Packed.book, Packed.unbook

    @step(
        within=timedelta(hours=1),
        retry=Retry.constant(max_retries=0, delay=0, on_exhausted=Exhausted.CONTINUE),
    )
    def charge(self) -> str | None:
        perform("charge")
        return "paid"

    @step
    def last(self) -> str:
        perform("last")
        return "l"


class NotCharged(Saga[Order], name="trip"):
    book, unbook = Packed.book, Packed.unbook


def dying(b: Bench, saga: str, *names: str) -> str:
    """A saga whose worker dies in the last of these steps."""
    saga_id = b.start(saga)
    for name in names[:-1]:
        b.deliver(saga, name)
    with pytest.raises(Death):
        b.deliver(saga, names[-1])
    b.clock.advance(400)
    return saga_id


@pytest.mark.parametrize("settle", [0, SETTLE])
def test_a_lost_last_attempt_is_not_undone_without_its_policy(bench: Make, settle: int) -> None:
    """The release that has the step notices the loss; the one without it handles the saga first after that."""
    b = settling(bench, Charged, settle=settle)
    FAIL["charge"] = Death()
    saga_id = dying(b, "trip", "book", "charge")
    b.recover()
    assert b.actions(saga_id)[-1] == "StepLost"
    b.engine = b.deploy(NotCharged)
    pump(b, 25 if settle else 2)
    assert (b.status(saga_id), listed(b, saga_id), LOG) == ("DEAD_LETTERED", True, ["book", "charge"])
    assert why(b, saga_id) == "code_missing"


def test_the_code_comes_back_in_time(bench: Make) -> None:
    b = settling(bench, Charged)
    FAIL["charge"] = Death()
    saga_id = dying(b, "trip", "book", "charge")
    b.recover()
    b.engine = b.deploy(NotCharged)
    pump(b, 5)
    b.engine = b.deploy(Charged)
    pump(b, 10)
    assert (b.status(saga_id), why(b, saga_id)) == ("DEAD_LETTERED", "exhausted")
    assert LOG == ["book", "charge"]


@pytest.mark.parametrize("back", [True, False])
def test_a_release_without_the_step_closes_no_lost_attempt_before_it_has_settled(bench: Make, back: bool) -> None:
    """How many attempts the step has is unknown, so one more could be one too many."""
    b = settling(bench, Charged)
    FAIL["charge"] = Death()
    saga_id = dying(b, "trip", "book", "charge")
    b.engine = b.deploy(NotCharged)
    pump(b, 10)
    assert b.actions(saga_id)[-1] == "StepCompleted"
    b.engine = b.deploy(Charged) if back else b.engine
    pump(b, 10)
    reason = "exhausted" if back else "code_missing"
    assert (b.status(saga_id), why(b, saga_id)) == ("DEAD_LETTERED", reason)
    assert (LOG, b.state(saga_id).steps[1].outcome_unknown) == (["book", "charge"], True)


@pytest.mark.parametrize("back_after", [5, 30])
def test_a_journaled_failure_is_not_committed_without_its_policy(
    bench: Make, monkeypatch: pytest.MonkeyPatch, back_after: int
) -> None:
    b = settling(bench, Passed)
    FAIL["charge"] = RuntimeError("no")
    saga_id = b.start("trip")
    b.deliver("trip", "book")
    once(monkeypatch, Committer, "_move_pointer")
    with pytest.raises(Death):
        b.deliver("trip", "charge")
    b.clock.advance(120)
    b.engine = b.deploy(NotCharged)
    pump(b, back_after)
    b.engine = b.deploy(Passed)
    if back_after * 60 < SETTLE:
        pump(b, 10)
    else:
        assert (b.status(saga_id), LOG) == ("DEAD_LETTERED", ["book", "charge"])
        retried(b, saga_id)
    again = ["charge"] if back_after * 60 >= SETTLE else []
    assert (b.status(saga_id), LOG) == ("COMPLETED", ["book", "charge", *again, "last"])


def test_an_outcome_that_could_not_be_committed_waits_for_its_policy(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = settling(bench, Passed)
    FAIL["charge"] = RuntimeError("no")
    saga_id = b.start("trip")
    b.deliver("trip", "book")

    def out_of_reach(*given: Any) -> Any:
        raise Unavailable("out of reach")

    with monkeypatch.context() as patch:
        patch.setattr(Committer, "commit", out_of_reach)
        b.deliver("trip", "charge")
    b.engine = b.deploy(NotCharged)
    b.deliver("trip", "charge")
    assert b.actions(saga_id)[-1] == "StepCompleted"
    b.engine = b.deploy(Passed)
    pump(b, 3)
    assert (b.status(saga_id), LOG) == ("COMPLETED", ["book", "charge", "last"])


class Fanned(Saga[Order], name="trip"):
    book, unbook = Packed.book, Packed.unbook

    @children(Kid, concurrency=1, tolerate=1)
    def kids(self, request: Order) -> list[Order]:
        return [request, request]


@pytest.mark.parametrize("settle", [0, SETTLE])
def test_children_are_not_all_started_because_their_number_is_unknown(
    bench: Make, monkeypatch: pytest.MonkeyPatch, settle: int
) -> None:
    b = settling(bench, Fanned, Kid, settle=settle)
    saga_id = b.start("trip")
    b.deliver("trip", "book")
    once(monkeypatch, Committer, "_move_pointer")
    with pytest.raises(Death):
        b.deliver("trip", "kids")
    b.clock.advance(120)
    b.engine = b.deploy(NotCharged, Kid)
    pump(b, 20 if settle else 2)
    assert (b.status(saga_id), LOG) == ("DEAD_LETTERED", ["book"])
    b.engine = b.deploy(Fanned, Kid)
    b.engine.operations.retry("trip", saga_id, "the code is back", "ada")
    b.deliver("trip", "kids")
    b.end_waits()
    assert (b.state(saga_id).steps[1].fan_out.handed_out, b.state(saga_id).steps[1].fan_out.tolerate) == (1, 1)
    pump(b, 3)
    assert (b.status(saga_id), LOG) == ("COMPLETED", ["book", "kid", "kid"])


class Called(Saga[Order], name="trip"):
    book, unbook = Packed.book, Packed.unbook
    ok = wait_for(str | None, timeout=timedelta(minutes=30), on_timeout=Exhausted.CONTINUE)

    @step
    def last(self) -> str:
        perform("last")
        return "l"


def test_a_wait_whose_worker_died_ends_as_its_own_policy_says(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = settling(bench, Called)
    saga_id = b.start("trip")
    pump(b, 1)
    b.clock.advance(1_800)
    once(monkeypatch, ControlItems, "finish")
    with pytest.raises(Death):
        b.engine.codeless_advancer.look(saga_id)
    b.clock.advance(400)
    b.engine = b.deploy(NotCharged)
    pump(b, 3)
    assert b.actions(saga_id)[-1] == "WaitStarted"
    b.engine = b.deploy(Called)
    pump(b, 10)
    assert (b.status(saga_id), LOG) == ("COMPLETED", ["book", "last"])


# A lost undo.


class Undone(Saga[Order], name="trip"):
    book, unbook = Packed.book, Packed.unbook

    @step
    def pay(self) -> str:
        perform("pay")
        return "paid"

    @pay.compensate(retry=ONCE)
    def refund(self) -> None:
        perform("refund")

    @step(retry=ONCE)
    def last(self) -> None:
        raise Rejected("no")


@pytest.mark.parametrize("back", [True, False])
def test_a_lost_undo_settles_before_an_earlier_undo_runs(bench: Make, back: bool) -> None:
    b = settling(bench, Undone)
    FAIL["refund"] = Death()
    saga_id = dying(b, "trip", "book", "pay", "last", "pay")
    b.engine = b.deploy(NotCharged)
    pump(b, 10)
    assert (b.status(saga_id), LOG) == ("COMPENSATING", ["book", "pay", "refund"])
    b.engine = b.deploy(Undone) if back else b.engine
    pump(b, 10)
    assert (b.status(saga_id), listed(b, saga_id)) == ("COMPENSATION_FAILED", True)
    error = b.entry(saga_id, "CompensationFailed")["details"]["error"]["type"]
    assert (LOG[3:], error) == (["unbook"], "Lost" if back else "CodeGone")


# NotYet: whether a job is in doubt is decided when nothing will stop it.


class Held(Saga[Order], name="buy"):
    @step
    def hold(self, request: Order) -> str:
        perform("hold")
        return "h"

    @hold.compensate
    def release(self) -> None:
        perform("release")

    @step(pivot=True, retry=ONCE)
    def capture(self) -> str:
        perform("capture")
        return "c"

    @step(retry=ONCE)
    def mail(self, capture: str) -> None: ...


class PivotMoved(Saga[Order], name="buy"):
    hold, release = Held.hold, Held.release

    @step(retry=ONCE)
    def capture(self) -> str:
        perform("capture")
        return "c"

    @capture.compensate
    def refund(self, capture: str) -> None:
        perform("refund")

    @step(pivot=True, retry=ONCE)
    def mail(self, capture: str) -> None: ...


@pytest.mark.parametrize("how", ["cancelled", "rejected"])
def test_a_pivot_that_is_not_yet_done_holds_nothing(bench: Make, how: str) -> None:
    b = settling(bench, Held)
    saga_id = b.start("buy")
    b.deliver("buy", "hold")
    b.engine = b.deploy(PivotMoved)
    FAIL["capture"] = NotYet(4, "the bank")
    b.deliver("buy", "capture")
    assert not b.state(saga_id).past_pivot
    if how == "cancelled":
        b.engine.operations.cancel("buy", saga_id, "ann")
    FAIL["capture"] = Rejected("declined")
    pump(b, 3)
    assert b.status(saga_id) == ("CANCELLED" if how == "cancelled" else "COMPENSATED")
    assert LOG[-1] == "release"


class Stopped(Saga[Order], name="query"):
    @step
    def job(self, request: Order) -> str:
        perform("job")
        raise NotYet(600, "the job")

    @job.compensate
    def stop(self) -> None:
        perform("stop")


class StoppedByResult(Saga[Order], name="query"):
    @step
    def job(self, request: Order) -> str:
        raise NotYet(600, "the job")

    @job.compensate
    def stop(self, job: str) -> None:
        perform("stop")


JOBS = {"nothing": Stopped, "result": StoppedByResult}
"""Releases by what the undo takes."""


@pytest.mark.parametrize("before", ["nothing", "result"])
@pytest.mark.parametrize("after", ["nothing", "result"])
def test_a_job_is_stopped_or_in_doubt(bench: Make, before: str, after: str) -> None:
    b = settling(bench, JOBS[before])
    saga_id = b.start("query")
    b.deliver("query", "job")
    b.engine = b.deploy(JOBS[after])
    b.engine.operations.cancel("query", saga_id, "ann")
    pump(b, 2)
    stopped = after == "nothing"
    assert (b.status(saga_id), LOG.count("stop")) == ("CANCELLED", int(stopped))
    assert (b.state(saga_id).in_doubt, listed(b, saga_id)) == (() if stopped else ("job",), not stopped)


@pytest.mark.parametrize("undo", ["nothing", "result"])
def test_an_undo_that_changes_after_the_cancel_stops_the_job_or_leaves_it_in_doubt(bench: Make, undo: str) -> None:
    b = settling(bench, Stopped)
    saga_id = b.start("query")
    b.deliver("query", "job")
    b.engine.operations.cancel("query", saga_id, "ann")
    b.engine.codeless_advancer.look(saga_id)
    assert b.status(saga_id) == "COMPENSATING"
    b.engine = b.deploy(JOBS[undo])
    pump(b, 2)
    assert (b.status(saga_id), LOG.count("stop")) == ("CANCELLED", int(undo == "nothing"))
    assert b.state(saga_id).in_doubt == (() if undo == "nothing" else ("job",))


@pytest.mark.parametrize("policy", [Exhausted.CONTINUE, Exhausted.FAIL])
def test_a_job_that_ran_out_of_time_is_in_doubt_if_its_undo_is_gone(bench: Make, policy: Exhausted) -> None:
    class Old(Saga[Order], name="query"):
        @step(within=timedelta(minutes=3), retry=Retry.constant(max_retries=0, delay=0, on_exhausted=policy))
        def job(self, request: Order) -> str | None:
            raise NotYet(4, "the job")

        @job.compensate
        def stop(self) -> None:
            perform("stop")

    class New(Saga[Order], name="query"):
        job = Old.job

    b = settling(bench, Old)
    saga_id = b.start("query")
    b.deliver("query", "job")
    b.engine = b.deploy(New)
    pump(b, 5)
    assert (b.state(saga_id).ended, b.state(saga_id).in_doubt, listed(b, saga_id)) == (True, ("job",), True)


# Types that are gone.


class Three(Saga[Order], name="trip"):
    @children(Kid, concurrency=1)
    def kids(self, request: Order) -> list[Order]:
        return [request] * 3

    @step
    def end(self) -> str:
        return "e"


class EndOnly(Saga[Order], name="trip"):
    end = Three.end


@pytest.mark.parametrize("cancels", [True, False])
def test_a_parent_whose_children_have_no_type_needs_an_operator(bench: Make, cancels: bool) -> None:
    b = settling(bench, Three, Kid)
    saga_id = b.start("trip")
    b.deliver("trip", "kids")
    b.end_waits()
    b.engine = b.deploy(EndOnly, Kid)
    b.deliver("kid", "one")
    b.engine = b.deploy(EndOnly)
    b.end_waits()
    assert (b.status(saga_id), b.state(saga_id).settling_since > 0) == ("WAITING", True)
    pump(b, 20)
    assert (b.status(saga_id), listed(b, saga_id)) == ("DEAD_LETTERED", True)
    assert b.show(saga_id)["attention"]["error"]["message"] == "type 'kid' of children of step 'kids' is not deployed"
    if cancels:
        b.engine.operations.cancel("trip", saga_id, "ann")
        pump(b, 5)
        assert b.status(saga_id) == "CANCELLED"
        return
    b.engine = b.deploy(Three, Kid)
    retried(b, saga_id)
    pump(b, 10)
    assert (b.status(saga_id), LOG) == ("COMPLETED", ["kid", "kid", "kid"])


def test_children_of_a_type_that_is_gone_are_not_awaited_for_ever(bench: Make) -> None:
    """The parent is undone, and so must be a child that nobody can undo."""

    class Kept(Saga[Order], name="kid"):
        book, unbook = Packed.book, Packed.unbook

    class Parent(Saga[Order], name="trip"):
        @children(Kept)
        def kids(self, request: Order) -> list[Order]:
            return [request]

        @step
        def end(self) -> str:
            raise Rejected("no")

    b = settling(bench, Parent, Kept)
    saga_id = b.start("trip")
    b.deliver("trip", "kids")
    b.end_waits()
    b.deliver("kid", "book")
    b.end_waits()
    b.engine = b.deploy(Parent)
    pump(b, 30)
    assert (b.status(saga_id), listed(b, saga_id)) == ("COMPENSATION_FAILED", True)
    assert len(b.engine.reader.attention(None, 10, None)["sagas"]) == 2, "the child is listed, too"
    b.engine = b.deploy(Parent, Kept)
    retried(b, saga_id)
    assert (b.status(saga_id), LOG) == ("COMPENSATED", ["book", "unbook"])


@pytest.mark.parametrize("settle", [0, SETTLE])
def test_a_saga_whose_type_is_gone_settles_and_is_listed(bench: Make, settle: int) -> None:
    b = settling(bench, Passed, settle=settle)
    saga_id = b.start("trip")
    b.deliver("trip", "book")
    b.engine = b.deploy(Kid)
    if settle:
        pump(b, 5)
        assert (b.status(saga_id), b.show(saga_id)["waiting"]["kind"]) == ("RUNNING", "release")
        pump(b, 15)
    else:
        pump(b, 1)
    assert (b.status(saga_id), why(b, saga_id)) == ("DEAD_LETTERED", "code_missing")
    assert (listed(b, saga_id), b.show(saga_id)["error"]["message"]) == (True, "type 'trip' is not deployed")
    b.engine = b.deploy(Passed)
    assert (retried(b, saga_id), LOG) == ("COMPLETED", ["book", "charge", "last"])


def test_it_is_never_given_up_by_a_number_of_stalls_that_is_not_its_own(bench: Make) -> None:
    class Patient(Saga[Order], name="trip", max_recovery_attempts=50):
        book, unbook = Packed.book, Packed.unbook

        @step
        def pay(self) -> str:
            perform("pay")
            return "paid"

    b = settling(bench, Patient)
    saga_id = b.start("trip")
    b.deliver("trip", "book")
    b.engine.control.set_recovery_attempts(b.state(saga_id), 20)
    b.engine = b.deploy(Kid)
    pump(b, 10)
    b.engine = b.deploy(Patient)
    pump(b, 10)
    assert (b.status(saga_id), LOG) == ("COMPLETED", ["book", "pay"])


def test_a_retry_is_refused_while_it_settles(bench: Make) -> None:
    b, saga_id = started(bench, Packed)
    pump(b, 1)
    with pytest.raises(Conflict):
        b.engine.operations.retry("pack", saga_id, "now", "ada")
