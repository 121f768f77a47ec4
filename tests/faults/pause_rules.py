"""The rules of pauses, each to be switched off as those in ``rules.py``."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from sagas.core.states import Polling, SagaState
from sagas.core.text import iso
from sagas.engine.attempt import failures
from sagas.engine.operate import pausing
from sagas.store.control.control import ControlItems
from sagas.testing.faults import Fault, Point
from tests.faults.rules import Life, Rules

PAUSE_RULES = Rules()
_rule = PAUSE_RULES.rule


@_rule(
    "an accepted cancel brings back what a pause parks",
    Life("cancelled_while_a_pause_parks_it", Point(11, Fault.LATE, 2)),
)
def _cancels_leave_parked_what_they_meet() -> Generator[None]:
    request_cancel = ControlItems.request_cancel

    def leaving(self: Any, before: SagaState, after: SagaState) -> bool:
        if before.paused or before.waiting_for:
            return request_cancel(self, before, after)
        model = self._tables.control
        flag = [
            model.cancel_requested_at.set(iso(after.cancel.at)),
            model.cancel_requested_by.set(after.cancel.by),
        ]
        allowed = model.status == before.status.value
        return self._changed(before.saga_id, flag, allowed & model.cancel_requested_at.does_not_exist())

    with patch.object(ControlItems, "request_cancel", leaving):
        yield


@_rule(
    "what a pause marked goes on once no pause holds it",
    Life("resumed_by_a_client_that_may_die", Point(23, Fault.DIES_AFTER)),
)
def _nobody_looks_at_what_is_marked() -> Generator[None]:
    with patch.object(pausing, "NEVER_DUE", 0.0):
        yield


@_rule("patience counts no time for which nobody can look", Life("paused_for_longer_than_a_step_has_patience"))
def _patience_runs_on_in_a_pause() -> Generator[None]:
    def nothing(*given: Any) -> float:
        return 0.0

    with patch.object(failures, "_held_up", nothing):
        yield


@_rule(
    "patience counts no time for which nobody can look, whatever was journaled meanwhile",
    Life("paused_for_longer_than_a_step_has_patience", Point(31, Fault.LATE, 6)),
)
def _lateness_is_counted_from_the_last_commit() -> Generator[None]:
    held_up = failures._held_up  # pyright: ignore[reportPrivateUsage]

    def counted(held: SagaState, polling: Polling) -> float:
        return held_up(held, replace(polling, due=held.updated_at + polling.after))

    with patch.object(failures, "_held_up", counted):
        yield
