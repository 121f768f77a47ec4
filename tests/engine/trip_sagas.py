"""The sagas whose trips are counted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from types import new_class
from typing import Any

from sagas import AutoDisable, CircuitBreaker, Context, Exhausted, Retry, Saga, children, sleep, step, wait_for
from tests.support.sagas import Order, Trip, act

YEAR = 364 * 86_400.0
FEW, MANY = 8, 1_000
NAMES = ("reserve", "charge", "label", "pack", "load", "ship", "invoice", "book", "notify", "close")


class Plain(Saga[Order], name="plain"):
    """Waits for nothing."""

    @step
    def begin(self, request: Order, ctx: Context) -> str:
        return request.item

    @step
    def end(self, begin: str, ctx: Context) -> str:
        return begin


class Asked(Saga[Order], name="asked"):
    """Waits for a year at most."""

    begin = Plain.begin
    word = wait_for(str, timeout=timedelta(seconds=YEAR), on_timeout=Exhausted.CONTINUE)
    end = Plain.end


class Hurried(Saga[Order], name="hurried"):
    """Waits for ten minutes at most."""

    begin = Plain.begin
    word = wait_for(str, timeout=timedelta(minutes=10), on_timeout=Exhausted.CONTINUE)
    end = Plain.end


class Nap(Saga[Order], name="nap"):
    """Sleeps for ten minutes."""

    begin = Plain.begin
    rest = sleep(timedelta(minutes=10))
    end = Plain.end


class Winter(Saga[Order], name="winter"):
    """Sleeps for a year."""

    begin = Plain.begin
    rest = sleep(timedelta(seconds=YEAR))
    end = Plain.end


def dear(begin: str) -> bool:
    return len(begin) > 100


def many(request: Order) -> bool:
    return request.count > 1


class Insured(Saga[Order], name="insured"):
    """The step in the middle is skipped."""

    begin = Plain.begin

    @step(when=dear)
    def insure(self, begin: str) -> str:
        return "insured"

    end = Plain.end


class Gifted(Saga[Order], name="gifted"):
    """The first step is skipped."""

    @step(when=many)
    def wrap(self) -> str:
        return "wrapped"

    begin = Plain.begin
    end = Plain.end


class Flaky(Saga[Order], name="flaky"):
    """Its first step is tried again after a minute."""

    @step(retry=Retry.constant(max_retries=1, delay=60.0))
    def begin(self, request: Order, ctx: Context) -> str:
        if ctx.attempt == 1:
            raise RuntimeError("not yet")
        return request.item

    end = Plain.end


def _ten() -> type[Any]:
    members: dict[str, Any] = {"__module__": __name__, "__qualname__": "Ten", "__doc__": "Ten small steps."}
    for name in NAMES:

        def run(self: Any, request: Order) -> str:
            return request.item

        run.__name__ = run.__qualname__ = name
        members[name] = step(run)
    return new_class("Ten", (Saga[Order],), {"name": "ten"}, lambda body: body.update(members))


Ten = _ten()


def large(letter: str) -> str:
    """What a step of :class:`Reports` returns."""
    return letter * 50_000


class Reports(Saga[Order], name="reports"):
    """Ten steps, each taking what the one before returned: 50 KB."""

    @step
    def check_sources(self, request: Order) -> str:
        return large("a")

    @step
    def fetch_sources(self, check_sources: str) -> str:
        return _next("a", check_sources)

    @step
    def reserve_space(self, fetch_sources: str) -> str:
        return _next("b", fetch_sources)

    @step
    def render_tables(self, reserve_space: str) -> str:
        return _next("c", reserve_space)

    @step
    def render_charts(self, render_tables: str) -> str:
        return _next("d", render_tables)

    @step
    def assemble_parts(self, render_charts: str) -> str:
        return _next("e", render_charts)

    @step
    def sign_document(self, assemble_parts: str) -> str:
        return _next("f", assemble_parts)

    @step
    def store_document(self, sign_document: str) -> str:
        return _next("g", sign_document)

    @step
    def charge_account(self, store_document: str, check_sources: str) -> str:
        assert check_sources == large("a")
        return _next("h", store_document)

    @step
    def send_mail(self, charge_account: str, ctx: Context) -> None:
        assert charge_account == large("i")


def _next(letter: str, came: str) -> str:
    assert came == large(letter)
    return large(chr(ord(letter) + 1))


@dataclass(frozen=True)
class Leg:
    """One of many."""

    number: int


@dataclass(frozen=True)
class Tour:
    """So many legs."""

    legs: int


class Travel(Saga[Leg], name="travel"):
    """Three steps."""

    @step
    def a(self, request: Leg, ctx: Context) -> str:
        return str(request.number)

    @step
    def b(self, a: str, ctx: Context) -> str:
        return a

    @step
    def c(self, b: str, ctx: Context) -> str:
        return b


class Few(Saga[Tour], name="few"):
    """Eight at a time: places are filled again two by two, which costs more looks than the default does."""

    @children(Travel, concurrency=FEW)
    def legs(self, request: Tour, ctx: Context) -> list[Leg]:
        return [Leg(number) for number in range(request.legs)]


class AtOnce(Saga[Tour], name="at-once"):
    """All of them at a time."""

    @children(Travel, concurrency=MANY)
    def legs(self, request: Tour, ctx: Context) -> list[Leg]:
        return [Leg(number) for number in range(request.legs)]


def _made(name: str) -> Any:
    def run(self: Any, request: Order, ctx: Context) -> str:
        act(name, ctx)
        return name

    def undo(self: Any, ctx: Context) -> None:
        act(f"undo_{name}", ctx)

    run.__name__ = run.__qualname__ = name
    undo.__name__ = undo.__qualname__ = f"undo_{name}"
    made = step(
        retry=Retry.constant(max_retries=3, delay=4.0, on_exhausted=Exhausted.DEAD_LETTER),
        circuit_breaker=CircuitBreaker(failure_threshold=9),
    )(run)
    return made, made.compensate(undo)


def _largest() -> type[Any]:
    members: dict[str, Any] = {"__module__": __name__, "__qualname__": "Largest", "__doc__": "Every option."}
    for name in NAMES:
        members[name], members[f"undo_{name}"] = _made(name)
    options: dict[str, Any] = {
        "name": "order",
        "version": "1",
        "lock_expiry": timedelta(minutes=5),
        "auto_disable": AutoDisable(threshold=100),
    }
    return new_class("Largest", (Saga[Order],), options, lambda body: body.update(members))


LARGEST = _largest()
"""Ten steps with undos and short names: the largest saga that makes sense."""
CORRELATION = "c" * 128


class NextTrip(Trip, name="trip", version="2"):
    """The next release."""
