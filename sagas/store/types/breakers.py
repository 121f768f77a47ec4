"""Circuit breakers: one item per step with a breaker, in the table of sagas, under a key that no saga can have.

Failures in a row are added and not overwritten, so many environments can count concurrently without retries. A
conditional update opens a breaker. It succeeds in one environment and is refused in all others.

While a breaker is not closed, the index of open sagas has it under a key of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sagas.core.gates import BreakerState, CountedError
from sagas.store.connection import Refused
from sagas.store.control.mapping import STOPPED, Item, attributes_of, number_in, text_in, text_of, time_of
from sagas.store.tables import StoreSettings, Tables

_CLOSED = "attribute_not_exists(#open_until)"
_ERROR = ("error_type", "error_at", "error_saga", "error_seq")
"""The attributes of the last error."""


class BreakerItems:
    """Reads and writes breakers. A failed write is not repeated, because a worker must not wait for it.

    Args:
        tables: the connections.
        settings: the settings, which name the table.
    """

    def __init__(self, tables: Tables, settings: StoreSettings) -> None:
        self._tables = tables
        self._settings = settings

    def get(self, saga: str, step: str) -> BreakerState:
        """Return a step's breaker, by a consistent read. If none was ever written, return a closed breaker."""
        request = {"TableName": self._settings.sagas_table, "Key": _key(saga, step), "ConsistentRead": True}
        return _state_of(self._tables.connection.dispatch("GetItem", request).get("Item", {}))

    def get_many(self, places: Iterable[tuple[str, str]]) -> dict[tuple[str, str], BreakerState]:
        """Return the breakers of these steps, which are named by saga type and step, by consistent reads."""
        by_key = {_text(saga, step): (saga, step) for saga, step in places}
        keys = [attributes_of({"saga_id": key}) for key in by_key]
        items = self._tables.connection.get_many(self._settings.sagas_table, keys, consistent=True)
        closed = dict.fromkeys(by_key.values(), BreakerState())
        return closed | {by_key[text_in(item, "saga_id")]: _state_of(item) for item in items}

    def count(self, saga: str, step: str, failures: int, error: CountedError, revision: str) -> BreakerState:
        """Add failures in a row to a closed breaker, only once even if the request arrives twice. ``error``: the last
        of them. Returns the breaker afterwards, unchanged if it is not closed."""
        stored = {"revision": revision, **_stored_error(error)}
        changes = [
            "#failures = if_not_exists(#failures, :zero) + :failures",
            *(f"#{name} = :{name}" for name in stored),
        ]
        values = {"zero": 0, "failures": failures, **stored}
        once = "(attribute_not_exists(#revision) OR #revision <> :revision)"
        return self._update(saga, step, changes, [_CLOSED, once], values) or self.get(saga, step)

    def forget(self, saga: str, step: str, revision: str) -> BreakerState | None:
        """Reset a closed breaker's failures after a success. Returns the breaker afterwards; ``None`` if it is not
        closed."""
        changes = ["#failures = :failures", "#revision = :revision"]
        return self._update(saga, step, changes, [_CLOSED], {"failures": 0, "revision": revision})

    def open(self, saga: str, step: str, threshold: int, opened: BreakerState) -> BreakerState | None:
        """Open a closed breaker whose failures have reached the threshold. Returns the breaker afterwards; ``None`` if
        another environment has opened it, or a success has reset it."""
        values = {
            "open_until": text_of(opened.open_until),
            "opened_at": text_of(opened.opened_at),
            "revision": opened.revision,
            **_place(opened),
        }
        changes = [f"#{name} = :{name}" for name in values]
        counted = [_CLOSED, "#failures >= :failures"]
        return self._update(saga, step, changes, counted, values | {"failures": threshold})

    def swap(self, saga: str, step: str, before: BreakerState, after: BreakerState) -> BreakerState:
        """Replace ``before`` with ``after``, which has a new revision. Returns the breaker afterwards: ``after``, or
        what another environment has written before."""
        stored = attributes_of(
            {
                "failures": after.failures,
                "open_until": text_of(after.open_until),
                "probe": after.probe or None,
                "probe_until": text_of(after.probe_until),
                "closed_at": text_of(after.closed_at),
                "opened_at": text_of(after.opened_at),
                "revision": after.revision,
                **_place(after),
                **_stored_error(after.last_error),
            }
        )
        unseen = "attribute_not_exists(saga_id)"
        request: dict[str, Any] = {
            "TableName": self._settings.sagas_table,
            "Item": _key(saga, step) | stored,
            "ConditionExpression": "#revision = :before" if before.revision else unseen,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        if before.revision:
            request["ExpressionAttributeNames"] = {"#revision": "revision"}
            request["ExpressionAttributeValues"] = attributes_of({":before": before.revision})
        try:
            self._tables.best_effort.dispatch("PutItem", request)
        except Refused as refused:
            return _state_of(refused.items.get(0) or {})
        return after

    def close(self, saga: str, step: str, now: float, revision: str) -> None:
        """Close a breaker, whatever its state is. ``now``: epoch seconds."""
        request = {
            "TableName": self._settings.sagas_table,
            "Key": _key(saga, step),
            "UpdateExpression": "SET #failures = :failures, #closed_at = :closed_at, #revision = :revision "
            "REMOVE #open_until, #probe, #probe_until, #open_shard, #due",
            "ExpressionAttributeNames": {
                f"#{name}": name
                for name in (
                    *("failures", "closed_at", "revision", "open_until", "probe", "probe_until"),
                    *("open_shard", "due"),
                )
            },
            "ExpressionAttributeValues": attributes_of(
                {":failures": 0, ":closed_at": text_of(now), ":revision": revision}
            ),
        }
        self._tables.connection.dispatch("UpdateItem", request)

    def _update(
        self,
        saga: str,
        step: str,
        changes: Sequence[str],
        conditions: Sequence[str],
        values: Mapping[str, str | int | None],
    ) -> BreakerState | None:
        """Update a breaker; ``None`` if a condition does not hold. ``values``: by placeholder."""
        expressions = " ".join([*changes, *conditions])
        names = ("failures", "open_until", "opened_at", "revision", "open_shard", "due", *_ERROR)
        request = {
            "TableName": self._settings.sagas_table,
            "Key": _key(saga, step),
            "UpdateExpression": "SET " + ", ".join(changes),
            "ConditionExpression": " AND ".join(conditions),
            "ExpressionAttributeNames": {f"#{name}": name for name in names if f"#{name}" in expressions},
            "ExpressionAttributeValues": attributes_of({f":{name}": value for name, value in values.items()}),
            "ReturnValues": "ALL_NEW",
        }
        try:
            return _state_of(self._tables.best_effort.dispatch("UpdateItem", request)["Attributes"])
        except Refused:
            return None


def _text(saga: str, step: str) -> str:
    return f"breaker#{saga}#{step}"


def breaker_of(key: str) -> tuple[str, str] | None:
    """Return the saga type and the step of a breaker's key; ``None`` if the key is not a breaker's."""
    kind, _, place = key.partition("#")
    saga, _, step = place.partition("#")
    return (saga, step) if kind == "breaker" else None


def _place(state: BreakerState) -> dict[str, str | None]:
    """Return a breaker's keys in the index of open sagas, which it has while it is not closed."""
    return {} if state.closed else {"open_shard": STOPPED, "due": text_of(state.open_until)}


def _key(saga: str, step: str) -> Item:
    return attributes_of({"saga_id": _text(saga, step)})


def _stored_error(error: CountedError | None) -> dict[str, str | int | None]:
    if error is None:
        return {}
    return dict(zip(_ERROR, (error.type, text_of(error.at), error.saga_id, error.seq), strict=True))


def _error_of(item: Item) -> CountedError | None:
    kind, at, saga_id, seq = _ERROR
    if kind not in item:
        return None
    return CountedError(text_in(item, kind), time_of(text_in(item, at)), text_in(item, saga_id), number_in(item, seq))


def _state_of(item: Item) -> BreakerState:
    return BreakerState(
        failures=number_in(item, "failures"),
        open_until=time_of(text_in(item, "open_until")),
        probe=text_in(item, "probe"),
        probe_until=time_of(text_in(item, "probe_until")),
        closed_at=time_of(text_in(item, "closed_at")),
        opened_at=time_of(text_in(item, "opened_at")),
        revision=text_in(item, "revision"),
        last_error=_error_of(item),
    )
