"""Sagas that wait: for signals, for times, and until it is time, over real tables and queues."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sagas import Context, Exhausted, NotYet, Retry, Saga, sleep, step, wait_for
from sagas.client.waiting import Waiting
from sagas.core.text import epoch
from sagas.errors import Conflict, InvalidRequest, NotFound
from sagas.store.inbox import Inbox
from tests.engine.metering import Wire
from tests.support.bench import Bench, Death, Make
from tests.support.sagas import FAIL, LOG, Order, Reminded, act

NO = "00000000-0000-7000-8000-000000000009"
DAY = 86_400.0


@dataclass(frozen=True)
class Approval:
    """What a person says."""

    by: str
    note: str = ""


class Loan(Saga[Order], name="loan", timeout=timedelta(days=30), result="approval"):
    """Asks a person, who has three days."""

    @step
    def score(self, request: Order, ctx: Context) -> int:
        act("score", ctx)
        return request.count

    @score.compensate
    def forget(self, score: int, ctx: Context) -> None:
        act("forget", ctx)

    @wait_for(Approval, timeout=timedelta(days=3), retry=Retry.constant(max_retries=1, delay=0))
    def approval(self, request: Order, score: int, ctx: Context) -> None:
        act("ask", ctx)

    @approval.compensate
    def revoke(self, approval: Approval, ctx: Context) -> None:
        act(f"revoke {approval.by}", ctx)

    @step(retry=Retry.constant(max_retries=0, delay=0))
    def pay(self, approval: Approval, ctx: Context) -> str:
        act(f"pay {approval.by}", ctx)
        return approval.by


def soon(request: Order) -> datetime:
    """Until when ``Patient`` sleeps."""
    return datetime(2026, 9, 21, 15, request.count, tzinfo=UTC)


class Patient(Saga[Order], name="patient"):
    """Nothing but waits, of each kind, around one step."""

    documents = wait_for(Approval, timeout=timedelta(days=7), on_timeout=Exhausted.CONTINUE)
    cooling = sleep(timedelta(days=14))
    appointed = sleep(until=soon)

    @step
    def end(self, documents: Approval | None, ctx: Context) -> str:
        act("end", ctx)
        return "nobody" if documents is None else documents.by


class Parked(Saga[Order], name="parked-wait"):
    """Waits for an operator when nobody answers."""

    answer = wait_for(Approval, timeout=timedelta(hours=1), on_timeout=Exhausted.DEAD_LETTER)

    @step
    def end(self, answer: Approval, ctx: Context) -> str:
        return answer.by


class Polling(Saga[Order], name="polling"):
    """Looks again and again."""

    @step(within=timedelta(hours=6), retry=Retry.constant(max_retries=0, delay=0))
    def settle(self, request: Order, ctx: Context) -> int:
        act("settle", ctx)
        if ctx.attempt <= request.count:
            raise NotYet(after=3600, message="the bank")
        return ctx.attempt


def signal(b: Bench, saga_id: str, value: object, name: str = "loan", step: str = "approval") -> Any:
    return b.engine.signals.send(name, saga_id, step, value, "ada")


def visit(b: Bench, seconds: float = 0.0) -> None:
    """Let time pass, have the supervisor come, and the queues run empty."""
    b.clock.advance(seconds)
    b.recover()
    b.run()


def waiting(bench: Make, **request: Any) -> tuple[Bench, str]:
    """A loan that waits for a person."""
    b = bench(Loan)
    saga_id = b.start("loan", {"item": "house", **request})
    b.run()
    assert b.status(saga_id) == "WAITING"
    return b, saga_id


def test_a_signal_is_its_steps_result(bench: Make) -> None:
    b, saga_id = waiting(bench)
    shown = b.step(saga_id, 1)
    assert (shown["status"], shown["waiting_for"], shown["attempts"]) == ("WAITING", "signal", 1)
    assert shown["waits_until"] is not None
    sent = signal(b, saga_id, {"by": "ada"})
    assert sent.accepted
    b.run()
    assert b.status(saga_id) == "COMPLETED"
    assert b.show(saga_id)["result"] == {"by": "ada"}
    assert LOG == ["score:1", "ask:1", "pay ada:1"]
    assert b.actions(saga_id)[2:4] == ["WaitStarted", "SignalReceived"]
    assert b.entry(saga_id, "SignalReceived")["actor"] == "ada"


def test_a_client_waits_until_the_saga_waits_for_a_signal(bench: Make) -> None:
    b = bench(Loan)
    saga_id = b.start("loan", {"item": "house"})
    seen: list[str] = []

    def read() -> Any:
        b.deliver("loan", ("score", "approval")[len(seen)])
        seen.append(b.status(saga_id))
        return b.show(saga_id)

    waits = Waiting(60, sleep=lambda seconds: None)
    assert waits.until_rest(read, None, None, "waiting")["status"] == "WAITING"
    assert seen == ["RUNNING", "WAITING"]
    b.engine.operations.cancel("loan", saga_id, "ada")
    b.run()
    shown: Any = b.show(saga_id)
    with pytest.raises(Conflict, match="the saga is CANCELLED; it no longer waits for a signal"):
        waits.until_rest(lambda: shown, None, None, "waiting")


def test_the_same_value_again_is_the_same_signal_and_another_is_refused(bench: Make) -> None:
    b, saga_id = waiting(bench)
    assert signal(b, saga_id, {"by": "ada"}).accepted
    assert not signal(b, saga_id, {"by": "ada"}).accepted
    with pytest.raises(Conflict, match="another value"):
        signal(b, saga_id, {"by": "bob"})
    b.run()
    assert not signal(b, saga_id, {"by": "ada"}).accepted


def test_an_early_signal_is_kept(bench: Make) -> None:
    b = bench(Loan)
    saga_id = b.start("loan", {"item": "house"})
    assert signal(b, saga_id, {"by": "ada"}).accepted
    b.run()
    assert b.status(saga_id) == "COMPLETED"
    assert LOG == ["score:1", "ask:1", "pay ada:1"]


def test_a_wait_that_times_out_is_undone(bench: Make) -> None:
    b, saga_id = waiting(bench)
    visit(b, 2 * DAY)
    assert b.status(saga_id) == "WAITING"
    visit(b, DAY)
    assert b.status(saga_id) == "COMPENSATED"
    assert b.show(saga_id)["error"] == {
        "step": "approval",
        "type": "WaitTimedOut",
        "message": "no signal arrived in time",
    }
    assert LOG == ["score:1", "ask:1", "forget:1"]
    with pytest.raises(Conflict):
        signal(b, saga_id, {"by": "ada"})


def test_a_taken_signal_is_undone_with_its_value(bench: Make) -> None:
    FAIL["pay ada"] = RuntimeError("broke")
    b, saga_id = waiting(bench)
    signal(b, saga_id, {"by": "ada"})
    b.run()
    assert b.status(saga_id) == "COMPENSATED"
    assert LOG[-2:] == ["revoke ada:1", "forget:1"]


def test_a_cancel_while_it_waits_acts_at_once(bench: Make) -> None:
    b, saga_id = waiting(bench)
    assert b.engine.operations.cancel("loan", saga_id, "bob").status == "COMPENSATING"
    with pytest.raises(Conflict):
        signal(b, saga_id, {"by": "ada"})
    b.run()
    assert b.status(saga_id) == "CANCELLED"
    assert LOG == ["score:1", "ask:1", "forget:1"]


def test_a_cancel_whose_caller_died_is_acted_on_by_the_supervisor(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b, saga_id = waiting(bench)

    def dies(*given: object) -> None:
        raise Death

    monkeypatch.setattr(type(b.engine.operations), "_begin_undoing", dies)
    with pytest.raises(Death):
        b.engine.operations.cancel("loan", saga_id, "bob")
    visit(b, 1.0)
    assert b.status(saga_id) == "CANCELLED"


def test_a_signal_whose_sender_died_is_taken_by_the_supervisor(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b, saga_id = waiting(bench)

    def dies(*given: object) -> None:
        raise Death

    monkeypatch.setattr(type(b.engine.signals), "_take", dies)
    with pytest.raises(Death):
        signal(b, saga_id, {"by": "ada"})
    visit(b, 130.0)
    assert b.status(saga_id) == "COMPLETED"


def test_a_signal_that_a_cancel_overtakes_leaves_no_value(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sender would be told that the saga knows it."""
    b, saga_id = waiting(bench)
    accept = Inbox.accept

    def overtaken(inbox: Inbox, *given: Any) -> bool:
        b.engine.operations.cancel("loan", saga_id, "bob")
        return accept(inbox, *given)

    monkeypatch.setattr(Inbox, "accept", overtaken)
    with pytest.raises(Conflict, match="no longer accepts a signal"):
        signal(b, saga_id, {"by": "ada"})
    b.run()
    assert b.status(saga_id) == "CANCELLED"


