"""Reading sagas: one, its audit trail, lists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from sagas.core.rules import forward
from sagas.core.states import SagaState
from sagas.core.times import iso
from sagas.engine.breaker import Breakers
from sagas.engine.registry import Registry
from sagas.engine.views import audit_view, saga_view, summary_view
from sagas.errors import NotFound
from sagas.store.control import ControlItems
from sagas.store.entries import Entry
from sagas.store.journal import Journal
from sagas.store.listing import Listing, Page

_ROOM = 4_000_000
"""Bytes of payloads one answer may hold: Lambda's limit is 6 MB."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Answers questions about sagas."""

    registry: Registry
    control: ControlItems
    journal: Journal
    listing: Listing
    breakers: Breakers

    def state(self, name: str, saga_id: str) -> SagaState:
        """Return the saga as it is.

        Raises:
            NotFound: there is no such saga of that type.
        """
        self.registry.get(name)
        state = self.control.get(saga_id)
        if state is None or state.saga != name:
            raise NotFound(f"there is no saga {name}/{saga_id}")
        return state

    def show(self, name: str, saga_id: str) -> dict[str, Any]:
        """Return one saga with its steps, request and results."""
        state = self.state(name, saga_id)
        entries = self.journal.history(saga_id, up_to=state.seq)
        return self._held_back(state, saga_view(state, self._with_payloads(entries)))

    def _held_back(self, state: SagaState, view: dict[str, Any]) -> dict[str, Any]:
        """Say when the next attempt is due if an open circuit breaker puts it off."""
        step = state.current
        if step is None or not forward(state) or state.lease is not None:
            return view
        until = self.breakers.open_until(state.saga, step.name)
        if until:
            view["steps"][state.cursor]["next_attempt_at"] = iso(max(until, state.not_before))
        return view

    def _with_payloads(self, entries: list[Entry]) -> list[Entry]:
        """Load payloads that were stored aside, as long as there is room; beyond that say where they are."""
        room, loaded = _ROOM, list[Entry]()
        for entry in entries:
            full = self.journal.load(entry) if room > 0 else entry
            room -= len(full.payload or "")
            missing = full.payload is None and "payload_ref" in full.details
            loaded.append(replace(full, payload=f'{{"$ref":"{full.details["payload_ref"]}"}}') if missing else full)
        return loaded

    def audit(self, name: str, saga_id: str, limit: int, after: int) -> tuple[list[dict[str, Any]], int | None]:
        """Return committed entries in order after ``after``, and where to go on; ``None`` at the end."""
        state = self.state(name, saga_id)
        entries = self.journal.history(saga_id, after=after, up_to=state.seq, limit=limit)
        more = bool(entries) and entries[-1].seq < state.seq
        return [audit_view(entry) for entry in entries], entries[-1].seq if more else None

    def list(self, names: Iterable[str], status: str | None, limit: int, cursor: str | None) -> dict[str, Any]:
        """Return summaries, newest first. A page may be short when ``status`` filters it."""
        return self._summaries(self.listing.by_name(names, limit, cursor), status)

    def attention(self, name: str | None, limit: int, cursor: str | None) -> dict[str, Any]:
        """Return summaries of sagas that need a person, longest waiting first."""
        found = self._summaries(self.listing.attention(limit, cursor), None)
        kept = [saga for saga in found["sagas"] if "why" in saga and name in (None, saga["name"])]
        return found | {"sagas": kept}

    def _summaries(self, page: Page, status: str | None) -> dict[str, Any]:
        states = self.control.get_many(page.saga_ids)
        found = [states[saga_id] for saga_id in page.saga_ids if saga_id in states]
        kept = [summary_view(state) for state in found if status in (None, state.status.value)]
        return {"sagas": kept, "cursor": page.cursor}
