"""Reading sagas: one, its audit trail, lists."""

from __future__ import annotations

import builtins
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from sagas.core.rules import forward
from sagas.core.states import SagaState
from sagas.core.times import iso
from sagas.engine.answers import AuditEntry, LeftOutView, Page, SagaView, Summary
from sagas.engine.breaker import Breakers
from sagas.engine.clock import claimed_at
from sagas.engine.redacting import redacted
from sagas.engine.registry import Registry
from sagas.engine.remains import Left, Remains, told
from sagas.engine.views import audit_view, left_view, saga_view, summary_view
from sagas.errors import Conflict, NotFound
from sagas.formats import NewerFormat
from sagas.store.control import ControlItems
from sagas.store.entries import Entry
from sagas.store.journal import Journal
from sagas.store.listing import Listing

_ROOM = 5_000_000
"""Bytes that the payloads of one answer may take on their way: Lambda's limit is 6 MB, and errors of steps have to fit
in, too."""

_LARGE_PAGE, _MOST_PAGES = 100, 20
"""How many sagas are looked at a time for those of one type, and how many times."""


def readable(control: ControlItems, saga_ids: list[str]) -> list[SagaState]:
    """Return those of the sagas, in this order, that exist, are not being purged, and that this version can read.

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
    return [found[saga_id] for saga_id in saga_ids if saga_id in found and not found[saga_id].purge]


def _listing(view: SagaView, left_out: list[LeftOutView]) -> SagaView:
    if left_out:
        view["left_out"] = left_out
    return view


@dataclass(frozen=True, slots=True)
class Reader:
    """Answers questions about sagas."""

    registry: Registry
    control: ControlItems
    journal: Journal
    listing: Listing
    breakers: Breakers
    remains: Remains

    def stored(self, name: str, saga_id: str) -> SagaState | None:
        """Return the saga as its control item has it; ``None`` when there is none, but for what may be left.

        Raises:
            NotFound: there is no such saga of that type.
            Unavailable: the store is out of reach, or a newer version wrote the saga.
        """
        self.registry.get(name)
        state = self.control.get(saga_id)
        if state is not None and state.saga != name:
            raise NotFound(f"there is no saga {name}/{saga_id}")
        return state

    def left(self, name: str, saga_id: str) -> Left:
        """Return what is left of a saga that was purged, or whose control item has expired.

        Raises:
            NotFound: nothing is.
            Unavailable: the store is out of reach, or a newer version wrote the saga.
        """
        left = self.remains.of(saga_id)
        if left is None or left.state.saga != name:
            raise NotFound(f"there is no saga {name}/{saga_id}")
        return left

    def state(self, name: str, saga_id: str) -> SagaState:
        """Return the saga as it is, to do something to it.

        Raises:
            NotFound: there is no such saga of that type.
            Conflict: it was purged.
            Unavailable: the store is out of reach, or a newer version wrote the saga.
        """
        state = self.stored(name, saga_id)
        if state is None:
            raise Conflict(told(self.left(name, saga_id)))
        if state.purge is not None:
            raise Conflict(f"the saga is {state.status} and is being purged")
        return state

    def show(self, name: str, saga_id: str, *, payloads: bool = True) -> SagaView:
        """Return one saga with its steps, request and results; of one that was purged, what is left.

        Args:
            name: of the type.
            saga_id: which.
            payloads: with request and results, as far as an answer can hold them; what is left out is listed.

        Raises:
            NotFound: there is no such saga of that type.
        """
        state = self.stored(name, saga_id)
        if state is None or state.purge is not None:
            left = self.left(name, saga_id)
            entries, left_out = self._loaded(left.state, left.entries, payloads)
            return self._shown(left_view(left.state, entries, left.purge), left_out)
        result = self.registry.get(name).definition.result_step.name
        entries, left_out = self._loaded(state, self.journal.history(saga_id, up_to=state.seq), payloads)
        view, step = self._shown(saga_view(state, entries, result), left_out), state.current
        if step is not None and forward(state) and state.lease is None:
            # An open circuit breaker puts the next attempt off.
            breaker = self.breakers.waits_behind(state.saga, step.name)
            if breaker is not None:
                view["breaker"] = {"step": step.name, "open_until": iso(breaker.open_until)}
                view["steps"][state.cursor]["next_attempt_at"] = iso(max(breaker.open_until, state.not_before))
        if state.lease is not None and "lease" in view and state.lease.expires_at < state.lease.act_until:
            # A lease that lasts as long as its function can act is never extended.
            length = self.registry.get(name).definition.lock_expiry.total_seconds()
            view["lease"]["heartbeat_at"] = iso(max(state.lease.expires_at - length, claimed_at(state.lease.owner)))
        return view

    def _shown(self, view: SagaView, left_out: builtins.list[LeftOutView]) -> SagaView:
        return redacted(_listing(view, left_out), self.registry.get(view["name"]).definition)

    def _loaded(
        self, state: SagaState, entries: Iterable[Entry], payloads: bool
    ) -> tuple[list[Entry], list[LeftOutView]]:
        """The entries with the payloads for which there is room in an answer, and those that are left out."""
        steps = {step.name: index for index, step in enumerate(state.steps)}
        room, loaded, left_out = _ROOM if payloads else 0, list[Entry](), list[LeftOutView]()
        for entry in entries:
            key = entry.details.get("payload_ref")
            size = None if entry.payload is None else len(entry.payload.encode())
            full = entry
            if room > 0:
                full, size = self.journal.load_within(entry, room)
            # As it leaves the function: a JSON string in JSON, which may be ASCII.
            taken = 0 if full.payload is None else len(json.dumps(full.payload))
            if taken <= room and (taken or not key):
                room -= taken
                loaded.append(full)
                continue
            loaded.append(replace(full, payload=None))
            place = "$.request" if entry.step is None else f"$.steps[{steps.get(entry.step, 0)}].result"
            why = "too_large" if payloads else "not_asked_for"
            left_out.append({"path": place, "entry": entry.seq, "object": key, "bytes": size, "why": why})
        return loaded, left_out

    def audit(self, name: str, saga_id: str, limit: int, after: int) -> tuple[list[AuditEntry], int | None]:
        """Return committed entries in order after ``after``, and where to go on; ``None`` at the end.

        Raises:
            NotFound: there is no such saga of that type.
        """
        state = self.stored(name, saga_id)
        if state is None or state.purge is not None:
            found = self.left(name, saga_id).entries
            entries, last = [entry for entry in found if entry.seq > after][:limit], found[-1].seq
        else:
            entries, last = self.journal.history(saga_id, after=after, up_to=state.seq, limit=limit), state.seq
        more = bool(entries) and entries[-1].seq < last
        return [audit_view(entry) for entry in entries], entries[-1].seq if more else None

    def list(self, names: Iterable[str], status: str | None, limit: int, cursor: str | None) -> Page:
        """Return summaries, newest first. A page may be short when ``status`` filters it."""
        page = self.listing.by_name(names, limit, cursor)
        found = readable(self.control, page.saga_ids)
        shown = [summary_view(state) for state in found if status in (None, state.status.value)]
        return {"sagas": shown, "cursor": page.cursor}

    def attention(self, name: str | None, limit: int, cursor: str | None) -> Page:
        """Return summaries of sagas that need a person, longest waiting first.

        The index knows no types: with a ``name`` up to two thousand sagas are looked at for a page, which may be short
        after that many, although the cursor leads on.
        """
        shown, usual = list[Summary](), limit if name is None else _LARGE_PAGE
        size = usual
        for _ in range(_MOST_PAGES):
            page = self.listing.attention(size, cursor)
            states = [one for one in readable(self.control, page.saga_ids) if name in (None, one.saga)]
            found = [saga for saga in map(summary_view, states) if "why" in saga]
            room = limit - len(shown)
            if len(found) > room:
                # Once more, but no further than what is shown: a cursor is known only of the end of a page.
                size = page.saga_ids.index(found[room - 1]["saga_id"]) + 1
                continue
            shown, cursor, size = shown + found, page.cursor, usual
            if cursor is None or len(shown) == limit:
                break
        return {"sagas": shown, "cursor": cursor}