def test_a_signal_is_refused_where_it_does_not_belong(bench: Make) -> None:
    b, saga_id = waiting(bench)
    with pytest.raises(InvalidRequest):
        signal(b, saga_id, {"by": 5})
    for name, other, place in (("loan", saga_id, "score"), ("loan", saga_id, "nothing"), ("loan", NO, "approval")):
        with pytest.raises(NotFound):
            signal(b, other, {"by": "ada"}, name, place)
    assert b.status(saga_id) == "WAITING"


def test_a_large_signal_is_kept_aside_and_purged_with_its_saga(bench: Make) -> None:
    b, saga_id = waiting(bench)
    signal(b, saga_id, {"by": "ada", "note": "x" * 20_000})
    b.run()
    assert b.status(saga_id) == "COMPLETED"
    b.clock.advance(DAY)
    b.engine.purger.purge("loan", saga_id, "asked", "ada")
    assert "Contents" not in b.stack.s3.list_objects_v2(Bucket=b.stack.bucket)
    rows = b.stack.dynamodb.scan(TableName=b.stack.sagas_table)["Items"]
    assert not [row for row in rows if saga_id in row["saga_id"]["S"]]


def test_waits_without_code_and_sleeps(bench: Make) -> None:
    b = bench(Patient)
    saga_id = b.start("patient", {"item": "x", "count": 7})
    b.run()
    assert b.step(saga_id, 0)["waiting_for"] == "signal"
    visit(b, 7 * DAY)
    assert b.step(saga_id, 0)["status"] == "FAILED"
    assert b.step(saga_id, 1)["waiting_for"] == "time"
    visit(b, 13 * DAY)
    assert b.step(saga_id, 1)["status"] == "WAITING"
    visit(b, DAY)  # what was appointed is past: no wait
    assert b.status(saga_id) == "COMPLETED"
    assert b.show(saga_id)["result"] == "nobody"
    assert LOG == ["end:1"]


