"""Lists sagas by type, by status and by need for action, from indexes that are sparse or write-once."""

from __future__ import annotations

import base64
import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from sagas.core.events import CONTINUES_BY_ITSELF
from sagas.core.states import SagaStatus
from sagas.core.text import epoch, iso
from sagas.errors import InvalidRequest, Problem
from sagas.store.control.mapping import (
    NEVER_DUE,
    ended_shard,
    paused_shard,
    purge_shard,
    wait_shard,
)
from sagas.store.index.search_keys import saga_of
from sagas.store.index.shards import Shards
from sagas.store.tables import Incident, StoreSettings, Tables, key_before

T = TypeVar("T")

AT_ONCE = 16
"""Number of concurrent requests: as many as the client has connections."""
_FULL_SHARE = 4
"""The first request to a shard asks for this multiple of its share of a page. A hash spreads the sagas evenly, so a
shard very rarely contributes more. If it does, it is queried again."""
_LAST = "9999"
"""Sorts after every stored time."""
_LONGEST_SORT = 1024
"""Maximum bytes of a sort key. A forged cursor may exceed it, and DynamoDB refuses it."""
_LONGEST_ID = 64
"""Maximum characters of a saga's id."""
LONGEST_CURSOR = 2048
"""Maximum characters of a cursor, which has a sort key and an id as base64."""
_AFTER_PART = "$"
"""Sorts after ``#``, which ends each part of an incident's key."""
_KEYS = 100
"""So many keys of incidents are read in one request. If an incident has more, the others are counted."""


_PARTITIONS = {"open": "open_shard", "by_name": "name_shard", "ended": "ended", "incidents": "incident_shard"}
"""The partition key of each index."""


