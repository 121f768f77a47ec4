# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""What authors may write: every line must pass a strict checker."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, assert_type

from sagas import CircuitBreaker, Context, Exhausted, NotYet, Retry, Saga, SagaClient, children, sleep, step, wait_for
from sagas.authoring.definition.definition import SagaDefinition, definition_of
from sagas.authoring.steps import Step
from sagas.testing import FakeContext, run

T = TypeVar("T")


@dataclass
class Request:
    city: str


class Trip(Saga[Request], name="trip"):
    def __init__(self, rate: float = 1.0) -> None:
        self.rate = rate

    @step
    def flight(self, request: Request, ctx: Context) -> str:
        return request.city

    @flight.compensate
    def cancel_flight(self, flight: str, ctx: Context) -> None: ...

    @step(
        timeout=timedelta(seconds=5), circuit_breaker=CircuitBreaker(failure_threshold=3, open_for=60, when_open="fail")
    )
    async def hotel(self, *, flight: str) -> int:
        return len(flight)

    @hotel.compensate(timeout=3)
    async def cancel_hotel(self, hotel: int) -> None: ...

    @step(undo_when="started")
    def car(self, request: Request, ctx: Context) -> float:
        assert_type(self.flight(request, ctx), str)
        return self.rate

    @car.compensate
    async def cancel_car(self, car: float | None) -> None: ...

    @classmethod
    def create(cls) -> Trip:
        return cls(rate=2.0)


def far(request: Request) -> bool:
    return len(request.city) > 5


class LongTrip(Saga[Request], name="long-trip"):
    @step(when=far)
    def insure(self, request: Request) -> str:
        return request.city

    @step
    def agreed(self) -> bool:
        return True

    consent = wait_for(bool, timeout=timedelta(days=1))
    rest = sleep(timedelta(hours=1), when=consent)

    @step(when=agreed)
    def book(self, insure: str | None) -> None: ...


class ShortTrip(Trip, name="short-trip"):
    @step
    def flight(self, request: Request, ctx: Context) -> str:
        return super().flight(request, ctx) + "!"

    @flight.compensate
    def cancel_flight(self, flight: str, ctx: Context) -> None: ...


@dataclass
class Approval:
    by: str


def soon(request: Request) -> datetime:
    return datetime(2030, 1, 1, tzinfo=UTC)


class Waiting(Saga[Request], timeout=timedelta(days=30), result="approval"):
    documents = wait_for(Approval, timeout=timedelta(days=7), on_timeout=Exhausted.CONTINUE)
    either = wait_for(Approval | None, timeout=timedelta(days=7))
    cooling_off = sleep(timedelta(days=14))
    appointed = sleep(until=soon)

    @wait_for(Approval, timeout=timedelta(days=3), public=True)
    def approval(self, request: Request, documents: Approval | None, ctx: Context) -> None:
        ctx.signal(documents or Approval(ctx.callback_url))

    @approval.compensate
    def revoke(self, approval: Approval) -> None: ...

    @documents.compensate(timeout=3)
    def forget(self, documents: Approval | None) -> None: ...

    @cooling_off.compensate
    def wake(self, request: Request) -> None: ...

    @step(within=timedelta(hours=6), on_timeout=Exhausted.DEAD_LETTER)
    def settle(self, approval: Approval) -> str:
        raise NotYet(after=60, message="the bank")


class Surrounded(Saga[T]):
    @contextmanager
    def around(self, ctx: Context) -> Generator[str]:
        with super().around(ctx):
            yield ctx.step


class Plain(Saga[Request], name="plain", retry=Retry.exponential(factor=3)):
    def around(self, ctx: Context) -> AbstractContextManager[object]:
        return super().around(ctx)

    @step(name="around")
    def work(self, request: Request) -> None: ...


def answers(client: SagaClient) -> str:
    return client.wait("waiting", "id", 60, until="waiting")["status"]


class Family(Saga[Request], name="family"):
    @children(Trip, concurrency=3, tolerate=0, on_failed=Exhausted.DEAD_LETTER, undo="reverse", step_timeout=5)
    def trips(self, request: Request, ctx: Context) -> list[Request]:
        return [request]

    @children(Trip, Waiting, step_timeout=timedelta(seconds=5))
    async def branches(self, request: Request, trips: list[float]) -> tuple[Request, Request]:
        return request, request

    @step
    def count(self, trips: list[float], branches: tuple[float, Approval]) -> int:
        return len(trips)


class Audited(Saga[T]):
    @step
    def audit(self, request: T) -> str:
        return str(request)

    @step
    @abstractmethod
    def work(self, request: T) -> int: ...


class AuditedTrip(Audited[Request]):
    @step
    def work(self, request: Request) -> int:
        return 1


async def uses(trip: Trip, request: Request) -> None:
    ctx = FakeContext(saga="trip", client={"s3": object()})
    assert_type(trip.flight(request=request, ctx=ctx), str)
    assert_type(await trip.hotel(flight="x"), int)
    assert_type(trip.cancel_flight(flight="x", ctx=ctx), None)
    assert_type(await trip.cancel_hotel(hotel=1), None)
    table: dict[Step[..., Any], int] = {Trip.flight: 1, Trip.hotel: 2, ShortTrip.flight: 3}
    assert_type(table[Trip.flight], int)
    assert_type(Trip.flight.name, str)
    Waiting().approval(request=request, documents=None, ctx=ctx)
    assert_type(Waiting.approval.name, str)
    bound: Callable[[Request, Context], str] = trip.flight
    del bound
    assert_type(definition_of(Trip), SagaDefinition)
    assert_type(Trip.create(), Trip)
    assert_type(AuditedTrip().audit(request), str)
    outcome = run(Trip, request)
    assert_type(outcome.results[Trip.flight], str)
    assert_type(outcome.results[Trip.hotel], int)
    assert_type(outcome.results["flight"], Any)
    Retry.constant(give_up_on=[KeyError], retry_on={OSError})
    sagas: list[type[Saga[Any]]] = [Trip, ShortTrip, AuditedTrip]
    del sagas
