"""State that one step keeps on ``self`` for another: refused where that is certain, else named when it is missed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import pytest

from sagas import DefinitionError, Saga, step
from sagas.authoring.definition.definition import definition_of
from sagas.testing import run
from tests.support.sagas import ONCE, Order

Make = Callable[[], type[Any]]
ADVICE = "executions do not share an instance; return the value as a result and take it as a parameter"
# pyright: reportUninitializedInstanceVariable=false


R = TypeVar("R")


class Keeping(Saga[R]):
    """One step keeps on its instance what the other reads. With its type variable open it is a base only."""

    @step
    def first(self) -> None:
        self.token = "t"

    @step(retry=ONCE)
    def second(self) -> str:
        return self.token


# ---- refused


def plain() -> type[Any]:
    class Trip(Saga[Order], name="trip"):
        @step
        def first(self) -> None:
            self.token = "t"

        @step
        async def second(self) -> str:
            return self.token

    return Trip


def inherited() -> type[Any]:
    class Trip(Keeping[Order], name="trip"):
        pass

    return Trip


def beside_a_client() -> type[Any]:
    class Trip(Saga[Order], name="trip"):
        rate = 3

        def __init__(self, client: str) -> None:
            super().__init__()
            self.client = client

        @classmethod
        def create(cls) -> Trip:
            client = "http"
            return cls(client)

        def greeting(self) -> str:
            return f"hello {self.client}"

        @step
        def first(self) -> None:
            self.token: str | None = self.greeting() if self.rate else None

        @step
        def second(self) -> str | None:
            return f"{self.client.upper()} {self.token}" if self.token else None

    return Trip


@pytest.mark.parametrize("make", [plain, inherited, beside_a_client])
def test_it_is_refused(make: Make) -> None:
    told = f'Trip (saga "trip"): step "second" reads self.token, which is set only by step "first"; {ADVICE}'
    with pytest.raises(DefinitionError) as refused:
        make()
    assert str(refused.value) == told


def test_an_undo_that_reads_it_is_refused_too() -> None:
    with pytest.raises(DefinitionError, match=r'compensation "undo" reads self.token, which is set only by step "fi'):

        class Trip(Saga[Order], name="trip"):  # pyright: ignore[reportUnusedClass]
            @step
            def first(self) -> None:
                self.token = "t"

            @first.compensate
            def undo(self) -> None:
                print(self.token)


def test_all_that_set_it_are_named() -> None:
    with pytest.raises(DefinitionError, match=r'set only by step "first" and step "second"; '):

        class Trip(Saga[Order], name="trip"):  # pyright: ignore[reportUnusedClass]
            @step
            def first(self) -> None:
                self.token = "t"

            @step
            def second(self) -> None:
                self.token = "u"

            @step
            def third(self) -> str:
                return self.token


# ---- not refused


class Token:
    """A mixin that sets it."""

    token: str

    def __init__(self) -> None:
        self.token = ""


def traced(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*given: Any, **named: Any) -> Any:
        return function(*given, **named)

    return wrapper


def configure(instance: Any) -> None:
    instance.token = "configured"


def set_in_the_body() -> type[Any]:
    class Trip(Keeping[Order]):
        token = ""

    return Trip


def a_field() -> type[Any]:
    @dataclass
    class Trip(Keeping[Order]):
        token: str = field(default="")

    return Trip


def set_by_init() -> type[Any]:
    class Trip(Keeping[Order]):
        def __init__(self) -> None:
            self.token = ""

    return Trip


def set_by_a_mixin() -> type[Any]:
    class Trip(Token, Keeping[Order]):
        pass

    return Trip


def set_by_create() -> type[Any]:
    class Trip(Keeping[Order]):
        @classmethod
        def create(cls) -> Trip:
            trip = cls()
            trip.token = "configured"
            return trip

    return Trip


def set_by_what_create_calls() -> type[Any]:
    class Trip(Keeping[Order]):
        @classmethod
        def create(cls) -> Trip:
            trip = cls()
            configure(trip)
            return trip

    return Trip


def set_by_what_init_calls() -> type[Any]:
    class Trip(Keeping[Order]):
        def __init__(self) -> None:
            configure(self)

    return Trip


def set_by_what_a_method_calls() -> type[Any]:
    class Trip(Keeping[Order]):
        def __init__(self) -> None:
            self.prepare()

        def prepare(self) -> None:
            configure(self)

    return Trip


def set_by_name() -> type[Any]:
    class Trip(Keeping[Order]):
        def __init__(self) -> None:
            for name in ("token", "other"):
                object.__setattr__(self, name, "")

    return Trip


def computed() -> type[Any]:
    class Trip(Keeping[Order]):
        def __getattr__(self, name: str) -> str:
            return name

    return Trip


def set_by_the_reader() -> type[Any]:
    class Trip(Keeping[Order]):
        @step
        def second(self) -> str:
            self.token = "u"
            return self.token

    return Trip


def set_by_what_the_reader_calls() -> type[Any]:
    class Trip(Keeping[Order]):
        @step
        def second(self) -> str:
            self.first()
            return self.token

    return Trip


def set_by_a_function_of_the_reader() -> type[Any]:
    class Trip(Keeping[Order]):
        @step
        def second(self) -> str:
            configure(self)
            return self.token

    return Trip


def asked_for() -> type[Any]:
    class Trip(Keeping[Order]):
        @step
        def second(self) -> str:
            return self.token if hasattr(self, "token") else "none"

    return Trip


def caught() -> type[Any]:
    class Trip(Keeping[Order]):
        @step
        def second(self) -> str:
            try:
                return self.token
            except AttributeError:
                return "none"

    return Trip


def suppressed() -> type[Any]:
    class Trip(Keeping[Order]):
        @step
        def second(self) -> str:
            with suppress(AttributeError):
                return self.token
            return "none"

    return Trip


def guarded_by_another() -> type[Any]:
    class Trip(Keeping[Order]):
        warm = False

        @step
        def first(self) -> None:
            self.token, self.warm = "t", True

        @step
        def second(self) -> str:
            warm = self.warm
            return self.token if warm else "none"

    return Trip


def guarded_by_what_it_holds() -> type[Any]:
    class Trip(Keeping[Order]):
        seen: ClassVar[list[str]] = []

        @step
        def second(self) -> str:
            return self.token if self.seen else "none"

    return Trip


def of_another_self() -> type[Any]:
    class Trip(Keeping[Order]):
        @step
        def second(self) -> str:
            class Inner:
                token = "u"

                def read(self) -> str:
                    return self.token

            return Inner().read()

    return Trip


@pytest.mark.parametrize(
    "make",
    [
        set_in_the_body,
        a_field,
        set_by_init,
        set_by_a_mixin,
        set_by_create,
        set_by_what_create_calls,
        set_by_what_init_calls,
        set_by_what_a_method_calls,
        set_by_name,
        set_by_the_reader,
        set_by_what_the_reader_calls,
        set_by_a_function_of_the_reader,
        asked_for,
        caught,
        suppressed,
        guarded_by_another,
        guarded_by_what_it_holds,
        of_another_self,
        computed,
    ],
)
def test_what_works_is_not_refused(make: Make) -> None:
    assert run(make(), Order("x")).status == "COMPLETED"


# ---- named when it is missed


def through_a_helper() -> type[Any]:
    class Trip(Saga[Order], name="trip"):
        def remember(self, token: str) -> None:
            self.token = token

        @step
        def first(self) -> None:
            self.remember("t")

        @step(retry=ONCE)
        def second(self) -> str:
            return self.token

    return Trip


def behind_a_decorator() -> type[Any]:
    class Trip(Saga[Order], name="trip"):
        @step
        @traced
        def first(self) -> None:
            self.token = "t"

        @step(retry=ONCE)
        @traced
        def second(self) -> str:
            return self.token

    return Trip


@pytest.mark.parametrize(
    ("make", "setter"), [(through_a_helper, 'method "remember"'), (behind_a_decorator, 'step "first"')]
)
def test_what_is_not_seen_is_named_in_the_trace(make: Make, setter: str) -> None:
    outcome = run(make(), Order("x"))
    assert outcome.error is not None
    assert (outcome.error.step, outcome.error.type) == ("second", "AttributeError")
    trace = next(one.details["stack_trace"] for one in outcome.audit if one.action == "StepFailed")
    reason = f'Trip (saga "trip"): step "second" reads self.token, which is set only by {setter}; {ADVICE}'
    assert trace.splitlines()[-1] == reason
    assert reason in repr(outcome)


def test_a_mistyped_name_has_no_note() -> None:
    class Trip(Saga[Order]):
        @step(retry=ONCE)
        def first(self) -> None:
            print(self.tokne)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]

    trace = next(one.details["stack_trace"] for one in run(Trip, Order("x")).audit if one.action == "StepFailed")
    assert trace.splitlines()[-1] == "AttributeError: 'Trip' object has no attribute 'tokne'"


def test_without_its_source_nothing_is_refused() -> None:
    made: dict[str, Any] = {"Saga": Saga, "Order": Order, "step": step}
    source = (
        "class Trip(Saga[Order]):\n"
        "    @step\n    def first(self) -> None:\n        self.token = 't'\n"
        "    @step\n    def second(self) -> str:\n        return self.token\n"
    )
    exec(source, made)  # noqa: S102 - code that is in no file
    assert [one.name for one in definition_of(made["Trip"]).steps] == ["first", "second"]
