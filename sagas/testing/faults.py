"""Crash points: runs a scenario once for each AWS request that it makes, and lets the process die at this request.

Every request of boto3 and PynamoDB passes through botocore. There, tests can make a request fail in all ways of a
distributed system: it is never sent, or it takes effect and the response is lost. Then the process dies, or retries, or
pauses while other processes act. ``crash_points`` tries all of these::

    def scenario(wire: Wire) -> None:
        tables = make_tables()              # not counted: no process is running
        while True:
            try:
                with wire.process():        # one Lambda invocation
                    handler(event, context)
                break
            except ProcessDied:
                continue                    # the message is delivered again
        assert books_balance(tables)

    for trial in crash_points(scenario):
        assert trial.error is None, trial
"""

from __future__ import annotations

import random  # noqa: TID251 - it only selects runs
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations
from typing import Any, TypeVar, cast

T = TypeVar("T")
Answers = Mapping[str, Callable[[str, dict[str, Any]], Any]]
Plan = tuple["Point", ...]


class ProcessDied(BaseException):
    """The process dies here. This is not an ``Exception``: only code that starts the next process may catch it."""


class Fault(StrEnum):
    """A fault at a request."""

    DIES_BEFORE = "dies before it leaves"
    DIES_AFTER = "dies after it took effect"
    NOT_SENT = "cannot connect"
    NO_ANSWER = "takes effect, but the answer is lost"
    REPEATED = "is sent twice by the client"
    LATE = "arrives after others acted and the process died"
    PAUSES = "pauses before it, while others act"
    OUTAGE = "finds DynamoDB out of reach from here on"


DEATHS = (Fault.DIES_BEFORE, Fault.DIES_AFTER)
LOST_ANSWERS = (Fault.NOT_SENT, Fault.NO_ANSWER, Fault.REPEATED)
DELAYS = (Fault.LATE, Fault.PAUSES)


@dataclass(frozen=True, slots=True)
class Point:
    """A fault at request ``number`` of a run, from 1. ``bound`` says how much other processes do in the meantime."""

    number: int
    fault: Fault
    bound: int = 0

    def __str__(self) -> str:
        others = f" ({self.bound})" if self.bound else ""
        return f"request {self.number} {self.fault}{others}"


@dataclass(frozen=True, slots=True)
class Trial:
    """One run. ``trace``: its requests. ``error`` is the exception that the scenario raised, if any."""

    points: Plan
    trace: tuple[str, ...]
    error: Exception | None = None

    def __str__(self) -> str:
        where = ", ".join(map(str, self.points)) or "nothing disturbed"
        lines = "\n  ".join(self.trace)
        return f"{where}: {self.error}\n  {lines}"


