"""The tables of many sagas, restored to slightly different times: they fit together again, in bounded memory."""

from __future__ import annotations

import itertools
import resource
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from sagas.aws import PATIENT
from sagas.cli.main import app
from sagas.core.ids import child_id
from sagas.core.text import iso
from sagas.engine.clock import uuid7
from sagas.store.connection import SharedConnection
from sagas.store.restored import Trimmed, trim_audit, trim_joins
from sagas.testing.expressions import plain
from sagas.testing.tables import Key, keys_of
from tests.engine.test_children import Basketful, Shipment
from tests.engine.test_disaster import live
from tests.support.aws import REGION, HandmadeStack, client, create_joins_table, create_tables
from tests.support.bench import Bench
from tests.support.databases import dynamodb_local
from tests.support.dynamodb import Tables, aws
from tests.support.sagas import Booked

Item = dict[str, Any]
Copy = Mapping[str, Mapping[Key, Item]]
"""Items by their keys, of each table."""
TABLES = ("sagas", "audit", "joins")
LARGE = pytest.mark.proof
_numbers = itertools.count()


def key_of(table: str, item: Item) -> Key:
    """The key of an item of that table, or of one whose name ends so."""
    return tuple(plain(item[name])[1] for name in keys_of(f"-{table}"))


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """An item with other ids."""
    if isinstance(value, dict):
        return {name: renamed(one, names) for name, one in cast("Item", value).items()}
    if isinstance(value, list):
        return [renamed(one, names) for one in cast("list[Any]", value)]
    for old, new in names.items() if isinstance(value, str) else ():
        value = value.replace(old, new)
    return value


class Story:
    """A saga that ran to its end, with a copy of the tables before its start and after each message.

    Args:
        b: where it runs.
        name: of its type.
        request: its own.
        children: how many it has.
    """

    def __init__(self, b: Bench, name: str, request: Any = None, children: int = 0) -> None:
        self.saga_id, self.children = b.start(name, request), children
        self._ids = tuple(self.named(self.saga_id))
        self.copies: list[Copy] = [{table: {} for table in TABLES}, self._copy(b)]
        while self._step(b):
            self.copies.append(self._copy(b))
        assert b.status(self.saga_id) == "COMPLETED"

    def named(self, saga_id: str) -> dict[str, str]:
        """The ids of saga and children if the saga had that id, by those that they have."""
        children = range(self.children)
        own, other = (
            [one, *(child_id(one, "shipments", position) for position in children)] for one in (self.saga_id, saga_id)
        )
        return dict(zip(own, other, strict=True))

    @staticmethod
    def _step(b: Bench) -> bool:
        b.clock.advance(1)
        return b.end_waits() or any(b.deliver(saga, step) is not None for saga, step in b.stack.steps())

    def _copy(self, b: Bench) -> Copy:
        names = zip(TABLES, (b.stack.sagas_table, b.stack.audit_table, b.stack.joins_table), strict=True)
        found = {table: b.stack.dynamodb.scan(TableName=name, ConsistentRead=True)["Items"] for table, name in names}
        return {
            table: {key: item for item in items if (key := key_of(table, item))[0].startswith(self._ids)}
            for table, items in found.items()
        }


@dataclass
class Crowd:
    """Copies of sagas: in the table of sagas as they were at a time, in the others as they were later.

    Most ended long ago. Some were at work around that time, and one in ten of these has children.

    Args:
        alone: a saga without children.
        together: one with children.
        time: to which the table of sagas is restored.
        count: how many sagas there are, without children.
        every: one in so many was at work.
    """

    alone: Story
    together: Story
    time: float
    count: int
    every: int
    written: Counter[str] = field(default_factory=Counter[str])
    """Items by table."""
    late: dict[str, set[Key]] = field(default_factory=lambda: {table: set[Key]() for table in TABLES})
    """Entries and ends of children that the table of sagas does not know of."""
    counts: Counter[str] = field(default_factory=Counter[str])
    """What the joins counted at that time."""
    at_work: list[str] = field(default_factory=list[str])
    """The sagas that were at work then, or are over since a moment."""

    def items(self) -> Iterator[tuple[str, Item]]:
        """Each item, and of which table."""
        for table, item in self._items():
            self.written[table] += 1
            yield table, item

    def _items(self) -> Iterator[tuple[str, Item]]:
        random, ended = Random(self.count), self.alone.copies[-1]  # noqa: S311 - it makes no secret
        old = iso(self.time - 2 * 86_400)
        for number in range(self.count):
            saga_id = uuid7(self.time, number.to_bytes(10, "big"))
            if number % self.every:
                own = {"saga_id": {"S": saga_id}}
                yield from (("sagas", item | own) for item in ended["sagas"].values())
                yield from (("audit", item | own | {"at": {"S": old}}) for item in ended["audit"].values())
                continue
            story = self.alone if number % (10 * self.every) else self.together
            then, later = sorted(random.choices(range(len(story.copies)), k=2))
            before, after, names = story.copies[then], story.copies[later], story.named(saga_id)
            self.at_work += [saga_id] * bool(then)
            for table, items in (("sagas", before["sagas"]), ("audit", after["audit"]), ("joins", after["joins"])):
                yield from ((table, renamed(item, names)) for item in items.values())
            for table in ("audit", "joins"):
                late = (item for key, item in after[table].items() if key not in before[table])
                keys = (key_of(table, renamed(item, names)) for item in late)
                self.late[table].update(key for key in keys if not str(key[1]).startswith("sum#"))
            self.counts += counted(before["joins"].values())


