"""Unusual code by authors: exceptions that have no text, and undos that return what has not run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from sagas import Context, Rejected, Retry, Saga, step
from sagas.testing import run
from tests.engine.acting import ACT, act, failures
from tests.support.bench import Make
from tests.support.sagas import LOG, Order

pytestmark = pytest.mark.usefixtures("clean", "acting")


class Declined(Rejected):
    """Its text is in what was never set."""

    answer: dict[str, str]

    def __str__(self) -> str:
        return self.answer["message"]

    __repr__ = __str__


class Wordless(Exception):
    """Its text is none."""

    def __str__(self) -> str:
        return None  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


class Paid(Saga[Order], name="paid"):
    """Two attempts for each way."""

    @step(retry=Retry.constant(max_retries=1, delay=0), timeout=5)
    def pay(self, ctx: Context) -> str:
        act(ctx, "pay")
        return "paid"

    @pay.compensate
    def refund(self, pay: str, ctx: Context) -> None:
        act(ctx, "refund")

    @step(retry=Retry.constant(max_retries=0, delay=0))
    def ship(self, ctx: Context) -> None:
        raise Rejected("no such address")


def raises(error: BaseException) -> Callable[[Context], None]:
    def raising(ctx: Context) -> None:
        raise error

    return raising


# ---- exceptions without a text


def test_a_rejection_without_a_text_is_a_rejection(deployed: Make) -> None:
    b = deployed(Paid)
    ACT.append(raises(Declined()))
    saga_id = b.start("paid")
    b.run()
    assert LOG == ["pay:1"]
    assert b.actions(saga_id) == ["SagaStarted", "StepFailed", "CompensationStarted"]
    error = {"type": "Declined", "message": "no text: its __str__ raised AttributeError"}
    details = b.entry(saga_id, "StepFailed")["details"]
    assert details["error"] == error
    assert "in raising" in details["stack_trace"]
    assert (b.status(saga_id), b.show(saga_id)["in_doubt"]) == ("COMPENSATED", [])


def test_a_failure_without_a_text_is_retried(deployed: Make) -> None:
    b = deployed(Paid)
    ACT.append(raises(Wordless()))
    saga_id = b.start("paid")
    b.run()
    assert LOG == ["pay:1", "pay:2", "refund:1"]
    assert failures(b, saga_id) == ["Wordless", "Rejected"]


def test_one_that_comes_late_has_timed_out(bench: Make) -> None:
    b = bench(Paid)

    def late(ctx: Context) -> None:
        b.clock.advance(6)
        raise Wordless

    ACT.append(late)
    saga_id = b.start("paid")
    b.run()
    message = b.entry(saga_id, "StepFailed")["details"]["error"]["message"]
    assert message.endswith("it raised Wordless: no text: its __str__ raised TypeError")
    assert LOG == ["pay:1", "pay:2", "refund:1"]


def test_an_undo_that_raises_one_is_repeated(bench: Make) -> None:
    b = bench(Paid)
    ACT.extend([lambda ctx: None, raises(Wordless())])
    saga_id = b.start("paid")
    b.run()
    assert LOG == ["pay:1", "refund:1", "refund:2"]
    assert b.entry(saga_id, "CompensationAttemptFailed")["details"]["error"]["type"] == "Wordless"
    assert b.status(saga_id) == "COMPENSATED"


@pytest.mark.parametrize(("error", "attempts"), [(Declined(), 1), (Wordless(), 2)])
def test_in_process_it_is_an_ordinary_failure_too(error: Any, attempts: int) -> None:
    outcome = run(Paid, Order("x"), fail={"pay": error})
    assert outcome.status == "COMPENSATED"
    assert [entry.action for entry in outcome.audit].count("StepFailed") == attempts
    assert outcome.error is not None
    assert outcome.error.message.startswith("no text: ")


def test_a_create_that_raises_one_is_named() -> None:
    class Unset(Paid, name="unset"):
        @classmethod
        def create(cls) -> Unset:
            raise Wordless

    with pytest.raises(Exception, match=r"Unset.create\(\) raised Wordless: no text"):
        run(Unset, Order("x"))


# ---- what an undo returns


class Undone(Saga[Order], name="undone"):
    """Its undo returns what the test says."""

    returned: Any = None

    @step
    def pay(self) -> str:
        return "paid"

    @pay.compensate
    def refund(self) -> Any:
        return type(self).returned() if callable(type(self).returned) else type(self).returned

    @step(retry=Retry.constant(max_retries=0, delay=0))
    def ship(self) -> None:
        raise Rejected("no such address")


async def _refund() -> None:
    LOG.append("refunded")


def _generator() -> Any:
    LOG.append("refunded")
    yield


async def _async_generator() -> Any:
    LOG.append("refunded")
    yield


def _cycle() -> Any:
    each: list[Any] = [1]
    each.append(each)
    return each


def _future(**ended: Any) -> Any:
    future = Future[None]()
    for how, value in ended.items():
        getattr(future, f"set_{how}")(value)
    return future


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
@pytest.mark.parametrize(
    ("returned", "kind"),
    [
        (_generator, "generator"),
        (_async_generator, "async_generator"),
        (lambda: [_refund(), _refund()], "coroutine"),
        (lambda: {"all": ({"one": _refund()},)}, "coroutine"),
        (lambda: map(LOG.append, ["refunded"]), "map"),
        (_future, "Future"),
        (lambda: [_future(exception=OSError("no"))], "Future"),
    ],
)
def test_an_undo_that_returns_what_has_not_run_has_failed(bench: Make, returned: Any, kind: str) -> None:
    class Lazy(Undone, name="lazy"):
        pass

    Lazy.returned = staticmethod(returned)
    b = bench(Lazy)
    saga_id = b.start("lazy")
    b.run()
    told = f"returned a {kind} that has not run; it must have done its work when it returns"
    error = b.entry(saga_id, "CompensationFailed")["details"]["error"]
    assert error == {"type": "WrongResult", "message": f"compensation 'refund' {told}"}
    assert (b.status(saga_id), LOG) == ("COMPENSATION_FAILED", [])
    assert b.state(saga_id).attention
    assert "StepCompensated" not in b.actions(saga_id)


@pytest.mark.parametrize("returned", ["done", {"deleted": [1, 2]}, _cycle, lambda: [_future(result=1)], _refund])
def test_an_undo_that_does_not_declare_none_may_return_what_is_done(bench: Make, returned: Any) -> None:
    class Eager(Undone, name="eager"):
        pass

    Eager.returned = staticmethod(returned) if callable(returned) else returned
    b = bench(Eager)
    saga_id = b.start("eager")
    b.run()
    assert b.status(saga_id) == "COMPENSATED"


def test_an_undo_that_declares_none_returns_none(bench: Make) -> None:
    class Chatty(Undone, name="chatty"):
        @Undone.pay.compensate
        async def refund(self) -> None:
            await asyncio.sleep(0)
            return LOG  # type: ignore[return-value]  # pyright: ignore[reportReturnType]

    b = bench(Chatty)
    saga_id = b.start("chatty")
    b.run()
    error = b.entry(saga_id, "CompensationFailed")["details"]["error"]
    assert error == {"type": "WrongResult", "message": "compensation 'refund' returned list, but declares None"}


def test_the_undo_runs_again_once_it_is_fixed(bench: Make) -> None:
    class Fixed(Undone, name="fixed"):
        pass

    Fixed.returned = staticmethod(_generator)
    b = bench(Fixed)
    saga_id = b.start("fixed")
    b.run()
    Fixed.returned = None
    b.engine.operations.retry("fixed", saga_id, "fixed", "ada")
    b.run()
    assert b.status(saga_id) == "COMPENSATED"


# ---- results that cannot be read


class Unreadable(list[str]):
    """What is in it has to be fetched, and cannot."""

    def __iter__(self) -> Iterator[str]:
        raise ConnectionError("the cursor is closed")


class Fetched(Saga[Order], name="fetched"):
    """Returns what raises once it is encoded."""

    @step(retry=Retry.constant(max_retries=2, delay=0))
    def fetch(self, ctx: Context) -> list[str]:
        LOG.append(f"fetch:{ctx.attempt}")
        return Unreadable(["a"])

    @fetch.compensate
    def drop(self, fetch: list[str]) -> None:
        raise AssertionError("it never completed")


def test_a_result_that_raises_when_it_is_read_is_a_wrong_result(bench: Make) -> None:
    b = bench(Fetched)
    saga_id = b.start("fetched")
    b.run()
    shown = b.show(saga_id)
    assert LOG == ["fetch:1"]
    assert shown["error"]["type"] == "WrongResult"
    told = "the result of step 'fetch' cannot be read: ConnectionError: the cursor is closed"
    assert shown["error"]["message"] == told
    assert (shown["status"], shown["in_doubt"]) == ("COMPENSATED", ["fetch"])
