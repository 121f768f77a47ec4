"""Sagas in flight while their code changes: they keep their steps, and what has no code is on the attention list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from sagas.authoring.saga import Saga
from sagas.errors import InvalidRequest, NotFound, Unavailable
from tests.engine.changing import (
    REQUEST,
    Demanding,
    First,
    Reordered,
    Retired,
    WithoutPay,
    WithoutUndo,
    deployed,
    in_flight,
    names,
    why,
)
from tests.support.bench import Bench, Death
from tests.support.sagas import FAIL, LOG, Fatal, Order, Trip

Make = Callable[..., Bench]

# Steps that changed their place.


def test_a_saga_in_flight_keeps_its_steps_and_their_order(bench: Make) -> None:
    b = bench(Reordered)
    deployed(b, First)
    old = in_flight(b, "book")
    deployed(b, Reordered)
    new = b.start("change", REQUEST)
    b.run()
    assert names(b, new) == ["pay", "insure", "book", "tell"]
    assert names(b, old) == ["book", "pay", "tell"]
    assert {b.show(saga_id)["status"] for saga_id in (old, new)} == {"COMPLETED"}
    assert LOG.count("insure") == 1


def test_a_saga_in_flight_is_undone_in_its_own_order(bench: Make) -> None:
    b = bench(First)
    FAIL["tell"] = RuntimeError()
    saga_id = in_flight(b, "book")
    deployed(b, Reordered)
    b.run()
    assert b.show(saga_id)["status"] == "COMPENSATED"
    assert LOG == ["book", "pay", "tell", "tell", "tell", "refund", "unbook"]


def test_a_saga_that_lacks_the_result_that_a_step_takes_waits_for_code_that_fits(bench: Make) -> None:
    """Nothing is called with a ``None`` that its author ruled out, and nothing is undone."""
    b = bench(First)
    saga_id = in_flight(b, "book")
    deployed(b, Demanding)
    b.run()
    saga = b.show(saga_id)
    error = saga["error"]
    assert (saga["status"], error["step"], error["type"]) == ("DEAD_LETTERED", "pay", "TypeChanged")
    assert error["message"] == "in this saga the step 'tell' has no result yet"
    assert LOG == ["book"]
    deployed(b, First)
    b.engine.operations.retry("change", saga_id, "deployed again", "ann")
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert LOG == ["book", "pay", "tell"]


def test_the_version_is_that_of_the_start_in_the_saga_and_its_audit(bench: Make) -> None:
    b = bench(First)
    saga_id = in_flight(b, "book")
    deployed(b, Reordered)
    b.run()
    assert b.show(saga_id)["version"] == "1"
    entries, _ = b.engine.reader.audit("change", saga_id, 100, 0)
    assert entries[0]["action"] == "SagaStarted"
    assert entries[0]["details"]["version"] == "1"


# Starts that were interrupted.


def interrupted(b: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start a saga of the first version whose entry is written, and nothing else."""

    def away(*_: object) -> bool:
        raise Unavailable("DynamoDB is out of reach")

    with monkeypatch.context() as patched:
        patched.setattr(b.engine.control, "create", away)
        with pytest.raises(Unavailable):
            b.engine.starter.start("change", REQUEST, key="once")


def finished(b: Bench) -> str:
    """Send the same start again."""
    return b.engine.starter.start("change", REQUEST, key="once").state.saga_id


def test_an_interrupted_start_is_finished_as_it_was_begun(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Reordered)
    deployed(b, First)
    interrupted(b, monkeypatch)
    deployed(b, Reordered)
    saga_id = finished(b)
    b.run()
    saga = b.show(saga_id)
    assert (saga["status"], saga["version"], names(b, saga_id)) == ("COMPLETED", "1", ["book", "pay", "tell"])
    assert LOG == ["book", "pay", "tell"]


