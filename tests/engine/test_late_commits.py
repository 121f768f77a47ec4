"""An outcome that waited in its queue, and what happened to its saga meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.outages import DONE, REQUEST, Begin, lost_at
from tests.support.bench import Bench, Death, Make
from tests.support.sagas import LOG, Trip


def lost(bench: Make, outage: Begin) -> tuple[Bench, str, Any]:
    """A saga the outcome of whose first step was not committed in an outage that has ended, and its message."""
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    gone = outage(b)
    message = lost_at(b, gone, "book")
    gone.lasting = False
    return b, saga_id, message


def test_what_was_taken_over_meanwhile_is_dropped(bench: Make, outage: Begin) -> None:
    b, saga_id, _ = lost(bench, outage)
    b.clock.advance(600)
    assert b.recover() == [saga_id]
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert LOG == ["book:1", "book:2", "pay:1", "tell:1"]
    assert b.actions(saga_id) == ["SagaStarted", "StepLost", *["StepCompleted"] * 3]


def test_a_lost_outcome_loses_no_saga(bench: Make, outage: Begin) -> None:
    b, saga_id, _ = lost(bench, outage)
    b.lose_messages()
    b.clock.advance(600)
    assert b.recover() == [saga_id]
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert LOG == ["book:1", "book:2", "pay:1", "tell:1"]


def test_a_cancel_meanwhile_undoes_what_was_done(bench: Make, outage: Begin) -> None:
    b, saga_id, _ = lost(bench, outage)
    b.engine.operations.cancel("trip", saga_id, "somebody")
    b.run()
    assert b.show(saga_id)["status"] == "CANCELLED"
    assert LOG == ["book:1", "unbook:1"]
    assert b.actions(saga_id)[1:4] == ["StepCompleted", "CancelRequested", "CompensationStarted"]


def test_an_outcome_delivered_twice_is_committed_once(bench: Make, outage: Begin) -> None:
    b, saga_id, message = lost(bench, outage)
    b.engine.queues.send(message)
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert DONE == LOG
    assert b.actions(saga_id) == ["SagaStarted", *["StepCompleted"] * 3]


def test_two_deliveries_at_once_agree(bench: Make, outage: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    b, saga_id, message = lost(bench, outage)
    b.engine.queues.send(message)
    other = b.deploy()
    commit = b.engine.control.commit

    def meanwhile(*arguments: Any) -> None:
        monkeypatch.setattr(b.engine.control, "commit", commit)
        b.deliver("trip", "book", other)
        commit(*arguments)

    monkeypatch.setattr(b.engine.control, "commit", meanwhile)
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert DONE == LOG
    assert b.actions(saga_id) == ["SagaStarted", *["StepCompleted"] * 3]


def test_a_death_in_the_middle_of_committing_it_later(bench: Make, outage: Begin, monkeypatch: Any) -> None:
    b, saga_id, _ = lost(bench, outage)
    original = b.engine.control.commit

    def dying(*arguments: Any) -> None:
        monkeypatch.setattr(b.engine.control, "commit", original)
        raise Death

    monkeypatch.setattr(b.engine.control, "commit", dying)
    with pytest.raises(Death):
        b.deliver("trip", "book")
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert DONE == LOG
