"""What a message costs that dies: docs/contributing/protocol.md, "Dead letters"."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sagas import Exhausted, Retry, Saga, step
from tests.support.bench import Bench
from tests.support.sagas import Order

EXECUTIONS = 3


class Hopeless(Saga[Order], name="hopeless"):
    """Its step never succeeds, and its message dies of it."""

    @step(retry=Retry.constant(max_retries=EXECUTIONS - 1, delay=0.0, on_exhausted=Exhausted.DEAD_LETTER))
    def call(self, request: Order) -> str:
        raise ValueError("no")


@pytest.mark.parametrize("where", ["deployed", "emulated"])
def test_a_dying_message_is_received_as_often_as_its_step_is_executed_and_ten_times_more(
    where: str, request: pytest.FixtureRequest, asked: list[str]
) -> None:
    """After the last execution one receive is refused its claim and reads; the others ask the store nothing."""
    make: Callable[..., Bench] = request.getfixturevalue(where)
    t = make(Hopeless, SAGAS_MAX_RECEIVES=str(EXECUTIONS + 10))
    saga_id, receives, silent = t.start("hopeless"), 0, 0
    while t.dead_letters("hopeless") == 0:
        asked.clear()
        receives += t.invoke("hopeless", "call")
        silent += not asked
        assert receives <= EXECUTIONS + 10
    assert t.status(saga_id) == "DEAD_LETTERED"
    assert t.step(saga_id)["attempts"] == EXECUTIONS
    assert receives == t.stack.max_receives["hopeless/call"] == EXECUTIONS + 10
    assert silent >= 9
    assert t.delayed == []
