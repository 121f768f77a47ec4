"""Many calls, paced."""

from __future__ import annotations

import threading

import pytest

from sagas.client.operate.pacing import STOP_AFTER, job_reason, new_job, paced
from tests.unit.client.test_batch import Clock


def test_no_more_a_second_than_asked_for() -> None:
    clock, done = Clock(), list[int]()
    why = paced(range(10), int, lambda one: bool(done.append(one)), rate=2.0, clock=clock.now, sleep=clock.sleep)
    assert (done, why) == ([*range(10)], "")
    assert clock.time == pytest.approx(4.5)


def test_so_many_at_a_time_that_slow_calls_keep_the_rate() -> None:
    together, done = threading.Barrier(4), list[int]()

    def call(number: int) -> int:
        if number >= 4:  # the first few show that the service is there
            together.wait(10)
        return number

    paced(range(12), call, lambda one: bool(done.append(one)), rate=5.0, sleep=lambda _: None)
    assert done == [*range(12)]


@pytest.mark.parametrize("rate", [0.5, 5.0, 1000.0])
def test_a_service_that_is_away_gets_five_calls(rate: float) -> None:
    called = list[int]()
    why = paced(range(100), called.append, lambda _: True, rate=rate, sleep=lambda _: None)
    assert (len(called), why) == (STOP_AFTER, "5 failures in a row")


def test_the_last_five_may_be_those_that_fail() -> None:
    assert paced(range(5), int, lambda _: True, rate=1000.0) == "5 failures in a row"


def test_failures_with_a_success_between_them_do_not_stop_it() -> None:
    settled = list[int]()

    def settle(number: int) -> bool:
        settled.append(number)
        return number % 5 != 4

    assert paced(range(40), int, settle, rate=1e6) == ""
    assert settled == [*range(40)]


def test_it_stops_when_it_is_told_to_and_what_is_under_way_is_settled() -> None:
    settled = list[int]()

    def stopped() -> str:
        return "you stopped it" if len(settled) >= 3 else ""

    assert paced(
        range(100), int, lambda one: bool(settled.append(one)), rate=1.0, sleep=lambda _: None, stopped=stopped
    )
    assert settled[:3] == [0, 1, 2]
    assert len(settled) <= 4


def test_an_interrupt_ends_it() -> None:
    settled = list[int]()

    def sleep(_seconds: float) -> None:
        if len(settled) >= 2:
            raise KeyboardInterrupt

    why = paced(range(100), int, lambda one: bool(settled.append(one)), rate=1.0, sleep=sleep)
    assert why == "interrupted"
    assert len(settled) <= 3


def test_calls_that_an_interrupt_meets_at_the_end_are_settled() -> None:
    settled, interrupts = list[int](), [KeyboardInterrupt()]

    def settle(number: int) -> bool:
        if number == 2 and interrupts:  # nothing is left but to wait for the calls
            raise interrupts.pop()
        settled.append(number)
        return False

    why = paced(range(3), int, settle, rate=1000.0)
    assert (settled, why) == ([0, 1, 2], "interrupted")


def test_jobs_have_names_of_their_own() -> None:
    assert new_job() != new_job()
    assert job_reason("j1", "fixed") == "bulk j1: fixed"
