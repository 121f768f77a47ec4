"""The one description of control items: for each attribute its name, its type and its field of the state.

:mod:`sagas.store.control.mapping` converts states with it. :mod:`sagas.store.tables` makes PynamoDB's model from it.
A field that has its default is not stored, because every byte costs money, unless its column is ``always`` stored.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeVar

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from sagas.core.states import (
    Attempts,
    Cancel,
    DeadMessage,
    FanOut,
    Lease,
    Parent,
    Polling,
    Progress,
    Purge,
    Recovery,
    SagaState,
    SagaStatus,
    StepState,
    StepStatus,
    Unread,
)
from sagas.core.text import epoch, iso
from sagas.errors import NewerFormat

Item = dict[str, Any]
"""An item, or a map in an item: its attributes by name, in DynamoDB's JSON."""
Member = TypeVar("Member", bound=StrEnum)


class Kind(Struct, frozen=True):
    """How a value is stored.

    Args:
        tag: DynamoDB's type.
        packs: returns the stored form of a value.
        unpacks: returns the value of a stored form.
    """

    tag: str
    packs: Callable[[Any], Any]
    unpacks: Callable[[Any], Any]


def member(members: type[Member], text: str, what: str) -> Member:
    """Return the member of an enumeration for a stored value, which only a newer version may know. ``what``: what has
    the value, for the error."""
    try:
        return members(text)
    except ValueError:
        raise NewerFormat(what) from None


def _one_of(members: type[StrEnum]) -> Kind:
    return Kind("S", str, lambda text: member(members, text, members.__name__))


TEXT = Kind("S", str, str)
MESSAGE = Kind("S", lambda text: text.encode(errors="backslashreplace").decode(), str)
"""A text from outside. DynamoDB's strings are UTF-8, but an exception's text may contain lone surrogates, for example
from file names."""
NUMBER = Kind("N", str, int)
REAL = Kind("N", repr, float)
SECONDS = Kind("N", lambda seconds: str(int(seconds)), float)
FLAG = Kind("BOOL", bool, bool)
TIME = Kind("S", iso, epoch)


class Column(Struct, frozen=True):
    """An attribute.

    Args:
        name: its name.
        kind: how its value is stored.
        field: the field of the record that has the value; empty if it has the same name.
        always: whether a default is stored, too.
    """

    name: str
    kind: Kind
    field: str = ""
    always: bool = False


class Shape:
    """How a record is stored.

    Args:
        record: the record's class.
        columns: its attributes.
        parts: fields that are records, too, whose attributes are in the same item.

    Attributes:
        types: DynamoDB's type of each attribute.
    """

    def __init__(self, record: type[Struct], *columns: Column, **parts: Shape) -> None:
        self.types = {column.name: column.kind.tag for column in columns}
        self._record: Callable[..., Any] = record
        defaults = {field.name: field.default for field in fields(record)}
        self._parts = {field: (defaults[field], part) for field, part in parts.items()}
        self._writes = list[tuple[str, Any, str, str, Callable[[Any], Any]]]()
        self._reads = dict[str, tuple[str, str, str, Callable[[Any], Any]]]()
        for column in columns:
            field = column.field or column.name
            default = NODEFAULT if column.always else defaults[field]
            kind = column.kind
            self._writes.append((field, default, column.name, kind.tag, kind.packs))
            self._reads[column.name] = ("", field, kind.tag, kind.unpacks)
        for field, part in parts.items():
            self.types |= part.types
            self._reads |= {name: (field, *read[1:]) for name, read in part._reads.items()}

    def packs(self, record: Any) -> Item:
        """Return the attributes of a record."""
        item: Item = {}
        for field, default, name, tag, packs in self._writes:
            value = getattr(record, field)
            if value != default:
                item[name] = {tag: packs(value)}
        for field, (default, part) in self._parts.items():
            value = getattr(record, field)
            if value is not default:
                item |= part.packs(value)
        return item

    def values(self, item: Item) -> dict[str, Any]:
        """Return a record's values by field. Fields with their defaults are left out."""
        values: dict[str, Any] = {}
        of_parts: dict[str, dict[str, Any]] = {}
        for name, stored in item.items():
            if name in self._reads:
                part, field, tag, unpacks = self._reads[name]
                its = of_parts.setdefault(part, {}) if part else values
                its[field] = unpacks(stored[tag])
        for field, its in of_parts.items():
            values[field] = self._parts[field][1]._record(**its)
        return values

    def unpacks(self, item: Item) -> Any:
        """Return the record of an item."""
        return self._record(**self.values(item))


def _document(record: type[Struct], *columns: Column) -> Kind:
    """Return the kind of a record that is a map in the item."""
    shape = Shape(record, *columns)
    return Kind("M", shape.packs, shape.unpacks)


