"""The soaked sagas: one to five steps, every policy of retry and exhaustion, small and large results.

A step that books is undone when it was started, so that the books balance whatever became of its last attempt. The
one exception is :class:`Single`, whose step is then in doubt.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from functions.checkout import Checkout
from sagas import CircuitBreaker, Context, Exhausted, Retry, Saga, children, step, wait_for
from tests.soak.work import Order, Taken, Work, bulk_of, parts_of

_SOON = Retry.constant(max_retries=3, delay=0.1)
_GROWING = Retry.exponential(max_retries=3, base_delay=0.2)
_LATER = Retry.exponential(max_retries=3, base_delay=1.0, max_delay=2.0, jitter="full")
_STUBBORN = Retry.constant(max_retries=7, delay=0.3)
_STALE = timedelta(seconds=15)
_SHORT = timedelta(seconds=5)
_PATIENCE = timedelta(seconds=6)
"""How long a person may think."""


class Single(Saga[Order], name="single", stale_after=_STALE):
    """One step; if its outcome is unknown, it is in doubt."""

    @step(retry=_SOON, timeout=2)
    def reserve(self, request: Order, ctx: Context) -> Taken:
        """Fails before its effect: what it raises is known not to have happened."""
        work = Work(ctx, "reserve", request)
        if request.mood != "kill":
            work.misbehave()
        return work.reserve()

    @reserve.compensate(retry=_STUBBORN)
    def release(self, request: Order, reserve: Taken, ctx: Context) -> None:
        """Put back."""
        Work(ctx, "release", request).release()


class Trade(Saga[Order], name="trade", stale_after=_STALE, lock_expiry=_SHORT):
    """Two steps, retried within the second, on a lease that a heartbeat keeps."""

    @step(retry=_GROWING, timeout=2, undo_when="started")
    def reserve(self, request: Order, ctx: Context) -> Taken:
        """Take from stock."""
        return Work(ctx, "reserve", request).reserve()

    @reserve.compensate(retry=_STUBBORN)
    def release(self, request: Order, reserve: Taken | None, ctx: Context) -> None:
        """Put back."""
        work = Work(ctx, "release", request)
        work.expect_taken(reserve, "reserve", request.quantity)
        work.release()
        work.misbehave()

    @step(retry=_GROWING, timeout=2, undo_when="started")
    def charge(self, request: Order, reserve: Taken, ctx: Context) -> Taken:
        """Take the money."""
        work = Work(ctx, "charge", request)
        work.expect_taken(reserve, "reserve", request.quantity)
        return work.charge()

    @charge.compensate(retry=_STUBBORN)
    def refund(self, request: Order, charge: Taken | None, ctx: Context) -> None:
        """Give the money back."""
        work = Work(ctx, "refund", request)
        work.expect_taken(charge, "charge", request.cents)
        work.refund()


class Bulky(Saga[Order], name="bulky", stale_after=_STALE):
    """Three steps, retried after seconds; their results are kept outside of the journal."""

    @step(retry=_LATER, timeout=2)
    def pack(self, request: Order, ctx: Context) -> str:
        """Return something large."""
        work = Work(ctx, "pack", request)
        work.misbehave()
        return bulk_of(request)

    @pack.compensate(retry=_STUBBORN)
    def unpack(self, request: Order, pack: str, ctx: Context) -> None:
        """Needs what it undoes."""
        Work(ctx, "unpack", request).expect(pack, bulk_of(request))

    @step(retry=_LATER, timeout=2, undo_when="started")
    def charge(self, request: Order, pack: str, ctx: Context) -> Taken:
        """Take the money."""
        work = Work(ctx, "charge", request)
        work.expect(pack, bulk_of(request))
        return work.charge()

    @charge.compensate(retry=_STUBBORN)
    def refund(self, request: Order, ctx: Context) -> None:
        """Give the money back."""
        Work(ctx, "refund", request).refund()

    @step(retry=_LATER, timeout=2, undo_when="started")
    def reserve(self, request: Order, pack: str, charge: Taken, ctx: Context) -> list[str]:
        """Take from stock."""
        work = Work(ctx, "reserve", request)
        work.expect_taken(charge, "charge", request.cents)
        work.reserve()
        return [pack, "and more"]

    @reserve.compensate(retry=_STUBBORN)
    def release(self, request: Order, ctx: Context) -> None:
        """Put back."""
        Work(ctx, "release", request).release()


class Journey(Saga[Order], name="journey", stale_after=_STALE, lock_expiry=_SHORT):
    """Five steps; some without an undo, one asynchronous, one behind a circuit breaker."""

    @step(retry=_SOON, timeout=2)
    def check(self, request: Order, ctx: Context) -> int:
        """Nothing to undo."""
        work = Work(ctx, "check", request)
        work.misbehave()
        return request.quantity

    @step(retry=_GROWING, timeout=2, undo_when="started")
    def reserve(self, request: Order, check: int, ctx: Context) -> Taken:
        """Take from stock."""
        work = Work(ctx, "reserve", request)
        work.expect(check, request.quantity)
        return work.reserve()

    @reserve.compensate(retry=_STUBBORN)
    def release(self, request: Order, ctx: Context) -> None:
        """Put back."""
        Work(ctx, "release", request).release()

    @step(retry=_LATER, timeout=2, undo_when="started")
    async def charge(self, request: Order, reserve: Taken, ctx: Context) -> Taken:
        """Take the money."""
        work = Work(ctx, "charge", request)
        work.expect_taken(reserve, "reserve", request.quantity)
        return work.charge()

    @charge.compensate(retry=_STUBBORN)
    async def refund(self, request: Order, ctx: Context) -> None:
        """Give the money back."""
        Work(ctx, "refund", request).refund()

    @step(retry=_GROWING, timeout=2, circuit_breaker=CircuitBreaker(failure_threshold=4, open_for=2.0))
    def label(self, request: Order, ctx: Context) -> str:
        """Ask something that is often out of order."""
        work = Work(ctx, "label", request)
        work.misbehave()
        return f"label {request.number}"

    @label.compensate(retry=_STUBBORN)
    def tear(self, request: Order, label: str, ctx: Context) -> None:
        """Undo the label."""
        Work(ctx, "tear", request).expect(label, f"label {request.number}")

    @step(retry=_SOON, timeout=2)
    def announce(self, request: Order, label: str, charge: Taken, ctx: Context) -> None:
        """The last step."""
        work = Work(ctx, "announce", request)
        work.expect(label, f"label {request.number}")
        work.expect_taken(charge, "charge", request.cents)
        work.misbehave()


class Parked(Saga[Order], name="parked", stale_after=_STALE):
    """The second step's exhaustion is an operator's business."""

    @step(retry=_SOON, timeout=2, undo_when="started")
    def reserve(self, request: Order, ctx: Context) -> Taken:
        """Take from stock."""
        return Work(ctx, "reserve", request).reserve()

    @reserve.compensate(retry=_STUBBORN)
    def release(self, request: Order, ctx: Context) -> None:
        """Put back."""
        Work(ctx, "release", request).release()

    @step(retry=Retry.constant(max_retries=1, delay=0.1, on_exhausted=Exhausted.DEAD_LETTER), timeout=2)
    def ask(self, request: Order, ctx: Context) -> str:
        """Books nothing."""
        work = Work(ctx, "ask", request)
        work.misbehave()
        return "yes"

    @step(retry=_SOON, timeout=2, undo_when="started")
    def charge(self, request: Order, ask: str, ctx: Context) -> Taken:
        """Take the money."""
        return Work(ctx, "charge", request).charge()

    @charge.compensate(retry=_STUBBORN)
    def refund(self, request: Order, ctx: Context) -> None:
        """Give the money back."""
        Work(ctx, "refund", request).refund()


class Halting(Saga[Order], name="halting", stale_after=_STALE):
    """The second step's exhaustion ends the saga as it is."""

    @step(retry=_SOON, timeout=2, undo_when="started")
    def charge(self, request: Order, ctx: Context) -> Taken:
        """Take the money."""
        return Work(ctx, "charge", request).charge()

    @charge.compensate(retry=Retry.constant(max_retries=2, delay=0.2))
    def refund(self, request: Order, ctx: Context) -> None:
        """Give the money back, unless this undo is what misbehaves."""
        work = Work(ctx, "refund", request)
        work.refund()
        work.misbehave()

    @step(retry=Retry.constant(max_retries=2, delay=0.2, on_exhausted=Exhausted.FAIL), timeout=2)
    def ask(self, request: Order, ctx: Context) -> str:
        """Books nothing."""
        work = Work(ctx, "ask", request)
        work.misbehave()
        return "yes"


