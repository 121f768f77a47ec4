"""``sagas.testing.run``: stored values that the code does not read, or reads by an upcast."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import pytest

from sagas import Saga, step
from sagas.testing import run


class Limited:
    """A value that the code refuses to read once it has written it."""

    written = False

    def __init__(self, number: int) -> None:
        if Limited.written:
            raise ValueError("too large")
        Limited.written, self.number = True, number


@dataclass(frozen=True)
class Limit:
    number: int

    def __post_init__(self) -> None:
        Limited(self.number)


class Limiting(Saga[int]):
    @step
    def measure(self, request: int) -> Limit:
        return Limit(request)

    @step
    def use(self, measure: Limit) -> int:
        return measure.number


def test_a_stored_value_that_does_not_fit_waits_as_long_as_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for settle, postponed in ((timedelta(), 0), (timedelta(minutes=15), 5)):
        monkeypatch.setattr(Limited, "written", False)
        outcome = run(Limiting, 3, settle=settle)
        assert outcome.status == "DEAD_LETTERED"
        assert outcome.error is not None
        assert outcome.error.type == "TypeChanged"
        assert [entry.action for entry in outcome.audit].count("StepPostponed") == postponed
        assert outcome.results == {"measure": {"number": 3}}, "as it is stored"


def test_a_result_is_read_by_its_upcast(monkeypatch: pytest.MonkeyPatch) -> None:
    class Upcasting(Saga[int], upcast={"measure": lambda old: None}):
        @step
        def measure(self, request: int) -> Limit | None:
            return Limit(request)

        @step
        def use(self, measure: Limit | None) -> str:
            return str(measure)

    monkeypatch.setattr(Limited, "written", False)
    outcome = run(Upcasting, 3)
    assert (outcome.result, outcome.results["measure"]) == ("None", None)


def test_the_time_to_settle_must_be_one() -> None:
    with pytest.raises(TypeError, match="settle: must be a timedelta, not 15"):
        run(Limiting, 3, settle=cast("Any", 15))
    with pytest.raises(ValueError, match="settle: must be at least 0"):
        run(Limiting, 3, settle=timedelta(-1))
