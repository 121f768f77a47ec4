"""Reads sagas: a single saga, its audit trail, and lists."""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sagas.core.events import AttentionCode
from sagas.core.gates import Pause, Scope
from sagas.core.ids import child_id, children_ids, id_for_key
from sagas.core.rules import awaits_release, forward, needs_attention, unread_of
from sagas.core.states import ENDED, SagaState, SagaStatus, StepStatus
from sagas.core.text import epoch, iso
from sagas.engine.clock import claimed_at
from sagas.engine.operate.breaker import Breakers
from sagas.engine.read.answers import (
    AuditEntry,
    ChildrenView,
    ErrorView,
    IncidentList,
    IncidentView,
    LeftOutView,
    Page,
    SagaView,
    Summary,
    WaitingView,
)
from sagas.engine.read.redacting import Texts, redacted, start_shown, without_labels
from sagas.engine.read.remains import ReadOnlySaga, Remains, why_read_only
from sagas.engine.read.views import (
    audit_view,
    error_view,
    errors_in,
    pause_view,
    read_only_view,
    release_view,
    saga_view,
    summary_view,
)
from sagas.engine.registry import Registry
from sagas.errors import Conflict, Denied, InvalidRequest, NotFound, Problem
from sagas.store.connection import Changed
from sagas.store.control.control import ControlItems
from sagas.store.index.listing import ALWAYS, IndexPosition, Listing, TimeRange
from sagas.store.index.search_keys import SearchKeys, find_key
from sagas.store.joins import CARRIED, COMPLETED, FORWARD, NEVER, Joins
from sagas.store.journal.entries import Entry
from sagas.store.journal.journal import Journal
from sagas.store.pauses import Pauses
from sagas.store.tables import Incident, key_before

_ROOM = 5_000_000
"""Maximum bytes of the payloads in one answer. Lambda's limit is 6 MB, and the errors of steps need room, too."""

_MOST_FAILURES = 10
"""Maximum number of failed children that are listed with their parent."""
_MOST_IN_FLIGHT = 1_000
"""If no more sagas are in flight than this, a list of one status reads them all."""
_MOST_BY_PREFIX = 500
_LATEST = 4_102_444_800.0
"""The year 2100. No id is from a later time."""

_MOST_INCIDENTS = 200
"""Maximum number of incidents in an answer."""
_MOST_OF_ONE = 1_000
"""The sagas of an incident are counted up to this number."""