class Asked(Saga[Order], name="asked", stale_after=_STALE):
    """A person decides between the two bookings, or does not, and it is undone."""

    @step(retry=_SOON, timeout=2, undo_when="started")
    def reserve(self, request: Order, ctx: Context) -> Taken:
        """Take from stock."""
        return Work(ctx, "reserve", request).reserve()

    @reserve.compensate(retry=_STUBBORN)
    def release(self, request: Order, ctx: Context) -> None:
        """Put back."""
        Work(ctx, "release", request).release()

    decision = wait_for(int, timeout=_PATIENCE)

    @step(retry=_SOON, timeout=2, undo_when="started")
    def charge(self, request: Order, decision: int, ctx: Context) -> Taken:
        """Take the money."""
        work = Work(ctx, "charge", request)
        work.expect(decision, request.number)
        return work.charge()

    @charge.compensate(retry=_STUBBORN)
    def refund(self, request: Order, ctx: Context) -> None:
        """Give the money back."""
        Work(ctx, "refund", request).refund()


class Fleet(Saga[Order], name="fleet", stale_after=_STALE):
    """Takes the money, and has the goods traded in parts, two at a time, each by a saga of its own."""

    @step(retry=_SOON, timeout=2, undo_when="started")
    def charge(self, request: Order, ctx: Context) -> Taken:
        """Take the money."""
        return Work(ctx, "charge", request).charge()

    @charge.compensate(retry=_STUBBORN)
    def refund(self, request: Order, ctx: Context) -> None:
        """Give the money back."""
        Work(ctx, "refund", request).refund()

    @children(Trade, concurrency=2, retry=_SOON, step_timeout=2)
    def parts(self, request: Order, ctx: Context) -> list[Order]:
        """A saga for each."""
        Work(ctx, "parts", request)
        return parts_of(request)

    @step(retry=_SOON, timeout=2)
    def arrive(self, request: Order, parts: list[Taken], ctx: Context) -> None:
        """The last step: the results are those of the parts, in their order."""
        work = Work(ctx, "arrive", request)
        work.expect([part.amount for part in parts], [part.cents for part in parts_of(request)])
        work.misbehave()


CLASSES: tuple[type[Saga[Any]], ...] = (Single, Trade, Bulky, Journey, Parked, Halting, Asked, Fleet, Checkout)
SHORT_LEASES = frozenset({"trade", "journey"})
"""Types whose workers may lose their lease on a machine that pauses them for seconds, and go on."""

BOOKINGS: dict[str, dict[str, str]] = {
    "single": {"reserve": "stock"},
    "trade": {"reserve": "stock", "charge": "ledger"},
    "bulky": {"charge": "ledger", "reserve": "stock"},
    "journey": {"reserve": "stock", "charge": "ledger"},
    "parked": {"reserve": "stock", "charge": "ledger"},
    "halting": {"charge": "ledger"},
    "asked": {"reserve": "stock", "charge": "ledger"},
    "fleet": {"charge": "ledger"},
    "checkout": {"reserve": "stock", "capture": "ledger", "ship": "shipments"},
}
"""By saga type: the steps that book, and where."""
