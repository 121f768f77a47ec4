"""Runs an ``async`` step, and cancels it when its timeout expires or its saga is cancelled.

This module is imported only for code that returned a coroutine, because asyncio takes a while to load.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

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


def awaited(result: Awaitable[Any]) -> Any:
    """Await the result of user code."""

    async def outcome() -> Any:
        return await result

    return asyncio.run(outcome())


def awaited_in_time(result: Awaitable[Any], context: StepContext) -> Any:
    """Await the result of a step or undo.

    A coroutine is cancelled (``CancelledError`` is raised in it) at its deadline. It is also cancelled once, earlier,
    if the lease is lost or the saga is cancelled, unless the code already knows. A cancel is noticed within five
    seconds, by a read every four seconds. If the coroutine handles the cancellation and returns, its result counts.

    ``context`` records when the coroutine ends. Tasks and threads that still run do not count towards its time: tasks
    are cancelled, and threads continue.
    """
    runner, stuck = asyncio.Runner(), False
    runner.get_loop().set_default_executor(_Threads(thread_name_prefix="asyncio"))
    try:
        return runner.run(_in_time(result, context))
    except NotEnded:
        stuck = True
        raise
    finally:
        if stuck or runner.run(_left_behind(context)):
            _STUCK.append(runner)
            asyncio.set_event_loop(None)
        else:
            runner.close()


async def _in_time(code: Awaitable[Any], context: StepContext) -> Any:
    task, loop = asyncio.ensure_future(code), asyncio.get_running_loop()
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


async def _left_behind(context: StepContext) -> bool:
    """Cancel the tasks that still run. Return whether one of them did not end in time."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if not tasks:
        return False
    _, running = await asyncio.wait(tasks, timeout=max(0.0, min(_LEFT, context.cleanup_until - context.clock.now())))
    return bool(running)