def counted(joins: Iterable[Item]) -> Counter[str]:
    """What the counters among these items come to."""
    counts = Counter[str]()
    for item in joins:
        counts.update({name: int(value["N"]) for name, value in item.items() if "_" in name})
    return counts


def crowd(count: int, every: int) -> tuple[Crowd, Bench]:
    """As many sagas, one in so many at work, and where their originals ran."""
    b = Bench(stack=HandmadeStack(Booked, Basketful, Shipment, prefix=f"crowd-{next(_numbers)}"))
    alone, together = Story(b, "booked"), Story(b, "basketful", {"parcels": 3}, children=3)
    return Crowd(alone, together, b.clock.now(), count, every), b


def new_tables(dynamodb: Any) -> dict[str, str]:
    """The names of new tables."""
    prefix = f"restored-{next(_numbers)}"
    return dict(zip(TABLES, (*create_tables(dynamodb, prefix), create_joins_table(dynamodb, prefix)), strict=True))


def fill(names: Mapping[str, str], items: Iterable[tuple[str, Item]], tables: Tables) -> None:
    """Put items into tables in memory, where copies share what they have in common."""
    for table, item in items:
        tables.memory.tables.setdefault(names[table], {})[key_of(table, item)] = item


def trimmed(connection: SharedConnection, names: Mapping[str, str], time: float) -> tuple[Trimmed, Trimmed]:
    """Trim entries and joins."""
    audit = trim_audit(connection, names["sagas"], names["audit"], time)
    return audit, trim_joins(connection, names["sagas"], names["joins"], time)


def check(made: Crowd, done: tuple[Trimmed, Trimmed], left: Mapping[str, Iterable[Item]]) -> None:
    """What is left is what was there at that time, and no more."""
    audit, joins = done
    assert (audit.scanned, audit.removed) == (made.written["audit"], len(made.late["audit"]))
    assert (joins.scanned, joins.removed) == (made.written["joins"], len(made.late["joins"]))
    entries = {key_of("audit", item) for item in left["audit"]}
    assert len(entries) == made.written["audit"] - len(made.late["audit"])
    assert entries.isdisjoint(made.late["audit"])
    rows = {key_of("joins", item): item for item in left["joins"]}
    assert made.late["joins"].isdisjoint(rows)
    assert counted(rows.values()) == made.counts


def peak_of(connection: SharedConnection, names: Mapping[str, str], time: float) -> int:
    """Bytes of Python's that another run takes at most; it finds nothing to remove."""
    tracemalloc.start()
    try:
        assert [one.removed for one in trimmed(connection, names, time)] == [0, 0]
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("count", "every"), [(200, 5), pytest.param(1_000_000, 100, marks=LARGE)])
def test_in_memory(credentials: None, clean: None, count: int, every: int) -> None:
    with aws("memory") as tables:
        made, _ = crowd(count, every)
        names = new_tables(client("dynamodb"))
        fill(names, made.items(), tables)
        connection = SharedConnection(region=REGION)
        began = cpu_seconds()
        done = trimmed(connection, names, made.time)
        took = cpu_seconds() - began
        check(made, done, {table: tables.memory.items(names[table]) for table in ("audit", "joins")})
        peak = peak_of(connection, names, made.time)
    print(f"{count:,} sagas in memory: {took:.1f} s of CPU, DynamoDB's part included, and {peak / 1e6:.1f} MB at most")
    assert peak < 100_000_000


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(
    ("count", "every"), [pytest.param(1_000, 5, marks=pytest.mark.slow), pytest.param(100_000, 100, marks=LARGE)]
)
def test_on_dynamodb_local(credentials: None, clean: None, count: int, every: int) -> None:
    with aws("memory"):
        made, _ = crowd(count, every)
    url = dynamodb_local().endpoint_url
    dynamodb = client("dynamodb", url)
    names = new_tables(dynamodb)
    try:
        put_all(dynamodb, names, made.items())
        connection = SharedConnection(region=REGION, host=url)
        connection.config = PATIENT
        began = cpu_seconds()
        done = trimmed(connection, names, made.time)
        took = cpu_seconds() - began
        pages = {table: dynamodb.get_paginator("scan").paginate(TableName=names[table]) for table in ("audit", "joins")}
        check(made, done, {table: (one for page in found for one in page["Items"]) for table, found in pages.items()})
        peak = peak_of(connection, names, made.time)
    finally:
        for name in names.values():
            dynamodb.delete_table(TableName=name)
    print(f"{count:,} sagas on DynamoDB Local: {took:.1f} s of this process's CPU, and {peak / 1e6:.1f} MB at most")
    assert peak < 50_000_000


