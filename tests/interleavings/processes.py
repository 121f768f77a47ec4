"""Every process that was ever started, and how far each ever was, under numbers that are cheap to compare."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from tests.interleavings.replay import Answer, History, Process, Replay, Request, Run
from tests.interleavings.snapshot import Actor

WAITING = 1_000
"""How many processes wait for an answer at most. One that does not is run anew for it."""


class Processes:
    """Knows each process's next request; asks ``replay`` once for each history."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._waiting: OrderedDict[Actor, Run] = OrderedDict()
        self._processes: list[Process] = []
        self._histories: list[tuple[int, Answer, float] | None] = [None]
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._names: dict[int, str] = {}
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

    def name(self, actor: Actor) -> str:
        """Return how that is told."""
        if actor.process not in self._names:
            self._names[actor.process] = str(self.process(actor))
        return self._names[actor.process]

    def request(self, actor: Actor) -> Request | None:
        """Return what an actor asks for next; ``None`` if it has ended."""
        if actor not in self._requests:
            run = self._run(actor)
            self._requests[actor] = run.request
            if run.waits:
                self._waiting[actor] = run
                if len(self._waiting) > WAITING:
                    self._waiting.popitem(last=False)
        return self._requests[actor]

    def _run(self, actor: Actor) -> Run:
        if (told := self._histories[actor.history]) is not None:
            before, answer, now = told
            run = self._waiting.pop(Actor(actor.process, before), None)
            if run is not None:
                run.history.append((answer, now))
                self._replay.go_on(run)
                return run
        return self._replay.run(self.process(actor), *self._past(actor))

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
