"""The context for unit tests answers as the real one would."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sagas import Cancelled, Context, InvalidRequest
from sagas.testing import FakeContext


def test_it_is_a_context() -> None:
    ctx: Context = FakeContext()
    assert (ctx.attempt, ctx.cancelled, ctx.remaining_time()) == (1, False, 30.0)
    ctx.raise_if_cancelled()


def test_keys_follow_from_saga_and_step() -> None:
    ctx = FakeContext(saga_id="s", step="upload", attempt=3)
    assert (ctx.idempotency_key, ctx.forward_key, ctx.attempt_key) == ("s:upload", "s:upload", "s:upload:3")
    undo = FakeContext(saga_id="s", step="upload", undo=True)
    assert (undo.idempotency_key, undo.forward_key, undo.attempt_key) == (
        "s:upload:undo",
        "s:upload",
        "s:upload:undo:1",
    )
    assert FakeContext(idempotency_key="k").attempt_key == "k:1"


def test_a_cancel_is_raised() -> None:
    with pytest.raises(Cancelled):
        FakeContext(cancelled=True).raise_if_cancelled()
    with pytest.raises(Cancelled, match="step step has no time left"):
        FakeContext(remaining_time=0).raise_if_cancelled()
    over = FakeContext(remaining_time=0)
    assert over.cancelled
    later = FakeContext()
    assert not later.cancelled
    later.cancelled = True
    assert later.cancelled


def test_clients_are_given() -> None:
    s3 = object()
    assert FakeContext(client={"s3": s3}).client("s3") is s3
    assert FakeContext(client=lambda service: service).client("sns") == "sns"
    for ctx in (FakeContext(), FakeContext(client={"s3": s3})):
        with pytest.raises(LookupError, match="pass client="):
            ctx.client("sns")


def test_keys_in_s3_are_the_real_ones() -> None:
    assert FakeContext(saga="create-zip", saga_id="s").s3_key("a.zip") == "create-zip/s/a.zip"
    assert FakeContext(prefix="zips/", saga_id="s").s3_key("a.zip") == "zips/s/a.zip"
    for name in ("", "a/b", "..", "a\n", "a\x85b", "a\ud800"):
        with pytest.raises(InvalidRequest):
            FakeContext().s3_key(name)


def test_where_and_how_a_signal_is_sent_can_be_given() -> None:
    sent = list[object]()
    ctx = FakeContext(signal=sent.append, signal_path="/elsewhere")
    ctx.signal(True)
    assert (sent, ctx.signalled, ctx.signal_path) == ([True], [True], "/elsewhere")


def test_progress_is_kept() -> None:
    told: list[float] = []
    ctx = FakeContext(progress=lambda fraction, message: told.append(fraction))
    ctx.progress(0.5, "half")
    ctx.progress(1.0)
    assert ctx.progressed == [(0.5, "half"), (1.0, "")]
    assert told == [0.5, 1.0]


def test_time_is_given() -> None:
    deadline = datetime(2026, 1, 1, tzinfo=UTC)
    assert FakeContext(deadline=deadline).deadline == deadline
    assert FakeContext(remaining_time=5).remaining_time() == 5.0
    assert FakeContext(remaining_time=lambda: -1).remaining_time() == 0.0
    assert FakeContext(remaining_time=5).deadline - FakeContext(remaining_time=0).deadline == timedelta(seconds=5)
    assert FakeContext(deadline=deadline, remaining_time=5).now == deadline - timedelta(seconds=5)
    noon = FakeContext(now=deadline, remaining_time=60)
    assert (noon.now, noon.deadline) == (deadline, deadline + timedelta(seconds=60))


def test_an_unknown_keyword_is_an_error() -> None:
    wrong: dict[str, Any] = {"sagaid": "x"}
    with pytest.raises(TypeError, match="sagaid"):
        FakeContext(**wrong)