@dataclass(slots=True)
class Wire:
    """Intercepts botocore's requests, and injects the planned faults.

    Args:
        answers: functions that replace AWS, by service. They take an operation and parameters, and return a response.
        others: the function that runs other processes. It is called with the point at which a process pauses.
        watch: called with the name, the parameters and the response of each successful request.
    """

    answers: Answers = field(default_factory=dict[str, Callable[[str, dict[str, Any]], Any]])
    others: Callable[[Point], None] = lambda point: None
    watch: Callable[[str, dict[str, Any], Any], None] = lambda name, parameters, answer: None
    trace: list[str] = field(default_factory=list[str])
    deaths: int = 0
    _plan: dict[int, Point] = field(default_factory=dict[int, Point])
    _running: bool = False
    _dead: bool = False
    _outage: bool = False

    def begin(self, points: Iterable[Point] = ()) -> None:
        """Reset the state, and plan the faults of a run."""
        self._plan = {point.number: point for point in points}
        self.trace.clear()
        self.deaths = 0
        self._running = False
        self._dead = False
        self._outage = False

    @property
    def points(self) -> Plan:
        """The planned faults of this run."""
        return tuple(self._plan.values())

    @contextmanager
    def process(self) -> Generator[None]:
        """Run the block as one process. Its requests count. Once the process is dead, no request is sent."""
        before = self._running, self._dead, self._outage
        self._running = True
        self._dead = False
        self._outage = False
        try:
            yield
        except ProcessDied:
            self.deaths += 1
            raise
        finally:
            self._running, self._dead, self._outage = before

    @contextmanager
    def aside(self) -> Generator[None]:
        """Run the block outside of any process, to inspect the world."""
        before = self._running
        self._running = False
        try:
            yield
        finally:
            self._running = before

    @contextmanager
    def installed(self) -> Generator[Wire]:
        """Intercept every client of this Python process."""
        from botocore.client import BaseClient  # imported here, because sagas.testing must load without botocore

        client = cast("Any", BaseClient)
        send = client._make_api_call

        def listening(this: Any, operation: str, parameters: dict[str, Any]) -> Any:
            service = this.meta.service_model.service_name
            answer = self.answers.get(service)
            if answer is None:
                return self.request(operation, parameters, lambda: send(this, operation, parameters), service)
            return self.request(operation, parameters, lambda: answer(operation, parameters), service)

        client._make_api_call = listening
        try:
            yield self
        finally:
            client._make_api_call = send

    def request(self, name: str, parameters: dict[str, Any], send: Callable[[], T], service: str = "") -> T:
        """Make a call that counts as one request, for example for a step's own effect on the world."""

        def watched() -> T:
            answer = send()
            self.watch(name, parameters, answer)
            return answer

        if not self._running:
            return watched()
        if self._dead:
            raise ProcessDied
        self.trace.append(name)
        point = self._plan.get(len(self.trace))
        self._outage = self._outage or (point is not None and point.fault is Fault.OUTAGE)
        if self._outage and service == "dynamodb":
            self.trace[-1] += f"  <-- {Fault.OUTAGE}"
            raise _unanswered()
        if point is None or point.fault is Fault.OUTAGE:
            return watched()
        self.trace[-1] += f"  <-- {point.fault}"
        if point.fault in DELAYS:
            self.others(point)
        if point.fault in (Fault.DIES_AFTER, Fault.NO_ANSWER, Fault.REPEATED, Fault.LATE):
            with suppress(Exception):  # the response is lost, even if it is an error
                watched()
        if point.fault in (*DEATHS, Fault.LATE):
            self._dead = True
            raise ProcessDied
        if point.fault in (Fault.PAUSES, Fault.REPEATED):
            return watched()
        raise _unanswered()


def _unanswered() -> Exception:
    from botocore.exceptions import ReadTimeoutError  # imported here, as in installed()

    return ReadTimeoutError(endpoint_url="https://aws.invalid")


def crash_points(
    scenario: Callable[[Wire], None],
    wire: Wire | None = None,
    *,
    faults: Sequence[Fault] = DEATHS,
    bounds: Sequence[int] = (1,),
    at_once: int = 1,
    sample: int | None = None,
    seed: int = 0,
) -> Iterator[Trial]:
    """Run ``scenario`` without faults, then once for each request and fault. Yields each run, first the run without
    faults."""
    wire = wire or Wire()
    with wire.installed():
        first = _try(scenario, wire, ())
        yield first
        # After a death, the next process makes further requests, and the second fault may hit one of them.
        length = len(first.trace)
        numbers = range(1, length + 1 + (length // 2 if at_once > 1 else 0))
        single = [
            Point(number, fault, bound)
            for number in numbers
            for fault in faults
            for bound in (bounds if fault in DELAYS else (0,))
        ]
        plans: list[Plan] = [
            points for points in combinations(single, at_once) if len({point.number for point in points}) == at_once
        ]
        if sample is not None and sample < len(plans):
            plans = random.Random(seed).sample(plans, sample)  # noqa: S311 - it only selects runs
        for points in plans:
            yield _try(scenario, wire, points)


def _try(scenario: Callable[[Wire], None], wire: Wire, points: Plan) -> Trial:
    wire.begin(points)
    try:
        scenario(wire)
    except Exception as error:  # noqa: BLE001 - a violation is a result
        return Trial(points, tuple(wire.trace), error)
    return Trial(points, tuple(wire.trace))
