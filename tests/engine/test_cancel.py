"""Cancelling a saga at every moment of its life."""

from __future__ import annotations

from typing import Any

import pytest

from sagas.errors import Conflict
from tests.support.bench import Bench, Death, Make
from tests.support.sagas import FAIL, LOG, Fatal, Stubborn, Trip

REQUEST = {"item": "train"}


def cancel(b: Bench, name: str, saga_id: str) -> str:
    return b.engine.operations.cancel(name, saga_id, "ada").status.value


def test_before_anything_ran(bench: Make) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    assert cancel(b, "trip", saga_id) == "CANCELLED"
    b.run()
    assert LOG == []
    entry = b.entry(saga_id, "CancelRequested")
    assert (entry["actor"], entry["details"]["requested_at"]) == ("ada", b.show(saga_id)["cancel_requested_at"])
    assert cancel(b, "trip", saga_id) == "CANCELLED"


def test_between_steps_undoes_what_was_done(bench: Make) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    b.deliver("trip", "book")
    assert cancel(b, "trip", saga_id) == "COMPENSATING"
    b.run()
    assert b.show(saga_id)["status"] == "CANCELLED"
    assert LOG == ["book:1", "unbook:1"]


def test_while_a_step_runs_its_result_is_undone_too(bench: Make) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    b.deliver("trip", "book")
    statuses: list[str] = []

    def running(*arguments: Any) -> str | None:
        result = call(*arguments)
        if not statuses:
            statuses.append(cancel(b, "trip", saga_id))
        return result

    call = b.replace_call(running)
    b.run()
    assert statuses == ["RUNNING"]
    assert b.show(saga_id)["status"] == "CANCELLED"
    assert LOG == ["book:1", "pay:1", "refund:1", "unbook:1"]


def test_while_the_last_step_runs_it_never_completes(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    finish = b.engine.control.finish

    def cancelled_first(*arguments: object) -> None:
        monkeypatch.setattr(b.engine.control, "finish", finish)
        cancel(b, "trip", saga_id)
        finish(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(b.engine.control, "finish", cancelled_first)
    b.run()
    assert b.show(saga_id)["status"] == "CANCELLED"
    assert LOG == ["book:1", "pay:1", "tell:1", "refund:1", "unbook:1"]
    assert "COMPLETED" not in [entry["status"] for entry in b.stack.entries(saga_id)]


def test_of_a_dead_worker_undoes_when_it_cannot_act_any_more(bench: Make) -> None:
    b = bench(Trip)
    FAIL["pay"] = Death()
    saga_id = b.start("trip", REQUEST)
    with pytest.raises(Death):
        b.run()
    held = b.state(saga_id).lease
    assert held is not None
    assert cancel(b, "trip", saga_id) == "RUNNING"
    b.run()
    saga = b.show(saga_id)
    assert saga["status"] == "CANCELLED"
    assert b.at(saga_id, "CompensationStarted") >= held.act_until
    assert LOG == ["book:1", "pay:1", "unbook:1"]
    assert saga["in_doubt"] == ["pay"]


def test_of_a_dead_lettered_saga(bench: Make) -> None:
    FAIL["second"] = ValueError("no")
    b = bench(Stubborn)
    FAIL["second"] = ValueError("no")
    saga_id = b.start("stubborn", REQUEST)
    b.run()
    assert b.show(saga_id)["status"] == "DEAD_LETTERED"
    cancel(b, "stubborn", saga_id)
    b.run()
    assert b.show(saga_id)["status"] == "CANCELLED"
    assert LOG[-1] == "undo_first:1"


def test_during_undoing_lets_it_finish(bench: Make) -> None:
    b = bench(Trip)
    FAIL["tell"] = ValueError("no")
    saga_id = b.start("trip", REQUEST)
    while b.state(saga_id).status.value != "COMPENSATING":
        assert any(b.deliver(saga, step) for saga, step in b.stack.steps())
    assert cancel(b, "trip", saga_id) == "COMPENSATING"
    b.run()
    assert b.show(saga_id)["status"] == "COMPENSATED"


def test_when_it_is_over_is_a_conflict(bench: Make) -> None:
    b = bench(Trip, Fatal)
    done = b.start("trip", REQUEST)
    FAIL["second"] = ValueError("no")
    failed = b.start("fatal", REQUEST)
    b.run()
    with pytest.raises(Conflict, match="COMPLETED"):
        cancel(b, "trip", done)
    with pytest.raises(Conflict, match="FAILED"):
        cancel(b, "fatal", failed)
