"""How long a step polls (``within=``), and what its last ``NotYet`` leads to (``on_timeout=``)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sagas import Context, Exhausted, NotYet, Rejected, Retry, Saga, children, step, wait_for
from sagas.core.rules import attention_code
from sagas.store.control.control import ControlItems
from sagas.testing import run
from tests.support.bench import Bench, Death, Make, once
from tests.support.sagas import FAIL, LOG, Order, Parcel, act, perform

FIVE = timedelta(seconds=5)
SPENT = "not yet after 5 s: the bank"
ENDS = {
    Exhausted.COMPENSATE: "COMPENSATED",
    Exhausted.FAIL: "FAILED",
    Exhausted.DEAD_LETTER: "DEAD_LETTERED",
    Exhausted.CONTINUE: "COMPLETED",
}


def failing(policy: Exhausted | None = None) -> Retry:
    return Retry.constant(max_retries=0, delay=0, on_exhausted=policy)


def polling(on_timeout: Exhausted | None, on_exhausted: Exhausted | None = None) -> type[Saga[Order]]:
    """Return a saga that polls until the test says otherwise, with these policies."""

    class Query(Saga[Order], name="query"):
        @step(retry=failing())
        def open(self, ctx: Context) -> None:
            act("open", ctx)

        @open.compensate(retry=failing())
        def close(self, ctx: Context) -> None:
            act("close", ctx)

        @step(within=FIVE, on_timeout=on_timeout, retry=failing(on_exhausted))
        def job(self, ctx: Context) -> str | None:
            act("job", ctx)
            return "done"

        @step
        def end(self, job: str | None) -> str:
            return f"ended with {job}"

    return Query


def begun(bench: Make, kind: type[Saga[Any]], raised: BaseException | None = None) -> tuple[Bench, str]:
    FAIL["job"] = raised or NotYet(2, "the bank")
    b = bench(kind)
    saga_id = b.start("query")
    b.run()
    return b, saga_id


@pytest.mark.parametrize("on_exhausted", [Exhausted.COMPENSATE, Exhausted.DEAD_LETTER, None])
@pytest.mark.parametrize("on_timeout", ENDS)
def test_the_last_not_yet_leads_to_its_own_policy(
    on_timeout: Exhausted, on_exhausted: Exhausted | None, bench: Make
) -> None:
    kind = polling(on_timeout, on_exhausted)
    b, saga_id = begun(bench, kind)
    assert b.status(saga_id) == ENDS[on_timeout]
    failed = b.entry(saga_id, "StepFailed")["details"]
    assert (failed["error"], failed["timed_out"]) == ({"type": "NotYet", "message": SPENT}, True)
    assert LOG.count("close:1") == (on_timeout is Exhausted.COMPENSATE)
    outcome = run(kind, Order("x"), fail={"job": NotYet(2, "the bank")})
    assert (outcome.status, outcome.result) == (ENDS[on_timeout], b.show(saga_id).get("result"))


@pytest.mark.parametrize("on_exhausted", [*ENDS, None])
def test_without_one_the_policy_for_failures_applies(on_exhausted: Exhausted | None, bench: Make) -> None:
    b, saga_id = begun(bench, polling(None, on_exhausted))
    assert b.status(saga_id) == ENDS[on_exhausted or Exhausted.COMPENSATE]


@pytest.mark.parametrize("on_timeout", ENDS)
def test_another_failure_does_not_ask_it(on_timeout: Exhausted, bench: Make) -> None:
    b, saga_id = begun(bench, polling(on_timeout, Exhausted.FAIL), OSError("down"))
    assert b.status(saga_id) == "FAILED"
    assert "timed_out" not in b.entry(saga_id, "StepFailed")["details"]


def test_nor_does_a_rejection(bench: Make) -> None:
    b, saga_id = begun(bench, polling(Exhausted.CONTINUE, Exhausted.FAIL), Rejected("no"))
    assert b.status(saga_id) == "COMPENSATED"


def test_an_operator_retries_a_dead_letter_with_the_whole_time(bench: Make) -> None:
    b, saga_id = begun(bench, polling(Exhausted.DEAD_LETTER))
    assert (attention_code(b.state(saga_id)).value, b.dead_letters("query")) == ("exhausted", 1)
    polls = b.show(saga_id)["steps"][1]["attempts"]
    b.engine.operations.retry("query", saga_id, "the bank is back", "ada")
    b.run()
    assert b.status(saga_id) == "DEAD_LETTERED"
    assert b.show(saga_id)["steps"][1]["attempts"] == 2 * polls


def test_after_a_retry_a_failure_is_one_again(bench: Make) -> None:
    b, saga_id = begun(bench, polling(Exhausted.DEAD_LETTER, Exhausted.FAIL))
    FAIL["job"] = OSError("down")
    b.engine.operations.retry("query", saga_id, "the bank is back", "ada")
    b.run()
    assert b.status(saga_id) == "FAILED"


def test_a_retry_that_completes_leaves_nothing_of_it(bench: Make) -> None:
    b, saga_id = begun(bench, polling(Exhausted.DEAD_LETTER))
    del FAIL["job"]
    b.engine.operations.retry("query", saga_id, "the bank is back", "ada")
    b.run()
    assert b.show(saga_id)["result"] == "ended with done"
    job = b.state(saga_id).steps[1]
    assert (job.timed_out, job.round) == (False, 0)


def test_a_takeover_applies_the_policy_of_the_deployed_release(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    FAIL["job"] = NotYet(2, "the bank")
    b = bench(polling(Exhausted.FAIL))
    saga_id = b.start("query")
    b.deliver("query", "open")
    b.deliver("query", "job")
    b.clock.advance(6)
    once(monkeypatch, ControlItems, "commit")  # dies behind the entry of its last NotYet
    with pytest.raises(Death):
        b.deliver("query", "job")
    b.engine = b.deploy(polling(Exhausted.CONTINUE, Exhausted.FAIL))
    b.run()
    assert (b.status(saga_id), b.actions(saga_id).count("StepFailed")) == ("COMPLETED", 1)


class Past(Saga[Order], name="query"):
    """Polls past its pivot."""

    @step(pivot=True)
    def open(self) -> None: ...

    @step(within=FIVE, on_timeout=Exhausted.CONTINUE, retry=failing())
    def job(self, ctx: Context) -> str | None:
        act("job", ctx)
        return "done"


def test_past_the_pivot_it_may_go_on_while_failures_wait_for_an_operator(bench: Make) -> None:
    b, saga_id = begun(bench, Past)
    assert b.status(saga_id) == "COMPLETED"
    FAIL["job"] = OSError("down")
    failed = b.start("query")
    b.run()
    assert (b.status(failed), attention_code(b.state(failed)).value) == ("DEAD_LETTERED", "exhausted")


class Held(Saga[Order], name="query"):
    """The pivot polls: it has not happened if it times out."""

    @step(retry=failing())
    def open(self) -> None: ...

    @open.compensate
    def close(self) -> None:
        perform("close")

    @step(pivot=True, within=FIVE, on_timeout=Exhausted.COMPENSATE, retry=failing(Exhausted.DEAD_LETTER))
    def job(self, ctx: Context) -> str:
        act("job", ctx)
        return "done"


def test_a_pivot_that_times_out_has_not_happened(bench: Make) -> None:
    b, saga_id = begun(bench, Held)
    assert (b.status(saga_id), LOG[-1]) == ("COMPENSATED", "close")


class Undone(Saga[Order], name="query"):
    """Its undo polls for as long as its step may."""

    @step(within=FIVE, on_timeout=Exhausted.CONTINUE, retry=failing())
    def open(self) -> str | None:
        return "open"

    @open.compensate(retry=failing())
    def close(self, open: str | None) -> None:
        raise NotYet(2, "the bank")

    @step(retry=failing())
    def job(self) -> None:
        raise OSError("down")


def test_the_undo_does_not_ask_it(bench: Make) -> None:
    b, saga_id = begun(bench, Undone)
    assert b.status(saga_id) == "COMPENSATION_FAILED"
    failed = b.entry(saga_id, "CompensationFailed")["details"]
    assert (failed["error"]["message"], "timed_out" in failed) == (SPENT, False)


class Kid(Saga[Parcel], name="kid"):
    @step
    def carry(self) -> None: ...


class Asking(Saga[Order], name="query"):
    """The method of its wait polls, for a day: the policy of the wait is about signals."""

    @wait_for(str, timeout=timedelta(days=30), on_timeout=Exhausted.CONTINUE, retry=failing(Exhausted.FAIL))
    def job(self, ctx: Context) -> None:
        act("job", ctx)


class Sending(Saga[Order], name="query"):
    """The method that returns the requests of its children polls, for a day."""

    @children(Kid, on_failed=Exhausted.CONTINUE, retry=failing(Exhausted.FAIL))
    def job(self, ctx: Context) -> list[Parcel]:
        act("job", ctx)
        return []


@pytest.mark.parametrize("kind", [Asking, Sending])
def test_waits_and_children_keep_their_policy_for_what_they_wait_for(kind: type[Saga[Order]], bench: Make) -> None:
    FAIL["job"] = NotYet(86_400, "the bank")
    b = bench(kind, Kid)
    saga_id = b.start("query")
    b.run()
    b.clock.advance(86_401)
    b.recover()
    b.run()
    assert (b.status(saga_id), b.state(saga_id).steps[0].timed_out) == ("FAILED", False)
    assert run(kind, Order("x"), fail={"job": NotYet(86_400, "the bank")}).status == "FAILED"
