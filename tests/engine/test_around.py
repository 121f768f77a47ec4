"""``Saga.around`` surrounds the code of each attempt: within its timeout, and its error is the attempt's."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from sagas import Context, NotYet, Retry, Saga, children, sleep, step, wait_for
from sagas.engine.attempt import call
from tests.support.bench import Bench, Make
from tests.support.sagas import FAIL, LOG, ONCE, Order, Parcel, perform

pytestmark = pytest.mark.usefixtures("clean")
T = TypeVar("T")
TWICE = Retry.constant(max_retries=1, delay=0.0)
STEP: ContextVar[str] = ContextVar("step", default="")
SPEND: dict[str, float] = {}
"""Seconds by place: the clock of the test moves on by as many there."""
BENCHES: list[Bench] = []


@pytest.fixture(autouse=True)
def _spend_nothing() -> Iterator[None]:
    yield
    SPEND.clear()
    BENCHES.clear()


def passing(place: str) -> None:
    """Note a place, and fail there or spend time as the test says."""
    if place in SPEND:
        BENCHES[-1].clock.advance(SPEND[place])
    perform(place)


class Surrounded(Saga[T]):
    """A base that notes what is within its ``around``."""

    place = ""

    @contextmanager
    def around(self, ctx: Context) -> Generator[None]:
        self.place = ctx.step if ctx.idempotency_key == ctx.forward_key else f"undo {ctx.step}"
        STEP.set(self.place)
        passing(f"before {self.place}")
        try:
            yield
        except BaseException as error:
            LOG.append(f"{type(error).__name__} leaves {self.place}")
            raise
        finally:
            passing(f"behind {self.place}")

    def do(self, name: str) -> str:
        LOG.append(f"{name} within {STEP.get()} of {self.place}")
        passing(name)
        return name


class Small(Surrounded[Parcel], name="small"):
    @step
    def carry(self) -> str:
        return self.do("carry")


def dawn(request: Order) -> datetime:
    LOG.append(f"until within {STEP.get()}")
    return datetime(2020, 1, 1, tzinfo=UTC)


class Every(Surrounded[Order], name="every"):
    """Each kind of code."""

    @step(retry=TWICE, timeout=10)
    def pay(self) -> str:
        return self.do("pay")

    @pay.compensate(retry=TWICE)
    def refund(self, pay: str) -> None:
        self.do("refund")

    @step(retry=TWICE, timeout=10)
    async def book(self) -> str:
        return self.do("book")

    @wait_for(str, timeout=timedelta(days=1))
    def answer(self, ctx: Context) -> None:
        self.do("ask")
        ctx.signal("yes")

    pause = sleep(until=dawn)

    @children(Small)
    def carried(self) -> list[Parcel]:
        LOG.append(f"requests within {STEP.get()}")
        return [Parcel(1)]

    @step(retry=ONCE)
    def ship(self, request: Order) -> None:
        if request.item == "nowhere":
            raise OSError("no such address")


def started(bench: Make, kind: type[Saga[Any]], *children: type[Saga[Any]], item: str = "ada") -> tuple[Bench, str]:
    b = bench(kind, *children)
    BENCHES.append(b)
    saga_id = b.start(kind.__name__.lower(), {"item": item})
    b.run()
    return b, saga_id


def test_it_surrounds_steps_undos_and_methods_of_waits_only(bench: Make) -> None:
    b, saga_id = started(bench, Every, Small, item="nowhere")
    assert b.status(saga_id) == "COMPENSATED"
    for name, code in (("pay", "pay"), ("book", "book"), ("answer", "ask"), ("carry", "carry"), ("undo pay", "refund")):
        at = LOG.index(f"{code} within {name} of {name}")
        assert (LOG[at - 1], LOG[at + 2]) == (f"before {name}", f"behind {name}")
    assert [line for line in LOG if line.startswith(("until", "requests"))] == ["until within ", "requests within "]
    assert not [line for line in LOG if line.endswith((" pause", " carried"))]
    assert "OSError leaves ship" in LOG


def test_a_saga_that_has_ended_left_it_once_per_attempt(bench: Make) -> None:
    FAIL["pay"] = 1
    b, saga_id = started(bench, Every, Small)
    assert b.status(saga_id) == "COMPLETED"
    assert (LOG.count("before pay"), LOG.count("behind pay"), LOG.count("RuntimeError leaves pay")) == (2, 2, 1)


@pytest.mark.parametrize("place", ["before pay", "behind pay"])
def test_an_error_of_its_own_is_the_attempts(place: str, bench: Make) -> None:
    FAIL[place] = 1
    b, saga_id = started(bench, Every, Small)
    assert b.status(saga_id) == "COMPLETED"
    failed = b.entry(saga_id, "StepFailed")["details"]
    assert failed["error"]["type"] == "RuntimeError"
    assert failed["stack_trace"].splitlines()[1].strip().startswith(f'File "{__file__}"')
    assert LOG.count("before pay") == 2


def test_an_error_behind_the_code_leaves_doubt_as_one_of_the_code(bench: Make) -> None:
    FAIL["behind pay"] = TimeoutError("the commit was not answered")
    b, saga_id = started(bench, Every, Small)
    assert (b.status(saga_id), b.show(saga_id)["in_doubt"]) == ("COMPENSATED", ["pay"])


def test_an_error_behind_an_undo_repeats_the_undo(bench: Make) -> None:
    FAIL["behind undo pay"] = 1
    b, saga_id = started(bench, Every, Small, item="nowhere")
    assert (b.status(saga_id), LOG.count("refund")) == ("COMPENSATED", 2)


@pytest.mark.parametrize("place", ["before pay", "behind pay", "before book", "behind book"])
def test_its_time_is_the_attempts(place: str, bench: Make) -> None:
    SPEND[place] = 11
    b, saga_id = started(bench, Every, Small)
    assert (b.status(saga_id), b.show(saga_id)["in_doubt"]) == ("COMPENSATED", [place.split()[1]])
    failed = b.entry(saga_id, "StepFailed")["details"]["error"]
    assert (failed["type"], "1.0 s after its timeout of 10 s" in failed["message"]) == ("TimedOut", True)


def test_a_coroutine_and_what_is_behind_it_share_the_time(bench: Make) -> None:
    SPEND.update({"book": 6, "behind book": 6})
    b, saga_id = started(bench, Every, Small)
    failed = b.entry(saga_id, "StepFailed")["details"]["error"]
    assert (failed["type"], "2.0 s after its timeout of 10 s" in failed["message"]) == ("TimedOut", True)


class Lingering(Surrounded[Order], name="lingering"):
    """Leaves a task behind, which takes its time to end."""

    @step(retry=ONCE, timeout=10)
    async def pay(self) -> str:
        self.left = asyncio.ensure_future(self.stay())
        await asyncio.sleep(0)
        return self.do("pay")

    async def stay(self) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            passing("task ends")


def test_tasks_that_the_code_left_behind_do_not_take_its_time(bench: Make) -> None:
    SPEND.update({"pay": 5, "task ends": 20, "behind pay": 4})
    b, saga_id = started(bench, Lingering)
    assert (b.status(saga_id), LOG[-2:]) == ("COMPLETED", ["task ends", "behind pay"])


def test_not_yet_passes_through_it(bench: Make) -> None:
    FAIL["pay"] = NotYet(60)
    b, saga_id = started(bench, Every, Small)
    assert "NotYet leaves pay" in LOG
    assert (b.status(saga_id), b.actions(saga_id)[-1]) == ("WAITING", "StepPostponed")


def test_it_may_postpone_the_step_itself(bench: Make) -> None:
    FAIL["before pay"] = NotYet(60)
    b, saga_id = started(bench, Every, Small)
    assert (b.status(saga_id), "pay within pay" in LOG) == ("WAITING", False)


class Swallowing(Saga[Order], name="swallowing"):
    """Its ``around`` ends with whatever the code raised."""

    @contextmanager
    def around(self, ctx: Context) -> Generator[None]:
        with suppress(BaseException):
            yield

    @step(retry=TWICE)
    def pay(self) -> None:
        perform("pay")

    @pay.compensate(retry=TWICE)
    def refund(self) -> None:
        perform("refund")

    @step(retry=ONCE)
    async def ship(self, request: Order) -> None:
        perform("ship")


@pytest.mark.parametrize("raised", [OSError("down"), SystemExit(1), NotYet(60), GeneratorExit()])
@pytest.mark.parametrize("name", ["pay", "ship"])
def test_a_swallowed_exception_fails_the_attempt_for_good(name: str, raised: BaseException, bench: Make) -> None:
    FAIL[name] = raised
    b, saga_id = started(bench, Swallowing)
    assert (b.status(saga_id), b.show(saga_id)["in_doubt"], LOG.count(name)) == ("COMPENSATED", [name], 1)
    failed = b.entry(saga_id, "StepFailed")["details"]
    assert failed["error"] == {"type": "WrongResult", "message": "around must not swallow an exception"}
    assert f"{type(raised).__name__}" in failed["stack_trace"]


def test_a_swallowed_exception_fails_an_undo(bench: Make) -> None:
    FAIL.update({"refund": OSError("down"), "ship": OSError("down")})
    b, saga_id = started(bench, Swallowing)
    assert (b.status(saga_id), LOG.count("refund")) == ("COMPENSATION_FAILED", 1)
    assert b.entry(saga_id, "CompensationFailed")["details"]["error"]["type"] == "WrongResult"


class Undecorated(Saga[Order], name="undecorated"):
    """Its ``around`` is hidden by a decorator, so only a call shows that it is not a context manager."""

    def around(self, ctx: Context) -> Any:
        return iter([None])

    @step(retry=ONCE)
    def pay(self) -> None:
        perform("pay")


def test_what_is_not_a_context_manager_fails_the_attempt(bench: Make) -> None:
    b, saga_id = started(bench, Undecorated)
    assert (b.status(saga_id), LOG) == ("COMPENSATED", [])
    assert "context manager" in b.entry(saga_id, "StepFailed")["details"]["error"]["message"]


class Nested(Every, name="nested"):
    """Adds to the ``around`` of its base."""

    @contextmanager
    def around(self, ctx: Context) -> Generator[None]:
        with super().around(ctx):
            LOG.append("inner")
            yield


def test_classes_nest(bench: Make) -> None:
    b, saga_id = started(bench, Nested, Small)
    assert b.status(saga_id) == "COMPLETED"
    at = LOG.index("inner")
    assert (LOG[at - 1], LOG[at + 1], LOG[at + 3]) == ("before pay", "pay within pay of pay", "behind pay")


def test_code_that_is_not_called_is_not_surrounded(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*arguments: Any) -> Any:
        raise TypeError("create() is broken")

    monkeypatch.setattr(call, "new_instance", lost)
    b, saga_id = started(bench, Every, Small)
    assert (b.status(saga_id), LOG) == ("COMPENSATED", [])


def test_a_step_that_is_called_as_a_function_is_not_surrounded() -> None:
    assert Every().do("x") == "x" == LOG[-1]
    LOG.clear()
    assert Every().pay() == "pay"
    assert LOG == ["pay within  of ", "pay"]


def asked(request: Order) -> bool:
    LOG.append(f"asked within {STEP.get()}")
    return request.item == "ada"


class Conditional(Surrounded[Order], name="conditional"):
    """Its second step has a condition, which both attempts may ask."""

    @step(when=asked)
    def pay(self) -> str:
        return self.do("pay")

    @step(when=asked)
    def book(self) -> str:
        return self.do("book")

    pause = sleep(until=dawn, when=asked)

    @step
    def end(self) -> None: ...


@pytest.mark.parametrize("item", ["ada", "bob"])
def test_a_condition_is_asked_outside(item: str, bench: Make) -> None:
    b, saga_id = started(bench, Conditional, item=item)
    assert b.status(saga_id) == "COMPLETED"
    assert {line for line in LOG if line.startswith("asked")} == {"asked within "}
    for name in ("pay", "book"):
        assert (f"before {name}" in LOG) == (f"behind {name}" in LOG) == (item == "ada")
