"""A saga whose next step does not fit the deployed code waits for a release, and only then for an operator."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from sagas import CircuitBreaker, Exhausted, Retry, Saga, step, wait_for
from sagas.client.read.next_action import next_action
from sagas.core import arrivals, rules
from sagas.core.commands import Discard, Postpone
from sagas.core.rules import Plan
from sagas.core.states import SagaState
from sagas.core.text import epoch, iso, moment
from sagas.engine import worker
from sagas.engine.observe.events import events_of_change
from sagas.errors import Conflict, Rejected, SagaError, Unavailable
from tests.engine.changing import First, WithoutPay, WithoutUndo, deployed, in_flight
from tests.support.bench import Bench, Death, once
from tests.support.sagas import FAIL, LOG, Order, perform

SETTLE = 900


@pytest.fixture
def settling(bench: Callable[..., Bench]) -> Callable[..., Bench]:
    """Make a bench whose sagas wait fifteen minutes for a release."""

    def make(*classes: type[Any]) -> Bench:
        made = bench(*classes)
        made.stack.settle_seconds = SETTLE
        made.engine = made.deploy(*classes)
        return made

    return make


def _look(b: Bench, name: str = "pay") -> None:
    """Deliver the message of a step, if there is one, and let the supervisor look."""
    b.deliver("change", name)
    b.recover()


def test_it_waits_visibly_and_uses_up_nothing(settling: Callable[..., Bench]) -> None:
    b = settling(First)
    saga_id = in_flight(b, "book")
    before = b.actions(saga_id)
    deployed(b, WithoutPay)
    for _ in range(14):
        _look(b)
        b.clock.advance(60)
    saga, state = b.show(saga_id), b.state(saga_id)
    assert (saga["status"], saga["waiting"]["kind"], saga["waiting"]["step"]) == ("RUNNING", "release", "pay")
    assert b.actions(saga_id) == before
    assert (state.current and state.current.attempts.made, state.recovery.attempts, state.attention) == (0, 0, 0)
    gone = "The code of step pay of release 1 is not deployed here."
    advice = f"{gone} If a deployment is under way, the saga continues without you."
    assert next_action(saga, b.clock.now()).means == advice


def test_it_continues_once_the_code_is_back(settling: Callable[..., Bench]) -> None:
    b = settling(First)
    saga_id = in_flight(b, "book")
    deployed(b, WithoutPay)
    _look(b)
    deployed(b, First)
    assert b.show(saga_id)["waiting"]["kind"] == "queue", "its code is deployed"
    b.clock.advance(60)
    b.run()
    assert (b.status(saga_id), b.state(saga_id).settling_since) == ("COMPLETED", 0)
    assert LOG == ["book", "pay", "tell"]


def test_after_that_time_it_needs_an_operator(settling: Callable[..., Bench]) -> None:
    b = settling(First)
    saga_id = in_flight(b, "book")
    deployed(b, WithoutPay)
    _look(b)
    b.clock.advance(SETTLE + 1)
    _look(b)
    saga = b.show(saga_id)
    assert (saga["status"], saga["error"]["type"], b.dead_letters("change")) == ("DEAD_LETTERED", "CodeGone", 0)
    advice = f"Deploy the code of step pay again, then run `sagas retry {saga_id} --seq {saga['seq']}`."
    assert next_action(saga, b.clock.now()).means.startswith(advice)
    deployed(b, First)
    b.engine.operations.retry("change", saga_id, "the code is back", "ada")
    b.run()
    assert b.status(saga_id) == "COMPLETED"


def test_each_look_keeps_the_time_since_when_it_waits(settling: Callable[..., Bench]) -> None:
    """A busy queue cannot begin the wait again."""
    b = settling(First)
    saga_id = in_flight(b, "book")
    deployed(b, WithoutPay)
    _look(b)
    since = b.state(saga_id).settling_since
    for _ in range(5):
        b.clock.advance(60)
        b.engine.recovery.run(60.0, requested=_only(saga_id))
        assert b.state(saga_id).settling_since == since
    assert b.actions(saga_id)[-1] == "MessageResent"


def _only(saga_id: str) -> Any:
    from sagas.engine.supervise.recovery import RecoveryFilter

    return RecoveryFilter(saga_id=saga_id)


def test_an_operator_may_cancel_it_and_not_retry_it(settling: Callable[..., Bench]) -> None:
    b = settling(First)
    saga_id = in_flight(b, "book")
    deployed(b, WithoutPay)
    _look(b)
    with pytest.raises(Conflict, match="waiting for a release; `sagas recover ID` sends its message now"):
        b.engine.operations.retry("change", saga_id, "now", "ada")
    b.engine.operations.cancel("change", saga_id, "ada")
    b.run()
    assert (b.status(saga_id), LOG) == ("CANCELLED", ["book", "unbook"])


def _keys(b: Bench, saga_id: str) -> set[str]:
    return {"incident_shard", "incident", "settling_since"} & b.stack.control(saga_id).keys()


def test_it_is_listed_with_its_release_and_until_when_it_waits(settling: Callable[..., Bench]) -> None:
    b = settling(First)
    saga_id = in_flight(b, "book")
    other = in_flight(b, "book")
    deployed(b, WithoutPay)
    reader = b.engine.reader
    assert reader.incidents(None)["incidents"] == [], "nobody has looked yet"
    for record in b.stack.receive("change", "pay", 2):
        b.handle("change", "pay", record)
    since = b.state(saga_id).settling_since
    until = iso(since + SETTLE)
    [incident] = reader.incidents(None)["incidents"]
    assert incident == {
        "type": "change", "step": "pay", "code": "does_not_fit", "error_type": "release 1", "count": 2,
        "at_least": False, "first_seen": iso(since), "last_seen": iso(since), "until": until,
    }  # fmt: skip
    wrong = incident["step"], incident["code"], incident["error_type"]
    rows = reader.attention("change", 10, None, *map(str, wrong))["sagas"]
    assert {row["saga_id"] for row in rows} == {saga_id, other}
    shown = b.show(saga_id)["attention"]
    reason = "the code of step pay of release 1 is not deployed here; the saga waits for a release until"
    assert shown == rows[0]["attention"] == {
        "step": "pay", "code": "does_not_fit", "error_type": "release 1", "until": until, "since": iso(since),
        "reason": f"{reason} {moment(until)}", "error": None,
    }  # fmt: skip
    assert b.state(saga_id).attention == 0
    [stats] = b.engine.statistics.of(["change"])["types"]
    assert (stats["attention"], stats["in_flight"]) == (0, 2)
    groups = b.engine.in_flight.page("change", None)["groups"]
    assert sum(group["count"] for group in groups) == 2, "each once"


def test_it_leaves_the_list_once_it_goes_on(settling: Callable[..., Bench]) -> None:
    b = settling(First)
    saga_id = in_flight(b, "book")
    deployed(b, WithoutPay)
    _look(b)
    deployed(b, First)
    assert b.engine.reader.attention(None, 10, None)["sagas"] == [], "its code is deployed"
    assert b.show(saga_id)["attention"] is None
    b.clock.advance(60)
    b.run()
    assert b.status(saga_id) == "COMPLETED"
    assert _keys(b, saga_id) == set()


def test_once_it_has_waited_long_enough_it_is_listed_for_an_operator_only(settling: Callable[..., Bench]) -> None:
    b = settling(First)
    saga_id = in_flight(b, "book")
    deployed(b, WithoutPay)
    _look(b)
    b.clock.advance(SETTLE + 1)
    _look(b)
    [incident] = b.engine.reader.incidents(None)["incidents"]
    assert (incident["code"], incident["error_type"], "until" in incident) == ("code_missing", "CodeGone", False)
    assert b.state(saga_id).attention > 0


def test_a_cancel_takes_it_off_the_list_at_once(
    settling: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    b = settling(First)
    saga_id = in_flight(b, "book")
    deployed(b, WithoutPay)
    _look(b)
    once(monkeypatch, type(b.engine.operations), "_begin_undoing")
    with pytest.raises(Death):
        b.engine.operations.cancel("change", saga_id, "ada")
    assert _keys(b, saga_id) == set()
    b.clock.advance(1)
    b.recover()
    b.run()
    assert (b.status(saga_id), _keys(b, saga_id)) == ("CANCELLED", set())


def test_a_pause_takes_it_off_the_list_and_a_resume_begins_the_wait_again(settling: Callable[..., Bench]) -> None:
    b = settling(First)
    saga_id = in_flight(b, "book")
    deployed(b, WithoutPay)
    _look(b)
    assert len(_keys(b, saga_id)) == 3
    b.engine.pausing.pause("change", "ada")
    b.clock.advance(60)
    _look(b)
    assert b.state(saga_id).paused
    assert _keys(b, saga_id) == set()
    b.clock.advance(2 * SETTLE)
    b.engine.pausing.resume("change", "ada")
    b.clock.advance(600)
    b.recover()
    assert b.state(saga_id).settling_since == int(b.clock.now())
    assert len(_keys(b, saga_id)) == 3


def test_an_undo_that_waits_is_listed_too(settling: Callable[..., Bench]) -> None:
    b = settling(First)
    FAIL["tell"] = RuntimeError()
    saga_id = in_flight(b, "book", "pay")
    deployed(b, WithoutUndo)
    for _ in range(4):
        b.deliver("change", "tell")
    b.deliver("change", "pay")
    [row] = b.engine.reader.attention(None, 10, None)["sagas"]
    assert row["attention"] is not None
    assert (row["saga_id"], row["attention"]["step"], row["attention"]["error"]) == (saga_id, "pay", None)
    assert next_action(row, b.clock.now()).others == (), "it can no longer be cancelled"


def test_a_wait_that_lasts_is_not_listed_because_a_signal_was_refused(settling: Callable[..., Bench]) -> None:
    """Nothing would take it off the list before its end."""
    b = settling(Asks)
    saga_id = b.start("asks")
    b.run()
    b.engine = b.deploy(NoWait)
    with pytest.raises(Unavailable):
        b.engine.signals.send("asks", saga_id, "ok", "yes", "ada")
    assert b.state(saga_id).settling_since > 0
    assert b.engine.reader.incidents(None)["incidents"] == []
    b.clock.advance(3_601 + 130)
    for _ in range(3):
        b.recover()
        b.end_waits()
        b.clock.advance(130)
    [incident] = b.engine.reader.incidents(None)["incidents"]
    assert (incident["step"], incident["code"]) == ("ok", "code_missing")


def test_it_is_no_event_and_no_metric(settling: Callable[..., Bench]) -> None:
    b = settling(First)
    saga_id = in_flight(b, "book")
    before = b.stack.control(saga_id)
    deployed(b, WithoutPay)
    _look(b)
    after = b.stack.control(saga_id)
    assert "incident" in after
    assert events_of_change(before, after) == []


def test_undos_wait_in_their_order(settling: Callable[..., Bench]) -> None:
    b = settling(First)
    FAIL["tell"] = RuntimeError()
    saga_id = in_flight(b, "book", "pay")
    deployed(b, WithoutUndo)
    for _ in range(4):
        b.deliver("change", "tell")
    b.deliver("change", "pay")
    saga = b.show(saga_id)
    assert (saga["status"], saga["waiting"]["kind"], saga["waiting"]["step"]) == ("COMPENSATING", "release", "pay")
    assert saga["waiting"]["message"] == "the undo of step pay of release 1 is not deployed here"
    assert "unbook" not in LOG
    b.clock.advance(SETTLE + 1)
    b.run()
    b.recover()
    b.run()
    saga = b.show(saga_id)
    assert [each["status"] for each in saga["steps"]] == ["COMPENSATED", "COMPENSATION_FAILED", "FAILED"]
    state = f"{saga_id} --seq {saga['seq']}"
    advice = f"Deploy the undo of step pay again and run `sagas retry {state}`, or undo it by hand"
    assert next_action(saga, b.clock.now()).means.startswith(advice)


def test_resuming_a_type_resumes_all_its_sagas_but_for_one_that_has_no_queue(settling: Callable[..., Bench]) -> None:
    b = settling(First)
    stuck = in_flight(b)
    others = [in_flight(b) for _ in range(2)]
    b.engine.pausing.pause("change", "ada")
    for _ in range(3):
        b.deliver("change", "book")
    assert all(b.state(saga_id).paused for saga_id in (stuck, *others))
    book = b.stack.queues["change"].pop("book")
    deployed(b, WithoutBook)
    assert b.engine.pausing.resume("change", "ada") == 3
    assert not any(b.state(saga_id).paused for saga_id in (stuck, *others))
    b.clock.advance(600)
    b.recover()
    assert b.show(stuck)["waiting"]["kind"] == "release"
    b.stack.queues["change"]["book"] = book
    deployed(b, First)
    b.clock.advance(600)
    b.recover()
    b.run()
    assert {b.status(saga_id) for saga_id in (stuck, *others)} == {"COMPLETED"}


def test_a_message_of_a_type_that_is_not_deployed_waits_too(settling: Callable[..., Bench]) -> None:
    b = settling(First)
    saga_id = in_flight(b)
    b.engine = b.deploy(Asks)
    assert isinstance(b.deliver("change", "book"), Postpone)
    assert b.state(saga_id).settling_since == int(b.clock.now())
    deployed(b, First)
    b.run()
    assert b.status(saga_id) == "COMPLETED"


def test_after_that_time_its_saga_needs_an_operator(settling: Callable[..., Bench]) -> None:
    b = settling(First)
    saga_id = in_flight(b)
    b.engine = b.deploy(Asks)
    b.deliver("change", "book")
    b.clock.advance(SETTLE + 1)
    assert isinstance(b.deliver("change", "book"), Discard)
    assert (b.status(saga_id), b.dead_letters("change")) == ("DEAD_LETTERED", 0)


class WithoutBook(Saga[Order], name="change", version="7"):
    pay = First.pay
    refund = First.refund
    tell = First.tell


class Texts(Saga[Order], name="values", version="1"):
    @step
    def count(self) -> str:
        return "three"

    @step
    def use(self, count: str) -> None:
        perform(count)


class Numbers(Saga[Order], name="values", version="2"):
    @step
    def count(self) -> int:
        return 3

    @step(retry=Retry.constant(max_retries=0, delay=0), circuit_breaker=CircuitBreaker(failure_threshold=1))
    def use(self, count: int) -> None:
        perform(str(count))


def test_a_value_that_the_code_cannot_read_uses_up_no_attempt(settling: Callable[..., Bench]) -> None:
    b = settling(Texts)
    saga_id = b.start("values")
    b.deliver("values", "count")
    b.engine = b.deploy(Numbers)
    for _ in range(3):
        b.deliver("values", "use")
        b.clock.advance(60)
        b.engine.recovery.run(60.0, requested=_only(saga_id))
    saga, state = b.show(saga_id), b.state(saga_id)
    assert (saga["status"], saga["waiting"]["kind"], state.steps[1].attempts.made) == ("RUNNING", "release", 0)
    assert "no longer matches int" in saga["waiting"]["message"]
    assert b.actions(saga_id)[2:] == ["StepPostponed", "MessageResent"] * 3
    assert b.engine.breakers.waits_behind("values", "use") is None
    b.engine = b.deploy(Texts)
    b.run()
    assert (b.status(saga_id), LOG, b.state(saga_id).unreadable) == ("COMPLETED", ["three"], "")


def test_a_step_that_is_refused_once_its_value_fits_is_undone(settling: Callable[..., Bench]) -> None:
    """That it waited for a release before does not count."""
    b = settling(Texts)
    saga_id = b.start("values")
    b.deliver("values", "count")
    b.engine = b.deploy(Numbers)
    b.deliver("values", "use")
    assert b.show(saga_id)["waiting"]["kind"] == "release"
    FAIL["three"] = Rejected("no")
    b.engine = b.deploy(Texts)
    b.clock.advance(61)
    b.engine.recovery.run(60.0, requested=_only(saga_id))
    b.run()
    assert b.status(saga_id) == "COMPENSATED"


def test_a_value_that_the_code_cannot_read_closes_no_breaker(settling: Callable[..., Bench]) -> None:
    """It says nothing of what the step depends on."""
    b = settling(Numbers)
    FAIL["3"] = RuntimeError()
    b.start("values")
    b.deliver("values", "count")
    b.deliver("values", "use")
    (opened,) = b.engine.breakers.states().values()
    b.engine = b.deploy(Texts)
    saga_id = b.start("values")
    b.deliver("values", "count")
    b.engine = b.deploy(Numbers)
    b.clock.advance(opened.open_until - b.clock.now() + 60)
    b.deliver("values", "use")
    assert b.show(saga_id)["waiting"]["kind"] == "release"
    (state,) = b.engine.breakers.states().values()
    assert (state.closed, state.probe) == (False, "")


def test_a_value_that_no_release_reads_needs_an_operator(settling: Callable[..., Bench]) -> None:
    b = settling(Texts)
    saga_id = b.start("values")
    b.deliver("values", "count")
    b.engine = b.deploy(Numbers)
    b.deliver("values", "use")
    b.clock.advance(SETTLE + 1)
    b.engine.recovery.run(60.0, requested=_only(saga_id))
    b.run()
    saga = b.show(saga_id)
    assert (saga["status"], saga["error"]["type"]) == ("DEAD_LETTERED", "TypeChanged")
    assert next_action(saga, b.clock.now()).means.startswith("Deploy code that reads the stored value")


class Asks(Saga[Order], name="asks"):
    @wait_for(str, timeout=timedelta(hours=1))
    def ok(self) -> None:
        """Ask."""

    @step
    def tell(self, ok: str) -> None:
        LOG.append(ok)


class NoWait(Saga[Order], name="asks"):
    @step
    def tell(self) -> None:
        LOG.append("told")


def test_a_sender_is_asked_to_try_again_and_then_refused(settling: Callable[..., Bench]) -> None:
    b = settling(Asks)
    saga_id = b.start("asks")
    b.run()
    assert b.show(saga_id)["waiting"]["kind"] == "signal"
    b.engine = b.deploy(NoWait)
    with pytest.raises(Unavailable, match="step ok is not deployed as a wait") as refused:
        b.engine.signals.send("asks", saga_id, "ok", "yes", "ada")
    assert refused.value.retry_after == 60
    waiting = b.show(saga_id)["waiting"]
    assert (waiting["kind"], waiting["step"]) == ("release", "ok")
    assert waiting["message"] == "the code of step ok of release 1 is not deployed here"
    b.clock.advance(SETTLE + 1)
    assert epoch(b.show(saga_id)["waiting"]["until"]) > b.clock.now(), "after that time, it needs an operator"
    with pytest.raises(Conflict, match="step ok is not deployed as a wait"):
        b.engine.signals.send("asks", saga_id, "ok", "yes", "ada")
    b.engine = b.deploy(Asks)
    assert b.show(saga_id)["waiting"]["kind"] == "signal", "its code is deployed"
    b.engine.signals.send("asks", saga_id, "ok", "yes", "ada")
    b.run()
    assert (b.status(saga_id), LOG[-1]) == ("COMPLETED", "yes")


class StepNow(Saga[Order], name="asks"):
    @step
    def ok(self) -> str:
        return "yes"

    tell = Asks.tell


def test_a_wait_that_is_a_step_now_is_named_as_what_it_was(settling: Callable[..., Bench]) -> None:
    b = settling(Asks)
    saga_id = b.start("asks")
    b.engine = b.deploy(StepNow)
    b.deliver("asks", "ok")
    message = "the code of step ok of release 1 is not deployed here as a wait for a signal"
    assert b.show(saga_id)["waiting"]["message"] == message


def test_a_wait_that_nobody_could_answer_does_not_time_out(settling: Callable[..., Bench]) -> None:
    b = settling(Asks)
    saga_id = b.start("asks")
    b.run()
    b.engine = b.deploy(NoWait)
    b.clock.advance(3601)
    b.recover()
    b.end_waits()
    assert b.show(saga_id)["waiting"]["kind"] == "release"
    [incident] = b.engine.reader.incidents(None)["incidents"]
    assert (incident["step"], incident["code"]) == ("ok", "does_not_fit")
    b.clock.advance(SETTLE + 130)
    b.recover()
    b.end_waits()
    assert (b.status(saga_id), b.show(saga_id)["error"]["type"]) == ("DEAD_LETTERED", "CodeGone")
    b.engine = b.deploy(Asks)
    b.engine.operations.retry("asks", saga_id, "the code is back", "ada")
    b.run()
    assert b.show(saga_id)["waiting"]["kind"] == "signal", "it waits the whole time again"


def test_code_that_is_not_there_is_never_passed_in_silence(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If nobody asked whether the code fits, the message would die visibly."""
    b = bench(First)
    in_flight(b, "book")
    deployed(b, WithoutPay)
    for module in (worker, arrivals, rules):
        monkeypatch.setattr(module, "misfit", _fits)
    with pytest.raises(SagaError, match="step 'pay' has no code to run"):
        b.deliver("change", "pay")


