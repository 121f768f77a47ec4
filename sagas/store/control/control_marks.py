"""Marks on control items: what others note there beside the one whose lease it is, and the lease's own signs of life.

None of them moves a saga on. Each is one update, on condition that the saga is as it was seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sagas.core.states import Progress, SagaState, SagaStatus, StepStatus
from sagas.core.text import iso
from sagas.errors import SagaError
from sagas.formats import FORMAT
from sagas.store.control.mapping import (
    PARKED,
    Item,
    attributes_of,
    number_in,
    parked_shard,
    parked_until,
    progress_of,
    shard_of,
)
from sagas.store.expressions import update_of
from sagas.store.outcomes import Refused
from sagas.store.settings import StoreSettings
from sagas.store.tables import Tables

STATUSES = attributes_of({f":{status}": status.value for status in (*SagaStatus, *StepStatus)})
READABLE = "(attribute_not_exists(#format) OR #format <= :known_format)"
"""What a newer version wrote is left to it."""
_ON_ITS_WAY = (SagaStatus.PENDING.value, SagaStatus.RUNNING.value)


class ControlMarks:
    """Cancels, orders, parking, due times, heartbeats."""

    def __init__(self, tables: Tables, settings: StoreSettings) -> None:
        self._tables = tables
        self._settings = settings

    def _item(self, saga_id: str) -> Item | None:
        request = {"TableName": self._settings.sagas_table, "Key": key_of(saga_id), "ConsistentRead": True}
        return self._tables.connection.dispatch("GetItem", request).get("Item")

    def request_cancel(self, before: SagaState, after: SagaState) -> bool:
        """Set the cancel flag; ``False`` when the state no longer allows it: its pivot may have completed meanwhile.

        A saga that waited is the supervisor's from now on: the caller may die before acting on it.
        """
        model = self._tables.control
        waiting = before.status in (SagaStatus.DEAD_LETTERED, SagaStatus.WAITING)
        able = (before.status.value,) if waiting else _ON_ITS_WAY
        flag = [
            model.cancel_requested_at.set(iso(after.cancel.at)),
            model.cancel_requested_by.set(after.cancel.by or "unknown"),
            *([model.cancel_note.set(after.cancel.note)] if after.cancel.note else []),
        ]
        shard = shard_of(before.saga_id, self._settings.shards)
        back = [model.open_shard.set(str(shard)), model.due.set(iso(after.cancel.at))]
        back += [model.attention_shard.remove(), model.attention_at.remove()]
        allowed = model.status.is_in(*able) & model.cancel_requested_at.does_not_exist()
        for index, step in enumerate(before.steps):
            if step.pivot:  # rule 17: past it a saga only goes forward
                pivot = model.steps[index]
                allowed &= (pivot.status != StepStatus.COMPLETED.value) & pivot.lost.does_not_exist()
        if waiting or before.parked:
            return self._changed(before.saga_id, [*flag, *back], allowed)
        # A worker may have parked it since it was read. Then nobody would look at it before its type is resumed.
        parked = model.open_shard.startswith(PARKED)
        return self._changed(before.saga_id, flag, allowed & ~parked) or self._changed(
            before.saga_id, [*flag, *back], allowed & parked
        )

    def hand_out(self, state: SagaState, index: int, count: int, token: int) -> bool:
        """Note that children of a step are handed out to be started; ``False`` if the saga is not as it was read.

        No lease is taken, but the token rises: who claims the saga knows how many there are. By how much it rises is
        chance, which tells whose hand-out it was: this write's own success, if its answer was lost, counts (rule 10).
        """
        step, place = state.steps[index], f"#steps[{index}]"
        conditions = [
            READABLE,
            "#token = :seen_token AND #seq = :seen_seq",
            "attribute_not_exists(#lease_owner)",
            "attribute_not_exists(#cancel_requested_at)",  # nothing is started once a cancel is accepted
            "#status = :WAITING",
        ]
        values = STATUSES | seen(state) | attributes_of({":next": step.fan_out.handed_out + count, ":token": token})
        change = f"SET {place}.#next = :next, #token = :token"
        if self._marked(state.saga_id, " AND ".join(conditions), change, values):
            return True
        found = self._item(state.saga_id)
        return found is not None and number_in(found, "token") == token and number_in(found, "seq") == state.seq

    def order(self, state: SagaState, number: int, now: float) -> bool:
        """Set the parent's order to undo a saga that is over; ``False`` if it is not as it was read.

        It is the supervisor's from now on: who gives the order may die before it is carried out. ``now``: epoch
        seconds.
        """
        conditions = [READABLE, "#token = :seen_token AND #seq = :seen_seq", "attribute_not_exists(#purge)"]
        conditions.append("(attribute_not_exists(#lease_owner) OR #lease_expires_at < :now)")
        shard = str(shard_of(state.saga_id, self._settings.shards))
        values = seen(state) | attributes_of({":order": number, ":one": 1, ":now": iso(now), ":open_shard": shard})
        values |= attributes_of({":due": iso(now)})
        change = "SET #order = :order, #token = #token + :one, #open_shard = :open_shard, #due = :due"
        return self._marked(state.saga_id, " AND ".join(conditions), change, values)

    def park(self, state: SagaState) -> bool:
        """Have the saga wait, without a message, until its type is no longer paused; ``False`` when it has changed
        since it was read, or a worker holds it."""
        shard = shard_of(state.saga_id, self._settings.shards)
        key = parked_shard(state.saga, shard, undo=state.undoing)
        values = attributes_of({":open_shard": key, ":due": iso(parked_until(state))})
        condition = f"{READABLE} AND #token = :seen_token AND #seq = :seen_seq AND attribute_not_exists(#lease_owner)"
        if not state.undoing:  # a cancel that was accepted meanwhile needs the message at hand
            condition += " AND attribute_not_exists(#cancel_requested_at)"
        change = "SET #open_shard = :open_shard, #due = :due"
        return self._marked(state.saga_id, condition, change, values | seen(state))

    def unpark(self, state: SagaState, due: float) -> bool:
        """Have the supervisor look at a parked saga again, at ``due``: its message is to be sent; ``False`` when it is
        parked no more."""
        model, shard = self._tables.control, shard_of(state.saga_id, self._settings.shards)
        back = [model.open_shard.set(str(shard)), model.due.set(iso(due))]
        return self._changed(state.saga_id, back, model.open_shard.startswith(PARKED))

    def push_due(self, saga_id: str, seen: str, due: float) -> bool:
        """Have the supervisor look again at ``due``, if it still is to look at what it saw (rule 9); ``False`` if
        not. That it is to look at ``due`` already may be this write's own doing, whose answer was lost (rule 10)."""
        model = self._tables.control
        return self._changed(saga_id, [model.due.set(iso(due))], (model.due == seen) | (model.due == iso(due)))

    def set_recovery_attempts(self, state: SagaState, attempts: int) -> bool:
        """Set the number of stalls since the last progress; ``False`` if the saga has changed since it was read."""
        model = self._tables.control
        action = model.recovery_attempts.set(attempts) if attempts else model.recovery_attempts.remove()
        return self._changed(state.saga_id, [action], (model.token == state.token) & (model.seq == state.seq))

    def extend(self, state: SagaState, expires_at: float, progress: Progress | None = None) -> bool:
        """Push the lease's end out to ``expires_at``, and note a progress; ``False`` when the lease is lost."""
        values = attributes_of({":lease_expires_at": iso(expires_at)})
        return self._hold(state, values | ({":progress": progress_of(progress)} if progress else {}))

    def note_progress(self, state: SagaState, progress: Progress) -> bool:
        """Note how far the execution is, and nothing else; ``False`` when the lease is lost."""
        return self._hold(state, {":progress": progress_of(progress)})

    def _hold(self, state: SagaState, values: Item) -> bool:
        """Change what is no state, as long as nothing was committed under the lease (rule 1)."""
        if state.lease is None:
            raise SagaError("only a lease that is held can be extended")
        mine = "#lease_owner = :seen_owner AND #token = :seen_token AND #seq = :seen_seq"
        changes = "SET " + ", ".join(f"#{value[1:]} = {value}" for value in values)
        return self._marked(state.saga_id, mine, changes, values | seen(state))

    def _marked(self, saga_id: str, condition: str, change: str, values: Mapping[str, Item]) -> bool:
        """Whether an update was made."""
        try:
            self._tables.connection.dispatch("UpdateItem", self._update(saga_id, condition, change, values))
        except Refused:
            return False
        return True

    def _changed(self, saga_id: str, actions: list[Any], condition: Any) -> bool:
        """Whether an update was made; what asks for it comes by rarely, so PynamoDB puts it together."""
        try:
            self._tables.control(saga_id).update(actions=actions, condition=condition)
        except Refused:
            return False
        return True

    def _update(self, saga_id: str, condition: str, update: str, values: Mapping[str, Item]) -> dict[str, Any]:
        """An update, of whose values it takes those that it names."""
        return update_of(self._settings.sagas_table, key_of(saga_id), condition, update, values)


def key_of(saga_id: str) -> Item:
    """The key of a saga's control item."""
    return {"saga_id": {"S": saga_id}}


def seen(state: SagaState) -> Item:
    """The values of conditions on what was read."""
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
