"""A backlog is no stall: what waits in line is neither sent anew for long nor undone, and what was lost is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from sagas.core.events import Backlog
from sagas.core.states import SagaState, StepState
from sagas.engine.lanes import LaneNotes, Lanes
from sagas.errors import NotFound, Unavailable
from sagas.messaging.message import Message
from sagas.store.lanes import Watermark
from tests.support.bench import Bench, ManualClock
from tests.support.sagas import LOG, Trip

GOOD_WHILE = 960.0
SENT = ManualClock().now()


@dataclass
class Queue:
    """A queue with so many messages, and what is noted of it."""

    messages: int = 0
    known: Watermark = field(default_factory=Watermark)
    asked: int = 0
    away: bool = False
    notes: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    emptied: list[float] = field(default_factory=list[float])
    resent: dict[int, int] = field(default_factory=dict[int, int])

    def waiting(self, saga: str, step: str) -> int:
        self.asked += 1
        if self.messages < 0:
            raise NotFound("no such queue")
        return self.messages

    def lane(self, saga: str, step: str) -> str:
        return step

    def get(self, saga: str, step: str) -> Watermark:
        return self.known

    def note(self, saga: str, step: str, passed: float, resumed_at: float = 0.0) -> None:
        if self.away:
            raise Unavailable("away")
        self.notes.append((passed, resumed_at))

    def note_empty(self, saga: str, step: str, at: float) -> None:
        self.emptied.append(at)

    def reserve(self, saga: str, step: str, minute: int, count: int, most: int) -> bool:
        room = self.resent.get(minute, 0) + count <= most
        self.resent[minute] = self.resent.get(minute, 0) + count * room
        return room


def _lanes(queue: Queue, now: float = SENT + 5_000) -> Lanes:
    return Lanes(queue, queue, ManualClock(now))  # pyright: ignore[reportArgumentType]


def _notes(queue: Queue) -> tuple[LaneNotes, ManualClock]:
    clock = ManualClock()
    return LaneNotes(queue, clock), clock  # pyright: ignore[reportArgumentType]


SILENT = SagaState("id", "trip", "1", (StepState("book"),), updated_at=SENT)


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        (Queue(0, Watermark(SENT + 5_000)), Backlog.NONE),
        (Queue(-1), Backlog.NONE),
        (Queue(1), Backlog.WAITING),
        (Queue(1, Watermark(SENT + GOOD_WHILE)), Backlog.WAITING),
        (Queue(1, Watermark(SENT + GOOD_WHILE + 1)), Backlog.PASSED_BY),
        (Queue(1, Watermark(SENT + GOOD_WHILE + 1, resumed_at=SENT + 4_701)), Backlog.WAITING),
        (Queue(1, Watermark(SENT + GOOD_WHILE + 1, resumed_at=SENT + 4_700)), Backlog.PASSED_BY),
    ],
)
def test_a_lane_explains_a_silence_unless_it_is_empty_or_went_on(queue: Queue, said: Backlog) -> None:
    assert _lanes(queue).backlog(SILENT) is said


def test_a_wait_that_was_asked_for_is_no_silence() -> None:
    later = replace(SILENT, not_before=SENT + 100)
    assert _lanes(Queue(1, Watermark(SENT + GOOD_WHILE + 50))).backlog(later) is Backlog.WAITING


def test_what_is_sent_anew_crowds_nothing_out() -> None:
    queue = Queue(5_000, Watermark(SENT + GOOD_WHILE + 1))
    lanes = _lanes(queue)
    said = [lanes.backlog(SILENT) for _ in range(501)]
    assert said == [Backlog.PASSED_BY] * 500 + [Backlog.WAITING]
    assert queue.asked == 1, "once a run"


def test_many_at_once_crowd_nothing_out_either() -> None:
    queue = Queue(5_000, Watermark(SENT + GOOD_WHILE + 1))
    said = [_lanes(queue).backlog(SILENT) for _ in range(30)]
    assert said.count(Backlog.PASSED_BY) == 20, "each has a share of 25 reserved"
    said = [_lanes(queue, SENT + 5_060).backlog(SILENT) for _ in range(30)]
    assert said.count(Backlog.PASSED_BY) == 20, "and as many in the next minute"


def test_what_is_sent_anew_is_no_line() -> None:
    """One of many that recover at once finds the queue empty, and says so before the others see what it sends."""
    queue = Queue(0)
    first = Lanes(queue, queue, ManualClock(SENT + 5_000), tells=True)  # pyright: ignore[reportArgumentType]
    assert first.backlog(SILENT) is Backlog.NONE
    assert queue.emptied == [SENT + 5_000]
    queue.messages, queue.known = 25, Watermark(empty_at=SENT + 5_000)
    assert _lanes(queue).backlog(SILENT) is Backlog.NONE
    for sent in (SENT + 4_940, SENT + 5_001):
        assert _lanes(queue).backlog(replace(SILENT, updated_at=sent)) is Backlog.WAITING


def test_a_single_saga_tells_nobody() -> None:
    queue = Queue(0)
    assert _lanes(queue).backlog(SILENT) is Backlog.NONE
    assert queue.emptied == []


def test_an_environment_notes_how_far_it_is_every_half_minute() -> None:
    queue = Queue()
    notes, clock = _notes(queue)
    message = Message("id", "trip", "book", 0, False, 1)
    for second in range(70):
        notes.handled(replace(message, sent_at=SENT + second))
        clock.advance(1)
    assert queue.notes == [(SENT + 30, 0.0), (SENT + 60, 0.0)]


def test_an_environment_notes_at_once_that_the_store_is_back() -> None:
    queue = Queue()
    notes, clock = _notes(queue)
    message = Message("id", "trip", "book", 0, False, 1, sent_at=SENT)
    notes.failed(message)
    queue.away = True
    notes.handled(message)
    queue.away = False
    clock.advance(1)
    notes.handled(message)
    notes.handled(message)
    assert queue.notes == [(SENT, SENT + 1)]


def test_a_slow_lane_undoes_nothing(bench: Callable[..., Bench]) -> None:
    """Thirty sagas, one worked off in 40 s: 20 minutes of line behind a patience of two."""
    b = bench(Trip)
    ids = [b.start("trip", {"item": f"train {n}"}) for n in range(30)]
    for _ in range(30):
        b.deliver("trip", "book")
        b.clock.advance(40)
        b.recover()
    b.run()
    assert [b.show(saga_id)["status"] for saga_id in ids] == ["COMPLETED"] * 30
    assert sorted(LOG) == ["book:1"] * 30 + ["pay:1"] * 30 + ["tell:1"] * 30
    assert not any("Recovered" in b.actions(saga_id) for saga_id in ids)


def test_what_was_lost_is_sent_anew_once_its_lane_is_empty(bench: Callable[..., Bench]) -> None:
    b = bench(Trip)
    lost = b.start("trip", {"item": "train"})
    b.lose_messages()
    other = b.start("trip", {"item": "tram"})
    b.clock.advance(1_000)
    assert b.recover() == []
    b.deliver("trip", "book")
    b.clock.advance(2_000)
    assert b.recover() == [lost]
    b.run()
    assert [b.show(saga_id)["status"] for saga_id in (lost, other)] == ["COMPLETED"] * 2
    assert b.state(lost).recovery_attempts == 0


def test_an_operator_need_not_wait_until_it_is_looked_at_again(bench: Callable[..., Bench]) -> None:
    b = bench(Trip)
    lost = b.start("trip", {"item": "train"})
    b.lose_messages()
    b.start("trip", {"item": "tram"})
    b.clock.advance(1_000)
    assert b.recover() == [], "it may be in the line, and is looked at in a quarter of an hour"
    b.deliver("trip", "book")
    b.clock.advance(10)
    assert b.engine.recovery.run(60.0, stale_after=60.0).recovered == [lost]


def test_what_was_lost_in_a_busy_lane_is_sent_anew_and_never_used_up(bench: Callable[..., Bench]) -> None:
    b = bench(Trip)
    lost = b.start("trip", {"item": "train"})
    b.lose_messages()
    b.start("trip", {"item": "tram"})
    for _ in range(8):
        b.clock.advance(2_000)
        b.engine.recovery.watermarks.note("trip", "book", b.clock.now())
        assert lost in b.recover()
        found = [record for record in b.stack.receive("trip", "book", 10) if lost in record["body"]]
        for record in found:
            b.stack.sqs.delete_message(QueueUrl=b.stack.queues["trip"]["book"], ReceiptHandle=record["receiptHandle"])
    assert b.state(lost).recovery_attempts == 0
    assert b.show(lost)["status"] == "PENDING"
