"""The names, limits and models of the tables. A model has the name of its table, so models are created at run time."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

from msgspec import Struct
from pynamodb.attributes import (
    Attribute,
    BinaryAttribute,
    BooleanAttribute,
    ListAttribute,
    MapAttribute,
    NumberAttribute,
    UnicodeAttribute,
    UnicodeSetAttribute,
)
from pynamodb.constants import MAP
from pynamodb.indexes import GlobalSecondaryIndex, IncludeProjection, KeysOnlyProjection
from pynamodb.models import Model

from sagas.aws import BEST_EFFORT
from sagas.core.rules import attention_code, step_in_trouble, unread_of
from sagas.core.states import SagaState
from sagas.core.text import iso
from sagas.store.connection import SharedConnection


class StoreSettings(Struct, frozen=True):
    """Names and limits.

    Args:
        service: the id of the service, ``SAGAS_SERVICE``.
        sagas_table: the table of control items.
        audit_table: the table of journal entries.
        payload_bucket: the bucket for payloads that are too large for an entry; empty if there is none.
        payload_limit: maximum bytes of JSON in an entry. Larger payloads go to S3.
        shards: the number of partitions over which an index key is spread.
        region: the AWS region; ``None`` for the environment's region.
        endpoint_url: the URL of DynamoDB and S3; ``None`` for the environment's URLs.
        retention: seconds from a saga's end to its purge; 0 keeps sagas for good.
        key_retention: seconds for which tombstones, and so idempotency keys, are kept.
        joins_table: the table of children's outcomes; empty if no saga has children.
        payload_key: ARN of the KMS key that encrypts payloads; empty if there is none.
        never_expiring: saga types whose sagas are kept for good, because nothing else records which objects they own.
    """

    service: str
    sagas_table: str
    audit_table: str
    payload_bucket: str = ""
    payload_limit: int = 16 * 1024
    shards: int = 8
    region: str | None = None
    endpoint_url: str | None = None
    retention: float = 0.0
    key_retention: float = 30 * 86_400.0
    never_expiring: frozenset[str] = frozenset()
    joins_table: str = ""
    payload_key: str = ""


class StepAttribute(MapAttribute[Any, Any]):
    """A step inside a control item. Defaults are not stored, because every byte costs money."""

    name = UnicodeAttribute()
    status = UnicodeAttribute()
    attempts = NumberAttribute(default=0, null=True)
    granted = NumberAttribute(null=True)
    undo_attempts = NumberAttribute(null=True)
    undo_granted = NumberAttribute(null=True)
    seq = NumberAttribute(null=True)
    lost = BooleanAttribute(null=True)
    undo = BooleanAttribute(null=True)
    kind = UnicodeAttribute(null=True)
    round = NumberAttribute(null=True)
    sig = BooleanAttribute(null=True)
    late = BooleanAttribute(null=True)
    many = NumberAttribute(null=True)
    next = NumberAttribute(null=True)
    at = NumberAttribute(null=True)
    spare = NumberAttribute(null=True)
    back = BooleanAttribute(null=True)
    asked = NumberAttribute(null=True)
    of = UnicodeAttribute(null=True)
    post = BooleanAttribute(null=True)
    pivot = BooleanAttribute(null=True)
    out = BooleanAttribute(null=True)


class DeadAttribute(MapAttribute[Any, Any]):
    """The message that moves to the dead letters."""

    dispatch = NumberAttribute()
    hops = NumberAttribute()
    message_id = UnicodeAttribute()


class Tables(Struct, frozen=True):
    """The models and the connections of a pair of tables. Models are typed as ``Any``, because PynamoDB's attributes
    are dynamic.

    Args:
        control, entry, streak, watermark, scan_position, join: the models.
        connection: the connection for the models and all other requests.
        best_effort: the connection for writes that may fail. It tries once and waits at most a second.
    """

    control: Any
    entry: Any
    streak: Any
    watermark: Any
    scan_position: Any
    join: Any
    connection: SharedConnection
    best_effort: SharedConnection

    def connect(self) -> None:
        """Create the clients that starts and steps use, ahead of the first request."""
        _ = self.connection.client


def _meta(table: str) -> Any:
    return type("Meta", (), {"table_name": table})


def _control(settings: StoreSettings) -> type[Model]:
    class OpenIndex(GlobalSecondaryIndex[Any]):
        class Meta:
            index_name = "open"
            projection = KeysOnlyProjection()

        open_shard = UnicodeAttribute(hash_key=True)
        due = UnicodeAttribute(range_key=True)

    class NameIndex(GlobalSecondaryIndex[Any]):
        class Meta:
            index_name = "by_name"
            projection = KeysOnlyProjection()

        name_shard = UnicodeAttribute(hash_key=True)
        created_at = UnicodeAttribute(range_key=True)

    class IncidentsIndex(GlobalSecondaryIndex[Any]):
        class Meta:
            index_name = "incidents"
            projection = IncludeProjection(["seq"])

        incident_shard = UnicodeAttribute(hash_key=True)
        incident = UnicodeAttribute(range_key=True)

    class EndedIndex(GlobalSecondaryIndex[Any]):
        class Meta:
            index_name = "ended"
            projection = KeysOnlyProjection()

        ended = UnicodeAttribute(hash_key=True)
        ended_at = UnicodeAttribute(range_key=True)

    class ControlItem(Model):
        """One saga."""

        Meta = _meta(settings.sagas_table)
        saga_id = UnicodeAttribute(hash_key=True)
        format = NumberAttribute(null=True)
        saga = UnicodeAttribute()
        version = UnicodeAttribute()
        correlation_id = UnicodeAttribute(null=True)
        status = UnicodeAttribute()
        steps = ListAttribute(of=StepAttribute)
        cursor = NumberAttribute()
        seq = NumberAttribute()
        token = NumberAttribute()
        dispatch = NumberAttribute()
        lease_owner = UnicodeAttribute(null=True)
        lease_expires_at = UnicodeAttribute(null=True)
        act_until = UnicodeAttribute(null=True)
        not_before = UnicodeAttribute(null=True)
        lost_until = UnicodeAttribute(null=True)
        cancel_requested_at = UnicodeAttribute(null=True)
        cancel_requested_by = UnicodeAttribute(null=True)
        cancel_reason = UnicodeAttribute(null=True)
        cancelling = BooleanAttribute(null=True)
        rejected = BooleanAttribute(null=True)
        failed = BooleanAttribute(null=True)
        cause = UnicodeAttribute(null=True)
        recovery_attempts = NumberAttribute(null=True)
        recovery_exhausted = BooleanAttribute(null=True)
        unanswered = NumberAttribute(null=True)
        unreadable = UnicodeAttribute(null=True)
        settling_since = NumberAttribute(null=True)
        retrying_undos = BooleanAttribute(null=True)
        head = BinaryAttribute(legacy_encoding=False, null=True)
        dead = DeadAttribute(null=True)
        error_seq = NumberAttribute(null=True)
        error_type = UnicodeAttribute(null=True, attr_name="err")
        resolution_seq = NumberAttribute(null=True)
        attention = UnicodeAttribute(null=True)
        progress = DocumentAttribute(null=True)
        purge = DocumentAttribute(null=True)
        polling = DocumentAttribute(null=True)
        unread = DocumentAttribute(null=True)
        deadline = UnicodeAttribute(null=True)
        overdue = BooleanAttribute(null=True)
        parent = DocumentAttribute(null=True)
        order = NumberAttribute(null=True)
        created_at = UnicodeAttribute()
        updated_at = UnicodeAttribute()
        open_shard = UnicodeAttribute(null=True)
        due = UnicodeAttribute(null=True)
        incident_shard = UnicodeAttribute(null=True)
        incident = UnicodeAttribute(null=True)
        name_shard = UnicodeAttribute()
        ended = UnicodeAttribute(null=True)
        ended_at = UnicodeAttribute(null=True)
        open = OpenIndex()
        by_name = NameIndex()
        incidents = IncidentsIndex()
        by_end = EndedIndex()

    return ControlItem


def _entry(settings: StoreSettings) -> type[Model]:
    class EntryItem(Model):
        """A journal entry."""

        Meta = _meta(settings.audit_table)
        saga_id = UnicodeAttribute(hash_key=True)
        seq = NumberAttribute(range_key=True)
        format = NumberAttribute(null=True)
        at = UnicodeAttribute()
        saga = UnicodeAttribute()
        action = UnicodeAttribute()
        step = UnicodeAttribute(null=True)
        attempt = NumberAttribute(null=True)
        status = UnicodeAttribute()
        actor = UnicodeAttribute()
        correlation_id = UnicodeAttribute()
        trace_id = UnicodeAttribute(null=True)
        token = NumberAttribute()
        prev = BinaryAttribute(legacy_encoding=False, null=True)
        details = DocumentAttribute(default=dict)
        purge = DocumentAttribute(null=True)
        payload = UnicodeAttribute(null=True)
        payload_ref = UnicodeAttribute(null=True)
        payload_hash = UnicodeAttribute(null=True)
        salt = UnicodeAttribute(null=True)
        expires_at = NumberAttribute(null=True)

    return EntryItem


@lru_cache(maxsize=32)
def tables_for(settings: StoreSettings) -> Tables:
    """Return the models of these tables. The models are cached by settings, because it takes a while to create them."""
    connection = SharedConnection(region=settings.region, host=settings.endpoint_url)
    best_effort = SharedConnection(region=settings.region, host=settings.endpoint_url)
    best_effort.config = BEST_EFFORT
    return tables_over(settings, connection, best_effort)


def tables_over(settings: StoreSettings, connection: SharedConnection, best_effort: SharedConnection) -> Tables:
    """Return new models of these tables, which use ``connection``."""

    class StreakItem(Model):
        """Consecutive failed sagas of a type. It is stored in the table of sagas, under a key that no saga can have."""

        Meta = _meta(settings.sagas_table)
        saga_id = UnicodeAttribute(hash_key=True)
        failures = UnicodeSetAttribute(null=True)
        paused_until = UnicodeAttribute(null=True)
        open_shard = UnicodeAttribute(null=True)
        due = UnicodeAttribute(null=True)

    class WatermarkItem(Model):
        """The progress of a step's queue. It is stored in the table of sagas, under a key that no saga can have."""

        Meta = _meta(settings.sagas_table)
        saga_id = UnicodeAttribute(hash_key=True)
        passed = UnicodeAttribute(null=True)
        noted_at = UnicodeAttribute(null=True)
        resumed_at = UnicodeAttribute(null=True)
        empty_at = UnicodeAttribute(null=True)
        resent_in = NumberAttribute(null=True)
        resent = NumberAttribute(null=True)

    class ScanPositionItem(Model):
        """The scan position of a shard of due sagas. Stored in the table of sagas, under a key that no saga can
        have."""

        Meta = _meta(settings.sagas_table)
        saga_id = UnicodeAttribute(hash_key=True)
        last_due = UnicodeAttribute(null=True)
        last_id = UnicodeAttribute(null=True)
        until = UnicodeAttribute(null=True)
        moved_at = UnicodeAttribute(null=True)
        by = UnicodeAttribute(null=True)

    class JoinItem(Model):
        """The outcome of a child, or a count of outcomes, in a separate table."""

        # The table does not exist if no saga has children.
        Meta = _meta(settings.joins_table or f"{settings.sagas_table}-joins")
        join = UnicodeAttribute(hash_key=True)
        part = UnicodeAttribute(range_key=True)

    control, entry = _control(settings), _entry(settings)
    models: tuple[Any, Any, Any, Any, Any, Any] = control, entry, StreakItem, WatermarkItem, ScanPositionItem, JoinItem
    for model in models:
        connection.serve(model)
    return Tables(*models, connection, best_effort)


