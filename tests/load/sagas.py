"""Sagas of steps that take their time, and fail as often as a story says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from sagas import CircuitBreaker, Context, Exhausted, Retry, Saga, children, sleep, step, wait_for


@dataclass(frozen=True)
class Order:
    """What is ordered."""

    item: str


def _nothing(name: str) -> None:
    return None


class Stage:
    """What happens in a step: set by the story."""

    perform: Callable[[str], None] = staticmethod(_nothing)


_DAY = timedelta(days=1)
PARTS = 100
"""Children of each parent."""


class Sleeping(Saga[Order], name="sleeping"):
    """Sleeps for an hour, and then does something."""

    rest = sleep(timedelta(hours=1))

    @step(timeout=5)
    def wake(self, ctx: Context) -> None:
        """Take its time."""
        Stage.perform("wake")


class Asked(Saga[Order], name="asked"):
    """Waits for an answer, and then does something."""

    answer = wait_for(str, timeout=_DAY)

    @step(timeout=5)
    def act(self, answer: str, ctx: Context) -> None:
        """Take its time."""
        Stage.perform("act")


class Part(Saga[Order], name="part", lock_expiry=_DAY):
    """One of a hundred."""

    @step(timeout=5)
    def make(self, ctx: Context) -> str:
        """Take its time."""
        Stage.perform("make")
        return "made"


class Whole(Saga[Order], name="whole", lock_expiry=_DAY):
    """Has a hundred parts made, all at the same time."""

    @children(Part)
    def parts(self, request: Order) -> list[Order]:
        """A saga for each."""
        return [request] * PARTS

    @step(timeout=5)
    def join(self, parts: list[str], ctx: Context) -> int:
        """Count them."""
        Stage.perform("join")
        return len(parts)


class Slow(Saga[Order], name="slow", lock_expiry=_DAY, stale_after=timedelta(seconds=30)):
    """One step that takes ten seconds, and something to undo before it. Little patience: half an hour in all."""

    @step(timeout=5)
    def begin(self, ctx: Context) -> None:
        """Do what can be undone."""
        Stage.perform("begin")

    @begin.compensate
    def undo_begin(self, ctx: Context) -> None:
        """Undo it."""
        Stage.perform("undo")

    @step(timeout=15)
    def work(self, ctx: Context) -> None:
        """Take long."""
        Stage.perform("work")


class Five(Saga[Order], name="five", lock_expiry=_DAY):
    """Five short steps."""

    @step(timeout=5)
    def a(self, ctx: Context) -> None:
        """Work."""
        Stage.perform("a")

    @step(timeout=5)
    def b(self, ctx: Context) -> None:
        """Work."""
        Stage.perform("b")

    @step(timeout=5)
    def c(self, ctx: Context) -> None:
        """Work."""
        Stage.perform("c")

    @step(timeout=5)
    def d(self, ctx: Context) -> None:
        """Work."""
        Stage.perform("d")

    @step(timeout=5)
    def e(self, ctx: Context) -> None:
        """Work."""
        Stage.perform("e")


class Held(Saga[Order], name="held", lock_expiry=_DAY):
    """Its step is behind a circuit breaker."""

    @step(timeout=5, retry=Retry.constant(max_retries=20, delay=1.0), circuit_breaker=CircuitBreaker(5, 30))
    def call(self, ctx: Context) -> None:
        """Ask another service."""
        Stage.perform("call")


class Parked(Saga[Order], name="parked", lock_expiry=_DAY):
    """Its step waits for an operator when it has failed."""

    @step(timeout=5, retry=Retry.constant(max_retries=1, delay=1.0, on_exhausted=Exhausted.DEAD_LETTER))
    def call(self, ctx: Context) -> None:
        """Ask another service."""
        Stage.perform("call")
