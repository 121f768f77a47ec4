"""The engine's store in memory: control items, journal and breakers of one process and one thread."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sagas.core.breaker import BreakerState, closed
from sagas.core.rules import forward
from sagas.core.states import Lease, Order, Parent, Progress, SagaState, SagaStatus, StepState, StepStatus
from sagas.store.entries import Entry
from sagas.store.joined import Outcome, Tally, outcome_of
from sagas.store.outcomes import Fenced, FlagWon, Refused
from sagas.store.sent import Signal


class MemoryJournal:
    """Entries, write-once; see ``sagas.store.journal.Journal``."""

    def __init__(self) -> None:
        self.stored: dict[tuple[str, int], Entry] = {}

    def put(self, entry: Entry) -> Entry:
        """Write ``entry`` into its slot, once; return what the slot holds."""
        stored = self.stored.setdefault((entry.saga_id, entry.seq), entry)
        return entry if stored is entry else self.occupant(entry, None)

    def occupant(self, entry: Entry, item: object) -> Entry:
        """Return what the slot of ``entry`` holds, if its holder may adopt it. ``item`` is not looked at."""
        found = self.stored[entry.saga_id, entry.seq]
        if found.token > entry.token:
            raise Fenced(f"entry {entry.seq} belongs to a successor")
        return found

    def entries(self, saga_id: str, seqs: Iterable[int]) -> dict[int, Entry]:
        """Return the entries at ``seqs``."""
        return {seq: self.stored[saga_id, seq] for seq in seqs if (saga_id, seq) in self.stored}

    def entries_of(self, places: Iterable[tuple[str, int]]) -> dict[str, dict[int, Entry]]:
        """Return entries of many sagas."""
        return {saga_id: self.entries(saga_id, [seq]) for saga_id, seq in places}

    def load(self, entry: Entry) -> Entry:
        """Return the entry: no payload is stored aside."""
        return entry


class MemoryJoins:
    """What became of children; see ``sagas.store.joins.Joins``."""

    def __init__(self) -> None:
        self.stored: dict[tuple[str, str, int, str], dict[int, Outcome]] = {}

    def record(self, parent: Parent, phase: str, outcome: Outcome) -> bool:
        """Keep an outcome, once."""
        own = self.stored.setdefault((parent.saga_id, parent.step, parent.round, phase), {})
        return own.setdefault(outcome.position, outcome) is outcome

    def join(self, before: SagaState, after: SagaState) -> None:
        """Keep the outcome of a child that has ended."""
        found = outcome_of(before, after)
        if found is not None and after.parent is not None:
            self.record(after.parent, *found)

    def tally(self, parent: str, step: str, rounds: Iterable[int], children: int) -> Tally:
        """Count the outcomes of a step's children."""
        tally, wanted = Tally(), set(rounds)
        for (saga_id, name, round_, phase), own in self.stored.items():
            if (saga_id, name) == (parent, step) and round_ in wanted:
                tally.update((phase, outcome.how) for outcome in own.values())
        return tally

    def first_ends(self, parent: str, step: StepState) -> Tally:
        """Count the first ends of a step's children in its present round."""
        return self.tally(parent, step.name, [step.round], step.children)

    def outcomes(self, parent: str, step: str, round_: int, phase: str) -> dict[int, Outcome]:
        """Return the outcomes of a step's children in one phase, by position."""
        return dict(self.stored.get((parent, step, round_, phase), {}))


