"""Operators' calls that name the state they mean: they act on no other one, and only once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from sagas.core.ids import child_id
from sagas.core.states import SagaState
from sagas.engine.operate.operations import Operations
from sagas.errors import Conflict, StateChanged
from sagas.store.control.control import ControlItems
from tests.engine.test_children import Basketful, Shipment
from tests.support.bench import Bench, Make
from tests.support.sagas import FAIL, Stubborn

Call = Callable[..., SagaState]
STEPS = ("shipments",)


def calling(bench: Bench, verb: str, saga_id: str, actor: str = "ann", reason: str = "seen", **more: Any) -> SagaState:
    """Have an operator call for a saga."""
    settled = {"action": "refunded", "steps": ()} if verb == "resolve" else {}
    call: Call = getattr(bench.engine.operations, verb)
    return call(bench.state(saga_id).saga, saga_id, reason, actor=actor, **{**settled, **more})


def stuck(make: Make) -> tuple[Bench, str]:
    """A saga that is dead-lettered, to which all three calls can be made."""
    FAIL["second"] = RuntimeError("no")
    bench = make(Stubborn)
    saga_id = bench.start("stubborn", {"item": "train"})
    bench.run()
    assert bench.status(saga_id) == "DEAD_LETTERED"
    return bench, saga_id


VERBS = ("retry", "compensate", "resolve")


@pytest.mark.parametrize("verb", VERBS)
def test_a_call_acts_on_no_other_state(bench: Make, verb: str) -> None:
    b, saga_id = stuck(bench)
    seen = b.state(saga_id).seq
    calling(b, "retry", saga_id, "bob")
    b.run()
    before = b.stack.entries(saga_id)
    now = b.state(saga_id)
    assert (now.status, now.seq > seen) == ("DEAD_LETTERED", True)
    for seq in (seen, 1, now.seq - 1, now.seq + 1, 10**9 - 1):
        with pytest.raises(StateChanged, match=f"seq {seq} is not its last audit entry") as raised:
            calling(b, verb, saga_id, seq=seq)
        assert (raised.value.saga["seq"], raised.value.saga["status"]) == (now.seq, "DEAD_LETTERED")
        assert raised.value.saga["request"] is None
        assert (b.state(saga_id), b.stack.entries(saga_id)) == (now, before)
    calling(b, verb, saga_id, seq=now.seq)
    assert b.state(saga_id).seq > now.seq


@pytest.mark.parametrize(("verb", "reason"), [*((verb, "seen") for verb in VERBS), ("retry", ""), ("compensate", "")])
def test_a_repeated_call_is_answered_as_the_first_one_and_acts_once(bench: Make, verb: str, reason: str) -> None:
    b, saga_id = stuck(bench)
    seen = b.state(saga_id).seq
    calling(b, verb, saga_id, reason=reason, seq=seen)
    for _ in range(2):  # at once, and after whatever has followed
        before = b.stack.entries(saga_id)
        now = b.state(saga_id)
        assert calling(b, verb, saga_id, reason=reason, seq=seen) == now
        for other in ({"actor": "bob", "reason": reason}, {"reason": "another"}):
            with pytest.raises(StateChanged):
                calling(b, verb, saga_id, seq=seen, **other)
        assert (b.state(saga_id), b.stack.entries(saga_id)) == (now, before)
        FAIL.clear()
        b.run()


def test_a_settlement_with_other_steps_or_another_action_is_another_call(bench: Make) -> None:
    FAIL.update({"close": RuntimeError("no"), "unbook 1": RuntimeError("gone")})
    b = bench(Basketful, Shipment)
    saga_id = b.start("basketful", {"parcels": 2})
    b.run()
    seen = b.state(saga_id).seq
    calling(b, "resolve", saga_id, steps=STEPS, seq=seen)
    before = b.stack.entries(saga_id)
    calling(b, "resolve", saga_id, steps=STEPS, seq=seen)
    others: list[dict[str, Any]] = [{"steps": ()}, {"steps": STEPS, "action": "called them"}]
    for other in others:
        with pytest.raises(StateChanged):
            calling(b, "resolve", saga_id, seq=seen, **other)
    assert b.stack.entries(saga_id) == before


@pytest.mark.parametrize("verb", VERBS)
def test_what_another_call_is_recorded_by_is_no_repetition(bench: Make, verb: str) -> None:
    b, saga_id = stuck(bench)
    seen = b.state(saga_id).seq
    calling(b, "compensate" if verb != "compensate" else "resolve", saga_id)
    with pytest.raises(StateChanged):
        calling(b, verb, saga_id, seq=seen)


@pytest.mark.parametrize("verb", VERBS)
def test_the_state_is_compared_at_each_try(bench: Make, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another operator acts between the first look and the claim."""
    b, saga_id = stuck(bench)
    claim = cast("Any", ControlItems).claim
    others = ["bob"]

    def overtaken(self: ControlItems, *arguments: Any) -> bool:
        if others:
            calling(b, "resolve", saga_id, others.pop(), "settled")
        return claim(self, *arguments)

    seen = b.state(saga_id).seq
    monkeypatch.setattr(ControlItems, "claim", overtaken)
    with pytest.raises(StateChanged):
        calling(b, verb, saga_id, seq=seen)
    assert [entry["actor"] for entry in b.stack.entries(saga_id)[seen:]] == ["bob"]


