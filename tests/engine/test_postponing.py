"""Delays of retries, and messages that come back later without wearing out."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from msgspec.structs import replace

from sagas.authoring.policies import Retry
from sagas.core.text import iso
from sagas.engine.attempt.attempt import lease_for
from sagas.errors import PermanentError, Rejected, Unavailable
from sagas.handlers import step as step_handler
from sagas.messaging.message import Message
from tests.support.aws import LambdaContext
from tests.support.bench import Bench, Make
from tests.support.sagas import FAIL, LOG, Order, Single

pytestmark = pytest.mark.usefixtures("clean")


class Exponential(Single[Order], name="exponential", retry=Retry.exponential(base_delay=0.2, jitter="none")):
    """Waits twice as long each time."""


class Linear(Single[Order], name="linear", retry=Retry.linear(max_retries=4, base_delay=0.5)):
    """Waits for a little longer each time."""


class Constant(Single[Order], name="constant", retry=Retry.constant(max_retries=3, delay=7)):
    """Waits for as long each time."""


class Steep(Single[Order], name="steep", retry=Retry.exponential(base_delay=0.2, factor=3, jitter="none")):
    """Waits three times as long each time."""


class Capped(
    Single[Order], name="capped", retry=Retry.exponential(max_retries=5, base_delay=1, max_delay=5, jitter="none")
):
    """Waits twice as long each time, up to a limit."""


class Jittered(Single[Order], name="jittered", retry=Retry.exponential(max_retries=4, base_delay=1)):
    """Waits for a part of that, by chance."""


class Usual(Single[Order], name="usual"):
    """Has no policy of its own."""


class Slow(Single[Order], name="slow", retry=Retry.constant(max_retries=1, delay=43_000)):
    """Waits for half a day."""


class Choosy(
    Single[Order],
    name="choosy",
    retry=Retry.constant(max_retries=2, delay=0.0, retry_on=(OSError,), give_up_on=(FileNotFoundError,)),
):
    """Is tried again after some errors only."""


def _entries(t: Bench, saga_id: str, action: str) -> list[dict[str, Any]]:
    return [entry for entry in t.stack.entries(saga_id) if entry["action"] == action]


DELAYS: list[tuple[type[Any], list[float]]] = [
    (Exponential, [0.2, 0.4, 0.8, 2, 4]),
    (Linear, [0.5, 1, 2, 2]),
    (Constant, [7, 7, 7]),
    (Capped, [1, 2, 4, 5, 5]),
    (Steep, [0.2, 0.6, 2, 6, 17]),
    (Jittered, [0.5, 1, 2, 4]),
    (Usual, [1, 2, 4, 8, 16]),
]


@pytest.mark.parametrize(("saga", "delays"), DELAYS)
def test_delays_are_those_of_the_formula(deployed: Make, saga: type[Any], delays: list[float]) -> None:
    FAIL["call"] = RuntimeError("no")
    t = deployed(saga)
    name = saga.__name__.lower()
    begun = t.clock.now()
    saga_id = t.start(name)
    t.run()
    assert t.clock.slept == [delay for delay in delays if delay < 1]
    assert t.hidden == [delay for delay in delays if 1 <= delay <= 5]
    assert t.delayed == [(delay, 0) for delay in delays if delay > 5], "a new message, which no receive has worn"
    expected = [iso(begun + sum(delays[: n + 1])) for n in range(len(delays))]
    failed = _entries(t, saga_id, "StepFailed")
    assert [entry["details"].get("next_attempt_at") for entry in failed] == [*expected, None]
    assert t.step(saga_id)["attempts"] == len(delays) + 1 == len(LOG)
    assert t.status(saga_id) == "COMPENSATED"


def test_shows_the_next_attempt_and_the_error_while_it_waits(deployed: Make) -> None:
    FAIL["call"] = 1
    t = deployed(Constant)
    saga_id = t.start("constant")
    t.invoke("constant", "call")
    waiting = t.step(saga_id)
    assert waiting["status"] == "RETRYING"
    assert waiting["attempts"] == 1
    assert waiting["next_attempt_at"] == iso(t.clock.now() + 7)
    assert waiting["error"] == {"type": "RuntimeError", "message": "call fails"}
    t.invoke("constant", "call")
    assert LOG == ["call:1"], "a message that comes early changes nothing"
    t.clock.time += 7
    t.run()
    assert t.status(saga_id) == "COMPLETED"
    assert LOG == ["call:1", "call:2"]


def test_a_short_wait_that_would_outlast_the_function_is_left_to_sqs(deployed: Make) -> None:
    FAIL["call"] = 1
    t = deployed(Exponential)
    t.start("exponential")
    t.invoke("exponential", "call", remaining=30.1)
    assert t.clock.slept == []
    assert t.hidden == [1]


@pytest.mark.parametrize(
    ("error", "attempts"),
    [(TimeoutError("again"), 3), (FileNotFoundError("gone"), 1), (ValueError("never"), 1), (PermanentError("no"), 1)],
)
def test_retry_on_and_give_up_on(deployed: Make, error: Exception, attempts: int) -> None:
    FAIL["call"] = error
    t = deployed(Choosy)
    saga_id = t.start("choosy")
    t.run()
    assert t.step(saga_id)["attempts"] == attempts
    assert t.status(saga_id) == "COMPENSATED"


def test_rejected_is_never_retried(deployed: Make) -> None:
    FAIL["call"] = Rejected("declined")
    t = deployed(Constant)
    saga_id = t.start("constant")
    t.run()
    assert t.step(saga_id)["attempts"] == 1


def test_a_wait_beyond_what_sqs_can_delay_goes_by_copies(deployed: Make) -> None:
    FAIL["call"] = 1
    t = deployed(Slow)
    saga_id = t.start("slow")
    t.run()
    assert t.delayed == [*((900, hops) for hops in range(47)), (700, 47)]
    assert t.hidden == []
    assert t.status(saga_id) == "COMPLETED"
    assert t.step(saga_id)["attempts"] == 2


def test_a_held_lease_postpones_to_its_expiry(deployed: Make) -> None:
    t = deployed(Constant)
    saga_id = t.start("constant")
    saga_type, clock = t.engine.registry.get("constant"), t.clock
    lease = lease_for(saga_type, clock, clock.now() + 60)
    assert t.engine.control.claim_step(saga_id, 0, 1, lease, clock.now())
    t.invoke("constant", "call")
    assert (t.hidden, t.delayed) == ([61], []), "no copy: the holder may be another delivery of this very message"
    assert t.step(saga_id)["attempts"] == 1
    assert LOG == []


def _waiting(t: Bench, hops: int = 0) -> str:
    """A saga whose step waits for its second attempt, its message having been copied ``hops`` times."""
    FAIL["call"] = 1
    saga_id = t.start("constant")
    t.invoke("constant", "call")
    t.stack.sqs.purge_queue(QueueUrl=t.stack.queues["constant"]["call"])
    message = Message(saga_id, "constant", "call", 0, False, 2)
    t.engine.queues.send(replace(message, hops=hops))
    t.hidden.clear()
    t.delayed.clear()
    return saga_id


def test_a_message_near_its_last_receive_goes_on_as_a_copy(deployed: Make) -> None:
    t = deployed(Constant, SAGAS_MAX_RECEIVES="6")
    saga_id = _waiting(t)
    t.clock.time += 3
    for _ in range(9):
        t.invoke("constant", "call")
    assert t.hidden == [4] * 6
    assert t.delayed == [(4, 1), (4, 2), (4, 3)]
    assert t.step(saga_id)["attempts"] == 1


@pytest.mark.parametrize(("hops", "delay"), [(3, 7), (100, 100), (1_500, 900)])
def test_copies_come_back_the_later_the_more_there_were(deployed: Make, hops: int, delay: int) -> None:
    t = deployed(Constant, SAGAS_MAX_RECEIVES="4")
    _waiting(t, hops)
    t.invoke("constant", "call")
    assert t.delayed == [(delay, hops + 1)]


def test_a_longer_wait_wears_no_message(deployed: Make) -> None:
    """Hidden it would be one of those in flight, of which SQS allows 120,000."""
    t = deployed(Constant, SAGAS_MAX_RECEIVES="6")
    _waiting(t)
    t.invoke("constant", "call")
    assert (t.hidden, t.delayed) == ([], [(7, 1)])


@pytest.mark.parametrize(
    ("receives", "hops", "most"), [(1, 0, 1), (2, 0, 2), (3, 0, 4), (4, 0, 8), (1, 1, 8), (1, 2, 60), (900, 0, 60)]
)
def test_what_could_not_be_handled_is_back_in_seconds(
    deployed: Make, monkeypatch: pytest.MonkeyPatch, receives: int, hops: int, most: int
) -> None:
    """Not when its visibility timeout is over; the later the more often it failed, and not all at once."""
    t = deployed(Constant)
    message = Message(t.start("constant"), "constant", "call", 0, False, 1, hops)
    [record] = t.stack.receive("constant", "call")
    record["attributes"]["ApproximateReceiveCount"] = str(receives)
    record["body"] = message.body

    def throttled(*_: Any) -> Any:
        raise Unavailable("throttled")

    monkeypatch.setattr("sagas.store.control.control.ControlItems.claim_step", throttled)
    for dice in (0.0, 0.5, 1.0):
        t.clock.dice = dice
        answer = step_handler.handler({"Records": [record]}, LambdaContext(20))
        seconds = math.ceil(most * (1 + dice) / 2)
        hidden = seconds <= 5 and receives < 900
        assert (t.hidden, t.delayed) == (([seconds], []) if hidden else ([], [(seconds, hops + 1)]))
        assert bool(answer["batchItemFailures"]) is hidden
        t.hidden.clear()
        t.delayed.clear()


@pytest.mark.parametrize("where", ["deployed", "emulated"])
def test_too_many_copies_end_in_the_dead_letter_queue_and_can_be_redriven(
    where: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    t: Bench = request.getfixturevalue(where)(Constant, SAGAS_MAX_RECEIVES="4")
    saga_id = _waiting(t, 2_000)
    for _ in range(t.stack.max_receives["constant/call"] + 1):
        t.invoke("constant", "call")
    assert t.delayed == []
    assert t.dead_letters("constant") == 1
    assert "message given up" in caplog.messages
    assert t.step(saga_id)["attempts"] == 1
    stack = t.stack
    [letter] = stack.sqs.receive_message(QueueUrl=stack.dead["constant"])["Messages"]
    stack.sqs.send_message(QueueUrl=stack.queues["constant"]["call"], MessageBody=letter["Body"])
    t.clock.time += 7
    t.run()
    assert t.status(saga_id) == "COMPLETED"


def test_what_a_batch_has_no_time_for_is_handed_back_but_not_worn_out(
    deployed: Make, caplog: pytest.LogCaptureFixture
) -> None:
    t = deployed(Constant, SAGAS_MAX_RECEIVES="4")
    ids = [t.start("constant") for _ in range(3)]
    records = t.stack.receive("constant", "call", 10)
    with caplog.at_level("INFO"):
        answer = step_handler.handler({"Records": records}, LambdaContext(20))
    assert answer == {"batchItemFailures": []}, json.dumps(answer)
    postponed = [vars(record) for record in caplog.records if record.message == "message postponed"]
    assert [(each["reason"], each["until"]) for each in postponed] == [("time", iso(t.clock.now()))] * 2
    t.stack.settle("constant", "call", records, answer)
    assert len(LOG) == 1
    t.run()
    assert [t.status(saga_id) for saga_id in ids] == ["COMPLETED"] * 3
    assert len(LOG) == 3
