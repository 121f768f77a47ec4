"""Purges a saga: deletes everything stored about it, for good (rule 13).

1.  *claim*: if the saga has not changed, its control item takes a lease that is never released, under a new token. From
    then on only the supervisor or an operator may continue, with the purge.
2.  *bury*: the tombstone replaces the first entry, and represents the saga from then on. It lists the S3 objects that
    the results named. The sweep of the saga type will handle those objects.
3.  *clear*: payloads in S3 and all other entries are deleted.
4.  *end*: the control item is deleted, at least a minute after the saga started. A parent must have ended, and a lost
    execution's lease must have expired 15 minutes ago. Workers that began before the purge have ended by then. They may
    have written into empty slots, so everything is cleared once more.

Each step can be repeated, and two purges may run concurrently. The index contains the saga until the control item is
deleted, so the supervisor continues an interrupted purge. Nothing creates the control item again: the start that wrote
the first entry has ended, and a start that finds a tombstone creates no item.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from sagas.authoring.redaction import HIDDEN
from sagas.core.ids import children_ids
from sagas.core.states import Lease, Purge, SagaState
from sagas.engine.clock import Clock
from sagas.engine.read.reader import Reader
from sagas.engine.read.redacting import hidden_by_source
from sagas.engine.read.remains import ReadOnlySaga
from sagas.engine.sweep.references import objects_in
from sagas.errors import Conflict, SagaError, Unavailable
from sagas.store.control.control import ControlItems
from sagas.store.control.mapping import purge_at
from sagas.store.inbox import Inbox
from sagas.store.index.listing import IndexPosition, Listing
from sagas.store.index.search_keys import SearchKeys
from sagas.store.joins import Joins
from sagas.store.journal.entries import NEVER_STARTED, RESULTS, Entry, Tombstone, action_of
from sagas.store.journal.journal import Journal
from sagas.store.journal.tombstones import MOST_ACTIONS, Tombstones
from sagas.store.tables import StoreSettings

_NEVER = 253_402_300_799.0
"""The end of the year 9999. No version takes over a lease that lasts until then."""
_LATER = 86_400.0
"""Seconds until the next look at a due saga that cannot be purged yet."""
_NOT_OPEN = 1.0
"""A value for ``stale_after``. It has no effect, because the saga has ended."""
_TRIES = 5
_MOST_OBJECTS = 100
"""A tombstone names at most this many objects, and counts the others."""
_MOST_BYTES = 50_000
"""Maximum bytes of the buckets and keys of these objects together."""


class PurgeReport(Struct):
    """Result of one run. Lists have the ids of sagas.

    Args:
        purged: sagas that now have only a tombstone.
        untouched: sagas that are kept longer now, or that cannot be purged yet.
        failed: sagas whose purge failed.
        remaining: due sagas that the run had no time for.
    """

    purged: list[str] = field(default_factory=list[str])
    untouched: int = 0
    failed: list[str] = field(default_factory=list[str])
    remaining: int = 0


class Purger(Struct, frozen=True):
    """Purges sagas whose retention has expired, and single sagas on request."""

    control: ControlItems
    journal: Journal
    tombstones: Tombstones
    inbox: Inbox
    search_keys: SearchKeys
    joins: Joins
    listing: Listing
    reader: Reader
    settings: StoreSettings
    clock: Clock
    logger: logging.Logger

    def run(self, budget: float, limit: int = 10_000) -> PurgeReport:
        """Purge due sagas, longest overdue first. If one fails, the others continue. ``budget``: seconds the run may
        take. The next run handles the remaining sagas."""
        return self.purge_due(self.listing.to_purge(self.clock.now(), limit), budget)

    def purge_due(self, due: Sequence[IndexPosition], budget: float) -> PurgeReport:
        """Purge these due sagas. If one fails, it stays due, and the others continue. ``budget``: maximum seconds."""
        report = PurgeReport()
        end = self.clock.now() + budget
        for count, position in enumerate(due):
            if self.clock.now() >= end:
                report.remaining = len(due) - count
                break
            try:
                if self._purged(position):
                    report.purged.append(position.saga_id)
                else:
                    report.untouched += 1
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one saga must not stop the others
                fields = {"saga_id": position.saga_id, "error": type(error).__name__}
                self.logger.warning("a purge failed", extra=fields)
                report.failed.append(position.saga_id)
        return report

    def _purged(self, position: IndexPosition) -> bool:
        """Purge a saga whose retention has expired, or continue an interrupted purge. Return whether the saga was
        purged."""
        state = self.control.get(position.saga_id)
        now = self.clock.now()
        if state is None or not state.ended:
            return False
        due = purge_at(state, self.settings)
        if not due or due > now:  # the service's retention has changed since the saga ended
            self.control.push_due(position.saga_id, position.sort, due or now + _LATER)
            return False
        if state.purge is not None:
            self._end(state, state.purge)
            return True
        purge = Purge(now)
        if self._needy(state) is not None:
            self.control.push_due(position.saga_id, position.sort, now + _LATER)
            return False
        claimed = None if _refusal(state, now) else self._claim(state, purge)
        if claimed is not None:
            self._end(claimed, purge)
        return claimed is not None

    def purge(self, name: str, saga_id: str, reason: str, actor: str) -> ReadOnlySaga:
        """Purge one saga at once, unless it has already been purged. Returns it as its tombstone shows it."""
        purge = Purge(self.clock.now(), actor, reason)
        for _ in range(_TRIES):
            state = self.reader.stored(name, saga_id)
            if state is None:
                remains = self.reader.read_only(name, saga_id)
                if remains.purge is not None:
                    self.tombstones.clear(saga_id, [], aside=True)  # a start that was refused may have died
                    return remains
                self._clear(remains.state, purge)
                continue
            if state.purge is None and (refusal := _refusal(state, self.clock.now())):
                raise Conflict(refusal)
            if state.purge is None and (child := self._needy(state)) is not None:
                raise Conflict(
                    f"its child {child.saga}/{child.saga_id} is {child.status} and needs an operator: resolve it first"
                )
            claimed = state if state.purge is not None else self._claim(state, purge)
            if claimed is not None:
                purge = claimed.purge or purge
                self._end(claimed, purge)
                if not purge.requested:  # the retention had expired before
                    self.tombstones.clear(saga_id, [], aside=True)
                return self.reader.read_only(name, saga_id)
        raise Unavailable("the saga was changed by others five times in a row; try again", retry_after=1)

    def _needy(self, state: SagaState) -> SagaState | None:
        """Return a descendant that needs an operator; ``None`` if no descendant does. A purge includes all
        descendants."""
        for child in self.control.get_many(children_ids(state), consistent=True).values():
            needy = child if child.attention else self._needy(child)
            if needy is not None:
                return needy
        return None

    def _claim(self, state: SagaState, purge: Purge) -> SagaState | None:
        """Take the lease for good; return ``None`` if the saga has changed since it was read.

        The digest of the results and the steps' undo flags are removed. Nothing needs them any more, and so the item
        stays under a kilobyte. Texts of the saga are removed, because the item remains until the purge ends.
        """
        lease = Lease(self.clock.new_owner(), _NEVER, _NEVER)
        steps = tuple(replace(step, undo=False) for step in state.steps)
        claimed = replace(state, steps=steps, lease=lease, token=state.token + 1, purge=purge, digest="")
        cancel = replace(state.cancel, by="", reason="")
        claimed = replace(claimed, progress=None, polling=None, unread=None, cancel=cancel)
        if state.lease is not None:
            claimed = replace(claimed, lost_until=max(state.lost_until, _held_until(state.lease)))
        return claimed if self.control.claim(state, claimed, _NOT_OPEN) else None

    def _end(self, claimed: SagaState, purge: Purge) -> None:
        last = purge_at(claimed, self.settings) <= self.clock.now()
        self._end_children(claimed, purge, last=last)
        self._clear(claimed, purge)
        if last:
            self.control.delete(claimed)  # if this is refused, another purge has deleted the item

    def _end_children(self, parent: SagaState, purge: Purge, *, last: bool) -> None:
        """Purge a saga's children, before the saga itself."""
        ids = children_ids(parent)
        if not ids:
            return
        existing = self.control.get_many(ids, consistent=True)
        for child in existing.values():
            claimed = child if child.purge is not None else self._claim(child, purge)
            if claimed is None:
                raise Unavailable("a child of the saga was changed by others; try again", retry_after=1)
            self._end(claimed, purge)
        if last and (missing := [saga_id for saga_id in ids if saga_id not in existing]):
            self._clear_unborn(parent, purge, missing)
        for step in parent.steps:
            for round_ in range(step.round + 1 if step.fan_out.children else 0):
                self.joins.delete(parent.saga_id, step.name, round_)

    def _clear_unborn(self, parent: SagaState, purge: Purge, ids: Sequence[str]) -> None:
        """Delete what is stored of children without a control item: the marks of those that never start, and first
        entries whose writer died. This comes last, when no worker can start these children any more."""
        named = {1, *(step.fan_out.requests_seq for step in parent.steps if step.fan_out.requests_seq)}
        places = [*((parent.saga_id, seq) for seq in named), *((saga_id, 1) for saga_id in ids)]
        entries = self.journal.entries_of(places)
        # A child's request is in S3 only if those of all children of its step together are.
        aside = purge.requested or any(map(_names_objects, entries.pop(parent.saga_id, {}).values()))
        for saga_id in ids:
            first = entries.get(saga_id, {}).get(1)
            if first is None:  # its writer may have died before the entry
                self.tombstones.clear(saga_id, [], aside=aside)
                continue
            if first.tombstone is not None:
                continue
            lost = None if first.action == NEVER_STARTED else self.reader.remains.behind(first)
            if lost is not None:  # its control item is missing
                self._clear(lost.state, purge)
                continue
            self.search_keys.delete(saga_id, first.details.get("found_by", ()))
            self.tombstones.clear(saga_id, [1], aside=aside or _names_objects(first))

    def _clear(self, state: SagaState, purge: Purge) -> None:
        """Write the tombstone, and delete all other entries, including those that were never committed.

        The tombstone is written first, because it is made from the entries. It also records whether there are payloads
        in S3, in case a purge is interrupted after it has deleted the entries that name them.
        """
        entries = self.journal.history(state.saga_id)
        first = entries[0] if entries and entries[0].seq == 1 else None
        aside = purge.requested or any(map(_names_objects, entries)) or any(s.signalled for s in state.steps)
        if first is not None and first.tombstone is not None:
            self.search_keys.delete(state.saga_id, first.tombstone.found_by)
        elif first is not None:
            # A lost execution may have stored a result in S3 although it has no entry.
            aside = aside or not set(range(1, state.token)) <= {entry.token for entry in entries}
            key_names = (*first.details.get("found_by", ()),)
            self.search_keys.delete(state.saga_id, key_names)
            committed = [entry for entry in entries if entry.seq <= state.seq]
            request_hash = str(committed[0].details.get("request_hash", ""))
            last = committed[-MOST_ACTIONS:]
            actions = tuple(map(action_of, last))
            objects = self._objects(state, committed)
            named = _first_of(objects)
            found = key_names, named, len(objects) - len(named), (*hidden_by_source(committed),)
            tombstone = Tombstone(purge, request_hash, state, actions, aside, last[0].link, *found)
            self.tombstones.put(state.saga_id, tombstone)
        self.inbox.delete(state)
        self.tombstones.clear(state.saga_id, [entry.seq for entry in entries if entry.seq > 1], aside=aside)

    def _objects(self, state: SagaState, entries: Sequence[Entry]) -> tuple[tuple[str, str], ...]:
        """Return bucket and key of each S3 object that a saga's results name, without duplicates.

        Redacted and encrypted values are left out, because they must not outlive the saga in clear text.
        """
        redaction = self.reader.registry.redaction(state.saga)
        objects = dict[tuple[str, str], None]()
        for entry in entries:
            encrypted = entry.encrypted or (entry.payload is None and self.settings.payload_key)
            if entry.action not in RESULTS or encrypted:
                continue
            try:
                payload = self.journal.load(entry).payload
            except Unavailable:
                raise
            except SagaError:  # deleted by another purge, or unreadable
                continue
            view, _ = redaction.view(entry.step or "", json.loads(payload) if payload else None, entry.hidden)
            objects |= {item: None for item in objects_in(view) if HIDDEN not in item}
        return tuple(objects)