class Reader(Struct, frozen=True):
    """Answers questions about sagas."""

    service: str
    registry: Registry
    control: ControlItems
    journal: Journal
    listing: Listing
    breakers: Breakers
    remains: Remains
    pauses: Pauses
    search_keys: SearchKeys
    joins: Joins
    blueprints_of: Callable[[str], Collection[str]]
    """The names of all blueprints of a type."""

    def check_deployed(self, name: str) -> None:
        """Refuse to act on a type that is not deployed. Its sagas can still be read: see :meth:`refuse_unknown`."""
        self.refuse_unknown(name)
        if name not in self.registry:
            raise Conflict(f"type {name} is not deployed")

    def refuse_unknown(self, name: str) -> None:
        """Refuse a type that is not deployed and never had a saga."""
        if name not in self.registry and not self.blueprints_of(name):
            self.registry.get(name)

    def _no_saga(self, name: str, saga_id: str) -> NotFound:
        self.refuse_unknown(name)
        return NotFound(f"no saga with id {saga_id} (type {name})")

    def stored(self, name: str, saga_id: str) -> SagaState | None:
        """Return a saga from its control item; ``None`` if it has none. Then :meth:`read_only` may return the saga."""
        state = self.control.get(saga_id)
        if state is not None and state.saga != name:
            raise self._no_saga(name, saga_id)
        return state

    def read_only(self, name: str, saga_id: str) -> ReadOnlySaga:
        """Return a saga that was purged, or whose control item is missing."""
        remains = self.remains.of(saga_id)
        if remains is None or remains.state.saga != name:
            raise self._no_saga(name, saga_id)
        return remains

    def state(self, name: str, saga_id: str) -> SagaState:
        """Return a saga that can still be changed."""
        state = self.stored(name, saga_id)
        if state is None:
            remains = self.read_only(name, saga_id)
            raise Conflict(why_read_only(remains.state, remains.purge))
        if state.purge is not None:
            raise Conflict(why_read_only(state, state.purge))
        self.check_deployed(name)
        return state

    def show_changed(self, name: str, saga_id: str, is_current: Callable[[str], bool]) -> tuple[SagaView | None, str]:
        """Return the saga and its ETag. If the caller's ETag is still current, return no saga.

        If the ETag is current, only one read is needed, and none of the journal. The ETag may be older than the view,
        never newer. The ETag is empty if the view can change while the control item does not.
        """
        state = self.stored(name, saga_id)
        steps = () if state is None else state.steps
        etag = ""
        has_children = any(step.waits_for == "children" and step.fan_out.requests_seq for step in steps)
        if state is not None and state.purge is None and not has_children:  # children change the view
            breaker = None if state.current is None else self.breakers.waits_behind(state.saga, state.current.name)
            source = state, self._pause(state), breaker and breaker.open_until
            etag = sha256(repr(source).encode()).hexdigest()[:32]
        if etag and is_current(etag):
            return None, etag
        return self.show_stored(name, saga_id, state), etag

    def show(self, name: str, saga_id: str, *, payloads: bool = True) -> SagaView:
        """Return one saga with its steps, request and results. A purged saga has no payloads. Without ``payloads``, it
        has no labels either, because they are made of requests."""
        return self.show_stored(name, saga_id, self.stored(name, saga_id), payloads=payloads)

    def show_stored(self, name: str, saga_id: str, state: SagaState | None, *, payloads: bool = True) -> SagaView:
        """Return what :meth:`show` returns, for a saga that :meth:`stored` has read."""
        view = self._view(name, saga_id, state, payloads=payloads)
        return view if payloads else without_labels(view)

    def _view(self, name: str, saga_id: str, state: SagaState | None, *, payloads: bool) -> SagaView:
        if state is None or state.purge is not None:
            remains = self.read_only(name, saga_id)
            entries, left_out = self._loaded(remains.state, remains.entries, payloads)
            texts = Texts.of(entries, left_out, self.registry.redaction(name))
            shown = [*map(texts.entry, entries)]
            view = read_only_view(remains.state, shown, remains.purge, remains.objects, remains.more_objects)
            return self._finished(view, remains.state, entries, left_out, remains.hidden)

        entries, left_out = self._loaded(state, self.journal.history(saga_id, up_to=state.seq), payloads)
        texts = Texts.of(entries, left_out, self.registry.redaction(name))
        pause = self._pause(state)
        shown = [*map(texts.entry, entries)]
        release = self._release(state)
        view = saga_view(texts.state(state), shown, paused=pause is not None, release=release)
        view = self._with_children(view, state)
        view = self._finished(view, state, entries, left_out)
        step = state.current
        if pause is not None:
            [described] = self.pauses.described(dict([pause])).items()
            view["pause"] = pause_view(*described)
        if step is not None and forward(state) and state.lease is None:
            # An open circuit breaker delays the next attempt.
            breaker = self.breakers.waits_behind(state.saga, step.name)
            if breaker is not None:
                view["breaker"] = {"step": step.name, "open_until": iso(breaker.open_until)}
                if view["waiting"] is not None and view["waiting"]["kind"] in ("backoff", "queue"):
                    view["waiting"] = {"kind": "breaker", "until": iso(breaker.open_until)}
                view["steps"][state.cursor]["next_attempt_at"] = iso(max(breaker.open_until, state.not_before))
        if view["waiting"] is not None and pause is None:
            view["waiting"] = release_view(state, self.registry.plan(state)) or view["waiting"]
        if name not in self.registry:
            return view
        if state.lease is not None and "lease" in view and state.lease.expires_at < state.lease.act_until:
            # A lease that already lasts as long as its function can run is never extended.
            length = self.registry.get(name).definition.lock_expiry.total_seconds()
            view["lease"]["heartbeat_at"] = iso(max(state.lease.expires_at - length, claimed_at(state.lease.owner)))
        return view

    def _with_children(self, view: SagaView, state: SagaState) -> SagaView:
        """Add the number of children, and the failed children, to each step that waits for children."""
        for step_view, step in zip(view["steps"], state.steps, strict=True):
            if step.waits_for != "children" or step.status is StepStatus.SKIPPED:
                continue
            href = f"/sagas?parent={state.saga_id}"
            children: ChildrenView = {
                "total": 0,
                "started": 0,
                "completed": 0,
                "failed": 0,
                "finished": 0.0,
                "failures": [],
                "href": href,
            }
            step_view["children"] = children
            if not step.fan_out.requests_seq:
                continue
            tally = self.joins.first_ends(state.saga_id, step)
            children["total"] = step.fan_out.children
            children["started"] = step.fan_out.handed_out - tally[FORWARD, NEVER]
            children["completed"] = tally.completed
            children["failed"] = tally.ended - tally.completed - tally[FORWARD, NEVER]
            children["finished"] = round(tally.ended / step.fan_out.children, 4) if step.fan_out.children else 1.0
            if not children["failed"]:
                continue
            # Failed children come first, then cancelled ones.
            outcomes = self.joins.outcomes(state.saga_id, step.name, step.round, FORWARD).values()
            failed = [child for child in outcomes if child.how not in (COMPLETED, CARRIED, NEVER)]
            failed = sorted(failed, key=lambda child: (not child.seq, child.position))[:_MOST_FAILURES]
            by_id = {child_id(state.saga_id, step.name, child.position, child.round): child for child in failed}
            states = self.control.get_many(list(by_id))
            starts = self._starts(states.values())
            errors = self.journal.entries_of((saga_id, child.seq) for saga_id, child in by_id.items() if child.seq)
            children["failures"] = [
                {
                    "position": child.position,
                    "type": states[saga_id].saga,
                    "saga_id": saga_id,
                    "label": starts[saga_id].get("label"),
                    "updated_at": iso(states[saga_id].updated_at),
                    "status": states[saga_id].status.value,
                    "error": self._error(states[saga_id], errors.get(saga_id, {}).get(child.seq)),
                }
                for saga_id, child in by_id.items()
                if saga_id in states
            ]
        return view

    def _error(self, state: SagaState, entry: Entry | None) -> ErrorView | None:
        """Return the error of a saga's entry as a list shows it."""
        return error_view(entry and Texts(self.registry.redaction(state.saga)).entry(entry))

    def children(self, parent_id: str, limit: int, cursor: str | None) -> Page:
        """Return summaries of a saga's children, by step and position; empty if the saga does not exist."""
        after = 0
        if cursor is not None:
            position = IndexPosition.parse(cursor)
            if position.sort != "child" or not position.saga_id.isdecimal():
                raise InvalidRequest("invalid cursor", [Problem("query.cursor", "is from another list")])
            after = int(position.saga_id)
        parent = self.control.get(parent_id)
        ids = [] if parent is None else children_ids(parent)
        states = self.control.readable(ids[after : after + limit])
        more = IndexPosition("child", str(after + limit)).cursor if len(ids) > after + limit else None
        return {"sagas": self._summaries(states), "cursor": more}

    def _release(self, state: SagaState) -> WaitingView | None:
        """Return what release a saga on the attention list waits for; ``None`` if it does not, or if its code is
        deployed by now."""
        return release_view(state, self.registry.plan(state)) if awaits_release(state) else None

    def paused(self, state: SagaState) -> bool:
        """Whether a pause stops the saga before its next step or undo."""
        return self._pause(state) is not None

    def _pause(self, state: SagaState) -> tuple[Scope, Pause] | None:
        """Return the widest pause that stops the saga."""
        if state.ended or state.status is SagaStatus.DEAD_LETTERED:
            return None
        scope = self.pauses.holding_back(state)
        return (scope, self.pauses.get(scope)) if scope else None

    def _starts(self, states: Iterable[SagaState]) -> dict[str, Mapping[str, Any]]:
        """Return by id the details of the sagas' first entries that may be shown."""
        saved = {state.saga_id: self.registry.redaction(state.saga) for state in states}
        details = self.journal.first_details(saved)
        return {saga_id: start_shown(details.get(saga_id, {}), redaction) for saga_id, redaction in saved.items()}

    def _summaries(self, states: Sequence[SagaState]) -> builtins.list[Summary]:
        """Return sagas as a list shows them. Of the journal, the first entries and those with errors are read."""
        places = [(state.saga_id, seq) for state in states for seq in errors_in(state)]
        entries = self.journal.entries_of(dict.fromkeys(places)) if places else {}
        starts = self._starts(states)
        summaries = builtins.list[Summary]()
        for state in states:
            texts = Texts(self.registry.redaction(state.saga))
            own = entries.get(state.saga_id, {})
            shown = {seq: texts.entry(entry) for seq, entry in own.items()}
            summaries.append(
                summary_view(
                    state, starts[state.saga_id], shown, paused=self.paused(state), release=self._release(state)
                )
            )
        return summaries

    def _finished(
        self,
        view: SagaView,
        state: SagaState,
        entries: Sequence[Entry],
        left_out: builtins.list[LeftOutView],
        purged: Sequence[str] = (),
    ) -> SagaView:
        if left_out:
            view["left_out"] = left_out
        return redacted(view, state, entries, self.registry.redaction(state.saga), purged)

    def _loaded(
        self, state: SagaState, entries: Iterable[Entry], payloads: bool
    ) -> tuple[list[Entry], list[LeftOutView]]:
        """Return the entries, with as many payloads as fit into an answer, and list the payloads that are left out."""
        steps = {step.name: index for index, step in enumerate(state.steps)}
        room = _ROOM if payloads else 0
        loaded = list[Entry]()
        left_out = list[LeftOutView]()
        for entry in entries:
            key = entry.details.get("payload_ref")
            size = None if entry.payload is None else len(entry.payload.encode())
            full = entry
            reason = "too_large" if payloads else "not_asked_for"
            if room > 0:
                try:
                    full, size = self.journal.load_within(entry, room)
                except (Changed, Denied):  # operators must be able to view this saga
                    reason = "unreadable"
            # The size in the response, in which the payload is a JSON string, maybe in ASCII.
            needed = 0 if full.payload is None else len(json.dumps(full.payload))
            if needed <= room and (needed or not (key or entry.encrypted)):
                room -= needed
                loaded.append(full)
                continue
            loaded.append(replace(full, payload=None))
            place = "$.request" if entry.step is None else f"$.steps[{steps.get(entry.step, 0)}].result"
            left_out.append({"path": place, "entry": entry.seq, "object": key, "bytes": size, "reason": reason})
        return loaded, left_out

    def audit(self, name: str, saga_id: str, limit: int, after: int) -> tuple[list[AuditEntry], int | None]:
        """Return committed entries from ``after`` on, in order, and the next ``after``; ``None`` at the end."""
        state = self.stored(name, saga_id)
        if state is None or state.purge is not None:
            stored = self.read_only(name, saga_id).entries
            entries = [entry for entry in stored if entry.seq > after][:limit]
            last = stored[-1].seq
        else:
            entries = self.journal.history(saga_id, after=after, up_to=state.seq, limit=limit)
            last = state.seq
        more = bool(entries) and entries[-1].seq < last
        texts = Texts(self.registry.redaction(name))
        return [audit_view(texts.entry(entry)) for entry in entries], entries[-1].seq if more else None

    def list(
        self,
        names: Sequence[str],
        status: str | None,
        limit: int,
        cursor: str | None,
        within: TimeRange = ALWAYS,
        values: Mapping[str, str] | None = None,
    ) -> Page:
        """Return summaries, newest first. A page may be short even if more pages follow."""
        if values:
            states, cursor = self._by_values(names, values, limit, cursor, within)
        elif status in ENDED:
            page = self.listing.by_end(names, str(status), limit, cursor, within)
            states = self.control.readable(page.saga_ids)
            cursor = page.cursor
        else:
            states, cursor = self._in_flight(names, status, limit, cursor, within)
        summaries = self._summaries([state for state in states if status in (None, state.status.value)])
        return {"sagas": summaries, "cursor": cursor}

    def _by_values(
        self, names: Sequence[str], values: Mapping[str, str], limit: int, cursor: str | None, within: TimeRange
    ) -> tuple[builtins.list[SagaState], str | None]:
        """Return sagas by their search keys. The index has a page by the first key, and the other keys filter it."""
        declared = {name: {key.name for key in self.registry.get(name).definition.find_by} for name in names}
        unknown = [key for key in values if all(key not in keys for keys in declared.values())]
        if unknown:
            problems = [Problem(f"query.{key}", "is not a search key of any saga type here") for key in unknown]
            raise InvalidRequest("unknown query parameters", problems)
        having_all = [name for name in names if declared[name] >= values.keys()]
        (first, value), *others = values.items()
        page = self.listing.by_name([find_key(name, first, value) for name in having_all], limit, cursor, within)
        states = self.control.readable(page.saga_ids)
        for other, text in others:
            matches = set[str]()
            for name in having_all:
                ids = [state.saga_id for state in states if state.saga == name]
                matches |= self.search_keys.having(name, ids, other, text) if ids else set()
            states = [state for state in states if state.saga_id in matches]
        return states, page.cursor

    def _in_flight(
        self, names: Sequence[str], status: str | None, limit: int, cursor: str | None, within: TimeRange
    ) -> tuple[builtins.list[SagaState], str | None]:
        """Return sagas in one of the statuses that are not final, or in any status."""
        ids = [] if status is None else self.listing.in_flight(status, names, _MOST_IN_FLIGHT)
        if status is None or len(ids) >= _MOST_IN_FLIGHT:
            page = self.listing.by_name(names, limit, cursor, within)
            return self.control.readable(page.saga_ids), page.cursor
        start = IndexPosition.parse(cursor) if cursor is not None else None
        first, last = within.bounds()
        matches = list[tuple[IndexPosition, SagaState]]()
        for state in self.control.readable(builtins.list(dict.fromkeys(ids))):
            position = IndexPosition(iso(state.created_at), state.saga_id)
            fits = state.saga in names and state.status == status and first <= position.sort <= last
            if fits and (start is None or position < start):
                matches.append((position, state))
        matches.sort(key=lambda match: match[0], reverse=True)
        page = matches[:limit]
        return [state for _, state in page], page[-1][0].cursor if len(matches) > limit else None

    def by_keys(self, names: Iterable[str], key: str) -> Page:
        """Return the sagas that were started with an idempotency key, including purged ones: at most one per type."""
        summaries = builtins.list[Summary]()
        for name in names:
            saga_id = id_for_key(self.service, name, key)
            state = self.control.get(saga_id)
            remains = self.remains.of(saga_id) if state is None else None
            summaries += self._summaries([saga for saga in (state, remains and remains.state) if saga is not None])
        return {"sagas": summaries, "cursor": None}

    def name_of(self, saga_id: str) -> str:
        """Return the type of a saga, even if the saga was purged."""
        state = self.control.get(saga_id)
        if state is None:
            remains = self.remains.of(saga_id)
            if remains is None:
                raise NotFound(f"no saga with id {saga_id}")
            state = remains.state
        return state.saga

    def beginning_with(self, prefix: str) -> str:
        """Return the id of the only saga whose id starts with ``prefix``: four or more lower-case characters.

        An id starts with the time of the start, unless it is derived from an idempotency key. The search covers up to
        five hundred sagas of that time, and the five hundred that were started last.
        """
        names = [saga.definition.name for saga in self.registry]
        digits = prefix.replace("-", "")[:12]
        first = int(digits.ljust(12, "0"), 16) / 1000
        last = int(digits.ljust(12, "f"), 16) / 1000
        pages = [self.listing.by_name(names, _MOST_BY_PREFIX, None)]
        if first < _LATEST:
            span = TimeRange(first, min(last, _LATEST) + 1)
            pages.append(self.listing.by_name(names, _MOST_BY_PREFIX, None, span))
        matches = sorted({saga_id for page in pages for saga_id in page.saga_ids if saga_id.startswith(prefix)})
        if not matches:
            raise NotFound(f"no saga with id {prefix}... among the newest {_MOST_BY_PREFIX}")
        if len(matches) > 1:
            some = ", ".join(matches[:5]) + (", ..." if len(matches) > 5 else "")
            raise Conflict(f"{len(matches)} saga ids start with {prefix}: {some}; type more of it")
        return matches[0]

    def incidents(self, name: str | None, *wrong: str) -> IncidentList:
        """Group the sagas that need an operator by type, step, code and error type; the longest waiting first. Only the
        index is read. ``name``: only sagas of this type. ``wrong``: only those with this step, code and error type, or
        the first of these."""
        kind = () if name is None else (name, *wrong)
        found = self.listing.incidents(_MOST_INCIDENTS + 1, _MOST_OF_ONE, kind)
        incidents = builtins.list[IncidentView]()
        for group in sorted(found[:_MOST_INCIDENTS], key=lambda group: group.first):
            of_type, step, code, error_type = group.kind
            incident: IncidentView = {
                "type": of_type,
                "step": step,
                "code": code,
                "error_type": error_type or None,
                "count": group.count,
                "at_least": group.count == _MOST_OF_ONE,
                "first_seen": group.first,
                "last_seen": group.last,
            }
            if code == AttentionCode.DOES_NOT_FIT:
                incident["until"] = iso(epoch(group.first) + self.registry.settle)
            incidents.append(incident)
        return {"incidents": incidents, "at_least": len(found) > _MOST_INCIDENTS}

    def attention(self, name: str | None, limit: int, cursor: str | None, *wrong: str) -> Page:
        """Return summaries of sagas that need an operator, by type, step, code, error type and time. ``name``: only
        sagas of this type. ``wrong``: only those with this step, code and error type, or the first of these."""
        kind = () if name is None else (name, *wrong)
        page = self.listing.attention(limit, cursor, kind)
        # The index may be behind, and who acts on an incident acts on no saga that has another problem by now.
        needy = [
            state
            for state in self.control.readable(page.saga_ids)
            if needs_attention(state) or unread_of(state) or self._release(state)
        ]
        beginning = key_before(kind)
        alike = [state for state in needy if Incident.of(state).key.startswith(beginning)]
        return {"sagas": self._summaries(alike), "cursor": page.cursor}
