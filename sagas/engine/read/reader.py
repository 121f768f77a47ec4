"""Reading sagas: one, its audit trail, lists."""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256

from sagas.core.gates import Pause, Scope
from sagas.core.ids import child_id, children_ids, id_for_key
from sagas.core.rules import forward, needs_attention
from sagas.core.states import OVER, SagaState, SagaStatus
from sagas.core.text import iso
from sagas.engine.clock import claimed_at
from sagas.engine.operate.breaker import Breakers
from sagas.engine.read.answers import (
    AuditEntry,
    ChildrenView,
    IncidentList,
    IncidentView,
    LeftOutView,
    Page,
    SagaView,
    Summary,
)
from sagas.engine.read.redacting import redacted
from sagas.engine.read.remains import Left, Remains, told
from sagas.engine.read.views import (
    audit_view,
    error_view,
    fault_view,
    faults_in,
    left_view,
    pause_view,
    saga_view,
    summary_view,
)
from sagas.engine.registry import Registry
from sagas.errors import Conflict, InvalidRequest, NotFound, Problem
from sagas.formats import NewerFormat
from sagas.store.children.joined import CARRIED, COMPLETED, FORWARD, NEVER
from sagas.store.children.joins import Joins
from sagas.store.control.control import ControlItems
from sagas.store.index.findings import Findings, find_key
from sagas.store.index.listing import ALWAYS, IndexPosition, Listing, Span
from sagas.store.journal.entries import Entry
from sagas.store.journal.journal import Journal
from sagas.store.outcomes import Changed
from sagas.store.types.pauses import Pauses

_ROOM = 5_000_000
"""Bytes that the payloads of one answer may take on their way: Lambda's limit is 6 MB, and errors of steps have to fit
in, too."""

_MOST_FAILURES = 10
"""Failed children that are shown with their parent."""
_MOST_IN_FLIGHT = 1_000
"""Sagas in flight that are all looked at for those of one status."""
_MOST_BY_PREFIX = 500
_LATEST = 4_102_444_800.0
"""The year 2100: no id was made later."""

_LARGE_PAGE, _MOST_PAGES = 100, 20
_MOST_INCIDENTS = 5_000
"""Sagas on the attention list that are grouped."""
"""How many sagas are looked at a time for those of one type, and how many times."""