def _first_of(objects: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return as many objects as fit into the tombstone, whose item also contains the saga's actions."""
    size = 0
    for count, item in enumerate(objects[:_MOST_OBJECTS]):
        size += sum(len(text.encode(errors="surrogatepass")) for text in item)
        if size > _MOST_BYTES:
            return (*objects[:count],)
    return (*objects[:_MOST_OBJECTS],)


def _names_objects(entry: Entry) -> bool:
    """Whether an entry names payloads in S3, or is the tombstone of a saga that had some."""
    return "payload_ref" in entry.details or (entry.tombstone is not None and entry.tombstone.aside)


def _refusal(state: SagaState, now: float) -> str:
    """Return why a saga cannot be purged now; empty if it can."""
    if not state.ended:
        return f"the saga is {state.status}; only sagas that have ended can be purged"
    if state.parent is not None:
        parent = state.parent
        return f"the saga is a child of {parent.saga}/{parent.saga_id}: purge the parent, which includes its children"
    if state.attention:
        return f"the saga is {state.status} and needs an operator: resolve it first"
    if state.lease is not None and _held_until(state.lease) > now:
        return "a worker, the supervisor or another operator holds this saga: try again in a minute"
    if state.lost_until > now:
        return "a lost execution of this saga may still be running: try again in a minute"
    return ""


def _held_until(lease: Lease) -> float:
    return max(lease.expires_at, lease.act_until)
