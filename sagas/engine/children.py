"""Advances a saga whose step has children: starts them, joins them, and has them undone.

No lease is held while children run. A conditional update of the parent hands out positions to start. The position
determines the child's id, so a second start has no effect. The first slot of a child's journal decides whether the
child ever starts. Before the parent undoes the step, it puts ``NeverStarted`` into each vacant slot. If a slot is
taken, the parent completes that child's start and then cancels it. Each call here is a *look*: it does what is due now.
Looks may be repeated, interrupted and concurrent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from msgspec import Struct, structs
from msgspec.structs import replace

from sagas.core import events as ev
from sagas.core.automaton import decide
from sagas.core.commands import CancelArrived, ChildrenFact, ChildrenSeen, Refuse, Visited
from sagas.core.ids import child_id, parent_of
from sagas.core.rules import ForwardPlan, next_fact, next_reading, unread_of
from sagas.core.states import SagaState, SagaStatus, StepState
from sagas.core.text import iso
from sagas.core.transitions import unread
from sagas.engine.advance import Advancer
from sagas.engine.attempt.call import LARGEST_RESULT
from sagas.engine.attempt.failures import NotRead, is_gone, why_not_read
from sagas.engine.committer import EntryContext
from sagas.engine.joining import BLOCK
from sagas.engine.ports import MessageSender, WorkSender
from sagas.engine.start.children import PARENT, ChildCreator
from sagas.errors import ChildrenFailed, Denied, NewerFormat, TypeChanged, Unavailable, WrongResult
from sagas.messaging.message import Message
from sagas.messaging.work import NOW, ChildrenToStart, SagasToAdvance, Work
from sagas.paths import EACH
from sagas.store.connection import Changed, Fenced, Withheld
from sagas.store.control.control import ControlItems
from sagas.store.joins import (
    CARRIED,
    COMPLETED,
    FAILED,
    FORWARD,
    NEVER,
    STANDING,
    STUCK,
    UNDONE,
    ChildOutcome,
    Joins,
    undoing,
)
from sagas.store.journal.entries import NEVER_STARTED, Entry, hiding

T = TypeVar("T")

_AT_ONCE = 16
"""The number of results that are read concurrently."""
_NAMED = 10
"""Maximum number of failed children that an error lists."""
_ROUNDS = 20
"""Maximum rounds of one look. A look is repeated while the parent has changed, or while there is more to do."""
_TOKENS = 100_000
"""Largest random increase of the token when positions are handed out. If two looks draw the same increase, both start
the same children, which does no harm."""
_SUPERVISOR = EntryContext(actor="supervisor")
_STANDING = (SagaStatus.COMPLETED, SagaStatus.FAILED)


class Children(Struct, frozen=True):
    """Advances sagas on request, mainly those with children."""

    advancer: Advancer
    control: ControlItems
    joins: Joins
    starter: ChildCreator
    sender: MessageSender
    work: WorkSender

    def look(self, saga_id: str, *, thorough: bool = False) -> bool:
        """Advance a saga as far as is possible now, unless a worker holds its lease. Returns whether it is on the
        attention list because what it needs cannot be read."""
        for _ in range(_ROUNDS):
            state = self.control.get(saga_id)
            if state is None or (state.lease is not None and state.lease.expires_at > self._now):
                return False
            owed = next_fact(self.advancer.plan(state), state, self._now) is not None or state.lease is not None
            if owed or not state.joins:
                stalled = Visited(self.advancer.lease())
                context = _SUPERVISOR
                with suppress(Fenced):
                    self.advancer.advance(state, stalled, context)
                return False
            if state.unread is not None and state.not_before > self._now and not thorough:
                return False  # a look at that time is on its way
            try:
                more = self._undone(state, thorough) if state.undoing else self._joined(state, thorough)
            except (NotRead, Denied) as error:
                cause = error.cause if isinstance(error, NotRead) else error
                return self._look_later(saga_id, cause, SagasToAdvance([saga_id], thorough=True).work())
            if not more:
                self._was_read(state)
                return False
        return False

    def list_stuck(self, saga_id: str, looks: int) -> None:
        """Put a parent on the attention list if its children have ended but every attempt to join them has failed."""
        state = self.control.get(saga_id)
        if state is None or not state.joins or state.undoing or state.attention or state.unread:
            return
        tally = self.joins.first_ends(state.saga_id, state.steps[state.cursor])
        if tally.ended >= state.steps[state.cursor].fan_out.children:
            self._seen(state, ev.MessageResent(unanswered=looks, attention=True))

    def _look_later(self, saga_id: str, error: Unavailable, work: Work) -> bool:
        """Mark a parent whose inputs, or whose children's results, cannot be read, and do the work later (rule 19).
        Returns whether the parent is on the attention list for it."""
        state = self.control.get(saga_id)
        clock = self.advancer.services.clock
        if state is None or not state.joins:
            return False
        now = clock.now()
        mark = unread(state.unread, now, why_not_read(error), now)
        again = next_reading(mark.since, now, clock.chance())
        after = structs.replace(state, unread=mark, not_before=again, updated_at=now)
        self.control.mark_unread(state, after, self.advancer.plan(state).stale_after)
        self.work.send_work(NOW, [work], again - now)
        fields = {"saga_id": saga_id, "error": mark.error, "until": iso(again)}
        self.advancer.services.logger.warning("what a step with children needs cannot be read", extra=fields)
        return unread_of(after) is not None

    def _was_read(self, state: SagaState) -> None:
        """Remove the mark of a parent that could be read again."""
        current = self.control.get(state.saga_id) if state.unread is not None else None
        if current is not None and current.unread is not None and current.joins:
            after = structs.replace(current, unread=None, not_before=0.0)
            self.control.mark_unread(current, after, self.advancer.plan(current).stale_after)

    @property
    def _now(self) -> float:
        return self.advancer.services.clock.now()

    # Forward: start, and join.

    def _joined(self, state: SagaState, thorough: bool) -> bool:
        """Start as many children as allowed, or end the step if all have ended. Return whether to look again."""
        step = state.steps[state.cursor]
        fan_out = step.fan_out
        tally = self.joins.first_ends(state.saga_id, step)
        if tally.ended >= fan_out.children:
            return self._end(state, step)
        failed = tally.ended - tally.completed
        if failed > fan_out.tolerate:
            if tally.ended >= fan_out.handed_out:
                return self._end(state, step)
            return self._close(state, step, thorough)
        if thorough:
            self._continue(state, step)
        room = fan_out.children - fan_out.handed_out
        if fan_out.at_once:
            room = min(room, fan_out.at_once - (fan_out.handed_out - tally.ended))
        if room <= 0:
            return False
        token = state.token + 1 + int(self.advancer.services.clock.chance() * _TOKENS)
        if not self.control.mark_started(state, state.cursor, room, token):
            return True
        blocks = [
            ChildrenToStart(state.saga_id, step.name, step.round, first, min(BLOCK, fan_out.handed_out + room - first))
            for first in range(fan_out.handed_out, fan_out.handed_out + room, BLOCK)
        ]
        if len(blocks) == 1:
            try:
                self.start(blocks[0])
            except Unavailable:
                # The next look skips these positions, as they are already handed out. So a message starts the children.
                self.work.send_work(NOW, [blocks[0].work()])
        else:
            self.work.send_work(NOW, [block.work() for block in blocks])
        return False

    def start(self, block: ChildrenToStart) -> bool:
        """Start children that were handed out. Children that exist or must not start stay unchanged. Returns the same
        as :meth:`look`."""
        state = self.control.get(block.saga_id)
        if state is None or not state.joins or state.undoing or state.cancel.at or state.out_of_time(self._now):
            return False
        step = state.steps[state.cursor]
        if (step.name, step.round) != (block.step, block.round):
            return False
        try:
            self._start(state, step, range(block.first, min(block.first + block.count, step.fan_out.handed_out)))
        except NotRead as error:
            return self._look_later(state.saga_id, error.cause, block.work())
        self._was_read(state)
        return False

    def _start(self, state: SagaState, step: StepState, positions: Iterable[int]) -> None:
        declaration = self._declaration(state, step)
        types = declaration.details["types"]
        requests = json.loads(declaration.payload or "[]")
        earlier = self.joins.outcomes(state.saga_id, step.name, step.round - 1, FORWARD) if step.round else {}
        correlation_id = declaration.correlation_id or state.correlation_id
        messages = list[Message]()
        undeployed = ""
        for position in positions:
            before = earlier.get(position)
            if before is not None and before.how in (COMPLETED, CARRIED):
                carried = replace(before, how=CARRIED)
                self.joins.record(parent_of(state, step, position), FORWARD, carried)
                continue
            name = types[position] if len(types) > 1 else types[0]
            if name not in self.advancer.registry:
                undeployed = name
                continue
            parent = parent_of(state, step, position)
            message = self.starter.start_child(name, requests[position], parent, correlation_id=correlation_id)
            if message is not None:
                messages.append(message)
        self.sender.send_all(messages)
        if undeployed:
            missing = ev.Failure(ev.CODE_GONE, f"type {undeployed!r} of children of step {step.name!r} is not deployed")
            self._seen(state, ev.StepDeadLettered(state.cursor, ev.DeadLetterCause.CODE_MISSING, failure=missing))
        if earlier:  # a child that keeps its result from the last round has ended at once
            self.work.send_work(NOW, [SagasToAdvance([state.saga_id]).work()])

    def _declaration(self, state: SagaState, step: StepState) -> Entry:
        """Return the entry with the types and requests of the step's children."""
        seq = step.fan_out.requests_seq
        journal = self.advancer.services.journal
        return _reading(lambda: journal.entries(state.saga_id, [seq]))[seq]

    def _continue(self, state: SagaState, step: StepState) -> None:
        """Start the children that were handed out to a worker that has died."""
        ended = self.joins.outcomes(state.saga_id, step.name, step.round, FORWARD)
        remaining = [position for position in range(step.fan_out.handed_out) if position not in ended]
        existing = self._existing(state, step, remaining)
        missing = [position for position in remaining if position not in existing]
        if missing:
            self._start(state, step, missing)

    def _existing(self, state: SagaState, step: StepState, positions: Iterable[int]) -> dict[int, SagaState]:
        """Return the children that have a control item, by position."""
        ids = {child_id(state.saga_id, step.name, position, step.round): position for position in positions}
        children = self.control.get_many(list(ids), consistent=True)
        return {ids[saga_id]: child for saga_id, child in children.items()}

    def _end(self, state: SagaState, step: StepState) -> bool:
        """Journal the children's outcome. Return whether to look again."""
        outcomes = self.joins.outcomes(state.saga_id, step.name, step.round, FORWARD)
        done = {position: outcome for position, outcome in outcomes.items() if outcome.how in (COMPLETED, CARRIED)}
        failed = [position for position in range(step.fan_out.children) if position not in done]
        own = self.advancer.plan(state).steps[state.cursor].forward
        continues = isinstance(own, ForwardPlan) and own.on_timeout == "CONTINUE"
        tolerated = len(failed) <= step.fan_out.tolerate or continues
        failure = None if tolerated else self._failure(state, step, failed, outcomes)
        context = _SUPERVISOR
        if failure is None:
            ids = {
                child_id(state.saga_id, step.name, position, outcome.round): position
                for position, outcome in done.items()
            }
            try:
                context = _reading(lambda: self._joined_results(state, step, ids))
            except (TypeChanged, WrongResult) as error:
                failure = ev.Failure(type(error).__name__, str(error))
        return self._seen(state, ev.ChildrenEnded(state.cursor, len(done), len(failed), failure), context)

    def _failure(
        self, state: SagaState, step: StepState, failed: Sequence[int], outcomes: Mapping[int, ChildOutcome]
    ) -> ev.Failure:
        """Return the failure, whose text lists failed children, the end of each and the type of its error. Its message
        is in the child: the parent does not know what the child hides."""
        ended = [position for position in failed if position in outcomes and outcomes[position].how != NEVER]
        ended.sort(key=lambda position: (not outcomes[position].seq, position))  # failed before cancelled children
        named = {
            position: child_id(state.saga_id, step.name, position, outcomes[position].round)
            for position in ended[:_NAMED]
        }
        seqs = ((saga_id, outcomes[position].seq) for position, saga_id in named.items())
        errors = dict[str, dict[int, Entry]]()
        with suppress(NewerFormat):  # the types are only for people
            errors = self.advancer.services.journal.entries_of((saga_id, seq) for saga_id, seq in seqs if seq)
        texts = list[str]()
        for position, saga_id in named.items():
            outcome = outcomes[position]
            end = "failed, and so did its undo"
            if outcome.how == UNDONE:
                end = "failed and was undone" if outcome.seq else "was cancelled"
            elif outcome.how == FAILED:
                end = "failed"
            entry = errors.get(saga_id, {}).get(outcome.seq)
            error = entry.details.get("error") if entry is not None else None
            texts.append(f"{step.name}[{position}] {end}" + (f" ({error['type']})" if error else ""))
        more = f" and {len(ended) - _NAMED} more" if len(ended) > _NAMED else ""
        counts = f"{len(failed)} of {step.fan_out.children} children did not complete"
        return ev.Failure(ChildrenFailed.__name__, f"{counts}: {', '.join(texts)}{more}")

    def _joined_results(self, state: SagaState, step: StepState, ids: Mapping[str, int]) -> EntryContext:
        """Return the entry's payload: a JSON list of the children's results, with null for a child without a result.
        ``ids``: the positions of the completed children, by id."""
        children = self.control.get_many(list(ids), consistent=True)
        journal = self.advancer.services.journal
        # A child has no result if its last step failed and the child completed without that step.
        seqs = {saga_id: child.result_step.result_seq for saga_id, child in children.items()}
        by_id = journal.entries_of((saga_id, seq) for saga_id, seq in seqs.items() if seq)
        entries = [entry for by_seq in by_id.values() for entry in by_seq.values()]
        for saga_id, position in ids.items():
            if saga_id not in seqs or (seqs[saga_id] and saga_id not in by_id):
                raise _unreadable(step, position, saga_id, "is missing")

        several = len({child.saga for child in children.values()}) > 1
        hidden = {*self.advancer.registry.redaction(state.saga).hidden.get(step.name, ())}
        for entry in entries:
            hidden |= {(f"[{ids[entry.saga_id]}]" if several else EACH, *path) for path in entry.hidden}
        texts = ["null"] * step.fan_out.children
        size = 0

        def load(entry: Entry) -> Entry:
            return self._loaded(state, step, ids[entry.saga_id], entry)

        # Each result stored in S3 takes a request. Reading stops at the size limit, which bounds the memory.
        with ThreadPoolExecutor(_AT_ONCE, "joining") as pool:
            for first in range(0, len(entries), _AT_ONCE):
                for entry in pool.map(load, entries[first : first + _AT_ONCE]):
                    text = texts[ids[entry.saga_id]] = entry.payload or "null"
                    size += len(text.encode())
                if size > LARGEST_RESULT:
                    break
        payload = f"[{','.join(texts)}]"
        if len(payload.encode()) > LARGEST_RESULT:
            large = f"the results of its children have more than {LARGEST_RESULT:,} bytes of JSON together"
            raise WrongResult(f"step {step.name!r}: {large}; let them return S3Objects")
        return EntryContext(payload, hiding(sorted(hidden)), actor="supervisor")

    def _loaded(self, state: SagaState, step: StepState, position: int, entry: Entry) -> Entry:
        """Return the entry with a child's result."""
        try:
            return self.advancer.services.journal.load(entry)
        except (Changed, Withheld) as error:
            if isinstance(error, Withheld) and not is_gone(state, error):
                raise
            raise _unreadable(step, position, entry.saga_id, ev.GONE) from None

    def _seen(
        self,
        state: SagaState,
        fact: ChildrenFact,
        context: EntryContext = _SUPERVISOR,
    ) -> bool:
        """Journal a fact about the children. Return whether this look lost a race."""
        step = state.steps[state.cursor]
        seen = ChildrenSeen(self.advancer.lease(), fact, step.round)
        try:
            advanced = self.advancer.advance(state, seen, context)
        except Fenced:
            return True
        return advanced.lost_race

    # Backward: close, cancel, order, and end.

    def _close(self, state: SagaState, step: StepState, thorough: bool) -> bool:
        """Make all children that were handed out end: cancel children that have started, and never start the others."""
        ended = self.joins.outcomes(state.saga_id, step.name, step.round, FORWARD)
        remaining = [position for position in range(step.fan_out.handed_out) if position not in ended]
        existing = self._existing(state, step, remaining)
        to_wake = list[str]()
        closed = False
        for position in remaining:
            child = existing.get(position)
            if child is None:
                child = self._closed(state, step, position)
                closed = closed or child is None
            if child is not None and self._cancelled(child, thorough):
                to_wake.append(child.saga_id)
        self._wake(to_wake, thorough)
        if not closed:
            return False
        tally = self.joins.first_ends(state.saga_id, step)
        return tally.ended >= step.fan_out.handed_out

    def _closed(self, state: SagaState, step: StepState, position: int) -> SagaState | None:
        """Decide that a child never starts. Return the child if it has already started."""
        parent = parent_of(state, step, position)
        saga_id = child_id(state.saga_id, step.name, position, step.round)
        clock = self.advancer.services.clock
        entry = Entry(
            saga_id=saga_id,
            seq=1,
            at=clock.now(),
            saga=state.saga,
            action=NEVER_STARTED,
            status=SagaStatus.CANCELLED.value,
            token=0,
            actor=PARENT,
            correlation_id=state.correlation_id or state.saga_id,
        )
        stored = self.advancer.services.journal.put(entry)
        if stored.action == NEVER_STARTED or stored.tombstone is not None:
            outcome = ChildOutcome(position, NEVER, round=step.round, at=clock.now())
            self.joins.record(parent, FORWARD, outcome)
            return None
        request = json.loads(self._declaration(state, step).payload or "[]")[position]
        self.starter.start_child(stored.saga, request, parent, correlation_id=stored.correlation_id, sends=False)
        return self.control.get(saga_id)

    def _cancelled(self, child: SagaState, thorough: bool) -> bool:
        """Set a child's cancel flag if the child is going forward. Return whether to wake it."""
        for _ in range(_ROUNDS):
            decision = decide(self.advancer.plan(child), child, CancelArrived(PARENT), self._now)
            if isinstance(decision.then, Refuse):
                return False
            if decision.state is child:
                return thorough
            if self.control.request_cancel(child, decision.state):
                return True
            current = self.control.get(child.saga_id)
            if current is None or current.cancel.at:  # the flag is set, by this write or by another worker
                return current is not None
            child = current
        return False

    def _wake(self, saga_ids: Sequence[str], thorough: bool = False) -> None:
        """Send messages so that workers look at these sagas."""
        blocks = [list(saga_ids[first : first + BLOCK]) for first in range(0, len(saga_ids), BLOCK)]
        self.work.send_work(NOW, [SagasToAdvance(block, thorough).work() for block in blocks])

    def _undone(self, state: SagaState, thorough: bool) -> bool:
        """Undo the children, and end the undo when all are undone. Return whether to look again."""
        step = state.steps[state.cursor]
        number = step.undo_attempts.made
        tally = self.joins.tally(state.saga_id, step.name, [step.round], step.fan_out.children)
        if tally.ended < step.fan_out.handed_out:
            return self._close(state, step, thorough)
        if step.round:
            tally.update(self.joins.tally(state.saga_id, step.name, range(step.round), step.fan_out.children))
        if tally.undone(number) >= tally.standing:
            stuck = tally[undoing(number), STUCK]
            if not stuck:
                return self._seen(state, ev.StepCompensated(state.cursor, number))
            text = f"{stuck} of its children could not be undone: fix the cause, then retry, or resolve each child"
            text += "; a child past its pivot has to be compensated with force first"
            failure = ev.Failure(ChildrenFailed.__name__, text)
            return self._seen(state, ev.CompensationFailed(state.cursor, number, failure))
        return self._order(state, step, thorough)

    def _order(self, state: SagaState, step: StepState, thorough: bool) -> bool:
        """Order the children to undo themselves: all at once, or one by one, the last to complete first. Returns
        whether to look again."""
        number = step.undo_attempts.made
        remaining = list[tuple[float, str, ChildOutcome]]()
        for round_ in range(step.round + 1):
            ended = self.joins.outcomes(state.saga_id, step.name, round_, undoing(number))
            for position, outcome in self.joins.outcomes(state.saga_id, step.name, round_, FORWARD).items():
                if outcome.how in STANDING and position not in ended:
                    saga_id = child_id(state.saga_id, step.name, position, round_)
                    remaining.append((outcome.at, saga_id, replace(outcome, round=round_)))
        remaining.sort(key=lambda item: (item[0], item[2].position), reverse=True)
        if step.fan_out.one_by_one:
            remaining = remaining[:1]
        existing = self.control.get_many([saga_id for _, saga_id, _ in remaining], consistent=True)
        to_wake = list[str]()
        recorded = False
        for _, saga_id, outcome in remaining:
            child = existing.get(saga_id)
            how = _undone_already(child, number)
            if how:
                record = replace(outcome, how=how, at=self._now)
                parent = structs.replace(parent_of(state, step, outcome.position), round=outcome.round)
                self.joins.record(parent, undoing(number), record)
                recorded = True
            elif child is not None:
                ordered = child.order if child.order is not None and child.order.number >= number else None
                if child.ended and ordered is None:  # a refusal means that the order is already stored
                    self.control.order(child, number, self._now)
                if thorough or (child.ended and (ordered is None or ordered.open)):
                    to_wake.append(saga_id)
        self._wake(to_wake, thorough)
        return recorded


def _reading(read: Callable[[], T]) -> T:
    """Return what ``read`` returns. If it cannot be read for now, raise :class:`NotRead`."""
    try:
        return read()
    except Unavailable as error:
        raise NotRead(error) from error


def _unreadable(step: StepState, position: int, saga_id: str, why: str) -> TypeChanged:
    return TypeChanged(f"the result of child {step.name}[{position}], saga {saga_id}, {why}")


def _undone_already(child: SagaState | None, number: int) -> str:
    """Return the outcome to record for a child that cannot be ordered to undo itself; empty if it can.

    A child past its pivot stays unchanged until an operator compensates it.
    """
    if child is None:
        return UNDONE
    if child.status in _STANDING and child.past_pivot:
        return STUCK
    tried = child.order is not None and child.order.number >= number and not child.order.open
    if child.status is SagaStatus.COMPENSATION_FAILED and (tried or (number == 1 and child.order is None)):
        return STUCK
    return UNDONE if child.ended and child.status not in (*_STANDING, SagaStatus.COMPENSATION_FAILED) else ""
