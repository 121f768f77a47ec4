"""One rule calls the supervisor: which tasks are due at which minute, and what a task that fails does to the others."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sagas.errors import InvalidRequest
from sagas.handlers import supervisor
from sagas.handlers.tasks.ticking import Share, due_tasks
from tests.handlers.conftest import Make, Site, load
from tests.support.aws import LambdaContext
from tests.support.sagas import Trip

MIDNIGHT = datetime(2026, 11, 27, tzinfo=UTC)


def tick(at: datetime, sample: int = 100) -> dict[str, Any]:
    return {"task": "tick", "time": at.strftime("%Y-%m-%dT%H:%M:%SZ"), "sample": sample}


def due(at: datetime, every: int = 1, sample: int = 100) -> list[str]:
    return [one["task"] for one in due_tasks(tick(at, sample), every * 60.0)]


@pytest.mark.parametrize("every", [1, 2, 3, 4, 5])
def test_each_period_has_one_tick_of_its_task(every: int) -> None:
    ticks = [MIDNIGHT + timedelta(minutes=minute) for minute in range(0, 24 * 60, every)]
    counts = Counter(task for at in ticks for task in due(at, every))
    assert counts == {"recover": len(ticks), "overview": len(ticks), "purge": 288, "sweep": 24, "verify": 1}


def test_all_are_due_at_midnight_and_only_recovery_and_overview_a_minute_later() -> None:
    assert due(MIDNIGHT) == ["recover", "overview", "purge", "sweep", "verify"]
    assert due(MIDNIGHT + timedelta(minutes=1)) == ["recover", "overview"]
    assert due(MIDNIGHT, sample=0) == ["recover", "overview", "purge", "sweep"]


def test_each_task_gets_an_equal_part_of_what_is_left() -> None:
    context = LambdaContext(remaining=300.0)
    assert [Share(context, others).get_remaining_time_in_millis() for others in (3, 1, 0)] == [75_000, 150_000, 300_000]


@pytest.mark.parametrize(
    "odd", [{"time": "noon"}, {"time": 5}, {"time": None}, {"sample": "all"}, {"sample": True}, {"every": 1}]
)
def test_a_malformed_tick_is_refused(site: Make, odd: dict[str, Any]) -> None:
    site(Trip)
    supervisor.reset()
    with pytest.raises(InvalidRequest, match="the event is invalid"):
        supervisor.handler(tick(MIDNIGHT) | odd, LambdaContext())


@pytest.fixture
def trips(site: Make) -> Site:
    made = site(Trip)
    supervisor.reset()
    return made


def test_a_tick_runs_what_is_due(trips: Site) -> None:
    trips.begin("trip")
    trips.lose_messages()
    trips.clock.advance(600)
    counts = supervisor.handler(load("schedule_tick"), LambdaContext())
    assert list(counts) == ["recover", "overview", "purge", "sweep", "verify"]
    assert counts["recover"]["found"] == 1


def test_a_task_that_fails_stops_no_other_and_fails_the_call(trips: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("the bucket is away")

    def verified(*_: object) -> dict[str, int]:
        done.append("verify")
        return {"verified": 0}

    done = list[str]()
    monkeypatch.setattr(supervisor, "sweep", fail)
    monkeypatch.setattr(supervisor, "verify", verified)
    with pytest.raises(ExceptionGroup) as raised:
        supervisor.handler(load("schedule_tick"), LambdaContext())
    assert [str(error) for error in raised.value.exceptions] == ["the bucket is away"]
    assert done == ["verify"]