def test_one_whose_first_step_is_gone_leads_to_attention(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(First)
    interrupted(b, monkeypatch)

    class WithoutBook(Saga[Order], name="change"):
        tell = First.tell

    b.stack.queues["change"].pop("book")
    deployed(b, WithoutBook)
    saga_id = finished(b)
    assert (b.show(saga_id)["status"], names(b, saga_id)) == ("PENDING", ["book", "pay", "tell"])
    b.clock.advance(600)
    assert b.recover() == [saga_id]
    assert b.show(saga_id)["error"]["type"] == "CodeGone"


# Steps whose code is gone.


def check_gone(b: Bench, saga_id: str) -> None:
    saga = b.show(saga_id)
    assert saga["status"] == "DEAD_LETTERED"
    text = "step 'pay' of type 'change' is not in the deployed code"
    assert saga["error"] == {"step": "pay", "type": "CodeGone", "message": text}
    assert saga["steps"][1]["error"] == {"type": "CodeGone", "message": text}
    assert saga["steps"][1]["status"] == "FAILED"
    assert saga["attention"]["reason"] == "the code of step pay is missing: deploy it again and retry, or compensate"
    assert why(b) == [saga["attention"]["reason"]]
    assert b.actions(saga_id)[-1] == "StepDeadLettered"
    assert "pay" not in LOG


def test_a_message_for_a_step_without_code_leads_to_attention(bench: Make) -> None:
    b = bench(First)
    saga_id = in_flight(b, "book")
    deployed(b, WithoutPay)
    b.run()
    check_gone(b, saga_id)
    b.run()
    b.clock.advance(3600)
    assert b.recover() == []
    assert b.actions(saga_id).count("StepDeadLettered") == 1


def test_the_step_before_it_finds_its_successor_without_code(bench: Make) -> None:
    """No message is sent: there may be no queue."""
    b = bench(First)
    saga_id = in_flight(b)
    deployed(b, WithoutPay)
    assert b.deliver("change", "book") is not None
    check_gone(b, saga_id)
    assert b.stack.receive("change", "pay") == []


def test_the_supervisor_finds_it_when_the_queue_is_gone_too(bench: Make) -> None:
    b = bench(First)
    saga_id = in_flight(b, "book")
    b.lose_messages()
    b.stack.queues["change"].pop("pay")
    deployed(b, WithoutPay)
    assert b.recover() == []
    b.clock.advance(600)
    assert b.recover() == [saga_id]
    check_gone(b, saga_id)


def test_a_first_step_without_code_leads_to_attention(bench: Make) -> None:
    b = bench(First)
    saga_id = in_flight(b)

    class WithoutBook(Saga[Order], name="change"):
        tell = First.tell

    deployed(b, WithoutBook)
    b.run()
    saga = b.show(saga_id)
    assert (saga["status"], saga["error"]["type"]) == ("DEAD_LETTERED", "CodeGone")


def test_an_execution_that_was_lost_before_its_code_went(bench: Make) -> None:
    b = bench(First)
    saga_id = in_flight(b, "book")
    FAIL["pay"] = Death()
    with pytest.raises(Death):
        b.run()
    LOG.clear()
    deployed(b, WithoutPay)
    b.run()
    check_gone(b, saga_id)
    assert b.actions(saga_id)[-2:] == ["StepLost", "StepDeadLettered"]


def test_with_the_code_back_a_retry_goes_on(bench: Make) -> None:
    b = bench(First)
    saga_id = in_flight(b, "book")
    deployed(b, WithoutPay)
    b.run()
    state = b.engine.operations.retry("change", saga_id, "too early", "ann")
    assert state.status.value == "DEAD_LETTERED"
    check_gone(b, saga_id)
    deployed(b, First)
    b.engine.operations.retry("change", saga_id, "deployed again", "ann")
    b.run()
    saga = b.show(saga_id)
    assert (saga["status"], saga["error"]) == ("COMPLETED", None)
    assert LOG == ["book", "pay", "tell"]
    assert why(b) == []


def test_without_the_code_it_can_be_undone(bench: Make) -> None:
    b = bench(First)
    saga_id = in_flight(b, "book")
    deployed(b, WithoutPay)
    b.run()
    b.engine.operations.compensate("change", saga_id, "no more", "ann")
    b.run()
    assert b.show(saga_id)["status"] == "COMPENSATED"
    assert LOG == ["book", "unbook"]


def test_it_can_be_cancelled(bench: Make) -> None:
    b = bench(First)
    saga_id = in_flight(b, "book")
    deployed(b, WithoutPay)
    b.engine.operations.cancel("change", saga_id, "ann")
    b.run()
    assert b.show(saga_id)["status"] == "CANCELLED"


def test_a_message_for_a_saga_or_step_that_never_was_is_refused(bench: Make) -> None:
    b = bench(First)
    deployed(b, WithoutPay)
    saga_id = in_flight(b)
    [record] = b.stack.receive("change", "book")
    record["body"] = record["body"].replace('"book"', '"pay"')
    with pytest.raises(InvalidRequest, match="names a step that this saga does not have"):
        b.handle("change", "book", record)
    record["body"] = record["body"].replace(saga_id, f"{UUID(int=7)}")
    with pytest.raises(NotFound, match="no saga with id 0"):
        b.handle("change", "book", record)


# Undos whose code is gone.


@pytest.mark.parametrize("saga_class", [WithoutPay, WithoutUndo])
def test_an_undo_without_code_fails_and_the_others_run(bench: Make, saga_class: type[Any]) -> None:
    b = bench(First)
    FAIL["tell"] = RuntimeError()
    saga_id = in_flight(b, "book", "pay")
    deployed(b, saga_class)
    b.run()
    saga = b.show(saga_id)
    assert saga["status"] == "COMPENSATION_FAILED"
    assert [step["status"] for step in saga["steps"]] == ["COMPENSATED", "COMPENSATION_FAILED", "FAILED"]
    text = "the undo of step 'pay' of type 'change' is not in the deployed code"
    assert saga["steps"][1]["error"] == {"type": "CodeGone", "message": text}
    assert why(b) == ["the code of the undo of pay is missing: deploy it again and retry, or undo it by hand"]
    assert "refund" not in LOG


def test_its_message_may_be_under_way(bench: Make) -> None:
    b = bench(First)
    FAIL["tell"] = RuntimeError()
    saga_id = in_flight(b, "book", "pay", "tell")
    deployed(b, First)
    while b.state(saga_id).status.value != "COMPENSATING":
        b.deliver("change", "tell")
    deployed(b, WithoutPay)
    b.run()
    assert b.show(saga_id)["status"] == "COMPENSATION_FAILED"
    assert LOG[-1] == "unbook"


def test_with_its_code_back_a_retry_undoes_it(bench: Make) -> None:
    b = bench(First)
    FAIL["tell"] = RuntimeError()
    saga_id = in_flight(b, "book", "pay")
    deployed(b, WithoutPay)
    b.run()
    deployed(b, First)
    b.engine.operations.retry("change", saga_id, "deployed again", "ann")
    b.run()
    assert b.show(saga_id)["status"] == "COMPENSATED"
    assert LOG[-1] == "refund"
    assert why(b) == []


# Retired steps.


def test_new_sagas_do_not_take_a_retired_step(bench: Make) -> None:
    b = bench(First)
    deployed(b, Retired)
    saga_id = b.start("change", REQUEST)
    b.run()
    assert names(b, saga_id) == ["book", "tell"]
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert LOG == ["book", "tell"]


def test_sagas_in_flight_run_a_retired_step_and_undo_it(bench: Make) -> None:
    b = bench(First)
    first, second = in_flight(b), in_flight(b)
    deployed(b, Retired)
    b.run()
    assert {b.show(saga_id)["status"] for saga_id in (first, second)} == {"COMPLETED"}
    assert LOG.count("pay") == 2
    FAIL["tell"] = RuntimeError()
    deployed(b, First)
    third = in_flight(b, "book")
    deployed(b, Retired)
    LOG.clear()
    b.run()
    assert b.show(third)["status"] == "COMPENSATED"
    assert LOG == ["pay", "tell", "tell", "tell", "refund", "unbook"]


# Types that are gone.


def test_a_saga_whose_type_is_gone_needs_an_operator(bench: Make) -> None:
    b = bench(First)
    saga_id = in_flight(b)
    deployed(b, Trip)
    b.deliver("change", "book")
    assert (b.status(saga_id), len(why(b))) == ("DEAD_LETTERED", 1)
    deployed(b, First)
    b.engine.operations.retry("change", saga_id, "the type is back", "ada")
    b.run()
    assert b.status(saga_id) == "COMPLETED"


def test_the_supervisor_counts_them_and_goes_on(bench: Make) -> None:
    b = bench(Fatal, First)
    gone = in_flight(b)
    b.clock.advance(1)
    kept = b.start("fatal", REQUEST)
    b.lose_messages()
    deployed(b, Fatal)
    b.clock.advance(600)
    report = b.engine.recovery.run(60.0)
    assert (sorted(report.recovered), report.undeployed, report.failed) == (sorted([gone, kept]), 1, [])
    assert (b.status(gone), b.engine.recovery.run(60.0).undeployed) == ("DEAD_LETTERED", 0)
