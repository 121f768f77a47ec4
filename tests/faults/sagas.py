"""Small sagas whose every effect is a request that can be disturbed, and is on the record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from sagas.authoring.context import Context
from sagas.authoring.policies import CircuitBreaker, Exhausted, Retry
from sagas.authoring.saga import Saga
from sagas.authoring.steps import step
from sagas.authoring.waits import sleep, wait_for
from sagas.errors import NotYet, PermanentError, Rejected

_NOW = Retry.constant(max_retries=2, delay=0.0)
_LATER = Retry.constant(max_retries=2, delay=3.0)
_PARK = Retry.constant(max_retries=1, delay=3.0, on_exhausted=Exhausted.DEAD_LETTER)
_HALT = Retry.constant(max_retries=1, delay=3.0, on_exhausted=Exhausted.FAIL)
_ONCE = Retry.constant(max_retries=0, delay=0.0)
LARGE = "x" * 20_000


@dataclass(frozen=True)
class Order:
    item: str


def _nothing(name: str, ctx: Context) -> None:
    return None


@dataclass(slots=True)
class Stage:
    """What the sagas' code finds around it. The world sets it for each run.

    Args:
        fail: by step or undo: how many executions fail before one succeeds.
        reject: steps that are rejected.
        unreadable: how often S3 still refuses a large result.
        refuse: what was stored of a stamp does not fit any more, as after a deployment.
        looked: executions of steps and undos that said that it is not yet time.
        perform: does an effect, on the record.
        during: called inside a step, after its effect.
    """

    fail: dict[str, int] = field(default_factory=dict[str, int])
    reject: set[str] = field(default_factory=set[str])
    refuse: bool = False
    unreadable: int = 0
    looked: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    perform: Callable[[str, Context], None] = _nothing
    during: Callable[[str, Context], None] = _nothing

    def act(self, name: str, ctx: Context) -> None:
        """Have the effect, then fail if that is planned."""
        self.perform(name, ctx)
        self.during(name, ctx)
        if name in self.reject:
            raise Rejected(f"{name} is refused")
        if self.fail.get(name, 0) > 0:
            self.fail[name] -= 1
            raise RuntimeError(f"{name} fails")


STAGE = Stage()


class Pair(Saga[Order], name="pair"):
    """Two steps with undos; retries at once, inside the function."""

    @step(retry=_NOW, timeout=5)
    def first(self, request: Order, ctx: Context) -> str:
        STAGE.act("first", ctx)
        return request.item

    @first.compensate(retry=_NOW)
    def undo_first(self, first: str, ctx: Context) -> None:
        STAGE.act("undo_first", ctx)

    @step(retry=_LATER, timeout=5)
    def second(self, first: str, ctx: Context) -> str:
        STAGE.act("second", ctx)
        return first + "!"

    @second.compensate(retry=_LATER)
    def undo_second(self, second: str, ctx: Context) -> None:
        STAGE.act("undo_second", ctx)


class Short(Saga[Order], name="short", lock_expiry=timedelta(seconds=10)):
    """A lease shorter than its holder may act: it can be taken from one that only pauses."""

    @step(retry=_LATER, timeout=5)
    def first(self, request: Order, ctx: Context) -> str:
        STAGE.act("first", ctx)
        return request.item

    @first.compensate(retry=_LATER)
    def undo_first(self, first: str, ctx: Context) -> None:
        STAGE.act("undo_first", ctx)

    @step(retry=_LATER, timeout=5)
    def second(self, first: str, ctx: Context) -> str:
        STAGE.act("second", ctx)
        return first + "!"

    @second.compensate(retry=_LATER)
    def undo_second(self, second: str, ctx: Context) -> None:
        STAGE.act("undo_second", ctx)


class Halting(Saga[Order], name="halting"):
    """The second step's exhaustion ends the saga as it is."""

    @step(retry=_NOW, timeout=5)
    def first(self, ctx: Context) -> str:
        STAGE.act("first", ctx)
        return "done"

    @first.compensate(retry=_NOW)
    def undo_first(self, ctx: Context) -> None:
        STAGE.act("undo_first", ctx)

    @step(retry=_HALT, timeout=5)
    def second(self, ctx: Context) -> None:
        STAGE.act("second", ctx)


