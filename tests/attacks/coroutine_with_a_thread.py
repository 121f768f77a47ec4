"""An async step that ends in time is refused as TimedOut, or lost with its function, because a thread that it left still runs.

`coroutines.awaited_in_time` closes its `asyncio.Runner` before it returns, and that waits for the threads of the default executor
(`asyncio.to_thread`), up to five minutes. What the step returned after 0.3 s is looked at when the thread has ended: "it ended 3.0 s
after its timeout of 2 s; what it returned is refused". It ran, is in doubt, and runs again. Where the thread outlasts the function (six
seconds more than the step's timeout), Lambda kills it, and the attempt is lost. Likewise a coroutine that is cancelled at its deadline:
docs/build/deadlines.md says that the attempt is recorded then; it is when the thread ends, or never.

Run: python -W ignore -m tests.attacks.coroutine_with_a_thread     (takes 10 seconds)
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "eu-central-1"}
logging.disable(logging.CRITICAL)

from sagas import Retry, Saga, step
from sagas.engine.clock import SystemClock
from tests.support.aws import HandmadeStack
from tests.support.bench import Bench, ManualClock
from tests.support.dynamodb import aws

SAID: list[str] = []
ONCE = Retry.constant(max_retries=0, delay=0)


@dataclass(frozen=True)
class Req:
    item: str = "x"


class Unhurried(Saga[Req], name="optional"):
    @step(retry=ONCE, timeout=2)
    async def work(self, request: Req) -> str:
        began = time.monotonic()
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.to_thread(time.sleep, 5), 0.3)  # would be nice to have
        SAID.append(f"returned after {time.monotonic() - began:.1f} s")
        return "done without it"


class Stopped(Saga[Req], name="stopped"):
    @step(retry=ONCE, timeout=1)
    async def work(self, request: Req) -> str:
        await asyncio.to_thread(time.sleep, 5)
        return "done"


def main() -> None:
    broken = False
    with aws():
        for saga_class, name, timeout in ((Unhurried, "optional", 2), (Stopped, "stopped", 1)):
            bench = Bench(
                stack=HandmadeStack(saga_class, prefix=name),
                clock=cast("ManualClock", SystemClock()),
                lifetime=timeout + 6.0,
            )
            saga = bench.start(name, {"item": "x"})
            began = time.monotonic()
            bench.deliver(name, "work")
            took = time.monotonic() - began
            shown = bench.show(saga)
            print(
                f"{name}: timeout {timeout} s, recorded after {took:.1f} s, {SAID}: {shown['status']} {shown['error']}"
            )
            broken = broken or took > timeout + 3.5 or (name == "optional" and shown["status"] != "COMPLETED")
    print("BROKEN: what ended in time was refused" if broken else "HELD")


main()
