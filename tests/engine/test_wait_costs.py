"""What docs/operations/deploying.md says of the costs of a wait, against what is counted when sagas wait."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from benchmarks import prices
from sagas import Context, Exhausted, Saga, sleep, step, wait_for
from sagas.handlers import now as now_handler
from tests.engine.metering import metered
from tests.support.bench import Bench
from tests.support.sagas import Order

PAGE = (Path(__file__).parents[2] / "docs" / "operations" / "deploying.md").read_text()
ROWS = re.findall(r"^\| (for a signal[^|]*|`sleep`[^|]*) \| (\d+) \| (\d+) \| ([\d.]+) \|$", PAGE, re.MULTILINE)
YEAR = 364 * 86_400.0


class Plain(Saga[Order], name="plain"):
    """Waits for nothing."""

    @step
    def begin(self, request: Order, ctx: Context) -> str:
        return request.item

    @step
    def end(self, begin: str, ctx: Context) -> str:
        return begin


class Asked(Saga[Order], name="asked"):
    """Waits for a year at most."""

    begin = Plain.begin
    word = wait_for(str, timeout=timedelta(seconds=YEAR), on_timeout=Exhausted.CONTINUE)
    end = Plain.end


class Hurried(Saga[Order], name="hurried"):
    """Waits for ten minutes at most."""

    begin = Plain.begin
    word = wait_for(str, timeout=timedelta(minutes=10), on_timeout=Exhausted.CONTINUE)
    end = Plain.end


class Nap(Saga[Order], name="nap"):
    """Sleeps for ten minutes."""

    begin = Plain.begin
    rest = sleep(timedelta(minutes=10))
    end = Plain.end


class Winter(Saga[Order], name="winter"):
    """Sleeps for a year."""

    begin = Plain.begin
    rest = sleep(timedelta(seconds=YEAR))
    end = Plain.end


WAITS: dict[str, tuple[type[Any], float, bool]] = {
    "for a signal, which comes at once or after a year": (Asked, YEAR - 120, True),
    "for a signal that never comes, up to 15 minutes": (Hurried, 600.0, False),
    "for a signal that never comes, longer": (Asked, YEAR, False),
    "`sleep` of up to 15 minutes": (Nap, 600.0, False),
    "`sleep` of up to a year": (Winter, YEAR, False),
}


def test_what_a_wait_adds(deployed: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    now_handler.reset()
    w = deployed(Plain, Asked, Hurried, Nap, Winter)
    w.clock.time = 1_800_000_060.0  # how long ago something was noted is not left to chance either
    w.start("plain", {"item": "warm-up"})  # clients are made, and what is known of the types is read
    w.run()
    meter = metered(w, monkeypatch)

    def taken(saga_class: type[Any], length: float, signal: bool) -> tuple[int, int]:
        """Writes and messages of a saga. It begins as a bucket of due times does: which it meets is not left to
        chance."""
        w.clock.time = math.ceil(w.clock.time / 120) * 120 + 1.0
        name, before = saga_class.__name__.lower(), (meter.units + meter.index_units, meter.messages)
        saga_id = w.start(name, {"item": "x"})
        w.invoke(name, "begin")
        if length > 900 and not signal:
            w.clock.advance(length - 100)
            noted, handed = meter.control_units, meter.messages
            assert w.engine.finder.run("recover", 60.0).found == 1
            # What the supervisor notes is for a thousand sagas, and what it sends for 25.
            meter.control_units, meter.messages = noted, handed
            w.end_waits()
            w.clock.advance(100)
        else:
            w.clock.advance(length)
        if signal:
            w.engine.signals.send(name, saga_id, "word", "yes", "ada")
        w.end_waits()
        w.invoke(name, "end")
        assert w.status(saga_id) == "COMPLETED"
        return meter.units + meter.index_units - before[0], meter.messages - before[1]

    without, found = taken(Plain, 0.0, False), dict[str, tuple[str, str, str]]()
    for what, given in WAITS.items():
        writes, messages = (with_it - plain for with_it, plain in zip(taken(*given), without, strict=True))
        usd = writes * prices.WRITE_UNIT + 3 * messages * prices.SQS_REQUEST
        found[what] = (str(writes), str(messages), f"{usd:.2f}")
    assert {what: tuple(counted) for what, *counted in ROWS} == found
