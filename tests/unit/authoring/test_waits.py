"""Waits as authors declare them: what they become, and each natural mistake in one line."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

import sagas
from sagas import Context, DefinitionError, Exhausted, NotYet, Retry, Saga, step
from sagas.authoring.saga import definition_of
from sagas.testing import FakeContext
from tests.support.sagas import Order

DAY = timedelta(days=1)
wait_for: Any = sagas.wait_for
sleep: Any = sagas.sleep


@dataclass(frozen=True)
class Approval:
    """What a person says."""

    by: str


class Asked(Saga[Order]):
    """A wait of each kind."""

    bare = sagas.wait_for(Approval, timeout=DAY, on_timeout=Exhausted.CONTINUE)
    nap = sagas.sleep(DAY)

    @sagas.wait_for(Approval, timeout=DAY, public=True)
    def asked(self, request: Order, bare: Approval | None, ctx: Context) -> None:
        """Ask."""

    @asked.compensate
    def revoke(self, asked: Approval) -> None:
        """Take it back."""

    @step(patience=DAY)
    def end(self, asked: Approval) -> str:
        """End."""
        return asked.by


def test_what_they_become() -> None:
    bare, nap, asked, end = definition_of(Asked).steps
    assert (bare.waits_for, bare.asks, bare.has_lane, bare.wait) == ("signal", False, False, 86_400.0)
    assert (nap.waits_for, nap.asks, nap.result_type) == ("time", False, type(None))
    assert (asked.waits_for, asked.asks, asked.public, asked.result_type) == ("signal", True, True, Approval)
    assert asked.undo is not None
    assert (end.patience, definition_of(Asked).result_step.name) == (86_400.0, "end")


def test_code_that_asks_is_plain_python() -> None:
    assert Asked().asked(request=Order("x"), bare=None, ctx=FakeContext()) is None


def _saga(**members: Any) -> type[Any]:
    def last(self: object, request: Order) -> int:
        return 1

    return _class({**members, "last": step(last)})


def _class(members: dict[str, Any], **keywords: Any) -> type[Any]:
    return types.new_class("Wrong", (Saga[Order],), keywords, lambda body: body.update(members, __module__=__name__))


def _naive(request: Order) -> int:
    return 1


def _asking(self: object) -> int:
    return 1


def _going_on(self: object) -> int:
    return 1


_CONTINUE = Retry.constant(max_retries=1, delay=1, on_exhausted=Exhausted.CONTINUE)


@pytest.mark.parametrize(
    ("declare", "told"),
    [
        (lambda: wait_for(timeout=DAY), "the type of the signal comes first"),
        (lambda: wait_for(_naive), "the type of the signal comes first"),
        (lambda: wait_for(Approval), "timeout is missing"),
        (lambda: wait_for(Approval, timeout=3), "timeout must be a positive timedelta"),
        (lambda: wait_for(Approval, timeout=400 * DAY), "of at most a year"),
        (lambda: wait_for(Approval, DAY), "by keyword"),
        (lambda: wait_for(Approval, timeout=DAY, timout=1), 'unknown option "timout"'),
        (lambda: wait_for(Approval, timeout=DAY, on_timeout="FAIL"), "a member of Exhausted"),
        (lambda: wait_for(Approval, timeout=DAY, public="yes"), "public must be True or False"),
        (lambda: sleep(), "say how long"),
        (lambda: sleep(DAY, until=_naive), "and not both"),
        (lambda: sleep(60), "a positive timedelta"),
        (lambda: sleep(until="noon"), "must be a function"),
        (lambda: _saga(nap=sleep(until=_naive)), "returns? int, not a datetime"),
        (lambda: _saga(wait=wait_for(complex, timeout=DAY)), "unsupported type"),
        (lambda: _saga(wait=wait_for(Approval, timeout=DAY, retry=_CONTINUE)), "on_timeout can"),
        (lambda: _saga(wait=wait_for(Approval, timeout=DAY)(_asking)), "code that asks returns None"),
        (lambda: _saga(other=step(retry=_CONTINUE)(_going_on)), "for waits, and for steps with patience"),
        (lambda: _saga(other=step(retry=_CONTINUE, patience=DAY)(_going_on)), "must be annotated"),
        (lambda: _saga(other=step(patience=5)(_going_on)), "patience must be a positive timedelta"),  # pyright: ignore[reportArgumentType, reportCallIssue]
    ],
)
def test_each_mistake_is_told_in_one_line(declare: Callable[[], object], told: str) -> None:
    with pytest.raises(DefinitionError, match=told) as raised:
        declare()
    assert "\n" not in str(raised.value)


def test_a_saga_that_only_waits_is_refused() -> None:
    with pytest.raises(DefinitionError, match="it only waits"):
        _class({"nap": sleep(DAY)})


def test_one_wait_under_two_names_is_refused() -> None:
    wait = wait_for(Approval, timeout=DAY)
    with pytest.raises(DefinitionError, match="also called"):
        _saga(first=wait, second=wait)


def test_class_keywords() -> None:
    for keywords, told in (({"timeout": 5}, "timeout must be"), ({"result": "none"}, "names no step")):
        with pytest.raises(DefinitionError, match=told):
            _class({"end": step(_going_on)}, **keywords)


@pytest.mark.parametrize("after", [0, 0.5, -1, float("inf"), "soon", True])
def test_not_yet_takes_seconds(after: Any) -> None:
    with pytest.raises(ValueError, match="after must be"):
        NotYet(after)


def test_until_may_be_a_method() -> None:
    def when(self: object, request: Order) -> datetime:
        return datetime.max

    assert definition_of(_saga(nap=sleep(until=when))).steps[0].asks