STEP = Shape(
    StepState,
    Column("name", TEXT),
    Column("status", _one_of(StepStatus), always=True),
    Column("seq", NUMBER, "result_seq"),
    Column("lost", FLAG, "outcome_unknown"),
    Column("undo", FLAG),
    Column("kind", TEXT, "waits_for"),
    Column("round", NUMBER),
    Column("sig", FLAG, "signalled"),
    Column("late", FLAG, "timed_out"),
    Column("post", FLAG, "postponed"),
    Column("pivot", FLAG),
    Column("out", FLAG, "result"),
    attempts=Shape(Attempts, Column("attempts", NUMBER, "made"), Column("granted", NUMBER, "at_grant")),
    undo_attempts=Shape(Attempts, Column("undo_attempts", NUMBER, "made"), Column("undo_granted", NUMBER, "at_grant")),
    fan_out=Shape(
        FanOut,
        Column("many", NUMBER, "children"),
        Column("next", NUMBER, "handed_out"),
        Column("at", NUMBER, "at_once"),
        Column("spare", NUMBER, "tolerate"),
        Column("back", FLAG, "one_by_one"),
        Column("asked", NUMBER, "requests_seq"),
        Column("of", TEXT),
    ),
)
PURGE = _document(Purge, Column("at", TIME), Column("by", MESSAGE), Column("reason", MESSAGE))
PROGRESS = _document(
    Progress,
    Column("fraction", REAL),
    Column("message", MESSAGE),
    Column("at", TIME),
    Column("late", FLAG),
    Column("redacted_by", TEXT),
)
_POLLING = _document(
    Polling,
    Column("since", TIME),
    Column("looks", NUMBER, always=True),
    Column("message", MESSAGE, always=True),
    Column("after", REAL, always=True),
    Column("due", TIME, always=True),
    Column("redacted_by", TEXT),
)
_UNREAD = _document(
    Unread,
    Column("since", TIME),
    Column("code", TEXT),
    Column("error", MESSAGE),
    Column("listed", FLAG),
    Column("key", TEXT),
)
_PARENT = _document(
    Parent,
    Column("id", TEXT, "saga_id"),
    Column("saga", TEXT),
    Column("step", TEXT),
    Column("n", NUMBER, "position"),
    Column("round", NUMBER),
    Column("counters", NUMBER),
)
_DEAD = _document(DeadMessage, Column("dispatch", NUMBER), Column("hops", NUMBER), Column("message_id", TEXT))
CONTROL = Shape(
    SagaState,
    Column("saga_id", TEXT),
    Column("saga", TEXT),
    Column("version", TEXT),
    Column("status", _one_of(SagaStatus), always=True),
    Column("cursor", NUMBER, always=True),
    Column("seq", NUMBER, always=True),
    Column("token", NUMBER, always=True),
    Column("dispatch", NUMBER, always=True),
    Column("not_before", TIME),
    Column("lost_until", TIME),
    Column("rejected", FLAG),
    Column("failed", FLAG),
    Column("cause", TEXT),
    Column("unanswered", NUMBER),
    Column("dead", _DEAD),
    Column("error_seq", NUMBER),
    Column("err", TEXT, "error_type"),
    Column("resolution_seq", NUMBER),
    Column("unreadable", TEXT),
    Column("attention", TIME),
    Column("created_at", TIME, always=True),
    Column("updated_at", TIME, always=True),
    Column("ended_at", TIME),
    Column("purge", PURGE),
    Column("polling", _POLLING),
    Column("deadline", TIME),
    Column("overdue", FLAG),
    Column("parent", _PARENT),
    Column("settling_since", SECONDS),
    Column("unread", _UNREAD),
    Column("retrying_undos", FLAG),
    lease=Shape(
        Lease,
        Column("lease_owner", TEXT, "owner"),
        Column("lease_expires_at", TIME, "expires_at"),
        Column("act_until", TIME),
    ),
    cancel=Shape(
        Cancel,
        Column("cancel_requested_at", TIME, "at"),
        Column("cancel_requested_by", TEXT, "by"),
        Column("cancel_reason", TEXT, "reason"),
        Column("cancelling", FLAG, "journaled"),
    ),
    recovery=Shape(
        Recovery,
        Column("recovery_attempts", NUMBER, "attempts"),
        Column("recovery_exhausted", FLAG, "exhausted"),
    ),
)
OTHERS = {"correlation_id": "S", "head": "B", "order": "N", "progress": "M", "format": "N"} | dict.fromkeys(
    ("name_shard", "open_shard", "due", "incident_shard", "incident", "ended"), "S"
)
"""DynamoDB's types of attributes that are no field's value. :mod:`sagas.store.control.mapping` converts them, and the
steps."""
