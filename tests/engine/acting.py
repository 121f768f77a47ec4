"""A saga whose steps do what the test says, for tests of what surrounds a running step."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta

from sagas import Context, Retry, Saga, step
from tests.support.bench import Bench
from tests.support.sagas import LOG, Order

ACT: list[Callable[[Context], object]] = []
"""What each execution does, in turn; those after the last do nothing."""
LEASE = 0.6


def act(ctx: Context, name: str = "") -> None:
    LOG.append(f"{name or ctx.step}:{ctx.attempt}")
    if ACT:
        ACT.pop(0)(ctx)


class Paying(Saga[Order], step_timeout=5):
    """One step, which acts as the test says within five seconds."""

    @step
    def pay(self, ctx: Context) -> str:
        act(ctx, "pay")
        return "paid"


class Acting(Saga[Order], name="acting"):
    """Its lease lasts as long as its function."""

    @step(retry=Retry.constant(max_retries=2, delay=0.0), timeout=30)
    def act(self, ctx: Context) -> str:
        act(ctx)
        return "done"

    @act.compensate
    def undo(self, ctx: Context) -> None:
        act(ctx)


class Brief(Acting, name="brief", lock_expiry=timedelta(seconds=LEASE)):
    """Its lease is far shorter than its function."""


def until(condition: Callable[[], object], seconds: float = 15.0) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be"
        threading.Event().wait(0.01)  # a poll with a deadline


def helpers() -> list[str]:
    """The threads of attempts that are alive. Tests of the console leave its threads in the same process."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("sagas-") and not name.startswith("sagas-console")]


def failures(b: Bench, saga_id: str) -> list[str]:
    """The types of the errors of its attempts."""
    return [entry["details"]["error"]["type"] for entry in b.stack.entries(saga_id) if "error" in entry["details"]]
