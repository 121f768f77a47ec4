"""Verifies single audit trails, or a random sample of them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from sagas.engine.clock import Clock
from sagas.engine.read.reader import Reader
from sagas.errors import NotFound
from sagas.store.connection import Changed
from sagas.store.control.control import ControlItems
from sagas.store.journal.chain import Bad, ChainFinding, Verified, Wrong, look_through, look_through_tombstone
from sagas.store.journal.entries import Entry
from sagas.store.journal.journal import Journal

_TRIES = 3
_OLDEST = 400 * 86_400.0
"""The number of seconds that a sample reaches back."""


class SampleReport(Struct):
    """Result of verifying a sample of audit trails.

    Args:
        verified: the number of verified trails, including the broken trails.
        broken: the type and id of each saga whose trail does not match its hashes, and the first bad entry.
        failed: the number of trails that could not be verified.
    """

    verified: int = 0
    broken: list[tuple[str, str, Bad]] = field(default_factory=list[tuple[str, str, Bad]])
    failed: int = 0


class Verifier(Struct, frozen=True):
    """Verifies audit trails against their hashes."""

    control: ControlItems
    journal: Journal
    reader: Reader
    clock: Clock
    shards: int

    def sample(self, size: int, budget: float) -> SampleReport:
        """Verify random sagas of all types from the last 400 days. Recent sagas are more likely. ``budget``: maximum
        seconds."""
        report = SampleReport()
        sampled_ids = set[str]()
        end = self.clock.now() + budget
        names = [saga.definition.name for saga in self.reader.registry]
        for _ in range(size):
            if self.clock.now() >= end:
                break
            name, shard = (int(self.clock.chance() * many) for many in (len(names), self.shards))
            at = self.clock.now() - self.clock.chance() ** 2 * _OLDEST
            saga_id = self.reader.listing.near(names[name], shard, at)
            if saga_id is None or saga_id in sampled_ids:
                continue
            sampled_ids.add(saga_id)
            try:
                finding = self.verify(names[name], saga_id).finding
            except NotFound:
                continue  # the saga was purged, and its tombstone has expired
            except Exception:  # noqa: BLE001 - whatever is wrong with one saga must not stop the others
                report.failed += 1
                continue
            report.verified += 1
            if finding.bad is not None:
                report.broken.append((names[name], saga_id, finding.bad))
        return report

    def verify(self, name: str, saga_id: str) -> Verified:
        """Verify the audit trail of one saga, including payloads in S3."""
        for _ in range(_TRIES):
            state = self.reader.stored(name, saga_id)
            if state is None or state.purge is not None:
                return self._verify_remains(name, saga_id)
            entries = self.journal.everything(saga_id)
            if entries and entries[0][1] is not None and entries[0][1].tombstone is not None:
                return self._verify_remains(name, saga_id)
            if entries and entries[-1][0] > state.seq + 1:
                # The saga has progressed. Read its item again, because an item must not be older than the entries.
                state = self.reader.stored(name, saga_id) or state
            finding = look_through(entries, state.seq, state.head)
            # If entries are missing because a purge has begun, try again.
            if finding.bad is None or self.reader.stored(name, saga_id) is not None:
                return Verified(self._with_payloads(finding, entries))
        return self._verify_remains(name, saga_id)

    def _verify_remains(self, name: str, saga_id: str) -> Verified:
        remains = self.reader.read_only(name, saga_id)
        first = self.journal.entries(saga_id, [1]).get(1)
        if first is not None and first.tombstone is not None:
            finding = look_through_tombstone(saga_id, first.saga, first.tombstone)
            return Verified(finding, first.tombstone.purge.at)
        entries = self.journal.everything(saga_id)
        return Verified(self._with_payloads(look_through(entries, remains.state.seq, remains.state.head), entries))

    def _with_payloads(self, finding: ChainFinding, entries: Sequence[tuple[int, Entry | None]]) -> ChainFinding:
        """Complete a finding: compare the payloads in S3 with the hashes in the entries."""
        for _, entry in entries:
            if entry is None or (finding.bad is not None and entry.seq >= finding.bad.seq):
                break
            if not entry.hashed:
                continue
            try:
                as_written = self.journal.load(entry).payload_hash == entry.hashed
            except Changed:
                as_written = False
            if not as_written:
                return replace(finding, bad=Bad(entry.seq, Wrong.CHANGED))
        return finding
