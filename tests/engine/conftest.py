"""The handlers on moto, single-threaded: deliver until the queues are empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from moto import mock_aws

from sagas.engine.engine import Engine, from_environment
from sagas.handlers import step as step_handler
from tests.support.aws import LambdaContext, Stack
from tests.support.bench import Bench
from tests.support.sagas import FAIL, LOG


class World:
    """One engine, and the pump that delivers its messages."""

    def __init__(self, stack: Stack, environment: dict[str, str] | None = None) -> None:
        self.stack = stack
        self.engine: Engine = from_environment(stack.environment | (environment or {}))

    def start(self, name: str, request: Any, **options: Any) -> str:
        return self.engine.starter.start(name, request, **options).state.saga_id

    def deliver(self, saga: str, step: str, *, remaining: float = 60.0, most: int = 1) -> int:
        """Deliver what one queue has; return how many records there were."""
        records = self.stack.receive(saga, step, most)
        if records:
            answer = step_handler.handler({"Records": records}, LambdaContext(remaining))
            self.stack.settle(saga, step, records, answer)
        return len(records)

    def run(self, rounds: int = 200) -> None:
        """Deliver until nothing is visible any more."""
        for _ in range(rounds):
            if not sum(self.deliver(saga, step) for saga, step in self.stack.steps()):
                return
        raise AssertionError("messages keep coming")

    def show(self, name: str, saga_id: str) -> dict[str, Any]:
        return {**self.engine.reader.show(name, saga_id)}

    def actions(self, saga_id: str) -> list[str]:
        return [str(entry["action"]) for entry in self.stack.entries(saga_id)]


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials and a region that lead nowhere."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")


@pytest.fixture
def clean() -> Iterator[None]:
    """What sagas did, and how they are to fail, is forgotten before and after."""
    LOG.clear()
    FAIL.clear()
    yield
    LOG.clear()
    FAIL.clear()


@pytest.fixture
def bench(credentials: None, clean: None) -> Iterator[Callable[..., Bench]]:
    """Make a bench for some saga classes."""
    with mock_aws():
        yield Bench


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, credentials: None) -> Iterator[Callable[..., World]]:
    """Make a world for some saga classes."""

    def make(*classes: type[Any], **environment: str) -> World:
        stack = Stack(*classes)
        for key, value in (stack.environment | environment).items():
            monkeypatch.setenv(key, value)
        step_handler.reset()
        return World(stack, environment)

    with mock_aws():
        yield make
