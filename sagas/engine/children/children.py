"""Looking after a saga whose step has children: starting them, joining them, and having them undone.

No lease is held meanwhile. Positions are handed out by a conditional update of the parent; a child's id follows from
its position, so that starting it again starts nothing. Whether a child ever starts is decided by the first slot of its
journal: before an undoing of the step goes on, the parent puts ``NeverStarted`` there where it is vacant, and what it
finds there is started to its end, and cancelled. A look does what is to be done now, and may be repeated, interrupted
and made twice at once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

from sagas.core import events as ev
from sagas.core.automaton import decide
from sagas.core.commands import CancelAsked, ChildrenSeen, StallNoticed
from sagas.core.effects import Refuse
from sagas.core.ids import child_id, parent_of
from sagas.core.rules import next_fact
from sagas.core.states import SagaState, SagaStatus, StepState
from sagas.engine.advance import Advancer
from sagas.engine.attempt.runner import LARGEST_RESULT
from sagas.engine.committer import EntryContext
from sagas.engine.ports import MessageSender, WorkSender
from sagas.engine.start.births import PARENT, Births
from sagas.errors import ChildrenFailed, Unavailable, WrongResult
from sagas.messaging.message.message import Message
from sagas.messaging.work import NOW, ChildrenToStart, SagasToLookAfter
from sagas.store.children.joined import (
    CARRIED,
    COMPLETED,
    FAILED,
    FORWARD,
    NEVER,
    STANDING,
    STUCK,
    UNDONE,
    Outcome,
    undoing,
)
from sagas.store.children.joins import Joins
from sagas.store.control.control import ControlItems
from sagas.store.journal.entries import NEVER_STARTED, Entry
from sagas.store.outcomes import Fenced

_AT_ONCE = 16
"""Results that are read at a time."""
BLOCK = 25
"""Children that one message has started."""
_NAMED = 10
"""Failed children that an error names."""
_ROUNDS = 20
"""Times that a look begins anew, because the parent has changed or there is more to do."""
_TOKENS = 100_000
"""By how much a hand-out raises the token at most. Two looks of the same rise start the same children: no harm."""
_STANDING = (SagaStatus.COMPLETED, SagaStatus.FAILED)


@dataclass(frozen=True, slots=True)
class Children:
    """Looks after sagas when asked to, those with children above all."""

    advancer: Advancer
    control: ControlItems
    joins: Joins
    starter: Births
    sender: MessageSender
    work: WorkSender

    def look(self, saga_id: str, *, thorough: bool = False) -> None:
        """Do what there is to be done for a saga now, if nobody is at work on it."""
        for _ in range(_ROUNDS):
            state = self.control.get(saga_id)
            if state is None or (state.lease is not None and state.lease.expires_at > self._now):
                return
            owed = next_fact(self.advancer.plan(state), state) is not None or state.lease is not None
            if owed or not state.joins:
                stalled, context = StallNoticed(self.advancer.lease()), EntryContext(actor="supervisor")
                with suppress(Fenced):
                    self.advancer.advance(state, stalled, context)
                return
            more = self._undone(state, thorough) if state.undoing else self._joined(state, thorough)
            if not more:
                return

    def list_stuck(self, saga_id: str, looks: int) -> None:
        """Put a parent on the attention list if its children have ended and each attempt to join them failed."""
        state = self.control.get(saga_id)
        if state is None or not state.joins or state.undoing or state.attention:
            return
        tally = self.joins.first_ends(state.saga_id, state.steps[state.cursor])
        if tally.ended >= state.steps[state.cursor].fan_out.children:
            self._seen(state, ev.Recovered(stall=False, unanswered=looks, attention=True))

    @property
    def _now(self) -> float:
        return self.advancer.services.clock.now()

    # Forward: start, and join.

    def _joined(self, state: SagaState, thorough: bool) -> bool:
        """Start what there is room for, or go on when all are over; whether to look again."""
        step = state.steps[state.cursor]
        fan_out, tally = step.fan_out, self.joins.first_ends(state.saga_id, step)
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
        if not self.control.hand_out(state, state.cursor, room, token):
            return True
        blocks = [
            ChildrenToStart(state.saga_id, step.name, step.round, first, min(BLOCK, fan_out.handed_out + room - first))
            for first in range(fan_out.handed_out, fan_out.handed_out + room, BLOCK)
        ]
        if len(blocks) == 1:
            try:
                self.start(blocks[0])
            except Unavailable:
                # They are handed out, so the next look starts none of them. Their own message is tried again.
                self.work.send_work(NOW, [blocks[0].work()])
        else:
            self.work.send_work(NOW, [block.work() for block in blocks])
        return False

    def start(self, block: ChildrenToStart) -> None:
        """Start children that were handed out. Those that are there already, or are never to start, stay as they
        are."""
        state = self.control.get(block.saga_id)
        if state is None or not state.joins or state.undoing or state.cancel.at:
            return
        step = state.steps[state.cursor]
        if (step.name, step.round) != (block.step, block.round):
            return
        self._start(state, step, range(block.first, min(block.first + block.count, step.fan_out.handed_out)))

    def _start(self, state: SagaState, step: StepState, positions: Iterable[int]) -> None:
        asked = self._asked(state, step)
        types, requests = asked.details["types"], json.loads(asked.payload or "[]")
        earlier = self.joins.outcomes(state.saga_id, step.name, step.round - 1, FORWARD) if step.round else {}
        messages = list[Message]()
        for position in positions:
            before = earlier.get(position)
            if before is not None and before.how in (COMPLETED, CARRIED):
                carried = replace(before, how=CARRIED)
                self.joins.record(parent_of(state, step, position), FORWARD, carried)
                continue
            name = types[position] if len(types) > 1 else types[0]
            parent = parent_of(state, step, position)
            message = self.starter.start_child(
                name, requests[position], parent, correlation_id=asked.correlation_id or state.correlation_id
            )
            if message is not None:
                messages.append(message)
        self.sender.send_all(messages)
        if earlier:  # who is carried over ends at once
            self.work.send_work(NOW, [SagasToLookAfter([state.saga_id]).work()])

    def _asked(self, state: SagaState, step: StepState) -> Entry:
        seq = step.fan_out.requests_seq
        return self.advancer.services.journal.entries(state.saga_id, [seq])[seq]

    def _continue(self, state: SagaState, step: StepState) -> None:
        """Start what was handed out, and whose starter died."""
        over = self.joins.outcomes(state.saga_id, step.name, step.round, FORWARD)
        left = [position for position in range(step.fan_out.handed_out) if position not in over]
        there = self._there(state, step, left)
        missing = [position for position in left if position not in there]
        if missing:
            self._start(state, step, missing)

    def _there(self, state: SagaState, step: StepState, positions: Iterable[int]) -> dict[int, SagaState]:
        """Those children that have a control item, by position."""
        ids = {child_id(state.saga_id, step.name, position, step.round): position for position in positions}
        found = self.control.get_many(list(ids), consistent=True)
        return {ids[saga_id]: child for saga_id, child in found.items()}

    def _end(self, state: SagaState, step: StepState) -> bool:
        """Journal what the children came to; whether to look again."""
        outcomes = self.joins.outcomes(state.saga_id, step.name, step.round, FORWARD)
        done = {position: one for position, one in outcomes.items() if one.how in (COMPLETED, CARRIED)}
        failed = [position for position in range(step.fan_out.children) if position not in done]
        policy = self.advancer.plan(state).steps[state.cursor].on_timeout
        going_on = len(failed) <= step.fan_out.tolerate or policy == "CONTINUE"
        failure = None if going_on else ev.Failure(ChildrenFailed.__name__, _told(step, failed, outcomes))
        ids = {
            child_id(state.saga_id, step.name, position, outcome.round): position for position, outcome in done.items()
        }
        places = dict[tuple[str, int], int]()
        for saga_id, child in self.control.get_many(list(ids), consistent=True).items():
            wanted = self.advancer.registry.get(child.saga).definition.result_step.name
            seqs = {one.name: one.result_seq for one in child.steps}
            if seq := seqs.get(wanted, 0):
                places[saga_id, seq] = ids[saga_id]
        payload = self._joined_results(places, step.fan_out.children) if failure is None else None
        if failure is None and payload is None:
            large = f"the results of its children have over {LARGEST_RESULT:,} bytes of JSON together"
            failure = ev.Failure(WrongResult.__name__, f"step {step.name!r}: {large}; let them return S3Objects")
        return self._seen(state, ev.ChildrenEnded(state.cursor, len(done), len(failed), failure), payload)

    def _joined_results(self, places: Mapping[tuple[str, int], int], children: int) -> str | None:
        """Return the results of children as a JSON list, with null for a child without one. Returns the list; ``None``
        if it is larger than the result of a step may be."""
        journal, texts = self.advancer.services.journal, ["null"] * children
        entries = [entry for found in journal.entries_of(places).values() for entry in found.values()]
        size = 0
        # A result that is not in its entry is read by a request of its own. No more of them are held than are allowed.
        with ThreadPoolExecutor(_AT_ONCE, "joining") as pool:
            for first in range(0, len(entries), _AT_ONCE):
                for entry in pool.map(journal.load, entries[first : first + _AT_ONCE]):
                    text = texts[places[entry.saga_id, entry.seq]] = entry.payload or "null"
                    size += len(text.encode())
                if size > LARGEST_RESULT:
                    return None
        payload = f"[{','.join(texts)}]"
        return payload if len(payload.encode()) <= LARGEST_RESULT else None

    def _seen(
        self,
        state: SagaState,
        fact: ev.ChildrenEnded | ev.StepCompensated | ev.CompensationFailed | ev.Recovered,
        payload: str | None = None,
    ) -> bool:
        """Journal what was seen; whether another one was faster."""
        step = state.steps[state.cursor]
        seen = ChildrenSeen(self.advancer.lease(), fact, step.round)
        try:
            advanced = self.advancer.advance(state, seen, EntryContext(payload=payload, actor="supervisor"))
        except Fenced:
            return True
        return advanced.beaten

    # Backward: close, cancel, order, and end.

    def _close(self, state: SagaState, step: StepState, thorough: bool) -> bool:
        """See to it that every child that was handed out ends: what never started is not to, what runs is cancelled."""
        over = self.joins.outcomes(state.saga_id, step.name, step.round, FORWARD)
        left = [position for position in range(step.fan_out.handed_out) if position not in over]
        there, told, closed = self._there(state, step, left), list[str](), False
        for position in left:
            child = there.get(position)
            if child is None:
                child = self._closed(state, step, position)
                closed = closed or child is None
            if child is not None and self._cancelled(child, thorough):
                told.append(child.saga_id)
        self._tell(told, thorough)
        if not closed:
            return False
        tally = self.joins.first_ends(state.saga_id, step)
        return tally.ended >= step.fan_out.handed_out

    def _closed(self, state: SagaState, step: StepState, position: int) -> SagaState | None:
        """Decide that a child never starts; return it if its start came first."""
        parent = parent_of(state, step, position)
        saga_id, clock = child_id(state.saga_id, step.name, position, step.round), self.advancer.services.clock
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
        found = self.advancer.services.journal.put(entry)
        if found.action == NEVER_STARTED or found.tombstone is not None:
            outcome = Outcome(position, NEVER, round=step.round, at=clock.now())
            self.joins.record(parent, FORWARD, outcome)
            return None
        asked = self._asked(state, step)
        request = json.loads(asked.payload or "[]")[position]
        self.starter.start_child(found.saga, request, parent, correlation_id=found.correlation_id, sends=False)
        return self.control.get(saga_id)

    def _cancelled(self, child: SagaState, thorough: bool) -> bool:
        """Set a child's cancel flag if it goes forward; whether it is to be looked after."""
        for _ in range(_ROUNDS):
            decision = decide(self.advancer.plan(child), child, CancelAsked(PARENT), self._now)
            if isinstance(decision.then, Refuse):
                return False
            if decision.state is child:
                return thorough
            if self.control.request_cancel(child, decision.state):
                return True
            found = self.control.get(child.saga_id)
            if found is None or found.cancel.at:  # set by this same write, or by another look
                return found is not None
            child = found
        return False

    def _tell(self, saga_ids: Sequence[str], thorough: bool = False) -> None:
        blocks = [list(saga_ids[first : first + BLOCK]) for first in range(0, len(saga_ids), BLOCK)]
        self.work.send_work(NOW, [SagasToLookAfter(block, thorough).work() for block in blocks])

    def _undone(self, state: SagaState, thorough: bool) -> bool:
        """Have the children undone, and go on when all are; whether to look again."""
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
            told = f"{stuck} of its children could not be undone: retry tries them again, or see to them"
            told += "; one that is past its pivot has to be compensated with force first"
            failure = ev.Failure(ChildrenFailed.__name__, told)
            return self._seen(state, ev.CompensationFailed(state.cursor, number, failure))
        return self._order(state, step, thorough)

    def _order(self, state: SagaState, step: StepState, thorough: bool) -> bool:
        """Order the undoing of what stands: of all at once, or of the last that completed. Whether to look again."""
        number, left = step.undo_attempts.made, list[tuple[float, str, Outcome]]()
        for one in range(step.round + 1):
            over = self.joins.outcomes(state.saga_id, step.name, one, undoing(number))
            for position, outcome in self.joins.outcomes(state.saga_id, step.name, one, FORWARD).items():
                if outcome.how in STANDING and position not in over:
                    saga_id = child_id(state.saga_id, step.name, position, one)
                    left.append((outcome.at, saga_id, replace(outcome, round=one)))
        left.sort(key=lambda one: (one[0], one[2].position), reverse=True)
        if step.fan_out.one_by_one:
            left = left[:1]
        there = self.control.get_many([saga_id for _, saga_id, _ in left], consistent=True)
        told, recorded = list[str](), False
        for _, saga_id, outcome in left:
            child = there.get(saga_id)
            how = _undone_already(child, number)
            if how:
                record = replace(outcome, how=how, at=self._now)
                parent = replace(parent_of(state, step, outcome.position), round=outcome.round)
                self.joins.record(parent, undoing(number), record)
                recorded = True
            elif child is not None:
                ordered = child.order if child.order is not None and child.order.number >= number else None
                if child.over and ordered is None:  # refused: another look's, or this same write's own success
                    self.control.order(child, number, self._now)
                if thorough or (child.over and (ordered is None or ordered.open)):
                    told.append(saga_id)
        self._tell(told, thorough)
        return recorded


