"""Parents while S3, KMS, DynamoDB or SQS refuse: joins wait, and waves begin soon after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sagas.errors import Denied, Unavailable
from sagas.messaging.message import Message
from sagas.messaging.queues import Queues
from sagas.messaging.work import Work
from sagas.store.connection import Withheld
from tests.engine.test_children import Basketful, Parked, Shipment, all_of, statuses
from tests.support.bench import Bench
from tests.support.sagas import LOG

Make = Callable[..., Bench]
OUT = Unavailable("S3 GetObject: SlowDown")
DENIED = Denied("KMS Decrypt: AccessDeniedException", "kms:Decrypt on arn:aws:kms:eu-central-1:1:key/k")
WITHHELD = Withheld(Denied("S3 GetObject: AccessDenied", "s3:GetObject on s3://b/k"), "k")


class Broken:
    """A method that raises, while ``error`` is set."""

    def __init__(self, patch: pytest.MonkeyPatch, target: Any, name: str) -> None:
        self.error: Exception | None = None
        original: Callable[..., Any] = getattr(target, name)

        def call(*arguments: Any, **named: Any) -> Any:
            if self.error is not None:
                raise self.error
            return original(*arguments, **named)

        patch.setattr(target, name, call)


@pytest.fixture(autouse=True)
def arriving_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What SQS is asked to delay arrives at once: moto would go by the real time."""
    send, send_work = Queues.send, Queues.send_work

    def sooner(queues: Queues, message: Message, delay: float = 0.0) -> None:
        send(queues, message)

    def work_sooner(queues: Queues, queue: str, work: Sequence[Work], delay: float = 0.0) -> None:
        send_work(queues, queue, work)

    monkeypatch.setattr(Queues, "send", sooner)
    monkeypatch.setattr(Queues, "send_work", work_sooner)


def look(b: Bench, times: int) -> None:
    """Deliver whatever there is, so often, with five minutes in between."""
    for _ in range(times):
        b._round()  # pyright: ignore[reportPrivateUsage] -- what waits is not waited for
        b.clock.advance(300)


def ended(b: Bench, saga_id: str, parcels: int) -> None:
    """Go on until all children have ended."""
    for _ in range(100):
        if statuses(b, saga_id)["COMPLETED"] == parcels:
            return
        b._round()  # pyright: ignore[reportPrivateUsage] -- the parent is not to end
    raise AssertionError("the children never end")


@pytest.mark.parametrize(("error", "code"), [(OUT, "inputs_unreachable"), (DENIED, "no_right"), (WITHHELD, "no_right")])
def test_a_join_that_cannot_read_waits_and_goes_on_by_itself(
    bench: Make, monkeypatch: pytest.MonkeyPatch, error: Exception, code: str
) -> None:
    b = bench(Parked, Shipment)
    saga_id = b.start("parked-basket", {"parcels": 3})
    unread = Broken(monkeypatch, b.engine.journal, "entries_of")
    unread.error = error
    ended(b, saga_id, 3)
    look(b, 5)
    state, view = b.state(saga_id), b.show(saga_id)
    assert (state.status, state.lease, state.attention, state.recovery.attempts) == ("WAITING", None, 0.0, 0)
    assert (view["attention"]["code"], view["waiting"]["kind"]) == (code, "inputs")
    assert view["attention"]["reason"].startswith("the children of step shipments were not joined")
    b.engine.children.list_stuck(saga_id, 6)
    assert b.state(saga_id).attention == 0.0
    unread.error = None
    b.clock.advance(300)
    b.run()
    assert b.status(saga_id) == "COMPLETED"
    assert b.engine.reader.attention(None, 10, None)["sagas"] == []


def test_a_lost_look_is_followed_by_the_supervisors(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Parked, Shipment)
    saga_id = b.start("parked-basket", {"parcels": 3})
    unread = Broken(monkeypatch, b.engine.journal, "entries_of")
    unread.error = OUT
    ended(b, saga_id, 3)
    look(b, 3)
    b.lose_messages()
    unread.error = None
    b.clock.advance(3 * 3_600)  # however long the saga has waited
    b.recover()
    b.run()
    assert b.status(saga_id) == "COMPLETED"


def test_requests_of_children_that_cannot_be_read_wait(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Basketful, Shipment)
    saga_id = b.start("basketful", {"parcels": 6})
    b.deliver("basketful", "pack")
    b.deliver("basketful", "shipments")
    unread = Broken(monkeypatch, b.engine.journal, "entries")
    unread.error = DENIED
    for _ in range(4):
        b.end_waits()
        b.clock.advance(300)
    assert all_of(b, saga_id) == []
    assert b.show(saga_id)["attention"]["code"] == "no_right"
    unread.error = None
    b.run()
    assert b.status(saga_id) == "COMPLETED"
    assert sorted(LOG)[:2] == ["book 0:1", "book 1:1"]


def test_a_wave_that_sqs_refused_is_started_by_the_next_delivery(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Parked, Shipment)
    saga_id = b.start("parked-basket", {"parcels": 30})  # too many for one message
    b.deliver("parked-basket", "shipments")
    refused = Broken(monkeypatch, b.engine.queues, "send_work")
    refused.error = Unavailable("SQS is out of reach")
    b.end_waits()
    assert (b.state(saga_id).steps[0].fan_out.handed_out, all_of(b, saga_id)) == (30, [])
    refused.error = None
    b.end_waits()
    assert statuses(b, saga_id) == {"PENDING": 30}


def test_a_parent_that_could_not_be_woken_is_due_at_once(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Basketful, Shipment)
    saga_id = b.start("basketful", {"parcels": 4})
    refused = Broken(monkeypatch, b.engine.queues, "send_work")
    b.deliver("basketful", "pack")
    b.deliver("basketful", "shipments")
    b.end_waits()
    b.clock.advance(3 * 3_600)
    b.recover()
    b.end_waits()  # the supervisor has just looked, and looks again in three hours
    refused.error = Unavailable("SQS is out of reach")
    for _ in range(20):
        b.deliver("shipment", "book")
        b.deliver("shipment", "send")
        b.deliver("shipment", "tell")
    assert statuses(b, saga_id) == {"COMPLETED": 4}
    b.clock.advance(60)
    b.recover()  # this message is refused, too
    refused.error = None
    b.clock.advance(200)
    b.recover()
    b.run()
    assert b.status(saga_id) == "COMPLETED"


def test_a_join_that_may_not_encrypt_waits_without_a_lease(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Parked, Shipment)
    saga_id = b.start("parked-basket", {"parcels": 3})
    ended(b, saga_id, 3)
    refused = Broken(monkeypatch, b.engine.journal, "put")
    refused.error = Denied("KMS GenerateDataKey: AccessDeniedException", "kms:GenerateDataKey on arn:aws:kms:key/k")
    look(b, 3)
    state = b.state(saga_id)
    assert (state.lease, state.status, b.dead_letters("parked-basket")) == (None, "WAITING", 0)
    assert b.show(saga_id)["attention"]["code"] == "no_right"
    refused.error = None
    b.recover()
    look(b, 3)
    assert b.state(saga_id).steps[0].status == "COMPLETED"
    assert b.show(saga_id)["attention"] is None
