"""Small sagas whose services the tests synthesize."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import new_class
from typing import Any, Literal

from sagas import AutoDisable, Context, OrphanSweep, Retry, S3Object, Saga, children, sleep, step, wait_for


@dataclass(frozen=True)
class Order:
    """What is ordered."""

    item: str


class Trip(Saga[Order], name="trip"):
    """One step."""

    @step
    def book(self, request: Order, ctx: Context) -> str:
        """Book it."""
        return request.item


class Loan(Saga[str], name="loan"):
    """Two steps, a wait that sends a callback URL, and a wait for signals that need IAM."""

    @step
    def score(self, request: str) -> int:
        """Judge the applicant."""
        return len(request)

    @wait_for(bool, timeout=timedelta(days=3), public=True)
    def approval(self, ctx: Context) -> None:
        """Ask for a yes."""

    papers = wait_for(str, timeout=timedelta(days=3))

    @step
    def pay(self, approval: bool) -> bool:
        """Pay."""
        return approval


@dataclass(frozen=True)
class Basket:
    """What is delivered."""

    parcels: int


class Shipment(Saga[Basket], name="shipment"):
    """A child of *delivery*."""

    @step
    def book(self, request: Basket) -> str:
        """Book the carrier."""
        return "label"


class Delivery(Saga[Basket], name="delivery"):
    """Has children."""

    @children(Shipment)
    def shipments(self, request: Basket) -> list[Basket]:
        """Have each parcel sent."""
        return [request]


class Counted(Saga[Order], name="counted", auto_disable=AutoDisable()):
    """Failures in a row disable it."""

    @step
    def work(self) -> None:
        """Work."""


class Payout(Saga[str], name="payout", cancellable=False):
    """Callers may not cancel it."""

    @step
    def pay(self) -> None: ...


class Stranger(Payout, name="stranger"):
    """No service here has it."""


class CheckoutAgain(Payout, name="checkout-again"):
    """Its queues would fit the pattern of the saga that is called checkout."""


class Private(Saga[str], name="private"):
    """Its wait takes signals that need IAM."""

    papers = wait_for(str, timeout=timedelta(days=3))

    @step
    def pay(self, papers: str) -> str:
        return papers


class Slow(Saga[int]):
    """One step with an undo that takes longer, and more attempts, than itself."""

    @step(timeout=20, retry=Retry.constant(max_retries=1, delay=1))
    def work(self, request: int, ctx: Context) -> int:
        return request

    @work.compensate(timeout=99.5, retry=Retry.constant(max_retries=7, delay=1))
    def unwork(self, ctx: Context) -> None: ...

    @step(retired=True)
    def old(self, ctx: Context) -> None: ...


class Namesake(Saga[int], name="checkout"):
    """Another saga with a name that is taken."""

    @step
    def work(self, ctx: Context) -> None: ...


class HomeLoan(Saga[Order], name="loan"):
    """Asks, waits without asking, and sleeps."""

    @wait_for(str, timeout=timedelta(days=3))
    def approval(self, request: Order, ctx: Context) -> None: ...

    documents = wait_for(str, timeout=timedelta(days=7))
    cooling_off = sleep(timedelta(days=14))
    refunded = wait_for(int, timeout=timedelta(days=1))

    @refunded.compensate
    def refund(self, refunded: int, ctx: Context) -> None: ...

    @step
    def pay(self, documents: str, ctx: Context) -> str:
        return documents


class Napping(Saga[Order], name="napping"):
    """Sleeps, and is woken when it is undone."""

    nap = sleep(timedelta(days=14))

    @nap.compensate(timeout=7)
    def wake(self, ctx: Context) -> None: ...

    @step
    def pay(self) -> str:
        return "paid"


class Reminder(Saga[Order], name="reminder", auto_disable=AutoDisable(threshold=5)):
    """Only waits."""

    documents = wait_for(str, timeout=timedelta(days=7), name="papers")
    rest = sleep(timedelta(days=1))


class Renamed(Saga[Order], name="renamed"):
    """Its methods have other names than its steps."""

    consent = wait_for(str, timeout=timedelta(days=1), name="approval")

    @step(name="book")
    def reserve(self, request: Order) -> str:
        return request.item

    @step(name="pay")
    def charge(self, reserve: str, consent: str) -> str:
        return consent


Action = Literal["delete", "archive", "report"]


def sweeping(action: Action, archive: str | None = None) -> type[Any]:
    """A saga class whose orphans are dealt with by this action."""
    orphans = OrphanSweep(bucket_env="ZIPS_BUCKET", prefix="zips/", action=action, archive_bucket_env=archive)
    name = f"swept-{action}" if archive is None else f"swept-{action}-elsewhere"

    def fill(namespace: dict[str, Any]) -> None:
        namespace.update(__module__=__name__, work=step(_work))

    return new_class(name.title().replace("-", ""), (Saga[Order],), {"name": name, "orphans": orphans}, fill)


class OldDead(Saga[Order]):
    """The queue of its step is named like dead letters of a type ``old``."""

    @step
    def letters(self, ctx: Context) -> None: ...


def saga_of(number: int, steps: int, **options: Any) -> type[Any]:
    """A saga class with so many steps."""

    def fill(namespace: dict[str, Any]) -> None:
        namespace["__module__"] = __name__
        for position in range(steps):
            namespace[f"step_{position}"] = step(_work)

    return new_class(f"Long{number}", (Saga[Order],), options, fill)


def _work(self: Any, ctx: Context) -> None: ...


def _long_name(number: int) -> type[Any]:
    def fill(namespace: dict[str, Any]) -> None:
        namespace.update(__module__=__name__, first=step(_work), second=step(_work))

    return new_class(f"Type{number}{'x' * 180}", (Saga[Order],), {"name": f"many-{number}"}, fill)


LONG_NAMES = [_long_name(number) for number in range(6)]
"""So long that variables have no room for all of them."""
globals().update({one.__name__: one for one in LONG_NAMES})


class Tagging(
    Saga[Order], name="tagging", orphans=OrphanSweep(bucket_env="ZIPS_BUCKET", prefix="zips/", action="report")
):
    """Deals with its orphans itself."""

    @step
    def work(self) -> None:
        """Write an object."""

    def on_orphans(self, orphans: Sequence[S3Object], ctx: Context) -> None:
        """Do nothing here."""


SWEEPING: dict[type[Any], bool] = {
    sweeping("report"): False,
    sweeping("delete"): False,
    sweeping("archive"): False,
    sweeping("archive", "ATTIC_BUCKET"): True,
    Tagging: False,
}
"""Sagas that own objects, and whether their orphans are archived in another bucket."""