class IndexPosition(Struct, frozen=True, order=True):
    """A position in a list: the sort key, and the saga's id, which orders equal sort keys."""

    sort: str
    saga_id: str

    @property
    def cursor(self) -> str:
        """The position as an opaque string."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")

    @classmethod
    def parse(cls, cursor: str) -> IndexPosition:
        """Return the position that a cursor stands for."""
        try:
            padded = cursor + "=" * (-len(cursor) % 4)
            position = msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True), type=cls)
            if 0 < len(position.sort.encode()) <= _LONGEST_SORT and 0 < len(position.saga_id) <= _LONGEST_ID:
                return position
        except (ValueError, msgspec.MsgspecError):
            pass
        problem = Problem("query.cursor", "is not a cursor from an earlier response")
        raise InvalidRequest("invalid cursor", [problem])


class TimeRange(Struct, frozen=True):
    """A span of time, in epoch seconds.

    Args:
        since: the first moment; 0 if the span has no beginning.
        until: the moment after the last moment; 0 if the span has no end.
    """

    since: float = 0.0
    until: float = 0.0

    def bounds(self, before: str | None = None) -> tuple[str, str]:
        """Return the first and the last moment in their stored form. The last moment is not after ``before``."""
        last = iso(self.until - 0.001) if self.until > 0.001 else _LAST
        return iso(self.since), last if before is None else min(last, before)


ALWAYS = TimeRange()


class IdPage(Struct, frozen=True):
    """Ids of sagas in order, and the cursor of the next page, which is ``None`` on the last page."""

    saga_ids: list[str]
    cursor: str | None


class Alike(Struct):
    """Sagas with the same problem.

    Args:
        kind: type, step, code and error type.
        first, last: when the first and the last of them began to need an operator, in the stored form.
        count: how many there are.
    """

    kind: tuple[str, str, str, str]
    first: str
    last: str
    count: int


class Needing(Struct):
    """How many sagas of a type the attention list has, as counted in each shard up to a limit.

    Args:
        count: all of them.
        continuing: those that need no operator, and continue on their own.
        at_least: whether a shard has more.
    """

    count: int = 0
    continuing: int = 0
    at_least: bool = False


class Listing:
    """Reads the indexes of the table of control items."""

    def __init__(self, tables: Tables, settings: StoreSettings) -> None:
        self._tables = tables
        self._settings = settings
        self.shards = Shards(tables, settings)

    def by_name(self, names: Iterable[str], limit: int, cursor: str | None, within: TimeRange = ALWAYS) -> IdPage:
        """Return sagas of these types, newest first."""
        model = self._tables.control
        shards = self.shards.number()
        keys = [f"{name}#{shard}" for name in names for shard in range(shards)]
        return self._newest(model.by_name, "created_at", keys, limit, cursor, within)

    def by_end(
        self, names: Sequence[str], status: str, limit: int, cursor: str | None, within: TimeRange = ALWAYS
    ) -> IdPage:
        """Return sagas of these types that ended with a status. The last to end comes first."""
        model = self._tables.control
        shards = self.shards.number()
        keys = [ended_shard(name, status, shard) for name in names for shard in range(shards)]
        return self._newest(model.by_end, "ended_at", keys, limit, cursor, within)

    def last_end(self, name: str, status: str) -> float:
        """Return when (epoch seconds) a saga of a type last ended with a status; 0 if none has. This takes one query
        per shard, however many sagas there are."""
        index = self._tables.control.by_end
        keys = [ended_shard(name, status, shard) for shard in range(self.shards.number())]
        streams = self._begun([iter(index.query(key, scan_index_forward=False, limit=1)) for key in keys])
        return max((epoch(item.ended_at) for stream in streams for item in stream), default=0.0)

    def _newest(
        self, index: Any, sort: str, keys: Sequence[str], limit: int, cursor: str | None, within: TimeRange
    ) -> IdPage:
        start = IndexPosition.parse(cursor) if cursor is not None else None
        size = min(limit + 1, _FULL_SHARE * math.ceil((limit + 1) / max(1, self.shards.number())))
        first, last = within.bounds(start.sort if start else None)
        if first > last:
            return IdPage([], None)
        attribute = getattr(self._tables.control, sort)
        condition = None if within == ALWAYS and start is None else attribute.between(first, last)
        queries = [index.query(key, condition, scan_index_forward=False, page_size=size) for key in keys]
        listed = [(IndexPosition(getattr(item, sort), saga_of(item.saga_id)) for item in items) for items in queries]
        streams = [_beyond(start, positions, reverse=True) for positions in listed]
        return _page(heapq.merge(*self._begun(streams), reverse=True), limit)

    def in_flight(self, status: str, names: Iterable[str], limit: int) -> list[str]:
        """Return ids of sagas in flight. They include all sagas of these types with this status."""
        keys = [*self.due_shards, *self.wait_shards]
        keys += [key for name in names for undo in (False, True) for key in self.paused_shards(name, undo=undo)]
        listed = self.attention(limit, None).saga_ids if status == SagaStatus.DEAD_LETTERED else []
        saga_ids = [*listed, *(position.saga_id for position in self._due(keys, NEVER_DUE, limit))]
        # If a saga needs an operator and has a deadline, both lists contain it.
        return list(dict.fromkeys(saga_ids))[:limit]

    def counted(self, index: str, key: str, attribute: str, within: TimeRange, most: int) -> int:
        """Return how many sagas an index has under a key, at most ``most``. The sagas are not read."""
        first, last = within.bounds()
        if first > last:  # DynamoDB refuses an empty span
            return 0
        return self._counted(index, key, attribute, first, last, most)

    def _counted(self, index: str, key: str, attribute: str, first: str, last: str, most: int) -> int:
        request: dict[str, Any] = {
            "TableName": self._settings.sagas_table,
            "IndexName": index,
            "Select": "COUNT",
            "KeyConditionExpression": "#partition = :key AND #sort BETWEEN :first AND :last",
            "ExpressionAttributeNames": {"#partition": _PARTITIONS[index], "#sort": attribute},
            "ExpressionAttributeValues": {":key": {"S": key}, ":first": {"S": first}, ":last": {"S": last}},
        }
        count = 0
        while count < most:
            answer = self._tables.connection.dispatch("Query", request | {"Limit": most - count})
            count += answer["Count"]
            if "LastEvaluatedKey" not in answer:
                break
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
        return count

    def together(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        """Run these calls concurrently, and return their results."""
        _ = self._tables.connection.client  # create the client once, in this thread
        with ThreadPoolExecutor(min(AT_ONCE, max(1, len(calls))), "counting") as pool:
            return [future.result() for future in [pool.submit(call) for call in calls]]

    def near(self, name: str, shard: int, at: float) -> str | None:
        """Return the id of a type's saga that was started last before ``at`` (epoch seconds), or else first after
        it."""
        model = self._tables.control
        key = f"{name}#{shard}"
        for within, forward in ((model.created_at <= iso(at), False), (model.created_at > iso(at), True)):
            for item in model.by_name.query(key, within, scan_index_forward=forward, limit=1):
                return str(item.saga_id)
        return None

    def attention(self, limit: int, cursor: str | None, kind: Sequence[str] = ()) -> IdPage:
        """Return sagas that need an operator, by type, step, code, error type and time. ``kind``: only those with this
        type, step, code and error type, or the first of these."""
        start = IndexPosition.parse(cursor) if cursor is not None else None
        model = self._tables.control
        first, last = _bounds(kind)
        if start is not None:
            first = max(first, start.sort)
        if first > last:
            return IdPage([], None)
        within = model.incident.between(first, last)
        queries = [model.incidents.query(key, within, page_size=limit + 1) for key in self._incident_shards]
        listed = [(IndexPosition(item.incident, item.saga_id) for item in items) for items in queries]
        streams = [_beyond(start, positions) for positions in listed]
        return _page(heapq.merge(*self._begun(streams)), limit)

    def incidents(self, most: int, most_sagas: int, kind: Sequence[str] = ()) -> list[Alike]:
        """Group the sagas that need an operator by what is wrong, and count each group up to ``most_sagas``. Return the
        first ``most`` groups in the order of their keys. No saga is read, and of a large group only a few keys are."""
        calls = [partial(self._incidents, shard, most, most_sagas, kind) for shard in self._incident_shards]
        found = dict[tuple[str, ...], Alike]()
        for group in itertools.chain.from_iterable(self.together(calls)):
            same = found.setdefault(group.kind, group)
            if same is not group:
                same.first = min(same.first, group.first)
                same.last = max(same.last, group.last)
                same.count = min(same.count + group.count, most_sagas)
        return sorted(found.values(), key=lambda group: group.kind)[:most]

    def _incidents(self, shard: str, most: int, most_sagas: int, kind: Sequence[str]) -> list[Alike]:
        """Group the sagas of one shard. If more of a group follow what was read, they are counted and skipped."""
        model = self._tables.control
        found = list[Alike]()
        first, last = _bounds(kind)
        while len(found) < most:
            items = model.incidents.query(shard, model.incident.between(first, last), limit=_KEYS)
            incidents = [Incident.parse(item.incident) for item in items]
            for wrong, group in itertools.groupby(incidents, key=lambda incident: incident.kind):
                times = [incident.at for incident in group]
                found.append(Alike(wrong, times[0], times[-1], min(len(times), most_sagas)))
            if items.last_evaluated_key is None:
                break
            cut = found[-1]
            begin, end = _bounds(cut.kind)
            cut.count = self._counted("incidents", shard, "incident", begin, end, most_sagas)
            within = model.incident.between(begin, end)
            for item in model.incidents.query(shard, within, scan_index_forward=False, limit=1):
                cut.last = Incident.parse(item.incident).at
            first = end
        return found[:most]

    def needing(self, most: int) -> tuple[dict[str, Needing], list[IndexPosition]]:
        """Count the sagas on the attention list by type, and return the positions that were counted, in order. In each
        shard, at most ``most`` of a type are read, and no saga is."""
        found = dict[str, Needing]()
        listed = list[IndexPosition]()
        read = self.together([partial(self._needing, shard, most) for shard in self._incident_shards])
        for position in itertools.chain.from_iterable(positions for positions, _ in read):
            incident = Incident.parse(position.sort)
            of_type = found.setdefault(incident.saga, Needing())
            of_type.count += 1
            of_type.continuing += incident.code in CONTINUES_BY_ITSELF
            listed.append(position)
        for name in itertools.chain.from_iterable(cut for _, cut in read):
            found[name].at_least = True
        return dict(sorted(found.items())), sorted(listed)

    def _needing(self, shard: str, most: int) -> tuple[list[IndexPosition], list[str]]:
        """Return the positions in a shard, at most ``most`` of each type, and the types that may have more of them."""
        model = self._tables.control
        found = list[IndexPosition]()
        cut = list[str]()
        first, last = _bounds(())
        while True:
            items = model.incidents.query(shard, model.incident.between(first, last), limit=most)
            page = [IndexPosition(item.incident, item.saga_id) for item in items]
            found += page
            if items.last_evaluated_key is None:
                return found, cut
            name = Incident.parse(page[-1].sort).saga
            first, end = _bounds((name,))
            if page[0].sort >= first:  # all of them are of this type
                cut.append(name)
                first = end
            else:  # the next page begins with this type
                found = [position for position in found if position.sort < first]

    @property
    def _incident_shards(self) -> list[str]:
        return [str(shard) for shard in range(self.shards.number())]

    def due(self, until: float, limit: int) -> list[IndexPosition]:
        """Return open sagas that are due, longest overdue first. ``until``: epoch seconds by which they are due."""
        return self._due(self.due_shards, until, limit)

    def waits(self, until: float, limit: int) -> list[IndexPosition]:
        """Return sagas whose long wait ends by ``until`` (epoch seconds). The first to end comes first."""
        return self._due(self.wait_shards, until, limit)

    def to_purge(self, until: float, limit: int) -> list[IndexPosition]:
        """Return sagas to purge that are due by ``until`` (epoch seconds), longest overdue first."""
        return self._due(self.purge_shards, until, limit)

    def paused(self, name: str, limit: int, *, only_undos: bool = False) -> list[IndexPosition]:
        """Return the paused sagas of a type."""
        steps = [] if only_undos else self.paused_shards(name)
        return self._due([*steps, *self.paused_shards(name, undo=True)], NEVER_DUE, limit)

    def first_due(self, shards: Sequence[str], until: float) -> list[IndexPosition | None]:
        """Return the longest overdue saga of each shard; ``None`` if none is due by ``until`` (epoch seconds)."""
        return [next(stream, None) for stream in self._begun([self._first(shard, until) for shard in shards])]

    def _first(self, shard: str, until: float) -> Iterator[IndexPosition]:
        yield from self.due_page(shard, until, None, 1)

    def due_page(self, shard: str, until: float, after: IndexPosition | None, limit: int) -> list[IndexPosition]:
        """Return a page of the sagas in a shard that are due by ``until`` (epoch seconds), longest overdue first."""
        request: dict[str, Any] = {
            "TableName": self._settings.sagas_table,
            "IndexName": "open",
            "KeyConditionExpression": "#open_shard = :shard AND #due <= :until",
            "ExpressionAttributeNames": {"#open_shard": "open_shard", "#due": "due"},
            "ExpressionAttributeValues": {":shard": {"S": shard}, ":until": {"S": iso(until)}},
            "Limit": limit,
        }
        if after is not None:
            place = {"saga_id": after.saga_id, "open_shard": shard, "due": after.sort}
            request["ExclusiveStartKey"] = {name: {"S": value} for name, value in place.items()}
        items = self._tables.connection.dispatch("Query", request)["Items"]
        return [IndexPosition(item["due"]["S"], item["saga_id"]["S"]) for item in items]

    @property
    def due_shards(self) -> list[str]:
        """The index keys of sagas that the supervisor recovers."""
        return [str(shard) for shard in range(self.shards.number())]

    @property
    def wait_shards(self) -> list[str]:
        """The index keys of long waits."""
        return [wait_shard(shard) for shard in range(self.shards.number())]

    def paused_shards(self, name: str, *, undo: bool = False) -> list[str]:
        """Return the index keys of a type's sagas that are paused before a step or, with ``undo``, before an undo."""
        return [paused_shard(name, shard, undo=undo) for shard in range(self.shards.number())]

    @property
    def purge_shards(self) -> list[str]:
        """The index keys of sagas to purge."""
        return [purge_shard(shard) for shard in range(self.shards.number())]

    def _due(self, keys: Iterable[str], until: float, limit: int) -> list[IndexPosition]:
        model = self._tables.control
        queries = [model.open.query(key, model.due <= iso(until), page_size=min(limit, 1000)) for key in keys]
        streams = [(IndexPosition(item.due, item.saga_id) for item in items) for items in queries]
        return list(itertools.islice(heapq.merge(*self._begun(streams)), limit))

    def _begun(self, streams: Sequence[Iterator[T]]) -> list[Iterator[T]]:
        """Return the same streams after concurrent first requests, because a merge needs the first item of each.

        Most of the time goes into these requests: there is one per type and shard. Few streams need a second request.
        """

        def begin(stream: Iterator[T]) -> list[T]:
            return list(itertools.islice(stream, 1))

        threads = min(AT_ONCE, len(streams))
        if threads < 2:
            return list(streams)
        _ = self._tables.connection.client  # create the client once, in this thread
        with ThreadPoolExecutor(threads, "listing") as pool:
            begun = list(pool.map(begin, streams))
        return [itertools.chain(first, stream) for first, stream in zip(begun, streams, strict=True)]


def _bounds(kind: Sequence[str]) -> tuple[str, str]:
    """Return what sorts before and after the keys of all incidents of a kind."""
    beginning = key_before(kind)
    return (beginning, beginning[:-1] + _AFTER_PART) if beginning else ("!", "~")


def _beyond(
    start: IndexPosition | None, positions: Iterable[IndexPosition], *, reverse: bool = False
) -> Iterator[IndexPosition]:
    """Yield the positions after ``start``, in order or, with ``reverse``, in reverse order."""
    # The index does not order equal sort keys, but a cursor needs an order.
    for _, equal in itertools.groupby(positions, key=lambda position: position.sort):
        for position in sorted(equal, reverse=reverse):
            if start is None or (position < start if reverse else position > start):
                yield position


def _page(positions: Iterable[IndexPosition], limit: int) -> IdPage:
    listed = list(itertools.islice(positions, limit + 1))
    page = listed[:limit]
    # A saga that leaves the list and returns between two requests of a query would be listed twice.
    saga_ids = list(dict.fromkeys(position.saga_id for position in page))
    return IdPage(saga_ids, page[-1].cursor if len(listed) > limit else None)
