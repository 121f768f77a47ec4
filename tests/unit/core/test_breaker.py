"""The circuit breaker's automaton: the ways it goes, and what holds whichever way it went."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagas.core.breaker import PROBE_POLL, AttemptOutcome, BreakerState, Limits, admit, record_outcome

LIMITS = Limits(threshold=3, open_for=30.0)
NOW = 1_800_000_000.0
OPEN = BreakerState(failures=3, open_until=NOW + 30)
PROBED = replace(OPEN, probe="a", probe_until=NOW + 90)


def _failures(count: int, state: BreakerState | None = None) -> BreakerState:
    state = state or BreakerState()
    for _ in range(count):
        state = record_outcome(LIMITS, state, "a", AttemptOutcome.FAILURE, NOW)
    return state


def test_opens_at_the_threshold() -> None:
    assert _failures(2).closed
    assert _failures(3) == OPEN


def test_a_success_begins_the_count_anew() -> None:
    state = record_outcome(LIMITS, _failures(2), "a", AttemptOutcome.SUCCESS, NOW)
    assert state == BreakerState()
    assert _failures(2, state).closed


def test_a_success_changes_nothing_when_nothing_failed() -> None:
    state = BreakerState(closed_at=NOW)
    assert record_outcome(LIMITS, state, "a", AttemptOutcome.SUCCESS, NOW) is state


def test_no_verdict_neither_counts_nor_begins_anew() -> None:
    state = _failures(2)
    assert record_outcome(LIMITS, state, "a", AttemptOutcome.NONE, NOW) is state


def test_open_sends_everybody_away_until_its_end() -> None:
    asked = admit(OPEN, "a", NOW + 29, NOW + 89)
    assert asked.wait_until == NOW + 30
    assert asked.state is OPEN


def test_half_open_lets_one_through() -> None:
    first = admit(OPEN, "a", NOW + 30, NOW + 90)
    assert (first.wait_until, first.state) == (0.0, PROBED)
    second = admit(first.state, "b", NOW + 31, NOW + 91)
    assert second.wait_until == NOW + 31 + PROBE_POLL
    assert second.state is first.state


def test_asking_twice_is_asking_once() -> None:
    again = admit(PROBED, "a", NOW + 40, NOW + 100)
    assert (again.wait_until, again.state) == (0.0, PROBED)


def test_a_message_waits_no_longer_than_the_probe_can_take() -> None:
    assert admit(PROBED, "b", NOW + 89, NOW + 149).wait_until == NOW + 90


def test_a_probe_that_died_makes_room() -> None:
    asked = admit(PROBED, "b", NOW + 90, NOW + 150)
    assert (asked.wait_until, asked.state.probe) == (0.0, "b")


def test_the_probe_closes_it() -> None:
    assert record_outcome(LIMITS, PROBED, "a", AttemptOutcome.SUCCESS, NOW + 35) == BreakerState(closed_at=NOW + 35)


def test_the_probe_opens_it_again() -> None:
    state = record_outcome(LIMITS, PROBED, "a", AttemptOutcome.FAILURE, NOW + 35)
    assert state == replace(OPEN, open_until=NOW + 65)


def test_a_probe_found_dead_opens_it_again_unless_another_began() -> None:
    assert record_outcome(LIMITS, PROBED, "a", AttemptOutcome.FAILURE, NOW + 95).open_until == NOW + 125
    taken = replace(PROBED, probe="b", probe_until=NOW + 150)
    assert record_outcome(LIMITS, taken, "a", AttemptOutcome.FAILURE, NOW + 95) is taken


def test_a_probe_without_verdict_makes_room() -> None:
    state = record_outcome(LIMITS, PROBED, "a", AttemptOutcome.NONE, NOW + 35)
    assert state == OPEN
    assert admit(state, "b", NOW + 35, NOW + 95).wait_until == 0.0


@pytest.mark.parametrize("outcome", list(AttemptOutcome))
@pytest.mark.parametrize("state", [OPEN, PROBED])
def test_others_change_nothing_while_it_is_not_closed(state: BreakerState, outcome: AttemptOutcome) -> None:
    assert record_outcome(LIMITS, state, "stranger", outcome, NOW + 31) is state


SAGAS = st.sampled_from("abc")
ASKS = st.tuples(st.just("ask"), SAGAS, st.floats(1, 100))
REPORTS = st.tuples(st.just("report"), SAGAS, st.sampled_from(AttemptOutcome))
PAUSES = st.tuples(st.just("pause"), st.just(""), st.floats(0, 60))
STORIES = st.lists(ASKS | REPORTS | PAUSES, max_size=60)


class _Story:
    """One breaker, and what it was told."""

    def __init__(self) -> None:
        self.state = BreakerState()
        self.now = NOW
        self.in_a_row = 0

    def tell(self, kind: str, saga_id: str, value: float | AttemptOutcome) -> None:
        if isinstance(value, AttemptOutcome):
            self._report(saga_id, value)
        elif kind == "ask":
            self._ask(saga_id, self.now + value)
        else:
            self.now += value

    def _ask(self, saga_id: str, probe_until: float) -> None:
        before = self.state
        answer = admit(before, saga_id, self.now, probe_until)
        self.state = answer.state
        if answer.wait_until:
            assert answer.wait_until > self.now
            assert answer.state is before
            assert not before.closed
            return
        assert before.closed or self.now >= before.open_until
        assert before.closed or answer.state.probed_by(saga_id, self.now)
        alive = before.probe and before.probe != saga_id and self.now < before.probe_until
        assert before.closed or not alive, "two probes at once"
        assert admit(self.state, saga_id, self.now, probe_until).state is self.state

    def _report(self, saga_id: str, outcome: AttemptOutcome) -> None:
        before, self.state = self.state, record_outcome(LIMITS, self.state, saga_id, outcome, self.now)
        if not before.closed:
            assert before.probe == saga_id or self.state is before
            assert self.state.closed == (outcome is AttemptOutcome.SUCCESS and before.probe == saga_id)
            self.in_a_row = 0
            return
        if outcome is not AttemptOutcome.NONE:
            self.in_a_row = self.in_a_row + 1 if outcome is AttemptOutcome.FAILURE else 0
        assert self.state.closed == (self.in_a_row < LIMITS.threshold)


@given(STORIES)
def test_whatever_happens(story: list[tuple[str, str, float | AttemptOutcome]]) -> None:
    told = _Story()
    for kind, saga_id, value in story:
        told.tell(kind, saga_id, value)
        state = told.state
        assert not state.closed or (state.failures < LIMITS.threshold and not state.probe)
        later = max(told.now, state.open_until, state.probe_until)
        assert admit(state, "z", later, later + 1).wait_until == 0.0, "it must not stay shut for good"