def _undone_already(child: SagaState | None, number: int) -> str:
    """What is to be recorded of a child in its stead, for which there is nothing to order; empty if there is.

    One that is past its pivot stays as it is, until an operator has it undone.
    """
    if child is None:
        return UNDONE
    if child.status in _STANDING and child.past_pivot:
        return STUCK
    tried = child.order is not None and child.order.number >= number and not child.order.open
    if child.status is SagaStatus.COMPENSATION_FAILED and (tried or (number == 1 and child.order is None)):
        return STUCK
    return UNDONE if child.over and child.status not in (*_STANDING, SagaStatus.COMPENSATION_FAILED) else ""


def _told(step: StepState, failed: Sequence[int], outcomes: dict[int, Outcome]) -> str:
    """An error's text: which children failed, and how."""
    ended = [position for position in failed if position in outcomes and outcomes[position].how != NEVER]
    ended.sort(key=lambda position: (not outcomes[position].seq, position))  # what failed before what was cancelled
    named = list[str]()
    for position in ended[:_NAMED]:
        one, became = outcomes[position], "failed, and so did its undo"
        if one.how == UNDONE:
            became = "failed and was undone" if one.seq else "was cancelled"
        elif one.how == FAILED:
            became = "failed"
        named.append(f"{step.name}[{position}] {became}")
    more = f" and {len(ended) - _NAMED} more" if len(ended) > _NAMED else ""
    return f"{len(failed)} of {step.fan_out.children} children did not complete: {', '.join(named)}{more}"


def refill(at_once: int) -> int:
    """Return how many places must be free before more children are started: not one by one, which costs a look each."""
    return max(1, min(BLOCK, math.ceil(at_once / 4)))
