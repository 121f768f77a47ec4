"""What is there when all is at rest, for the invariants that hold then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sagas.core.states import SagaState
from sagas.engine.registry import Registry
from sagas.store.journal.entries import Entry
from tests.faults.mailbox import Letter
from tests.faults.world import Began, Event, Rows, never_started_in, rows_of
from tests.interleavings.replay import Replay
from tests.interleavings.snapshot import Snapshot
from tests.support.tables import StrictTables


@dataclass(frozen=True, slots=True)
class Remains:
    """A last moment. ``tables``: their content."""

    replay: Replay
    tables: StrictTables
    last: Snapshot

    @property
    def registry(self) -> Registry:
        """The saga types."""
        return self.replay.registry

    @property
    def letters(self) -> list[Letter]:
        """The messages in the queues."""
        return self.last.mail.opened

    @property
    def dead_letters(self) -> list[Letter]:
        """The messages in the dead-letter queue."""
        return self.last.mail.buried

    @property
    def events(self) -> list[Event]:
        """The executions that were begun. Their order is looked at as they begin."""
        return [Began(*execution, 0, 0.0, 0.0, 0, 0) for execution in self.last.begun]

    def half_purged(self) -> list[str]:
        """What a purge left undone, each in a sentence."""
        purging = [state for state in self.states() if state.purge]
        return [f"the purge of {state.saga_id} was never ended" for state in purging]

    def states(self) -> list[SagaState]:
        """The saga and its children, as the store reads them."""
        ids = [row["saga_id"]["S"] for row in self.tables.items(self.replay.settings.sagas_table) if "steps" in row]
        with self.replay.asking(self.tables):
            found = self.replay.engine.control.get_many(ids)
        return list(found.values())

    def entries(self, saga_id: str) -> Rows:
        """Its journal."""
        return rows_of(self.tables.items(self.replay.settings.audit_table), saga_id)

    def everything(self, saga_id: str) -> list[tuple[int, Entry | None]]:
        """Its journal, as the store reads it."""
        with self.replay.asking(self.tables):
            return self.replay.engine.journal.everything(saga_id)

    def joins(self) -> list[dict[str, Any]]:
        """What the table of joins holds."""
        return self.tables.items("one-joins")

    def never_started(self) -> list[tuple[str, str]]:
        """The children that were decided never to start."""
        return never_started_in(self.tables.items(self.replay.settings.audit_table))

    def lost_payloads(self) -> list[str]:
        """None: no payload here is large."""
        return []
