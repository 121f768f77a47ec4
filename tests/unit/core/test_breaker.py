"""The circuit breaker's automaton: the ways it goes, and what holds whichever way it went."""

from __future__ import annotations

import heapq
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sagas.core.gates import (
    LONGEST_SPREAD,
    PROBE_POLL,
    Admission,
    AttemptOutcome,
    BreakerState,
    Limits,
    admit,
    closed,
    opened,
    probe_ended,
    silent_until,
)

LIMITS = Limits(threshold=3, open_for=30.0)
NOW = 1_800_000_000.0
OPEN = BreakerState(failures=3, open_until=NOW + 30, opened_at=NOW)
PROBED = replace(OPEN, probe="a", probe_until=NOW + 90)


def ask(state: BreakerState, saga_id: str, now: float, probe_until: float, chance: float = 0.0) -> Admission:
    return admit(LIMITS, state, saga_id, now, probe_until, chance)


def test_opens_at_the_threshold() -> None:
    two = BreakerState(failures=2)
    assert opened(LIMITS, two, NOW) is two
    assert opened(LIMITS, BreakerState(failures=3), NOW) == OPEN
    assert opened(LIMITS, OPEN, NOW + 5) is OPEN


def test_open_sends_everybody_away_until_its_end() -> None:
    asked = ask(OPEN, "a", NOW + 29, NOW + 89)
    assert asked.wait_until == NOW + 30
    assert asked.state is OPEN


def test_half_open_lets_one_through() -> None:
    first = ask(OPEN, "a", NOW + 30, NOW + 90)
    assert (first.wait_until, first.state) == (0.0, PROBED)
    second = ask(first.state, "b", NOW + 31, NOW + 91)
    assert second.wait_until == NOW + 31 + PROBE_POLL
    assert second.state is first.state


def test_asking_twice_is_asking_once() -> None:
    again = ask(PROBED, "a", NOW + 40, NOW + 100)
    assert (again.wait_until, again.state) == (0.0, PROBED)


def test_a_message_waits_no_longer_than_the_probe_can_take_but_for_the_spread() -> None:
    assert ask(PROBED, "b", NOW + 89, NOW + 149).wait_until == NOW + 90
    assert ask(PROBED, "b", NOW + 89, NOW + 149, 0.5).wait_until == NOW + 90 + 89 / 2


def test_a_probe_that_died_makes_room() -> None:
    asked = ask(PROBED, "b", NOW + 90, NOW + 150)
    assert (asked.wait_until, asked.state.probe) == (0.0, "b")


def test_returns_are_spread_the_wider_the_longer_it_has_not_been_closed() -> None:
    for age, wide in ((0, 30), (30, 30), (200, 200), (840, LONGEST_SPREAD), (86_400, LONGEST_SPREAD)):
        held = replace(OPEN, open_until=NOW + age + 10)
        assert ask(held, "b", NOW + age, NOW + age).wait_until == NOW + age + 10
        assert ask(held, "b", NOW + age, NOW + age, 0.25).wait_until == NOW + age + 10 + wide / 4
        probed = replace(held, open_until=NOW + age, probe="a", probe_until=NOW + age + 900)
        assert ask(probed, "b", NOW + age, NOW + age, 0.25).wait_until == NOW + age + PROBE_POLL + wide / 4


def test_one_that_was_closed_by_hand_and_never_opened_holds_nobody_for_long() -> None:
    assert silent_until(LIMITS, closed(BreakerState(), NOW)) == NOW + 30 + PROBE_POLL + 30


def test_the_probe_closes_it() -> None:
    state = probe_ended(LIMITS, PROBED, "a", AttemptOutcome.SUCCESS, NOW + 35)
    assert state == BreakerState(closed_at=NOW + 35, opened_at=NOW)


def test_the_probe_opens_it_again() -> None:
    state = probe_ended(LIMITS, PROBED, "a", AttemptOutcome.FAILURE, NOW + 35)
    assert state == replace(OPEN, open_until=NOW + 65)


def test_a_probe_reported_late_opens_it_again_unless_another_began() -> None:
    assert probe_ended(LIMITS, PROBED, "a", AttemptOutcome.FAILURE, NOW + 95).open_until == NOW + 125
    taken = replace(PROBED, probe="b", probe_until=NOW + 150)
    assert probe_ended(LIMITS, taken, "a", AttemptOutcome.FAILURE, NOW + 95) is taken


def test_a_probe_without_verdict_makes_room() -> None:
    state = probe_ended(LIMITS, PROBED, "a", AttemptOutcome.NONE, NOW + 35)
    assert state == OPEN
    assert ask(state, "b", NOW + 35, NOW + 95).wait_until == 0.0


@pytest.mark.parametrize("outcome", list(AttemptOutcome))
@pytest.mark.parametrize("state", [OPEN, PROBED, BreakerState(failures=2)])
def test_nothing_but_the_probe_changes_it(state: BreakerState, outcome: AttemptOutcome) -> None:
    assert probe_ended(LIMITS, state, "stranger", outcome, NOW + 31) is state


