"""What runs in process is what runs in the functions: the same sagas through both, the same trail."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sagas import CircuitBreaker, Context, NotYet, PermanentError, Retry, Saga, TimedOut, step
from sagas.authoring.codec import encode
from sagas.core.text import epoch
from sagas.messaging.message import Message
from sagas.messaging.queues import Queues
from sagas.testing import World, die, run
from tests.support.aws import HandmadeStack
from tests.support.bench import Bench, ManualClock, deploy_functions
from tests.support.databases import lead_nowhere
from tests.support.dynamodb import aws
from tests.support.engine import engine_of
from tests.support.sagas import FAIL, LOG, REJECTED, Fatal, Order, Seat, Stubborn, Trip, perform

_TIMES = ("started_at", "next_attempt_at", "until", "since", "sent_at")
_ITS_OWN = (*_TIMES, "stack_trace", "trace_id", "message_id", "dispatch", "request_hash")


class Hurried(Saga[Order], name="hurried", timeout=timedelta(seconds=10)):
    """Its deadline comes before the second attempt of a step."""

    book = Trip.book
    unbook = Trip.unbook

    @step(retry=Retry.constant(max_retries=3, delay=20.0), timeout=5)
    def pay(self, book: Seat, ctx: Context) -> str:
        perform("pay")
        return "paid"


CASES: list[tuple[type[Any], dict[str, BaseException]]] = [
    (Trip, {}),
    (Trip, {"book": ValueError("no")}),
    (Trip, {"tell": ValueError("no")}),
    (Trip, {"pay": REJECTED}),
    (Trip, {"pay": TimeoutError("no answer")}),
    (Trip, {"tell": ConnectionResetError("reset")}),
    (Trip, {"tell": ConnectionRefusedError("refused")}),
    (Trip, {"pay": ExceptionGroup("two", [OSError("down"), REJECTED])}),
    (Trip, {"pay": ExceptionGroup("two", [TimeoutError("no answer"), REJECTED])}),
    (Trip, {"tell": ExceptionGroup("two", [ValueError("no"), ExceptionGroup("one", [OSError("down")])])}),
    (Trip, {"tell": ValueError("no"), "refund": ExceptionGroup("one", [PermanentError("closed")])}),
    (Trip, {"tell": ValueError("no"), "refund": KeyError("never")}),
    (Trip, {"tell": ValueError("no"), "refund": REJECTED, "unbook": OSError(5, "gone")}),
    (Stubborn, {"second": ValueError("no")}),
    (Stubborn, {"first": ValueError("no")}),
    (Fatal, {"second": ValueError("no")}),
    (Hurried, {"pay": ValueError("no")}),
]


@pytest.fixture(autouse=True)
def _aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    lead_nowhere(monkeypatch)
    FAIL.clear()
    with aws():
        yield
    FAIL.clear()
    LOG.clear()


def comparable(entry: Any) -> dict[str, Any]:
    kept = {name: entry[name] for name in ("seq", "action", "step", "attempt", "status")}
    return kept | {name: value for name, value in entry["details"].items() if name not in _ITS_OWN}


@pytest.mark.parametrize(("saga_class", "fail"), CASES)
def test_both_write_the_same_trail(
    saga_class: type[Any], fail: dict[str, BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Order("train", 2)
    rehearsed = run(saga_class, request, fail=fail)
    stack = HandmadeStack(saga_class)
    bench, name = deploy_functions(monkeypatch, stack, Bench), saga_class.__name__.lower()
    FAIL.update(fail)
    saga_id = bench.start(name, encode(request, Order))
    bench.run()
    shown = bench.show(saga_id)
    audit, _ = engine_of(stack.environment).reader.audit(name, saga_id, 100, 0)
    assert [comparable(entry) for entry in rehearsed.audit] == [comparable(entry) for entry in audit]
    assert (rehearsed.status, rehearsed.error) == (shown["status"], shown["error"])
    assert list(rehearsed.in_doubt) == shown["in_doubt"]


class Around(Saga[Order], name="around"):
    """Its first commit of a step fails, and its second one does not. It swallows a ``KeyError``."""

    depth = 0

    @contextmanager
    def around(self, ctx: Context) -> Generator[None]:
        self.depth += 1
        with suppress(KeyError):
            yield
        if ctx.attempt == 1:
            raise OSError("the commit failed")

    @step(retry=Retry.constant(max_retries=2, delay=0))
    async def hold(self) -> int:
        return self.depth

    @hold.compensate(retry=Retry.constant(max_retries=2, delay=0))
    def release(self, hold: int) -> None:
        assert self.depth == hold == 1

    @step(retry=Retry.constant(max_retries=2, delay=0))
    def pay(self, request: Order, ctx: Context) -> int:
        if request.item == "swallowed":
            raise KeyError("lost")
        return self.depth


@pytest.mark.parametrize(("item", "status"), [("train", "COMPLETED"), ("swallowed", "COMPENSATED")])
def test_both_surround_code_alike(item: str, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rehearsed = run(Around, Order(item))
    stack = HandmadeStack(Around)
    bench = deploy_functions(monkeypatch, stack, Bench)
    saga_id = bench.start("around", {"item": item})
    bench.run()
    audit, _ = engine_of(stack.environment).reader.audit("around", saga_id, 100, 0)
    assert [comparable(entry) for entry in rehearsed.audit] == [comparable(entry) for entry in audit]
    assert (rehearsed.status, rehearsed.status) == (bench.status(saga_id), status)


class Surrounded(Saga[Order], name="surrounded"):
    """Notes when its code is surrounded."""

    @contextmanager
    def around(self, ctx: Context) -> Generator[None]:
        LOG.append(f"enters {ctx.attempt}")
        yield
        LOG.append(f"leaves {ctx.attempt}")

    @step
    def work(self) -> None:
        LOG.append("works")


@pytest.mark.parametrize("dies", [False, True])
def test_the_moments_of_a_world_are_outside_of_what_surrounds_the_code(dies: bool) -> None:
    with World(Surrounded) as world:
        saga = world.start(Surrounded, Order("train"))
        saga.on(Surrounded.work, "calling", lambda: LOG.append("calling"))
        saga.on(Surrounded.work, "returned", lambda: die() if dies else LOG.append("returned"))
        world.play()
    then = ["enters 2", "works", "leaves 2"] if dies else ["returned"]
    assert LOG[:4] == ["calling", "enters 1", "works", "leaves 1"]
    assert LOG[4:] == then
    assert saga.status == "COMPLETED"


class Collecting(Saga[Order], name="collecting"):
    """Uses its instance as if it were its own."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    @step(retry=Retry.constant(max_retries=1, delay=0))
    def add(self, request: Order, ctx: Context) -> list[str]:
        self.lines.append(request.item)
        if ctx.attempt == 1:
            raise OSError("down")
        return self.lines

    @step
    async def more(self, request: Order, add: list[str]) -> list[str]:
        self.lines.append(request.item)
        return [*add, *self.lines]


