"""What a step tells of its progress is shown, rarely written, and never in its way."""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, SupportsFloat

import pytest

from sagas.authoring.context import Context
from sagas.core.states import Lease, Progress, SagaState, StepState
from sagas.engine.attempt.heartbeat import INTERVAL, ProgressReport
from sagas.engine.clock import SystemClock
from sagas.errors import Unavailable
from sagas.testing import FakeContext, run
from tests.engine.acting import ACT, Acting, Brief, helpers, until
from tests.support.bench import Bench
from tests.support.sagas import LOG, Order

pytestmark = pytest.mark.usefixtures("acting")
Make = Callable[..., Bench]
REQUEST = {"item": "train"}
STATE = SagaState("id", "acting", "1", (StepState("act"),), lease=Lease("me", 1.0, 2.0))
SHORT = 0.1


class Notebook:
    """Where progress is written; it may fail, or be in other hands."""

    def __init__(self) -> None:
        self.notes: list[Progress] = []
        self.times: list[float] = []
        self.failures = list[Exception]()
        self.lost = False

    def note_progress(self, state: SagaState, progress: Progress) -> bool:
        self.times.append(time.monotonic())
        if self.failures:
            raise self.failures.pop()
        self.notes.append(progress)
        return not self.lost

    @property
    def fractions(self) -> list[float]:
        return [note.fraction for note in self.notes]


def report(notebook: Notebook, lost: Callable[[], None] = lambda: None) -> ProgressReport:
    return ProgressReport(notebook.note_progress, STATE, SystemClock(), lost, SHORT)


def test_silence_starts_no_thread() -> None:
    with report(Notebook()):
        assert helpers() == []


def test_the_last_word_is_written_when_the_time_has_come() -> None:
    book = Notebook()
    with report(book) as progress:
        began = time.monotonic()
        progress.report(0.1, "first")
        progress.report(0.2, "second")
        until(lambda: book.notes)
        assert book.times[0] - began >= SHORT
    assert [(note.fraction, note.message) for note in book.notes] == [(0.2, "second")]


def test_writes_keep_their_distance() -> None:
    book = Notebook()
    with report(book) as progress:
        told = 0

        def enough() -> bool:
            nonlocal told
            told += 1
            progress.report(told / 10_000, "")
            return len(book.notes) == 4

        until(enough)
    assert all(later - earlier >= SHORT * 0.9 for earlier, later in zip(book.times, book.times[1:], strict=False))
    assert book.fractions == sorted(book.fractions)


def test_a_short_step_writes_nothing() -> None:
    book = Notebook()
    with report(book) as progress:
        progress.report(1.0, "done")
    progress.report(0.5, "too late")
    assert book.notes == []
    assert helpers() == []


@pytest.mark.parametrize("error", [Unavailable("DynamoDB is out of reach"), TypeError("not JSON")])
def test_a_failing_write_is_forgotten(error: Exception) -> None:
    book = Notebook()
    book.failures = [error]
    with report(book) as progress:
        progress.report(0.1, "")
        until(lambda: book.times)
        progress.report(0.2, "")
        until(lambda: book.notes)
    assert book.fractions == [0.2]


def test_a_refused_write_tells_that_the_lease_is_lost() -> None:
    book, told = Notebook(), list[str]()
    book.lost = True
    with report(book, lambda: told.append("lost")) as progress:
        progress.report(0.1, "")
        until(lambda: told)
        progress.report(0.2, "")
        until(lambda: not helpers())
    assert book.fractions == [0.1]


def test_whoever_writes_anyway_takes_it_along() -> None:
    book = Notebook()
    with ProgressReport(book.note_progress, STATE, SystemClock(), lambda: None, 0.0) as progress:
        assert progress.take() is None
        progress.report(0.3, "x" * 300)
        until(lambda: book.notes or progress.take())
        assert progress.take() is None
    assert all(note.message == "x" * 200 for note in book.notes)


