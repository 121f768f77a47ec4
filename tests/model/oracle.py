"""What a saga of one release will do under the code of another, as the rules say: ``sagas.core.fit`` has no part."""

from __future__ import annotations

from typing import Protocol

from tests.model.lived import Act
from tests.model.pairs import WAITS, Part, Release, Script, with_new_undos


class Met(Protocol):
    """A saga's releases, its script, and after how many acts it met what the script has; -1 for never."""

    old: Release
    new: Release
    script: Script
    deployed_at: int
    back_at: int
    cancelled_at: int
    unreadable: bool
    """The second release cannot read the request, which plain steps take."""
    upcast: bool
    """The second release converts the results that it cannot read."""
    sent: dict[str, Part]
    """The steps whose signal was sent, as they were deployed then."""
    served: list[bool]
    """By act: whether a function with the second release journaled it. Asked only while functions have either."""


class Oracle:
    """Says what a saga will do.

    Args:
        life: what the saga met.
    """

    def __init__(self, life: Met) -> None:
        self.script = life.script
        self.steps = [part for part in life.old if not part.retired]
        self._old, self._new = ({part.name: part for part in release} for release in (life.old, life.new))
        self._deployed_at, self._back_at, self._cancelled_at = life.deployed_at, life.back_at, life.cancelled_at
        self._served, self._unreadable = life.served, life.unreadable
        self._upcast, self._sent = life.upcast, life.sent
        self._with_new_undos = with_new_undos(life.old, life.new)
        self._returned = False
        self.acts: list[Act] = []
        self.waited = False
        self.stands = dict[int, str]()
        """By position: ``done``, ``begun`` (children), ``tried``, ``skipped``, ``undone``, ``passed`` or ``stuck``."""
        self.tried, self.polled = set[int](), set[int]()
        """The positions of steps that have begun, and not completed; of steps that were not ready."""
        self.by = dict[int, Part]()
        """By position: the step as it was deployed when it gave its result."""
        self.status = ""
        self._cause = ""
        self._stopped = 0

    def foretell(self) -> str:
        """Say the status in which it comes to rest, and its acts until then."""
        self.status = self._forward(0)
        return self.status

    def retried(self) -> str:
        """Say the same of what follows once the first release is deployed again, and the saga retried."""
        self._returned = True
        if self.script.keeps_new_undos:
            self._old = {part.name: part for part in self._with_new_undos}
        self._act("SagaRetried")
        if self.status == "DEAD_LETTERED":
            self.status = self._forward(self._stopped)
        else:
            again = [place for place, how in self.stands.items() if how == "stuck"]
            for place in sorted(again, reverse=True):
                self._undo(place, self.steps[place])
            self.status = self._undone()
        return self.status

    def _act(self, fact: str, index: int = -1, error: str = "") -> None:
        self.acts.append(Act(fact, index, error))

    @property
    def _code(self) -> dict[str, Part]:
        """What is deployed."""
        place = len(self.acts)
        if self.script.mixed and not self._returned:
            return self._new if place < len(self._served) and self._served[place] else self._old
        came = 0 <= self._deployed_at <= place
        back = self._returned or 0 <= self._back_at <= place
        return self._new if came and not back else self._old

    def _changed(self, place: int) -> str:
        """Code of a step runs, or a wait begins or is answered, only by code of the same name and kind."""
        was, now = self.steps[place], self._code.get(self.steps[place].name)
        if now is None:
            return "CodeGone"
        return "TypeChanged" if now.kind != was.kind else ""

    def _misfit(self, place: int) -> str:
        """Nor does it run before it can read what it takes."""
        changed, code = self._changed(place), self._code
        takes = "" if changed else code[self.steps[place].name].takes
        if changed or self._skips(place):
            return changed
        unreadable = self._unreadable and code is self._new and not self.steps[place].kind
        return "TypeChanged" if unreadable or (takes and not self._reads(takes)) else ""

    def _skips(self, place: int) -> bool:
        """Whether the condition of a step says no. Then nobody needs what its code takes."""
        return self._code[self.steps[place].name].when == "no"

    def _skip(self, place: int) -> str:
        """Go on without a step. One that may have begun stays what it is."""
        self._act("StepSkipped", place)
        self.stands.setdefault(place, "skipped")
        return ""

    def _place(self, name: str) -> int:
        return next((place for place, part in enumerate(self.steps) if part.name == name), -1)

    def _reads(self, name: str) -> bool:
        """Whether the saga has the result of a step, and the deployed code can read it."""
        code = self._code
        if self._place(name) not in self.by:
            return bool(code[name].when)
        same = self.by[self._place(name)].stored == code[name].stored
        return same or (self._upcast and code is self._new)

    def _released(self) -> bool:
        """Whether the first release comes back."""
        self.waited = self.waited or self.script.settle > 0
        returns = self.script.returns and self.script.settle > 0 and not self._returned
        self._returned = self._returned or returns
        return returns

    @property
    def _cancelled(self) -> bool:
        return 0 <= self._cancelled_at <= len(self.acts)

    def _forward(self, place: int) -> str:
        while place < len(self.steps):
            was = self.steps[place]
            if self._cancelled:
                return self._turned("cancel")
            while error := self._misfit(place):
                if self._cancelled_while_waiting():
                    return self._turned("cancel")
                if not self._released():
                    return self._dead(place, error)
            skips = self._skips(place) and self.stands.get(place) != "begun"
            end = self._skip(place) if skips else getattr(self, f"_{was.kind or 'plain'}")(place)
            if end:
                return end
            if place in self.by:
                self.stands[place] = "done"
                self.tried.discard(place)
            place += 1
        # A signal that was accepted is taken first. Only if a process dies there, a cancel comes in between.
        return self._turned("cancel") if self._cancelled and self._cancelled_at < len(self.acts) else "COMPLETED"

    def _cancelled_while_waiting(self) -> bool:
        cancelled = self.script.cancels == WAITS and self.script.settle > 0 and not self._returned
        self.waited = self.waited or cancelled
        return cancelled

    def _dead(self, place: int, error: str) -> str:
        self._act("StepDeadLettered", place, error)
        self._stopped = place
        return "DEAD_LETTERED"

    def _plain(self, place: int) -> str:
        """A step that was not ready needs its code again."""
        if self._code[self.steps[place].name].polls and place not in self.polled:
            self.polled.add(place)
            self._try(place)
            self._act("StepPostponed", place)
            if self._cancelled:
                return self._turned("cancel")
            while error := self._misfit(place):
                if self._cancelled_while_waiting():
                    return self._turned("cancel")
                if not self._released():
                    return self._dead(place, error)
            if self._skips(place):
                return self._skip(place)
        if place == self.script.fails:
            self._try(place)
            self._act("StepFailed", place)
            return self._turned("failure")
        self.by[place] = self._code[self.steps[place].name]
        self._act("StepCompleted", place)
        return ""

    def _try(self, place: int) -> None:
        self.stands[place] = "tried"
        self.tried.add(place)

    def _time(self, place: int) -> str:
        """A wait that has begun needs no code."""
        self._try(place)
        self._act("WaitStarted", place)
        if self._cancelled:
            return self._turned("cancel")
        self._act("WaitEnded", place)
        self.by[place] = self.steps[place]
        return ""

    def _signal(self, place: int) -> str:
        """An accepted signal is taken, whatever is deployed. A wait that nobody could answer does not time out."""
        self._try(place)
        self._act("WaitStarted", place)
        if self.script.signal != "early":
            if self._cancelled:
                return self._turned("cancel")
            sent = self.steps[place].name in self._sent
            while not sent and (error := self._changed(place)):
                if self._cancelled_while_waiting():
                    return self._turned("cancel")
                if not self._released():
                    return self._dead(place, error)
        if self.script.signal == "never":
            self._act("WaitTimedOut", place)
            return self._turned("failure")
        self._act("SignalReceived", place)
        self.by[place] = self._sent.get(self.steps[place].name, self.steps[place])
        return ""

    def _children(self, place: int) -> str:
        """Children that have begun are joined without code, and undone. What follows if they failed, only code says."""
        begun = self._code[self.steps[place].name]
        if self.stands.get(place) != "begun":
            self._act("ChildrenStarted", place)
            self.stands[place] = "begun"
        if self._cancelled:
            return self._turned("cancel")
        while place == self.script.fails and (error := self._changed(place)):
            if self._cancelled_while_waiting():
                return self._turned("cancel")
            if not self._released():
                return self._dead(place, error)
        self._act("ChildrenEnded", place)
        self.by[place] = begun
        return self._turned("failure") if place == self.script.fails else ""

    def _turned(self, cause: str) -> str:
        # If a process dies between a failure and what follows from it, a cancel may come first.
        self._cause = cause = "cancel" if self._cancelled else cause
        if cause == "cancel":
            self._act("CancelRequested")
        code = self._code
        self._act("CompensationStarted")
        below = len(self.steps)
        while (place := self._next(below, code)) is not None:
            code = self._undo(place, self.steps[place])
            below = place
        return self._undone()

    def _undone(self) -> str:
        if "stuck" in self.stands.values():
            return "COMPENSATION_FAILED"
        return "CANCELLED" if self._cause == "cancel" else "COMPENSATED"

    def _next(self, below: int, code: dict[str, Part]) -> int | None:
        """The last step before ``below`` that owes an undo to the code that looks for one: what had an undo at the
        start, and what has one now and is of its kind still."""
        owing = ("done", "begun", "tried")
        done = (place for place in reversed(range(below)) if self.stands.get(place) in owing)
        return next((place for place in done if self._owed(place, code)), None)

    def _owed(self, place: int, code: dict[str, Part]) -> bool:
        was = self.steps[place]
        now = code.get(was.name)
        added = now is not None and now.kind == was.kind and now.undo
        return (was.kind == "children" or was.undo or added) and self._wants(place, code)

    def _wants(self, place: int, code: dict[str, Part]) -> bool:
        """Whether a step wants to be undone that may not have completed. Without its undo, nobody can say."""
        now = code.get(self.steps[place].name)
        if place not in self.tried or now is None or not now.undo:
            return True
        return now.started or (place in self.polled and not now.own)

    def _undo(self, place: int, was: Part) -> dict[str, Part]:
        """Undo a step; return the code that looks for the next. An undo that a later release added and chose is not
        passed in silence once it is deployed no more. One that cannot read its step's result fails, and waits for no
        release."""
        called = place == self.script.loses and self._deployed_at == len(self.acts) and not self._returned
        if called:
            gone = self._code.get(was.name)
            if not (gone and gone.undo) and was.undo:
                self._released()
            self._act("CompensationAttemptFailed", place)
        now = self._code.get(was.name)
        fits = was.kind == "children" or (now is not None and now.undo) or (was.undo and self._released())
        code = self._code
        now = code.get(was.name)
        lacks = place in self.tried
        if fits and lacks and not called and not self._wants(place, code):
            self._act("CompensationPostponed", place)
            self.stands[place] = "passed"
            return code
        reads = was.kind == "children" or now is None or not now.own or lacks or self._reads(was.name)
        if fits and reads:
            self._act("StepCompensated", place)
            self.stands[place] = "undone"
        else:
            self._act("CompensationFailed", place, "TypeChanged" if fits else "CodeGone")
            self.stands[place] = "stuck"
        return code

    @property
    def gives(self) -> Part | None:
        """The step that gives the result of a saga: the one that its release named, else its last one."""
        last = len(self.steps) - 1
        return self.by.get(next((place for place, part in enumerate(self.steps) if part.gives), last))
