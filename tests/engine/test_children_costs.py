"""What docs/operations/deploying.md says of the costs of children, against what is counted when they run: a child takes
little more than a saga of its own, twice as many take twice as much, and a parent of many stays small."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path

import pytest

from benchmarks import prices
from benchmarks.units import KILOBYTE
from sagas import Context, Saga, children, step
from sagas.handlers import now as now_handler
from tests.engine.metering import Meter, metered
from tests.support.bench import Bench

PAGE = (Path(__file__).parents[2] / "docs" / "operations" / "deploying.md").read_text()
MOST = 1.35
"""A child to a saga of its own."""
FEW = 8
MANY = 1_000


@dataclass(frozen=True)
class Leg:
    """One of many."""

    number: int


@dataclass(frozen=True)
class Tour:
    """So many legs."""

    legs: int


class Travel(Saga[Leg], name="travel"):
    """Three steps, as many as a saga of its own that is counted elsewhere."""

    @step
    def a(self, request: Leg, ctx: Context) -> str:
        return str(request.number)

    @step
    def b(self, a: str, ctx: Context) -> str:
        return a

    @step
    def c(self, b: str, ctx: Context) -> str:
        return b


class Few(Saga[Tour], name="few"):
    """Eight at a time: places are filled again two by two, which costs more looks than the default does."""

    @children(Travel, concurrency=FEW)
    def legs(self, request: Tour, ctx: Context) -> list[Leg]:
        return [Leg(number) for number in range(request.legs)]


class AtOnce(Saga[Tour], name="at-once"):
    """All of them at a time."""

    @children(Travel, concurrency=MANY)
    def legs(self, request: Tour, ctx: Context) -> list[Leg]:
        return [Leg(number) for number in range(request.legs)]


@dataclass(frozen=True)
class Taken:
    """What some sagas took, or what each took."""

    requests: float
    writes: float
    reads: float
    messages: float

    @property
    def usd(self) -> float:
        """Of DynamoDB and SQS, a million times."""
        return self.writes * prices.WRITE_UNIT + self.reads * prices.READ_UNIT + 3 * self.messages * prices.SQS_REQUEST


def _of(seen: Meter) -> Taken:
    return Taken(seen.requests, seen.units + seen.index_units, seen.read_units, seen.messages)


def _each(more: Taken, less: Taken, count: int) -> Taken:
    return Taken(*((a - b) / count for a, b in zip(astuple(more), astuple(less), strict=True)))


@pytest.fixture
def taken(emulated: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> Callable[[str, object], Taken]:
    """Run a saga to its end, with its children, and count."""
    now_handler.reset()
    b = emulated(Few, Travel)
    b.start("few", {"legs": 1})  # clients are made, and what is known of the types is read
    b.run()
    seen = metered(b, monkeypatch)

    def run(name: str, request: object) -> Taken:
        before = _of(seen)
        saga_id = b.start(name, request)
        b.run(rounds=1_000)
        taken = _each(_of(seen), before, 1)
        assert b.status(saga_id) == "COMPLETED"
        return taken

    return run


def test_a_child_takes_little_more_than_a_saga_of_its_own(taken: Callable[[str, object], Taken]) -> None:
    own = taken("travel", {"number": 0})
    few, some, more = (taken("few", {"legs": count * FEW}) for count in (1, 2, 3))
    sooner, child = _each(some, few, FEW), _each(more, some, FEW)
    assert child.requests <= MOST * own.requests
    assert child.writes <= MOST * own.writes
    for late, early in zip(astuple(child), astuple(sooner), strict=True):
        assert late <= 1.02 * early, "each takes as much as those before it, however many there are"
    rows = re.findall(
        r"^\| a (?:saga|child) of three steps[^|]*\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$",
        PAGE,
        re.MULTILINE,
    )
    assert [tuple(map(float, row)) for row in rows] == [
        tuple(round(value, 2) for value in (*astuple(one), one.usd)) for one in (own, child)
    ]


def test_the_control_item_of_a_thousand_children_stays_under_a_kilobyte(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench(AtOnce, Travel)
    seen = metered(b, monkeypatch)
    saga_id = b.start("at-once", {"legs": MANY}, correlation_id="c" * 128)
    b.deliver("at-once", "legs")
    b.engine.children.look(saga_id)
    step = b.state(saga_id).steps[0]
    assert (step.children, step.handed_out) == (MANY, MANY)
    b.engine.operations.cancel("at-once", saga_id, "arn:aws:sts::123456789012:assumed-role/Operators/ann@example")
    assert max(seen.sizes) < KILOBYTE
