"""The names, limits and models of the tables. A model has the name of its table, so models are created at run time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import new_class
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
from pynamodb.indexes import GlobalSecondaryIndex, IncludeProjection, KeysOnlyProjection, Projection
from pynamodb.models import Model

from sagas.aws import BEST_EFFORT
from sagas.core.rules import attention_code, error_in_trouble, listed_since, step_in_trouble
from sagas.core.states import SagaState
from sagas.core.text import iso
from sagas.store.connection import SharedConnection
from sagas.store.schema import CONTROL, OTHERS, STEP


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


def _attributes(types: Mapping[str, str]) -> dict[str, Attribute[Any]]:
    """Return PynamoDB's attributes. ``types``: DynamoDB's types by name."""
    kinds: dict[str, Callable[[], Attribute[Any]]] = {
        "S": lambda: UnicodeAttribute(null=True),
        "N": lambda: NumberAttribute(null=True),
        "BOOL": lambda: BooleanAttribute(null=True),
        "B": lambda: BinaryAttribute(legacy_encoding=False, null=True),
        "M": lambda: DocumentAttribute(null=True),
    }
    return {name: kinds[tag]() for name, tag in types.items()}


def _made(name: str, base: Any, members: Mapping[str, Any]) -> Any:
    """Return a subclass of one of PynamoDB's classes, whose metaclasses collect the attributes."""
    return new_class(name, (base,), exec_body=lambda body: body.update(members))


def _index(name: str, key: str, sort: str, projection: Projection | None = None) -> Any:
    """Return an index of control items. ``key``, ``sort``: its hash key and its range key."""
    keys = {key: UnicodeAttribute(hash_key=True), sort: UnicodeAttribute(range_key=True)}
    meta = {"index_name": name, "projection": projection or KeysOnlyProjection()}
    return _made("Index", GlobalSecondaryIndex, {"Meta": type("Meta", (), meta), **keys})()


def _control(settings: StoreSettings) -> Any:
    """Return the model of control items: what their description has, and the indexes."""
    return _made(
        "ControlItem",
        Model,
        {
            "Meta": _meta(settings.sagas_table),
            **_attributes(CONTROL.types | OTHERS),
            "saga_id": UnicodeAttribute(hash_key=True),
            "steps": ListAttribute(of=_made("Step", MapAttribute, _attributes(STEP.types))),
            "open": _index("open", "open_shard", "due"),
            "by_name": _index("by_name", "name_shard", "created_at"),
            "incidents": _index("incidents", "incident_shard", "incident", IncludeProjection(["seq"])),
            "by_end": _index("ended", "ended", "ended_at"),
        },
    )


@lru_cache(maxsize=32)
def tables_for(settings: StoreSettings) -> Tables:
    """Return the models of these tables. The models are cached by settings, because it takes a while to create them."""
    connection = SharedConnection(region=settings.region, host=settings.endpoint_url)
    best_effort = SharedConnection(region=settings.region, host=settings.endpoint_url)
    best_effort.config = BEST_EFFORT
    return tables_over(settings, connection, best_effort)


def tables_over(settings: StoreSettings, connection: SharedConnection, best_effort: SharedConnection) -> Tables:
    """Return new models of these tables, which use ``connection``."""

    class EntryItem(Model):
        """A journal entry. PynamoDB makes only requests about its key."""

        Meta = _meta(settings.audit_table)
        saga_id = UnicodeAttribute(hash_key=True)
        seq = NumberAttribute(range_key=True)

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

    models = (_control(settings), EntryItem, StreakItem, WatermarkItem, ScanPositionItem, JoinItem)
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
        error_type: the first 200 characters of the error's type, or the release that a saga waits for; empty if there
            is none.
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
        error = error_in_trouble(state)[:_LONGEST_ERROR]
        at = iso(listed_since(state))
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
