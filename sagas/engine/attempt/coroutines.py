"""Runs an ``async`` step, and cancels it when its timeout expires or its saga is cancelled.

This module is imported only for code that returned a coroutine, because asyncio takes a while to load.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import Any
from weakref import WeakSet

from sagas.engine.attempt.context import StepContext
from sagas.errors import SagaError

_LOOK = 0.2
"""Seconds between two checks of the engine's clock, which the event loop does not use."""
_LEFT = 1.0
"""Seconds for which tasks may clean up after their coroutine has ended."""
_STUCK: list[asyncio.Runner] = []
"""The event loops of coroutines that did not end. They never run again. They are kept, because a coroutine that is
garbage-collected runs its ``finally`` blocks."""


class _Threads(ThreadPoolExecutor):
    """The threads that a coroutine starts (``asyncio.to_thread``). Closing the event loop does not wait for them."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more work. Running threads continue to their end."""
        super().shutdown(wait=False, cancel_futures=True)


class NotEnded(SagaError):
    """A coroutine was cancelled at its deadline and did not end within the time to clean up."""


class EventLoop:
    """The event loop of an execution environment, or of a sweep. What clients keep in it still works in later attempts.

    An attempt takes the loop and gives it back. A loop whose coroutine did not end is never given back.
    """

    def __init__(self) -> None:
        self._idle: list[asyncio.Runner] = []

    def run(self, result: Awaitable[Any], context: StepContext) -> Any:
        """Await the result of a step, an undo or ``on_orphans``.

        A coroutine is cancelled (``CancelledError`` is raised in it) at its deadline. It is also cancelled once,
        earlier, if the lease is lost or the saga is cancelled, unless the code already knows. A cancel is noticed
        within five seconds, by a read every four seconds. If the coroutine handles the cancellation and returns, its
        result counts.

        ``context`` records when the coroutine ends. Tasks, asynchronous generators and threads that still run do not
        count towards its time: tasks are cancelled, generators closed, and threads continue.
        """
        runner = self._idle.pop() if self._idle else asyncio.Runner(loop_factory=asyncio.new_event_loop)
        threads = _Threads(thread_name_prefix="asyncio")
        runner.get_loop().set_default_executor(threads)
        generators = WeakSet[AsyncGenerator[Any, Any]]()
        stuck = False
        try:
            # A Runner has one context for all its calls, so each attempt passes its own.
            return runner.run(_in_time(result, context, generators), context=copy_context())
        except NotEnded:
            stuck = True
            raise
        finally:
            if stuck or runner.run(_left_behind(context, generators)):
                _STUCK.append(runner)
            else:
                self._idle.append(runner)
            threads.shutdown()

    def close(self) -> None:
        """Close the loop, unless an attempt runs in it."""
        while self._idle:
            self._idle.pop().close()

    def __del__(self) -> None:
        for runner in self._idle:
            runner.get_loop().close()


async def _in_time(code: Awaitable[Any], context: StepContext, generators: WeakSet[AsyncGenerator[Any, Any]]) -> Any:
    _note_generators(generators)
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(code)
    notified = expired = False
    look: asyncio.Future[bool] | None = None
    while not task.done():
        await asyncio.wait([task], timeout=_LOOK if expired else min(_LOOK, context.remaining_time()))
        if task.done():
            break
        if context.late:
            if expired and context.clock.now() >= context.cleanup_until:
                raise NotEnded("the step ignored its cancellation at the deadline")
            expired = expired or task.cancel()
        elif not notified and (context.lost or (look is not None and look.done() and look.result())):
            notified = task.cancel()
        elif not notified and (look is None or look.done()) and context.cancel_check_due:
            # Check in a thread, because the check sends a request and must not block the code.
            look = loop.run_in_executor(None, lambda: context.cancelled)
    context.end()
    return task.result()


def _note_generators(generators: WeakSet[AsyncGenerator[Any, Any]]) -> None:
    """Note the asynchronous generators that begin from here on. The loop sets its own hooks again in the next call."""
    hooks = sys.get_asyncgen_hooks()

    def begins(generator: AsyncGenerator[Any, Any]) -> None:
        generators.add(generator)
        if hooks.firstiter is not None:
            hooks.firstiter(generator)

    sys.set_asyncgen_hooks(firstiter=begins)


async def _left_behind(context: StepContext, generators: WeakSet[AsyncGenerator[Any, Any]]) -> bool:
    """Cancel the tasks that still run, and close the generators. Return whether one of them did not end in time."""
    clock = context.clock
    until = min(clock.now() + _LEFT, context.cleanup_until)
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    running = await _still_running(tasks, until - clock.now())
    closing = {asyncio.ensure_future(_closed(generator)) for generator in generators}
    return await _still_running(closing, until - clock.now()) or running


async def _still_running(tasks: Collection[asyncio.Task[Any]], seconds: float) -> bool:
    if not tasks:
        return False
    _, running = await asyncio.wait(tasks, timeout=max(0.0, seconds))
    return bool(running)


async def _closed(generator: AsyncGenerator[Any, Any]) -> None:
    with suppress(Exception):  # nobody waits for what the attempt left behind
        await generator.aclose()
