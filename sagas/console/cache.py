"""Answers of the service, each kept as long as its kind lasts."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, TypeVar, cast

T = TypeVar("T")
Key = tuple[str, *tuple[Hashable, ...]]
"""The kind of an answer, and what it is about."""

_KINDS: dict[str, tuple[float, int]] = {
    "show": (1.0, 5_000),
    # A trail is long. Its key has when the saga changed, so that the answer stays right.
    "audit": (inf, 32),
    "letters": (10 / 3, 1_000),
    # What a chart takes: up to sixty calls.
    "since": (60.0, 1_000),
    "stats": (60.0, 1_000),
}
"""Seconds that answers of a kind last, and how many are kept."""
_OTHERS = (1.0, 1_000)
_MEANWHILE = 60.0
"""Seconds that an answer lasts for which no page waits."""


@dataclass(slots=True)
class _Answer:
    at: float = -inf
    value: Any = None
    asking: bool = False
    """Whether the pool has the question."""
    lock: threading.Lock = field(default_factory=threading.Lock)


class Cache:
    """Several tabs that ask for the same at once make one call.

    Args:
        clock: seconds that only go up.
        submit: has something done in another thread.
    """

    def __init__(self, clock: Callable[[], float], submit: Callable[[Callable[[], None]], object]) -> None:
        self._clock = clock
        self._submit = submit
        self._lock = threading.RLock()
        self._answers = defaultdict[str, dict[Key, _Answer]](dict)

    def forget(self) -> None:
        """Have everything asked again. Calls under way answer those who wait for them, and nobody else."""
        with self._lock:
            for answers in self._answers.values():
                for key, answer in answers.items():
                    answers[key] = replace(answer, at=-inf, lock=threading.Lock())

    def get(self, key: Key, ask: Callable[[], T], lifetime: float | None = None) -> T:
        """Return the answer, asked for unless there is one that lasts; of a key's kind, if no lifetime is given."""
        answer = self._answer(key)
        with answer.lock:
            if self._clock() - answer.at >= (lifetime or _KINDS.get(key[0], _OTHERS)[0]):
                answer.value = ask()
                answer.at = self._clock()
            return cast("T", answer.value)

    def last(self, key: Key, otherwise: T) -> T:
        """Return the last answer, however old; something else where there is none, or it was ``None``."""
        with self._lock:
            answer = self._answers[key[0]].get(key)
        return otherwise if answer is None or answer.value is None else cast("T", answer.value)

    def meanwhile(self, key: Key, ask: Callable[[], T], otherwise: T) -> T:
        """Return the last answer, and have an old one asked for again meanwhile, so that no page waits."""

        def run() -> None:
            try:
                self.get(key, ask, _MEANWHILE)
            finally:
                with self._lock:
                    self._answer(key).asking = False

        with self._lock:
            answer = self._answer(key)
            due = self._clock() - answer.at >= _MEANWHILE and not answer.asking
            answer.asking |= due
        if due:
            self._submit(run)
        return self.last(key, otherwise)

    def _answer(self, key: Key) -> _Answer:
        with self._lock:
            answers = self._answers[key[0]]
            if key not in answers:
                if len(answers) >= _KINDS.get(key[0], _OTHERS)[1]:
                    del answers[next(iter(answers))]
                answers[key] = _Answer()
            return answers[key]
