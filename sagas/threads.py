"""The library's own threads. An error in one is logged, since nobody waits for its result, and ends no loop."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from functools import partial
from threading import Thread, current_thread


def start(name: str, act: Callable[[], object], logger: logging.Logger) -> Thread:
    """Start a thread that calls ``act`` once, and return it."""
    return _started(name, partial(_call, act, logger))


def repeat(name: str, wait: Callable[[], bool], act: Callable[[], bool], logger: logging.Logger) -> Thread:
    """Start a thread that waits and calls ``act``, in turns, and return it. ``wait`` returns whether to end instead of
    another call, ``act`` whether to continue. After an error of ``act`` the thread continues."""

    def run() -> None:
        while not wait():
            if _call(act, logger) is False:
                return

    return _started(name, run)


def _started(name: str, run: Callable[[], object]) -> Thread:
    thread = Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def _call(act: Callable[[], object], logger: logging.Logger) -> object:
    try:
        return act()
    except Exception as error:  # noqa: BLE001 - nobody waits for the thread
        # The error's text is not logged, because it may quote a caller's data.
        frame = traceback.extract_tb(error.__traceback__)[-1]
        fields = {
            "helper": current_thread().name,
            "error": type(error).__name__,
            "at": [f"{frame.name}:{frame.lineno}"],
        }
        logger.warning("a thread of the library failed", extra=fields)
        return None
