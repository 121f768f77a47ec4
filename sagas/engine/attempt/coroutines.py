"""Awaiting user code. An ``async`` step is cancelled when its timeout has expired or its saga was cancelled.

Imported only if there is something to await: asyncio takes a while to load.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sagas.engine.attempt.context import StepContext
from sagas.errors import SagaError

_LOOK = 0.2
"""Seconds between two checks: the clock is the engine's, not the event loop's."""
_LEFT = 1.0
"""Seconds that tasks left behind by a coroutine have to clean up."""
_STUCK: list[asyncio.Runner] = []
"""The event loops of coroutines that did not end. They never run again, but are kept: a coroutine that is collected
runs its ``finally`` blocks."""


class _Threads(ThreadPoolExecutor):
    """The threads that a coroutine starts (``asyncio.to_thread``). Closing its event loop does not wait for them."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Start nothing more; running threads end by themselves."""
        super().shutdown(wait=False, cancel_futures=True)


class NotEnded(SagaError):
    """A coroutine was cancelled at its deadline and did not end within its time to clean up."""


def awaited(result: Awaitable[Any]) -> Any:
    """Await the result of user code."""

    async def outcome() -> Any:
        return await result

    return asyncio.run(outcome())


def awaited_in_time(result: Awaitable[Any], context: StepContext) -> Any:
    """Await the result of a step or undo.

    A coroutine is cancelled (``CancelledError`` is raised in it) at its deadline. Before that it is cancelled once if
    its lease is lost or its saga is cancelled, unless it already knows. It learns of a cancel within five seconds,
    through a read every four seconds. It may handle the cancellation: its result still counts.

    Its end is noted in ``context`` when its task ends. Tasks and threads that it left behind do not count as its time:
    tasks are cancelled, threads continue.
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
            # In a thread: it is a request, and the code continues.
            look = loop.run_in_executor(None, lambda: context.cancelled)
    context.end()
    return task.result()


async def _left_behind(context: StepContext) -> bool:
    """Cancel the tasks that the code left behind; return whether one did not end in time."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if not tasks:
        return False
    _, running = await asyncio.wait(tasks, timeout=max(0.0, min(_LEFT, context.cleanup_until - context.clock.now())))
    return bool(running)
