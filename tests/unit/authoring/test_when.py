"""``when=``: a condition on which a step runs."""

from __future__ import annotations

import types
from datetime import timedelta
from typing import Any

import pytest

from sagas import Context, Saga, children, sleep, step, wait_for
from sagas.authoring.definition.definition import StepSource, definition_of
from sagas.errors import DefinitionError

DAY = timedelta(days=1)


def large(request: int) -> bool:
    return request > 500


def paid(pay: str, request: int) -> bool:
    return bool(pay) and large(request)


def without_annotation(request: int):  # no annotation
    return request


def as_text(request: int) -> str:
    return str(request)


async def awaited(request: int) -> bool:
    return large(request)


def with_context(request: int, ctx: Context) -> bool:
    return large(request) and ctx.attempt > 1


def of_instance(self: object, request: int) -> bool:
    return large(request)


def of_later(ship: str) -> bool:
    return bool(ship)


def saga_of(**members: Any) -> type[Saga[int]]:
    """A saga with a step before, ``members``, and no other."""

    def pay(self: Any, request: int) -> str:
        return "paid"

    return types.new_class("Trip", (Saga[int],), exec_body=lambda body: body.update(pay=step(pay), **members))


_LAMBDAS: list[Any] = [lambda request: True]  # pyright: ignore[reportUnknownLambdaType]


def _insure(self: Any, request: int) -> str:
    return "policy"


def _unsure(self: Any, request: int) -> bool | None:
    return None


def _send_surely(self: Any, insure: str) -> None: ...


def test_a_condition_is_a_function_or_an_earlier_result() -> None:
    class Trip(Saga[int]):
        @step
        def pay(self, request: int) -> str:
            return "paid"

        @step(result="fine")
        def check(self, request: int) -> bool:
            return True

        @step(when=paid)
        def insure(self) -> str:
            return "policy"

        @step(when=check)
        def send(self, insure: str | None) -> None: ...

    insure, send = definition_of(Trip).steps[2:]
    assert insure.when is not None
    assert send.when is not None
    assert (insure.when.name, [each.name for each in insure.when.parameters]) == ("paid()", ["pay", "request"])
    assert (send.when.name, [(each.source, each.step) for each in send.when.parameters]) == (
        "check",
        [(StepSource.RESULT, "check")],
    )
    assert (insure.when.function("x", 501), send.when.function(fine=True)) == (True, True)
    assert send.parameters[0].optional


def test_waits_sleeps_and_children_have_conditions() -> None:
    class Part(Saga[int]):
        @step
        def do(self, request: int) -> None: ...

    class Trip(Saga[int]):
        papers = wait_for(str, timeout=DAY, when=large)
        pause = sleep(DAY, when=large)

        @children(Part, when=large)
        def parts(self, request: int) -> list[int]:
            return [request]

    steps = definition_of(Trip).steps
    assert [each.when and each.when.name for each in steps] == ["large()"] * 3
    # A condition takes an attempt, and so a function.
    assert [(each.asks, each.has_attempts, each.has_lane) for each in steps[:2]] == [(False, True, True)] * 2


def test_an_undo_takes_none_from_a_step_that_can_be_skipped_and_its_own_as_it_is() -> None:
    class Trip(Saga[int]):
        @step(when=large)
        def insure(self, request: int) -> str:
            return "policy"

        @insure.compensate
        def cancel(self, insure: str) -> None: ...

        @step
        def send(self, request: int) -> str:
            return "sent"

        @send.compensate
        def call_back(self, insure: str | None) -> None: ...

    own, other = (each.undo for each in definition_of(Trip).steps)
    assert own is not None
    assert other is not None
    assert (own.parameters[0].optional, other.parameters[0].optional) == (False, True)


