"""Items, which the hot path writes without PynamoDB: they are read again as what they were, and PynamoDB's model, which
writes parts of them, knows the same attributes."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from benchmarks.units import KILOBYTE, item_size
from functions.approval import Approval
from functions.basket import Basket
from functions.checkout import Checkout
from functions.create_zip import CreateZip
from sagas.authoring.definition.definition import definition_of
from sagas.core.ids import types_hash
from sagas.core.states import (
    Attempts,
    FanOut,
    Lease,
    Progress,
    Purge,
    Recovery,
    SagaState,
    SagaStatus,
    StepState,
    StepStatus,
)
from sagas.engine.clock import SystemClock
from sagas.engine.registry import SagaType
from sagas.store.connection import Fenced, Refused
from sagas.store.control.control import ControlItems, progress_of
from sagas.store.control.mapping import item_of, state_of
from sagas.store.journal.entries import ACTIONS, Entry
from sagas.store.journal.journal import Journal, Payloads
from sagas.store.tables import StoreSettings, Tables, tables_for
from sagas.testing.expressions import copied
from tests.store.conftest import STALE_AFTER
from tests.store.states import NOW, contents, new_id, saga, times
from tests.store.test_journal import documents

_SETTINGS = StoreSettings("mapped", "mapped-sagas", "mapped-audit", shards=3, region="eu-central-1")

_FOR_GOOD = 253_402_300_799.0
_owner = SystemClock().new_owner

_names = st.text(min_size=1, max_size=20)
_numbers = st.integers(0, 10**6)
_progress = st.builds(Progress, st.floats(0, 1), st.text(max_size=20), times)
_entries = st.builds(
    Entry,
    saga_id=_names,
    seq=_numbers,
    at=times,
    saga=_names,
    action=st.sampled_from(sorted(ACTIONS)),
    status=_names,
    token=_numbers,
    step=st.none() | _names,
    attempt=st.none() | _numbers,
    actor=st.text(max_size=20),
    correlation_id=st.text(max_size=20),
    trace_id=st.text(max_size=20),
    details=documents,
    payload=st.none() | st.text(max_size=50),
    salt=st.text(max_size=22),
    link=st.just(b"") | st.binary(min_size=32, max_size=32),
)


@pytest.fixture(scope="module")
def tables() -> Tables:
    return tables_for(_SETTINGS)


# Items.


def _as_model(model: Any, item: dict[str, Any]) -> dict[str, Any]:
    """What a model makes of an item that it has read; of binary values JSON, which the item need not have."""
    made: dict[str, Any] = model.from_raw_data(copied(item)).to_dynamodb_dict()
    return {name: {"B": b64decode(value["B"])} if "B" in value else value for name, value in made.items()}


@given(
    content=contents(families=True),
    progress=st.none() | _progress,
    retention=st.sampled_from([0.0, 3600.0]),
)
def test_a_state_is_read_again(
    tables: Tables, content: Callable[[str], SagaState], progress: Progress | None, retention: float
) -> None:
    state = structs.replace(content(new_id()), progress=progress)
    item = item_of(state, replace(_SETTINGS, retention=retention), STALE_AFTER)
    item |= {"progress": progress_of(progress)} if progress else {}
    assert state_of(item) == state
    assert _as_model(tables.control, item) == item


_TEN = (
    *("validate_order", "reserve_stock", "capture_card", "create_label", "print_label"),
    *("hand_over", "send_invoice", "book_revenue", "send_email", "close_order"),
)


@pytest.mark.parametrize("moment", ["running", "settling", "undoing", "over", "purging"])
def test_the_item_of_ten_steps_with_undos_and_a_retention_stays_under_a_kilobyte(moment: str) -> None:
    """Each write of a larger one would cost twice."""
    held, owner = Lease(_owner(), NOW + 60, NOW + 90), saga()
    steps = tuple(
        StepState(name, StepStatus.COMPLETED, Attempts(1), result_seq=2 + at, undo=True) for at, name in enumerate(_TEN)
    )
    with_result = (*steps[:8], structs.replace(steps[8], result=True), steps[9])
    done = structs.replace(
        owner,
        saga="create-report",
        steps=steps,
        seq=11,
        token=10,
        dispatch=10,
        cursor=9,
        digest="d" * 22,
        head=b"h" * 32,
    )
    states = {
        "running": structs.replace(done, status=SagaStatus.RUNNING, lease=held, recovery=Recovery(1)),
        "settling": structs.replace(done, status=SagaStatus.RUNNING, steps=with_result, settling_since=NOW),
        "undoing": structs.replace(done, status=SagaStatus.COMPENSATING, lease=held, cause="failure"),
        "over": structs.replace(done, status=SagaStatus.COMPLETED),
        "purging": structs.replace(
            done,
            status=SagaStatus.COMPLETED,
            lease=Lease(_owner(), _FOR_GOOD, _FOR_GOOD),
            purge=Purge(NOW),
            digest="",
            steps=tuple(structs.replace(step, undo=False) for step in steps),
        ),
    }
    item = item_of(states[moment], replace(_SETTINGS, retention=86_400.0, shards=64), STALE_AFTER)
    assert item_size(item) < KILOBYTE


@pytest.mark.parametrize("saga_class", [Checkout, Approval, Basket, CreateZip])
@pytest.mark.parametrize("settling_since", [0.0, NOW])
def test_the_item_of_each_reference_saga_stays_under_a_kilobyte(saga_class: type[Any], settling_since: float) -> None:
    """While its last step runs, or waits for a release."""
    own = SagaType(definition_of(saga_class))
    steps = tuple(
        structs.replace(
            step,
            status=StepStatus.COMPLETED,
            attempts=Attempts(1),
            result_seq=2 + at,
            fan_out=FanOut(children=2, of=types_hash([step.name])) if step.waits_for == "children" else FanOut(),
        )
        for at, step in enumerate(own.new_steps)
    )
    state = structs.replace(
        saga(),
        saga=own.definition.name,
        version=own.definition.version,
        steps=steps,
        status=SagaStatus.RUNNING,
        lease=None if settling_since else Lease(_owner(), NOW + 60, NOW + 90),
        settling_since=settling_since,
        deadline=own.deadline(NOW),
        digest="d" * 22,
        head=b"h" * 32,
    )
    item = item_of(state, replace(_SETTINGS, retention=86_400.0, shards=64), STALE_AFTER)
    assert item_size(item) < KILOBYTE


@given(entry=_entries)
def test_an_entry_is_read_again(tables: Tables, entry: Entry) -> None:
    item = Journal(tables, Payloads(_SETTINGS)).item(entry)
    journal = Journal(_answering(tables, {"Responses": {"mapped-audit": [item]}}), Payloads(_SETTINGS))
    assert journal.entries("any", [entry.seq]) == {entry.seq: entry}


# Updates.


class _Asked(type(tables_for(_SETTINGS).connection)):
    """A connection that writes down what it is asked for, and gives one answer; without any, it refuses."""

    def __init__(self, answer: dict[str, Any] | None = None) -> None:
        cast("Any", super()).__init__()
        self.requests: list[dict[str, Any]] = []
        self._answer = answer

    def dispatch(self, operation_name: str, operation_kwargs: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(operation_kwargs)
        if operation_name in ("UpdateItem", "TransactWriteItems"):
            raise Refused("not now", {0: None})
        return self._answer or {}


def _answering(tables: Tables, answer: dict[str, Any] | None = None) -> Tables:
    return replace(tables, connection=_Asked(answer))


def _control(tables: Tables) -> tuple[ControlItems, list[dict[str, Any]]]:
    asking = _Asked()
    return ControlItems(replace(tables, connection=asking), _SETTINGS), asking.requests


@given(first=contents(), second=contents())
def test_a_commit_writes_what_differs_and_no_more(
    tables: Tables, first: Callable[[str], SagaState], second: Callable[[str], SagaState]
) -> None:
    """Applied to the item of the one state it makes the item of the other, but for when it is due: within one shard
    that is left alone until the lease is released."""
    control, requests = _control(tables)
    saga_id = new_id()
    before, after = first(saga_id), second(saga_id)
    with pytest.raises(Fenced):
        control.commit(before, after, STALE_AFTER)
    request = requests[0]
    update, values = request["UpdateExpression"], request["ExpressionAttributeValues"]
    old, new = (item_of(state, _SETTINGS, STALE_AFTER) for state in (before, after))
    owners = [item.get("lease_owner") for item in (old, new)]
    if "due" in old and owners[0] and owners[0] == owners[1] and old["open_shard"] == new.get("open_shard"):
        new["due"] = old["due"]
    for name, value in re.findall(r"#(\w+) = (:\w+)", update):
        assert old.get(name) != values[value] or name == "due"
        old[name] = values[value]
    for index, value in re.findall(r"#steps\[(\d)\] = (:\w+)", update):
        assert old["steps"]["L"][int(index)] != values[value]
        old["steps"]["L"][int(index)] = values[value]
    for name in update.partition("REMOVE ")[2].split(", "):
        # What an index sorts by may be stored though ``before`` does not entail it: it is removed all the same.
        stored = name in ("#progress", "#due", "#open_shard")
        assert old.pop(name[1:], None) is not None or stored
    assert old == new
