"""Waits as authors declare them: what they become, and each natural mistake in one line."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, NewType, Optional, TypeVar

import pytest

import sagas
from sagas import Context, DefinitionError, Exhausted, NotYet, PermanentError, Retry, Saga, step
from sagas.authoring.definition.definition import definition_of
from sagas.testing import FakeContext, run
from tests.support.sagas import Order

DAY = timedelta(days=1)
T = TypeVar("T")
wait_for: Any = sagas.wait_for
sleep: Any = sagas.sleep
_step: Any = step
_saga_of: Any = Saga


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

    @step(within=DAY)
    def end(self, asked: Approval) -> str:
        """End."""
        return asked.by


def test_what_they_become() -> None:
    bare, nap, asked, end = definition_of(Asked).steps
    assert (bare.waits_for, bare.asks, bare.has_lane, bare.wait) == ("signal", False, False, 86_400.0)
    assert (nap.waits_for, nap.asks, nap.result_type) == ("time", False, type(None))
    assert (asked.waits_for, asked.asks, asked.public, asked.result_type) == ("signal", True, True, Approval)
    assert asked.undo is not None
    assert (end.within, definition_of(Asked).result_step.name) == (86_400.0, "end")


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


_LAMBDAS: list[Callable[[Any], Any]] = [lambda ready: ready]


def _asking(self: object) -> int:
    return 1


def _going_on(self: object) -> int:
    return 1


_CONTINUE = Retry.constant(max_retries=1, delay=1, on_exhausted=Exhausted.CONTINUE)


@pytest.mark.parametrize(
    ("declare", "told"),
    [
        (lambda: wait_for(timeout=DAY), "pass the type of the signal first"),
        (lambda: wait_for(_naive), "pass the type of the signal first"),
        (lambda: wait_for(Approval), "timeout is required"),
        (lambda: wait_for(Approval, timeout=3), "timeout must be a positive timedelta"),
        (lambda: wait_for(Approval, timeout=366 * DAY), r"of at most 365 days"),
        (lambda: wait_for(Approval, timeout=DAY)(), "wait_for, as a decorator: missing a required argument"),
        (lambda: wait_for(Approval, timeout=DAY)(_asking, _asking), "too many positional arguments"),
        (lambda: wait_for(Approval, DAY), "by keyword"),
        (lambda: wait_for(Approval, timeout=DAY, timout=1), 'unknown option "timout"'),
        (lambda: wait_for(Approval, timeout=DAY, on_timeout="FAIL"), "a member of Exhausted"),
        (lambda: wait_for(Approval, timeout=DAY, public="yes"), "public must be True or False"),
        (lambda: _saga(papers=wait_for(str, timeout=DAY, public=True)), 'step "papers": public=True needs a method'),
        (lambda: sleep(until=_LAMBDAS[0]), r"is a lambda, .* def when\(ready: datetime\) -> datetime"),
        (lambda: sleep(), "pass either a length"),
        (lambda: sleep(DAY, until=_naive), "or until="),
        (lambda: sleep(60), "a positive timedelta"),
        (lambda: sleep(365 * DAY + timedelta(seconds=1)), r"of at most 365 days"),
        (lambda: sleep(DAY)(_asking), "sleep is a value, not a decorator"),
        (lambda: sleep(DAY)(), "sleep is a value, not a decorator"),
        (
            lambda: sleep(DAY).compensate(foo=1),
            "compensate: got an unexpected keyword argument 'foo'; it takes retry, timeout",
        ),
        (
            lambda: wait_for(Approval, timeout=DAY).compensate(foo=1),
            "compensate: got an unexpected keyword argument 'foo'",
        ),
        (
            lambda: wait_for(Approval, timeout=DAY).compensate(timeout=1)(),
            "compensate: when called with options it must decorate",
        ),
        (
            lambda: _step(retries=3),
            "step: got an unexpected keyword argument 'retries'; it takes retry, timeout, circuit",
        ),
        (lambda: _step(poll_timeout=DAY), "step: got an unexpected keyword argument 'poll_timeout'"),
        (
            lambda: wait_for(Approval, timeout=DAY).compensate(within=DAY),
            "compensate: got an unexpected keyword argument 'within'; it takes retry, timeout by keyword",
        ),
        (lambda: _step(_going_on, _going_on), "step: too many positional arguments"),
        (lambda: _step(timeout=3)(), "step: when called with options it must decorate exactly one method"),
        (
            lambda: _step(timeout=3)(_going_on, result="a"),
            "step: when called with options it must decorate exactly one method",
        ),
        (lambda: _saga(nap=sleep(until=len)), 'parameter "obj": positional-only'),
        (lambda: sleep(until="noon"), "must be a function"),
        (lambda: _saga(nap=sleep(until=max)), 'step "nap": until: its signature cannot be read'),
        (lambda: _saga(nap=sleep(until=_naive)), "returns? int, not a datetime"),
        (lambda: _saga(wait=wait_for(complex, timeout=DAY)), "unsupported type"),
        (lambda: _saga(wait=wait_for(Approval, timeout=DAY, retry=_CONTINUE)), "on_timeout can"),
        (lambda: _saga(wait=wait_for(Approval, timeout=DAY)(_asking)), "it must return None"),
        (lambda: _saga(other=step(retry=_CONTINUE)(_going_on)), "for waits, and for steps with within"),
        (lambda: _saga(other=step(retry=_CONTINUE, within=DAY)(_going_on)), "must be annotated"),
        (lambda: _saga(other=step(within=5)(_going_on)), "within must be a positive timedelta"),  # pyright: ignore[reportArgumentType, reportCallIssue]
    ],
)
def test_each_mistake_is_told_in_one_line(declare: Callable[[], object], told: str) -> None:
    with pytest.raises(DefinitionError, match=told) as raised:
        declare()
    assert "\n" not in str(raised.value)


def test_a_saga_that_only_waits_has_no_code() -> None:
    only = definition_of(_class({"nap": sleep(DAY), "ask": wait_for(Approval, timeout=DAY)}))
    assert ([one.has_lane for one in only.steps], only.has_code, only.works_now) == ([False, False], False, True)
    assert definition_of(Asked).has_code


def test_one_wait_under_two_names_is_refused() -> None:
    wait = wait_for(Approval, timeout=DAY)
    with pytest.raises(DefinitionError, match="has a second name"):
        _saga(first=wait, second=wait)


def test_class_keywords() -> None:
    for keywords, told in (({"timeout": 5}, "timeout must be"), ({"result": "none"}, "is not the result of a step")):
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


def test_the_longest_is_a_year_of_365_days() -> None:
    waits = definition_of(_saga(wait=wait_for(Approval, timeout=365 * DAY), nap=sleep(365 * DAY))).steps[:2]
    assert [step.wait for step in waits] == [365 * 86_400.0] * 2
    with pytest.raises(DefinitionError, match=r"of at most 365 days"):
        _class({"end": step(_going_on)}, timeout=366 * DAY)
    with pytest.raises(DefinitionError, match=r"within must be .* 365 days"):
        _saga(other=step(within=366 * DAY)(_going_on))
    assert NotYet(400 * 86_400).after == 365 * 86_400.0


def test_a_sleep_is_undone_once_its_time_had_come() -> None:
    undone: list[str] = []

    class Napping(Saga[Order]):
        """Rings a bell when it has slept in vain."""

        cooling_off = sagas.sleep(DAY)

        @cooling_off.compensate
        def ring(self, request: Order, cooling_off: None) -> None:
            undone.append(request.item)

        @step
        def last(self) -> int:
            raise PermanentError("no")

    outcome = run(Napping, Order("x"))
    assert (outcome.status, outcome.steps["cooling_off"], undone) == ("COMPENSATED", "COMPENSATED", ["x"])

    class Woken(Napping, timeout=timedelta(hours=1)):
        """Is over before it has slept."""

    outcome = run(Woken, Order("y"))
    assert (outcome.status, undone) == ("COMPENSATED", ["x"])


_Amount = NewType("_Amount", int)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (list[Order], [Order("x")]),
        (dict[str, Order], {"a": Order("x")}),
        (tuple[int, ...], (1, 2)),
        (Literal["yes", "no"], "no"),
        (Optional[Order], None),  # noqa: UP045 -- both spellings
        (Order | None, Order("x")),
        (Annotated[int, "cents"], 3),
        (_Amount, 3),
        (Any, [1]),
    ],
)
def test_a_signal_may_be_of_any_type(type_: object, value: object) -> None:
    class Asking(Saga[Order]):
        answer = wait_for(type_, timeout=DAY)

        @wait_for(type_, timeout=DAY, on_timeout=Exhausted.CONTINUE)
        def again(self, answer: Any) -> None: ...

        @step
        def end(self, answer: Any, again: Any) -> bool:
            return answer == again

    assert run(Asking, Order("x"), signals={"answer": value, "again": value}).result is True


def _declared(name: str, value: object) -> type[Any]:
    return _saga(**{name: value})


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (lambda: step(timeout=3), r'"odd": step\(\.\.\.\) must decorate a method, but none follows'),
        (lambda: sagas.children(Asked), r'"odd": children\(\.\.\.\) must decorate a method, but none follows'),
        (lambda: step(_going_on).compensate(timeout=3), r'"odd": compensate\(\.\.\.\) must decorate a method'),
        (lambda: step(_going_on).compensate, "\"odd\": 'compensate' is missing its parentheses"),
        (lambda: step, "\"odd\": 'step' is missing its parentheses"),
        (lambda: sleep, "\"odd\": 'sleep' is missing its parentheses"),
        (lambda: wait_for, "\"odd\": 'wait_for' is missing its parentheses"),
        (lambda: sagas.children, "\"odd\": 'children' is missing its parentheses"),
    ],
)
def test_what_would_silently_declare_nothing_is_refused(value: Callable[[], object], told: str) -> None:
    with pytest.raises(DefinitionError, match=told) as raised:
        _declared("odd", value())
    assert "\n" not in str(raised.value)
    with pytest.raises(DefinitionError, match=told):  # also where the class is a base only
        types.new_class("Base", (_saga_of[T],), {}, lambda body: body.update(odd=value()))


def test_a_decorator_with_a_name_of_its_own_may_be_used() -> None:
    class Retrying(Saga[Order]):
        """Two steps with the same options."""

        quick = step(timeout=3)

        @quick
        def one(self) -> int:
            return 1

        @quick
        def two(self) -> int:
            return 2

    assert [one.timeout for one in definition_of(Retrying).steps] == [3.0, 3.0]