def test_both_give_each_attempt_an_instance_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    items = ("ada", "bob")
    rehearsed = [run(Collecting, Order(item, 1)).results for item in items]
    bench = deploy_functions(monkeypatch, HandmadeStack(Collecting), Bench)
    ids = [bench.start("collecting", {"item": item}) for item in items]
    bench.run()
    assert rehearsed == [{"add": [item], "more": [item, item]} for item in items]
    for results, saga_id in zip(rehearsed, ids, strict=True):
        assert results == {each["name"]: each["result"] for each in bench.show(saga_id)["steps"]}


class Guarded(Saga[Order], name="guarded"):
    """Its dependency is down for as many calls as its request says; then it waits behind its breaker."""

    @step(
        retry=Retry.constant(max_retries=5, delay=0),
        circuit_breaker=CircuitBreaker(failure_threshold=2, open_for=30),
    )
    def call(self, request: Order, ctx: Context) -> str:
        LOG.append(f"call:{ctx.attempt}")
        if ctx.attempt <= request.count:
            raise ConnectionError("down")
        return "up"


class Rash(Saga[Order], name="rash"):
    """Likewise, but it fails where that waits."""

    @step(
        retry=Retry.constant(max_retries=5, delay=0),
        circuit_breaker=CircuitBreaker(failure_threshold=2, open_for=30, when_open="fail"),
    )
    def call(self, request: Order, ctx: Context) -> str:
        return Guarded.call.function(self, request, ctx)


@pytest.mark.parametrize("down", [1, 4, 9])
@pytest.mark.parametrize("saga_class", [Guarded, Rash])
def test_breakers_open_in_both(saga_class: Any, down: int) -> None:
    def told(audit: Sequence[Any]) -> list[Any]:
        began = epoch(audit[0]["at"])
        return [(comparable(entry), round(epoch(entry["at"]) - began)) for entry in audit]

    LOG.clear()
    rehearsed, rehearsal, name = run(saga_class, Order("train", down)), list(LOG), saga_class.__name__.lower()
    LOG.clear()
    bench = Bench(saga_class)
    saga_id = bench.start(name, encode(Order("train", down), Order))
    bench.run()
    audit, _ = bench.engine.reader.audit(name, saga_id, 100, 0)
    assert rehearsal == LOG
    assert told(rehearsed.audit) == told(audit)
    assert (rehearsed.status, rehearsed.error) == (bench.show(saga_id)["status"], bench.show(saga_id)["error"])
    waited = epoch(rehearsed.audit[-1].at) - epoch(rehearsed.audit[0].at)
    opens = down > 1
    assert (rehearsed.error is not None and rehearsed.error.type == "BreakerOpen") is (opens and saga_class is Rash)
    assert (waited > 30) is (opens and saga_class is Guarded)