@pytest.mark.parametrize("state", [OPEN, PROBED, BreakerState(failures=2)])
def test_an_operator_closes_it_whatever_it_is(state: BreakerState) -> None:
    after = closed(state, NOW + 7)
    assert after == BreakerState(closed_at=NOW + 7, opened_at=state.opened_at)
    assert ask(after, "b", NOW + 7, NOW).wait_until == 0.0


SAGAS = st.sampled_from("abc")
CHANCES = st.floats(0, 1, exclude_max=True)


@given(st.floats(0, 3_000), CHANCES, st.sampled_from(["open", "probed"]))
def test_silence_is_excused_for_as_long_as_anyone_told_to_wait_may_stay_away(
    age: float, chance: float, kind: str
) -> None:
    """Also when it is closed in the next moment, by hand."""
    state = replace(OPEN, open_until=NOW + age + 30)
    if kind == "probed":
        state = replace(state, open_until=NOW + age, probe="a", probe_until=NOW + age + 60)
    told = ask(state, "b", NOW + age, NOW + age, chance).wait_until
    assert told <= silent_until(LIMITS, state)
    assert told <= silent_until(LIMITS, closed(state, NOW + age)) + PROBE_POLL


def test_a_breaker_that_never_opened_excuses_nothing() -> None:
    assert silent_until(LIMITS, BreakerState(failures=2)) == 0.0


ASKS = st.tuples(st.just("ask"), SAGAS, st.floats(1, 100))
REPORTS = st.tuples(st.just("report"), SAGAS, st.sampled_from(AttemptOutcome))
PAUSES = st.tuples(st.just("pause"), st.just(""), st.floats(0, 60))
STORIES = st.lists(ASKS | REPORTS | PAUSES, max_size=60)


class _Story:
    """One breaker, open at first, and what it was told."""

    def __init__(self) -> None:
        self.state = OPEN
        self.now = NOW

    def tell(self, kind: str, saga_id: str, value: float | AttemptOutcome) -> None:
        if isinstance(value, AttemptOutcome):
            self._report(saga_id, value)
        elif kind == "ask":
            self._ask(saga_id, self.now + value)
        else:
            self.now += value

    def _ask(self, saga_id: str, probe_until: float) -> None:
        before = self.state
        answer = ask(before, saga_id, self.now, probe_until, 0.7)
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
        assert ask(self.state, saga_id, self.now, probe_until).state is self.state

    def _report(self, saga_id: str, outcome: AttemptOutcome) -> None:
        before, self.state = self.state, probe_ended(LIMITS, self.state, saga_id, outcome, self.now)
        assert before.closed or before.probe == saga_id or self.state is before
        if not before.closed:
            assert self.state.closed == (outcome is AttemptOutcome.SUCCESS and before.probe == saga_id)


@given(STORIES)
def test_whatever_happens(story: list[tuple[str, str, float | AttemptOutcome]]) -> None:
    told = _Story()
    for kind, saga_id, value in story:
        told.tell(kind, saga_id, value)
        state = told.state
        assert not state.closed or not state.probe
        later = max(told.now, state.open_until, state.probe_until)
        assert ask(state, "z", later, later + 1).wait_until == 0.0, "it must not stay shut for good"


def test_few_executions_find_it_still_open_however_many_wait() -> None:
    """200,000 sagas wait from the first second of an outage of an hour, simulated with a hundredth of them.

    Finding it open costs 50 ms, a request to SQS and what Lambda adds: at most 5 % of the account's 1,000 executions.
    Probes take a second, fail, and are one at a time.
    """
    waiting, scale, outage = 2_000, 100, 3_600.0
    dice = random.Random(7)  # noqa: S311 - a simulation
    state = OPEN
    queue = [(NOW + dice.random(), saga) for saga in range(waiting)]
    heapq.heapify(queue)
    looks = probes = 0
    while queue[0][0] < NOW + outage:
        now, saga = heapq.heappop(queue)
        if state.probe and now >= state.probe_until:
            state = probe_ended(LIMITS, state, state.probe, AttemptOutcome.FAILURE, state.probe_until)
        asked = admit(LIMITS, state, str(saga), now, now + 1, dice.random())
        state = asked.state
        looks, probes = looks + 1, probes + (not asked.wait_until)
        heapq.heappush(queue, (asked.wait_until or now + 1, saga))
    assert looks * scale * 0.05 / outage <= 0.05 * 1_000
    assert probes <= outage / LIMITS.open_for
    returns = [at - NOW - outage for at, _ in queue]
    assert max(returns) <= LIMITS.open_for + LONGEST_SPREAD, "no longer than a message can be delayed"
    busiest = max(sum(minute <= at < minute + 10 for at in returns) for minute in range(0, 900, 10))
    assert busiest <= waiting / 20, "they come back spread"