class Parked(Saga[Order], name="parked"):
    """The second step's exhaustion is an operator's business."""

    @step(retry=_NOW, timeout=5)
    def first(self, ctx: Context) -> str:
        STAGE.act("first", ctx)
        return "done"

    @first.compensate(retry=_NOW)
    def undo_first(self, ctx: Context) -> None:
        STAGE.act("undo_first", ctx)

    @step(retry=_PARK, timeout=5)
    def second(self, ctx: Context) -> None:
        STAGE.act("second", ctx)


class Started(Saga[Order], name="started"):
    """The second step is undone even if nobody knows whether it took effect."""

    @step(retry=_NOW, timeout=5)
    def first(self, ctx: Context) -> str:
        STAGE.act("first", ctx)
        return "done"

    @first.compensate(retry=_NOW)
    def undo_first(self, ctx: Context) -> None:
        STAGE.act("undo_first", ctx)

    @step(retry=_NOW, timeout=5, undo_when="started")
    def second(self, ctx: Context) -> str:
        STAGE.act("second", ctx)
        return "done"

    @second.compensate(retry=_NOW)
    def undo_second(self, second: str | None, ctx: Context) -> None:
        STAGE.act("undo_second", ctx)


class Plain(Saga[Order], name="plain", lock_expiry=timedelta(seconds=10)):
    """Everything is tried once, under a lease that can be taken from one that only pauses."""

    @step(retry=_ONCE, timeout=5)
    def first(self, ctx: Context) -> str:
        STAGE.act("first", ctx)
        return "done"

    @first.compensate(retry=_ONCE)
    def undo_first(self, ctx: Context) -> None:
        STAGE.act("undo_first", ctx)

    @step(retry=_ONCE, timeout=5)
    def second(self, ctx: Context) -> str:
        STAGE.act("second", ctx)
        return "done"

    @second.compensate(retry=_ONCE)
    def undo_second(self, ctx: Context) -> None:
        STAGE.act("undo_second", ctx)


class Stuck(Saga[Order], name="stuck", lock_expiry=timedelta(seconds=10)):
    """Likewise, and the second step's exhaustion is an operator's business."""

    first = Plain.first
    undo_first = Plain.undo_first

    @step(retry=Retry.constant(max_retries=0, delay=0.0, on_exhausted=Exhausted.DEAD_LETTER), timeout=5)
    def second(self, ctx: Context) -> None:
        STAGE.act("second", ctx)


class StartedBriefly(Started, name="started-briefly", lock_expiry=timedelta(seconds=10)):
    """Likewise undone if it was only started."""


class Impatient(Plain, name="impatient", lock_expiry=timedelta(seconds=10), max_recovery_attempts=1):
    """One stall is forgiven, a second is not."""


class Restless(Pair, name="restless", max_recovery_attempts=1):
    """Likewise, but an execution that is lost is forgiven."""


class Rash(Plain, name="rash", lock_expiry=timedelta(seconds=10), max_recovery_attempts=0):
    """No stall is forgiven."""


class WithoutFirst(Saga[Order], name="plain", version="2", lock_expiry=timedelta(seconds=10)):
    """What a deployment left of :class:`Plain`."""

    second = Plain.second
    undo_second = Plain.undo_second


class ShortWithoutSecond(Saga[Order], name="short", version="2", lock_expiry=timedelta(seconds=10)):
    """What a deployment left of :class:`Short`."""

    first = Short.first
    undo_first = Short.undo_first


class ShortWithoutUndos(Saga[Order], name="short", version="3", lock_expiry=timedelta(seconds=10)):
    """Likewise."""

    @step(retry=_LATER, timeout=5)
    def first(self, request: Order, ctx: Context) -> str:
        STAGE.act("first", ctx)
        return request.item

    @step(retry=_LATER, timeout=5)
    def second(self, first: str, ctx: Context) -> str:
        STAGE.act("second", ctx)
        return first + "!"


class WithoutSecond(Saga[Order], name="plain", version="3", lock_expiry=timedelta(seconds=10)):
    """Likewise."""

    first = Plain.first
    undo_first = Plain.undo_first