# ---- generated sagas


class Wordless(Exception):
    """Its text cannot be had."""

    def __str__(self) -> str:
        raise LookupError


ERRORS = {
    "error": ValueError("no"),
    "rejected": REJECTED,
    "permanent": PermanentError("never"),
    "timed out": TimedOut("no answer"),
    "wordless": Wordless(),
    "exit": SystemExit(3),
}
SCRIPT: dict[str, list[str]] = {}
"""What each execution of a step or undo does, in turn; those after the last do what they are for."""
CLOCK = [ManualClock()]
"""That of the run at hand: code takes the time by which it advances it."""


def act(name: str, ctx: Context, result: str | None) -> Any:
    LOG.append(f"{name}:{ctx.attempt}")
    how = SCRIPT[name].pop(0) if SCRIPT.get(name) else "done"
    if how in ERRORS:
        raise ERRORS[how]
    if how == "not yet":
        raise NotYet(after=5, message="the bank")
    CLOCK[0].advance(60 if how == "late" else 1)
    return {"wrong": 7, "lazy": (one for one in "ab")}.get(how, result)


class Leaf(Saga[Order], name="leaf"):
    """A child: it does what its position says."""

    @step(retry=Retry.constant(max_retries=0, delay=0))
    def grow(self, request: Order, ctx: Context) -> str:
        return act(f"grow{request.count}", ctx, "grown")

    @grow.compensate
    def shrink(self, request: Order, ctx: Context) -> None:
        return act(f"shrink{request.count}", ctx, None)


@dataclass(frozen=True)
class Planned:
    """A saga type as source, what its executions do, and the signals that come."""

    source: str
    script: dict[str, list[str]]
    signals: dict[str, str]

    def define(self, name: str) -> type[Any]:
        """Make the class."""
        namespace = dict(globals())
        exec(f'{HEAD}class Generated(Saga[Order], name="{name}"):\n{self.source}', namespace)  # noqa: S102 - made above
        return namespace["Generated"]


HEAD = """
from datetime import timedelta
from sagas import CircuitBreaker, Exhausted, children, sleep, wait_for

"""
HOW = st.sampled_from(["done", "late", "wrong", *ERRORS])
UNDOING = st.sampled_from(["done", "late", "wrong", "lazy", "not yet", *ERRORS])
EXHAUSTED = st.sampled_from(["COMPENSATE", "COMPENSATE", "FAIL", "DEAD_LETTER"])


@st.composite
def _steps(draw: st.DrawFn, name: str, place: str) -> tuple[str, dict[str, list[str]]]:
    """A step with its undo, as source, and what they do; at the pivot and behind it without one."""
    retries, started = draw(st.integers(0, 2)), draw(st.booleans())
    policy = f"Retry.constant(max_retries={retries}, delay=0, on_exhausted={_policy(draw, place)})"
    script = {name: draw(st.lists(HOW | st.just("not yet"), max_size=3))}
    word = draw(st.sampled_from(["def", "async def"]))
    when = "started" if started else "completed"
    opens = draw(st.sampled_from(["wait", "fail", ""]))
    breaker = f"CircuitBreaker({draw(st.integers(1, 3))}, 30, {opens!r})" if opens else None
    source = f"    @step(retry={policy}, timeout=5, undo_when={when!r}, "
    polls = f", within=timedelta(seconds=4), on_timeout={_policy(draw, place)}" if draw(st.booleans()) else ""
    source += f"circuit_breaker={breaker}, pivot={place == 'at'}{polls})\n"
    source += f"    {word} {name}(self, request: Order, ctx: Context) -> str:\n"
    source += f"        return act({name!r}, ctx, {name!r})\n"
    if place == "before" and draw(st.booleans()):
        script[f"un{name}"] = draw(st.lists(UNDOING, max_size=2))
        own = f"Retry.constant(max_retries={draw(st.integers(0, 1))}, delay=0)"
        source += f"    @{name}.compensate(retry={own})\n"
        returns = draw(st.sampled_from(["None", "Any"]))
        source += f"    {word} un{name}(self, {name}: str | None, ctx: Context) -> {returns}:\n"
        source += f"        return act('un{name}', ctx, None)\n"
    return source, script


