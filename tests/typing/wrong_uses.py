# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""What a strict checker must refuse: each line is wrong, and an ignore that was not needed is reported.

Never imported: most of it would be refused when the class is created.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from aws_cdk import Stack

from sagas import AutoDisable, CircuitBreaker, Context, OrphanSweep, Retry, Saga, children, sleep, step, wait_for
from sagas.cdk import SagaService
from sagas.testing import FakeContext, run


@dataclass
class Request:
    city: str


class Waiting(Saga[Request], timeout=30):  # pyright: ignore[reportArgumentType, reportGeneralTypeIssues] -- a timedelta
    endless = wait_for(str)  # pyright: ignore[reportCallIssue, reportUnknownVariableType] -- no timeout
    short = wait_for(str, timeout=3)  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType] -- a timedelta
    neither = sleep()  # pyright: ignore[reportCallIssue, reportUnknownVariableType] -- how long
    seconds = sleep(60)  # pyright: ignore[reportArgumentType] -- a timedelta

    @wait_for(str, timeout=timedelta(days=1))  # pyright: ignore[reportArgumentType] -- it must return None
    def answer(self) -> str: ...

    @sleep(timedelta(days=1))  # pyright: ignore[reportCallIssue, reportUntypedFunctionDecorator] -- it decorates nothing
    def nap(self) -> None: ...

    bare = wait_for(str, timeout=timedelta(days=1))

    @bare.compensate(foo=1)  # pyright: ignore[reportCallIssue, reportUntypedFunctionDecorator] -- an unknown option
    def forget(self, bare: str) -> None: ...

    @step(within=5)  # pyright: ignore[reportArgumentType] -- a timedelta
    def look(self) -> None: ...

    @step(within=timedelta(days=1), on_timeout="FAIL")  # pyright: ignore[reportArgumentType] -- a policy
    def look_on(self) -> None: ...

    async def around(self, ctx: Context) -> None: ...  # pyright: ignore[reportIncompatibleMethodOverride] -- a context manager


def number_of(request: Request) -> int:
    return len(request.city)


class Child(Saga[Request], name="child"):
    @step
    def a(self) -> None: ...


class Family(Saga[Request]):
    @children(Child)  # pyright: ignore[reportArgumentType, reportCallIssue, reportUntypedFunctionDecorator] -- a list of requests
    def wrong_requests(self) -> list[int]: ...

    @children(Child, Child)  # pyright: ignore[reportArgumentType, reportCallIssue, reportUntypedFunctionDecorator] -- a tuple of two
    def one_request(self) -> list[Request]: ...

    @children(Child, undo="never")  # pyright: ignore[reportArgumentType] -- not a choice
    def wrong_choice(self) -> list[Request]: ...

    @children(Child, step_timeout="3")  # pyright: ignore[reportArgumentType] -- a number or a timedelta
    def wrong_timeout(self) -> list[Request]: ...

    @children(Request)  # pyright: ignore[reportArgumentType] -- no saga class
    def no_saga(self) -> list[Request]: ...


class Misspelt(Saga[Request], nmae="x"):  # pyright: ignore[reportCallIssue, reportGeneralTypeIssues] -- an unknown class keyword
    @step
    def a(self) -> None: ...


class Mistyped(Saga[Request], max_recovery_attempts="5"):  # pyright: ignore[reportArgumentType, reportGeneralTypeIssues] -- a number is wanted
    @step
    def a(self) -> None: ...


class Trip(Saga[Request]):
    @step(retry=3)  # pyright: ignore[reportArgumentType] -- a Retry is wanted
    def wrong_retry(self) -> int: ...

    @step(tiemout=3)  # pyright: ignore[reportCallIssue, reportUntypedFunctionDecorator] -- an unknown option
    def wrong_option(self) -> int: ...

    @step(undo_when="never")  # pyright: ignore[reportArgumentType] -- not a choice
    def wrong_choice(self) -> int: ...

    @step(when=number_of)  # pyright: ignore[reportArgumentType] -- a condition returns a bool
    def wrong_condition(self) -> int: ...

    @step(when=True)  # pyright: ignore[reportArgumentType] -- a function or a step
    def no_condition(self) -> int: ...

    @step(circuit_breaker=CircuitBreaker(when_open="explode"))  # pyright: ignore[reportArgumentType] -- not a choice
    def wrong_breaker(self) -> int: ...

    @step(Retry.constant())  # pyright: ignore[reportArgumentType, reportUntypedFunctionDecorator] -- no method
    def wrong_position(self) -> int: ...

    @step
    def flight(self, request: Request, ctx: Context) -> str: ...

    @flight.compensate  # pyright: ignore[reportArgumentType] -- an undo returns None
    def undo_returns(self, flight: str) -> int: ...

    @flight.compensate(timeout="3")  # pyright: ignore[reportArgumentType] -- a number
    def undo_timeout(self, flight: str) -> None: ...


class Other(Trip):
    @step
    def flight(self, request: Request, ctx: Context) -> int: ...  # pyright: ignore[reportIncompatibleVariableOverride] -- the base's gives a str


def uses(trip: Trip, request: Request) -> None:
    trip.flight(request=request)  # pyright: ignore[reportCallIssue] -- ctx is missing
    trip.flight(request=3, ctx=FakeContext())  # pyright: ignore[reportArgumentType] -- no request
    number: int = trip.flight(request=request, ctx=FakeContext())  # pyright: ignore[reportAssignmentType] -- a str
    del number
    run(Trip, {"city": "Ulm"})  # pyright: ignore[reportArgumentType] -- no Request
    outcome = run(Trip, request)
    seats: int = outcome.results[Trip.flight]  # pyright: ignore[reportAssignmentType] -- a str
    del seats
    Retry(max_retries=3)  # pyright: ignore[reportCallIssue] -- made by Retry.exponential and the others
    Retry.constant(give_up_on=[3])  # pyright: ignore[reportArgumentType] -- exception types
    CircuitBreaker(threshold=3)  # pyright: ignore[reportCallIssue] -- an unknown option
    AutoDisable(thresh=3)  # pyright: ignore[reportCallIssue] -- an unknown option
    OrphanSweep(bucket_env="ZIPS")  # pyright: ignore[reportCallIssue] -- prefix is missing
    Waiting.bare()  # pyright: ignore[reportCallIssue] -- the method that asks
    FakeContext(sagaid="x")  # pyright: ignore[reportCallIssue] -- an unknown attribute


def deploy(stack: Stack) -> None:
    SagaService(stack, "Trips", sagas=[Trip], colour="blue")  # pyright: ignore[reportCallIssue] -- an unknown option
    SagaService(stack, "Trips", sagas=[Trip], shards="8")  # pyright: ignore[reportArgumentType] -- a number is wanted
    SagaService(stack, "Trips")  # pyright: ignore[reportCallIssue] -- a service of no saga