class WithoutUndos(Saga[Order], name="plain", version="4", lock_expiry=timedelta(seconds=10)):
    """Likewise."""

    @step(retry=_ONCE, timeout=5)
    def first(self, ctx: Context) -> str:
        STAGE.act("first", ctx)
        return "done"

    @step(retry=_ONCE, timeout=5)
    def second(self, ctx: Context) -> str:
        STAGE.act("second", ctx)
        return "done"


class Passing(Saga[Order], name="passing", lock_expiry=timedelta(seconds=10)):
    """Its second step has no undo, and is passed."""

    first = Plain.first
    undo_first = Plain.undo_first
    second = Plain.second

    @step(retry=_ONCE, timeout=5)
    def third(self, ctx: Context) -> str:
        STAGE.act("third", ctx)
        return "done"


class PassingNothing(Passing, name="passing", version="2", lock_expiry=timedelta(seconds=10)):
    """A deployment that adds the undo."""

    second = Plain.second
    undo_second = Plain.undo_second


@dataclass(frozen=True)
class Receipt:
    number: int


class Retyped(Saga[Order], name="plain", version="5", lock_expiry=timedelta(seconds=10)):
    """What :class:`Plain` stored of its first step does not fit this version."""

    @step(retry=_ONCE, timeout=5)
    def first(self, ctx: Context) -> Receipt:
        STAGE.act("first", ctx)
        return Receipt(1)

    @first.compensate(retry=_ONCE)
    def undo_first(self, first: Receipt, ctx: Context) -> None:
        STAGE.act("undo_first", ctx)

    @step(retry=_ONCE, timeout=5)
    def second(self, first: Receipt, ctx: Context) -> str:
        STAGE.act("second", ctx)
        return "done"

    @second.compensate(retry=_ONCE)
    def undo_second(self, ctx: Context) -> None:
        STAGE.act("undo_second", ctx)


@dataclass(frozen=True)
class Stamp:
    made: bool = True

    def __post_init__(self) -> None:
        if STAGE.refuse and not self.made:
            raise ValueError


class Stamped(Saga[Order], name="stamped"):
    """What its first step returns can be read only while the stage does not refuse it."""

    @step(retry=_NOW, timeout=5)
    def first(self, ctx: Context) -> Stamp:
        STAGE.act("first", ctx)
        stamp = Stamp()
        object.__setattr__(stamp, "made", False)
        return stamp

    @first.compensate(retry=_NOW)
    def undo_first(self, first: Stamp, ctx: Context) -> None:
        STAGE.act("undo_first", ctx)

    @step(retry=_LATER, timeout=5)
    def second(self, first: Stamp, ctx: Context) -> str:
        STAGE.act("second", ctx)
        return "done"

    @second.compensate(retry=_LATER)
    def undo_second(self, second: str, ctx: Context) -> None:
        STAGE.act("undo_second", ctx)


class Bulky(Saga[Order], name="bulky"):
    """Results too large for a journal entry."""

    @step(retry=_NOW, timeout=5)
    def first(self, ctx: Context) -> str:
        STAGE.act("first", ctx)
        return LARGE

    @first.compensate(retry=_NOW)
    def undo_first(self, first: str, ctx: Context) -> None:
        assert first == LARGE
        STAGE.act("undo_first", ctx)

    @step(retry=_NOW, timeout=5)
    def second(self, first: str, ctx: Context) -> str:
        assert first == LARGE
        STAGE.act("second", ctx)
        return first


class Guarded(Saga[Order], name="guarded"):
    """A step behind a circuit breaker."""

    @step(
        retry=Retry.constant(max_retries=4, delay=0.0),
        timeout=5,
        circuit_breaker=CircuitBreaker(failure_threshold=2, open_for=30),
    )
    def first(self, ctx: Context) -> str:
        STAGE.act("first", ctx)
        return "done"

    @first.compensate(retry=_NOW)
    def undo_first(self, ctx: Context) -> None:
        STAGE.act("undo_first", ctx)


