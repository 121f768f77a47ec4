"""AWS refuses to record what a step did, for a reason that ends: the outcome is kept, as in an outage."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sagas.authoring.policies import Retry
from sagas.authoring.saga import Saga
from sagas.authoring.steps import step
from sagas.core.commands import Discard, Postpone
from sagas.errors import Denied, SagaError
from tests.engine.outages import DONE, REQUEST, WRITES, Refusals, carried
from tests.support.bench import Bench
from tests.support.sagas import LOG, Order, Trip

Make = Callable[..., Bench]
LASTING = ["AccessDeniedException", "UnrecognizedClientException", "ExpiredTokenException", "SomethingNew"]
_DOWN: list[Refusals] = []


class Charging(Saga[Order], name="charging"):
    """Its step may run once. While it runs, AWS begins to refuse."""

    @step
    def book(self, request: Order) -> str:
        LOG.append("book")
        return "b"

    @step(retry=Retry.constant(max_retries=0, delay=0))
    def charge(self, request: Order) -> str:
        LOG.append("charge")
        for refusals in _DOWN:
            refusals.on = True
        return "ch_1"


@pytest.fixture
def refused(bench: Make, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[Bench, str, Refusals]]:
    """Run a charge that AWS refuses to record with a code."""

    def begin(code: str) -> tuple[Bench, str, Refusals]:
        b = bench(Charging)
        saga_id = b.start("charging", REQUEST)
        b.deliver("charging", "book")
        refusals = Refusals(monkeypatch, code, *WRITES, "GetItem", "BatchGetItem")
        refusals.on = False
        monkeypatch.setattr(f"{__name__}._DOWN", [refusals])
        return b, saga_id, refusals

    return begin


@pytest.mark.parametrize("code", LASTING)
def test_a_refusal_is_not_worse_than_an_outage(
    refused: Callable[[str], tuple[Bench, str, Refusals]], code: str
) -> None:
    b, saga_id, refusals = refused(code)
    assert b.deliver("charging", "charge") == Discard()
    # The worker that handles the copy is refused, too.
    waits = [b.deliver("charging", "charge") for _ in range(3)]
    assert all(isinstance(end, Postpone) for end in waits)
    assert carried(b, "charging", "charge").pending_commit is not None
    refusals.on = False
    b.run()
    assert (b.status(saga_id), LOG) == ("COMPLETED", ["book", "charge"])
    assert b.actions(saga_id) == ["SagaStarted", "StepCompleted", "StepCompleted"]


def test_what_can_never_be_written_is_an_attempt_lost(
    refused: Callable[[str], tuple[Bench, str, Refusals]],
) -> None:
    b, saga_id, refusals = refused("ValidationException")
    with pytest.raises(SagaError, match="ValidationException") as error:
        b.deliver("charging", "charge")
    assert not isinstance(error.value, Denied)
    refusals.on = False
    b.clock.advance(3_600)
    b.run()
    assert b.status(saga_id) == "COMPENSATED"
    assert b.actions(saga_id)[2] == "StepLost"


def test_who_is_refused_for_longer_than_its_lease_has_lost_the_attempt(
    refused: Callable[[str], tuple[Bench, str, Refusals]],
) -> None:
    b, saga_id, refusals = refused("AccessDeniedException")
    b.deliver("charging", "charge")
    refusals.on = False  # only the role of the step was refused, and the supervisor is not
    b.clock.advance(3_600)
    b.recover()
    b.run()
    assert b.show(saga_id)["in_doubt"] == ["charge"]
    assert b.actions(saga_id)[2:] == ["StepLost", "CompensationStarted"]
    assert LOG == ["book", "charge"]


def test_a_refusal_does_not_fail_a_step_that_looks_for_a_cancel(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.engine.test_outage import Lonely

    b = bench(Lonely)
    saga_id = b.start("lonely", REQUEST)
    refusals = Refusals(monkeypatch, "AccessDeniedException", "GetItem")
    b.deliver("lonely", "look")
    assert refusals.count == 1
    refusals.on = False
    assert b.show(saga_id)["steps"][0]["result"] is False


def test_a_refusal_names_the_right_and_the_resource(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    refusals = Refusals(monkeypatch, "AccessDeniedException", "GetItem", "BatchGetItem")
    table = b.engine.settings.sagas_table
    with pytest.raises(Denied) as refused:
        b.engine.control.get(saga_id)
    assert refused.value.right == f"dynamodb:GetItem on {table}"
    with pytest.raises(Denied) as refused:
        b.engine.journal.entries(saga_id, [1])
    assert refused.value.right == f"dynamodb:BatchGetItem on {b.engine.settings.audit_table}"
    refusals.on = False
    b.run()
    assert DONE == LOG
