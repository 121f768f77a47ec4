"""Verifying audit trails: one by one, and a sample of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sagas.engine.clock import Clock
from sagas.engine.read.reader import Reader
from sagas.errors import NotFound
from sagas.store.control.control import ControlItems
from sagas.store.journal.chain import Bad, Finding, Verified, Wrong, look_through, look_through_tombstone
from sagas.store.journal.entries import Entry
from sagas.store.journal.journal import Journal
from sagas.store.outcomes import Changed

_TRIES = 3
_OLDEST = 400 * 86_400.0
"""Seconds back that a sample reaches; the more recent, the more of it."""


@dataclass(slots=True)
class SampleReport:
    """What a look at a sample of audit trails found.

    Args:
        verified: how many were looked at, the broken ones included.
        broken: of which an entry is not what was written: type, id, and the first such entry.
        failed: they could not be looked at.
    """

    verified: int = 0
    broken: list[tuple[str, str, Bad]] = field(default_factory=list[tuple[str, str, Bad]])
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Verifier:
    """Verifies audit trails against their hashes."""

    control: ControlItems
    journal: Journal
    reader: Reader
    clock: Clock
    shards: int

    def sample(self, size: int, budget: float) -> SampleReport:
        """Verify sagas taken at random, of all types, from the last 400 days and the more recent the more of them.
        ``budget``: seconds it may take."""
        report, seen, end = SampleReport(), set[str](), self.clock.now() + budget
        names = [saga.definition.name for saga in self.reader.registry]
        for _ in range(size):
            if self.clock.now() >= end:
                break
            name, shard = (int(self.clock.chance() * many) for many in (len(names), self.shards))
            at = self.clock.now() - self.clock.chance() ** 2 * _OLDEST
            saga_id = self.reader.listing.near(names[name], shard, at)
            if saga_id is None or saga_id in seen:
                continue
            seen.add(saga_id)
            try:
                finding = self.verify(names[name], saga_id).finding
            except NotFound:
                continue  # it was purged, and its key is free again
            except Exception:  # noqa: BLE001 - one bad saga must not keep the others, whatever is wrong with it
                report.failed += 1
                continue
            report.verified += 1
            if finding.bad is not None:
                report.broken.append((names[name], saga_id, finding.bad))
        return report

    def verify(self, name: str, saga_id: str) -> Verified:
        """Verify the audit trail of one saga, payloads in S3 included."""
        for _ in range(_TRIES):
            state = self.reader.stored(name, saga_id)
            if state is None or state.purge is not None:
                return self._verify_left(name, saga_id)
            found = self.journal.everything(saga_id)
            if found and found[0][1] is not None and found[0][1].tombstone is not None:
                return self._verify_left(name, saga_id)
            if found and found[-1][0] > state.seq + 1:
                # It may have gone on since it was read. What was read before its item is committed by then.
                state = self.reader.stored(name, saga_id) or state
            finding = look_through(found, state.seq, state.head)
            # What was being purged meanwhile loses its entries.
            if finding.bad is None or self.reader.stored(name, saga_id) is not None:
                return Verified(self._with_payloads(finding, found))
        return self._verify_left(name, saga_id)

    def _verify_left(self, name: str, saga_id: str) -> Verified:
        left = self.reader.left(name, saga_id)
        first = self.journal.entries(saga_id, [1]).get(1)
        if first is not None and first.tombstone is not None:
            finding = look_through_tombstone(saga_id, first.saga, first.tombstone)
            return Verified(finding, first.tombstone.purge.at)
        found = self.journal.everything(saga_id)
        return Verified(self._with_payloads(look_through(found, left.state.seq, left.state.head), found))

    def _with_payloads(self, finding: Finding, found: Sequence[tuple[int, Entry | None]]) -> Finding:
        """The finding, with a look at payloads that are stored aside: the entry has their hash only."""
        for _, entry in found:
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
