"""The stored stack trace of a failed step: the frames of the saga's own code, however long the message is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sagas import Retry, Saga, step
from sagas.testing import run

_ONCE = Retry.constant(max_retries=0, delay=0)


def _fails() -> None:
    raise RuntimeError("the provider is down " * 500)


class Plain(Saga[str], name="plain"):
    @step(retry=_ONCE, timeout=5)
    def act(self) -> None:
        _fails()


class Async(Saga[str], name="async"):
    @step(retry=_ONCE, timeout=5)
    async def act(self) -> None:
        await asyncio.sleep(0)
        _fails()


@pytest.mark.parametrize("saga", [Plain, Async])
def test_it_begins_in_the_saga_and_keeps_its_frames(saga: type[Any]) -> None:
    (failed,) = [entry for entry in run(saga, "x").audit if entry.action == "StepFailed"]
    trace = failed.details["stack_trace"]
    assert trace.splitlines()[1].endswith(", in act")
    assert ", in _fails" in trace
    assert "RuntimeError: the provider is down" in trace
    assert "asyncio" not in trace.replace("await asyncio", "")
    assert len(trace) <= 4_000