def readable(control: ControlItems, saga_ids: list[str]) -> list[SagaState]:
    """Return those of the sagas, in this order, that exist, are not being purged, and that this version can read.

    A newer version may be at work beside this one: what it wrote is left out of lists.
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


@dataclass(frozen=True, slots=True)
class Reader:
    """Answers questions about sagas."""

    registry: Registry
    control: ControlItems
    journal: Journal
    listing: Listing
    breakers: Breakers
    remains: Remains
    pauses: Pauses
    findings: Findings
    joins: Joins

    def stored(self, name: str, saga_id: str) -> SagaState | None:
        """Return the saga as its control item has it; ``None`` when there is none, but for what may be left."""
        self.registry.get(name)
        state = self.control.get(saga_id)
        if state is not None and state.saga != name:
            raise NotFound(f"there is no saga {name}/{saga_id}")
        return state

    def left(self, name: str, saga_id: str) -> Left:
        """Return what is left of a saga that was purged, or whose control item is missing."""
        left = self.remains.of(saga_id)
        if left is None or left.state.saga != name:
            raise NotFound(f"there is no saga {name}/{saga_id}")
        return left

    def state(self, name: str, saga_id: str) -> SagaState:
        """Return the saga as it is, to do something to it."""
        state = self.stored(name, saga_id)
        if state is None:
            left = self.left(name, saga_id)
            raise Conflict(told(left.state, left.purge))
        if state.purge is not None:
            raise Conflict(told(state, state.purge))
        return state

    def show_changed(self, name: str, saga_id: str, known: Callable[[str], bool]) -> tuple[SagaView | None, str]:
        """Return one saga as :meth:`show` does, unless it is known as it is; and what will be known of it by now.

        To find that it is known takes one read, not one of each entry. What is known may be older than what is shown,
        never newer. Returns the saga, ``None`` if it is known; and a text that changes whenever what is shown does,
        empty where nothing short of that tells.
        """
        state = self.stored(name, saga_id)
        steps, mark = () if state is None else state.steps, ""
        has_children = any(step.waits_for == "children" and step.fan_out.requests_seq for step in steps)
        if state is not None and state.purge is None and not has_children:  # else others may change what is shown
            breaker = None if state.current is None else self.breakers.waits_behind(state.saga, state.current.name)
            seen = state, self._pause(state), breaker and breaker.open_until
            mark = sha256(repr(seen).encode()).hexdigest()[:32]
        if mark and known(mark):
            return None, mark
        return self._show(name, saga_id, state, payloads=True), mark

    def show(self, name: str, saga_id: str, *, payloads: bool = True) -> SagaView:
        """Return one saga with its steps, request and results; of one that was purged, what is left."""
        return self._show(name, saga_id, self.stored(name, saga_id), payloads=payloads)

    def _show(self, name: str, saga_id: str, state: SagaState | None, *, payloads: bool) -> SagaView:
        if state is None or state.purge is not None:
            left = self.left(name, saga_id)
            entries, left_out = self._loaded(left.state, left.entries, payloads)
            view = left_view(left.state, entries, left.purge, left.objects, left.more_objects)
            return self._shown(view, left_out)

        result = self.registry.get(name).definition.result_step.name
        entries, left_out = self._loaded(state, self.journal.history(saga_id, up_to=state.seq), payloads)
        pause = self._pause(state)
        view = self._with_children(saga_view(state, entries, result, paused=pause is not None), state)
        view, step = self._shown(view, left_out), state.current
        if pause is not None:
            view["pause"] = pause_view(*pause)
        if step is not None and forward(state) and state.lease is None:
            # An open circuit breaker puts the next attempt off.
            breaker = self.breakers.waits_behind(state.saga, step.name)
            if breaker is not None:
                view["breaker"] = {"step": step.name, "open_until": iso(breaker.open_until)}
                if view["waiting"] is not None and view["waiting"]["kind"] in ("backoff", "queue"):
                    view["waiting"] = {"kind": "breaker", "until": iso(breaker.open_until)}
                view["steps"][state.cursor]["next_attempt_at"] = iso(max(breaker.open_until, state.not_before))
        if state.lease is not None and "lease" in view and state.lease.expires_at < state.lease.act_until:
            # A lease that lasts as long as its function can act is never extended.
            length = self.registry.get(name).definition.lock_expiry.total_seconds()
            view["lease"]["heartbeat_at"] = iso(max(state.lease.expires_at - length, claimed_at(state.lease.owner)))
        return view

    def _with_children(self, view: SagaView, state: SagaState) -> SagaView:
        """Count the children of each step that has some, and show what failed of them."""
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
            shown["children"] = found
            if not step.fan_out.requests_seq:
                continue
            tally = self.joins.first_ends(state.saga_id, step)
            found["total"], found["started"] = step.fan_out.children, step.fan_out.handed_out - tally[FORWARD, NEVER]
            found["completed"] = tally.completed
            found["failed"] = tally.ended - tally.completed - tally[FORWARD, NEVER]
            found["finished"] = round(tally.ended / step.fan_out.children, 4) if step.fan_out.children else 1.0
            if not found["failed"]:
                continue
            # The first ten that failed by themselves; then those that were cancelled for it.
            outcomes = self.joins.outcomes(state.saga_id, step.name, step.round, FORWARD).values()
            failed = [one for one in outcomes if one.how not in (COMPLETED, CARRIED, NEVER)]
            failed = sorted(failed, key=lambda one: (not one.seq, one.position))[:_MOST_FAILURES]
            ids = {child_id(state.saga_id, step.name, one.position, one.round): one for one in failed}
            children = self.control.get_many(list(ids))
            errors = self.journal.entries_of((saga_id, one.seq) for saga_id, one in ids.items() if one.seq)
            found["failures"] = [
                {
                    "position": one.position,
                    "saga_id": saga_id,
                    "status": children[saga_id].status.value,
                    "error": error_view(errors.get(saga_id, {}).get(one.seq)),
                }
                for saga_id, one in ids.items()
                if saga_id in children
            ]
        return view

    def children(self, parent_id: str, limit: int, cursor: str | None) -> Page:
        """Return summaries of a saga's children, by step and position; none of a saga that is not there."""
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
        return {"sagas": self._summaries(found), "cursor": more}

    def paused(self, state: SagaState) -> bool:
        """Whether a pause has the saga wait before its next step, or its next undo."""
        return self._pause(state) is not None

    def _pause(self, state: SagaState) -> tuple[Scope, Pause] | None:
        """The widest pause that holds the saga back."""
        if state.over or state.status is SagaStatus.DEAD_LETTERED:
            return None
        scope = self.pauses.holding_back(state)
        return (scope, self.pauses.get(scope)) if scope else None

    def _summaries(self, states: Sequence[SagaState]) -> builtins.list[Summary]:
        """What a list shows of sagas. Only of those with which something went wrong the journal is asked."""
        places = [(state.saga_id, seq) for state in states for seq in faults_in(state)]
        entries = self.journal.entries_of(dict.fromkeys(places)) if places else {}
        return [
            {
                **summary_view(state, paused=self.paused(state)),
                "fault": fault_view(state, entries.get(state.saga_id, {})),
            }
            for state in states
        ]

    def _shown(self, view: SagaView, left_out: builtins.list[LeftOutView]) -> SagaView:
        if left_out:
            view["left_out"] = left_out
        return redacted(view, self.registry.get(view["type"]).definition)

    def _loaded(
        self, state: SagaState, entries: Iterable[Entry], payloads: bool
    ) -> tuple[list[Entry], list[LeftOutView]]:
        """The entries with the payloads for which there is room in an answer, and those that are left out."""
        steps = {step.name: index for index, step in enumerate(state.steps)}
        room, loaded, left_out = _ROOM if payloads else 0, list[Entry](), list[LeftOutView]()
        for entry in entries:
            key = entry.details.get("payload_ref")
            size = None if entry.payload is None else len(entry.payload.encode())
            full, why = entry, "too_large" if payloads else "not_asked_for"
            if room > 0:
                try:
                    full, size = self.journal.load_within(entry, room)
                except Changed:  # of all sagas, it is this one that a person must be able to look at
                    why = "unreadable"
            # As it leaves the function: a JSON string in JSON, which may be ASCII.
            taken = 0 if full.payload is None else len(json.dumps(full.payload))
            if taken <= room and (taken or not (key or entry.encrypted)):
                room -= taken
                loaded.append(full)
                continue
            loaded.append(replace(full, payload=None))
            place = "$.request" if entry.step is None else f"$.steps[{steps.get(entry.step, 0)}].result"
            left_out.append({"path": place, "entry": entry.seq, "object": key, "bytes": size, "why": why})
        return loaded, left_out

    def audit(self, name: str, saga_id: str, limit: int, after: int) -> tuple[list[AuditEntry], int | None]:
        """Return committed entries in order after ``after``, and where to go on; ``None`` at the end."""
        state = self.stored(name, saga_id)
        if state is None or state.purge is not None:
            found = self.left(name, saga_id).entries
            entries, last = [entry for entry in found if entry.seq > after][:limit], found[-1].seq
        else:
            entries, last = self.journal.history(saga_id, after=after, up_to=state.seq, limit=limit), state.seq
        more = bool(entries) and entries[-1].seq < last
        return [audit_view(entry) for entry in entries], entries[-1].seq if more else None

    def list(
        self,
        names: Sequence[str],
        status: str | None,
        limit: int,
        cursor: str | None,
        within: Span = ALWAYS,
        values: Mapping[str, str] | None = None,
    ) -> Page:
        """Return summaries, newest first. A page may be short, although the cursor leads on."""
        if values:
            states, cursor = self._having(names, values, limit, cursor, within)
        elif status in OVER:
            page = self.listing.by_end(names, str(status), limit, cursor, within)
            states, cursor = readable(self.control, page.saga_ids), page.cursor
        else:
            states, cursor = self._going(names, status, limit, cursor, within)
        shown = self._summaries([state for state in states if status in (None, state.status.value)])
        return {"sagas": shown, "cursor": cursor}

    def _having(
        self, names: Sequence[str], values: Mapping[str, str], limit: int, cursor: str | None, within: Span
    ) -> tuple[builtins.list[SagaState], str | None]:
        """Sagas by what is in their requests: by one index, and of what it has those with the other values."""
        known = {name: {one.name for one in self.registry.get(name).definition.find_by} for name in names}
        unknown = [value for value in values if all(value not in declared for declared in known.values())]
        if unknown:
            problems = [Problem(f"query.{value}", "no saga type here is found by it") for value in unknown]
            raise InvalidRequest("unknown query parameters", problems)
        fitting = [name for name in names if known[name] >= values.keys()]
        (first, value), *others = values.items()
        page = self.listing.by_name([find_key(name, first, value) for name in fitting], limit, cursor, within)
        states = readable(self.control, page.saga_ids)
        for other, text in others:
            kept = set[str]()
            for name in fitting:
                ids = [state.saga_id for state in states if state.saga == name]
                kept |= self.findings.having(name, ids, other, text) if ids else set()
            states = [state for state in states if state.saga_id in kept]
        return states, page.cursor

    def _going(
        self, names: Sequence[str], status: str | None, limit: int, cursor: str | None, within: Span
    ) -> tuple[builtins.list[SagaState], str | None]:
        """Sagas of a status that is no end, or of any."""
        ids = [] if status is None else self.listing.in_flight(status, names, _MOST_IN_FLIGHT)
        if status is None or len(ids) >= _MOST_IN_FLIGHT:
            page = self.listing.by_name(names, limit, cursor, within)
            return readable(self.control, page.saga_ids), page.cursor
        start, (first, last) = IndexPosition.parse(cursor) if cursor is not None else None, within.bounds()
        found = list[tuple[IndexPosition, SagaState]]()
        for state in readable(self.control, builtins.list(dict.fromkeys(ids))):
            position = IndexPosition(iso(state.created_at), state.saga_id)
            fits = state.saga in names and state.status == status and first <= position.sort <= last
            if fits and (start is None or position < start):
                found.append((position, state))
        found.sort(key=lambda one: one[0], reverse=True)
        shown = found[:limit]
        return [state for _, state in shown], shown[-1][0].cursor if len(found) > limit else None

    def by_keys(self, names: Iterable[str], key: str) -> Page:
        """Return the sagas that an idempotency key started, at most one of each type; also what is left of one."""
        shown = builtins.list[Summary]()
        for name in names:
            saga_id = id_for_key(name, key)
            state = self.control.get(saga_id)
            left = self.remains.of(saga_id) if state is None else None
            shown += self._summaries([one for one in (state, left and left.state) if one is not None])
        return {"sagas": shown, "cursor": None}

    def name_of(self, saga_id: str) -> str:
        """Return the type of a saga that is known by its id alone, whatever is left of it."""
        state = self.control.get(saga_id)
        left = self.remains.of(saga_id) if state is None else None
        if state is None and left is None:
            raise NotFound(f"no saga with id {saga_id}")
        name = state.saga if state is not None else left.state.saga if left is not None else ""
        return self.registry.get(name).definition.name

    def beginning_with(self, prefix: str) -> str:
        """Return the id of the one saga whose id begins so.

        Ids that no idempotency key decided begin with the time: those of that time are looked through, five hundred at
        most, and the five hundred that were started last. ``prefix``: of an id: four characters at least, in small
        letters.
        """
        names = [saga.definition.name for saga in self.registry]
        digits = prefix.replace("-", "")[:12]
        first, last = int(digits.ljust(12, "0"), 16) / 1000, int(digits.ljust(12, "f"), 16) / 1000
        looked_at = [self.listing.by_name(names, _MOST_BY_PREFIX, None)]
        if first < _LATEST:
            span = Span(first, min(last, _LATEST) + 1)
            looked_at.append(self.listing.by_name(names, _MOST_BY_PREFIX, None, span))
        found = sorted({one for page in looked_at for one in page.saga_ids if one.startswith(prefix)})
        if not found:
            raise NotFound(f"no saga with id {prefix}... among the newest {_MOST_BY_PREFIX}")
        if len(found) > 1:
            some = ", ".join(found[:5]) + (", ..." if len(found) > 5 else "")
            raise Conflict(f"{len(found)} saga ids start with {prefix}: {some}; type more of it")
        return found[0]

    def incidents(self, name: str | None) -> IncidentList:
        """Return for what sagas need an operator, by type, step and error type; the longest waiting first. It is read
        from the index alone."""
        found, groups = self.listing.incidents(_MOST_INCIDENTS + 1), dict[tuple[str, str, str], IncidentView]()
        for one in found[:_MOST_INCIDENTS]:
            if name not in (None, one.saga):
                continue
            group = groups.setdefault(
                (one.saga, one.step, one.error_type),
                {
                    "type": one.saga,
                    "step": one.step,
                    "error_type": one.error_type or None,
                    "count": 0,
                    "first_seen": one.at,
                    "last_seen": one.at,
                },
            )
            group["count"] += 1
            group["last_seen"] = one.at
        return {"incidents": [*groups.values()], "at_least": len(found) > _MOST_INCIDENTS}

    def attention(self, name: str | None, limit: int, cursor: str | None) -> Page:
        """Return summaries of sagas that need a person, longest waiting first.

        The index knows no types: with a ``name`` up to two thousand sagas are looked at for a page, which may be short
        after that many, although the cursor leads on.
        """
        shown, usual = builtins.list[SagaState](), limit if name is None else _LARGE_PAGE
        size = usual
        for _ in range(_MOST_PAGES):
            page = self.listing.attention(size, cursor)
            states = [one for one in readable(self.control, page.saga_ids) if name in (None, one.saga)]
            found = [state for state in states if needs_attention(state)]
            room = limit - len(shown)
            if len(found) > room:
                # Once more, but no further than what is shown: a cursor is known only of the end of a page.
                size = page.saga_ids.index(found[room - 1].saga_id) + 1
                continue
            shown, cursor, size = shown + found, page.cursor, usual
            if cursor is None or len(shown) == limit:
                break
        return {"sagas": self._summaries(shown), "cursor": cursor}
