"""One code that is deployed twice: what the two services share, and what they never share."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from sagas import Context, OrphanSweep, Rejected, Saga, step
from sagas.engine.engine import settings_from
from sagas.engine.observe.events import events_of_entries
from sagas.engine.registry import Registry
from sagas.engine.sweep.sweep import SweepRequest, sweeper_of
from sagas.errors import SagaError, WrongTables
from tests.engine.sweeping import BUCKET, DAY, MIN_AGE
from tests.support.aws import REGION, HandmadeStack
from tests.support.bench import Bench, ManualClock
from tests.support.dynamodb import aws
from tests.support.engine import Engine

LOG: list[str] = []


class Provider:
    """As payment providers do: the same key answers the first call's charge, and moves no money."""

    def __init__(self) -> None:
        self.charges: dict[str, tuple[str, str]] = {}
        self.refunded: list[str] = []

    def charge(self, key: str, customer: str) -> str:
        return self.charges.setdefault(key, (f"ch_{len(self.charges) + 1}", customer))[0]


PROVIDER = Provider()


@dataclass(frozen=True)
class Order:
    customer: str
    refused: bool = False


class Checkout(Saga[Order], name="checkout", orphans=OrphanSweep("ZIPS_BUCKET", "zips/", MIN_AGE)):
    """Charges, and stores an invoice."""

    @step
    def charge(self, request: Order, ctx: Context) -> str:
        return PROVIDER.charge(ctx.idempotency_key, request.customer)

    @charge.compensate
    def refund(self, charge: str) -> None:
        PROVIDER.refunded.append(charge)

    @step
    def invoice(self, request: Order, ctx: Context) -> str:
        key = ctx.s3_key("invoice.txt")
        ctx.client("s3").put_object(Bucket=BUCKET, Key=key, Body=request.customer.encode())
        return key

    @step
    def ship(self, request: Order) -> None:
        if request.refused:
            raise Rejected("out of stock")


class Ours(Saga[Order], name="trip"):
    """A type of the service that has the tables."""

    @step
    def book(self, request: Order) -> None:
        LOG.append("book")

    @book.compensate
    def unbook(self) -> None:
        LOG.append("unbook")

    @step
    def charge(self, request: Order) -> None:
        LOG.append("charge")


class SameName(Saga[Order], name="trip"):
    """A type of the other service with the same name and other steps."""

    @step
    def reserve(self, request: Order) -> None:
        LOG.append("theirs")

    @step
    def charge(self, request: Order) -> None:
        LOG.append("theirs")


class OtherName(Saga[Order], name="cargo"):
    """A type of the other service that the first one does not have."""

    @step
    def load(self, request: Order) -> None:
        LOG.append("theirs")


@pytest.fixture
def cloud(credentials: None) -> Iterator[None]:
    LOG.clear()
    PROVIDER.charges.clear()
    PROVIDER.refunded.clear()
    with aws():
        yield


@pytest.fixture
def both(cloud: None, monkeypatch: pytest.MonkeyPatch) -> tuple[Bench, Bench]:
    """The service in two stacks, each with tables and queues of its own."""
    monkeypatch.setenv("ZIPS_BUCKET", BUCKET)
    eu = Bench(Checkout, clock=ManualClock(round(time.time(), 3)))  # S3 stamps objects with the real time
    eu.stack.s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    return eu, Bench(Checkout, stack=HandmadeStack(Checkout, prefix="us"), clock=eu.clock)


def customer(name: str, *, refused: bool = False) -> dict[str, object]:
    return {"customer": name, "refused": refused}


def result(b: Bench, saga_id: str, index: int) -> str:
    return b.show(saga_id)["steps"][index]["result"]


def test_two_services_call_one_provider(both: tuple[Bench, Bench]) -> None:
    eu, us = both
    for b, name in ((eu, "Ada"), (us, "Bob")):
        b.start("checkout", customer(name), key="order-1")
        b.run()
    assert sorted(charged for _, charged in PROVIDER.charges.values()) == ["Ada", "Bob"]
    kept = eu.start("checkout", customer("Cleo"), key="order-2")
    eu.run()
    undone = us.start("checkout", customer("Dan", refused=True), key="order-2")
    us.run()
    assert (eu.status(kept), us.status(undone)) == ("COMPLETED", "COMPENSATED")
    assert PROVIDER.refunded == [result(us, undone, 0)] != [result(eu, kept, 0)]


def test_two_services_write_into_one_bucket(both: tuple[Bench, Bench]) -> None:
    eu, us = both
    sagas = [(b, b.start("checkout", customer(name), key="order-1")) for b, name in ((eu, "Ada"), (us, "Bob"))]
    eu.run()
    us.run()
    files = [result(b, saga, 1) for b, saga in sagas]
    found = [eu.stack.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read().decode() for key in files]
    assert found == ["Ada", "Bob"]
    orphan = us.start("checkout", customer("Dan", refused=True), key="order-2")
    us.run()
    eu.clock.advance(3 * DAY)
    environment = {**us.stack.environment, "ZIPS_BUCKET": BUCKET}
    sweeper = sweeper_of(us.engine, environment)
    (report,) = sweeper.run(SweepRequest(now=True, force=True), us.clock.now() + 60)
    assert (report.deleted, report.unknown) == (1, 1)
    left = [item["Key"] for item in eu.stack.s3.list_objects_v2(Bucket=BUCKET)["Contents"]]
    assert sorted(left) == sorted(files)
    assert us.status(orphan) == "COMPENSATED"


