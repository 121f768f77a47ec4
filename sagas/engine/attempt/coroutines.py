"""Awaiting what user code returned. An ``async`` step is cancelled when its time is over, or its saga was cancelled.

Imported where there is something to await: asyncio takes a while to load.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sagas.engine.attempt.context import StepContext
from sagas.errors import SagaError

_LOOK = 0.2
"""Seconds between two looks at what may have happened: the clock is the engine's, not the event loop's."""
_LEFT = 1.0
"""Seconds that the tasks which a coroutine left behind have to clean up in."""
_STUCK: list[asyncio.Runner] = []
"""The event loops of coroutines that did not end. No loop here runs again, so neither do they; kept, since a coroutine
that is collected runs its ``finally`` blocks."""


class _Threads(ThreadPoolExecutor):
    """The threads that a coroutine starts (``asyncio.to_thread``). Closing its event loop waits for none of them."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Begin nothing more; what runs ends by itself."""
        super().shutdown(wait=False, cancel_futures=True)


class NotEnded(SagaError):
    """A coroutine was cancelled at its deadline and did not end in the time that it had to clean up."""


def awaited(result: Awaitable[Any]) -> Any:
    """Await what user code returned."""

    async def outcome() -> Any:
        return await result

    return asyncio.run(outcome())


def awaited_in_time(result: Awaitable[Any], context: StepContext) -> Any:
    """Await what a step or undo returned.

    A coroutine is cancelled (``CancelledError`` is raised in it) at its deadline, and before that once: when its lease
    was lost, or its saga cancelled, unless it has found that out by itself. Of a cancel it hears within five seconds,
    by a read for each four seconds that it runs. What it makes of it is its own: what it returns is returned.

    Its end is noted in ``context`` when its task ends. Tasks and threads that it left behind take none of its time:
    tasks are cancelled, threads run on.
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
    told = over = False
    look: asyncio.Future[bool] | None = None
    while not task.done():
        await asyncio.wait([task], timeout=_LOOK if over else min(_LOOK, context.remaining_time()))
        if task.done():
            break
        if context.late:
            if over and context.clock.now() >= context.cleanup_until:
                raise NotEnded("it did not end when it was cancelled at its deadline")
            over = over or task.cancel()
        elif not told and (context.lost or (look is not None and look.done() and look.result())):
            told = task.cancel()
        elif not told and (look is None or look.done()) and context.cancel_check_due:
            # In a thread: it is a request, and the code goes on meanwhile.
            look = loop.run_in_executor(None, lambda: context.cancelled)
    context.end()
    return task.result()


async def _left_behind(context: StepContext) -> bool:
    """Cancel the tasks that the code left behind; return whether one did not end in the time that it had."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if not tasks:
        return False
    _, running = await asyncio.wait(tasks, timeout=max(0.0, min(_LEFT, context.cleanup_until - context.clock.now())))
    return bool(running)