class Hasty(Saga[Order], name="hasty"):
    """A step that does not wait behind its circuit breaker."""

    @step(retry=_NOW, timeout=5)
    def first(self, ctx: Context) -> str:
        STAGE.act("first", ctx)
        return "done"

    @first.compensate(retry=_NOW)
    def undo_first(self, ctx: Context) -> None:
        STAGE.act("undo_first", ctx)

    @step(
        retry=Retry.constant(max_retries=4, delay=0.0),
        timeout=5,
        circuit_breaker=CircuitBreaker(failure_threshold=2, open_for=30, when_open="fail"),
    )
    def second(self, ctx: Context) -> str:
        STAGE.act("second", ctx)
        return "done"


class Long(Saga[Order], name="long"):
    """Four steps: several at a time, where one invocation runs them one after the other."""

    @step(retry=_NOW, timeout=12)
    def first(self, request: Order, ctx: Context) -> str:
        STAGE.act("first", ctx)
        return request.item

    @first.compensate(retry=_NOW, timeout=12)
    def undo_first(self, first: str, ctx: Context) -> None:
        STAGE.act("undo_first", ctx)

    @step(retry=_NOW, timeout=12)
    def second(self, first: str, ctx: Context) -> str:
        STAGE.act("second", ctx)
        return first + "!"

    @second.compensate(retry=_NOW, timeout=12)
    def undo_second(self, second: str, ctx: Context) -> None:
        STAGE.act("undo_second", ctx)

    @step(retry=_NOW, timeout=12)
    def third(self, first: str, second: str, ctx: Context) -> str:
        STAGE.act("third", ctx)
        return first + second

    @third.compensate(retry=_NOW, timeout=12)
    def undo_third(self, third: str, ctx: Context) -> None:
        STAGE.act("undo_third", ctx)

    @step(retry=_LATER, timeout=12)
    def fourth(self, third: str, ctx: Context) -> str:
        STAGE.act("fourth", ctx)
        return third


class Asking(Saga[Order], name="asking"):
    """Asks, and waits for longer than a message is kept."""

    @step(retry=_NOW, timeout=5)
    def first(self, request: Order, ctx: Context) -> str:
        STAGE.act("first", ctx)
        return request.item

    @first.compensate(retry=_NOW)
    def undo_first(self, first: str, ctx: Context) -> None:
        STAGE.act("undo_first", ctx)

    @wait_for(str, timeout=timedelta(seconds=1000), retry=_NOW, step_timeout=5)
    def answer(self, first: str, ctx: Context) -> None:
        STAGE.act("answer", ctx)

    @answer.compensate(retry=_NOW)
    def undo_answer(self, answer: str, ctx: Context) -> None:
        STAGE.act("undo_answer", ctx)

    @step(retry=_NOW, timeout=5)
    def second(self, answer: str, ctx: Context) -> str:
        STAGE.act("second", ctx)
        return answer


class Brief(Saga[Order], name="brief", lock_expiry=timedelta(seconds=10)):
    """Asks nobody, waits half a minute, with a message, and begins with that."""

    answer = wait_for(str, timeout=timedelta(seconds=30))

    @step(retry=_NOW, timeout=5)
    def second(self, answer: str, ctx: Context) -> str:
        STAGE.act("second", ctx)
        return answer


class BriefAsking(Saga[Order], name="brief-asking", lock_expiry=timedelta(seconds=10)):
    """Asks, and waits half a minute."""

    @wait_for(str, timeout=timedelta(seconds=30), retry=_NOW, step_timeout=5)
    def answer(self, request: Order, ctx: Context) -> None:
        STAGE.act("answer", ctx)

    @answer.compensate(retry=_NOW)
    def undo_answer(self, answer: str, ctx: Context) -> None:
        STAGE.act("undo_answer", ctx)


class Approved(Saga[Order], name="approved", lock_expiry=timedelta(seconds=10)):
    """Waits half a minute, after a step: a signal can come before the wait begins."""

    first = Plain.first
    undo_first = Plain.undo_first
    answer = wait_for(str, timeout=timedelta(seconds=30))


class ApprovedByCode(Saga[Order], name="approved", version="2", lock_expiry=timedelta(seconds=10)):
    """What a deployment made of it: nobody is waited for."""

    first = Plain.first
    undo_first = Plain.undo_first

    @step(retry=_ONCE, timeout=5)
    def answer(self, ctx: Context) -> str:
        STAGE.act("answer", ctx)
        return "yes"


