"""A saga that is past its pivot only goes forward: before it and behind it, whatever would have it undone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from sagas import Context, Exhausted, Rejected, Retry, Saga, TimedOut, children, step, wait_for
from sagas.client.read.next_action import reason_of
from sagas.core.automaton import decide
from sagas.core.commands import CancelArrived
from sagas.core.states import SagaState
from sagas.errors import Conflict
from tests.engine.changing import deployed
from tests.support.bench import Bench, Death, Make
from tests.support.sagas import FAIL, LOG, ONCE, Answered, Booked, Order, Parcel, act

HOUR = timedelta(hours=1)


class Sale(Booked, name="sale", timeout=HOUR, max_recovery_attempts=1):
    """Its second step is the point of no return."""

    @step(retry=Retry.constant(max_retries=1, delay=0), timeout=5, pivot=True)
    def capture(self, ctx: Context) -> str:
        act("capture", ctx)
        return "captured"

    @step(retry=ONCE, timeout=5)
    def ship(self, capture: str, ctx: Context) -> None:
        act("ship", ctx)


class Receipted(Booked, name="receipted", timeout=HOUR):
    """Waits behind its pivot for longer than it has time."""

    @step(pivot=True)
    def capture(self, ctx: Context) -> None:
        act("capture", ctx)

    receipt = wait_for(str, timeout=timedelta(days=1))

    @step
    def close(self, receipt: str, ctx: Context) -> None:
        act("close", ctx)


class Payout(Saga[Parcel], name="pivot-payout"):
    """A child with a pivot between an undo and a step that may fail."""

    @step
    def hold(self, request: Parcel) -> None:
        LOG.append("hold")

    @hold.compensate
    def free(self) -> None:
        LOG.append("free")

    @step(pivot=True, retry=ONCE)
    def pay(self, ctx: Context) -> None:
        act("pay", ctx)

    @step(retry=ONCE)
    def note(self, ctx: Context) -> str:
        act("note", ctx)
        return "paid"


class Month(Saga[Order], name="pivot-month"):
    """Its children have pivots; it has none."""

    @step
    def open(self) -> None: ...

    @open.compensate
    def reopen(self) -> None:
        LOG.append("reopen")

    @children(Payout)
    def payouts(self) -> list[Parcel]:
        return [Parcel(1)]

    @step(retry=ONCE)
    def close(self, payouts: list[str], ctx: Context) -> None:
        act("close", ctx)


class Final(Booked, name="pivot-final", timeout=HOUR):
    """Starts children once there is no way back."""

    @step(pivot=True)
    def capture(self) -> None: ...

    @children(Payout)
    def payouts(self) -> list[Parcel]:
        return [Parcel(1)]


class Slow(Answered[Parcel], name="pivot-slow"):
    """A child that waits for a person."""


class Awaiting(Booked, name="pivot-awaiting", timeout=HOUR):
    """Its child, behind its pivot, waits for longer than it has time."""

    @step(pivot=True)
    def capture(self) -> None: ...

    @children(Slow)
    def asked(self) -> list[Parcel]:
        return [Parcel(1)]


def cancel(b: Bench, name: str, saga_id: str) -> str:
    return b.engine.operations.cancel(name, saga_id, "ada").status.value


def refused(b: Bench, name: str, saga_id: str) -> str:
    with pytest.raises(Conflict) as caught:
        cancel(b, name, saga_id)
    return str(caught.value)


def give_up(b: Bench, saga_id: str, reason: str = "the money went back by hand") -> None:
    b.engine.operations.compensate(b.state(saga_id).saga, saga_id, reason, "ada", force=True)


def attention(b: Bench) -> dict[str, str]:
    return {one["saga_id"]: reason_of(one) for one in b.engine.reader.attention(None, 10, None)["sagas"]}


def sold(b: Bench) -> str:
    """A sale whose pivot has completed."""
    saga_id = b.start("sale")
    b.deliver("sale", "book")
    b.deliver("sale", "capture")
    assert b.state(saga_id).past_pivot == "capture"
    return saga_id


def while_it_runs(b: Bench, name: str, do: Callable[[], object]) -> None:
    """Have something happen once while the code of a step runs."""

    def running(definition: Any, code: Any, *rest: Any) -> str | None:
        if code.name == name:
            b.replace_call(call)
            do()
        return call(definition, code, *rest)

    call = b.replace_call(running)


def test_a_cancel_before_it_undoes_and_one_behind_it_is_refused(bench: Make) -> None:
    b = bench(Sale)
    early = b.start("sale")
    b.deliver("sale", "book")
    assert cancel(b, "sale", early) == "COMPENSATING"
    b.run()
    assert (b.status(early), LOG) == ("CANCELLED", ["book", "unbook"])
    late = sold(b)
    told = "step capture, the pivot of the saga, has completed: it only goes forward"
    assert refused(b, "sale", late) == told
    b.run()
    assert (b.status(late), LOG[2:]) == ("COMPLETED", ["book", "capture:1", "ship:1"])
    assert b.entry(late, "SagaStarted")["details"]["steps"][1] == {"name": "capture", "undo": False, "pivot": True}


@pytest.mark.parametrize("name", ["sale", "pivot-final"])
def test_a_cancel_that_came_while_it_ran_is_noted_and_comes_to_nothing(bench: Make, name: str) -> None:
    b = bench(Sale, Final, Payout)
    saga_id = b.start(name)
    said: list[str] = []
    while_it_runs(b, "capture", lambda: said.append(cancel(b, name, saga_id)))
    b.run()
    assert said == ["RUNNING"]  # accepted: nobody knew better
    assert b.status(saga_id) == "COMPLETED"
    assert "unbook" not in LOG
    entry = b.entry(saga_id, "CancelRequested")
    assert (entry["actor"], entry["details"]["pivot"]) == ("ada", "capture")
    assert b.show(saga_id)["cancel_requested_at"] is None


def test_a_cancel_while_it_fails_undoes(bench: Make) -> None:
    b = bench(Sale)
    FAIL["capture"] = RuntimeError("no answer")
    saga_id = b.start("sale")
    while_it_runs(b, "capture", lambda: cancel(b, "sale", saga_id))
    b.run()
    assert (b.status(saga_id), LOG) == ("CANCELLED", ["book", "capture:1", "unbook"])


def test_a_cancel_that_was_decided_before_it_completed_is_not_written_behind_it(bench: Make) -> None:
    b = bench(Sale)
    saga_id = b.start("sale")
    b.deliver("sale", "book")
    seen = b.state(saga_id)
    plan = b.engine.registry.get("sale").plan(seen.steps)
    asked = decide(plan, seen, CancelArrived("ada"), b.clock.now())
    b.deliver("sale", "capture")
    assert not b.engine.control.request_cancel(seen, asked.state)
    assert b.state(saga_id).cancel.at == 0


def test_a_deadline_before_it_undoes(bench: Make) -> None:
    b = bench(Sale)
    saga_id = b.start("sale")
    b.deliver("sale", "book")
    b.clock.advance(3_601)
    b.recover()
    b.run()
    assert (b.status(saga_id), LOG) == ("COMPENSATED", ["book", "unbook"])


def test_a_deadline_behind_it_puts_the_saga_on_the_list_until_it_has_ended(bench: Make) -> None:
    b = bench(Receipted)
    saga_id = b.start("receipted")
    b.run()
    assert attention(b) == {}
    b.clock.advance(3_601)
    b.recover()
    told = "its deadline has passed, and step capture, the pivot of the saga, has completed: it only goes forward"
    assert attention(b) == {saga_id: told}
    shown = b.show(saga_id)
    assert (shown["status"], shown["deadline"], shown["error"]) == ("WAITING", None, None)
    assert shown["past_pivot"] == "capture"
    assert b.entry(saga_id, "SagaTimedOut")["details"]["pivot"] == "capture"
    b.clock.advance(60)
    assert b.recover() == []  # it is said once
    b.engine.signals.send("receipted", saga_id, "receipt", "here", "ann")
    b.run()
    assert (b.status(saga_id), attention(b)) == ("COMPLETED", {})
    assert LOG == ["book", "capture:1", "close:1"]


def test_a_parent_past_its_deadline_waits_on_for_its_children(bench: Make) -> None:
    b = bench(Awaiting, Slow)
    saga_id = b.start("pivot-awaiting")
    b.run()
    b.clock.advance(3_601)
    b.recover()
    assert list(attention(b)) == [saga_id]
    [child] = [one["saga_id"] for one in b.engine.reader.children(saga_id, 10, None)["sagas"]]
    b.engine.signals.send("pivot-slow", child, "answer", "here", "ann")
    b.run()
    assert (b.status(child), b.status(saga_id), attention(b)) == ("COMPLETED", "COMPLETED", {})


def test_a_deadline_in_a_pause_is_noted_once_and_the_saga_goes_on_after_it(bench: Make) -> None:
    b = bench(Sale)
    saga_id = sold(b)
    b.engine.pausing.pause("sale", "ada")
    b.run()
    assert b.state(saga_id).paused
    b.clock.advance(3_601)
    for _ in range(3):
        b.engine.recovery.recover_due(b.engine.finder.listing.paused("sale", 10), 60)
        b.run()
    assert (list(attention(b)), b.actions(saga_id).count("SagaTimedOut")) == ([saga_id], 1)
    assert b.state(saga_id).paused
    b.engine.pausing.resume("sale", "ada")
    b.run()
    assert (b.status(saga_id), attention(b)) == ("COMPLETED", {})


def test_a_wait_behind_it_that_brought_nothing_waits_for_an_operator(bench: Make) -> None:
    b = bench(Receipted)
    saga_id = b.start("receipted")
    b.run()
    for _ in range(2):
        b.clock.advance(86_401)
        b.recover()
        b.run()
    assert (b.status(saga_id), LOG) == ("DEAD_LETTERED", ["book", "capture:1"])
    assert refused(b, "receipted", saga_id)
    due = b.stack.control(saga_id).get("due")
    assert due is None  # and its deadline says nothing new
    b.engine.operations.retry("receipted", saga_id, "she found it", "ada")
    assert b.status(saga_id) == "WAITING"
    assert saga_id in attention(b)


def test_a_deadline_that_passes_while_a_step_runs_does_not_disturb_it(bench: Make) -> None:
    b = bench(Receipted)
    saga_id = b.start("receipted")
    b.run()
    b.clock.advance(3_597)
    b.engine.signals.send("receipted", saga_id, "receipt", "here", "ann")
    b.end_waits()
    seen: list[SagaState] = []

    def late() -> None:
        b.clock.advance(6)
        assert b.recover() == []
        seen.append(b.state(saga_id))

    while_it_runs(b, "close", late)
    b.run()
    assert seen[0].cancel.at == 0
    assert b.status(saga_id) == "COMPLETED"


@pytest.mark.parametrize("error", [RuntimeError("no van"), Rejected("not there"), TimedOut("too slow")])
def test_a_step_behind_it_that_fails_waits_for_an_operator(bench: Make, error: Exception) -> None:
    b = bench(Sale)
    FAIL["ship"] = error
    saga_id = b.start("sale")
    b.run()
    assert (b.status(saga_id), b.step(saga_id)["status"]) == ("DEAD_LETTERED", "FAILED")
    assert LOG == ["book", "capture:1", "ship:1"]
    assert list(attention(b)) == [saga_id]
    b.clock.advance(7_200)
    assert b.recover() == []
    FAIL.clear()
    b.engine.operations.retry("sale", saga_id, "a van came", "ada")
    b.run()
    assert (b.status(saga_id), attention(b)) == ("COMPLETED", {})


def test_children_behind_it_that_fail_leave_it_to_an_operator(bench: Make) -> None:
    b = bench(Final, Payout)
    FAIL["pay"] = Rejected("closed account")
    saga_id = b.start("pivot-final")
    b.run()
    assert (b.status(saga_id), b.step(saga_id)["error"]["type"]) == ("DEAD_LETTERED", "ChildrenFailed")
    assert LOG == ["book", "hold", "pay:1", "free"]  # the child, whose own pivot failed, is undone
    FAIL.clear()
    b.engine.operations.retry("pivot-final", saga_id, "it is open again", "ada")
    b.run()
    assert b.status(saga_id) == "COMPLETED"


def test_recovery_that_gives_up_undoes_before_it_and_stops_behind_it(bench: Make) -> None:
    b = bench(Sale)
    late, early = sold(b), b.start("sale")
    b.deliver("sale", "book")
    for _ in range(6):
        if b.status(early) == "RUNNING":
            b.lose_messages()
            b.clock.advance(500)
            for step in ("capture", "ship"):  # their queues have handled what was sent later: the messages are lost
                b.engine.recovery.watermarks.note("sale", step, b.clock.now() + 3_600, b.clock.now())
            b.recover()
    assert b.status(early) == "COMPENSATING"
    assert (b.status(late), b.step(late)["error"]["type"]) == ("DEAD_LETTERED", "SagaRecoveryExhausted")
    told = "step ship stalled too often, and step capture, the pivot of the saga, has completed: it only goes forward"
    assert attention(b)[late] == told
    b.engine.operations.retry("sale", late, "the queue is back", "ada")
    b.run()
    assert b.status(late) == "COMPLETED"


def test_one_behind_it_that_nothing_answers_needs_a_person_and_goes_on(bench: Make) -> None:
    """Once its deadline has passed, the list names the deadline instead."""
    b = bench(Sale)
    saga_id = sold(b)
    for _ in range(3):
        b.lose_messages()
        b.clock.advance(900)
        b.recover()
    silent = "no response at step ship: its function handled none of 3 messages in a row"
    assert (b.status(saga_id), attention(b)) == ("RUNNING", {saga_id: silent})
    for _ in range(3):
        b.lose_messages()
        b.clock.advance(3_601)
        b.recover()
    told = "its deadline has passed, and step capture, the pivot of the saga, has completed: it only goes forward"
    assert (b.status(saga_id), attention(b)) == ("RUNNING", {saga_id: told})
    assert b.actions(saga_id).count("SagaTimedOut") == 1
    b.run()
    assert (b.status(saga_id), attention(b), LOG) == ("COMPLETED", {}, ["book", "capture:1", "ship:1"])


def test_the_reason_of_a_missing_step_offers_only_what_is_accepted(bench: Make) -> None:
    class Short(Booked, name="sale"):
        """The same without the last step."""

        capture = Sale.capture

    b = bench(Sale)
    saga_id = sold(b)
    deployed(b, Short)
    b.run()
    assert attention(b)[saga_id].endswith("is missing: deploy it again and retry, or compensate with force")


def test_one_in_doubt_counts_as_completed(bench: Make) -> None:
    b = bench(Sale)
    FAIL["capture"] = Death()
    saga_id = b.start("sale")
    b.deliver("sale", "book")
    with pytest.raises(Death):
        b.deliver("sale", "capture")
    assert b.state(saga_id).past_pivot == ""  # it runs, as far as anybody knows
    b.clock.advance(60)
    FAIL["capture"] = Rejected("declined")
    b.run()
    assert (b.status(saga_id), LOG) == ("DEAD_LETTERED", ["book", "capture:1", "capture:2"])
    told = "step capture, the pivot of the saga, may have taken effect: it only goes forward"
    assert refused(b, "sale", saga_id) == told
    assert attention(b)[saga_id] == f"step capture failed, and {told}; retry, or compensate with force"
    with pytest.raises(Conflict, match="pass force and a reason"):
        b.engine.operations.compensate("sale", saga_id, "it was not captured", "ada")
    give_up(b, saga_id, "it was not captured")
    b.run()
    assert (b.status(saga_id), LOG[-1]) == ("COMPENSATED", "unbook")
    assert b.show(saga_id)["in_doubt"] == ["capture"]


@pytest.mark.parametrize("ended", [False, True])
def test_an_operator_may_have_it_undone_who_says_so_and_why(bench: Make, ended: bool) -> None:
    b = bench(Sale)
    saga_id = sold(b)
    if ended:
        b.run()
    for force, reason in ((False, "why"), (True, "")):
        with pytest.raises(Conflict, match="the pivot of the saga, has completed"):
            b.engine.operations.compensate("sale", saga_id, reason, "ada", force=force)
    give_up(b, saga_id)
    b.run()
    assert (b.status(saga_id), LOG[-1]) == ("COMPENSATED", "unbook")
    assert b.entry(saga_id, "CompensationStarted")["details"]["reason"] == "the money went back by hand"


def test_a_release_without_it_undoes_nothing_behind_it(bench: Make) -> None:
    class Changed(Booked, name="sale"):
        """The same steps. None is a pivot any more, and the last has another policy."""

        @step
        def capture(self) -> str:
            return "captured"

        @step(retry=Retry.constant(max_retries=0, on_exhausted=Exhausted.FAIL))
        def ship(self, capture: str, ctx: Context) -> None:
            act("ship", ctx)

    b = bench(Sale)
    FAIL["ship"] = RuntimeError("no van")
    saga_id = sold(b)
    b.engine = b.deploy(Changed)
    assert refused(b, "sale", saga_id)
    b.run()
    assert (b.status(saga_id), "unbook" in LOG) == ("DEAD_LETTERED", False)
    assert "compensate with force" in attention(b)[saga_id]


def test_a_parents_cancel_before_a_childs_pivot_undoes_it(bench: Make) -> None:
    b = bench(Month, Payout)
    saga_id = b.start("pivot-month")
    for name in ("open", "payouts"):
        b.deliver("pivot-month", name)
    b.end_waits()
    b.deliver("pivot-payout", "hold")
    cancel(b, "pivot-month", saga_id)
    b.run()
    assert (b.status(saga_id), LOG) == ("CANCELLED", ["hold", "free", "reopen"])


def test_a_parents_cancel_behind_a_childs_pivot_lets_it_end_and_names_it(bench: Make) -> None:
    b = bench(Month, Payout)
    saga_id = b.start("pivot-month")
    while "pay:1" not in LOG:
        b._round()  # pyright: ignore[reportPrivateUsage] -- in the middle
    [child] = [one["saga_id"] for one in b.engine.reader.children(saga_id, 10, None)["sagas"]]
    cancel(b, "pivot-month", saga_id)
    b.run()
    assert (b.status(child), b.status(saga_id)) == ("COMPLETED", "COMPENSATION_FAILED")
    assert LOG == ["hold", "pay:1", "note:1", "reopen"]
    assert "past its pivot" in b.step(saga_id, 1)["error"]["message"]
    give_up(b, child)
    b.run()
    b.engine.operations.retry("pivot-month", saga_id, "the child is undone", "ada")
    b.run()
    assert (b.status(child), b.status(saga_id), LOG[-1]) == ("COMPENSATED", "CANCELLED", "free")


def test_a_parent_waits_for_a_child_that_stopped_behind_its_pivot(bench: Make) -> None:
    b = bench(Month, Payout)
    FAIL["note"] = RuntimeError("no paper")
    saga_id = b.start("pivot-month")
    b.run()
    [child] = [one["saga_id"] for one in b.engine.reader.children(saga_id, 10, None)["sagas"]]
    assert b.status(child) == "DEAD_LETTERED"
    cancel(b, "pivot-month", saga_id)
    b.run()
    assert (b.status(child), b.status(saga_id)) == ("DEAD_LETTERED", "COMPENSATING")
    give_up(b, child)
    b.run()
    assert (b.status(child), b.status(saga_id)) == ("COMPENSATED", "CANCELLED")