MARK = "encrypted1:"
"""The prefix of an encrypted payload. JSON never starts with it."""


class DocumentAttribute(Attribute[dict[str, Any]]):
    """An object of JSON builtins in DynamoDB's own types, readable in the AWS console."""

    attr_type = MAP

    def serialize(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return DynamoDB's form of an object."""
        return {key: packed(member) for key, member in value.items()}

    def deserialize(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return the original object."""
        return {key: unpacked(member) for key, member in value.items()}


def packed(value: Any) -> dict[str, Any]:
    """Return DynamoDB's form of a JSON builtin."""
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case int() | float():
            return {"N": json.dumps(value)}
        case str():
            # DynamoDB's strings are UTF-8, but an exception's text may contain lone surrogates, for example from file
            # names.
            return {"S": value.encode(errors="backslashreplace").decode()}
        case dict():
            return {"M": {key: packed(member) for key, member in cast("dict[str, Any]", value).items()}}
        case list() | tuple():
            return {"L": [packed(member) for member in cast("list[Any]", value)]}
        case _:
            raise TypeError(f"{type(value).__name__} is not JSON")


def unpacked(stored: dict[str, Any]) -> Any:
    """Return the original JSON builtin. A whole number becomes an ``int``."""
    [(kind, value)] = stored.items()
    match kind:
        case "NULL":
            return None
        case "N":
            return json.loads(value)
        case "M":
            return {key: unpacked(member) for key, member in value.items()}
        case "L":
            return [unpacked(member) for member in value]
        case _:
            return value


def is_encrypted(text: str) -> bool:
    """Whether a stored payload is encrypted; see :mod:`sagas.store.encryption`."""
    return text.startswith(MARK)


_LONGEST_ERROR = 200
"""Maximum characters of an error's type in a sort key, which has at most 1,024 bytes. Names are shorter."""
_ESCAPED = re.compile(r"[#%\x00-\x1f\x7f-\x9f]")
_ESCAPE = re.compile(r"%([0-9A-F]{2})")


class Incident(Struct, frozen=True):
    """Why a saga needs an operator, and since when. It is the sort key of the index of these sagas: what is wrong from
    the left, the time from the right. So the index groups incidents, and counts and lists the sagas of one, without a
    read of the sagas.

    Args:
        saga: the saga type's name.
        step: the failed step.
        code: why it needs one.
        error_type: the first 200 characters of the error's type; empty if there is none.
        at: when it began, in the stored form.
    """

    saga: str
    step: str
    code: str
    error_type: str
    at: str

    @classmethod
    def of(cls, state: SagaState) -> Incident:
        """Return the incident of a state."""
        unread = unread_of(state)
        error = state.error_type[:_LONGEST_ERROR]
        at = iso(unread.since if unread else state.attention)
        return cls(state.saga, step_in_trouble(state), attention_code(state).value, error, at)

    @classmethod
    def parse(cls, key: str) -> Incident:
        """Parse the format of :attr:`key`."""
        saga, step, code, error, at = key.split("#")
        return cls(saga, step, code, _ESCAPE.sub(lambda found: chr(int(found[1], 16)), error), at)

    @property
    def kind(self) -> tuple[str, str, str, str]:
        """What is wrong, without the time: sagas with an equal one have the same problem."""
        return self.saga, self.step, self.code, self.error_type

    @property
    def key(self) -> str:
        """The stored form."""
        return key_before(self.kind) + self.at


def key_before(kind: Sequence[str]) -> str:
    """Return what the keys of incidents begin with. ``kind``: their type, step, code and error type, or the first of
    these."""
    return "".join(_ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", part[:_LONGEST_ERROR]) + "#" for part in kind)
