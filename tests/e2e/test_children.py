"""Very many children, deployed: all end, all are undone with their parent, whichever workers die meanwhile."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from typing import Any

import pytest

from benchmarks.units import KILOBYTE, item_size
from demo.workers import workers
from sagas.errors import Conflict
from tests.e2e.api import Api
from tests.e2e.conftest import project_in
from tests.e2e.convoys.sagas import PRICE, SKUS
from tests.e2e.stack import Running, assembled, launched, poll
from tests.soak.books import Books

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.embedded("it kills its functions' processes"),
]

_FULL = os.environ.get("SAGAS_PROOF") == "full"
_CANCELLED, _MANY = (200, 1_000) if _FULL else (30, 40)
_KILLS = 20 if _FULL else 5
_STOCK = 1_000
_OVER = ("COMPLETED", "COMPENSATED", "CANCELLED", "COMPENSATION_FAILED")


class Port:
    """The running stack, and the books of what its sagas carry.

    Args:
        running: the stack.
    """

    def __init__(self, running: Running) -> None:
        self.running = running
        self.api = Api(running)
        self._dynamodb = running.client("dynamodb")
        self.kills = 0

    def fill(self) -> None:
        """Put so many of each SKU in stock, as many as there were."""
        for number in range(SKUS):
            item = {"sku": {"S": f"sku-{number}"}, "available": {"N": str(_STOCK)}}
            self._dynamodb.put_item(TableName=self.running.description["outputs"]["StockTable"], Item=item)

    def books(self) -> Books:
        return Books(*(tuple(self._items(name)) for name in ("Stock", "Ledger")))

    def available(self) -> int:
        """Of all SKUs."""
        return sum(int(item["available"]["N"]) for item in self._items("Stock") if "available" in item)

    def _items(self, name: str) -> Iterator[dict[str, Any]]:
        table = self.running.description["outputs"][f"{name}Table"]
        for page in self._dynamodb.get_paginator("scan").paginate(TableName=table, ConsistentRead=True):
            yield from page["Items"]

    def children(self, saga: dict[str, Any]) -> list[dict[str, Any]]:
        """All of them, as they are listed."""
        client, found, cursor = self.running.saga_client(), list[Any](), None
        while True:
            page = client.list(parent=saga["saga_id"], limit=100, cursor=cursor)
            found += page["sagas"]
            cursor = page["cursor"]
            if cursor is None:
                return found

    def size(self, saga: dict[str, Any]) -> int:
        """Of the saga's control item, in bytes."""
        table = self.running.description["tables"]["sagas"]
        found = self._dynamodb.get_item(TableName=table, Key={"saga_id": {"S": saga["saga_id"]}}, ConsistentRead=True)
        return item_size(found["Item"])

    def until(self, what: str, saga: dict[str, Any], reached: Callable[[dict[str, Any]], bool], deadline: float) -> Any:
        """Wait for something of a saga. The supervisor looks oftener than it would, for the sake of time."""
        client, ticked = self.running.saga_client(), time.monotonic()

        def look() -> dict[str, Any] | None:
            nonlocal ticked
            if time.monotonic() - ticked > 5:
                with suppress(Exception):  # it may have been killed
                    client.recover()
                ticked = time.monotonic()
            now = self.api.show(saga)
            return now if reached(now) else None

        return poll(what, look, deadline)

    def ended(self, saga: dict[str, Any], deadline: float) -> dict[str, Any]:
        """Wait until a saga is over."""
        return self.until("the convoy to be over", saga, lambda now: now["status"] in _OVER, deadline)

    @contextmanager
    def killing(self, most: int) -> Generator[None]:
        """Meanwhile workers of the sagas' functions, and of those that start and join children, die at random."""
        over, chance = threading.Event(), random.Random(7)  # noqa: S311 - who dies is no secret

        def kill() -> None:
            group = self.running.description["pid"]
            while self.kills < most and not over.wait(chance.uniform(0.1, 0.6)):
                alive = [pid for pid, name in workers(group) if any(word in name for word in _MORTAL)]
                if alive:
                    with suppress(ProcessLookupError):
                        os.kill(chance.choice(alive), signal.SIGKILL)
                        self.kills += 1

        self.kills = 0
        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        try:
            yield
        finally:
            over.set()
            killer.join(timeout=30)


_MORTAL = ("carried", "convoy", "Now", "Bulk", "Supervisor")
"""Words in the names of the functions whose workers die."""


def counts_of(convoy: dict[str, Any]) -> dict[str, Any]:
    """What the parent tells of its children."""
    return convoy["steps"][1].get("children") or {"completed": 0, "finished": 0.0}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Generator[Port]:
    """Their stack, with its goods in stock."""
    with launched(
        project_in(tmp_path_factory.mktemp("convoys")), assembled("python -m tests.e2e.convoys.app")
    ) as running:
        made = Port(running)
        made.fill()
        yield made


def test_a_parent_cancelled_while_its_children_run_and_workers_die_leaves_nothing(port: Port) -> None:
    """All are over, what took effect was undone once, and none is left running."""
    saga = port.api.start("convoy", {"crates": _CANCELLED})
    with port.killing(_KILLS):
        port.until("some to be over", saga, lambda now: counts_of(now)["completed"] >= _CANCELLED // 6, 300)
        status, body, _ = port.api.call("DELETE", f"/sagas/convoy/{saga['saga_id']}")
        assert status == 202, body
        before = counts_of(port.api.show(saga))
        shown = port.ended(saga, 900 if _FULL else 240)
    assert before["finished"] < 1, "they were running still"
    assert port.kills >= _KILLS // 2, port.kills
    assert shown["status"] == "CANCELLED"
    ends = Counter(child["status"] for child in port.children(saga))
    assert set(ends) <= {"COMPENSATED", "CANCELLED"}, ends
    assert ends["COMPENSATED"] > 0
    books = port.books()
    assert (books.held(), books.paid(), port.available()) == ({}, {}, SKUS * _STOCK)
    refunds = Counter(entry["refunds"]["S"] for entry in books.ledger if "refunds" in entry)
    captures = {entry["payment_key"]["S"] for entry in books.ledger if entry["kind"]["S"] == "capture"}
    assert refunds == dict.fromkeys(captures, 1)
    assert f"{saga['saga_id']}:toll" in captures
    assert len(captures) > _CANCELLED // 6
    print(f"{_CANCELLED} children, {port.kills} workers killed: {dict(ends)}, {len(captures)} payments given back")


def test_very_many_all_end_and_their_parent_once(port: Port) -> None:
    before = port.available()
    saga = port.api.start("convoy", {"crates": _MANY})
    began = time.monotonic()
    shown = port.ended(saga, 1_200 if _FULL else 180)
    seconds = time.monotonic() - began
    assert (shown["status"], shown["result"]) == ("COMPLETED", _MANY)
    assert port.api.actions(saga).count("ChildrenEnded") == 1
    children = port.children(saga)
    assert Counter(child["status"] for child in children) == {"COMPLETED": _MANY}
    assert [child["parent"]["position"] for child in children] == list(range(_MANY))
    assert before - port.available() == _MANY
    paid = port.books().paid()
    assert sum(paid.values(), Decimal(0)) == 2 * _MANY * PRICE
    assert paid.keys() == {f"{saga['saga_id']}:toll", *(f"{child['saga_id']}:charge" for child in children)}
    assert port.size(saga) < KILOBYTE
    with pytest.raises(Conflict):
        port.running.saga_client().cancel("convoy", saga["saga_id"])
    print(f"{_MANY} children in {seconds:.0f} s; the parent's control item has {port.size(saga)} bytes")