class Sleepy(Saga[Order], name="sleepy", timeout=timedelta(hours=1)):
    """Sleeps, and looks three times in vain, twice for the same."""

    nap = sleep(timedelta(seconds=1000))

    @step(retry=_NOW, timeout=5)
    def second(self, request: Order, ctx: Context) -> str:
        STAGE.act("second", ctx)
        if ctx.attempt <= 3:
            STAGE.looked.add(("second", ctx.attempt))
            raise NotYet(after=20, message="the post" if ctx.attempt < 3 else "the till")
        return request.item


class Eager(Saga[Order], name="eager"):
    """Looks twice in vain, and has patience for five minutes."""

    @step(retry=_NOW, timeout=5, within=timedelta(minutes=5))
    def second(self, request: Order, ctx: Context) -> str:
        STAGE.act("second", ctx)
        if ctx.attempt <= 2:
            STAGE.looked.add(("second", ctx.attempt))
            raise NotYet(after=20, message="the post")
        return request.item


class Unready(Saga[Order], name="unready"):
    """Polls until its time is up, and ends FAILED. A failure would undo it."""

    @step(retry=_NOW, timeout=5)
    def first(self, request: Order, ctx: Context) -> str:
        STAGE.act("first", ctx)
        return request.item

    @first.compensate(retry=_NOW)
    def undo_first(self, first: str, ctx: Context) -> None:
        STAGE.act("undo_first", ctx)

    @step(retry=_NOW, timeout=5, within=timedelta(seconds=20), on_timeout=Exhausted.FAIL)
    def second(self, ctx: Context) -> str:
        STAGE.act("second", ctx)
        STAGE.looked.add(("second", ctx.attempt))
        raise NotYet(after=20, message="the post")


class Hesitant(Saga[Order], name="hesitant"):
    """Asks at its second look only, and does what it is to do at its second look only."""

    @wait_for(str, timeout=timedelta(seconds=1000), retry=_NOW, step_timeout=5)
    def answer(self, request: Order, ctx: Context) -> None:
        STAGE.act("answer", ctx)
        if ctx.attempt == 1:
            STAGE.looked.add(("answer", 1))
            raise NotYet(after=20)

    @step(retry=_NOW, timeout=5)
    def second(self, answer: str, ctx: Context) -> str:
        STAGE.act("second", ctx)
        if ctx.attempt == 1:
            STAGE.looked.add(("second", 1))
            raise NotYet(after=20)
        return answer


class HesitantUnasked(Saga[Order], name="hesitant", version="2"):
    """What a deployment left of it: it waits for the same answer, and asks nobody."""

    answer = wait_for(str, timeout=timedelta(seconds=1000))
    second = Hesitant.second


class HesitantWithoutSecond(Saga[Order], name="hesitant", version="3"):
    """Likewise."""

    answer = Hesitant.answer


class Job(Saga[Order], name="job"):
    """Starts a job, looks for its end, and learns that it failed; stopping it takes two looks in vain."""

    @step(retry=_NOW, timeout=5)
    def second(self, request: Order, ctx: Context) -> str:
        STAGE.act("second", ctx)
        if ctx.attempt == 1:
            STAGE.looked.add(("second", 1))
            raise NotYet(after=20)
        raise Rejected("the job failed")

    @second.compensate(retry=_NOW)
    def undo_second(self, second: str | None, ctx: Context) -> None:
        STAGE.act("undo_second", ctx)
        if ctx.attempt <= 2:
            STAGE.looked.add(("undo_second", ctx.attempt))
            raise NotYet(after=20, message="the job")


class Endless(Saga[Order], name="endless", timeout=timedelta(minutes=20)):
    """Its own deadline comes before the end of its wait."""

    @step(retry=_NOW, timeout=5)
    def first(self, request: Order, ctx: Context) -> str:
        STAGE.act("first", ctx)
        return request.item

    @first.compensate(retry=_NOW)
    def undo_first(self, first: str, ctx: Context) -> None:
        STAGE.act("undo_first", ctx)

    nap = sleep(timedelta(days=1))


