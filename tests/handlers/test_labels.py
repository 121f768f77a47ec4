"""Labels and idempotency keys: what lists show of sagas, made of their first entries."""

# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false
# A class of this module takes the type that a test gives it.

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from sagas import Context, Exhausted, Retry, Saga, Secret, children, step
from sagas.authoring.definition.definition import definition_of
from sagas.authoring.redaction import REQUEST
from sagas.core.ids import child_id
from sagas.engine.start.search_keys import label_of
from sagas.store.connection import SharedConnection
from tests.handlers.conftest import Make, Site
from tests.support.sagas import Idle

FIND_BY = {"order": "$.order.id", "customer": "$.customer"}


@dataclass(frozen=True)
class Order:
    id: str


@dataclass(frozen=True)
class Purchase:
    order: Order
    customer: str
    note: str = ""


@dataclass(frozen=True)
class HidesOrder:
    order: Secret[Order]
    customer: str
    note: str = ""


@dataclass(frozen=True)
class HidesNote:
    order: Order
    customer: str
    note: Secret[str] = ""


class Buy(Saga[Purchase], name="buy", find_by=FIND_BY):
    @step(retry=Retry.constant(max_retries=0, delay=1, on_exhausted=Exhausted.DEAD_LETTER))
    def pay(self, request: Purchase) -> None:
        raise RuntimeError("no")


class Plain(Idle[Purchase], name="plain"):
    """It has no search keys."""


class Basket(Saga[Purchase], name="basket"):
    """Its child fails."""

    @children(Buy)
    def parts(self, request: Purchase, ctx: Context) -> list[Purchase]:
        return [request]


def body(order: str = "o-17", customer: str = "c-5") -> dict[str, Any]:
    return {"order": {"id": order}, "customer": customer}


def started(s: Site, key: str | None = None, name: str = "buy", **values: str) -> str:
    s.clock.advance(1)
    answer = s.call("POST", f"/sagas/{name}", body(**values), key=key)
    assert answer.status == 202, answer.body
    return answer.body["saga_id"]


def rows(s: Site, path: str = "/sagas", **query: str) -> list[tuple[Any, Any]]:
    return [(saga["label"], saga["key"]) for saga in s.call("GET", path, **query).body["sagas"]]


ABOUT = "order o-17 · customer c-5"


def test_each_list_has_them(site: Make) -> None:
    s = site(Buy, Plain)
    started(s, "pay-17")
    started(s)
    started(s, name="plain")
    both = [(ABOUT, None), (ABOUT, "pay-17")]
    assert rows(s) == [(None, None), *both]
    assert rows(s, type="buy", status="PENDING") == both
    assert rows(s, customer="c-5") == both
    assert rows(s, idempotency_key="pay-17") == both[1:]
    s.run()
    assert sorted(rows(s, "/attention"), key=repr) == sorted(both, key=repr)
    assert rows(s, status="COMPLETED") == [(None, None)]
    saga = s.call("GET", "/sagas", idempotency_key="pay-17").body["sagas"][0]
    shown = s.call("GET", f"/sagas/buy/{saga['saga_id']}").body
    assert (shown["label"], shown["key"]) == both[1]