class Lenient(Saga[Order], name="lenient"):
    """Asks for large orders only."""

    @wait_for(Approval, timeout=timedelta(days=3), retry=Retry.constant(max_retries=1, delay=0))
    def approval(self, request: Order, ctx: Context) -> None:
        if request.count < 5:
            ctx.signal(Approval("the limit"))
        act("ask", ctx)

    @step
    def pay(self, approval: Approval, ctx: Context) -> str:
        return approval.by


def test_a_moment_is_computed_from_the_sagas_clock(bench: Make) -> None:
    b = bench(Reminded)
    saga_id = b.start("reminded")
    b.run()
    visit(b, 14 * DAY)
    assert b.state(saga_id).not_before == b.clock.now() + 3600
    visit(b, 3600)
    assert b.show(saga_id)["result"] == datetime.fromtimestamp(b.clock.now(), UTC).isoformat().replace("+00:00", "Z")


def test_code_that_asks_may_answer_itself(bench: Make) -> None:
    b = bench(Lenient)
    saga_id = b.start("lenient", {"item": "x", "count": 1})
    b.run()
    assert b.status(saga_id) == "COMPLETED"
    assert b.show(saga_id)["result"] == "the limit"
    assert b.actions(saga_id)[1:3] == ["WaitStarted", "SignalReceived"]
    assert b.entry(saga_id, "SignalReceived")["actor"] == "worker"
    other = b.start("lenient", {"item": "x", "count": 9})
    b.run()
    assert b.status(other) == "WAITING"


def test_what_was_sent_before_it_answers_itself_stays(bench: Make) -> None:
    b = bench(Lenient)
    saga_id = b.start("lenient", {"item": "x", "count": 1})
    signal(b, saga_id, {"by": "ada"}, "lenient")
    b.run()
    assert b.show(saga_id)["result"] == "ada"
    assert b.entry(saga_id, "SignalReceived")["actor"] == "ada"