def test_a_parent_takes_none_from_a_child_whose_last_step_can_be_skipped() -> None:
    class Part(Saga[int]):
        @step(when=large)
        def do(self, request: int) -> str:
            return "done"

    class Trip(Saga[int]):
        @children(Part)
        def parts(self, request: int) -> list[int]:
            return [request]

    assert definition_of(Trip).steps[0].result_type == list[str | None]
    with pytest.raises(
        DefinitionError, match=r"which cannot hold the result of step \"parts\" of type list\[str | None"
    ):

        class Other(Trip):  # pyright: ignore[reportUnusedClass]
            @step
            def add(self, parts: list[str]) -> None: ...


_WHERE = r'^Trip \(saga "trip"\): step "insure": '


@pytest.mark.parametrize(
    ("members", "error"),
    [
        (
            {"insure": step(when=large, pivot=True)(_insure)},
            _WHERE + "a pivot cannot be skipped: the steps behind it have no undo$",
        ),
        ({"insure": step(when=awaited)(_insure)}, _WHERE + "when must be a plain function, not a coroutine$"),  # pyright: ignore[reportArgumentType, reportCallIssue]
        ({"insure": step(when=as_text)(_insure)}, _WHERE + 'when must be annotated "-> bool", not str$'),  # pyright: ignore[reportArgumentType, reportCallIssue]
        ({"insure": step(when=without_annotation)(_insure)}, _WHERE + 'when must be annotated "-> bool"$'),  # pyright: ignore[reportArgumentType]
        (
            {"insure": step(when=_LAMBDAS[0])(_insure)},
            _WHERE + "when is a lambda, which cannot have type annotations; write a function",
        ),
        (
            {"insure": step(when=with_context)(_insure)},
            _WHERE + 'when: parameter "ctx": a condition depends on the request and earlier results only$',
        ),
        (
            {"insure": step(when=of_instance)(_insure)},
            _WHERE + 'when: parameter "self": a condition depends on the request and earlier results only$',
        ),
        ({"insure": step(when=of_later)(_insure)}, _WHERE + 'when: parameter "ship" is unknown; expected one of'),
        ({"insure": step(when=True)(_insure)}, _WHERE + "when must be a plain function, or an earlier step, not True$"),  # pyright: ignore[reportArgumentType, reportCallIssue]
        (
            {"insure": step(when=bool)(_insure)},
            _WHERE + "when must be a plain function, or an earlier step, not <class",
        ),
        ({"insure": sleep(DAY, when=awaited)}, _WHERE + "when must be a plain function, not a coroutine$"),  # pyright: ignore[reportArgumentType, reportCallIssue]
        (
            {"checked": (checked := step(_unsure)), "insure": step(when=checked)(_insure)},
            _WHERE + r'when: step "checked" returns bool \| None, not bool$',
        ),
        (
            {"insure": step(when=step(_unsure))(_insure)},
            _WHERE + 'when: "_unsure" is not an earlier step$',
        ),
        (
            {"insure": step(when=large)(_insure), "send": step(_send_surely)},
            r'step "send": parameter "insure" must be annotated "... \| None": step "insure" can be skipped$',
        ),
    ],
)
def test_each_mistake_is_reported_when_the_class_is_created(members: dict[str, Any], error: str) -> None:
    with pytest.raises(DefinitionError, match=error) as raised:
        saga_of(**members)
    assert "\n" not in str(raised.value)


def test_a_step_that_can_be_skipped_is_no_condition() -> None:
    with pytest.raises(DefinitionError, match=r'when: step "check" returns bool \| None, not bool'):

        class Trip(Saga[int]):  # pyright: ignore[reportUnusedClass]
            @step(when=large)
            def check(self, request: int) -> bool:
                return True

            @step(when=check)
            def send(self) -> None: ...


def test_a_condition_may_be_a_wait_for_a_bool() -> None:
    class Trip(Saga[int]):
        consent = wait_for(bool, timeout=DAY)

        @step(when=consent)
        def send(self, request: int) -> None: ...

    condition = definition_of(Trip).step("send").when
    assert condition is not None
    assert condition.name == "consent"
