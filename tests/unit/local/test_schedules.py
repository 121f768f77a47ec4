"""Schedules fire by the clock of the local stack, however far it is ahead."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pytest

from sagas.local.emulator.schedules import Schedules

eventbridge: Any = import_module("ministack.services.eventbridge")
scheduler: Any = import_module("ministack.services.scheduler")

QUEUE = "arn:aws:sqs:us-east-1:000000000000:commands"
FUNCTION = "arn:aws:lambda:us-east-1:000000000000:function:supervisor"
BEGAN = datetime(2026, 11, 27, 9, 30, 5, tzinfo=UTC).timestamp()
HOUR, DAY = 3_600.0, 86_400.0

Fired = list[tuple[str, str]]


@pytest.fixture
def fired(monkeypatch: pytest.MonkeyPatch) -> Fired:
    """What fires: the name and the time."""
    seen: Fired = []

    def invoke(_target: Any, event: dict[str, Any], schedule: dict[str, Any], _view: Any = None) -> None:
        seen.append((schedule["Name"], datetime.fromtimestamp(event["Time"], UTC).isoformat()[:19]))

    monkeypatch.setattr(eventbridge, "_invoke_target", invoke)
    for module, name in (
        (eventbridge, "_rules"), (eventbridge, "_targets"), (eventbridge, "_rule_last_fired"),
        (scheduler, "_schedules"), (scheduler, "_schedule_last_fired"),
    ):  # fmt: skip
        store = getattr(module, name)
        monkeypatch.setattr(module, name, type(store)())
    return seen


def rule(name: str, expression: str, target: str = QUEUE) -> Any:
    key = "000000000000", "us-east-1", name
    arn = f"arn:aws:events:us-east-1:000000000000:rule/{name}"
    made = {"Name": name, "Arn": arn, "State": "ENABLED", "ScheduleExpression": expression, "CreationTime": BEGAN}
    eventbridge._rules._data[key] = made
    eventbridge._targets._data[key] = [{"Id": "1", "Arn": target}]
    return key


def schedule(name: str, expression: str, **more: Any) -> None:
    made = {"Name": name, "Arn": name, "State": "ENABLED", "ScheduleExpression": expression, "CreationDate": BEGAN}
    scheduler._schedules._data["000000000000", "us-east-1", name] = {**made, "Target": {"Arn": QUEUE}, **more}


def test_each_occurrence_fires_once_at_its_time(fired: Fired) -> None:
    rule("nightly", "cron(0 2 * * ? *)")
    schedule("hourly", "rate(12 hours)")
    schedule("once", "at(2026-11-28T12:00:00)")
    schedules = Schedules(eventbridge, scheduler)
    for now in (BEGAN, BEGAN + HOUR, BEGAN + 2 * DAY, BEGAN + 2 * DAY):
        schedules.fire(now)
    assert fired == [
        ("hourly", "2026-11-27T21:30:05"),
        ("nightly", "2026-11-28T02:00:00"),
        ("hourly", "2026-11-28T09:30:05"),
        ("once", "2026-11-28T12:00:00"),
        ("hourly", "2026-11-28T21:30:05"),
        ("nightly", "2026-11-29T02:00:00"),
        ("hourly", "2026-11-29T09:30:05"),
    ]
    assert schedules.next_due() == BEGAN + 2.5 * DAY
    assert eventbridge.time is scheduler.time is time


def test_the_supervisors_rule_keeps_the_time_of_the_machine(fired: Fired) -> None:
    fired_before, never = rule("Tick", "cron(0/1 * * * ? *)", FUNCTION), rule("New", "rate(1 minute)", FUNCTION)
    eventbridge._rule_last_fired[fired_before] = BEGAN
    rule("nightly", "cron(0 2 * * ? *)")
    Schedules(eventbridge, scheduler).fire(BEGAN + DAY)
    assert [name for name, _ in fired] == ["nightly"]
    assert eventbridge._rule_last_fired[fired_before] == BEGAN
    assert never not in eventbridge._rule_last_fired


def test_one_whose_creation_is_unknown_begins_now(fired: Fired) -> None:
    """Those of CloudFormation."""
    schedule("known", "rate(1 day)", CreationDate="2026-11-27T09:30:05Z")
    schedule("unknown", "rate(1 day)")
    del scheduler._schedules._data["000000000000", "us-east-1", "unknown"]["CreationDate"]
    schedules = Schedules(eventbridge, scheduler)
    schedules.next_due()
    schedules.fire(BEGAN + DAY)
    assert fired == [("known", "2026-11-28T09:30:05")]
    schedules.fire(time.time() + DAY)
    assert "unknown" in dict(fired)


def test_a_schedule_has_a_first_and_a_last_day(fired: Fired) -> None:
    schedule("month", "cron(0 2 * * ? *)", StartDate=BEGAN + 2 * DAY, EndDate=BEGAN + 4 * DAY)
    schedule("off", "rate(1 hour)", State="DISABLED")
    Schedules(eventbridge, scheduler).fire(BEGAN + 30 * DAY)
    assert [at[:10] for _, at in fired] == ["2026-11-29", "2026-11-30", "2026-12-01"]
