"""Waiting: when it ends, what it tells on the way, and how often it asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from sagas import SagaClient
from sagas.client import SagaView
from sagas.client.waiting import Waiting
from sagas.errors import Conflict, Unavailable
from tests.unit.client.stub import SAGA_ID, StubApi, a_saga, a_step


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def wait(self, timeout: float | None = None) -> Waiting:
        return Waiting(timeout, lambda: self.now, self.sleep)


def reading(*readings: dict[str, Any] | Exception) -> Callable[[], SagaView]:
    """Return a function that gives the readings one after the other, and the last one for ever."""
    left = list(readings)

    def read() -> SagaView:
        reading = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(reading, Exception):
            raise reading
        return cast("SagaView", reading)

    return read


@pytest.mark.parametrize(
    "status", ["COMPLETED", "COMPENSATED", "CANCELLED", "FAILED", "COMPENSATION_FAILED", "DEAD_LETTERED"]
)
def test_ends_when_the_saga_is_at_rest(status: str) -> None:
    read = reading(a_saga("RUNNING"), a_saga("COMPENSATING"), a_saga(status))
    assert Time().wait().until_rest(read, None, None)["status"] == status


def test_tells_each_change_once() -> None:
    seen: list[str] = []
    read = reading(a_saga("PENDING"), a_saga("PENDING"), a_saga("RUNNING"), a_saga("RUNNING"), a_saga("COMPLETED"))
    Time().wait().until_rest(read, lambda saga: seen.append(saga["status"]), None)
    assert seen == ["PENDING", "RUNNING", "COMPLETED"]


def test_gives_up_in_time() -> None:
    time = Time()
    with pytest.raises(TimeoutError, match="still RUNNING after 7 s"):
        time.wait(7).until_rest(reading(a_saga("RUNNING")), None, None)
    assert time.now == pytest.approx(7)


def test_asks_ever_more_seldom_until_something_changes() -> None:
    time = Time()
    read = reading(*[a_saga("RUNNING")] * 12, a_saga("COMPENSATING"), a_saga("COMPLETED"))
    time.wait().until_rest(read, None, None)
    assert (time.pauses[0], max(time.pauses), time.pauses[-1]) == (0.1, 2.0, 0.1)


def test_one_that_is_about_to_go_on_must_have_changed() -> None:
    before = a_saga("DEAD_LETTERED", updated_at="2026-11-21T09:00:00.000Z")
    after = a_saga("DEAD_LETTERED", updated_at="2026-11-21T09:00:09.000Z")
    read = reading(before, before, after)
    assert Time().wait().until_rest(read, None, before["updated_at"]) == after


def test_a_few_failures_are_waited_out() -> None:
    gone = Unavailable("gone")
    read = reading(gone, gone, a_saga("RUNNING"), gone, gone, a_saga("COMPLETED"))
    assert Time().wait().until_rest(read, None, None)["status"] == "COMPLETED"


def test_an_api_that_stays_away_ends_the_wait() -> None:
    with pytest.raises(Unavailable, match="gone"):
        Time().wait().until_rest(reading(Unavailable("gone")), None, None)


def waits_for(kind: str | None, status: str = "WAITING") -> dict[str, Any]:
    return a_saga(status, steps=[a_step("check"), {**a_step("ask", "WAITING"), "waiting_for": kind}])


def test_until_it_waits_for_a_signal() -> None:
    others = [waits_for(kind) for kind in ("time", "children", "retry", None)]
    signal = waits_for("signal")
    read = reading(a_saga("RUNNING"), *others, signal)
    assert Time().wait().until_rest(read, None, None, "waiting") == signal


def test_until_it_waits_for_an_operator_instead() -> None:
    read = reading(a_saga("RUNNING"), a_saga("DEAD_LETTERED"))
    assert Time().wait().until_rest(read, None, None, "waiting")["status"] == "DEAD_LETTERED"


@pytest.mark.parametrize("status", ["COMPLETED", "COMPENSATED", "CANCELLED", "FAILED", "COMPENSATION_FAILED"])
def test_one_that_has_ended_does_not_wait_for_a_signal(status: str) -> None:
    read = reading(a_saga("RUNNING"), a_saga(status))
    with pytest.raises(Conflict, match=f"the saga is {status}; it no longer waits for a signal"):
        Time().wait().until_rest(read, None, None, "waiting")


def test_the_next_signal_is_another_than_the_last() -> None:
    first = waits_for("signal") | {"updated_at": "2026-11-21T09:00:00.000Z"}
    second = waits_for("signal") | {"updated_at": "2026-11-21T09:00:09.000Z"}
    read = reading(first, first, second)
    assert Time().wait().until_rest(read, None, first["updated_at"], "waiting") == second


def test_without_it_a_signal_does_not_end_the_wait() -> None:
    read = reading(waits_for("signal"), a_saga("COMPLETED"))
    assert Time().wait().until_rest(read, None, None)["status"] == "COMPLETED"


def test_it_waits_until_one_of_two() -> None:
    with pytest.raises(ValueError, match='until must be "end" or "waiting", not \'signal\''):
        Time().wait().until_rest(reading(a_saga("RUNNING")), None, None, cast("Any", "signal"))


def test_for_a_signal_over_the_api(api: StubApi, client: SagaClient) -> None:
    api.will(200, a_saga("RUNNING")).will(200, waits_for("signal"))
    assert client.wait("create-zip", SAGA_ID, timeout=10, until="waiting")["status"] == "WAITING"


def test_over_the_api(api: StubApi, client: SagaClient) -> None:
    api.will(200, a_saga("RUNNING")).will(200, a_saga("COMPLETED"))
    assert client.wait("create-zip", SAGA_ID, timeout=10)["status"] == "COMPLETED"
