"""Marks on control items: notes of processes other than the lease holder, and the holder's heartbeats.

No mark advances a saga. Each is an update whose condition is that the saga has not changed since it was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from sagas.core.rules import awaits_release, listed_since
from sagas.core.states import Progress, SagaState, SagaStatus, StepStatus
from sagas.core.text import iso
from sagas.errors import FORMAT, SagaError
from sagas.store.connection import Refused, update_of
from sagas.store.control.mapping import (
    PAUSED,
    Item,
    attributes_of,
    incident_place,
    number_in,
    paused_shard,
    paused_until,
    sent_ahead,
    shard_of,
    wait_shard,
)
from sagas.store.schema import PROGRESS
from sagas.store.tables import StoreSettings, Tables

STATUSES = attributes_of({f":{status}": status.value for status in (*SagaStatus, *StepStatus)})
READABLE = "(attribute_not_exists(#format) OR #format <= :known_format)"
"""The condition that no newer version of the library has written the item."""
_ON_ITS_WAY = (SagaStatus.PENDING.value, SagaStatus.RUNNING.value)


def progress_of(progress: Progress) -> Item:
    """Return the stored form of a progress."""
    return {"M": PROGRESS.packs(progress)}


class ControlMarks:
    """Writes cancels, requests of a parent, pauses, due times and heartbeats."""

    def __init__(self, tables: Tables, settings: StoreSettings) -> None:
        self._tables = tables
        self._settings = settings

    def _item(self, saga_id: str) -> Item | None:
        request = {"TableName": self._settings.sagas_table, "Key": key_of(saga_id), "ConsistentRead": True}
        return self._tables.connection.dispatch("GetItem", request).get("Item")

    def request_cancel(self, before: SagaState, after: SagaState) -> bool:
        """Set the cancel flag; return ``False`` if the state no longer allows it, for example because the pivot has
        completed.

        A saga that waited becomes due for the supervisor, in case the caller dies before it acts. It waits for no
        release and no operator any more.
        """
        model = self._tables.control
        waiting = before.status in (SagaStatus.DEAD_LETTERED, SagaStatus.WAITING)
        able = (before.status.value,) if waiting else _ON_ITS_WAY
        unlisted = [model.incident_shard.remove(), model.incident.remove()]
        flag = [
            model.cancel_requested_at.set(iso(after.cancel.at)),
            model.cancel_requested_by.set(after.cancel.by or "unknown"),
            *([model.cancel_reason.set(after.cancel.reason)] if after.cancel.reason else []),
            *([model.settling_since.remove(), *unlisted] if before.settling_since else []),
        ]
        shard = shard_of(before.saga_id, self._settings.shards)
        back = [model.open_shard.set(str(shard)), model.due.set(iso(after.cancel.at))]
        back += [] if before.settling_since else unlisted
        allowed = model.status.is_in(*able) & model.cancel_requested_at.does_not_exist()
        for index, step in enumerate(before.steps):
            if step.pivot:  # rule 17: past the pivot a saga only goes forward
                pivot = model.steps[index]
                allowed &= (pivot.status != StepStatus.COMPLETED.value) & pivot.lost.does_not_exist()
        if waiting or before.paused:
            return self._changed(before.saga_id, [*flag, *back], allowed)
        # A worker may have paused the saga since it was read. It must become due, or the cancel would wait for a
        # resume.
        paused = model.open_shard.startswith(PAUSED)
        return self._changed(before.saga_id, flag, allowed & ~paused) or self._changed(
            before.saga_id, [*flag, *back], allowed & paused
        )

    def mark_started(self, state: SagaState, index: int, count: int, token: int) -> bool:
        """Record that children of a step are being started; return ``False`` if the saga has changed since it was read.

        No lease is taken, but the token rises, so no claim overlooks these children. The token rises by a random
        number, which identifies the writer. So a success whose response was lost is recognized (rule 10).
        """
        step, place = state.steps[index], f"#steps[{index}]"
        conditions = [
            READABLE,
            "#token = :seen_token AND #seq = :seen_seq",
            "attribute_not_exists(#lease_owner)",
            "attribute_not_exists(#cancel_requested_at)",  # no child is started once a cancel is accepted
            "#status = :WAITING",
        ]
        values = STATUSES | seen(state) | attributes_of({":next": step.fan_out.handed_out + count, ":token": token})
        change = f"SET {place}.#next = :next, #token = :token"
        if self._marked(state.saga_id, " AND ".join(conditions), change, values):
            return True
        item = self._item(state.saga_id)
        return item is not None and number_in(item, "token") == token and number_in(item, "seq") == state.seq

    def order(self, state: SagaState, number: int, now: float) -> bool:
        """Set the parent's request to undo an ended saga; return ``False`` if the saga has changed since it was read.

        The saga becomes due for the supervisor, in case the parent's worker dies before it acts. ``now``: epoch
        seconds.
        """
        conditions = [READABLE, "#token = :seen_token AND #seq = :seen_seq", "attribute_not_exists(#purge)"]
        conditions.append("(attribute_not_exists(#lease_owner) OR #lease_expires_at < :now)")
        shard = str(shard_of(state.saga_id, self._settings.shards))
        values = seen(state) | attributes_of({":order": number, ":one": 1, ":now": iso(now), ":open_shard": shard})
        values |= attributes_of({":due": iso(now)})
        change = "SET #order = :order, #token = #token + :one, #open_shard = :open_shard, #due = :due"
        return self._marked(state.saga_id, " AND ".join(conditions), change, values)

    def mark_paused(self, state: SagaState) -> bool:
        """Mark the saga as paused, so that it needs no message; return ``False`` if it has changed since it was read,
        or a worker holds it. While it is paused, it waits for no release."""
        shard = shard_of(state.saga_id, self._settings.shards)
        key = paused_shard(state.saga, shard, undo=state.undoing)
        values = attributes_of({":open_shard": key, ":due": iso(paused_until(state))})
        condition = f"{READABLE} AND #token = :seen_token AND #seq = :seen_seq AND attribute_not_exists(#lease_owner)"
        if not state.undoing:  # a cancel that was accepted in the meantime needs the message
            condition += " AND attribute_not_exists(#cancel_requested_at)"
        change = "SET #open_shard = :open_shard, #due = :due"
        if state.settling_since:
            change += f" REMOVE #settling_since{', #incident_shard, #incident' if awaits_release(state) else ''}"
        return self._marked(state.saga_id, condition, change, values | seen(state))

    def mark_settling(self, state: SagaState) -> bool:
        """Record when a saga began to wait for a release of code that fits it, and list it, unless that is already
        recorded or the saga has changed. After the end of a long wait, no message is sent ahead any more."""
        unchanged = f"{READABLE} AND #token = :seen_token AND #seq = :seen_seq"
        condition = f"{unchanged} AND attribute_not_exists(#settling_since)"
        values = seen(state) | attributes_of({":settling_since": int(state.settling_since)})
        change = "SET #settling_since = :settling_since"
        shard = shard_of(state.saga_id, self._settings.shards)
        if awaits_release(state):
            values |= {f":{name}": value for name, value in incident_place(state, shard).items()}
            change += ", #incident_shard = :incident_shard, #incident = :incident"
        if sent_ahead(state):
            values |= attributes_of({":wait_shard": wait_shard(shard), ":open_shard": str(shard)})
            condition += " AND #open_shard = :wait_shard"
            change += ", #open_shard = :open_shard"
        return self._marked(state.saga_id, condition, change, values)

    def mark_resumed(self, state: SagaState, due: float) -> bool:
        """End the mark of a paused saga, which becomes due at ``due``; return ``False`` if it is no longer paused. If
        it waits for a release, that wait begins again. A worker may have marked that wait since the saga was read."""
        model, shard = self._tables.control, shard_of(state.saga_id, self._settings.shards)
        back = [model.open_shard.set(str(shard)), model.due.set(iso(due)), model.settling_since.remove()]
        if not listed_since(replace(state, settling_since=0.0)):
            back += [model.incident_shard.remove(), model.incident.remove()]
        return self._changed(state.saga_id, back, model.open_shard.startswith(PAUSED))

    def push_due(self, saga_id: str, seen: str, due: float) -> bool:
        """Make the saga due at ``due`` if the stored time is still ``seen`` (rule 9). Otherwise return ``False``. If
        the stored time is ``due``, an earlier try may have succeeded without a response (rule 10)."""
        model = self._tables.control
        return self._changed(saga_id, [model.due.set(iso(due))], (model.due == seen) | (model.due == iso(due)))

    def make_due(self, saga_id: str, due: float) -> bool:
        """Make a saga that no worker holds due at ``due``, unless it is due earlier, because a message to it was not
        sent. Returns whether it has become due."""
        model = self._tables.control
        return self._changed(
            saga_id, [model.due.set(iso(due))], (model.due > iso(due)) & model.lease_owner.does_not_exist()
        )

    def set_recovery_attempts(self, state: SagaState, attempts: int) -> bool:
        """Set the number of stalls since the last progress; return ``False`` if the saga has changed since."""
        model = self._tables.control
        action = model.recovery_attempts.set(attempts) if attempts else model.recovery_attempts.remove()
        return self._changed(state.saga_id, [action], (model.token == state.token) & (model.seq == state.seq))

    def extend(self, state: SagaState, expires_at: float, progress: Progress | None = None) -> bool:
        """Extend the lease to ``expires_at``, and record progress; return ``False`` if the lease is lost."""
        values = attributes_of({":lease_expires_at": iso(expires_at)})
        return self._hold(state, values | ({":progress": progress_of(progress)} if progress else {}))

    def note_progress(self, state: SagaState, progress: Progress) -> bool:
        """Record only the progress; return ``False`` if the lease is lost."""
        return self._hold(state, {":progress": progress_of(progress)})

    def _hold(self, state: SagaState, values: Item) -> bool:
        """Change attributes that are not state, if nothing has been committed under the lease (rule 1)."""
        if state.lease is None:
            raise SagaError("only a lease that is held can be extended")
        mine = "#lease_owner = :seen_owner AND #token = :seen_token AND #seq = :seen_seq"
        changes = "SET " + ", ".join(f"#{value[1:]} = {value}" for value in values)
        return self._marked(state.saga_id, mine, changes, values | seen(state))

    def _marked(self, saga_id: str, condition: str, change: str, values: Mapping[str, Item]) -> bool:
        """Make an update; return whether its condition held."""
        try:
            self._tables.connection.dispatch("UpdateItem", self._update(saga_id, condition, change, values))
        except Refused:
            return False
        return True

    def _changed(self, saga_id: str, actions: list[Any], condition: Any) -> bool:
        """Make an update through PynamoDB, for rare requests; return whether its condition held."""
        try:
            self._tables.control(saga_id).update(actions=actions, condition=condition)
        except Refused:
            return False
        return True

    def _update(self, saga_id: str, condition: str, update: str, values: Mapping[str, Item]) -> dict[str, Any]:
        """Return an update with only the values that it uses."""
        return update_of(self._settings.sagas_table, key_of(saga_id), condition, update, values)


def key_of(saga_id: str) -> Item:
    """Return the key of a saga's control item."""
    return {"saga_id": {"S": saga_id}}


def seen(state: SagaState) -> Item:
    """Return the values that the saga had when it was read. Conditions compare them with the stored values."""
    lease = state.lease
    return attributes_of(
        {
            ":known_format": FORMAT,
            ":seen_token": state.token,
            ":seen_seq": state.seq,
            ":seen_owner": lease and lease.owner,
            ":seen_expiry": lease and iso(lease.expires_at),
        }
    )
