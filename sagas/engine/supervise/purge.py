"""Purging: what ends all that is stored of a saga, together, and for good (rule 13).

1.  *claim*: the control item takes a lease that is never given back, under a new token, on condition that the saga is
    as it was seen. From then on nothing but its purge goes on, by the supervisor or an operator.
2.  *bury*: the first entry becomes the tombstone, which answers for the saga from then on, and names the objects in S3
    that its results named: they are left to the sweep of its type.
3.  *clear*: payloads in S3 and all other entries are deleted.
4.  *end*: the control item is deleted: a minute after the saga's start at the earliest, a parent's after its end, and
    where an execution was lost, a quarter of an hour after its lease. Who began before the purge, and knows nothing of
    it, has ended by then. What it wrote late went into a slot that was empty, so that all is cleared once more.

Each may be done again, and by two at once: what is done already stays as it is. Until the control item is gone the
index names the saga, so that the supervisor goes on where a purge was interrupted. None makes the control item anew:
a start that finds the first entry creates on condition that it is no tombstone, and the one that wrote it is over when
a purge ends.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sagas.authoring.redaction import HIDDEN
from sagas.core.ids import children_ids
from sagas.core.states import Lease, Purge, SagaState
from sagas.engine.clock import Clock
from sagas.engine.read.reader import Reader
from sagas.engine.read.remains import Left
from sagas.engine.sweep.references import objects_in
from sagas.errors import Conflict, NotFound, SagaError, Unavailable
from sagas.store.children.joins import Joins
from sagas.store.control.control import ControlItems
from sagas.store.control.mapping import purge_at
from sagas.store.index.findings import Findings
from sagas.store.index.listing import IndexPosition, Listing
from sagas.store.journal.entries import NEVER_STARTED, RESULTS, Entry, Tombstone, action_of
from sagas.store.journal.journal import Journal
from sagas.store.journal.tombstones import MOST_ACTIONS, Tombstones
from sagas.store.settings import StoreSettings
from sagas.store.signals.inbox import Inbox

_NEVER = 253_402_300_799.0
"""The end of the year 9999: such a lease is never taken over, by no version."""
_LATER = 86_400.0
"""Seconds after which a saga is looked at again that the service keeps for good by now."""
_NOT_OPEN = 1.0
"""For the patience with a stall, which no saga that is over has."""
_TRIES = 5
_MOST_OBJECTS = 100
"""Objects that a tombstone names; it tells how many more there were."""
_MOST_BYTES = 50_000
"""Of their buckets and keys together."""


@dataclass(slots=True)
class PurgeReport:
    """What a run did, by saga id.

    Args:
        purged: of which nothing but their tombstone is left.
        untouched: they are kept longer by now, or something is at work on them.
        failed: they could not be purged.
        left: due sagas for which there was no time.
    """

    purged: list[str] = field(default_factory=list[str])
    untouched: int = 0
    failed: list[str] = field(default_factory=list[str])
    left: int = 0


@dataclass(frozen=True, slots=True)
class Purger:
    """Purges sagas: those whose retention is over, and single ones at once."""

    control: ControlItems
    journal: Journal
    tombstones: Tombstones
    inbox: Inbox
    findings: Findings
    joins: Joins
    listing: Listing
    reader: Reader
    settings: StoreSettings
    clock: Clock
    logger: logging.Logger

    def run(self, budget: float, limit: int = 10_000) -> PurgeReport:
        """Purge what is due, longest due first. One that fails stops no other. ``budget``: seconds the run may take;
        what is left is for the next."""
        return self.work_off(self.listing.to_purge(self.clock.now(), limit), budget)

    def work_off(self, due: Sequence[IndexPosition], budget: float) -> PurgeReport:
        """Purge sagas that were found to be due. One that fails stops no other, and stays due. ``budget``: seconds it
        may take."""
        report, end = PurgeReport(), self.clock.now() + budget
        for position, found in enumerate(due):
            if self.clock.now() >= end:
                report.left = len(due) - position
                break
            try:
                if self._purged(found):
                    report.purged.append(found.saga_id)
                else:
                    report.untouched += 1
            except Exception as error:  # noqa: BLE001 - one bad saga must not keep the others, whatever is wrong with it
                fields = {"saga_id": found.saga_id, "error": type(error).__name__}
                self.logger.warning("a purge failed", extra=fields)
                report.failed.append(found.saga_id)
        return report

    def _purged(self, found: IndexPosition) -> bool:
        """Purge a saga by its retention, or go on with a purge that was interrupted; whether that was done."""
        state, now = self.control.get(found.saga_id), self.clock.now()
        if state is None or not state.over:
            return False
        due = purge_at(state, self.settings)
        if not due or due > now:  # the service's retention has changed since the saga ended
            self.control.push_due(found.saga_id, found.sort, due or now + _LATER)
            return False
        if state.purge is not None:
            self._end(state, state.purge)
            return True
        purge = Purge(now)
        if self._needy(state) is not None:
            self.control.push_due(found.saga_id, found.sort, now + _LATER)
            return False
        claimed = None if _refusal(state, now) else self._claim(state, purge)
        if claimed is not None:
            self._end(claimed, purge)
        return claimed is not None

    def purge(self, name: str, saga_id: str, note: str, actor: str) -> Left:
        """Purge one saga at once. One that is purged already stays as it is. Returns what is left."""
        purge = Purge(self.clock.now(), actor, note)
        for _ in range(_TRIES):
            state = self.reader.stored(name, saga_id)
            if state is None:
                left = self.reader.left(name, saga_id)
                if left.purge is not None:
                    return left
                self._clear(left.state, purge)
                continue
            if state.purge is None and (refused := _refusal(state, self.clock.now())):
                raise Conflict(refused)
            if state.purge is None and (needy := self._needy(state)) is not None:
                raise Conflict(
                    f"its child {needy.saga}/{needy.saga_id} is {needy.status} and needs a person: resolve it first"
                )
            claimed = state if state.purge is not None else self._claim(state, purge)
            if claimed is not None:
                self._end(claimed, claimed.purge or purge)
                return self.reader.left(name, saga_id)
        raise Unavailable("the saga changes too fast; try again", retry_after=1)

    def _needy(self, state: SagaState) -> SagaState | None:
        """One of those whose purge this one's is, children and theirs, that needs a person; ``None`` if none does."""
        for child in self.control.get_many(children_ids(state), consistent=True).values():
            needy = child if child.attention else self._needy(child)
            if needy is not None:
                return needy
        return None

    def _claim(self, state: SagaState, purge: Purge) -> SagaState | None:
        """Take the lease for good; ``None`` when the saga is no longer as it was read.

        No step will read a result any more, and none is undone: the results' digest, and which steps have an undo, make
        room, so that the item stays under a kilobyte.
        """
        lease = Lease(self.clock.new_owner(), _NEVER, _NEVER)
        steps = tuple(replace(step, undo=False) for step in state.steps)
        claimed = replace(state, steps=steps, lease=lease, token=state.token + 1, purge=purge, digest="")
        if state.lease is not None:
            claimed = replace(claimed, lost_until=max(state.lost_until, _held_until(state.lease)))
        return claimed if self.control.claim(state, claimed, _NOT_OPEN) else None

    def _end(self, claimed: SagaState, purge: Purge) -> None:
        last = purge_at(claimed, self.settings) <= self.clock.now()
        self._end_children(claimed, purge, last=last)
        self._clear(claimed, purge)
        if last:
            self.control.delete(claimed)  # refused: another purge was faster

    def _end_children(self, parent: SagaState, purge: Purge, *, last: bool) -> None:
        """Purge what a saga has started before it is purged itself: a tree is purged as one."""
        ids = children_ids(parent)
        if not ids:
            return
        there = self.control.get_many(ids, consistent=True)
        for child in there.values():
            claimed = child if child.purge is not None else self._claim(child, purge)
            if claimed is None:
                raise Unavailable("a child changes at this moment; try again", retry_after=1)
            self._end(claimed, purge)
        # Their first slot is left vacant when nobody can be about to start them any more.
        gone = [saga_id for saga_id in ids if saga_id not in there] if last else []
        for saga_id, entries in self.journal.entries_of((saga_id, 1) for saga_id in gone).items():
            if entries[1].action == NEVER_STARTED:
                self.tombstones.clear(saga_id, [1], aside=False)
        for step in parent.steps:
            for round_ in range(step.round + 1 if step.fan_out.children else 0):
                self.joins.delete(parent.saga_id, step.name, round_)

    def _clear(self, state: SagaState, purge: Purge) -> None:
        """Make the tombstone, and delete what it stands for, entries that were never committed included.

        The tombstone comes first: what it tells is taken from entries that are deleted next. Whether there are payloads
        in S3 is told by it, too, for who goes on when the entries that name them are gone.
        """
        entries = self.journal.history(state.saga_id)
        first = entries[0] if entries and entries[0].seq == 1 else None
        aside = any("payload_ref" in entry.details for entry in entries) or any(s.signalled for s in state.steps)
        if first is not None and first.tombstone is not None:
            aside = aside or first.tombstone.aside
            self.findings.delete(state.saga_id, first.tombstone.found_by)
        elif first is not None:
            # An execution that no entry tells of may have put a result aside before it was lost.
            aside = aside or not set(range(1, state.token)) <= {entry.token for entry in entries}
            found_by = (*first.details.get("found_by", ()),)
            self.findings.delete(state.saga_id, found_by)
            committed = [entry for entry in entries if entry.seq <= state.seq]
            request_hash = str(committed[0].details.get("request_hash", ""))
            kept = committed[-MOST_ACTIONS:]
            actions = tuple(map(action_of, kept))
            objects = self._objects(state, committed)
            first_ones = _first_of(objects)
            more = len(objects) - len(first_ones)
            tombstone = Tombstone(purge, request_hash, state, actions, aside, kept[0].link, found_by, first_ones, more)
            self.tombstones.put(state.saga_id, tombstone)
        self.inbox.delete(state)
        self.tombstones.clear(state.saga_id, [entry.seq for entry in entries if entry.seq > 1], aside=aside)

    def _objects(self, state: SagaState, entries: Sequence[Entry]) -> tuple[tuple[str, str], ...]:
        """Bucket and key of each object in S3 that a saga's results name, once each.

        What is not to be shown of a saga, or only with a key of its owner's, is not to outlive it in clear text.
        """
        try:
            redaction = self.reader.registry.get(state.saga).definition.redaction
        except NotFound:
            return ()  # what of its results may be shown is not known
        found = dict[tuple[str, str], None]()
        for entry in entries:
            encrypted = entry.encrypted or (entry.payload is None and self.settings.payload_key)
            if entry.action not in RESULTS or encrypted:
                continue
            try:
                payload = self.journal.load(entry).payload
            except Unavailable:
                raise
            except SagaError:  # another purge was faster, and has named them; or it can be read no more
                continue
            shown = json.loads(payload) if payload else None
            if redaction.hides:
                shown, _ = redaction.shown(entry.step or "", shown)
            found |= {one: None for one in objects_in(shown) if HIDDEN not in one}
        return tuple(found)


def _first_of(objects: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """As many as a tombstone has room for: it is one item, beside the actions of the saga."""
    size = 0
    for count, one in enumerate(objects[:_MOST_OBJECTS]):
        size += sum(len(text.encode(errors="surrogatepass")) for text in one)
        if size > _MOST_BYTES:
            return (*objects[:count],)
    return (*objects[:_MOST_OBJECTS],)


def _refusal(state: SagaState, now: float) -> str:
    """Why a saga cannot be purged now; empty when it can."""
    if not state.over:
        return f"the saga is {state.status}; only one that is over can be purged"
    if state.parent is not None:
        whose = state.parent
        return f"the saga is a child of {whose.saga}/{whose.saga_id}, and is purged with it"
    if state.attention:
        return f"the saga is {state.status} and needs a person: resolve it first"
    if state.lease is not None and _held_until(state.lease) > now:
        return "a worker, the supervisor or another operator is at work on this saga"
    if state.lost_until > now:
        return "an execution of this saga that was lost may still be at work: try again in a minute"
    return ""


def _held_until(lease: Lease) -> float:
    return max(lease.expires_at, lease.act_until)
