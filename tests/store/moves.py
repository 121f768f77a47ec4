"""What becomes of a saga, for tests of what each write leaves behind."""

from __future__ import annotations

from msgspec.structs import replace

from sagas.core.states import Cancel, SagaState, SagaStatus, StepStatus
from sagas.store.journal.entries import Entry
from tests.store.conftest import STALE_AFTER, Store
from tests.store.states import NOW, lease, saga


def claimed(store: Store, state: SagaState | None = None) -> SagaState:
    """A saga whose first step is running."""
    state = state or saga()
    assert store.control.create(state, STALE_AFTER)
    claimed = store.control.claim_step(state.saga_id, 0, state.dispatch, lease(), NOW)
    assert claimed is not None
    return claimed


def completed(state: SagaState) -> SagaState:
    """What committing the first step's completion leads to."""
    done = replace(state.steps[0], status=StepStatus.COMPLETED, result_seq=state.seq + 1)
    return replace(state.with_step(0, done), seq=state.seq + 1, cursor=1, dispatch=state.dispatch + 1, lease=None)


def ended(state: SagaState) -> SagaState:
    return replace(state, seq=state.seq + 1, status=SagaStatus.COMPLETED, lease=None)


def last(state: SagaState, token: int | None = None) -> Entry:
    token = state.token if token is None else token
    return Entry(state.saga_id, state.seq + 1, NOW, "trip", "StepCompleted", "COMPLETED", token, "pay", 1)


def cancel(store: Store, state: SagaState) -> None:
    asked = replace(state, cancel=Cancel(NOW + 1, "ann"))
    assert store.control.request_cancel(state, asked)