def _fits(plan: Plan, state: SagaState, now: float) -> None:
    return None


class Later(Saga[Order], name="later"):
    @step(retry=Retry.constant(max_retries=0, delay=0.0, on_exhausted=Exhausted.DEAD_LETTER))
    def book(self) -> None:
        perform("book")

    @wait_for(str, timeout=timedelta(hours=1))
    def ok(self) -> None:
        """Ask."""


class WithoutOk(Saga[Order], name="later"):
    book = Later.book


def test_a_signal_does_not_keep_an_operator_from_a_retry(settling: Callable[..., Bench]) -> None:
    """The saga waits for the operator, not for a release, when its sender is asked to try again."""
    b = settling(Later)
    FAIL["book"] = RuntimeError()
    saga_id = b.start("later")
    b.run()
    assert b.status(saga_id) == "DEAD_LETTERED"
    b.engine = b.deploy(WithoutOk)
    with pytest.raises(Unavailable, match="step ok is not deployed as a wait"):
        b.engine.signals.send("later", saga_id, "ok", "yes", "ada")
    before = b.actions(saga_id)
    b.engine.recovery.run(60.0, requested=_only(saga_id))
    assert (b.status(saga_id), b.actions(saga_id)) == ("DEAD_LETTERED", before)
    FAIL.clear()
    b.engine.operations.retry("later", saga_id, "fixed", "ada")
    b.engine = b.deploy(Later)
    b.run()
    assert b.show(saga_id)["waiting"]["kind"] == "signal"