def cpu_seconds() -> float:
    """Of this process, so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def put_all(dynamodb: Any, names: Mapping[str, str], items: Iterable[tuple[str, Item]]) -> None:
    """Write items by several requests at a time."""

    def put(batch: list[tuple[str, Item]]) -> None:
        asked: dict[str, list[Item]] = {}
        for table, item in batch:
            asked.setdefault(names[table], []).append({"PutRequest": {"Item": item}})
        assert not dynamodb.batch_write_item(RequestItems=asked)["UnprocessedItems"]

    left = iter(items)
    with ThreadPoolExecutor(4) as pool:
        while some := list(itertools.islice(left, 25_000)):
            list(pool.map(put, (some[first : first + 25] for first in range(0, len(some), 25))))


@pytest.mark.slow
@pytest.mark.parametrize("scarce", [False, True])
def test_sagas_go_on_from_that_time(credentials: None, clean: None, scarce: bool) -> None:
    with aws("memory") as tables:
        made, b = crowd(100, every=5)
        names = new_tables(b.stack.dynamodb)
        fill(names, made.items(), tables)
        tables.memory.scarce = scarce
        trimmed(SharedConnection(region=REGION), names, made.time)
        tables.memory.scarce = False
        b.stack.sagas_table, b.stack.audit_table, b.stack.joins_table = (names[table] for table in TABLES)
        again = Bench(stack=b.stack, clock=b.clock)
        live(again)
        assert made.at_work
        assert {again.status(saga_id) for saga_id in made.at_work} == {"COMPLETED"}


def test_entries_of_long_before_are_not_looked_at(credentials: None, clean: None) -> None:
    with aws("memory") as tables:
        made, b = crowd(0, every=1)
        names = new_tables(b.stack.dynamodb)
        entry = next(iter(made.alone.copies[-1]["audit"].values()))
        earlier = [
            entry | {"saga_id": {"S": name}, "at": {"S": iso(made.time - age)}}
            for name, age in (("of an hour before", 3_599), ("older", 3_601))
        ]
        fill(names, (("audit", one) for one in earlier), tables)
        assert trim_audit(SharedConnection(region=REGION), names["sagas"], names["audit"], made.time) == Trimmed(2, 1)
        assert [one["saga_id"]["S"] for one in tables.memory.items(names["audit"])] == ["older"]


class TestCommand:
    def run(self, *arguments: str, answer: str = "") -> tuple[int, str]:
        result = CliRunner().invoke(app, ["trim", *arguments, "--region", REGION], input=answer)
        return result.exit_code, result.output

    def test_asks_dynamodb_for_the_time(self, credentials: None, clean: None) -> None:
        with aws("memory") as tables:
            made, b = crowd(60, every=3)
            names = new_tables(b.stack.dynamodb)
            fill(names, made.items(), tables)
            of_joins = len(made.late["joins"])
            refused, told = self.run(*names.values())
            assert (refused, told.count("pass --restored-to")) == (1, 1)
            restored = datetime.fromtimestamp(made.time, UTC)
            tables.memory.restored_to[names["sagas"]] = restored
            declined, told = self.run(*names.values(), answer="n\n")
            assert declined == 1
            assert f"Was {names['sagas']} restored to {iso(made.time)}" in told
            done, told = self.run(*names.values(), "--yes")
            assert done == 0
            assert told.splitlines() == [
                f"{names['audit']}: {made.written['audit']:,} items scanned, {len(made.late['audit'])} removed",
                f"{names['joins']}: {made.written['joins']:,} items scanned, {of_joins} removed",
            ]

    @pytest.mark.parametrize("time", ["yesterday", "2026-11-22T10:00:00"])
    def test_refuses_what_is_no_time_with_a_zone(self, time: str) -> None:
        code, told = self.run("a-sagas", "a-audit", "--restored-to", time)
        assert code == 2
        assert "nor a time such as 2026-11-22T10:00:00Z" in " ".join(told.replace("│", " ").split())

    def test_a_table_that_is_not_there(self, credentials: None, clean: None) -> None:
        with aws("memory"):
            code, told = self.run("a-sagas", "a-audit", "--yes", "--restored-to", "2026-11-22T10:00:00Z")
            assert code == 1
            assert "ResourceNotFoundException" in told
