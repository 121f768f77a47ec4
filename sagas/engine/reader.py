"""Reading sagas: one, its audit trail, lists."""

from __future__ import annotations

import builtins
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from sagas.core.families import child_id, children_ids
from sagas.core.rules import forward
from sagas.core.states import SagaState, StepState
from sagas.core.times import iso
from sagas.engine.answers import AuditEntry, ChildErrorView, ChildrenView, LeftOutView, Page, SagaView, Summary
from sagas.engine.breaker import Breakers
from sagas.engine.redacting import redacted
from sagas.engine.registry import Registry
from sagas.engine.remains import Left, Remains, told
from sagas.engine.views import audit_view, error_view, left_view, saga_view, summary_view
from sagas.errors import Conflict, InvalidRequest, NotFound, Problem
from sagas.formats import NewerFormat
from sagas.store.control import ControlItems
from sagas.store.entries import Entry
from sagas.store.joined import CARRIED, COMPLETED, FORWARD, NEVER
from sagas.store.joins import Joins
from sagas.store.journal import Journal
from sagas.store.listing import IndexPosition, Listing

_ROOM = 5_000_000
"""Bytes that the payloads of one answer may take on their way: Lambda's limit is 6 MB, and errors of steps have to fit
in, too."""

_MOST_FAILURES = 10
"""Failed children that are shown with their parent."""
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
    joins: Joins

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
        view, step = self._shown(self._with_children(saga_view(state, entries, result), state), left_out), state.current
        if step is not None and forward(state) and state.lease is None:
            # An open circuit breaker puts the next attempt off.
            breaker = self.breakers.waits_behind(state.saga, step.name)
            if breaker is not None:
                view["breaker"] = {"step": step.name, "open_until": iso(breaker.open_until)}
                view["steps"][state.cursor]["next_attempt_at"] = iso(max(breaker.open_until, state.not_before))
        return view

    def _with_children(self, view: SagaView, state: SagaState) -> SagaView:
        """Count the children of each step that has some."""
        for shown, step in zip(view["steps"], state.steps, strict=True):
            if step.waits_for != "children":
                continue
            href = f"/sagas?parent={state.saga_id}"
            found: ChildrenView = {
                "total": 0,
                "started": 0,
                "completed": 0,
                "failed": 0,
                "finished": 0.0,
                "failures": [],
                "href": href,
            }
            if step.requests_seq:
                tally = self.joins.tally(state.saga_id, step.name, [step.round], step.children)
                found["total"], found["started"] = step.children, step.handed_out - tally[FORWARD, NEVER]
                found["completed"] = tally.completed
                found["failed"] = tally.ended - tally.completed - tally[FORWARD, NEVER]
                found["finished"] = round(tally.ended / step.children, 4) if step.children else 1.0
                if found["failed"]:
                    found["failures"] = self._failures(state, step)
            shown["children"] = found
        return view

    def _failures(self, state: SagaState, step: StepState) -> builtins.list[ChildErrorView]:
        """The first ten children that failed by themselves; then those that were cancelled for it."""
        outcomes = self.joins.outcomes(state.saga_id, step.name, step.round, FORWARD).values()
        failed = [one for one in outcomes if one.how not in (COMPLETED, CARRIED, NEVER)]
        failed = sorted(failed, key=lambda one: (not one.seq, one.position))[:_MOST_FAILURES]
        ids = {child_id(state.saga_id, step.name, one.position, one.round): one for one in failed}
        children = self.control.get_many(list(ids))
        errors = self.journal.entries_of((saga_id, one.seq) for saga_id, one in ids.items() if one.seq)
        return [
            {
                "position": one.position,
                "saga_id": saga_id,
                "status": children[saga_id].status.value,
                "error": error_view(errors.get(saga_id, {}).get(one.seq)),
            }
            for saga_id, one in ids.items()
            if saga_id in children
        ]

    def children(self, parent_id: str, limit: int, cursor: str | None) -> Page:
        """Return summaries of a saga's children, by step and position; none of a saga that is not there.

        Args:
            parent_id: the parent's id.
            limit: how many to look at.
            cursor: that of the page before.

        Raises:
            InvalidRequest: the cursor is not valid.
        """
        after = 0
        if cursor is not None:
            position = IndexPosition.parse(cursor)
            if position.sort != "child" or not position.saga_id.isdecimal():
                raise InvalidRequest("the cursor is not valid", [Problem("query.cursor", "is from another list")])
            after = int(position.saga_id)
        parent = self.control.get(parent_id)
        ids = [] if parent is None else children_ids(parent)
        found = readable(self.control, ids[after : after + limit])
        more = IndexPosition("child", str(after + limit)).cursor if len(ids) > after + limit else None
        return {"sagas": [summary_view(state) for state in found], "cursor": more}

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
