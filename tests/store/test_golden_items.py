"""What control items keep of each value of a state, to the byte: what is stored outlives the code that stored it."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import fields, replace

from sagas.core import states as st
from sagas.core.ids import types_hash
from sagas.store.control.control import progress_of
from sagas.store.control.mapping import item_of, state_of
from sagas.store.tables import StoreSettings

_FILE = Path(__file__).with_name("golden_items.json")
_SETTINGS = StoreSettings("golden", "sagas", "audit", shards=3, retention=86_400.0)
_AT = 1_700_000_000.125
_ID = "018bcfe5-6800-7000-8000-000000000000"
_STEPS: dict[str, st.StepState] = {
    "claimed": st.StepState("pay", st.StepStatus.RUNNING, st.Attempts(3, 2), st.Attempts(2, 1)),
    "completed": st.StepState("pay", st.StepStatus.COMPLETED, result_seq=4, undo=True, pivot=True, result=True),
    "in doubt": st.StepState("pay", st.StepStatus.RETRYING, outcome_unknown=True, postponed=True),
    "signalled": st.StepState("pay", waits_for="signal", round=2, signalled=True, timed_out=True),
    "of children": st.StepState(
        "pay", waits_for="children", fan_out=st.FanOut(9, 5, 2, 1, True, 3, types_hash(["trip"]))
    ),
}
VALUES: dict[str, dict[str, Any]] = {
    "new": {},
    "version and type": {"saga": "flight", "version": "7"},
    "correlation id": {"correlation_id": "order-7"},
    "long correlation id": {"correlation_id": "x" * 37},
    "counters": {"cursor": 1, "seq": 5, "token": 4, "dispatch": 3},
    "leased": {"status": st.SagaStatus.RUNNING, "lease": st.Lease("nonce", _AT, _AT + 1)},
    "times": {"not_before": _AT + 1, "lost_until": _AT + 2, "deadline": _AT + 9, "updated_at": _AT + 5},
    "long wait": {"status": st.SagaStatus.WAITING, "not_before": _AT + 3600},
    "paused": {"status": st.SagaStatus.RUNNING, "paused": True},
    "paused undo": {"status": st.SagaStatus.COMPENSATING, "cause": "cancel", "paused": True},
    "cancel": {"cancel": st.Cancel(_AT, "ann", "no need")},
    "journaled cancel": {"cancel": st.Cancel(_AT, journaled=True)},
    "flags": {"rejected": True, "failed": True, "overdue": True, "retrying_undos": True},
    "recovery": {"recovery": st.Recovery(3, True), "unanswered": 2, "attention": _AT},
    "dead": {"status": st.SagaStatus.DEAD_LETTERED, "dead": st.DeadMessage(7, 3, "m-1"), "attention": _AT},
    "errors": {"error_seq": 3, "error_type": "Boom", "resolution_seq": 4, "unreadable": "result of pay: not a number"},
    "proofs": {"head": b"h" * 32, "digest": "d" * 21 + "A"},
    "head": {"head": b"h" * 32},
    "ended": {"status": st.SagaStatus.COMPENSATED, "ended_at": _AT},
    "purge": {"purge": st.Purge(_AT)},
    "requested purge": {"purge": st.Purge(_AT, "ann", "\ud800 asked")},
    "polling": {"status": st.SagaStatus.WAITING, "polling": st.Polling(_AT, 2, "bank \ud800", 60.0, _AT, "m")},
    "first poll": {"status": st.SagaStatus.WAITING, "polling": st.Polling(_AT)},
    "unread": {"status": st.SagaStatus.RUNNING, "unread": st.Unread(_AT, "no_right", "s3:GetObject \ud800", True, "k")},
    "first unread": {"status": st.SagaStatus.RUNNING, "unread": st.Unread(_AT, "no_right", "s3:GetObject")},
    "progress": {"status": st.SagaStatus.RUNNING, "progress": st.Progress(0.5, "half \ud800", _AT)},
    "late progress": {"status": st.SagaStatus.RUNNING, "progress": st.Progress(1, "", _AT, True, "m")},
    "child": {"parent": st.Parent("p", "trip", "pay", 0)},
    "later child": {"parent": st.Parent("p", "trip", "pay", 3, 2, 4)},
    "order": {"status": st.SagaStatus.COMPLETED, "order": st.Order(2), "ended_at": _AT},
    "begun order": {"status": st.SagaStatus.COMPENSATING, "order": st.Order(2, open=False)},
    "settling": {"status": st.SagaStatus.RUNNING, "settling_since": 1_700_000_000.0, "attention": _AT},
} | {f"step {name}": {"steps": (step, st.StepState("ship"))} for name, step in _STEPS.items()}
SHORTENED = {"long correlation id", "requested purge", "polling", "unread", "progress"}
"""What is stored of them is not all: a long text, or one that no UTF-8 has."""


def _state(name: str) -> st.SagaState:
    steps = (st.StepState("pay"), st.StepState("ship"))
    plain = st.SagaState(_ID, "trip", "1", steps, correlation_id=_ID, created_at=_AT, updated_at=_AT)
    return replace(plain, **VALUES[name])


def _item(name: str) -> dict[str, Any]:
    state = _state(name)
    progress = {"progress": progress_of(state.progress)} if state.progress else {}
    return item_of(state, _SETTINGS, 30.0) | progress


def _shown(name: str) -> str:
    """An item as its line of the file has it."""
    return json.dumps(_item(name), sort_keys=True, default=lambda raw: base64.b64encode(raw).decode())


@pytest.mark.parametrize("name", VALUES)
def test_a_state_is_stored_like_this(name: str) -> None:
    golden = json.loads(_FILE.read_text(encoding="utf-8"))
    line = _shown(name)
    assert golden.get(name) == json.loads(line), (
        f"add the lines of new states to {_FILE.name}; the others must not change:\n{json.dumps(name)}: {line},"
    )


def test_the_file_has_no_other_states() -> None:
    assert list(json.loads(_FILE.read_text(encoding="utf-8"))) == list(VALUES)


@pytest.mark.parametrize("name", [name for name in VALUES if name not in SHORTENED])
def test_what_is_stored_is_read_again(name: str) -> None:
    assert state_of(_item(name)) == _state(name)


_RECORDS = (
    *(st.SagaState, st.StepState, st.Attempts, st.FanOut, st.Lease, st.DeadMessage, st.Progress, st.Polling),
    *(st.Unread, st.Purge, st.Parent, st.Order, st.Cancel, st.Recovery),
)


@pytest.mark.parametrize("record", _RECORDS)
def test_each_field_of_a_state_is_here(record: Any) -> None:
    """With another value than its default, so that the file has its attribute."""
    found = [made for name in VALUES for made in _records_in(_state(name)) if type(made) is record]
    for field in fields(record):
        assert any(getattr(made, field.name) != field.default for made in found), (
            f"add a state with another {record.__name__}.{field.name} to VALUES in {Path(__file__).name}"
        )


def _records_in(record: Any) -> list[Any]:
    """A record, and the records in it."""
    values = [getattr(record, field.name) for field in fields(record)]
    inner = [value for value in (*values, *getattr(record, "steps", ())) if isinstance(value, Struct)]
    return [record, *(found for value in inner for found in _records_in(value))]


def test_each_record_of_a_state_is_checked() -> None:
    assert {type(record) for name in VALUES for record in _records_in(_state(name))} == set(_RECORDS)
