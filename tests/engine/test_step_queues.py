"""A backlog is no stall: what waits in line is neither sent anew for long nor undone, and what was lost is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from msgspec import structs
from msgspec.structs import replace

from sagas.core.commands import Backlog
from sagas.core.states import SagaState, StepState
from sagas.engine.step_queues import StepQueues
from sagas.engine.worker import QueueProgress
from sagas.errors import NotFound, Unavailable
from sagas.messaging.message import Message
from sagas.store.watermarks import Watermark
from tests.support.bench import Bench, ManualClock
from tests.support.sagas import FAIL, LOG, REJECTED, Trip

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
    rests: list[tuple[float, bool, bool]] = field(default_factory=list[tuple[float, bool, bool]])
    resent: dict[int, int] = field(default_factory=dict[int, int])

    def waiting(self, saga: str, step: str) -> int:
        self.asked += 1
        if self.messages < 0:
            raise NotFound("no such queue")
        return self.messages

    def representative(self, saga: str, step: str) -> str:
        return step

    def get(self, saga: str, step: str) -> Watermark:
        return self.known

    def note(self, saga: str, step: str, passed: float, at: float, *, resumed: bool = False) -> None:
        if self.away:
            raise Unavailable("away")
        self.notes.append((passed, at if resumed else 0.0))

    def note_rest(self, saga: str, step: str, at: float, *, empty: bool, silent: bool) -> None:
        self.rests.append((at, empty, silent))

    def reserve(self, saga: str, step: str, minute: int, count: int, most: int) -> bool:
        room = self.resent.get(minute, 0) + count <= most
        self.resent[minute] = self.resent.get(minute, 0) + count * room
        return room


def _lanes(queue: Queue, now: float = SENT + 5_000) -> StepQueues:
    return StepQueues(queue, queue, ManualClock(now))  # pyright: ignore[reportArgumentType]


def _notes(queue: Queue) -> tuple[QueueProgress, ManualClock]:
    clock = ManualClock()
    return QueueProgress(lambda: queue, clock), clock  # pyright: ignore[reportArgumentType]


SILENT = SagaState("id", "trip", "1", (StepState("book"),), updated_at=SENT)


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        (Queue(0), Backlog.UNKNOWN),
        (Queue(0, Watermark(SENT + GOOD_WHILE)), Backlog.UNKNOWN),
        (Queue(0, Watermark(SENT - 1, noted_at=SENT + 4_911)), Backlog.WAITING),
        (Queue(0, Watermark(SENT - 1, noted_at=SENT + 4_910)), Backlog.UNKNOWN),
        (Queue(0, Watermark(SENT, noted_at=SENT + 4_911)), Backlog.UNKNOWN),
        (Queue(0, Watermark(SENT + GOOD_WHILE + 1)), Backlog.LOST),
        (Queue(0, Watermark(SENT + GOOD_WHILE + 1, resumed_at=SENT - 300)), Backlog.UNKNOWN),
        (Queue(0, Watermark(SENT + GOOD_WHILE + 1, resumed_at=SENT - 301)), Backlog.LOST),
        (Queue(-1), Backlog.UNKNOWN),
        (Queue(1), Backlog.WAITING),
        (Queue(1, Watermark(SENT + GOOD_WHILE)), Backlog.WAITING),
        (Queue(1, Watermark(SENT + GOOD_WHILE + 1)), Backlog.UNKNOWN),
        (Queue(1, Watermark(SENT + GOOD_WHILE + 1, resumed_at=SENT + 4_701)), Backlog.WAITING),
        (Queue(1, Watermark(SENT + GOOD_WHILE + 1, resumed_at=SENT + 4_700)), Backlog.UNKNOWN),
    ],
)
def test_a_message_is_lost_when_its_lane_is_empty_and_handled_what_was_sent_later(queue: Queue, said: Backlog) -> None:
    assert _lanes(queue).backlog(SILENT) is said


def test_a_wait_that_was_asked_for_is_no_silence() -> None:
    later = structs.replace(SILENT, not_before=SENT + 100)
    assert _lanes(Queue(1, Watermark(SENT + GOOD_WHILE + 50))).backlog(later) is Backlog.WAITING


def test_what_is_sent_anew_crowds_nothing_out() -> None:
    queue = Queue(5_000, Watermark(SENT + GOOD_WHILE + 1))
    lanes = _lanes(queue)
    said = [lanes.backlog(SILENT) for _ in range(501)]
    assert said == [Backlog.UNKNOWN] * 500 + [Backlog.WAITING]
    assert queue.asked == 1, "once a run"


def test_many_at_once_crowd_nothing_out_either() -> None:
    queue = Queue(5_000, Watermark(SENT + GOOD_WHILE + 1))
    said = [_lanes(queue).backlog(SILENT) for _ in range(30)]
    assert said.count(Backlog.UNKNOWN) == 20, "each has a share of 25 reserved"
    said = [_lanes(queue, SENT + 5_060).backlog(SILENT) for _ in range(30)]
    assert said.count(Backlog.UNKNOWN) == 20, "and as many in the next minute"


def test_what_is_sent_anew_is_no_line() -> None:
    """One of many that recover at once finds the queue empty, and says so before the others see what it sends."""
    queue = Queue(0)
    first = StepQueues(queue, queue, ManualClock(SENT + 5_000), notes_empty=True)  # pyright: ignore[reportArgumentType]
    assert first.backlog(SILENT) is Backlog.UNKNOWN
    assert queue.rests == [(SENT + 5_000, True, True)]
    queue.messages, queue.known = 25, Watermark(empty_at=SENT + 5_000)
    assert _lanes(queue).backlog(SILENT) is Backlog.UNKNOWN
    for sent in (SENT + 4_940, SENT + 5_001):
        assert _lanes(queue).backlog(structs.replace(SILENT, updated_at=sent)) is Backlog.WAITING


def test_a_single_saga_tells_nobody_of_an_empty_lane() -> None:
    queue = Queue(0, Watermark(noted_at=SENT + 4_900))
    assert _lanes(queue).backlog(SILENT) is Backlog.UNKNOWN
    assert queue.rests == []


@pytest.mark.parametrize("messages", [0, 1])
def test_a_lane_that_has_handled_nothing_for_a_good_while_is_noted(messages: int) -> None:
    for noted_at, rests in (
        (SENT + 5_000 - GOOD_WHILE, []),
        (SENT + 4_999 - GOOD_WHILE, [(SENT + 5_000, False, True)]),
    ):
        queue = Queue(messages, Watermark(noted_at=noted_at))
        _lanes(queue).backlog(SILENT)
        assert queue.rests == rests


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


@pytest.mark.slow
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
    assert not any({"MessageResent", "SagaRecovered"} & {*b.actions(saga_id)} for saga_id in ids)


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
    assert b.state(lost).recovery.attempts == 0


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


def _before_pay(b: Bench) -> list[str]:
    """Three trips whose first step is done."""
    ids = [b.start("trip", {"item": f"train {n}"}) for n in range(3)]
    for _ in ids:
        b.deliver("trip", "book")
    return ids


def _without_a_function(b: Bench, hours: float) -> None:
    """No function runs: whatever is sent comes to the dead letters unhandled."""
    end = b.clock.now() + hours * 3600
    while b.clock.now() < end:
        b.lose_messages()
        b.clock.advance(300)
        b.recover()


def _need_a_person(b: Bench) -> list[str]:
    return sorted(saga["saga_id"] for saga in b.engine.reader.attention(None, 10, None)["sagas"])


def _stalls(b: Bench, saga_id: str) -> int:
    return b.actions(saga_id).count("SagaRecovered")


def test_a_function_that_cannot_run_undoes_nothing(bench: Callable[..., Bench]) -> None:
    """For twelve hours: the supervisor sends anew, ever less often; then it goes on by itself."""
    b = bench(Trip)
    ids = _before_pay(b)
    _without_a_function(b, 2)
    assert _need_a_person(b) == []
    _without_a_function(b, 10)
    assert _need_a_person(b) == sorted(ids)
    for saga_id in ids:
        shown = b.show(saga_id)
        assert (shown["status"], shown["recovery_attempts"]) == ("RUNNING", 0)
        assert shown["attention"]["reason"].startswith("no response at step pay")
        assert b.actions(saga_id).count("MessageResent") < 20
    b.lose_messages()
    b.clock.advance(3_720)
    assert sorted(b.recover()) == sorted(ids), "within an hour"
    b.run()
    assert [b.show(saga_id)["status"] for saga_id in ids] == ["COMPLETED"] * 3
    assert (_need_a_person(b), sum(_stalls(b, saga_id) for saga_id in ids)) == ([], 0)
    assert LOG.count("pay:1") == 3
    assert "unbook:1" not in LOG


@pytest.mark.slow
def test_what_others_pass_once_its_function_runs_again_did_not_stall(bench: Callable[..., Bench]) -> None:
    b = bench(Trip)
    ids = _before_pay(b)
    _without_a_function(b, 12)
    b.lose_messages()
    for _ in range(20):
        b.clock.advance(300)
        b.engine.recovery.watermarks.note("trip", "pay", b.clock.now(), b.clock.now())
        b.recover()
    b.run()
    assert [b.show(saga_id)["status"] for saga_id in ids] == ["COMPLETED"] * 3
    assert sum(_stalls(b, saga_id) for saga_id in ids) == 0


def test_an_undo_whose_function_cannot_run_is_not_given_up(bench: Callable[..., Bench]) -> None:
    b = bench(Trip)
    FAIL["pay"] = REJECTED
    saga_id = b.start("trip", {"item": "train"})
    b.deliver("trip", "book")
    b.deliver("trip", "pay")
    _without_a_function(b, 12)
    assert (b.show(saga_id)["status"], _need_a_person(b)) == ("COMPENSATING", [saga_id])
    b.clock.advance(3_720)
    b.recover()
    b.run()
    assert (b.show(saga_id)["status"], _need_a_person(b)) == ("COMPENSATED", [])


def test_a_retry_sends_anew_what_nothing_answers_and_takes_it_off_the_list(bench: Callable[..., Bench]) -> None:
    b = bench(Trip)
    saga_id = _before_pay(b)[0]
    _without_a_function(b, 4)
    b.lose_messages()
    seq = b.state(saga_id).seq
    for _ in range(2):  # as if the first answer had been lost
        b.engine.operations.retry("trip", saga_id, "the package is fixed", "ann", seq=seq)
    assert saga_id not in _need_a_person(b)
    assert len(b.stack.entries(saga_id)) == seq + 1
    retried = b.stack.entries(saga_id)[-1]
    assert (retried["action"], retried["actor"]) == ("MessageResent", "ann")
    assert retried["details"] == {"stall": False, "reason": "the package is fixed"}
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"


def test_a_message_that_died_unhandled_takes_its_saga_on_when_it_is_moved_back(bench: Callable[..., Bench]) -> None:
    b = bench(Trip)
    ids, pay = _before_pay(b), b.stack.queues["trip"]["pay"]
    dead: list[str] = []
    for _ in range(48):
        for letter in b.stack.receive("trip", "pay", 10):
            dead.append(letter["body"])
            b.stack.sqs.delete_message(QueueUrl=pay, ReceiptHandle=letter["receiptHandle"])
        b.clock.advance(300)
        b.recover()
    b.lose_messages()
    assert _need_a_person(b) == sorted(ids)
    for body in dead:
        b.stack.sqs.send_message(QueueUrl=pay, MessageBody=body)
    b.run()
    assert [b.show(saga_id)["status"] for saga_id in ids] == ["COMPLETED"] * 3
    assert _need_a_person(b) == []
    assert LOG.count("pay:1") == 3


def test_what_is_lost_again_and_again_in_a_lane_that_works_is_given_up(bench: Callable[..., Bench]) -> None:
    """Its message kills its function before it is claimed, say, and those of others do not."""
    b = bench(Trip)
    saga_id = b.start("trip", {"item": "train"})
    b.deliver("trip", "book")
    for _ in range(200):
        b.lose_messages()
        b.clock.advance(300)
        b.engine.recovery.watermarks.note("trip", "pay", b.clock.now(), b.clock.now())
        b.recover()
        if b.state(saga_id).undoing:
            break
    b.run()
    assert b.show(saga_id)["status"] == "COMPENSATED"
    assert "SagaRecoveryExhausted" in b.actions(saga_id)
    assert _stalls(b, saga_id) == 6


def test_what_was_lost_in_a_busy_lane_is_sent_anew_and_never_used_up(bench: Callable[..., Bench]) -> None:
    b = bench(Trip)
    lost = b.start("trip", {"item": "train"})
    b.lose_messages()
    b.start("trip", {"item": "tram"})
    for _ in range(8):
        b.clock.advance(4_000)
        b.engine.recovery.watermarks.note("trip", "book", b.clock.now(), b.clock.now())
        assert lost in b.recover()
        found = [record for record in b.stack.receive("trip", "book", 10) if lost in record["body"]]
        for record in found:
            b.stack.sqs.delete_message(QueueUrl=b.stack.queues["trip"]["book"], ReceiptHandle=record["receiptHandle"])
    assert b.state(lost).recovery.attempts == 0
    assert b.show(lost)["status"] == "PENDING"
    assert lost in _need_a_person(b)
