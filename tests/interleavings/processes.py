"""Every process that was ever started, and how far each ever was, under numbers that are cheap to compare."""

from __future__ import annotations

from typing import Any

from tests.interleavings.replay import Answer, History, Process, Replay, Request
from tests.interleavings.snapshot import Actor


class Processes:
    """Knows each process's next request; asks ``replay`` once for each history."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._processes: list[Process] = []
        self._histories: list[tuple[int, Answer, float] | None] = [None]
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._requests: dict[Actor, Request | None] = {}

    def begun(self, process: Process) -> Actor:
        """Return a process that got no answer yet."""
        letter = process.letter
        key = (process.kind, process.at, process.number, process.version, letter and (letter.receipt, letter.sent_at))
        if key not in self._numbers:
            self._numbers[key] = len(self._processes)
            self._processes.append(process)
        return Actor(self._numbers[key], 0)

    def told(self, actor: Actor, answer: Answer, now: float) -> Actor:
        """Return what an actor is once its request was answered, at ``now`` (epoch seconds)."""
        key = (actor.history, answer, now)
        if key not in self._numbers:
            self._numbers[key] = len(self._histories)
            self._histories.append(key)
        return Actor(actor.process, self._numbers[key])

    def process(self, actor: Actor) -> Process:
        """Return what an actor was started for."""
        return self._processes[actor.process]

    def request(self, actor: Actor) -> Request | None:
        """Return what an actor asks for next; ``None`` if it has ended."""
        if actor not in self._requests:
            history, known = self._past(actor)
            self._requests[actor] = self._replay.next(self.process(actor), history, known)
        return self._requests[actor]

    def _past(self, actor: Actor) -> tuple[History, tuple[Request, ...]]:
        answers: list[tuple[Answer, float]] = []
        known: list[Request] = []
        number = actor.history
        while (told := self._histories[number]) is not None:
            number, answer, now = told
            answers.append((answer, now))
            asked = self._requests[Actor(actor.process, number)]
            assert asked is not None
            known.append(asked)
        return tuple(reversed(answers)), tuple(reversed(known))
