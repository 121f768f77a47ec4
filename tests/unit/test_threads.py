"""The library's own threads."""

from __future__ import annotations

import ast
import logging
import threading
from pathlib import Path

import pytest

import sagas
from sagas import threads

LOGGER = logging.getLogger("sagas")
SAID = "a thread of the library failed"


def test_one_that_repeats_survives_errors_and_logs_them(caplog: pytest.LogCaptureFixture) -> None:
    left: list[object] = [False, True, ZeroDivisionError(), TypeError("Decimal is not JSON"), True]

    def act() -> bool:
        outcome = left.pop()
        if isinstance(outcome, Exception):
            raise outcome
        return bool(outcome)

    threads.repeat("sagas-test", lambda: False, act, LOGGER).join()
    assert left == []
    logged = [vars(record) for record in caplog.records]
    assert [(line["message"], line["helper"], line["error"]) for line in logged] == [
        (SAID, "sagas-test", "TypeError"),
        (SAID, "sagas-test", "ZeroDivisionError"),
    ]
    assert "Decimal" not in caplog.text


def test_one_that_repeats_ends_when_its_wait_says_so() -> None:
    waits, acts = [True, False, False], list[int]()

    def act() -> bool:
        acts.append(1)
        return True

    threads.repeat("sagas-test", waits.pop, act, LOGGER).join()
    assert (waits, len(acts)) == ([], 2)


def test_one_that_acts_once_logs_its_error(caplog: pytest.LogCaptureFixture) -> None:
    def act() -> None:
        raise TypeError("no")

    threads.start("sagas-test", act, LOGGER).join()
    assert caplog.messages == [SAID]


def test_all_threads_of_the_library_are_of_this_kind() -> None:
    """Pools are not: whoever waits for their results gets their errors."""
    root = Path(sagas.__file__).parent
    makers = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("Thread", "Timer")
    }
    assert makers == {"threads.py"}


def test_alarms_go_off_in_their_order_unless_they_are_cleared() -> None:
    alarms, seen, done = threads.Alarms("test-alarms"), list[str](), threading.Event()
    late = alarms.set(3_600, lambda: seen.append("late"), LOGGER)
    cleared = alarms.set(0.05, lambda: seen.append("cleared"), LOGGER)
    alarms.set(0.02, lambda: seen.append("second"), LOGGER)
    alarms.set(0.01, lambda: seen.append("first"), LOGGER)
    cleared()
    alarms.set(0.06, done.set, LOGGER)
    assert done.wait(30)
    late()
    assert seen == ["first", "second"]


def test_an_alarm_that_fails_is_logged_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    alarms, done = threads.Alarms("test-alarms"), threading.Event()

    def fail() -> None:
        raise TypeError("Decimal is not JSON")

    alarms.set(0.0, fail, LOGGER)
    alarms.set(0.01, done.set, LOGGER)
    assert done.wait(30)
    assert [vars(record)["error"] for record in caplog.records] == ["TypeError"]


def test_the_thread_of_alarms_ends_when_none_is_set_and_begins_again() -> None:
    alarms = threads.Alarms("test-alarms-that-end")
    for _ in range(2):
        done = threading.Event()
        alarms.set(0.0, done.set, LOGGER)
        assert done.wait(30)
        for thread in threading.enumerate():
            if thread.name == "test-alarms-that-end":
                thread.join(30)
                assert not thread.is_alive()
