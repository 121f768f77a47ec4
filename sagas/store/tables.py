"""The tables as PynamoDB models. A model has the name of its table, so models are created at run time."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from msgspec import Struct
from pynamodb.attributes import (
    BinaryAttribute,
    BooleanAttribute,
    ListAttribute,
    MapAttribute,
    NumberAttribute,
    UnicodeAttribute,
    UnicodeSetAttribute,
)
from pynamodb.indexes import GlobalSecondaryIndex, KeysOnlyProjection
from pynamodb.models import Model

from sagas.aws import BEST_EFFORT
from sagas.store.connection import SharedConnection
from sagas.store.documents import DocumentAttribute
from sagas.store.settings import StoreSettings


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

    class AttentionIndex(GlobalSecondaryIndex[Any]):
        class Meta:
            index_name = "attention"
            projection = KeysOnlyProjection()

        attention_shard = UnicodeAttribute(hash_key=True)
        attention_at = UnicodeAttribute(range_key=True)

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
        deadline = UnicodeAttribute(null=True)
        overdue = BooleanAttribute(null=True)
        parent = DocumentAttribute(null=True)
        order = NumberAttribute(null=True)
        created_at = UnicodeAttribute()
        updated_at = UnicodeAttribute()
        open_shard = UnicodeAttribute(null=True)
        due = UnicodeAttribute(null=True)
        attention_shard = UnicodeAttribute(null=True)
        attention_at = UnicodeAttribute(null=True)
        name_shard = UnicodeAttribute()
        ended = UnicodeAttribute(null=True)
        ended_at = UnicodeAttribute(null=True)
        open = OpenIndex()
        by_name = NameIndex()
        attention_index = AttentionIndex()
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