class MemoryControl:
    """Control items under the conditions of ``sagas.store.control.ControlItems``."""

    def __init__(self, joins: MemoryJoins | None = None) -> None:
        self.items: dict[str, SagaState] = {}
        self._joins = joins or MemoryJoins()

    def get(self, saga_id: str) -> SagaState | None:
        """Return the saga as it is."""
        return self.items.get(saga_id)

    def create(self, state: SagaState, stale_after: float) -> bool:
        """Create the item of a new saga; ``False`` if it exists already."""
        return self.items.setdefault(state.saga_id, state) is state

    def get_many(self, saga_ids: list[str], *, consistent: bool = False) -> dict[str, SagaState]:
        """Return those sagas that exist."""
        return {saga_id: self.items[saga_id] for saga_id in saga_ids if saga_id in self.items}

    def create_again(self, state: SagaState, stale_after: float, journal: Any, found_by: Sequence[Any] = ()) -> bool:
        """Create the item for a start that another began; nothing is ever purged here."""
        return self.create(state, stale_after)

    def request_cancel(self, before: SagaState, after: SagaState) -> bool:
        """Set the cancel flag: nobody comes between."""
        self.items[before.saga_id] = after
        return True

    def hand_out(self, state: SagaState, index: int, count: int, token: int) -> bool:
        """Note that children of a step are handed out to be started."""
        step = state.steps[index]
        handed = state.with_step(index, replace(step, handed_out=step.handed_out + count))
        self.items[state.saga_id] = replace(handed, token=token)
        return True

    def order(self, state: SagaState, number: int, now: float) -> bool:
        """Set the parent's order to undo a saga that is over."""
        self.items[state.saga_id] = replace(state, order=Order(number), token=state.token + 1)
        return True

    def claim_step(
        self, saga_id: str, index: int, dispatch: int, lease: Lease, now: float, name: str | None = None
    ) -> SagaState | None:
        """Lock the saga, count the attempt and mark the step running; ``None`` when the state does not allow it."""
        state = self._claimable(saga_id, index, dispatch, now, name)
        if state is None or not forward(state) or state.cancel_requested_at or state.recovery_exhausted:
            return None
        step = state.steps[index]
        looks_again = step.status is StepStatus.WAITING and state.polling is not None
        if step.status not in (StepStatus.PENDING, StepStatus.RETRYING) and not looks_again:
            return None
        running = replace(step, status=StepStatus.RUNNING, attempts=step.attempts + 1)
        return self._hold(replace(state, status=SagaStatus.RUNNING, not_before=0.0), index, running, lease)

    def claim_undo(
        self, saga_id: str, index: int, dispatch: int, lease: Lease, now: float, name: str | None = None
    ) -> SagaState | None:
        """Like :meth:`claim_step` for an undo."""
        state = self._claimable(saga_id, index, dispatch, now, name)
        if state is None or not state.undoing or state.lost_until > now:
            return None
        step = state.steps[index]
        undoing = replace(step, status=StepStatus.COMPENSATING, undo_attempts=step.undo_attempts + 1)
        return self._hold(replace(state, not_before=0.0), index, undoing, lease)

    def _claimable(self, saga_id: str, index: int, dispatch: int, now: float, name: str | None) -> SagaState | None:
        state = self.items.get(saga_id)
        if state is None or state.lease is not None or state.not_before > now:
            return None
        fits = (state.cursor, state.dispatch) == (index, dispatch) and index < len(state.steps)
        return state if fits and name in (None, state.steps[index].name) else None

    def _hold(self, state: SagaState, index: int, step: StepState, lease: Lease) -> SagaState:
        held = replace(state.with_step(index, step), lease=lease, token=state.token + 1)
        self.items[state.saga_id] = held
        return held

    def claim(self, before: SagaState, after: SagaState, stale_after: float) -> bool:
        """Take the lease as ``after`` has it, if nothing changed since ``before`` was read."""
        found = self.items[before.saga_id]
        if (found.token, found.seq, found.lease) != (before.token, before.seq, before.lease):
            return False
        self.items[before.saga_id] = after
        return True

    def commit(self, before: SagaState, after: SagaState, stale_after: float) -> None:
        """Move the pointer.

        Raises:
            FlagWon: a cancel or a signal was accepted meanwhile, and the new state does not take it into account.
            Fenced: the lease was taken over.
        """
        found = self.items[before.saga_id]
        if (found.token, found.seq) != (before.token, before.seq):
            raise Fenced("the commit was refused")
        minds = forward(before) and not before.cancel_requested_at and not after.undoing
        if minds and found.cancel_requested_at:
            raise FlagWon(found, "cancel")
        if any(now.signalled and not was.signalled for was, now in zip(before.steps, found.steps, strict=True)):
            raise FlagWon(found, "signal")
        self._joins.join(before, after)
        self.items[before.saga_id] = after

    def commit_and_claim(self, before: SagaState, after: SagaState, stale_after: float) -> bool:
        """Commit, and claim what is next in the same write: here no answer is ever lost.

        Raises:
            FlagWon, Fenced: as :meth:`commit`.
        """
        self.commit(before, after, stale_after)
        return True

    def finish(self, entry: Entry, before: SagaState, after: SagaState, stale_after: float, journal: Any) -> None:
        """Write the entry that ends the saga and commit it.

        Raises:
            FlagWon, Fenced: as :meth:`commit`.
            Refused: the slot holds a predecessor's entry, to be adopted first.
        """
        if journal.entries(entry.saga_id, [entry.seq]):
            raise Refused("the slot is taken", {0: None})
        self.commit(before, after, stale_after)
        journal.put(entry)

    def extend(self, state: SagaState, expires_at: float, progress: Progress | None = None) -> bool:
        """Leave the lease as it is: in one process none is taken away."""
        return True

    def note_progress(self, state: SagaState, progress: Progress) -> bool:
        """Forget a progress: nobody looks while it runs."""
        return True


