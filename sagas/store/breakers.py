"""Circuit breakers: one item for each step that has one, beside the sagas, under a key no saga can have."""

from __future__ import annotations

from typing import Any

from sagas.core.breaker import BreakerState
from sagas.core.times import epoch, iso
from sagas.store.outcomes import Refused, translated
from sagas.store.tables import Tables


class BreakerItems:
    """Reads breakers, and replaces one if nobody else did meanwhile."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def get(self, saga: str, step: str) -> BreakerState:
        """Return a step's breaker, by a consistent read; a closed one if it was never written.

        Raises:
            Unavailable: the store is out of reach.
        """
        model = self._tables.breaker
        with translated():
            try:
                return _state_of(model.get(_key(saga, step), consistent_read=True))
            except model.DoesNotExist:
                return BreakerState()

    def swap(self, saga: str, step: str, before: BreakerState, after: BreakerState) -> bool:
        """Write ``after``, whose revision is new, in place of ``before``.

        Returns:
            Whether it was written; ``False`` when somebody else wrote first. A write whose answer was lost, and which
            was repeated, counts as written.

        Raises:
            Unavailable: the store is out of reach.
            Ambiguous: no answer came.
        """
        model = self._tables.breaker
        unseen = model.saga_id.does_not_exist()
        condition = model.revision == before.revision if before.revision else unseen
        try:
            with translated():
                self._item(saga, step, after).save(condition=condition)
        except Refused:
            return self.get(saga, step).revision == after.revision
        return True

    def _item(self, saga: str, step: str, state: BreakerState) -> Any:
        return self._tables.breaker(
            saga_id=_key(saga, step),
            failures=state.failures,
            open_until=_text(state.open_until),
            probe=state.probe or None,
            probe_until=_text(state.probe_until),
            closed_at=_text(state.closed_at),
            revision=state.revision,
        )


def _key(saga: str, step: str) -> str:
    return f"breaker#{saga}#{step}"


def _text(seconds: float) -> str | None:
    return iso(seconds) if seconds else None


def _time(text: str | None) -> float:
    return epoch(text) if text else 0.0


def _state_of(item: Any) -> BreakerState:
    return BreakerState(
        failures=int(item.failures),
        open_until=_time(item.open_until),
        probe=item.probe or "",
        probe_until=_time(item.probe_until),
        closed_at=_time(item.closed_at),
        revision=item.revision,
    )
