"""A cache of the service's answers. Each kind of answer has its own lifetime."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, TypeVar, cast

T = TypeVar("T")
Key = tuple[str, *tuple[Hashable, ...]]
"""The kind of an answer, and its arguments."""

_KINDS: dict[str, tuple[float, int]] = {
    "show": (1.0, 5_000),
    # Audit trails are long. Their key contains the time of the saga's last change, so they do not become outdated.
    "audit": (inf, 32),
    "letters": (10 / 3, 1_000),
    # The supervisor counts at most once a minute.
    "overview": (10.0, 1),
    # Their keys contain what the overview says of them, so they do not become outdated.
    "incidents": (inf, 8),
    "incident": (inf, 100),
    "waiting": (inf, 8),
    "names": (600.0, 1),
    # A chart needs up to sixty calls.
    "since": (60.0, 1_000),
    "stats": (60.0, 1_000),
}
"""For each kind: the lifetime in seconds, and the number of answers to keep."""
_OTHERS = (1.0, 1_000)
_BACKGROUND = 60.0
"""The lifetime in seconds of answers that are refreshed in the background."""


@dataclass(slots=True)
class _Answer:
    at: float = -inf
    value: Any = None
    asking: bool = False
    """Whether a thread is refreshing this answer."""
    lock: threading.Lock = field(default_factory=threading.Lock)


class Cache:
    """The cached answers. If several tabs need the same answer at the same time, only one call is made. ``clock`` is a
    monotonic clock in seconds. ``submit`` runs a function in a thread."""

    def __init__(self, clock: Callable[[], float], submit: Callable[[Callable[[], None]], object]) -> None:
        self._clock = clock
        self._submit = submit
        self._lock = threading.RLock()
        self._answers = defaultdict[str, dict[Key, _Answer]](dict)

    def forget(self) -> None:
        """Drop all answers. The answer of a call in flight goes only to callers that already wait for it."""
        with self._lock:
            for answers in self._answers.values():
                for key, answer in answers.items():
                    answers[key] = replace(answer, at=-inf, lock=threading.Lock())

    def get(self, key: Key, ask: Callable[[], T], lifetime: float | None = None) -> T:
        """Return the cached answer, or ask if it has expired. ``lifetime``: seconds. Default: the lifetime of this kind
        of answer."""
        answer = self._answer(key)
        with answer.lock:
            if self._clock() - answer.at >= (lifetime or _KINDS.get(key[0], _OTHERS)[0]):
                answer.value = ask()
                answer.at = self._clock()
            return cast("T", answer.value)

    def last(self, key: Key, otherwise: T) -> T:
        """Return the last answer, however old. If there is none, or if it is ``None``, return ``otherwise``."""
        with self._lock:
            answer = self._answers[key[0]].get(key)
        return otherwise if answer is None or answer.value is None else cast("T", answer.value)

    def in_background(self, key: Key, ask: Callable[[], T], otherwise: T, lifetime: float = _BACKGROUND) -> T:
        """Return the last answer. If it is older than ``lifetime`` seconds, refresh it in the background, so no page
        waits."""

        def run() -> None:
            try:
                self.get(key, ask, lifetime)
            finally:
                with self._lock:
                    self._answer(key).asking = False

        with self._lock:
            answer = self._answer(key)
            due = self._clock() - answer.at >= lifetime and not answer.asking
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
