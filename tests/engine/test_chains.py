"""Steps that one invocation runs one after the other: what is asked for, what leaves the chain, what a death costs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sagas import CircuitBreaker, Context, Exhausted, Retry, Saga, step
from sagas.authoring.definition.definition import definition_of
from sagas.core.states import SagaStatus
from sagas.engine.attempt.course import Chain
from sagas.engine.engine import settings_from
from sagas.errors import Rejected, Unavailable
from sagas.handlers import step as step_handler
from sagas.handlers.telemetry import telemetry
from sagas.messaging.message import Message
from tests.engine.metering import Meter, Wire, metered
from tests.support.aws import HandmadeStack, LambdaContext
from tests.support.bench import Bench, Death, Make, deploy_functions, once
from tests.support.dynamodb import aws
from tests.support.engine import Engine
from tests.support.sagas import FAIL, LOG, Order, Seat, Trip, act

LARGE: dict[str, str] = {}
_NOW = Retry.constant(max_retries=2, delay=0.0)
_SOON = Retry.constant(max_retries=2, delay=0.5)
_LATER = Retry.constant(max_retries=2, delay=3.0)


def chaining(bench: Make, *sagas: type[Any], on_next_step: Callable[[Message], None]) -> Bench:
    """A bench whose worker runs all steps in a row, and calls this before each further one."""
    b = bench(*sagas)
    settings, chain = settings_from(b.stack.environment), Chain.parse("*")
    b.engine = Engine(
        b.engine.registry, settings, b.stack.routes, clock=b.clock, chain=chain, on_next_step=on_next_step
    )
    return b


class Five(Saga[Order], name="five"):
    """Five steps, each of which takes what the one before returned."""

    @step(retry=_NOW, timeout=5)
    def one(self, request: Order, ctx: Context) -> Seat:
        act("one", ctx)
        return Seat(request.count)

    @one.compensate
    def undo_one(self, one: Seat, ctx: Context) -> None:
        act("undo_one", ctx)

    @step(retry=_SOON, timeout=5)
    def two(self, one: Seat, ctx: Context) -> str:
        act("two", ctx)
        return f"two {one.number}" + LARGE.get(ctx.saga_id, "")

    @two.compensate
    def undo_two(self, two: str, ctx: Context) -> None:
        act("undo_two", ctx)

    @step(retry=_LATER, timeout=5)
    def three(self, one: Seat, two: str, ctx: Context) -> str:
        act("three", ctx)
        return f"three {one.number} {two}"

    @three.compensate
    def undo_three(self, three: str, ctx: Context) -> None:
        act("undo_three", ctx)

    @step(
        retry=Retry.constant(max_retries=2, delay=0.0, on_exhausted=Exhausted.DEAD_LETTER),
        timeout=5,
        circuit_breaker=CircuitBreaker(failure_threshold=2, open_for=30),
    )
    def four(self, three: str, ctx: Context) -> str:
        act("four", ctx)
        return three

    @step(retry=_NOW, timeout=5)
    def five(self, request: Order, four: str, ctx: Context) -> None:
        act("five", ctx)


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch, credentials: None, clean: None) -> Iterator[Make]:
    """Make a bench of :class:`Five` whose steps share a queue and a function; keywords go into its environment."""

    def make(**environment: str) -> Bench:
        stack = HandmadeStack(Five)
        routes = json.loads(stack.environment["SAGAS_QUEUES"])
        names = [step.name for step in definition_of(Five).steps]
        shared = json.dumps({**routes, "groups": {"five": dict.fromkeys(names, "one")}})
        return deploy_functions(monkeypatch, stack, Bench, SAGAS_CHAIN="*", SAGAS_QUEUES=shared, **environment)

    with aws():
        yield make


@pytest.fixture
def chained(together: Make) -> Bench:
    """All five steps in one function."""
    return together()


def begun(w: Bench, saga: str = "five") -> str:
    return w.start(saga, {"item": "train"})


def ran() -> list[str]:
    return [line.split(":")[0] for line in LOG]


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> Callable[[Bench], Meter]:
    return lambda w: metered(w, monkeypatch)


def test_five_steps_take_eleven_requests_and_nineteen_write_units(
    chained: Bench, wire: Wire, meter: Callable[[Bench], Meter]
) -> None:
    chained.release()
    w, seen = chained, meter(chained)
    saga_id = begun(w)
    assert seen.units + seen.index_units == 4
    wire.requests.clear()
    assert w.invoke("five", "one") == 1
    names = [name for name, asked in wire.requests if name != "GetItem" or asked.get("ConsistentRead")]
    of_breaker = [asked for _, asked in wire.requests if "breaker#" in json.dumps(asked.get("Key", {}))]
    taken = [name for name in names if name not in ("ReceiveMessage", "DeleteMessage", "GetQueueUrl")]
    again = ["PutItem", "UpdateItem"]
    expected = ["UpdateItem", "ChangeMessageVisibility", *4 * again, "TransactWriteItems"]
    assert [name for name in taken if name in set(expected)] == expected
    assert len(expected) == 11
    assert len(of_breaker) <= 1, "only the step behind a circuit breaker looks at it"
    assert w.status(saga_id) == "COMPLETED"
    assert seen.units + seen.index_units == 19, "one of them tells how it ended, by an index"
    assert len(seen.dues) == 2, "the index is written at start and end"
    assert ran() == ["one", "two", "three", "four", "five"]
    assert [step["result"] for step in w.show(saga_id)["steps"]] == [
        {"number": 1},
        "two 1",
        "three 1 two 1",
        "three 1 two 1",
        None,
    ]


def test_nothing_is_read_or_sent_on_the_way(chained: Bench, wire: Wire) -> None:
    begun(chained)
    wire.requests.clear()
    chained.invoke("five", "one")
    assert not {"SendMessage", "BatchGetItem"} & set(wire.names())


def test_large_results_are_not_read_again(together: Make, wire: Wire) -> None:
    """Neither from the journal, where messages carry no more, nor from the bucket."""
    w = together(SAGAS_PAYLOAD_LIMIT="1024")
    saga_id = begun(w)
    LARGE[saga_id] = "x" * 20_000
    wire.requests.clear()
    w.invoke("five", "one")
    assert w.state(saga_id).status is SagaStatus.COMPLETED
    assert "PutObject" in wire.names()
    assert not {"BatchGetItem", "GetObject"} & set(wire.names())


def test_without_a_chain_each_step_is_an_invocation_of_its_own(deployed: Make, clean: None) -> None:
    w = deployed(Five)
    begun(w)
    w.invoke("five", "one")
    assert ran() == ["one"]


def test_a_chain_ends_with_its_group(deployed: Make, clean: None, wire: Wire) -> None:
    w = deployed(Five, SAGAS_CHAIN="one,two")
    saga_id = begun(w)
    w.invoke("five", "one")
    assert ran() == ["one", "two"]
    (message,) = [json.loads(asked["MessageBody"]) for name, asked in wire.requests if name == "SendMessage"][1:]
    assert (message["step"], message["dispatch"]) == ("three", 2)
    assert len(message["inputs"]) == 3
    wire.requests.clear()
    w.invoke("five", "three")
    assert ran() == ["one", "two", "three"]
    assert "BatchGetItem" not in wire.names(), "what was carried adds up"
    w.run()
    assert w.status(saga_id) == "COMPLETED"


def test_too_little_time_leaves_the_invocation(chained: Bench) -> None:
    """One second short of what the step may take and recording it."""
    saga_id = begun(chained)
    chained.invoke("five", "one", remaining=6.9)
    assert ran() == ["one"]
    assert chained.state(saga_id).dispatch == 2
    chained.run()
    assert chained.status(saga_id) == "COMPLETED"


def test_a_cancel_leaves_the_invocation(chained: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    w = chained
    saga_id = begun(w)

    def cancelling(definition: Any, step: Any, *rest: Any) -> Any:
        if step.name == "two":
            w.engine.operations.cancel("five", saga_id, "ada")
        return call(definition, step, *rest)

    monkeypatch.setattr(step_handler, "_engine", lambda: w.engine)
    call = w.replace_call(cancelling)
    w.invoke("five", "one")
    assert ran() == ["one", "two"]
    assert w.status(saga_id) == "COMPENSATING"


def test_undos_are_chained_too(chained: Bench, wire: Wire) -> None:
    FAIL["three"] = Rejected("no")
    saga_id = begun(chained)
    wire.requests.clear()
    chained.invoke("five", "one")
    assert ran() == ["one", "two", "three", "undo_two", "undo_one"]
    assert chained.status(saga_id) == "COMPENSATED"
    assert "SendMessage" not in wire.names()


def test_a_retry_within_a_second_stays(chained: Bench) -> None:
    FAIL["two"] = 2
    saga_id = begun(chained)
    chained.invoke("five", "one")
    assert ran() == ["one", "two", "two", "two", "three", "four", "five"]
    assert chained.clock.slept == [0.5, 0.5]
    assert chained.status(saga_id) == "COMPLETED"


def test_a_retry_over_a_second_is_a_new_message(chained: Bench, wire: Wire) -> None:
    """Though it is one within five: the message at hand has been received for the steps before."""
    FAIL["three"] = 1
    saga_id = begun(chained)
    chained.invoke("five", "one")
    assert ran() == ["one", "two", "three"]
    assert chained.state(saga_id).dispatch == 2
    (sent,) = [json.loads(asked["MessageBody"]) for name, asked in wire.requests if name == "SendMessage"][1:]
    assert (sent["step"], sent["dispatch"]) == ("three", 2)
    assert chained.delayed == [(3, 0)]
    chained.clock.advance(3.0)
    chained.run()
    assert chained.status(saga_id) == "COMPLETED"


def test_the_first_steps_own_message_waits_as_ever(deployed: Make, clean: None) -> None:
    w = deployed(Five, SAGAS_CHAIN="three,four,five")
    FAIL["three"] = 1
    saga_id = begun(w)
    for name in ("one", "two", "three"):
        w.invoke("five", name)
    assert w.hidden[-1] == 3
    assert w.state(saga_id).dispatch == 3


def test_a_dead_letter_names_its_step(chained: Bench) -> None:
    """The message at hand was sent for another: it is not the one to die."""
    FAIL["four"] = Rejected("no")
    saga_id = begun(chained)
    FAIL["four"] = ValueError("broken")
    chained.run()
    state = chained.state(saga_id)
    assert state.status is SagaStatus.DEAD_LETTERED
    assert chained.dead_letters("five") == 1
    records = chained.stack.sqs.receive_message(QueueUrl=chained.stack.dead["five"])["Messages"]
    assert json.loads(records[0]["Body"])["step"] == "four"
    assert ran().count("three") == 1


def test_an_open_breaker_leaves_the_invocation(chained: Bench) -> None:
    """The second failure opens it, also for the saga itself: its next attempt waits."""
    w = chained
    FAIL["four"] = 2
    first = begun(w)
    w.invoke("five", "one")
    assert ran() == ["one", "two", "three", "four", "four"]
    assert w.state(first).lease is None
    LOG.clear()
    second = begun(w)
    for _ in range(2):  # the first one's message is in the queue, too
        w.invoke("five", "one")
    assert ran() == ["one", "two", "three"]
    assert w.state(second).dispatch == 2
    w.clock.advance(31.0)
    w.run()
    assert w.status(first) == w.status(second) == "COMPLETED"


def test_each_lease_is_as_long_as_its_step_needs(chained: Bench) -> None:
    """Not as long as the function may go on; undoing waits for that."""
    w, leases = chained, list[tuple[str, float, float]]()
    saga_id = begun(w)

    def looking(definition: Any, step: Any, *rest: Any) -> Any:
        lease = w.state(saga_id).lease
        assert lease is not None
        now = w.clock.now()
        leases.append((lease.owner, round(lease.expires_at - now, 3), round(lease.act_until - now, 3)))
        w.clock.advance(4.0)
        return call(definition, step, *rest)

    call = w.replace_call(looking)
    w.invoke("five", "one", remaining=60.0)
    assert [expiry for _, expiry, _ in leases] == [12.0] * 5
    assert [act for _, _, act in leases] == [61.0, 57.0, 53.0, 49.0, 45.0]
    assert len({owner for owner, _, _ in leases}) == 5
    # Hidden until 17 s: passed by the leases that end after 20 s and more.
    assert w.hidden == [17, 17, 17]


def test_a_death_costs_the_step_at_hand_an_attempt_and_no_other(chained: Bench) -> None:
    """And the message that comes back stands for the saga, though it was sent for the first step."""
    w = chained
    saga_id = begun(w)
    deaths = ["three"]

    def dying(definition: Any, step: Any, *rest: Any) -> Any:
        outcome = call(definition, step, *rest)
        if step.name in deaths:
            deaths.remove(step.name)
            raise Death
        return outcome

    call = w.replace_call(dying)
    records = w.stack.receive("five", "one")
    with pytest.raises(Death):
        step_handler.handler({"Records": records}, LambdaContext(60.0))
    assert ran() == ["one", "two", "three"]
    assert w.hidden[-1] == 17, "5 s after the lease"
    w.clock.advance(17.0)
    answer = step_handler.handler({"Records": records}, LambdaContext(60.0))
    w.stack.settle("five", "one", records, answer)
    assert answer == {"batchItemFailures": []}
    w.run()
    assert w.status(saga_id) == "COMPLETED"
    assert ran() == ["one", "two", "three", "three", "four", "five"]
    assert [step["attempts"] for step in w.show(saga_id)["steps"]] == [1, 1, 2, 1, 1]
    assert w.actions(saga_id).count("StepLost") == 1
    assert w.recover() == []


def test_a_chain_that_is_taken_apart_strands_no_message(together: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message was sent for the first step, and stands for its saga also in functions that have no chain."""
    w = together()
    FAIL["two"] = Death()
    saga_id = begun(w)
    with pytest.raises(Death):
        w.invoke("five", "one")
    FAIL.clear()
    apart = deploy_functions(monkeypatch, w.stack, Bench, SAGAS_CHAIN="")
    apart.clock.advance(30)
    assert apart.invoke("five", "one") == 1
    apart.run()
    assert (apart.status(saga_id), apart.dead_letters("five")) == ("COMPLETED", 0)
    assert ran() == ["one", "two", "two", "three", "four", "five"]


