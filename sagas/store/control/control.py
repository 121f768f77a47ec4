"""Control items: the lock, the fencing token, the idempotency record and the state of each saga, in one item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from sagas.core.rules import awaits_release, in_wait, listed_since
from sagas.core.states import Lease, Progress, SagaState, SagaStatus, StepStatus
from sagas.core.text import iso
from sagas.errors import FORMAT, NewerFormat, SagaError
from sagas.store.connection import Fenced, FlagWon, Refused, placeholders, update_of
from sagas.store.control.mapping import (
    PAUSED,
    Item,
    attributes_of,
    due_at,
    incident_place,
    item_of,
    number_in,
    paused_shard,
    paused_until,
    sent_ahead,
    shard_of,
    state_of,
    wait_shard,
)
from sagas.store.journal.entries import Entry
from sagas.store.journal.journal import Journal
from sagas.store.schema import PROGRESS
from sagas.store.tables import StoreSettings, Tables

_STATUSES = attributes_of({f":{status}": status.value for status in (*SagaStatus, *StepStatus)})
_READABLE = "(attribute_not_exists(#format) OR #format <= :known_format)"
"""The condition that no newer version of the library has written the item."""
_UNCHANGED = f"{_READABLE} AND #token = :seen_token AND #seq = :seen_seq"
"""The condition that nothing was claimed or committed since the saga was read."""
_ON_ITS_WAY = (SagaStatus.PENDING.value, SagaStatus.RUNNING.value)
_FORWARD = (SagaStatus.PENDING.value, SagaStatus.RUNNING.value, SagaStatus.WAITING.value)
_IN_TIME = "(attribute_not_exists({0}) OR {0} <= :now)"
"""The condition that a time is absent or has passed."""
AHEAD = "(attribute_not_exists(#deadline) OR #deadline > :now OR attribute_exists(#overdue))"
"""The condition that the saga's own deadline has not passed, or is on record and the saga goes on (rule 20)."""
_RETURN_ITEM = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
"""Makes a refused write return the existing item, which saves a read."""