def test_a_page_reads_the_first_entries_at_once(site: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    s = site(Buy)
    for number in range(12):
        started(s, f"k-{number}")
    asked = list[tuple[str, dict[str, Any]]]()
    dispatch = SharedConnection.dispatch

    def noted(connection: SharedConnection, operation_name: str, operation_kwargs: dict[str, Any]) -> dict[str, Any]:
        asked.append((operation_name, operation_kwargs))
        return dispatch(connection, operation_name, operation_kwargs)

    monkeypatch.setattr(SharedConnection, "dispatch", noted)
    page = s.engine.reader.list(["buy"], None, 12, None)["sagas"]
    assert {saga["label"] for saga in page} == {ABOUT}
    reads = [request["RequestItems"] for operation, request in asked if operation == "BatchGetItem"]
    assert [len(keys["Keys"]) for of_table in reads for keys in of_table.values()] == [12, 12]
    assert "#details" in reads[1][s.stack.audit_table]["ProjectionExpression"], "not the requests"


def test_what_the_first_entry_keeps(site: Make) -> None:
    """What is stored outlives the code that stored it."""
    s = site(Buy, Plain)
    ids = (
        started(s, "pay-17", order="o" * 129),
        started(s, customer="c" * 129, order="o" * 129),
        started(s, name="plain"),
    )
    kept = [s.engine.journal.entries(saga_id, [1])[1].details for saga_id in ids]
    of_lists = [{name: each[name] for name in ("found_by", "label", "key") if name in each} for each in kept]
    assert of_lists == [
        {"found_by": FIND_BY, "label": "customer c-5", "key": "pay-17"},
        {"found_by": FIND_BY},
        {},
    ]


def test_control_items_have_none(site: Make) -> None:
    s = site(Buy)
    saga_id = started(s, "pay-17", order="o-secretly-unique")
    for _ in range(2):
        item = s.stack.control(saga_id)
        assert not {"label", "key"} & item.keys()
        assert "o-secretly-unique" not in json.dumps(item, default=repr)
        assert "pay-17" not in json.dumps(item, default=repr)
        s.run()


def test_a_purge_takes_them(site: Make) -> None:
    s = site(Buy)
    saga_id = started(s, "pay-17")
    s.run()
    assert s.call("POST", f"/sagas/buy/{saga_id}/compensate", {"reason": "no"}).status == 202
    s.run()
    s.clock.advance(100)
    purged = s.call("POST", f"/sagas/buy/{saga_id}/purge")
    assert purged.status == 200, purged.body
    s.clock.advance(100)
    assert rows(s, idempotency_key="pay-17") == [(None, None)]
    shown = s.call("GET", f"/sagas/buy/{saga_id}").body
    assert (shown["label"], shown["key"]) == (None, None)
    assert "o-17" not in json.dumps(s.tables()[1], default=repr)
    assert "pay-17" not in json.dumps(s.tables()[1], default=repr)


@pytest.mark.parametrize(
    ("values", "label"),
    [
        ({"order": "o-17", "customer": "c-5"}, ABOUT),
        ({"order": "o" * 129, "customer": "c-5"}, "customer c-5"),
        ({"order": "é" * 64, "customer": "c-5"}, f"order {'é' * 64} · customer c-5"),
        ({"order": "é" * 65, "customer": "c-5"}, "customer c-5"),
        ({"order": "o" * 128, "customer": "c-5"}, f"order {'o' * 93}…"),
        ({"order": "o" * 129}, ""),
        ({"order": "\ud800\n"}, "order \ud800\n"),
        ({}, ""),
    ],
)
def test_it_leaves_out_long_values_and_is_cut(values: dict[str, str], label: str) -> None:
    assert label_of(values) == label
    assert len(label) <= 100


def test_of_a_key_the_beginning_is_kept(site: Make) -> None:
    s = site(Buy)
    key = "k" * 128 + "end"
    saga_id = started(s, key)
    assert rows(s, idempotency_key=key) == [(ABOUT, "k" * 128)]
    assert s.call("GET", f"/sagas/buy/{saga_id}").body["key"] == "k" * 128


def release(type_: Any, find_by: dict[str, str], redact: tuple[str, ...] = ()) -> Any:
    class Later(Saga[type_], name="buy", find_by=find_by, redact=redact):  # pyright: ignore[reportInvalidTypeForm]
        @step
        def pay(self, request: type_) -> None: ...  # pyright: ignore[reportInvalidTypeForm]

    return Later


@pytest.mark.parametrize(
    ("later", "label"),
    [
        (release(Purchase, FIND_BY), ABOUT),
        (release(Purchase, {}), ABOUT),
        (release(HidesNote, {"customer": "$.customer"}), ABOUT),
        (release(Purchase, {"customer": "$.customer"}, ("$.request.order.id",)), None),
        (release(HidesOrder, {"customer": "$.customer"}), None),
        (release(Purchase, {}, ("$.request",)), None),
        (release(Purchase, {"order": "$.note", "customer": "$.customer"}, ("$.request.order",)), None),
    ],
)
def test_a_release_that_hides_one_of_its_values_hides_it(site: Make, later: Any, label: str | None) -> None:
    s = site(Buy)
    saga_id = started(s, "pay-17")
    s.run()
    reader = s.deploy(later).reader
    [listed] = reader.list(["buy"], None, 10, None)["sagas"]
    [needs] = reader.attention(None, 10, None)["sagas"]
    first = reader.audit("buy", saga_id, 1, 0)[0][0]
    shown = reader.show("buy", saga_id)
    seen = listed["label"], needs["label"], shown["label"], first["details"].get("label")
    assert seen == (label,) * 4
    assert listed["key"] == "pay-17"


def test_no_declared_key_is_hidden_whatever_stands_next_to_it() -> None:
    @dataclass(frozen=True)
    class Pair:
        items: tuple[Secret[str], str]

    class Paired(Idle[Pair], name="paired", find_by={"second": "$.items[1]"}):
        """Of its two items, one is hidden."""

    redaction = definition_of(Paired).redaction
    assert [redaction.hides(REQUEST, ("items", f"[{index}]")) for index in (0, 1)] == [True, False]


def test_children_are_named_by_them(site: Make) -> None:
    s = site(Basket, Buy)
    saga_id = started(s, name="basket")
    s.run()
    assert rows(s, parent=saga_id) == [(ABOUT, None)]
    child = child_id(saga_id, "parts", 0)
    s.call("POST", f"/sagas/buy/{child}/compensate", {"reason": "no"})
    s.run()
    path = f"/sagas/basket/{saga_id}"
    [failure] = s.call("GET", path).body["steps"][0]["children"]["failures"]
    assert (failure["type"], failure["label"], failure["saga_id"]) == ("buy", ABOUT, child)
    # Callers without the right to read sagas do not learn it.
    view = s.engine.reader.show("basket", saga_id, payloads=False)
    assert [each["label"] for of in view["steps"] for each in of.get("children", {}).get("failures", ())] == [None]


def test_a_type_names_its_search_keys(site: Make) -> None:
    s = site(Buy, Plain)
    assert s.call("GET", "/types/buy").body["find_by"] == FIND_BY
    assert s.call("GET", "/types/plain").body["find_by"] == {}