def test_a_death_during_a_short_wait_costs_nothing(chained: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    w = chained
    FAIL["two"] = 1
    saga_id = begun(w)
    records = w.stack.receive("five", "one")
    once(monkeypatch, w.clock, "sleep")
    with pytest.raises(Death):
        step_handler.handler({"Records": records}, LambdaContext(60.0))
    w.clock.advance(17.0)
    answer = step_handler.handler({"Records": records}, LambdaContext(60.0))
    assert answer == {"batchItemFailures": []}
    assert w.status(saga_id) == "COMPLETED"
    assert ran() == ["one", "two", "two", "three", "four", "five"]


def test_another_delivery_waits_for_the_chain(chained: Bench) -> None:
    w = chained
    begun(w)
    records = w.stack.receive("five", "one")

    def doubling(definition: Any, step: Any, *rest: Any) -> Any:
        if step.name == "three":
            w.hidden.clear()
            answer = step_handler.handler({"Records": records}, LambdaContext(60.0))
            assert len(answer["batchItemFailures"]) == 1
            assert w.hidden == [12]
        return call(definition, step, *rest)

    call = w.replace_call(doubling)
    step_handler.handler({"Records": records}, LambdaContext(60.0))
    assert ran() == ["one", "two", "three", "four", "five"]


def test_an_outcome_that_cannot_be_committed_waits_under_its_steps_name(
    chained: Bench, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = chained
    saga_id = begun(w)
    engine = step_handler._engine()  # pyright: ignore[reportPrivateUsage]
    away = [False]

    def leaving(definition: Any, step: Any, *rest: Any) -> Any:
        away[0] = step.name == "two"
        return call(definition, step, *rest)

    put = type(engine.journal).put

    def out_of_reach(self: Any, entry: Any) -> Any:
        if away[0]:
            raise Unavailable("DynamoDB is out of reach")
        return put(self, entry)

    call = w.replace_call(leaving)
    monkeypatch.setattr(type(engine.journal), "put", out_of_reach)
    w.invoke("five", "one")
    away[0] = False
    (sent,) = [json.loads(asked["MessageBody"]) for name, asked in wire.requests if name == "SendMessage"][1:]
    assert (sent["step"], sent["dispatch"], sent["commit"]["action"]) == ("two", 1, "StepCompleted")
    w.run()
    assert w.status(saga_id) == "COMPLETED"
    assert ran() == ["one", "two", "three", "four", "five"]


def test_every_line_of_the_log_names_its_step(chained: Bench) -> None:
    w, seen = chained, list[str]()

    def looking(*given: Any) -> Any:
        seen.append(telemetry().logger.get_current_keys()["step"])
        return call(*given)

    call = w.replace_call(looking)
    begun(w)
    w.invoke("five", "one")
    assert seen == ["one", "two", "three", "four", "five"]


def test_a_message_of_another_function_stands_for_nothing(deployed: Make, clean: None) -> None:
    """Only what this function runs itself may have gone on without a message."""
    w = deployed(Trip, SAGAS_CHAIN="book,pay")
    saga_id = w.start("trip", {"item": "train"})
    w.invoke("trip", "book")
    body = {"saga_id": saga_id, "saga": "trip", "step": "book", "index": 0, "undo": False, "dispatch": 2}
    w.stack.sqs.send_message(QueueUrl=w.stack.queues["trip"]["book"], MessageBody=json.dumps(body))
    records = w.stack.receive("trip", "book")
    answer = step_handler.handler({"Records": records}, LambdaContext(60.0))
    assert answer["batchItemFailures"] == []
    assert ran() == ["book", "pay"]


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("", [], ["book"]), ("*", ["book", "pay"], []), ("book,pay", ["book", "pay"], ["tell"])],
)
def test_chains_are_read_from_the_environment(text: str, inside: list[str], outside: list[str]) -> None:
    chain = Chain.parse(text)
    assert all(step in chain for step in inside)
    assert not any(step in chain for step in outside)