def test_a_call_without_a_state_acts_on_whatever_is_there(bench: Make) -> None:
    b, saga_id = stuck(bench)
    calling(b, "resolve", saga_id, "bob")
    calling(b, "resolve", saga_id)
    calling(b, "compensate", saga_id)
    assert b.status(saga_id) == "COMPENSATING"


def test_what_a_state_does_not_allow_is_refused_as_ever(bench: Make) -> None:
    b, saga_id = stuck(bench)
    calling(b, "compensate", saga_id)
    b.run()
    with pytest.raises(Conflict, match="only DEAD_LETTERED and COMPENSATION_FAILED can be retried") as raised:
        calling(b, "retry", saga_id, seq=b.state(saga_id).seq)
    assert type(raised.value) is Conflict


def family(make: Make) -> tuple[Bench, str, str]:
    """A parent whose undoing failed, because that of its second child did."""
    FAIL.update({"close": RuntimeError("no"), "unbook 1": RuntimeError("gone")})
    bench = make(Basketful, Shipment)
    saga_id = bench.start("basketful", {"parcels": 2})
    bench.run()
    child = child_id(saga_id, "shipments", 1)
    assert (bench.status(saga_id), bench.status(child)) == ("COMPENSATION_FAILED", "COMPENSATION_FAILED")
    return bench, saga_id, child


def test_a_parents_children_are_settled_only_with_the_state_that_is_named(bench: Make) -> None:
    b, saga_id, child = family(bench)
    seen, before = b.state(saga_id).seq, b.stack.entries(child)
    calling(b, "resolve", saga_id, "bob")  # himself, and no child
    for seq in (seen, seen + 2):
        with pytest.raises(StateChanged):
            calling(b, "resolve", saga_id, steps=STEPS, seq=seq)
        assert b.stack.entries(child) == before
    calling(b, "resolve", saga_id, steps=STEPS, seq=seen + 1)
    assert [entry["action"] for entry in b.stack.entries(child)[len(before) :]] == ["SagaResolved"]
    assert b.engine.reader.attention(None, 20, None)["sagas"] == []


def test_a_repeated_settlement_touches_no_child_again(bench: Make) -> None:
    b, saga_id, child = family(bench)
    seen = b.state(saga_id).seq
    calling(b, "resolve", saga_id, steps=STEPS, seq=seen)
    before = b.stack.entries(child)
    FAIL["unbook 1"] = RuntimeError("gone again")
    calling(b, "retry", child, "bob")
    b.run()
    after = b.stack.entries(child)
    assert len(after) >= len(before)
    calling(b, "resolve", saga_id, steps=STEPS, seq=seen)
    assert b.stack.entries(child) == after


def test_a_child_that_changes_while_it_is_settled_stays_as_it_is(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its failure was read, and another one has come since."""
    b, saga_id, child = family(bench)
    operate, others = cast("Any", Operations)._operate, ["bob"]

    def overtaken(self: Operations, name: str, of: str, call: Any) -> SagaState:
        if of == child and others:
            calling(b, "retry", child, others.pop())
            b.run()
        return operate(self, name, of, call)

    monkeypatch.setattr(Operations, "_operate", overtaken)
    with pytest.raises(StateChanged, match=f"its child shipment/{child} has changed") as raised:
        calling(b, "resolve", saga_id, steps=STEPS, seq=b.state(saga_id).seq)
    assert raised.value.saga["saga_id"] == saga_id  # the caller may have no right to read the child
    assert "SagaResolved" not in {entry["action"] for entry in b.stack.entries(child)}
    assert b.state(child).attention
