"""Control items: the lock, the fencing token, the idempotency record and the state of each saga, in one item."""

from __future__ import annotations

from typing import Any

from pynamodb.transactions import TransactWrite

from sagas.core.states import Lease, Progress, SagaState, SagaStatus, StepStatus
from sagas.core.times import iso
from sagas.errors import SagaError
from sagas.store.entries import Entry
from sagas.store.journal import Journal
from sagas.store.mapping import attributes_of, progress_of, shard_of, state_of, step_of
from sagas.store.outcomes import CancelWon, Fenced, Refused, translated
from sagas.store.settings import StoreSettings
from sagas.store.tables import Tables

_FORWARD = (SagaStatus.PENDING.value, SagaStatus.RUNNING.value)
_READY = (StepStatus.PENDING.value, StepStatus.RETRYING.value)


class ControlItems:
    """The table of control items. Every write is conditional, on an attribute that exists: none can create an item
    but :meth:`create`."""

    def __init__(self, tables: Tables, settings: StoreSettings) -> None:
        self._tables = tables
        self._settings = settings

    def get(self, saga_id: str) -> SagaState | None:
        """Return the saga as it is, by a consistent read; ``None`` if there is none."""
        model = self._tables.control
        with translated():
            try:
                return state_of(model.get(saga_id, consistent_read=True))
            except model.DoesNotExist:
                return None

    def get_many(self, saga_ids: list[str]) -> dict[str, SagaState]:
        """Return those sagas that exist."""
        with translated():
            found = [state_of(item) for item in self._tables.control.batch_get(saga_ids)] if saga_ids else []
        return {state.saga_id: state for state in found}

    def create(self, state: SagaState, stale_after: float) -> bool:
        """Create the item of a new saga; ``False`` if it exists already."""
        values = attributes_of(state, self._settings, stale_after)
        values["steps"] = [step_of(step) for step in state.steps]
        item = self._tables.control(saga_id=state.saga_id, **{k: v for k, v in values.items() if v is not None})
        try:
            with translated():
                item.save(condition=self._tables.control.saga_id.does_not_exist())
        except Refused:
            return False
        return True

    def claim_step(
        self, saga_id: str, index: int, dispatch: int, lease: Lease, now: float, name: str | None = None
    ) -> SagaState | None:
        """Lock the saga, count the attempt and mark the step running, in one conditional update and without a read.

        Args:
            saga_id: which saga.
            index: the step's position.
            dispatch: the number of the message at hand.
            lease: the lease to take.
            now: epoch seconds.
            name: the step's name, if it is to be checked against the saga's own.

        Returns:
            The state after it; ``None`` when the state does not allow it.
        """
        model = self._tables.control
        step = model.steps[index]
        condition = (
            model.lease_owner.does_not_exist()
            & model.status.is_in(*_FORWARD)
            & (model.cursor == index)
            & (model.dispatch == dispatch)
            & step.status.is_in(*_READY)
            & model.cancel_requested_at.does_not_exist()
            & model.recovery_exhausted.does_not_exist()
            & self._passed(model.not_before, now)
        )
        running = [
            step.status.set(StepStatus.RUNNING.value),
            step.attempts.set(step.attempts + 1),
            model.status.set(SagaStatus.RUNNING.value),
        ]
        return self._claim(saga_id, self._named(condition, step, name), running, lease)

    def claim_undo(
        self, saga_id: str, index: int, dispatch: int, lease: Lease, now: float, name: str | None = None
    ) -> SagaState | None:
        """Like :meth:`claim_step` for an undo, which waits until no lost execution can act any more."""
        model = self._tables.control
        step = model.steps[index]
        condition = (
            model.lease_owner.does_not_exist()
            & (model.status == SagaStatus.COMPENSATING.value)
            & (model.cursor == index)
            & (model.dispatch == dispatch)
            & self._passed(model.not_before, now)
            & self._passed(model.lost_until, now)
        )
        undoing = [
            step.status.set(StepStatus.COMPENSATING.value),
            step.undo_attempts.set((step.undo_attempts | 0) + 1),
        ]
        return self._claim(saga_id, self._named(condition, step, name), undoing, lease)

    @staticmethod
    def _named(condition: Any, step: Any, name: str | None) -> Any:
        return condition if name is None else condition & (step.name == name)

    @staticmethod
    def _passed(attribute: Any, now: float) -> Any:
        return attribute.does_not_exist() | (attribute <= iso(now))

    def _claim(self, saga_id: str, condition: Any, actions: list[Any], lease: Lease) -> SagaState | None:
        model = self._tables.control
        item = model(saga_id)
        hold = [
            model.token.set(model.token + 1),
            model.lease_owner.set(lease.owner),
            model.lease_expires_at.set(iso(lease.expires_at)),
            model.act_until.set(iso(lease.act_until)),
        ]
        try:
            with translated():
                item.update(actions=[*actions, *hold], condition=condition)
        except Refused:
            return self._own_claim(saga_id, lease)
        return state_of(item)

    def _own_claim(self, saga_id: str, lease: Lease) -> SagaState | None:
        """A refused claim may have met its own first success, whose answer was lost: the nonce tells."""
        state = self.get(saga_id)
        own = state is not None and state.lease is not None and state.lease.owner == lease.owner
        return state if own else None

    def claim(self, before: SagaState, after: SagaState, stale_after: float) -> bool:
        """Take the lease as ``after`` has it, if nothing changed since ``before`` was read.

        Returns:
            Whether it was taken; a write of this same claim whose answer was lost counts.
        """
        model = self._tables.control
        owner = before.lease.owner if before.lease else None
        held = model.lease_owner.does_not_exist() if owner is None else model.lease_owner == owner
        condition = (model.token == before.token) & (model.seq == before.seq) & held
        if before.lease is not None:
            condition &= model.lease_expires_at == iso(before.lease.expires_at)
        try:
            self._update(before, after, condition, stale_after)
        except Refused:
            return after.lease is not None and self._own_claim(before.saga_id, after.lease) is not None
        return True

    def commit(self, before: SagaState, after: SagaState, stale_after: float) -> None:
        """Move the pointer: make the entry at ``before.seq + 1`` a committed one and set the state that follows.

        Raises:
            CancelWon: a cancel was accepted meanwhile and the new state does not take it into account.
            Fenced: somebody else took the lease.
            Ambiguous: no answer.
        """
        try:
            self._update(before, after, self._mine(before, after), stale_after)
        except Refused:
            if not self._mine_already(before):
                raise Fenced("the commit was refused") from None

    def finish(self, entry: Entry, before: SagaState, after: SagaState, stale_after: float, journal: Journal) -> None:
        """Write the entry that ends the saga and commit it, in one transaction: no entry claims an end that a cancel
        prevented.

        Raises:
            CancelWon, Fenced, Ambiguous: as :meth:`commit`.
            Refused: the slot holds a predecessor's entry, to be adopted first.
        """
        model = self._tables.control
        actions = self._actions(before, after, stale_after)
        item = journal.item(entry)
        try:
            with translated(), TransactWrite(connection=self._tables.connection) as transaction:
                transaction.save(item, condition=journal.vacant)
                transaction.update(model(before.saga_id), actions, condition=self._mine(before, after))
        except Refused:
            if not self._mine_already(before):
                raise

    def _mine(self, before: SagaState, after: SagaState) -> Any:
        model = self._tables.control
        condition = (model.token == before.token) & (model.seq == before.seq)
        ignoring = not before.cancel_requested_at and not after.undoing
        forward = before.status.value in _FORWARD and ignoring
        return condition & model.cancel_requested_at.does_not_exist() if forward else condition

    def _mine_already(self, before: SagaState) -> bool:
        """After a refused commit: whether an earlier try of mine succeeded.

        Raises:
            CancelWon: a cancel was accepted meanwhile.
            Fenced: somebody else took the lease.
        """
        found = self.get(before.saga_id)
        if found is None or found.token != before.token:
            raise Fenced("the lease was taken over")
        if found.seq == before.seq + 1:
            return True
        if found.lease is None or found.seq != before.seq:
            raise Fenced("the lease was released")
        if found.cancel_requested_at and not before.cancel_requested_at:
            raise CancelWon(found)
        return False

    def request_cancel(self, before: SagaState, after: SagaState) -> bool:
        """Set the cancel flag; ``False`` when the state no longer allows it.

        A saga that waited for a person is the supervisor's from now on: whoever asked may die before acting on it.
        """
        model = self._tables.control
        waiting = before.status is SagaStatus.DEAD_LETTERED
        able = (SagaStatus.DEAD_LETTERED.value,) if waiting else _FORWARD
        flag = [
            model.cancel_requested_at.set(iso(after.cancel_requested_at)),
            model.cancel_requested_by.set(after.cancel_requested_by or "unknown"),
        ]
        if waiting:
            shard = shard_of(before.saga_id, self._settings.shards)
            flag += [model.open_shard.set(str(shard)), model.due.set(iso(after.cancel_requested_at))]
        condition = model.status.is_in(*able) & model.cancel_requested_at.does_not_exist()
        try:
            with translated():
                model(before.saga_id).update(actions=flag, condition=condition)
        except Refused:
            return False
        return True

    def push_due(self, saga_id: str, seen: str, due: float) -> bool:
        """Have the supervisor look again at ``due``, if it still is to look at what it saw; ``False`` if not."""
        model = self._tables.control
        try:
            with translated():
                model(saga_id).update(actions=[model.due.set(iso(due))], condition=model.due == seen)
        except Refused:
            return False
        return True

    def set_recovery_attempts(self, state: SagaState, attempts: int) -> bool:
        """Set the number of stalls since the last progress; ``False`` if the saga has changed since it was read."""
        model = self._tables.control
        condition = (model.token == state.token) & (model.seq == state.seq)
        action = model.recovery_attempts.set(attempts) if attempts else model.recovery_attempts.remove()
        try:
            with translated():
                model(state.saga_id).update(actions=[action], condition=condition)
        except Refused:
            return False
        return True

    def extend(self, state: SagaState, expires_at: float, progress: Progress | None = None) -> bool:
        """Push the lease's end out to ``expires_at``, and note a progress; ``False`` when the lease is lost."""
        model = self._tables.control
        noted = [model.progress.set(progress_of(progress))] if progress else []
        return self._hold(state, [model.lease_expires_at.set(iso(expires_at)), *noted])

    def note_progress(self, state: SagaState, progress: Progress) -> bool:
        """Note how far the execution is, and nothing else; ``False`` when the lease is lost."""
        return self._hold(state, [self._tables.control.progress.set(progress_of(progress))])

    def _hold(self, state: SagaState, actions: list[Any]) -> bool:
        """Change what is no state, as long as nothing was committed under the lease."""
        model, lease = self._tables.control, state.lease
        if lease is None:
            raise SagaError("only a lease that is held can be extended")
        mine = (model.lease_owner == lease.owner) & (model.token == state.token) & (model.seq == state.seq)
        try:
            with translated():
                model(state.saga_id).update(actions=actions, condition=mine)
        except Refused:
            return False
        return True

    def _update(self, before: SagaState, after: SagaState, condition: Any, stale_after: float) -> None:
        actions = self._actions(before, after, stale_after)
        with translated():
            self._tables.control(before.saga_id).update(actions=actions, condition=condition)

    def _actions(self, before: SagaState, after: SagaState, stale_after: float) -> list[Any]:
        """What an update must set and remove to get from one state to the other.

        ``due`` is always among it: claims leave it as it was, so what is stored need not be what ``before`` entails.
        Writing the value that is there costs nothing in an index. A progress is of the execution that has ended.
        """
        model = self._tables.control
        old = attributes_of(before, self._settings, stale_after)
        new = attributes_of(after, self._settings, stale_after)
        actions: list[Any] = [model.progress.remove()]
        for index, (was, is_) in enumerate(zip(old.pop("steps"), new.pop("steps"), strict=True)):
            if was != is_:
                actions.append(model.steps[index].set(step_of(is_)))
        for name in (name for name, value in new.items() if value != old[name] or name == "due"):
            attribute = getattr(model, name)
            actions.append(attribute.remove() if new[name] is None else attribute.set(new[name]))
        return actions
