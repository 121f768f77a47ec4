"""The caller and the operator, who start, cancel and repair the sagas, and wait until all are at rest."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from sagas.core.states import SagaState, SagaStatus
from sagas.errors import Ambiguous, Conflict, InvalidRequest, SagaError, Unavailable
from tests.soak.harbour import Harbour
from tests.soak.lives import Life

_HANDS = 4
"""Calls of the API at a time."""
_INSISTENCE = 100.0
"""Seconds for which a call is repeated: longer than the lease of one that died."""
_PAUSE = 0.3
_TICK = 1.0
"""Seconds from one tick of the supervisor to the next."""
_IMPATIENT = 6.0
"""Seconds of silence that count as a stall once no more sagas are started, so that queues are short."""
_NEEDY = (SagaStatus.DEAD_LETTERED, SagaStatus.FAILED, SagaStatus.COMPENSATION_FAILED)
_FITS = {
    "retry": (SagaStatus.DEAD_LETTERED, SagaStatus.COMPENSATION_FAILED),
    "redrive": (SagaStatus.DEAD_LETTERED,),
    "cancel": (SagaStatus.DEAD_LETTERED,),
    "compensate": (SagaStatus.DEAD_LETTERED, SagaStatus.FAILED),
    "resolve": _NEEDY,
}


@dataclass(slots=True)
class Course:
    """What became of a life. ``wrong``: answers that should not have been given."""

    life: Life
    started: float = 0.0
    cancelled: str = ""
    signalled: bool = False
    attended: bool = False
    wrong: list[str] = field(default_factory=list[str])
    tasks: list[Future[None]] = field(default_factory=list[Future[None]])

    @property
    def busy(self) -> bool:
        """Whether a task of the driver's is at it."""
        return any(not task.done() for task in self.tasks)


