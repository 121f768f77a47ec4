"""The library's own threads. An error in one is logged, since nobody waits for its result, and ends no loop."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from functools import partial
from threading import Condition, Thread, current_thread
from time import monotonic


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


class Alarms:
    """Calls functions at their times, in one thread that ends when no alarm is set. Setting and clearing an alarm costs
    microseconds, so code can do it each time it begins and ends.

    Args:
        name: the name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = Condition()
        self._alarms: dict[object, tuple[float, Callable[[], object], logging.Logger]] = {}
        self._wakes_at = 0.0
        """When the thread looks again; 0 if there is no thread."""

    def set(self, seconds: float, act: Callable[[], object], logger: logging.Logger) -> Callable[[], object]:
        """Have ``act`` called once in so many seconds. Return the function that prevents it, unless ``act`` is being
        called already."""
        key = object()
        at = monotonic() + seconds
        with self._changed:
            self._alarms[key] = (at, act, logger)
            if not self._wakes_at:
                self._wakes_at = at
                _started(self._name, self._run)
            elif at < self._wakes_at:
                self._changed.notify()
        return partial(self._clear, key)

    def _clear(self, key: object) -> None:
        with self._changed:
            self._alarms.pop(key, None)

    def _run(self) -> None:
        while (due := self._next()) is not None:
            _call(*due)

    def _next(self) -> tuple[Callable[[], object], logging.Logger] | None:
        """Wait for the next alarm. Return ``None`` if none is set any more."""
        with self._changed:
            while self._alarms:
                key, (at, act, logger) = min(self._alarms.items(), key=lambda alarm: alarm[1][0])
                if at <= monotonic():
                    del self._alarms[key]
                    return act, logger
                self._wakes_at = at
                self._changed.wait(at - monotonic())
            self._wakes_at = 0.0
            return None


OVERTIME = Alarms("lambda-sagas-overtime")
"""Notices code that has not ended after its timeout."""


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