def test_a_cancel_before_it_answers_itself_wins(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Lenient)
    saga_id = b.start("lenient", {"item": "x", "count": 1})
    original = type(b.engine.services.control).claim_step

    def claimed(*given: Any, **named: Any) -> Any:
        held = original(*given, **named)
        b.engine.operations.cancel("lenient", saga_id, "bob")
        return held

    monkeypatch.setattr(type(b.engine.services.control), "claim_step", claimed)
    b.run()
    assert b.status(saga_id) == "CANCELLED"
    assert "SignalReceived" not in b.actions(saga_id)


def test_having_answered_itself_it_may_die_and_answer_again(bench: Make) -> None:
    FAIL["ask"] = Death()
    b = bench(Lenient)
    saga_id = b.start("lenient", {"item": "x", "count": 1})
    with pytest.raises(Death):
        b.run()
    FAIL.clear()
    visit(b, 1_000.0)
    visit(b, 1_000.0)
    assert b.status(saga_id) == "COMPLETED"
    assert b.actions(saga_id).count("SignalReceived") == 1


def test_having_answered_itself_it_may_fail_and_answer_again(bench: Make) -> None:
    FAIL["ask"] = 1
    b = bench(Lenient)
    saga_id = b.start("lenient", {"item": "x", "count": 1})
    b.run()
    assert b.status(saga_id) == "COMPLETED"
    assert b.actions(saga_id)[1:4] == ["StepFailed", "WaitStarted", "SignalReceived"]


def test_only_code_that_asks_for_a_signal_answers_itself(bench: Make) -> None:
    class Eager(Saga[Order], name="eager"):
        @step(retry=Retry.constant(max_retries=0, delay=0))
        def pay(self, ctx: Context) -> None:
            ctx.signal("me")

    b = bench(Eager)
    saga_id = b.start("eager", {"item": "x", "count": 1})
    b.run()
    assert b.show(saga_id)["error"]["message"] == "ctx.signal: step pay of saga eager does not wait for a signal"


def test_an_operator_has_it_wait_anew(bench: Make) -> None:
    b = bench(Parked)
    saga_id = b.start("parked-wait", {"item": "x"})
    b.run()
    visit(b, 3601.0)
    assert b.status(saga_id) == "DEAD_LETTERED"
    assert "no signal arrived in time; retry waits again" in b.show(saga_id)["attention"]["reason"]
    with pytest.raises(Conflict, match="no signal arrived in time"):
        signal(b, saga_id, {"by": "ada"}, "parked-wait", "answer")
    before = b.show(saga_id)["steps"][0]
    assert before["error"]["type"] == "WaitTimedOut"
    b.engine.operations.retry("parked-wait", saga_id, "once more", "bob")
    assert b.status(saga_id) == "WAITING"
    anew = b.show(saga_id)["steps"][0]
    assert (anew["status"], anew["error"]) == ("WAITING", None)
    assert epoch(anew["started_at"]) == b.clock.now() > epoch(before["started_at"])
    assert signal(b, saga_id, {"by": "ada"}, "parked-wait", "answer").accepted
    b.run()
    assert b.status(saga_id) == "COMPLETED"


@pytest.mark.parametrize("operation", ["compensate", "resolve"])
def test_an_operator_gives_a_wait_up_or_settles_it(bench: Make, operation: str) -> None:
    b = bench(Parked)
    saga_id = b.start("parked-wait", {"item": "x"})
    b.run()
    visit(b, 3601.0)
    if operation == "compensate":
        b.engine.operations.compensate("parked-wait", saga_id, "enough", "bob")
        assert b.status(saga_id) == "COMPENSATED"
    else:
        b.engine.operations.resolve("parked-wait", saga_id, "seen", "none", (), "bob")
        assert b.show(saga_id)["attention"] is None


def test_a_step_looks_again_without_using_up_its_retries(bench: Make) -> None:
    b = bench(Polling)
    saga_id = b.start("polling", {"item": "x", "count": 2})
    b.run()
    shown = b.step(saga_id)
    assert (shown["status"], shown["waiting_for"], shown["message"]) == ("WAITING", "retry", "the bank")
    assert shown["next_attempt_at"] == shown["waits_until"]
    visit(b, 3600.5)
    visit(b, 3600.5)
    assert b.show(saga_id)["result"] == 3


