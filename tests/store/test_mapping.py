"""What is put together by hand for the hot path is what PynamoDB's models would: items, conditions, updates."""

from __future__ import annotations

import json
import re
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
    Cancel,
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
from sagas.store.control.control import ControlItems
from sagas.store.control.control_marks import progress_of
from sagas.store.control.mapping import item_of, state_of
from sagas.store.journal.entries import ACTIONS, Entry
from sagas.store.journal.journal import Journal, Payloads
from sagas.store.tables import StoreSettings, Tables, tables_for
from tests.store import by_models
from tests.store.conftest import STALE_AFTER
from tests.store.states import NOW, contents, lease, new_id, saga, times
from tests.store.test_journal import documents

_SETTINGS = StoreSettings("mapped-sagas", "mapped-audit", shards=3, region="eu-central-1")

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


@given(content=contents(), retention=st.sampled_from([0.0, 3600.0]))
def test_a_state_is_the_item_that_the_model_makes_of_it(
    tables: Tables, content: Callable[[str], SagaState], retention: float
) -> None:
    state, kept = content(new_id()), replace(_SETTINGS, retention=retention)
    assert item_of(state, kept, STALE_AFTER) == by_models.control_item(tables, state, kept, STALE_AFTER)


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


@given(content=contents(), progress=st.none() | _progress)
def test_an_item_is_the_state_that_the_model_reads_in_it(
    tables: Tables, content: Callable[[str], SagaState], progress: Progress | None
) -> None:
    state = structs.replace(content(new_id()), progress=progress)
    item = by_models.control_item(tables, state, _SETTINGS, STALE_AFTER)
    item |= {"progress": progress_of(progress)} if progress else {}
    assert state_of(item) == by_models.control_state(tables, item) == state


@given(content=contents(families=True))
def test_what_is_stored_of_parents_and_children_is_read_again(content: Callable[[str], SagaState]) -> None:
    state = content(new_id())
    assert state_of(item_of(state, _SETTINGS, STALE_AFTER)) == state


@given(entry=_entries)
def test_an_entry_is_the_item_that_the_model_makes_of_it(tables: Tables, entry: Entry) -> None:
    journal = Journal(tables, Payloads(_SETTINGS))
    assert journal.item(entry) == by_models.entry_item(tables, entry)


@given(entry=_entries)
def test_an_item_is_the_entry_that_the_model_reads_in_it(tables: Tables, entry: Entry) -> None:
    item = by_models.entry_item(tables, entry)
    journal = Journal(_answering(tables, {"Responses": {"mapped-audit": [item]}}), Payloads(_SETTINGS))
    assert journal.entries("any", [entry.seq]) == {entry.seq: by_models.entry_of(tables, item)} == {entry.seq: entry}


# Conditions and updates.


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


def _spelt_out(expression: str, names: dict[str, str], values: dict[str, Any]) -> str:
    """An expression without placeholders."""
    known = names | {name: json.dumps(value, sort_keys=True, default=repr) for name, value in values.items()}
    text = re.sub(r"[#:]\w+", lambda found: known[found[0]], expression)
    return re.sub(r"\s*([(),])\s*", r"\1", text)


def _split(text: str, mark: str) -> list[str]:
    """The parts of an expression between marks that are in no parentheses."""
    parts, depth, rest = [""], 0, text
    while rest:
        if not depth and rest.startswith(mark):
            parts.append("")
            rest = rest[len(mark) :]
            continue
        depth += {"(": 1, ")": -1}.get(rest[0], 0)
        parts[-1] += rest[0]
        rest = rest[1:]
    return parts


def _terms(text: str) -> set[str]:
    """What a condition asks for, whatever the order and the parentheses around."""
    text = re.sub(r"\)\s*(AND|OR)\b", r") \1", re.sub(r"\b(AND|OR)\s*\(", r"\1 (", text))
    parts = _split(text, " AND ")
    if len(parts) > 1:
        return set[str]().union(*map(_terms, parts))
    return _terms(text[1:-1]) if text.startswith("(") else {text}


def _asked(request: dict[str, Any]) -> tuple[set[str], set[str]]:
    names, values = request["ExpressionAttributeNames"], request["ExpressionAttributeValues"]
    condition, update = request["ConditionExpression"], request["UpdateExpression"]
    mentioned = set(re.findall(r"[#:]\w+", f"{condition} {update}"))
    assert mentioned == {*names, *values}
    changes = set(_split(_spelt_out(update, names, values), ","))
    return _terms(_spelt_out(condition, names, values)), changes


def _of_models(condition: Any, update: Any = None) -> tuple[set[str], set[str]]:
    names: dict[str, str] = {}
    values: dict[str, Any] = {}
    texts = [part.serialize(names, values) if part is not None else "" for part in (condition, update)]
    placeholders = {placeholder: name for name, placeholder in names.items()}
    asked, changes = (_spelt_out(text, placeholders, values) for text in texts)
    return _terms(asked), set(_split(changes, ","))


@pytest.mark.parametrize("index", [0, 7])
@pytest.mark.parametrize("name", [None, "book"])
@pytest.mark.parametrize("undo", [False, True])
def test_a_claim_asks_and_changes_what_the_models_would(
    tables: Tables, index: int, name: str | None, undo: bool
) -> None:
    control, requests = _control(tables)
    taken = lease()
    claim = control.claim_undo if undo else control.claim_step
    assert claim("any", index, 3, taken, NOW, name) is None
    models = by_models.claim_undo if undo else by_models.claim_step
    assert _asked(requests[0]) == _of_models(*models(tables, index, 3, taken, NOW, name))
    assert requests[0]["ReturnValues"] == "ALL_NEW"


@pytest.mark.parametrize("held", [False, True])
def test_a_takeover_asks_what_the_models_would(tables: Tables, held: bool) -> None:
    control, requests = _control(tables)
    before = saga(SagaStatus.RUNNING, lease=lease() if held else None, token=4)
    assert not control.claim(before, structs.replace(before, lease=lease(), token=5), STALE_AFTER)
    assert _asked(requests[0])[0] == _of_models(by_models.claim(tables, before))[0]


@pytest.mark.parametrize("status", SagaStatus)
@pytest.mark.parametrize("cancelled", [0.0, NOW])
@pytest.mark.parametrize("undoing", [False, True])
def test_a_commit_asks_what_the_models_would(
    tables: Tables, status: SagaStatus, cancelled: float, undoing: bool
) -> None:
    control, requests = _control(tables)
    before = saga(status, lease=lease(), token=4, cancel=Cancel(cancelled))
    turned = SagaStatus.COMPENSATING if undoing else SagaStatus.RUNNING
    after = structs.replace(before, seq=before.seq + 1, status=turned)
    with pytest.raises(Fenced):
        control.commit(before, after, STALE_AFTER)
    assert _asked(requests[0])[0] == _of_models(by_models.commit(tables, before, after))[0]
    assert "ReturnValues" not in requests[0]


def test_a_heartbeat_asks_and_changes_what_the_models_would(tables: Tables) -> None:
    control, requests = _control(tables)
    held = lease()
    state = saga(SagaStatus.RUNNING, lease=held, token=4)
    assert not control.extend(state, NOW + 60)
    assert _asked(requests[0]) == _of_models(*by_models.extend(tables, state, held, NOW + 60))


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
    _asked(request)
    update, values = request["UpdateExpression"], request["ExpressionAttributeValues"]
    old, new = (by_models.control_item(tables, state, _SETTINGS, STALE_AFTER) for state in (before, after))
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