class Hurried(Saga[Order], name="hurried", timeout=timedelta(seconds=8)):
    """Has less time than one of its steps may take."""

    @step(retry=_NOW, timeout=12)
    def first(self, request: Order, ctx: Context) -> str:
        STAGE.act("first", ctx)
        return request.item

    @first.compensate(retry=_NOW)
    def undo_first(self, first: str, ctx: Context) -> None:
        STAGE.act("undo_first", ctx)

    @step(retry=_NOW, timeout=12)
    def second(self, first: str, ctx: Context) -> str:
        STAGE.act("second", ctx)
        return first + "!"


class Pivotal(Saga[Order], name="pivotal", lock_expiry=timedelta(seconds=10), max_recovery_attempts=1):
    """Its second step is the point of no return. One stall is forgiven, a second is not."""

    first = Pair.first
    undo_first = Pair.undo_first

    @step(retry=Retry.constant(max_retries=1, delay=0.0), timeout=5, pivot=True)
    def second(self, first: str, ctx: Context) -> str:
        STAGE.act("second", ctx)
        return first + "!"

    @step(retry=Retry.constant(max_retries=1, delay=0.0), timeout=5)
    def third(self, second: str, ctx: Context) -> str:
        STAGE.act("third", ctx)
        return second


class PivotalLast(Saga[Order], name="pivotal-last", lock_expiry=timedelta(seconds=10)):
    """Likewise, and it is the last."""

    first = Pair.first
    undo_first = Pair.undo_first
    second = Pivotal.second


class Late(Saga[Order], name="late", timeout=timedelta(minutes=5)):
    """Behind its pivot it waits for longer than it has time."""

    first = Pair.first
    undo_first = Pair.undo_first
    second = Pivotal.second
    answer = wait_for(str, timeout=timedelta(seconds=1000))

    @step(retry=_NOW, timeout=5)
    def third(self, answer: str, ctx: Context) -> str:
        STAGE.act("third", ctx)
        return answer


class Unwanted(PermanentError):
    """Raised by code whose condition is never true, so nobody may call it."""


def always(first: str) -> bool:
    return True


def never(first: str) -> bool:
    return False


def never_first(request: Order) -> bool:
    return False


class Wanted(Saga[Order], name="skipping", lock_expiry=timedelta(seconds=10)):
    """A release in which the second step runs."""

    first = Short.first
    undo_first = Short.undo_first

    @step(retry=_LATER, timeout=5, when=always)
    def second(self, first: str, ctx: Context) -> str:
        STAGE.act("second", ctx)
        return first + "!"

    @second.compensate(retry=_LATER)
    def undo_second(self, second: str, ctx: Context) -> None:
        STAGE.act("undo_second", ctx)

    @step(retry=_LATER, timeout=5)
    def third(self, second: str | None, ctx: Context) -> str:
        STAGE.act("third", ctx)
        return f"{second}"

    @third.compensate(retry=_LATER)
    def undo_third(self, ctx: Context) -> None:
        STAGE.act("undo_third", ctx)


class Skipping(Wanted, name="skipping", version="2"):
    """A release in which the second step is skipped."""

    @step(retry=_LATER, timeout=5, when=never)
    def second(self, first: str, ctx: Context) -> str:
        STAGE.act("second", ctx)
        raise Unwanted

    @second.compensate(retry=_LATER)
    def undo_second(self, second: str, ctx: Context) -> None:
        STAGE.act("undo_second", ctx)


class SkippingEnds(Saga[Order], name="skipping-ends", lock_expiry=timedelta(seconds=10)):
    """Its first step and its last ones are skipped."""

    @step(retry=_LATER, timeout=5, when=never_first)
    def zeroth(self, ctx: Context) -> None:
        STAGE.act("zeroth", ctx)
        raise Unwanted

    first = Short.first
    undo_first = Short.undo_first
    second = Skipping.second
    undo_second = Skipping.undo_second

    @step(retry=_LATER, timeout=5, when=never)
    def third(self, ctx: Context) -> str:
        STAGE.act("third", ctx)
        raise Unwanted


CLASSES: tuple[type[Saga[Order]], ...] = (
    *(Pair, Short, Halting, Parked, Started, Bulky, Stamped, Guarded, Hasty, Long),
    *(Asking, Brief, BriefAsking, Sleepy, Eager, Unready, Endless, Hesitant, Job, Plain, Impatient, Restless),
    *(Hurried, Pivotal, PivotalLast, Late, Skipping, SkippingEnds),
)
