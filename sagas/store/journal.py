"""The journal: append-only and write-once. It is the audit trail and the source of results at the same time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from sagas.core.times import epoch, iso
from sagas.store.entries import Entry
from sagas.store.outcomes import Fenced, Refused, translated
from sagas.store.payloads import Payloads
from sagas.store.tables import Tables


class Journal:
    """Entries of all sagas, in the audit table."""

    def __init__(self, tables: Tables, payloads: Payloads) -> None:
        self._tables = tables
        self._payloads = payloads

    def item(self, entry: Entry) -> Any:
        """Return ``entry`` as an item, its payload stored aside if it is large."""
        text, ref = entry.payload, None
        if text is not None and self._payloads.is_large(text):
            text, ref = None, self._payloads.put(entry.saga_id, entry.seq, entry.token, text)
        return self._tables.entry(
            saga_id=entry.saga_id,
            seq=entry.seq,
            at=iso(entry.at),
            saga=entry.saga,
            action=entry.action,
            step=entry.step,
            attempt=entry.attempt,
            status=entry.status,
            actor=entry.actor,
            correlation_id=entry.correlation_id,
            trace_id=entry.trace_id or None,
            token=entry.token,
            details=entry.details,
            payload=text,
            payload_ref=ref,
        )

    @property
    def vacant(self) -> Any:
        """The condition that the slot is empty."""
        return self._tables.entry.seq.does_not_exist()

    def put(self, entry: Entry) -> Entry:
        """Write ``entry`` into its slot, once.

        Returns:
            ``entry``, or what the slot held already: my own earlier write (same token), or a predecessor's, to be
            adopted.

        Raises:
            Fenced: a successor wrote there.
            Ambiguous: no answer: the slot may hold the entry. Do not release the lease.
            Unavailable: nothing was written.
        """
        try:
            with translated():
                self.item(entry).save(condition=self.vacant)
        except Refused:
            return self.occupant(entry)
        return entry

    def occupant(self, entry: Entry) -> Entry:
        """Return what the slot of ``entry`` holds, if its holder may adopt it.

        Raises:
            Fenced: a successor wrote there.
        """
        found = self.entries(entry.saga_id, [entry.seq]).get(entry.seq)
        if found is None or found.token > entry.token:
            raise Fenced(f"entry {entry.seq} belongs to a successor")
        return found

    def entries(self, saga_id: str, seqs: Iterable[int]) -> dict[int, Entry]:
        """Return the entries at ``seqs``, by one consistent read of just these; none is read for an empty ``seqs``."""
        keys = [(saga_id, seq) for seq in sorted(set(seqs))]
        if not keys:
            return {}
        with translated():
            items = list(self._tables.entry.batch_get(keys, consistent_read=True))
        return {entry.seq: entry for entry in map(self._entry, items)}

    def history(self, saga_id: str, *, after: int = 0, up_to: int, limit: int | None = None) -> list[Entry]:
        """Return committed entries in order.

        Args:
            saga_id: whose.
            after: only entries with a higher ``seq``.
            up_to: the last committed ``seq``; what lies beyond may never be committed.
            limit: how many at most.
        """
        if up_to <= after:
            return []
        within = self._tables.entry.seq.between(after + 1, up_to)
        with translated():
            items = list(self._tables.entry.query(saga_id, within, consistent_read=True, limit=limit))
        return [self._entry(item, fetch=False) for item in items]

    def load(self, entry: Entry) -> Entry:
        """Return ``entry`` with a payload that was stored aside fetched."""
        key = entry.details.get("payload_ref")
        return entry if entry.payload is not None or not key else replace(entry, payload=self._payloads.get(key))

    def _entry(self, item: Any, *, fetch: bool = True) -> Entry:
        details: dict[str, Any] = dict(item.details)
        if item.payload_ref:
            details["payload_ref"] = item.payload_ref
        entry = Entry(
            saga_id=item.saga_id,
            seq=int(item.seq),
            at=epoch(item.at),
            saga=item.saga,
            action=item.action,
            step=item.step,
            attempt=None if item.attempt is None else int(item.attempt),
            status=item.status,
            actor=item.actor,
            correlation_id=item.correlation_id or "",
            trace_id=item.trace_id or "",
            token=int(item.token),
            details=details,
            payload=item.payload,
        )
        return self.load(entry) if fetch else entry
