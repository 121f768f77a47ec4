"""What a scenario goes through: the rows of the automaton, and the features of the library."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from sagas.core import automaton
from sagas.core.automaton import Row
from sagas.core.states import SagaStatus
from sagas.store.journal.tombstones import tombstone_in
from sagas.testing.faults import Plan, Trial
from tests.faults.explore import replay
from tests.faults.scenarios import EVERY
from tests.faults.world import CrashWorld, Entered

_Table = dict[tuple[SagaStatus, type[Any]], Row]


@dataclass(frozen=True, slots=True)
class Life:
    """One run of a scenario.

    Args:
        trial: its disturbance, its requests and what was violated.
        end: the status of the first saga that a caller started; ``PURGED`` if that is purged.
        features: the saga types it started, the actions in their journals, and what the tables alone tell.
        rows: the rows of the automaton that it entered.
    """

    trial: Trial
    end: str
    features: frozenset[str]
    rows: frozenset[Row]

    @property
    def happy(self) -> bool:
        """Whether all went well in the end."""
        return self.end in ("COMPLETED", "PURGED")


@contextmanager
def rows_entered() -> Generator[set[Row]]:
    """Collect the rows of the automaton that are looked up."""
    entered = set[Row]()

    class Recorded(_Table):
        def get(self, key: Any, default: Any = None, /) -> Any:
            row = super().get(key, default)
            if row is not None:
                entered.add(row)
            return row

    with patch.object(automaton, "TABLE", Recorded(automaton.TABLE)):
        yield entered


def live(world: CrashWorld, name: str, plan: Plan = ()) -> Life:
    """Run a scenario once."""
    with rows_entered() as rows:
        [trial] = replay(world, name, [plan])
    with world.wire.installed():
        asked = world.asked()
    first = min(asked, key=lambda state: state.saga_id, default=None)
    return Life(trial, first.status.value if first else "PURGED", _features(world, name), frozenset(rows))


def _features(world: CrashWorld, name: str) -> frozenset[str]:
    items = world.tables.tables
    types = {item["saga"]["S"] for table in items.values() for item in table.values() if "saga" in item}
    actions = {event.action for event in world.events if isinstance(event, Entered)}
    audit = items.get(world.settings.audit_table, {})
    told = {
        "a type paused": ("pauses",) in items.get(world.settings.sagas_table, {}),
        "purged": any(tombstone_in(item) is not None for item in audit.values()),
        "chained": EVERY[name].chained,
        "a message a step": not EVERY[name].chained,
    }
    return frozenset(types | actions | {feature for feature, shown in told.items() if shown})