class MemoryInbox:
    """Signals by saga, step and round; see ``sagas.store.inbox.Inbox``."""

    def __init__(self, control: MemoryControl) -> None:
        self.stored: dict[tuple[str, str, int], Signal] = {}
        self._control = control

    def accept(self, before: SagaState, index: int, signal: Signal, stale_after: float) -> bool:
        """Put a value and mark its step as signalled; ``False`` if one was there."""
        found = self._control.items[before.saga_id]
        step = found.steps[index]
        if step.signalled or found.cancel_requested_at:
            return False
        self.stored[before.saga_id, step.name, step.round] = signal
        self._control.items[before.saga_id] = found.with_step(index, replace(step, signalled=True))
        return True

    def get(self, saga_id: str, step: StepState) -> Signal | None:
        """Return what was sent to a step in its current round."""
        return self.stored.get((saga_id, step.name, step.round))


class MemoryBreakers:
    """The circuit breakers of the sagas of one run: nobody comes between."""

    def __init__(self) -> None:
        self._states: defaultdict[tuple[str, str], BreakerState] = defaultdict(BreakerState)

    def get(self, saga: str, step: str) -> BreakerState:
        """Return a step's breaker; a closed one if it was never written."""
        return self._states[saga, step]

    def get_many(self, places: Iterable[tuple[str, str]]) -> dict[tuple[str, str], BreakerState]:
        """Return the breakers of these steps."""
        return {place: self._states[place] for place in places}

    def count(self, saga: str, step: str, failures: int, revision: str) -> BreakerState:
        """Add failures in a row to a closed breaker."""
        state = self._states[saga, step]
        if state.closed:
            self._states[saga, step] = replace(state, failures=state.failures + failures, revision=revision)
        return self._states[saga, step]

    def forget(self, saga: str, step: str, revision: str) -> BreakerState | None:
        """Begin to count a closed breaker's failures anew; ``None`` when it is not closed."""
        state = self._states[saga, step]
        return self.swap(saga, step, state, replace(state, failures=0, revision=revision)) if state.closed else None

    def open(self, saga: str, step: str, threshold: int, opened: BreakerState) -> BreakerState | None:
        """Open a closed breaker which has counted that many failures; ``None`` when it has not."""
        state = self._states[saga, step]
        return self.swap(saga, step, state, opened) if state.closed and state.failures >= threshold else None

    def swap(self, saga: str, step: str, before: BreakerState, after: BreakerState) -> BreakerState:
        """Write ``after`` in place of ``before``."""
        self._states[saga, step] = after
        return after

    def close(self, saga: str, step: str, now: float, revision: str) -> None:
        """Close a breaker, whatever it is."""
        self._states[saga, step] = replace(closed(self._states[saga, step], now), revision=revision)
