"""Each attempt has an instance and context variables of its own. Clients live in one event loop per environment."""

from __future__ import annotations

import asyncio
import functools
import gc
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import pytest

from sagas import Retry, Saga, step
from sagas.handlers import step as step_handler
from sagas.testing import run
from tests.support.aws import LambdaContext
from tests.support.bench import Bench, Make
from tests.support.sagas import LOG, ONCE, Order

pytestmark = pytest.mark.usefixtures("clean")
CUSTOMER: ContextVar[str] = ContextVar("customer", default="nobody")
TWICE = Retry.constant(max_retries=1, delay=0.0)


class Basket(Saga[Order], name="basket"):
    """Collects lines on its instance, in the first attempt too, which fails."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    @classmethod
    def create(cls) -> Basket:
        LOG.append("created")
        return cls()

    @step(retry=TWICE)
    def add(self, request: Order) -> list[str]:
        self.lines.append(request.item)
        if LOG.count("created") == 1:
            raise OSError("down")
        return self.lines

    @step
    def more(self, request: Order) -> list[str]:
        self.lines.append(request.item)
        return self.lines

    @more.compensate
    def less(self, request: Order) -> None:
        LOG.append(f"less:{self.lines}")

    @step(retry=ONCE)
    def ship(self, request: Order) -> None:
        if request.item == "nowhere":
            raise OSError("no such address")


def result(b: Bench, saga_id: str, name: str) -> Any:
    return next(step["result"] for step in b.show(saga_id)["steps"] if step["name"] == name)


def test_what_an_attempt_stores_on_self_is_gone_in_the_next(bench: Make) -> None:
    b = bench(Basket)
    ada, bob = b.start("basket", {"item": "ada"}), b.start("basket", {"item": "bob"})
    b.run()
    for saga_id, item in ((ada, "ada"), (bob, "bob")):
        assert {name: result(b, saga_id, name) for name in ("add", "more")} == {"add": [item], "more": [item]}
    assert LOG == ["created"] * 7


def test_an_undo_has_an_instance_of_its_own(bench: Make) -> None:
    b = bench(Basket)
    saga_id = b.start("basket", {"item": "nowhere"})
    b.run()
    assert (b.status(saga_id), LOG[-1]) == ("COMPENSATED", "less:[]")


def test_the_check_creates_an_instance_each_time(deployed: Any) -> None:
    deployed(Basket)
    answers = [step_handler.handler({"check": "create"}, LambdaContext(60)) for _ in range(2)]
    assert (answers, LOG) == ([{"problems": []}] * 2, ["created"] * 2)


class Careless(Saga[Order], name="careless"):
    """Reads what another step stored on its instance."""

    @step
    def first(self) -> None:
        self.token = "t"  # pyright: ignore[reportUninitializedInstanceVariable]

    @step(retry=ONCE)
    def second(self) -> str:
        return self.token


def test_the_error_of_a_step_that_reads_it_says_what_to_do() -> None:
    outcome = run(Careless, Order("x"))
    assert outcome.error is not None
    assert (outcome.error.step, outcome.error.type) == ("second", "AttributeError")
    trace = next(entry.details["stack_trace"] for entry in outcome.audit if entry.action == "StepFailed")
    assert trace.splitlines()[-1] == (
        "each attempt has an instance of its own; return the value, and let the later step take it as a parameter"
    )


class Named(Saga[Order], name="named"):
    """Sets a context variable in its instance, in a plain step and in a coroutine."""

    @classmethod
    def create(cls) -> Named:
        LOG.append(CUSTOMER.get())
        CUSTOMER.set(f"instance {len(LOG)}")
        return cls()

    @step
    def plain(self) -> str:
        before = CUSTOMER.get()
        CUSTOMER.set("plain")
        return before

    @step
    async def coroutine(self) -> str:
        before = CUSTOMER.get()
        CUSTOMER.set("coroutine")
        return before

    @step
    async def again(self) -> str:
        return CUSTOMER.get()


def test_context_variables_do_not_reach_the_next_attempt(bench: Make) -> None:
    b = bench(Named)
    saga_id = b.start("named")
    b.run()
    seen = [result(b, saga_id, name) for name in ("plain", "coroutine", "again")]
    assert seen == ["instance 1", "instance 2", "instance 3"]
    assert (LOG, CUSTOMER.get()) == (["nobody"] * 3, "nobody")


@functools.cache
def connection(loop: asyncio.AbstractEventLoop, port: int) -> asyncio.Future[Any]:
    """A client that lives in an event loop: one connection, which is opened once."""
    return asyncio.ensure_future(asyncio.open_connection("127.0.0.1", port), loop=loop)


class Calls(Saga[int], name="calls"):
    """Sends a line over the connection of its environment, twice."""

    @step(retry=ONCE)
    async def first(self, request: int) -> str:
        return await send("first", request)

    @step(retry=ONCE)
    async def second(self, request: int) -> str:
        return await send("second", request)


async def send(line: str, port: int) -> str:
    reader, writer = await connection(asyncio.get_running_loop(), port)
    writer.write(f"{line}\n".encode())
    return (await reader.readline()).decode().strip()


@pytest.fixture
def echo() -> Iterator[tuple[int, list[str]]]:
    """A server that answers each line with the number of its connection. Its port, and the lines."""
    listening = socket.create_server(("127.0.0.1", 0))
    lines: list[str] = []
    clients: list[socket.socket] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                clients.append(client)
                threading.Thread(target=answer, args=(client, len(clients)), daemon=True).start()

    def answer(client: socket.socket, number: int) -> None:
        with suppress(OSError), client.makefile("rwb") as file:
            for line in file:
                lines.append(line.decode().strip())
                file.write(f"connection {number}\n".encode())
                file.flush()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listening.getsockname()[1], lines
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join(5)
    for client in clients:
        client.close()


def closed(port: int, loop: asyncio.AbstractEventLoop) -> None:
    """Close the connection of a loop."""
    _, writer = connection(loop, port).result()
    writer.close()
    with suppress(OSError):
        loop.run_until_complete(writer.wait_closed())


def test_a_client_in_the_loop_lives_longer_than_its_attempt(bench: Make, echo: tuple[int, list[str]]) -> None:
    port, lines = echo
    b = bench(Calls)
    ids = [b.start("calls", port) for _ in range(2)]
    b.run()
    assert [result(b, saga_id, name) for saga_id in ids for name in ("first", "second")] == ["connection 1"] * 4
    assert sorted(lines) == ["first", "first", "second", "second"]
    closed(port, loops(b)[0])


def loops(b: Bench) -> list[asyncio.AbstractEventLoop]:
    """The loops that wait for their next attempt."""
    return [runner.get_loop() for runner in b.engine.event_loop._idle]  # pyright: ignore[reportPrivateUsage]


STUCK: list[asyncio.AbstractEventLoop] = []


class Stuck(Saga[Order], name="stuck"):
    """Its first attempt leaves a task that does not end."""

    @step
    async def leave(self) -> None:
        STUCK.append(asyncio.get_running_loop())
        if len(STUCK) == 1:
            asyncio.create_task(_stubborn())  # noqa: RUF006 - it is left behind
            await asyncio.sleep(0)

    @step
    async def go_on(self) -> None:
        STUCK.append(asyncio.get_running_loop())

    @step
    async def end(self) -> None:
        STUCK.append(asyncio.get_running_loop())


async def _stubborn() -> None:
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)


def test_a_stuck_loop_is_replaced(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagas.engine.attempt.coroutines._LEFT", 0.05)
    STUCK.clear()
    b = bench(Stuck)
    saga_id = b.start("stuck")
    b.run()
    assert b.status(saga_id) == "COMPLETED"
    first, second, third = STUCK
    assert first is not second
    assert second is third
    assert not second.is_closed()


async def _numbers() -> AsyncIterator[int]:
    try:
        yield 1
        yield 2
    finally:
        LOG.append("closed")


class Streams(Saga[Order], name="streams"):
    """Leaves an asynchronous generator, as ``async for`` with a ``break`` does."""

    @step
    async def read(self) -> int:
        KEPT.append(_numbers())
        return await anext(KEPT[0])

    @step
    async def after(self) -> list[str]:
        return list(LOG)


KEPT: list[AsyncIterator[int]] = []


def test_generators_that_an_attempt_leaves_are_closed_at_its_end(bench: Make) -> None:
    KEPT.clear()
    b = bench(Streams)
    saga_id = b.start("streams")
    b.run()
    assert result(b, saga_id, "after") == ["closed"]


class Threaded(Saga[Order], name="threaded"):
    """Blocks every thread of its executor."""

    @step(retry=ONCE, timeout=0.2)
    async def block(self) -> None:
        await asyncio.gather(*(asyncio.to_thread(RELEASE.wait, 5) for _ in range(64)))

    @block.compensate
    async def unblock(self) -> None: ...


RELEASE = threading.Event()


class After(Saga[Order], name="after"):
    """Needs a thread."""

    @step(retry=ONCE, timeout=5)
    async def work(self) -> str:
        return await asyncio.to_thread(lambda: "worked")


def test_threads_that_an_attempt_blocks_are_not_those_of_the_next(bench: Make) -> None:
    from tests.engine.test_coroutines import RunningClock

    RELEASE.clear()
    b = bench(Threaded, After, clock=RunningClock())
    b.start("threaded")
    b.run()
    saga_id = b.start("after")
    b.run()
    RELEASE.set()
    assert result(b, saga_id, "work") == "worked"


def test_run_closes_its_own_loop() -> None:
    STUCK[:] = [asyncio.new_event_loop()]
    STUCK[0].close()
    outcome = run(Stuck, Order("x"))
    assert outcome.status == "COMPLETED"
    assert len(set(STUCK[1:])) == 1
    assert all(loop.is_closed() for loop in STUCK)


def test_a_forgotten_loop_is_closed(bench: Make) -> None:
    STUCK[:] = [asyncio.new_event_loop()]
    STUCK[0].close()
    b = bench(Stuck)
    b.start("stuck")
    b.run()
    assert not STUCK[1].is_closed()
    del vars(b.engine)["event_loop"]
    gc.collect()
    assert STUCK[1].is_closed()