class ControlItems:
    """The table of control items. Every write requires that an attribute exists (rule 7), so only :meth:`create` can
    create an item.

    Marks are notes of processes other than the lease holder, and the holder's heartbeats. No mark advances a saga.

    This class builds the requests that every step needs, in DynamoDB's JSON. Placeholders have the names of their
    attributes: ``#status`` is the attribute, ``:status`` the value to set.
    """

    def __init__(self, tables: Tables, settings: StoreSettings) -> None:
        self._tables = tables
        self._settings = settings

    def get(self, saga_id: str) -> SagaState | None:
        """Return the saga by a consistent read; ``None`` if it does not exist."""
        item = self._item(saga_id)
        return state_of(item) if item else None

    def get_many(self, saga_ids: list[str], *, consistent: bool = False) -> dict[str, SagaState]:
        """Return the existing sagas. ``consistent``: use consistent reads, at twice the price."""
        keys = list(map(_key_of, saga_ids))
        items = self._tables.connection.get_many(self._settings.sagas_table, keys, consistent=consistent)
        return {state.saga_id: state for state in map(state_of, items)}

    def readable(self, saga_ids: list[str]) -> list[SagaState]:
        """Return the existing sagas that are not being purged, in this order.

        Sagas that a newer version of the library has written are left out.
        """
        try:
            states = self.get_many(saga_ids)
        except NewerFormat:
            states = dict[str, SagaState]()
            for saga_id in saga_ids:
                with suppress(NewerFormat):
                    state = self.get(saga_id)
                    states |= {} if state is None else {saga_id: state}
        return [states[saga_id] for saga_id in saga_ids if saga_id in states and not states[saga_id].purge]

    def create(self, state: SagaState, stale_after: float) -> bool:
        """Create the item of a new saga; return ``False`` if it exists already."""
        request = {
            "TableName": self._settings.sagas_table,
            "Item": item_of(state, self._settings, stale_after),
            "ConditionExpression": "attribute_not_exists(saga_id)",
        }
        try:
            self._tables.connection.dispatch("PutItem", request)
        except Refused:
            return False
        return True

    def create_again(
        self, state: SagaState, stale_after: float, journal: Journal, search_keys: Sequence[Item] = ()
    ) -> bool:
        """Create the item for a start that another caller has begun; return ``False`` if it exists or the saga was
        purged.

        A purge may have deleted the item since the caller's read, so the transaction checks that the first entry is not
        a tombstone (rule 13). It also writes the items of the search keys.
        """
        put = {
            "TableName": self._settings.sagas_table,
            "Item": item_of(state, self._settings, stale_after),
            "ConditionExpression": "attribute_not_exists(saga_id)",
        }
        writes: list[dict[str, Any]] = [{"Put": put}, {"ConditionCheck": journal.started_request(state.saga_id)}]
        writes += [{"Put": {"TableName": self._settings.sagas_table, "Item": item}} for item in search_keys]
        try:
            self._tables.connection.dispatch("TransactWriteItems", {"TransactItems": writes})
        except Refused:
            return False
        return True

    def claim_step(
        self,
        saga_id: str,
        index: int,
        dispatch: int,
        lease: Lease,
        now: float,
        name: str | None = None,
        kind: str | None = None,
    ) -> SagaState | None:
        """Lock the saga, count the attempt and mark the step running, in one conditional update and without a read.
        ``now``: epoch seconds. Returns the new state; ``None`` if the state does not allow a claim, or the step does
        not have this name and kind."""
        step = f"#steps[{index}]"
        allowed = [
            "#status IN (:PENDING, :RUNNING, :WAITING)",
            # A waiting step is only claimed if it polls.
            f"({step}.#status IN (:PENDING, :RETRYING) OR ({step}.#status = :WAITING AND attribute_exists(#polling)))",
            "attribute_not_exists(#cancel_requested_at)",  # no step is claimed once a cancel is accepted
            "attribute_not_exists(#recovery_exhausted)",
            AHEAD,
        ]
        if kind is not None:  # code of another kind must not run the saga's step
            allowed.append(f"{step}.#kind = :kind" if kind else f"attribute_not_exists({step}.#kind)")
        changes = [
            f"{step}.#status = :RUNNING",
            f"{step}.#attempts = {step}.#attempts + :one",  # rule 6: attempts are counted at claim
            "#status = :RUNNING",
        ]
        return self._claim(saga_id, index, dispatch, lease, now, name, allowed, changes, kind)

    def claim_undo(
        self, saga_id: str, index: int, dispatch: int, lease: Lease, now: float, name: str | None = None
    ) -> SagaState | None:
        """Claim an undo as :meth:`claim_step` claims a step, but only when no lost execution can act any more."""
        step = f"#steps[{index}]"
        allowed = ["#status = :COMPENSATING", _IN_TIME.format("#lost_until")]  # rule 5
        changes = [
            f"{step}.#status = :COMPENSATING",
            f"{step}.#undo_attempts = if_not_exists({step}.#undo_attempts, :zero) + :one",  # rule 6
        ]
        return self._claim(saga_id, index, dispatch, lease, now, name, allowed, changes, None)

    def _claim(
        self,
        saga_id: str,
        index: int,
        dispatch: int,
        lease: Lease,
        now: float,
        name: str | None,
        allowed: Sequence[str],
        changes: Sequence[str],
        kind: str | None,
    ) -> SagaState | None:
        condition = [
            "attribute_not_exists(#lease_owner)",  # rule 1: a lease is free if it was released, not if it has expired
            "#cursor = :index",
            "#dispatch = :dispatch",  # rule 8: a message with another number is stale
            _IN_TIME.format("#not_before"),
            _READABLE,
            *allowed,
        ]
        if name is not None:
            condition.append(f"#steps[{index}].#name = :name")
        hold = [
            "#token = #token + :one",
            "#lease_owner = :lease_owner",
            "#lease_expires_at = :lease_expires_at",
            "#act_until = :act_until",
        ]
        values = _STATUSES | attributes_of(
            {
                ":index": index,
                ":dispatch": dispatch,
                ":now": iso(now),
                ":known_format": FORMAT,
                ":name": name,
                ":kind": kind or None,
                ":zero": 0,
                ":one": 1,
                ":lease_owner": lease.owner,
                ":lease_expires_at": iso(lease.expires_at),
                ":act_until": iso(lease.act_until),
            }
        )
        change = f"SET {', '.join((*changes, *hold))} REMOVE #not_before"  # the time has passed
        update = self._update(saga_id, " AND ".join(condition), change, values) | _RETURN_ITEM
        try:
            answer = self._tables.connection.dispatch("UpdateItem", update | {"ReturnValues": "ALL_NEW"})
        except Refused as refused:
            return self._own_claim(refused, lease)
        return state_of(answer["Attributes"])

    def claim(self, before: SagaState, after: SagaState, stale_after: float) -> bool:
        """Take the lease of ``after`` if nothing has changed since ``before`` was read. Returns whether it was taken,
        maybe by an earlier try whose response was lost."""
        condition = _UNCHANGED
        # Rule 4: a takeover only takes the expired lease that was read. A heartbeat may have extended it since.
        condition += (
            " AND #lease_owner = :seen_owner AND #lease_expires_at = :seen_expiry"
            if before.lease
            else " AND attribute_not_exists(#lease_owner)"
        )
        try:
            self._tables.connection.dispatch("UpdateItem", self._move(before, after, condition, stale_after))
        except Refused as refused:
            return after.lease is not None and self._own_claim(refused, after.lease) is not None
        return True

    def commit(self, before: SagaState, after: SagaState, stale_after: float) -> None:
        """Move the pointer: commit the entry at ``before.seq + 1`` and set the next state. If ``seq`` stays the same,
        there is no entry, but the lease is still released."""
        update = self._move(before, after, self._mine(before, after), stale_after)
        joins = self._join_writes(before, after)
        try:
            if joins:
                self._joined([{"Update": update}], joins)
            else:
                self._tables.connection.dispatch("UpdateItem", update)
        except Refused as refused:
            if not self._committed_already(refused.items.get(0), before, after.seq - before.seq):
                raise Fenced("the commit was refused") from None

    def _join_writes(self, before: SagaState, after: SagaState) -> list[Item]:
        if not self._settings.joins_table:
            return []  # no saga of this service has children
        from sagas.store.joins import join_writes

        return join_writes(self._settings.joins_table, before, after)

    def _joined(self, writes: list[Item], joins: list[Item]) -> None:
        """Write the end of a child and its join in one transaction, so that the join counts it exactly once."""
        try:
            self._tables.connection.dispatch("TransactWriteItems", {"TransactItems": [*writes, *joins]})
        except Refused as refused:
            if min(refused.items) < len(writes):
                raise
            self._tables.connection.dispatch("TransactWriteItems", {"TransactItems": writes})

    def commit_and_claim(self, before: SagaState, after: SagaState, stale_after: float) -> bool:
        """Commit like :meth:`commit`, and in the same write claim the next step with the lease of ``after``, which has
        a new nonce. Returns whether the step is claimed. If not, an earlier try has committed the entry without a
        claim."""
        update = self._move(before, after, self._mine(before, after), stale_after, claims=True)
        try:
            self._tables.connection.dispatch("UpdateItem", update)
        except Refused as refused:
            # Rule 16: only the nonce proves the claim. A committed entry does not: an earlier try may have met a
            # cancel, and committed without a claim.
            if after.lease is not None and self._own_claim(refused, after.lease) is not None:
                return True
            if not self._committed_already(refused.items.get(0), before):
                raise Fenced("the commit was refused") from None
            return False
        return True

    def finish(self, entry: Entry, before: SagaState, after: SagaState, stale_after: float, journal: Journal) -> None:
        """Write the entry that ends the saga and commit it in one transaction. So no entry records an end that a cancel
        has prevented (rule 12)."""
        update = self._move(before, after, self._mine(before, after), stale_after)
        writes = [{"Put": journal.put_request(entry)}, {"Update": update}]
        try:
            self._joined(writes, self._join_writes(before, after))
        except Refused as refused:
            # If only the entry's condition has failed, no earlier try has succeeded.
            if 1 not in refused.items or not self._committed_already(refused.items[1], before):
                raise

    def _mine(self, before: SagaState, after: SagaState) -> str:
        """Return the condition of a commit."""
        mine = "#token = :seen_token AND #seq = :seen_seq"  # rules 1 and 3: only the holder, only the open slot
        ignoring = not before.cancel.at and not after.undoing
        forward = before.status.value in _FORWARD and ignoring
        # An accepted cancel prevents every step forward. A signal prevents every write that does not know of it and
        # changes its step, or sets the time at which a saga that waits for it is due.
        parts = [mine]
        for index, (was, now) in enumerate(zip(before.steps, after.steps, strict=True)):
            awaited = index == before.cursor and in_wait(before)
            if was.waits_for == "signal" and (awaited or was != now) and not was.signalled:
                parts.append(f"attribute_not_exists(#steps[{index}].#sig)")
        return " AND ".join([*parts, "attribute_not_exists(#cancel_requested_at)"] if forward else parts)

    @staticmethod
    def _own_claim(refused: Refused, lease: Lease) -> SagaState | None:
        """Return the saga if a refused claim succeeded in an earlier try without a response (rule 10): nonces match."""
        item = refused.items.get(0)
        state = None if item is None else state_of(item)
        return state if state is not None and state.lease is not None and state.lease.owner == lease.owner else None

    @staticmethod
    def _committed_already(item: Item | None, before: SagaState, moved: int = 1) -> bool:
        """Return whether an earlier try of a refused commit succeeded (rule 10). Then the pointer has moved by
        ``moved``. If that is 0, the lease is free under the same token."""
        if item is None or number_in(item, "token") != before.token:
            raise Fenced("the lease was taken over")
        current = state_of(item)
        if current.seq == before.seq + moved and (moved or current.lease is None):
            return True
        if current.lease is None or current.seq != before.seq:
            raise Fenced("the lease was released")
        if current.cancel.at and not before.cancel.at:
            raise FlagWon(current, "cancel")
        if any(now.signalled and not was.signalled for was, now in zip(before.steps, current.steps, strict=True)):
            raise FlagWon(current, "signal")
        return False

    def mark_unread(self, before: SagaState, after: SagaState, stale_after: float) -> bool:
        """Record why inputs cannot be read of a saga that no worker holds; return ``False`` if it has changed since it
        was read."""
        free = f"{_UNCHANGED} AND attribute_not_exists(#lease_owner)"
        try:
            self._tables.connection.dispatch("UpdateItem", self._move(before, after, free, stale_after))
        except Refused:
            return False
        return True

    def mark_read(self, state: SagaState, stale_after: float) -> None:
        """Take a saga off the attention list under its lease, because its inputs can be read again. If the lease is
        lost, do nothing."""
        mine = "#lease_owner = :seen_owner AND #token = :seen_token AND #seq = :seen_seq"
        with suppress(Refused):
            update = self._move(state, replace(state, unread=None), mine, stale_after)
            self._tables.connection.dispatch("UpdateItem", update)

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
        step = state.steps[index]
        place = f"#steps[{index}]"
        conditions = [
            _READABLE,
            "#token = :seen_token AND #seq = :seen_seq",
            "attribute_not_exists(#lease_owner)",
            "attribute_not_exists(#cancel_requested_at)",  # no child is started once a cancel is accepted
            "#status = :WAITING",
        ]
        values = _STATUSES | _seen(state) | attributes_of({":next": step.fan_out.handed_out + count, ":token": token})
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
        conditions = [_UNCHANGED, "attribute_not_exists(#purge)"]
        conditions.append("(attribute_not_exists(#lease_owner) OR #lease_expires_at < :now)")
        shard = str(shard_of(state.saga_id, self._settings.shards))
        values = _seen(state) | attributes_of({":order": number, ":one": 1, ":now": iso(now), ":open_shard": shard})
        values |= attributes_of({":due": iso(now)})
        change = "SET #order = :order, #token = #token + :one, #open_shard = :open_shard, #due = :due"
        return self._marked(state.saga_id, " AND ".join(conditions), change, values)

    def mark_paused(self, state: SagaState) -> bool:
        """Mark the saga as paused, so that it needs no message; return ``False`` if it has changed since it was read,
        or a worker holds it. While it is paused, it waits for no release."""
        shard = shard_of(state.saga_id, self._settings.shards)
        key = paused_shard(state.saga, shard, undo=state.undoing)
        values = attributes_of({":open_shard": key, ":due": iso(paused_until(state))})
        condition = f"{_UNCHANGED} AND attribute_not_exists(#lease_owner)"
        if not state.undoing:  # a cancel that was accepted in the meantime needs the message
            condition += " AND attribute_not_exists(#cancel_requested_at)"
        change = "SET #open_shard = :open_shard, #due = :due"
        if state.settling_since:
            change += f" REMOVE #settling_since{', #incident_shard, #incident' if awaits_release(state) else ''}"
        return self._marked(state.saga_id, condition, change, values | _seen(state))

    def mark_settling(self, state: SagaState) -> bool:
        """Record when a saga began to wait for a release of code that fits it, and list it, unless that is already
        recorded or the saga has changed. After the end of a long wait, no message is sent ahead any more."""
        condition = f"{_UNCHANGED} AND attribute_not_exists(#settling_since)"
        values = _seen(state) | attributes_of({":settling_since": int(state.settling_since)})
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
        model = self._tables.control
        shard = shard_of(state.saga_id, self._settings.shards)
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

    def delete(self, state: SagaState) -> bool:
        """Delete the item of a saga at the end of its purge; return ``False`` if it is missing or has changed."""
        condition = "attribute_exists(#purge) AND #token = :seen_token AND #seq = :seen_seq"
        names, used = placeholders(condition)
        request = {
            "TableName": self._settings.sagas_table,
            "Key": _key_of(state.saga_id),
            "ConditionExpression": condition,
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": {name: value for name, value in _seen(state).items() if name in used},
        }
        try:
            self._tables.connection.dispatch("DeleteItem", request)
        except Refused:
            return False
        return True

    def _item(self, saga_id: str) -> Item | None:
        request = {"TableName": self._settings.sagas_table, "Key": _key_of(saga_id), "ConsistentRead": True}
        return self._tables.connection.dispatch("GetItem", request).get("Item")

    def _move(
        self, before: SagaState, after: SagaState, condition: str, stale_after: float, *, claims: bool = False
    ) -> dict[str, Any]:
        """Return the update from one state to the next.

        ``due`` is always set, because claims do not change it, so the stored value may differ from that of ``before``.
        Writing an equal value costs nothing in an index.

        If another entry follows under the same lease, ``due`` stays the same until then, unless the shard changes: two
        moves in the index would cost four writes.

        ``progress`` is removed, because its execution has ended.

        If a commit ``claims`` the next step, ``due`` is the same as without the claim. A saga that advances is not
        paused.
        """
        after = replace(after, paused=False) if after.paused else after
        old, new = (dict(item_of(state, self._settings, stale_after)) for state in (before, after))
        if claims:
            new["due"] = attributes_of({"due": iso(due_at(replace(after, lease=None), stale_after))})["due"]
        keys = ("due", "open_shard")
        same_lease = before.lease and after.lease and before.lease.owner == after.lease.owner
        if same_lease and old.get("open_shard") == new.get("open_shard"):
            old, new = ({k: v for k, v in item.items() if k not in keys} for item in (old, new))
            keys = ()
        steps = zip(old.pop("steps")["L"], new.pop("steps")["L"], strict=True)
        changed = {index: is_ for index, (was, is_) in enumerate(steps) if was != is_}
        written = {name: value for name, value in new.items() if value != old.get(name) or name == "due"}
        removed = [name for name in dict.fromkeys(("progress", *keys, *old)) if name not in new]
        update, values = _assignments(changed, written)
        update = f"{update}REMOVE #{', #'.join(removed)}"
        return self._update(before.saga_id, condition, update, values | _seen(before)) | _RETURN_ITEM

    def _hold(self, state: SagaState, values: Item) -> bool:
        """Change attributes that are not state, if nothing has been committed under the lease (rule 1)."""
        if state.lease is None:
            raise SagaError("only a lease that is held can be extended")
        mine = "#lease_owner = :seen_owner AND #token = :seen_token AND #seq = :seen_seq"
        changes = "SET " + ", ".join(f"#{value[1:]} = {value}" for value in values)
        return self._marked(state.saga_id, mine, changes, values | _seen(state))

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
        return update_of(self._settings.sagas_table, _key_of(saga_id), condition, update, values)


def _assignments(steps: Mapping[int, Any], written: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the part of an update that sets steps and attributes, with its values."""
    sets = [f"#steps[{index}] = :step{index}" for index in steps] + [f"#{name} = :{name}" for name in written]
    values = {f":step{index}": step for index, step in steps.items()}
    values |= {f":{name}": value for name, value in written.items()}
    return f"SET {', '.join(sets)} " if sets else "", values


def progress_of(progress: Progress) -> Item:
    """Return the stored form of a progress."""
    return {"M": PROGRESS.packs(progress)}


def _key_of(saga_id: str) -> Item:
    """Return the key of a saga's control item."""
    return {"saga_id": {"S": saga_id}}


def _seen(state: SagaState) -> Item:
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