class Jobs(Saga[Order], name="jobs"):
    """Starts a job and looks for its end, which never comes."""

    @step(within=timedelta(seconds=5), retry=Retry.constant(max_retries=1, delay=0))
    def render(self, request: Order, ctx: Context) -> str:
        act("render", ctx)
        raise NotYet(after=2, message="the job")

    @render.compensate
    def stop(self, render: str | None, ctx: Context) -> None:
        act(f"stop {render}", ctx)


class NeedyJobs(Saga[Order], name="needy-jobs"):
    """Likewise, but its undo needs what the job never resulted in."""

    @step
    def render(self, request: Order, ctx: Context) -> str:
        act("render", ctx)
        raise NotYet(after=2, message="the job")

    @render.compensate
    def stop(self, render: str) -> None:
        raise AssertionError("there is no result")


def test_a_job_that_does_not_end_in_time_is_undone(bench: Make) -> None:
    b = bench(Jobs)
    saga_id = b.start("jobs")
    b.run()
    assert b.status(saga_id) == "COMPENSATED"
    assert b.show(saga_id)["error"]["type"] == "NotYet"
    assert LOG == ["render:1", "render:2", "render:3", "render:4", "stop None:1"]
    assert b.show(saga_id)["in_doubt"] == []


@pytest.mark.parametrize("then", ["fails", "is cancelled"])
def test_a_job_is_undone_however_its_step_ends(bench: Make, then: str) -> None:
    b = bench(Jobs)
    saga_id = b.start("jobs")
    b.deliver("jobs", "render")
    if then == "fails":
        FAIL["render"] = ValueError("the account is closed")
    else:
        b.engine.operations.cancel("jobs", saga_id, "ada")
    b.run()
    assert b.status(saga_id) == ("COMPENSATED" if then == "fails" else "CANCELLED")
    assert LOG[-1] == "stop None:1"


def test_a_job_whose_undo_needs_its_result_is_in_doubt(bench: Make) -> None:
    b = bench(NeedyJobs)
    saga_id = b.start("needy-jobs")
    b.deliver("needy-jobs", "render")
    b.engine.operations.cancel("needy-jobs", saga_id, "ada")
    b.run()
    assert (b.status(saga_id), b.show(saga_id)["in_doubt"]) == ("CANCELLED", ["render"])
    assert "the outcome of render is unknown" in b.show(saga_id)["attention"]["reason"]


def test_patience_ends_with_one_last_look(bench: Make) -> None:
    b = bench(Polling)
    saga_id = b.start("polling", {"item": "x", "count": 99})
    b.run()
    for _ in range(7):
        visit(b, 3600.5)
    assert b.status(saga_id) == "COMPENSATED"
    assert b.show(saga_id)["error"]["type"] == "NotYet"


def test_a_saga_ends_at_its_own_deadline(bench: Make) -> None:
    b = bench(Loan)
    saga_id = b.start("loan", {"item": "house"})
    b.deliver("loan", "score")
    b.lose_messages()
    visit(b, 30 * DAY + 1)
    assert b.status(saga_id) == "COMPENSATED"
    assert b.show(saga_id)["error"]["type"] == "SagaTimedOut"


def test_before_the_end_of_a_long_wait_its_message_is_sent_with_the_rest_as_its_delay(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    b, saga_id = waiting(bench)
    delays: list[float] = []

    def noting(queues: object, message: object, delay: float = 0.0) -> None:
        delays.append(delay)

    monkeypatch.setattr(type(b.engine.queues), "send", noting)
    b.clock.advance(3 * DAY - 140)
    b.recover()
    b.recover()
    assert len(delays) == 1
    assert 130 < delays[0] <= 140
    assert b.status(saga_id) == "WAITING"


def test_a_wait_costs_no_lease_no_message_and_no_request(bench: Make, wire: Wire) -> None:
    b, saga_id = waiting(bench)
    state = b.state(saga_id)
    assert state.lease is None
    assert not any(b.stack.receive(saga, step) for saga, step in b.stack.steps())
    wire.requests.clear()
    for _ in range(20):
        b.clock.advance(3600.0)
        b.recover()
    assert [name for name, asked in wire.requests if saga_id in str(asked)] == []
