"""Awaiting what user code returned. An ``async`` step is cancelled when its time is over, or its saga was cancelled."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from typing import Any

from sagas.engine.context import StepContext
from sagas.errors import SagaError

_LOOK = 0.2
"""Seconds between two looks at what may have happened: the clock is the engine's, not the event loop's."""
_STUCK: list[asyncio.Runner] = []
"""The event loops of coroutines that did not end. No loop here runs again, so neither do they; kept, since a coroutine
that is collected runs its ``finally`` blocks."""


class NotEnded(SagaError):
    """A coroutine was cancelled at its deadline and did not end in the time that it had to clean up."""


def awaited(result: Any) -> Any:
    """Return what user code returned, awaited if it is to be awaited."""

    async def outcome() -> Any:
        return await result

    return asyncio.run(outcome()) if inspect.isawaitable(result) else result


def awaited_in_time(result: Any, context: StepContext) -> Any:
    """Return what a step or undo returned, awaited if it is to be awaited.

    A coroutine is cancelled (``CancelledError`` is raised in it) at its deadline, and before that once: when its lease
    was lost, or its saga cancelled, unless it has found that out by itself. Of a cancel it hears within five seconds,
    by a read for each four seconds that it runs. What it makes of it is its own: what it returns is returned.

    Args:
        result: what the function returned.
        context: what the code was told; its time runs.

    Raises:
        NotEnded: it still ran when the time to clean up was over, too. It never runs again.
        asyncio.CancelledError: it ended by that.
        BaseException: whatever else the code raised.
    """
    if not inspect.isawaitable(result):
        return result
    runner = asyncio.Runner()
    try:
        outcome = runner.run(_in_time(result, context))
    except NotEnded:
        _STUCK.append(runner)
        asyncio.set_event_loop(None)
        raise
    except BaseException:
        runner.close()
        raise
    runner.close()
    return outcome


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
    return task.result()
