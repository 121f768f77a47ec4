"""The inbox: signals sent to steps, written once in the table of sagas, under keys that no saga can have."""

from __future__ import annotations

from msgspec import Struct

from sagas.core.states import SagaState, StepState, StepStatus
from sagas.core.text import epoch, iso
from sagas.errors import FORMAT, check_format
from sagas.paths import Place
from sagas.store.connection import Refused, update_of
from sagas.store.control.mapping import Item, attributes_of, number_in, shard_of, text_in
from sagas.store.journal.journal import Payloads, reading
from sagas.store.tables import StoreSettings, Tables, packed, unpacked


class SentSignal(Struct, frozen=True):
    """A value sent to a step.

    Args:
        payload: the value, as JSON text.
        content: the hash of the value as its type encodes it, by which a repeated signal is recognized.
        actor: the sender.
        at: epoch seconds.
        hidden: the paths to the hidden parts of the value.
        salt: random characters of a caller, which name its object in S3. If the signal is refused, the object is
            deleted. Empty if a step answers its own wait: its function cannot delete anything.
    """

    payload: str
    content: str
    actor: str
    at: float
    hidden: tuple[Place, ...] = ()
    salt: str = ""


_COMING = ("PENDING", "RUNNING", "RETRYING")


class Inbox:
    """Stores signals by saga, step and round. Each signal is written once, together with its step's flag in the control
    item."""

    def __init__(self, tables: Tables, settings: StoreSettings, payloads: Payloads) -> None:
        self._tables = tables
        self._settings = settings
        self._payloads = payloads

    taking = "#status IN (:PENDING, :RUNNING, :WAITING, :DEAD_LETTERED)"
    """The condition that a saga may still reach a step, or waits at it."""

    def accept(self, before: SagaState, index: int, signal: SentSignal, stale_after: float) -> bool:
        """Put a value into the inbox and set its step's flag, in one transaction. ``stale_after``: seconds after which
        the supervisor acts on the signal if the caller dies first. Returns whether both were written. If not, neither
        was written, and the caller must read the saga again."""
        step = before.steps[index]
        place = f"#steps[{index}]"
        text = self._payloads.encrypted(before.saga_id, _place(step.name, step.round), signal.payload)
        ref = None
        if self._payloads.is_large(text):
            ref = self._payloads.put(before.saga_id, 0, signal.salt or step.round, text)
            text = None
        item = attributes_of(
            {
                "saga_id": _key(before.saga_id, step.name, step.round),
                "format": FORMAT,
                "content": signal.content,
                "payload": text,
                "payload_ref": ref,
                "actor": signal.actor,
                "at": iso(signal.at),
            }
        )
        if signal.hidden:
            item["hidden"] = packed(signal.hidden)
        table = self._settings.sagas_table
        put = {"TableName": table, "Item": item, "ConditionExpression": "attribute_not_exists(saga_id)"}
        waiting = step.status is StepStatus.WAITING
        conditions = [
            "(attribute_not_exists(#format) OR #format <= :known_format)",
            self.taking,
            "attribute_not_exists(#cancel_requested_at)",
            "attribute_not_exists(#recovery_exhausted)",
            f"{place}.#name = :name",
            f"{place}.#status {'= :WAITING' if waiting else 'IN (:PENDING, :RUNNING, :RETRYING)'}",
            f"attribute_not_exists({place}.#sig)",
            f"{place}.#round = :round" if step.round else f"attribute_not_exists({place}.#round)",
        ]
        # The caller may die before it acts on the signal, long before the wait ends. So the saga moves to the usual
        # shard. In the shard of waits, the tick may already have scanned past the time.
        changes = f"SET {place}.#sig = :sig" + (", #due = :due, #open_shard = :open_shard" if waiting else "")
        values = attributes_of({f":{status}": status for status in (*_COMING, "WAITING", "DEAD_LETTERED")})
        shard = str(shard_of(before.saga_id, self._settings.shards))
        values |= attributes_of(
            {
                ":known_format": FORMAT,
                ":name": step.name,
                ":round": step.round,
                ":sig": True,
                ":due": iso(before.in_time(signal.at + stale_after)),
                ":open_shard": shard,
            }
        )
        key = {"saga_id": {"S": before.saga_id}}
        flag = update_of(table, key, " AND ".join(conditions), changes, values)
        try:
            self._tables.connection.dispatch("TransactWriteItems", {"TransactItems": [{"Put": put}, {"Update": flag}]})
        except Refused:
            if ref and signal.salt:
                self._payloads.discard(ref, text_in(self._item(before.saga_id, step), "payload_ref"))
            return False
        return True

    def _item(self, saga_id: str, step: StepState) -> Item:
        """Return the item of a step's current round, by a consistent read; empty if there is none."""
        key = {"saga_id": {"S": _key(saga_id, step.name, step.round)}}
        request = {"TableName": self._settings.sagas_table, "Key": key, "ConsistentRead": True}
        return self._tables.connection.dispatch("GetItem", request).get("Item", {})

    def get(self, saga_id: str, step: StepState) -> SentSignal | None:
        """Return the signal sent to a step in the current round, by a consistent read; ``None`` if there is none."""
        item = self._item(saga_id, step)
        if not item:
            return None
        check_format(number_in(item, "format"), f"a signal of saga {saga_id}")
        ref = text_in(item, "payload_ref")
        with reading(saga_id, ref):
            payload = self._payloads.get(ref) if ref else item["payload"]["S"]
        payload = self._payloads.decrypted(saga_id, _place(step.name, step.round), payload)
        paths: list[list[str]] = unpacked(item["hidden"]) if "hidden" in item else []
        hidden = tuple(tuple(path) for path in paths)
        return SentSignal(payload, item["content"]["S"], item["actor"]["S"], epoch(item["at"]["S"]), hidden)

    def delete(self, state: SagaState) -> None:
        """Delete all signals of a saga, from all rounds. Missing signals count as deleted."""
        for step in state.steps:
            for number in range(step.round + 1 if step.waits_for == "signal" else 0):
                key = {"saga_id": {"S": _key(state.saga_id, step.name, number)}}
                self._tables.connection.dispatch("DeleteItem", {"TableName": self._settings.sagas_table, "Key": key})


def _key(saga_id: str, step: str, number: int) -> str:
    return f"{saga_id}#{_place(step, number)}"


def _place(step: str, number: int) -> str:
    return f"signal#{step}#{number}"
