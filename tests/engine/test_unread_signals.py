"""The value of a signal that cannot be read for a while: the saga waits without a lease, is listed, and continues."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from sagas import Context, Saga, step, wait_for
from sagas.engine.supervise.recovery import RecoveryFilter
from sagas.errors import Conflict, Denied, Unavailable
from sagas.store.connection import Changed, Withheld
from tests.engine.outages import arrive_at_once
from tests.support.bench import Bench, Death, Make, once
from tests.support.sagas import LOG, Answered, Order

OUT = Unavailable("S3 GetObject: SlowDown")
DENIED = Denied("KMS Decrypt: AccessDeniedException", "kms:Decrypt on arn:aws:kms:eu-central-1:1:key/k")


class Asked(Answered[Order], name="asked", timeout=timedelta(hours=1)):
    """Waits for an answer; its own deadline comes first."""


class Paid(Saga[Order], name="paid", timeout=timedelta(hours=1)):
    """Waits for a payment, which it can give back."""

    payment = wait_for(str, timeout=timedelta(days=1))

    @payment.compensate
    def refund(self, payment: str) -> None:
        LOG.append(f"refund {payment}")

    @step
    def end(self, ctx: Context) -> None: ...


class Unread:
    """An inbox that cannot be read, while ``error`` is set."""

    def __init__(self, bench: Bench, patch: pytest.MonkeyPatch, error: Exception | None = OUT) -> None:
        self.error = error
        self._read: Callable[..., Any] = bench.engine.inbox.get
        patch.setattr(bench.engine.inbox, "get", self.get)

    def get(self, *arguments: Any) -> Any:
        if self.error is not None:
            raise self.error
        return self._read(*arguments)


@pytest.fixture(autouse=True)
def arriving_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    arrive_at_once(monkeypatch)


def look(b: Bench, saga_id: str) -> None:
    """Let time pass until the saga is looked at again, by the message of its wait."""
    b.clock.advance(max(0.0, b.state(saga_id).not_before - b.clock.now()) + 0.01)
    b.end_waits()


def answered(b: Bench, name: str = "asked", waiting: str = "answer") -> str:
    """A saga that has accepted a signal which it cannot read."""
    saga_id = b.start(name)
    b.run()
    b.engine.signals.send(name, saga_id, waiting, "yes", "ada")
    return saga_id


def test_an_outage_costs_no_lease_and_no_entries(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Asked)
    unread = Unread(b, monkeypatch)
    saga_id, looks = answered(b), list[float]()
    for _ in range(12):
        state = b.state(saga_id)
        assert (state.lease, state.status) == (None, "WAITING")
        looks.append(b.clock.now())
        look(b, saga_id)
    apart = [later - earlier for earlier, later in pairwise(looks)]
    assert 200 < max(apart) <= 301
    assert b.actions(saga_id) == ["SagaStarted", "WaitStarted", "StepPostponed"]
    assert b.show(saga_id)["attention"]["code"] == "inputs_unreachable"
    reason = f"the signal of step answer was not taken: its value cannot be read ({OUT})"
    assert b.show(saga_id)["attention"]["reason"] == b.show(saga_id)["waiting"]["message"] == reason
    unread.error = None
    look(b, saga_id)
    b.run()
    assert (b.status(saga_id), b.state(saga_id).unread) == ("COMPLETED", None)
    assert b.actions(saga_id)[2:4] == ["StepPostponed", "SignalReceived"]


def test_a_missing_right_is_listed_at_once_and_an_operator_can_look_again(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench(Asked)
    unread = Unread(b, monkeypatch, DENIED)
    saga_id = answered(b)
    (listed,) = b.engine.reader.attention(None, 10, None)["sagas"]
    assert listed["saga_id"] == saga_id
    assert b.show(saga_id)["attention"]["code"] == "no_right"
    with pytest.raises(Conflict, match="until its inputs can be read"):
        b.engine.operations.retry("asked", saga_id, "", "ada")
    unread.error = None
    b.engine.recovery.run(60.0, requested=RecoveryFilter(saga_id=saga_id))
    b.run()
    assert (b.status(saga_id), b.engine.reader.attention(None, 10, None)["sagas"]) == ("COMPLETED", [])


def test_the_supervisor_looks_where_the_message_was_lost(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Asked)
    unread = Unread(b, monkeypatch)
    saga_id = answered(b)
    b.lose_messages()
    b.clock.advance(60)
    unread.error = None
    b.recover()
    b.run()
    assert b.status(saga_id) == "COMPLETED"


def test_one_that_came_before_its_wait_is_read_later(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    class Early(Saga[Order], name="early"):
        @wait_for(str, timeout=timedelta(days=1))
        def answer(self, ctx: Context) -> None:
            ctx.signal("yes")

    b = bench(Early)
    unread = Unread(b, monkeypatch)
    saga_id = b.start("early")
    b.deliver("early", "answer")
    assert (b.status(saga_id), b.state(saga_id).lease) == ("WAITING", None)
    assert b.actions(saga_id)[1:] == ["WaitStarted", "StepPostponed"]
    unread.error = None
    look(b, saga_id)
    assert (b.status(saga_id), b.step(saga_id)["attempts"]) == ("COMPLETED", 1)


def test_its_holder_died_and_it_cannot_be_read(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Asked)
    saga_id = b.start("asked")
    b.run()
    once(monkeypatch, b.engine.journal, "put")
    with pytest.raises(Death):
        b.engine.signals.send("asked", saga_id, "answer", "yes", "ada")
    assert b.state(saga_id).lease
    Unread(b, monkeypatch)
    b.clock.advance(600)
    b.recover()
    assert (b.state(saga_id).lease, b.actions(saga_id)[2:]) == (None, ["StepPostponed"])


@pytest.mark.parametrize("ends", ["cancel", "deadline"])
@pytest.mark.parametrize(("name", "waiting"), [("asked", "answer"), ("paid", "payment")])
def test_a_cancel_and_the_deadline_do_not_wait_for_it_and_it_is_in_doubt(
    bench: Make, monkeypatch: pytest.MonkeyPatch, ends: str, name: str, waiting: str
) -> None:
    b = bench(Asked, Paid)
    Unread(b, monkeypatch)
    saga_id = answered(b, name, waiting)
    look(b, saga_id)
    if ends == "cancel":
        b.engine.operations.cancel(name, saga_id, "ada")
    else:
        b.clock.advance(3_600)
        b.recover()
    b.run()
    assert b.status(saga_id) == ("CANCELLED" if ends == "cancel" else "COMPENSATED")
    assert (b.show(saga_id)["in_doubt"], b.show(saga_id)["attention"]["code"], LOG) == ([waiting], "in_doubt", [])
    (said,) = [entry for entry in b.stack.entries(saga_id) if "in_doubt" in entry["details"]]
    assert (said["action"], said["details"]["in_doubt"]) == ("CompensationStarted", [waiting])


def test_one_that_is_gone_needs_an_operator_who_waits_again(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Asked)
    unread = Unread(b, monkeypatch, Withheld(DENIED, "payloads/asked/key"))
    missing = list[str]()

    def lacks(key: str) -> bool:
        missing.append(key)
        return True

    monkeypatch.setattr(b.engine.journal, "lacks", lacks)
    saga_id = answered(b)
    b.recover()
    assert missing == ["payloads/asked/key"]
    assert b.show(saga_id)["attention"] is None
    look(b, saga_id)
    text = "the signal of step answer is missing from S3, or was changed there"
    assert b.show(saga_id)["attention"]["reason"] == f"{text}: retry, and have it sent again, or compensate"
    assert (b.status(saga_id), b.show(saga_id)["attention"]["code"]) == ("DEAD_LETTERED", "type_changed")
    unread.error = None
    b.engine.operations.retry("asked", saga_id, "it was lost", "ada")
    b.engine.signals.send("asked", saga_id, "answer", "yes", "ada")
    b.run()
    assert b.status(saga_id) == "COMPLETED"


def test_one_that_was_changed_needs_an_operator(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Asked)
    Unread(b, monkeypatch, Changed("a"))
    saga_id = answered(b)
    assert (b.status(saga_id), b.show(saga_id)["error"]["type"]) == ("DEAD_LETTERED", "TypeChanged")