@pytest.mark.parametrize(("kind", "told"), [(Acting, 0.25), (Brief, Decimal("0.25"))])
def test_it_is_shown_and_gone_when_the_step_has_ended(bench: Make, kind: type[Any], told: SupportsFloat) -> None:
    """Also where the heartbeat writes it, which then goes on."""
    b = bench(kind)
    seen: list[Any] = []

    def work(ctx: Context) -> None:
        began = time.monotonic()
        ctx.progress(told, "packing")
        until(lambda: b.show(ctx.saga_id)["progress"])
        assert time.monotonic() - began >= INTERVAL
        assert "sagas-progress" in helpers()
        assert ("sagas-heartbeat" in helpers()) == (kind is Brief)
        seen.append(b.show(ctx.saga_id)["progress"])

    ACT.append(work)
    saga_id = b.start("brief" if kind is Brief else "acting", REQUEST)
    b.run()
    assert len(seen) == 1
    assert (seen[0]["step"], seen[0]["fraction"], seen[0]["message"]) == ("act", 0.25, "packing")
    assert seen[0]["at"].endswith("Z")
    saga = b.show(saga_id)
    assert (saga["status"], saga["progress"]) == ("COMPLETED", None)
    assert "progress" not in b.stack.control(saga_id)
    assert LOG == ["act:1"]


def test_a_short_step_costs_nothing(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Acting)
    monkeypatch.setattr(b.engine.control, "note_progress", None)
    ACT.append(lambda ctx: ctx.progress(1.0, "done"))
    saga_id = b.start("acting", REQUEST)
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert LOG == ["act:1"]


def test_an_outage_does_not_fail_the_step(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Acting)
    tried: list[Progress] = []

    def failing(state: SagaState, progress: Progress) -> bool:
        tried.append(progress)
        raise Unavailable("DynamoDB is out of reach")

    def work(ctx: Context) -> None:
        ctx.progress(0.5, "half \udc80")
        until(lambda: tried)

    monkeypatch.setattr(b.engine.control, "note_progress", failing)
    ACT.append(work)
    saga_id = b.start("acting", REQUEST)
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert LOG == ["act:1"]


def test_only_the_lease_holder_notes_progress_and_changes_nothing_else(bench: Make) -> None:
    b = bench(Brief)
    control = b.engine.control

    def work(ctx: Context) -> None:
        state, before = b.state(ctx.saga_id), b.stack.control(ctx.saga_id)
        told = Progress(0.5, "half \udc80", b.clock.now())
        assert control.note_progress(state, told)
        after = b.stack.control(ctx.saga_id)
        assert after.pop("progress")["M"]["message"] == {"S": "half \\udc80"}
        assert {**after, "lease_expires_at": ""} == {**before, "lease_expires_at": ""}
        assert state.lease is not None
        assert control.extend(state, state.lease.expires_at, Progress(0.6, "", b.clock.now()))
        assert b.state(ctx.saga_id).progress == Progress(0.6, "", b.clock.now())
        b.clock.advance(5)
        assert b.recover(stale_after=0) == [ctx.saga_id]
        assert b.show(ctx.saga_id)["progress"] is None
        assert not control.note_progress(state, told)
        assert b.show(ctx.saga_id)["progress"] is None

    ACT.append(work)
    saga_id = b.start("brief", REQUEST)
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert LOG == ["act:1", "act:2"]


class Scalar:
    """A number of another library, which only converts itself."""

    def __float__(self) -> float:
        return 0.5


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        *((-1, [0.0]), (2, [1.0]), (float("inf"), [1.0]), (float("nan"), []), (0.5, [0.5])),
        *((Decimal("0.5"), [0.5]), (Fraction(1, 2), [0.5]), (Scalar(), [0.5])),
        *((Decimal("inf"), [1.0]), (Decimal("nan"), []), (Fraction(-1, 2), [0.0])),
    ],
)
def test_a_fraction_is_a_float(
    bench: Make, monkeypatch: pytest.MonkeyPatch, told: SupportsFloat, kept: list[float]
) -> None:
    """And a test sees what a function stores."""
    b = bench(Acting)
    heard: list[float] = []
    fake = FakeContext(progress=lambda fraction, message: heard.append(fraction))
    fake.progress(told)
    assert [fraction for fraction, _ in fake.progressed] == heard == kept
    assert {type(fraction) for fraction in heard} <= {float}
    heard.clear()

    def listen(self: ProgressReport, fraction: float, message: str) -> None:
        heard.append(fraction)

    monkeypatch.setattr(ProgressReport, "report", listen)
    ACT.append(lambda ctx: ctx.progress(told))
    b.start("acting", REQUEST)
    b.run()
    assert heard == kept
    assert {type(fraction) for fraction in heard} <= {float}
    ACT.append(lambda ctx: ctx.progress(told))
    assert run(Acting, Order("train")).status == "COMPLETED"
