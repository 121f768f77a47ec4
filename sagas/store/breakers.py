"""Circuit breakers: one item for each step that has one, beside the sagas, under a key no saga can have."""

from __future__ import annotations

from sagas.core.breaker import BreakerState
from sagas.store.mapping import text_of, time_of
from sagas.store.outcomes import Refused
from sagas.store.tables import Tables


class BreakerItems:
    """Reads breakers, and replaces one if no other did meanwhile."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def get(self, saga: str, step: str) -> BreakerState:
        """Return a step's breaker, by a consistent read; a closed one if it was never written.

        Raises:
            Unavailable: the store is out of reach.
        """
        model = self._tables.breaker
        try:
            item = model.get(_key(saga, step), consistent_read=True)
        except model.DoesNotExist:
            return BreakerState()
        return BreakerState(
            failures=int(item.failures),
            open_until=time_of(item.open_until),
            probe=item.probe or "",
            probe_until=time_of(item.probe_until),
            closed_at=time_of(item.closed_at),
            revision=item.revision,
        )

    def swap(self, saga: str, step: str, before: BreakerState, after: BreakerState) -> bool:
        """Write ``after``, whose revision is new, in place of ``before``.

        Returns:
            Whether it was written; ``False`` when another wrote first. A write whose answer was lost, and which
            was repeated, counts as written.

        Raises:
            Unavailable: the store is out of reach.
            Ambiguous: no answer came.
        """
        model = self._tables.breaker
        unseen = model.saga_id.does_not_exist()
        condition = model.revision == before.revision if before.revision else unseen
        item = model(
            saga_id=_key(saga, step),
            failures=after.failures,
            open_until=text_of(after.open_until),
            probe=after.probe or None,
            probe_until=text_of(after.probe_until),
            closed_at=text_of(after.closed_at),
            revision=after.revision,
        )
        try:
            item.save(condition=condition)
        except Refused:
            return self.get(saga, step).revision == after.revision
        return True


def _key(saga: str, step: str) -> str:
    return f"breaker#{saga}#{step}"
