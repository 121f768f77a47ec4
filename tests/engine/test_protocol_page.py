"""What docs/concepts/protocol.md says each operation takes, against what it takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sagas.errors import Rejected
from sagas.handlers import step as step_handler
from tests.engine.metering import Wire, metered
from tests.support.aws import LambdaContext
from tests.support.bench import Bench
from tests.support.sagas import FAIL, Trip

PAGE = (Path(__file__).parents[2] / "docs" / "concepts" / "protocol.md").read_text()
ROWS = re.findall(r"^\| ([a-z][^|]+) \| ((?:[A-Z]\w+(?:, )?)+) \| (\d+) \|$", PAGE, re.MULTILINE)


def test_what_it_says_is_what_it_takes(
    deployed: Callable[..., Bench], wire: Wire, monkeypatch: pytest.MonkeyPatch, clean: None
) -> None:
    w, taken = deployed(Trip, SAGAS_RETENTION="3600"), dict[str, tuple[str, str]]()
    w.start("trip", {"item": "warm-up"})  # clients are made, and what is known of the type is read
    w.run()
    meter = metered(w, monkeypatch)

    def start(what: str) -> None:
        before = meter.units
        wire.requests.clear()
        w.start("trip", {"item": "train"})
        note(what, before)

    def handle(what: str, step: str) -> None:
        records = w.stack.receive("trip", step)
        assert len(records) == 1, what
        before = meter.units
        wire.requests.clear()
        answer = step_handler.handler({"Records": records}, LambdaContext())
        note(what, before)
        w.stack.settle("trip", step, records, answer)

    def note(what: str, before: int) -> None:
        # The meter reads an item after each write, without a consistent read. A look at the index finds many sagas.
        seen = [(name, asked) for name, asked in wire.requests if "IndexName" not in asked]
        names = [name for name, asked in seen if name != "GetItem" or asked.get("ConsistentRead")]
        found = (", ".join(names), str(meter.units - before))
        assert taken.setdefault(what, found) == found, what

    start("start")
    handle("a step", "book")
    handle("a step", "pay")
    handle("the last step", "tell")
    w.clock.time += 3600
    w.engine.purger.listing.shards.number()  # an environment reads it once a minute, whatever there is to purge
    before = meter.units
    wire.requests.clear()
    assert len(w.engine.purger.run(60.0, limit=1).purged) == 1
    note("a purge, of four entries", before)
    w.start("trip", {"item": "warm-up"})
    w.run()
    start("start")
    handle("a step", "book")
    handle("a step", "pay")
    FAIL["tell"] = Rejected("no")
    handle("a step that fails for good, something to undo", "tell")
    handle("an undo", "pay")
    handle("the last undo", "book")
    FAIL.clear()
    monkeypatch.setenv("SAGAS_CHAIN", "*")
    step_handler.reset()
    w.start("trip", {"item": "train"})
    handle("a chain of three steps", "book")
    assert {what: (names, units) for what, names, units in ROWS} == taken