def test_two_services_publish_on_one_bus(both: tuple[Bench, Bench]) -> None:
    ids = list[str]()
    for b in both:
        saga = b.start("checkout", customer("Ada"), key="order-1")
        b.run()
        state = b.state(saga)
        entries = b.engine.journal.entries(saga, range(1, state.seq + 1))
        ids += [event.detail["id"] for event in events_of_entries(state, [*entries.values()], 0.0, steps=True)]
    assert len(ids) == len(set(ids)) > 2


def test_two_services_start_a_saga_of_a_third(cloud: None) -> None:
    third = Bench(Ours)
    keys = [
        b.start("checkout", customer("Ada"), key="order-1")
        for b in (Bench(Checkout, stack=HandmadeStack(Checkout, prefix=prefix)) for prefix in ("eu", "us"))
    ]
    assert len({third.start("trip", customer("Ada"), key=f"{key}:charge") for key in keys}) == 2


def test_a_service_makes_the_same_ids_in_another_stack_with_its_id(both: tuple[Bench, Bench]) -> None:
    eu, _ = both
    moved = HandmadeStack(Checkout, prefix="moved")
    again = Bench(Checkout, stack=moved, clock=eu.clock)
    again.engine = Engine(
        Registry((Checkout,)), settings_from({**moved.environment, "SAGAS_SERVICE": eu.stack.prefix}), moved.routes
    )
    request = customer("Ada")
    assert eu.start("checkout", request, key="order-1") == again.start("checkout", request, key="order-1")


# The tables of another service


def on_tables_of(owner: Bench, cls: type[Saga[Order]], settle: float, **variables: str) -> Bench:
    """Another service that names the tables and the bucket of ``owner``, with queues of its own."""
    stack = HandmadeStack(cls, prefix="other")
    names = ("SAGAS_TABLE", "SAGAS_AUDIT_TABLE", "SAGAS_PAYLOAD_BUCKET")
    shared = {name: owner.stack.environment[name] for name in names}
    settings = settings_from({**stack.environment, **shared, **variables})
    bench = Bench(cls, stack=stack, clock=owner.clock)
    bench.engine = Engine(Registry((cls,), None, settle), settings, stack.routes, clock=owner.clock)
    return bench


@pytest.mark.parametrize("cls", [SameName, OtherName])
@pytest.mark.parametrize("settle", [0.0, 3600.0])
@pytest.mark.parametrize("began", [False, True])
def test_two_services_have_one_table(cloud: None, cls: type[Saga[Order]], settle: float, *, began: bool) -> None:
    owner = Bench(Ours)
    other = on_tables_of(owner, cls, settle)
    saga = owner.start("trip", customer("Ada"))
    if began:
        owner.deliver("trip", "book")
    for _ in range(180):  # the owner's functions are throttled for three hours
        owner.clock.advance(60)
        with pytest.raises(WrongTables):
            other.engine.recovery.run(60.0)
        for name, step_name in other.stack.steps():
            assert other.deliver(name, step_name) is None
    assert owner.actions(saga) == ["SagaStarted", "StepCompleted"][: 1 + began]
    owner.run()
    owner.engine.recovery.run(60.0)
    owner.run()
    assert owner.status(saga) == "COMPLETED"
    assert LOG == ["book", "charge"]


def test_a_message_of_another_service_for_a_saga_on_these_tables_runs_nothing(cloud: None) -> None:
    owner = Bench(Ours)
    saga = owner.start("trip", customer("Ada"))
    other = on_tables_of(owner, Ours, 0.0)
    (record,) = owner.stack.receive("trip", "book")
    other.stack.sqs.send_message(
        QueueUrl=other.stack.queues["trip"]["book"], MessageBody=record["body"]
    )  # as a supervisor of an older release would have sent it
    with pytest.raises(SagaError, match="belong to service"):
        other.deliver("trip", "book")
    assert (LOG, owner.actions(saga)) == ([], ["SagaStarted"])


def test_the_error_names_both_services_and_the_option_that_takes_the_tables_over(cloud: None) -> None:
    owner = Bench(Ours)
    owner.start("trip", customer("Ada"))
    with pytest.raises(WrongTables) as raised:
        on_tables_of(owner, Ours, 0.0).start("trip", customer("Bob"))
    assert str(raised.value) == (
        "the tables belong to service 'test', not to this service, 'other' (table test-sagas); "
        "correct tables=, or take them over, with the ids that they have, by service_id='test'"
    )


def test_a_service_with_their_id_takes_the_tables_over(cloud: None) -> None:
    owner = Bench(Ours)
    saga = owner.start("trip", customer("Ada"), key="order-1")
    owner.deliver("trip", "book")
    heir = on_tables_of(owner, Ours, 0.0, SAGAS_SERVICE=owner.stack.prefix)
    owner.clock.advance(3_600)
    assert heir.engine.recovery.run(60.0).recovered == [saga]
    heir.run()
    assert heir.status(saga) == "COMPLETED"
    assert heir.start("trip", customer("Ada"), key="order-1") == saga
    assert LOG == ["book", "charge"]


def test_the_supervisor_claims_tables_before_the_first_start(cloud: None) -> None:
    owner = Bench(Ours)
    owner.engine.recovery.run(60.0)
    with pytest.raises(WrongTables):
        on_tables_of(owner, SameName, 0.0).engine.recovery.run(60.0)