class Driver:
    """Drives lives through the API, so many at a time.

    Args:
        harbour: the stack.
        window: how many sagas are under way at most.
    """

    def __init__(self, harbour: Harbour, window: int) -> None:
        self._harbour = harbour
        self._window = window
        self._hands = ThreadPoolExecutor(_HANDS)
        self._over = threading.Event()
        self._redriving = threading.Lock()
        self._patience: float | None = None
        self.courses: list[Course] = []
        self.ticks: Counter[str] = Counter()

    def run(self, lives: Iterable[Life], until: float, deadline: float) -> None:
        """Start the lives, and return when all are at rest and the queues are empty.

        Args:
            lives: to be started.
            until: monotonic seconds after which no more are started.
            deadline: monotonic seconds after which nobody waits any more.
        """
        supervisor = threading.Thread(target=self._supervise, name="soak-supervisor", daemon=True)
        supervisor.start()
        try:
            self._patience = None
            self._drive(list(reversed(list(lives))), until, deadline)
            self._run_dry(deadline)
        finally:
            self._over.set()
            supervisor.join(timeout=30)
            self._hands.shutdown(wait=True, cancel_futures=True)
        for course in self.courses:
            ended = [task.exception() for task in course.tasks if task.done() and not task.cancelled()]
            course.wrong += [repr(error) for error in ended if error]

    def _drive(self, waiting: list[Life], until: float, deadline: float) -> None:
        flying: dict[str, Course] = {}
        while flying or waiting:
            if not waiting:
                self._patience = _IMPATIENT
            now = time.monotonic()
            if now > deadline:
                return
            if now > until:
                waiting.clear()
            while waiting and len(flying) < self._window:
                course = self._begin(waiting.pop())
                flying[course.life.saga_id] = course
            states = self._harbour.states(flying)
            for saga_id, state in states.items():
                if self._settled(flying[saga_id], state):
                    del flying[saga_id]
            time.sleep(0.2)

    def _run_dry(self, deadline: float) -> None:
        """Wait for the last messages: copies of others, and what dead functions had in hand."""
        while self._harbour.left() and time.monotonic() < deadline:
            time.sleep(0.5)

    def _begin(self, life: Life) -> Course:
        course = Course(life)
        self.courses.append(course)
        starts = [life.request] * life.starts
        course.tasks += [self._hands.submit(self._start, course, request) for request in starts]
        if life.other_body:
            course.tasks.append(self._hands.submit(self._start_another, course))
        return course

    def _settled(self, course: Course, state: SagaState) -> bool:
        """See to what people do to it; tell whether it is at rest, and will stay there."""
        life, now = course.life, time.monotonic()
        course.started = course.started or now
        if course.busy:
            return False
        if life.signal_after is not None and not course.signalled and now - course.started >= life.signal_after:
            course.signalled = True
            course.tasks.append(self._hands.submit(self._signal, course))
        if life.cancel_after is not None and not course.cancelled:
            if now - course.started >= life.cancel_after:
                course.cancelled = "asked"
                course.tasks.append(self._hands.submit(self._cancel, course))
            return False
        if not (state.ended or (state.status is SagaStatus.DEAD_LETTERED and not state.cancel.at)):
            return False
        if life.then and not course.attended and state.status in _FITS[life.then]:
            course.attended = True
            course.tasks.append(self._hands.submit(self._attend, course))
            return False
        return True

    # What is asked of the API. What got no answer is asked again.

    def _start(self, course: Course, request: dict[str, Any]) -> None:
        life = course.life
        saga = _insist(lambda: self._harbour.client.start(life.saga, request, key=life.key))
        if saga["saga_id"] != life.saga_id:
            course.wrong.append(f"the key started {saga['saga_id']}, too")

    def _start_another(self, course: Course) -> None:
        """Under a key that is in use; but whichever comes first is the one that is started."""
        course.tasks[0].result()
        life, client = course.life, self._harbour.client
        other = life.request | ({"number": -1} if "number" in life.request else {"order_id": "another"})
        try:
            _insist(lambda: client.start(life.saga, other, key=life.key))
        except InvalidRequest:
            return
        course.wrong.append("its key was accepted for another request")

    def _cancel(self, course: Course) -> None:
        life = course.life
        try:
            course.cancelled = _insist(lambda: self._harbour.client.cancel(life.saga, life.saga_id))["status"]
        except Conflict:
            course.cancelled = "refused"

    def _signal(self, course: Course) -> None:
        """Answer what it asks, whether it has come to that or not."""
        life = course.life
        try:
            _insist(lambda: self._harbour.client.signal(life.saga, life.saga_id, "decision", life.number))
        except Conflict:
            return

    def _attend(self, course: Course) -> None:
        """An operator's deed. One that was done, and whose answer was lost, is refused when it is repeated."""
        life, client = course.life, self._harbour.client
        deeds: dict[str, Callable[[], Any]] = {
            "retry": lambda: client.retry(life.saga, life.saga_id, "fixed"),
            "compensate": lambda: client.compensate(life.saga, life.saga_id, "given up"),
            "resolve": lambda: client.resolve(life.saga, life.saga_id, "seen", "by hand"),
            "cancel": lambda: client.cancel(life.saga, life.saga_id),
            "redrive": lambda: self._redrive(life),
        }
        try:
            _insist(deeds[life.then])
        except Conflict:
            return

    def _redrive(self, life: Life) -> None:
        """Its message is among the dead letters as soon as its queue's receives are used up."""
        with self._redriving:  # looking hides all letters for a moment, from others who look as well
            moved = self._harbour.move_letter(life.saga, life.saga_id)
        if not moved:
            raise Unavailable("its message is not there yet")

    def _supervise(self) -> None:
        while not self._over.wait(_TICK):
            try:
                counts = self._harbour.client.recover(self._patience)
            except SagaError:
                self.ticks["died"] += 1
                continue
            self.ticks.update({"ticks": 1, "recovered": counts["recovered"], "failed": counts["failed"]})


def _insist(call: Callable[[], Any]) -> Any:
    """Repeat a call until it is answered."""
    deadline = time.monotonic() + _INSISTENCE
    while time.monotonic() < deadline:
        try:
            return call()
        except (Unavailable, Ambiguous):
            time.sleep(_PAUSE)
        except Conflict as error:
            if "is changing" not in str(error) and "may still" not in str(error):
                raise
            time.sleep(_PAUSE)
    raise SagaError("nobody ever answered")