def _policy(draw: st.DrawFn, place: str, *others: str) -> str:
    """What happens when a step has failed for good: behind the pivot only what undoes nothing."""
    return "None" if place == "behind" else f"Exhausted.{draw(EXHAUSTED | st.sampled_from(['DEAD_LETTER', *others]))}"


@st.composite
def _waits(draw: st.DrawFn, name: str, place: str) -> tuple[str, dict[str, list[str]]]:
    """A wait, as source, and the signal that comes."""
    if draw(st.booleans()):
        return f"    {name} = sleep(timedelta(hours=1))\n", {}
    timeout = f"on_timeout={_policy(draw, place, 'CONTINUE')}"
    return f"    {name} = wait_for(str, timeout=timedelta(hours=2), {timeout})\n", {}


@st.composite
def _families(draw: st.DrawFn, name: str, place: str) -> tuple[str, dict[str, list[str]]]:
    """A step with children, as source, and what they do."""
    many = draw(st.integers(0, 2))
    script = {
        f"{what}{number}": draw(st.lists(HOW, max_size=1)) for what in ("grow", "shrink") for number in range(many)
    }
    result = f"[Order('x', number) for number in range({many})]"
    source = f"    @children(Leaf, tolerate={draw(st.integers(0, 1))})\n    def {name}(self) -> list[Order]:\n"
    return f"{source}        return {result}\n", script


@st.composite
def plans(draw: st.DrawFn) -> Planned:
    """A saga of up to four steps, of any kind but the last, in half of them with a pivot."""
    source, script, signals = "", dict[str, list[str]](), dict[str, str]()
    kinds = [*draw(st.lists(st.sampled_from([_steps, _steps, _waits, _families]), max_size=3)), _steps]
    own_steps = [number for number, kind in enumerate(kinds) if kind is _steps]
    pivot = draw(st.just(len(kinds)) | st.sampled_from(own_steps))
    for number, kind in enumerate(kinds):
        place = "before" if number < pivot else "at" if number == pivot else "behind"
        lines, own = draw(kind(f"s{number}", place))
        source, script = source + lines, script | own
        if "wait_for" in lines and draw(st.booleans()):
            signals[f"s{number}"] = "yes"
    return Planned(source, script, signals)


def _without_delay(queues: Queues, message: Message, delay: float = 0.0) -> None:
    _SEND(queues, message, 0.0)


_SEND = Queues.send
_NUMBERS = count()


def _begin(planned: Planned, clock: ManualClock) -> None:
    LOG.clear()
    SCRIPT.clear()
    SCRIPT.update({step: list(hows) for step, hows in planned.script.items()})
    CLOCK[0] = clock


def _drive(bench: Bench, saga_id: str, signals: dict[str, str]) -> None:
    """Deliver messages, let waits end and signals come, until the saga waits for nobody but an operator."""
    for _ in range(40):
        bench.run()
        state = bench.state(saga_id)
        if state.status.value != "WAITING":
            return
        step = state.steps[state.cursor]
        if step.name in signals and step.waits_for == "signal":
            bench.engine.signals.send(state.saga, saga_id, step.name, signals[step.name], "test")
            continue
        bench.clock.advance(max(0.0, state.not_before - bench.clock.now()) + 0.001)
        bench.recover()
    raise AssertionError(f"it waits for ever: {bench.show(saga_id)}")


@pytest.mark.slow
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(planned=plans())
def test_both_make_the_same_of_any_saga(planned: Planned) -> None:
    name = f"generated-{next(_NUMBERS)}"
    saga_class = planned.define(name)
    with ExitStack() as stack:
        stack.enter_context(patch.object(Queues, "send", _without_delay))
        stack.enter_context(patch("sagas.testing.simulation.SystemClock", lambda: CLOCK[0]))
        _begin(planned, ManualClock())
        rehearsed, rehearsal = run(saga_class, Order("train"), signals=planned.signals), list(LOG)
        bench = Bench(stack=HandmadeStack(saga_class, Leaf, prefix=name))
        _begin(planned, bench.clock)
        saga_id = bench.start(name, encode(Order("train"), Order))
        _drive(bench, saga_id, planned.signals)
    shown = bench.show(saga_id)
    audit, _ = bench.engine.reader.audit(name, saga_id, 100, 0)
    assert [comparable(entry) for entry in rehearsed.audit] == [comparable(entry) for entry in audit]
    assert rehearsal == LOG
    assert rehearsed.steps == {one["name"]: one["status"] for one in shown["steps"]}
    assert [rehearsed.status, rehearsed.error, list(rehearsed.in_doubt), rehearsed.result] == [
        shown[field] for field in ("status", "error", "in_doubt", "result")
    ]