def test_a_chain_stops_before_a_step_that_is_paused(chained: Bench) -> None:
    w = chained
    w.engine.pausing.pause("five", "ann", "the bank is shut", step="three")
    saga_id = begun(w)
    w.run()
    assert (ran(), w.show(saga_id)["paused"]) == (["one", "two"], True)
    w.engine.pausing.resume("five", "ann", step="three")
    w.run()
    assert w.show(saga_id)["status"] == "COMPLETED"


def test_a_step_whose_lease_expired_before_it_could_start_is_not_counted(bench: Make) -> None:
    pauses = [60.0]

    def pause(message: Message) -> None:
        b.clock.advance(pauses.pop() if pauses else 0.0)

    b = chaining(bench, Five, on_next_step=pause)
    saga_id = b.start("five")
    b.run()
    assert (b.status(saga_id), LOG[:3]) == ("COMPLETED", ["one:1", "two:1", "three:1"])
    assert b.actions(saga_id)[1:4] == ["StepCompleted", "StepPostponed", "StepCompleted"]
    assert b.entry(saga_id, "StepPostponed")["details"]["because"] == "late"
    assert b.step(saga_id, 1)["attempts"] == 1


def test_an_undo_whose_lease_expired_before_it_could_start_is_not_counted(bench: Make) -> None:
    pauses = {"three": 60.0}

    def pause(message: Message) -> None:
        b.clock.advance(pauses.pop(message.step, 0.0) if message.undo else 0.0)

    b = chaining(bench, Five, on_next_step=pause)
    FAIL["five"] = Rejected("no")
    saga_id = b.start("five")
    b.run()
    assert (b.status(saga_id), pauses) == ("COMPENSATED", {})
    assert b.actions(saga_id).count("CompensationPostponed") == 1
    assert [what for what in LOG if what.startswith("undo")].count("undo_three:1") == 1
