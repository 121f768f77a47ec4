"""Reading sagas: one, its audit trail, lists."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from sagas.core.rules import forward
from sagas.core.states import SagaState
from sagas.core.times import iso
from sagas.engine.answers import AuditEntry, Page, SagaView
from sagas.engine.breaker import Breakers
from sagas.engine.registry import Registry
from sagas.engine.views import audit_view, saga_view, summary_view
from sagas.errors import NotFound
from sagas.formats import NewerFormat
from sagas.store.control import ControlItems
from sagas.store.entries import Entry
from sagas.store.journal import Journal
from sagas.store.listing import Listing

_ROOM = 4_000_000
"""Bytes of payloads one answer may hold: Lambda's limit is 6 MB."""


def readable(control: ControlItems, saga_ids: list[str]) -> list[SagaState]:
    """Return those of the sagas, in this order, that exist and that this version can read.

    A newer version may be at work beside this one: what it wrote is left out of lists.

    Raises:
        Unavailable: the store is out of reach.
    """
    try:
        found = control.get_many(saga_ids)
    except NewerFormat:
        found = dict[str, SagaState]()
        for saga_id in saga_ids:
            with suppress(NewerFormat):
                state = control.get(saga_id)
                found |= {} if state is None else {saga_id: state}
    return [found[saga_id] for saga_id in saga_ids if saga_id in found]


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
            Unavailable: the store is out of reach, or a newer version wrote the saga.
        """
        self.registry.get(name)
        state = self.control.get(saga_id)
        if state is None or state.saga != name:
            raise NotFound(f"there is no saga {name}/{saga_id}")
        return state

    def show(self, name: str, saga_id: str) -> SagaView:
        """Return one saga with its steps, request and results.

        Raises:
            NotFound: there is no such saga of that type.
        """
        state = self.state(name, saga_id)
        room, entries = _ROOM, list[Entry]()
        for entry in self.journal.history(saga_id, up_to=state.seq):
            # Payloads that were stored aside are loaded as long as there is room; beyond that it says where they are.
            full = self.journal.load(entry) if room > 0 else entry
            room -= len(full.payload or "")
            if full.payload is None and "payload_ref" in full.details:
                full = replace(full, payload=f'{{"$ref":"{full.details["payload_ref"]}"}}')
            entries.append(full)
        view, step = saga_view(state, entries), state.current
        if step is not None and forward(state) and state.lease is None:
            # An open circuit breaker puts the next attempt off.
            breaker = self.breakers.waits_behind(state.saga, step.name)
            if breaker is not None:
                view["breaker"] = {"step": step.name, "open_until": iso(breaker.open_until)}
                view["steps"][state.cursor]["next_attempt_at"] = iso(max(breaker.open_until, state.not_before))
        return view

    def audit(self, name: str, saga_id: str, limit: int, after: int) -> tuple[list[AuditEntry], int | None]:
        """Return committed entries in order after ``after``, and where to go on; ``None`` at the end.

        Raises:
            NotFound: there is no such saga of that type.
        """
        state = self.state(name, saga_id)
        entries = self.journal.history(saga_id, after=after, up_to=state.seq, limit=limit)
        more = bool(entries) and entries[-1].seq < state.seq
        return [audit_view(entry) for entry in entries], entries[-1].seq if more else None

    def list(self, names: Iterable[str], status: str | None, limit: int, cursor: str | None) -> Page:
        """Return summaries, newest first. A page may be short when ``status`` filters it."""
        page = self.listing.by_name(names, limit, cursor)
        found = readable(self.control, page.saga_ids)
        shown = [summary_view(state) for state in found if status in (None, state.status.value)]
        return {"sagas": shown, "cursor": page.cursor}

    def attention(self, name: str | None, limit: int, cursor: str | None) -> Page:
        """Return summaries of sagas that need a person, longest waiting first."""
        page = self.listing.attention(limit, cursor)
        found = readable(self.control, page.saga_ids)
        shown = [summary_view(state) for state in found if name in (None, state.saga)]
        return {"sagas": [saga for saga in shown if "why" in saga], "cursor": page.cursor}
