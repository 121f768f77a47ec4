"""Progress of sweep rounds, in the table of sagas, under keys that no saga can have.

A round's item is ``sweep#{saga type}``. Its parts, each a range of keys, are ``sweep#{saga type}#{number}``. The next
round reuses their items, so each part names the round to which it belongs. A worker claims a part. One write, whose
condition is the claim, stores the part's sums together with its last key. So each object is in the sums once, even if a
message is delivered twice or a worker dies. Each change of the number of parts is one transaction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from sagas.store.connection import Refused
from sagas.store.control.mapping import Item, attributes_of, number_in, text_in, text_of, time_of
from sagas.store.tables import StoreSettings, Tables, packed, unpacked


class Round(Struct, frozen=True):
    """The current or last round over all objects of a saga type. Times are epoch seconds; 0 means never.

    Args:
        saga: the saga type.
        number: the round's number, from 1; 0 if there is none.
        began_at: when the round began.
        finished_at: when a round last ended.
        parts: the number of parts.
        open: the number of parts that are not done.
    """

    saga: str
    number: int = 0
    began_at: float = 0.0
    finished_at: float = 0.0
    parts: int = 0
    open: int = 0

    @property
    def under_way(self) -> bool:
        """Whether the round has begun and not ended."""
        return self.began_at > self.finished_at


class RoundPart(Struct, frozen=True):
    """A range of keys in a round.

    Args:
        saga: the saga type.
        round: the round's number.
        number: the part's number, from 0.
        after: the key after which to continue; empty at the beginning of the prefix.
        until: the last key of the range; empty at the end of the prefix.
        sums: the counters so far, by name.
        stopped: why the part has stopped; empty while it runs.
        done: whether the part has reached its end.
        owner: the worker that holds the part.
        held_until: epoch seconds after which the owner can no longer act.
    """

    saga: str
    round: int
    number: int
    after: str = ""
    until: str = ""
    sums: dict[str, int] = field(default_factory=dict[str, int])
    stopped: str = ""
    done: bool = False
    owner: str = ""
    held_until: float = 0.0


class SweepRounds:
    """Reads and writes rounds and parts.

    Args:
        tables: the connections.
        settings: the settings, which name the table.
    """

    def __init__(self, tables: Tables, settings: StoreSettings) -> None:
        self._tables = tables
        self._table = settings.sagas_table

    def get(self, saga: str) -> Round:
        """Return a saga type's round, by a consistent read."""
        request = {"TableName": self._table, "Key": _key(saga), "ConsistentRead": True}
        item: Item = self._tables.connection.dispatch("GetItem", request).get("Item", {})
        began_at, finished_at = (time_of(text_in(item, name)) for name in ("began_at", "finished_at"))
        numbers = (number_in(item, name) for name in ("parts", "open"))
        return Round(saga, number_in(item, "round"), began_at, finished_at, *numbers)

    def parts(self, of: Round) -> list[RoundPart]:
        """Return a round's parts by number, by consistent reads."""
        keys = [_key(of.saga, number) for number in range(of.parts)]
        items = self._tables.connection.get_many(self._table, keys, consistent=True)
        parts = (_part_of(of.saga, item) for item in items)
        return sorted((part for part in parts if part.round == of.number), key=lambda part: part.number)

    def begin(self, seen: Round, now: float) -> Round | None:
        """Begin the next round, with one part for all keys. ``now``: epoch seconds. Returns the new round; ``None`` if
        it has begun already."""
        begun = Round(seen.saga, seen.number + 1, now, seen.finished_at, 1, 1)
        head = self._update(
            _key(seen.saga),
            {"round": begun.number, "began_at": text_of(now), "parts": 1, "open": 1},
            ["#round = :seen" if seen.number else "attribute_not_exists(#round)"],
            {"seen": seen.number} if seen.number else {},  # DynamoDB refuses values that no expression uses
        )
        return begun if self._together([{"Update": head}, self._put(RoundPart(seen.saga, begun.number, 0))]) else None

    def claim(self, part: RoundPart, now: float) -> RoundPart | None:
        """Claim a part that no worker holds. ``now``: epoch seconds. Returns the part afterwards; ``None`` if it is
        held, done, or of another round."""
        free = "(attribute_not_exists(#owner) OR #held_until <= :now)"
        request = self._update(
            _key(part.saga, part.number),
            {"owner": part.owner, "held_until": text_of(part.held_until)},
            ["#round = :round", "attribute_not_exists(#done)", free],
            {"round": part.round, "now": text_of(now)},
        )
        try:
            answer = self._tables.connection.dispatch("UpdateItem", request | {"ReturnValues": "ALL_NEW"})
        except Refused:
            return None
        return _part_of(part.saga, answer["Attributes"])

    def advance(self, part: RoundPart) -> bool:
        """Write a part's last key and sums; return ``False`` if the claim has expired."""
        return self._mine(part, [])

    def release(self, part: RoundPart) -> bool:
        """Write the same as :meth:`advance`, and release the claim."""
        return self._mine(part, ["owner", "held_until"])

    def _mine(self, part: RoundPart, removed: Sequence[str]) -> bool:
        try:
            self._tables.connection.dispatch("UpdateItem", self._progress(part, {}, removed))
        except Refused:
            return False
        return True

    def finish(self, part: RoundPart) -> bool:
        """Write a part's sums, and that the part is done; return ``False`` if the claim has expired."""
        progress = self._progress(part, {"done": True}, ["owner", "held_until"])
        return self._together([{"Update": progress}, {"Update": self._counted(part, {"open": -1}, [], {})}])

    def split(self, part: RoundPart, at: str, seen: Round, most: int) -> RoundPart | None:
        """Split off the keys after ``at`` as a new part. Returns the new part; ``None`` if the claim has expired,
        another part was split off in the meantime, or too many are open."""
        other = RoundPart(part.saga, part.round, seen.parts, at, part.until)
        shorter = self._progress(replace(part, until=at), {}, [])
        as_seen = self._counted(part, {"open": 1, "parts": 1}, ["#parts = :seen", "#open < :most"], {
            "seen": seen.parts, "most": most,
        })  # fmt: skip
        return other if self._together([{"Update": shorter}, {"Update": as_seen}, self._put(other)]) else None

    def end(self, of: Round, totals: Mapping[str, int], now: float) -> bool:
        """End a round, with its totals; return ``False`` if it has ended already, or a part is open."""
        request = self._update(
            _key(of.saga),
            {"finished_at": text_of(max(now, of.began_at))},
            ["#round = :seen", "#open = :none", "(attribute_not_exists(#finished_at) OR #finished_at < #began_at)"],
            {"seen": of.number, "none": 0},
            documents={"totals": dict(totals)},
        )
        try:
            self._tables.connection.dispatch("UpdateItem", request)
        except Refused:
            return False
        return True

    def _together(self, writes: Sequence[dict[str, Any]]) -> bool:
        """Make all of these writes or none; return ``False`` if a condition does not hold. If the response is lost,
        DynamoDB recognizes the repeated request by the token that botocore has added."""
        try:
            self._tables.connection.dispatch("TransactWriteItems", {"TransactItems": list(writes)})
        except Refused:
            return False
        return True

    def _put(self, part: RoundPart) -> dict[str, Any]:
        """Return the write of a new part. It may replace a part of an earlier round."""
        item = _key(part.saga, part.number) | attributes_of(
            {"round": part.round, "number": part.number, "after": part.after or None, "until": part.until or None}
        )
        put = {
            "TableName": self._table,
            "Item": item,
            "ConditionExpression": "attribute_not_exists(saga_id) OR #round < :round",
            "ExpressionAttributeNames": {"#round": "round"},
            "ExpressionAttributeValues": attributes_of({":round": part.round}),
        }
        return {"Put": put}

    def _progress(self, part: RoundPart, written: Mapping[str, Any], removed: Sequence[str]) -> dict[str, Any]:
        """Return the update of a part by its owner."""
        changes = {"after": part.after or None, "until": part.until or None, "stopped": part.stopped or None, **written}
        return self._update(
            _key(part.saga, part.number),
            {name: value for name, value in changes.items() if value is not None},
            ["#round = :round", "#owner = :mine", "attribute_not_exists(#done)"],
            {"round": part.round, "mine": part.owner},
            removed=[*removed, *(name for name, value in changes.items() if value is None)],
            documents={"sums": part.sums},
        )

    def _counted(
        self, part: RoundPart, steps: Mapping[str, int], conditions: Iterable[str], values: Mapping[str, int]
    ) -> dict[str, Any]:
        """Return an update that adds ``steps`` to a round's counts."""
        sums = [f"#{name} = #{name} + :add_{name}" for name in steps]
        added = {f"add_{name}": step for name, step in steps.items()}
        used = {**values, **added, "round": part.round}
        return self._update(_key(part.saga), {}, ["#round = :round", *conditions], used, more=sums)

    def _update(
        self,
        key: Item,
        written: Mapping[str, Any],
        conditions: Iterable[str],
        values: Mapping[str, Any],
        *,
        removed: Iterable[str] = (),
        documents: Mapping[str, dict[str, Any]] | None = None,
        more: Iterable[str] = (),
    ) -> dict[str, Any]:
        """Return an update. Placeholders are named after attributes: ``#open`` the attribute, ``:open`` its value."""
        documents = documents or {}
        sets = [*(f"#{name} = :{name}" for name in (*written, *documents)), *more]
        condition, removes = " AND ".join(conditions), [f"#{name}" for name in removed]
        update = f"SET {', '.join(sets)}" + (f" REMOVE {', '.join(removes)}" if removes else "")
        used = attributes_of({f":{name}": value for name, value in {**written, **values}.items()})
        names = re.findall(r"#(\w+)", f"{condition} {update}")
        return {
            "TableName": self._table,
            "Key": key,
            "UpdateExpression": update,
            "ConditionExpression": condition,
            "ExpressionAttributeNames": {f"#{name}": name for name in names},
            "ExpressionAttributeValues": used | {f":{name}": packed(value) for name, value in documents.items()},
        }


def _key(saga: str, part: int | None = None) -> Item:
    return attributes_of({"saga_id": f"sweep#{saga}" if part is None else f"sweep#{saga}#{part}"})


def _part_of(saga: str, item: Item) -> RoundPart:
    return RoundPart(
        saga,
        number_in(item, "round"),
        number_in(item, "number"),
        text_in(item, "after"),
        text_in(item, "until"),
        unpacked(item["sums"]) if "sums" in item else {},
        text_in(item, "stopped"),
        "done" in item,
        text_in(item, "owner"),
        time_of(text_in(item, "held_until")),
    )
