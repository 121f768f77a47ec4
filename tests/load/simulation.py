"""Discrete events in virtual time. Code that waits is a task: a thread that runs alone, until it waits or ends."""

from __future__ import annotations

import heapq
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from sagas.engine.clock import uuid7


@dataclass
class _Task:
    """A thread that has the floor only between two of its waits."""

    thread: threading.Thread | None = None
    floor: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    error: BaseException | None = None


class Simulation:
    """Virtual time, and the clock that the library is given.

    Args:
        seed: decides every chance.
        now: epoch seconds at the beginning.
    """

    def __init__(self, seed: int = 0, now: float = 1_790_000_000.0) -> None:
        self.random = random.Random(seed)  # noqa: S311 - nothing here is a secret
        self.began = now
        self._now = now
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count(1)
        self._floor = threading.Semaphore(0)
        self._current: _Task | None = None

    # The library's clock

    def now(self) -> float:
        """Epoch seconds, to the millisecond."""
        return round(self._now, 3)

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass for the task at hand; others go on."""
        task = self._current
        assert task is not None, "only a task waits"
        self.at(self._now + seconds, lambda: self._give(task))
        self._floor.release()
        task.floor.acquire()

    def chance(self) -> float:
        """A number in [0, 1)."""
        return self.random.random()

    def new_id(self) -> str:
        """A UUID of version 7."""
        return uuid7(self._now, next(self._numbers).to_bytes(10, "big"))

    def new_owner(self) -> str:
        """A nonce that begins with the time."""
        return f"{round(self._now * 1000):011x}{next(self._numbers):08x}"

    def new_salt(self) -> str:
        """A salt."""
        return f"{next(self._numbers):022d}"

    # Events

    def at(self, when: float, act: Callable[[], None]) -> None:
        """Have something happen at an epoch second."""
        heapq.heappush(self._events, (max(when, self._now), next(self._numbers), act))

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Have something happen in so many seconds."""
        self.at(self._now + seconds, act)

    def task(self, act: Callable[[], None]) -> None:
        """Run code that may wait, from now on. What it raises ends the simulation."""
        task = _Task()

        def run() -> None:
            task.floor.acquire()
            try:
                act()
            except BaseException as error:
                task.error = error
            self._floor.release()

        task.thread = threading.Thread(target=run, daemon=True)
        task.thread.start()
        self._give(task)

    def _give(self, task: _Task) -> None:
        before, self._current = self._current, task
        task.floor.release()
        self._floor.acquire()
        self._current = before
        if task.error is not None:
            raise task.error

    def run(self, until: Callable[[], bool], limit: float) -> float:
        """Let things happen until ``until`` holds; return the virtual seconds since the beginning.

        Raises:
            AssertionError: that took longer than ``limit`` virtual seconds.
        """
        while self._events:
            when, _, act = heapq.heappop(self._events)
            self._now = max(self._now, when)
            assert self._now - self.began <= limit, f"not at an end after {limit:g} virtual seconds"
            act()
            if until():
                return self._now - self.began
        raise AssertionError("nothing happens any more")
