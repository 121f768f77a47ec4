"""Steps that are skipped: who asks their condition, when, and what a death, a cancel or a release changes."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from sagas import (
    CircuitBreaker,
    Context,
    NotYet,
    Rejected,
    Retry,
    Saga,
    Secret,
    children,
    sleep,
    step,
    wait_for,
)
from sagas.core.states import StepStatus
from sagas.errors import TypeChanged, Unavailable
from sagas.store.control.control import ControlItems
from sagas.store.journal.journal import Journal
from tests.engine.metering import Wire
from tests.engine.outages import Outage, arrive_at_once
from tests.support.bench import Bench, Death, Make, once
from tests.support.sagas import FAIL, LOG, ONCE, Order, act

ANSWERS: list[bool | BaseException | int] = []
"""What the condition says, in turn; the last one for good."""
ASKED: list[str] = []
"""The results that the condition was asked with."""
_FAST = Retry.constant(max_retries=2, delay=0.0)


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    ANSWERS[:] = [False]
    ASKED.clear()
    LOOKS.clear()
    yield
    ANSWERS.clear()
    LOOKS.clear()


def answer() -> Any:
    said = ANSWERS.pop(0) if len(ANSWERS) > 1 else ANSWERS[0]
    if isinstance(said, BaseException):
        raise said
    return said


LOOKS: list[Callable[[], object]] = []
"""What is looked at while the condition is asked."""


def insured(pay: str, request: Order) -> bool:
    ASKED.append(pay)
    for look in LOOKS:
        look()
    return answer()


class Trip(Saga[Order], name="trip"):
    """The step in the middle can be skipped."""

    @step(retry=_FAST, timeout=5)
    def pay(self, request: Order, ctx: Context) -> str:
        act("pay", ctx)
        return "paid"

    @pay.compensate
    def refund(self, pay: str, ctx: Context) -> None:
        act("refund", ctx)

    @step(retry=_FAST, timeout=5, when=insured)
    def insure(self, request: Order, ctx: Context) -> str:
        act("insure", ctx)
        return "insured"

    @insure.compensate
    def resign(self, insure: str, ctx: Context) -> None:
        act("resign", ctx)

    @step(retry=_FAST, timeout=5)
    def send(self, insure: str | None, ctx: Context) -> str:
        act("send", ctx)
        return f"with {insure}"


def ends(b: Bench, saga_id: str) -> tuple[str, list[str]]:
    """Where the saga has come, and its steps."""
    saga = b.show(saga_id)
    return saga["status"], [each["status"] for each in saga["steps"]]


SKIPPED = ("COMPLETED", ["COMPLETED", "SKIPPED", "COMPLETED"])
RAN = ("COMPLETED", ["COMPLETED", "COMPLETED", "COMPLETED"])


def test_the_attempt_that_completes_the_step_before_asks(bench: Make, wire: Wire) -> None:
    b = bench(Trip)
    b.release()
    saga_id = b.start("trip")
    wire.requests.clear()
    b.deliver("trip", "pay")
    assert b.state(saga_id).cursor == 2
    writes = [name for name in wire.names() if name in ("PutItem", "UpdateItem", "BatchGetItem", "SendMessage")]
    assert writes == ["UpdateItem", *2 * ["PutItem", "UpdateItem"], "SendMessage"]
    b.run()
    assert (ends(b, saga_id), LOG, ASKED) == (SKIPPED, ["pay:1", "send:1"], ["paid"])
    insure = b.step(saga_id, 1)
    assert (insure["attempts"], insure["result"], b.step(saga_id)["result"]) == (0, None, "with None")
    assert b.entry(saga_id, "StepSkipped")["details"] == {"reason": "insured() is false"}
    assert b.engine.verifier.verify("trip", saga_id).finding.bad is None


def test_a_step_whose_condition_is_true_runs_and_asks_again(bench: Make, wire: Wire) -> None:
    b = bench(Trip)
    ANSWERS[:] = [True]
    saga_id = b.start("trip")
    wire.requests.clear()
    b.run()
    assert (ends(b, saga_id), ASKED) == (RAN, ["paid", "paid"])
    assert "BatchGetItem" not in wire.names(), "the message brings what the condition takes"


def first_asked(request: Order) -> bool:
    return answer()


class First(Saga[Order], name="first"):
    """Every step can be skipped."""

    @step(retry=_FAST, timeout=5, when=first_asked)
    def one(self, ctx: Context) -> str:
        act("one", ctx)
        return "one"

    two = sleep(timedelta(minutes=1), when=first_asked)
    three = wait_for(str, timeout=timedelta(minutes=1), when=first_asked)

    @step(retry=_FAST, timeout=5, when=first_asked)
    def four(self, ctx: Context) -> str:
        act("four", ctx)
        return "four"


@pytest.mark.parametrize("where", ["bench", "deployed"])
def test_a_first_step_asks_by_its_own_attempt_which_is_given_back(where: str, request: pytest.FixtureRequest) -> None:
    b: Bench = request.getfixturevalue(where)(First)
    saga_id = b.start("first")
    b.run(rounds=2)
    assert (ends(b, saga_id), LOG) == (("COMPLETED", ["SKIPPED"] * 4), [])
    assert b.show(saga_id)["result"] is None
    assert [each["attempts"] for each in b.show(saga_id)["steps"]] == [0] * 4
    own, *ahead = [entry for entry in b.stack.entries(saga_id) if entry["action"] == "StepSkipped"]
    assert own["details"].keys() == {"started_at", "reason"}
    assert (own["attempt"], [entry.get("attempt") for entry in ahead]) == (1, [None] * 3)
    assert b.actions(saga_id) == ["SagaStarted", *["StepSkipped"] * 4]


@pytest.mark.parametrize("skips", [True, False])
def test_steps_behind_waits_ask_by_their_own_attempts(bench: Make, skips: bool) -> None:
    b = bench(First)
    ANSWERS[:] = [True]
    saga_id = b.start("first")
    b.run()
    assert b.state(saga_id).waiting_for == "time"
    ANSWERS[:] = [not skips]
    b.clock.advance(60)
    b.recover()
    b.run()
    if not skips:
        assert b.state(saga_id).waiting_for == "signal"
        b.engine.signals.send("first", saga_id, "three", "yes", "ada")
        b.run()
    done = "SKIPPED" if skips else "COMPLETED"
    assert ends(b, saga_id) == ("COMPLETED", ["COMPLETED", "COMPLETED", done, done])


@pytest.mark.parametrize(
    ("target", "name", "before", "nth", "asked", "recovered"),
    [
        (Journal, "put", True, 1, "pay:1", ["StepLost", "StepCompleted", "StepSkipped"]),
        (Journal, "put", False, 1, "pay:1", ["StepCompleted", "StepSkipped"]),
        (ControlItems, "commit", True, 1, "pay:1", ["StepCompleted", "StepSkipped"]),
        (ControlItems, "commit", False, 1, "pay:1", ["StepCompleted", "MessageResent", "StepSkipped"]),
        (Journal, "put", True, 2, "pay:1", ["StepCompleted", "MessageResent", "StepSkipped"]),
        (Journal, "put", False, 2, "pay:1", ["StepCompleted", "StepSkipped"]),
        (ControlItems, "commit", True, 2, "pay:1", ["StepCompleted", "StepSkipped"]),
        (ControlItems, "commit", False, 2, "pay:1", ["StepCompleted", "StepSkipped"]),
    ],
    ids=[
        "before the entry of the step before",
        "behind it",
        "before the pointer",
        "behind it, ",
        "before StepSkipped",
        "behind it,  ",
        "before its pointer",
        "before the message",
    ],
)
def test_a_death_at_any_moment(
    bench: Make,
    monkeypatch: pytest.MonkeyPatch,
    target: Any,
    name: str,
    before: bool,
    nth: int,
    asked: str,
    recovered: list[str],
) -> None:
    b = bench(Trip)
    saga_id = b.start("trip")
    once(monkeypatch, target, name, before=before, nth=nth)
    with pytest.raises(Death):
        b.deliver("trip", "pay")
    b.clock.advance(400)
    b.recover()
    b.run()
    b.clock.advance(400)
    b.recover()
    b.run()
    assert ends(b, saga_id) == SKIPPED
    assert b.actions(saga_id)[1 : 1 + len(recovered)] == recovered
    assert (LOG[0], "insure:1" in LOG) == (asked, False)
    assert b.step(saga_id, 1)["attempts"] == 0
    assert b.engine.verifier.verify("trip", saga_id).finding.bad is None


@pytest.mark.parametrize(
    ("target", "name", "before", "nth", "result"),
    [
        (ControlItems, "commit", True, 1, RAN),
        (Journal, "put", True, 2, RAN),
        (Journal, "put", False, 2, SKIPPED),
        (ControlItems, "commit", True, 2, SKIPPED),
    ],
)
def test_of_two_answers_the_first_journaled_one_stands(
    bench: Make,
    monkeypatch: pytest.MonkeyPatch,
    target: Any,
    name: str,
    before: bool,
    nth: int,
    result: tuple[str, list[str]],
) -> None:
    """A release changes the condition while a worker is dead."""
    b = bench(Trip)
    saga_id = b.start("trip")
    once(monkeypatch, target, name, before=before, nth=nth)
    with pytest.raises(Death):
        b.deliver("trip", "pay")
    ANSWERS[:] = [True]
    b.clock.advance(400)
    b.recover()
    b.run()
    assert ends(b, saga_id) == result


def test_a_yes_that_nobody_has_acted_on_becomes_a_no(bench: Make) -> None:
    b = bench(Trip)
    ANSWERS[:] = [True]
    saga_id = b.start("trip")
    b.deliver("trip", "pay")
    ANSWERS[:] = [False]
    b.run()
    assert ends(b, saga_id) == SKIPPED


@pytest.mark.parametrize(
    ("target", "name", "nth"), [(Journal, "put", 1), (ControlItems, "commit", 1), (Journal, "put", 2)]
)
def test_a_cancel_at_any_moment_has_the_saga_undone(
    bench: Make, monkeypatch: pytest.MonkeyPatch, target: Any, name: str, nth: int
) -> None:
    b = bench(Trip)
    saga_id = b.start("trip")
    original = getattr(target, name)
    calls: list[str] = []

    def cancelling(*arguments: Any, **keywords: Any) -> Any:
        calls.append(name)
        if len(calls) == nth:
            b.engine.operations.cancel("trip", saga_id, "ada")
        return original(*arguments, **keywords)

    monkeypatch.setattr(target, name, cancelling)
    b.run()
    assert b.status(saga_id) == "CANCELLED"
    assert LOG == ["pay:1", "refund:1"]
    assert b.step(saga_id, 1)["status"] in ("PENDING", "SKIPPED")


class Last(Trip, name="last"):
    """Its last step can be skipped, too."""

    @step(when=insured)
    def thank(self, ctx: Context) -> None:
        act("thank", ctx)


def test_the_last_step_is_skipped_by_a_transaction_which_a_cancel_refuses(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench(Last)
    saga_id = b.start("last")
    finish = ControlItems.finish

    def cancelling(*arguments: Any) -> None:
        monkeypatch.setattr(ControlItems, "finish", finish)
        b.engine.operations.cancel("last", saga_id, "ada")
        finish(*arguments)

    monkeypatch.setattr(ControlItems, "finish", cancelling)
    b.run()
    assert b.status(saga_id) == "CANCELLED"
    assert LOG == ["pay:1", "send:1", "refund:1"]
    assert b.actions(saga_id)[4:7] == ["StepSkipped", "CancelRequested", "CompensationStarted"]
    assert b.stack.entries(saga_id)[4]["status"] == "RUNNING", "no entry says that it ended"
    second = b.start("last")
    b.run()
    assert ends(b, second) == ("COMPLETED", ["COMPLETED", "SKIPPED", "COMPLETED", "SKIPPED"])


def test_a_skipped_step_owes_no_undo(bench: Make) -> None:
    b = bench(Trip)
    FAIL["send"] = Rejected("no")
    saga_id = b.start("trip")
    b.run()
    assert ends(b, saga_id) == ("COMPENSATED", ["COMPENSATED", "SKIPPED", "FAILED"])
    assert LOG == ["pay:1", "send:1", "refund:1"]


def test_a_chain_goes_on_behind_a_skipped_step(deployed: Make) -> None:
    b = deployed(Last, SAGAS_CHAIN="*")
    saga_id = b.start("last")
    b.invoke("last", "pay")
    assert ends(b, saga_id) == ("COMPLETED", ["COMPLETED", "SKIPPED", "COMPLETED", "SKIPPED"])
    assert LOG == ["pay:1", "send:1"]


class Pivotal(Saga[Order], name="pivotal"):
    """The step behind the first one is the point of no return."""

    pay = Trip.pay
    refund = Trip.refund

    @step(pivot=True)
    def insure(self, request: Order, ctx: Context) -> str:
        act("insure", ctx)
        return "insured"

    @step
    def send(self, insure: str, ctx: Context) -> str:
        act("send", ctx)
        return f"with {insure}"


class PivotalNoMore(Trip, name="pivotal", version="2"):
    """A release in which that step can be skipped."""


@pytest.mark.parametrize("ahead", [True, False])
def test_the_pivot_of_a_saga_in_flight_is_not_skipped(bench: Make, ahead: bool) -> None:
    """The steps behind it have no undo in its release."""
    b = bench(Pivotal)
    saga_id = b.start("pivotal")
    if not ahead:
        b.deliver("pivotal", "pay")
    b.engine = b.deploy(PivotalNoMore)
    b.run()
    assert (ends(b, saga_id), ASKED) == (RAN, [])


class Started(Saga[Order], name="started"):
    """The step is also undone if it never completed."""

    pay = Trip.pay
    refund = Trip.refund

    @step(retry=_FAST, timeout=5, when=insured, undo_when="started")
    def insure(self, request: Order, ctx: Context) -> str:
        act("insure", ctx)
        return "insured"

    @insure.compensate
    def resign(self, insure: str | None, ctx: Context) -> None:
        act("resign", ctx)

    send = Trip.send


def lost(b: Bench, monkeypatch: pytest.MonkeyPatch, name: str) -> str:
    """A saga whose second step was lost in its first attempt, before it could be recorded."""
    ANSWERS[:] = [True]
    saga_id = b.start(name)
    b.deliver(name, "pay")
    once(monkeypatch, Journal, "put")
    with pytest.raises(Death):
        b.deliver(name, "insure")
    ANSWERS[:] = [False]
    b.clock.advance(400)
    b.recover()
    return saga_id


def test_a_step_that_may_have_begun_is_passed_over_and_in_doubt(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Trip)
    saga_id = lost(b, monkeypatch, "trip")
    b.run()
    assert ends(b, saga_id) == ("COMPLETED", ["COMPLETED", "FAILED", "COMPLETED"])
    assert (LOG, b.step(saga_id, 1)["attempts"]) == (["pay:1", "insure:1", "send:1"], 1)
    assert b.show(saga_id)["in_doubt"] == ["insure"]
    assert b.show(saga_id)["attention"]["code"] == "in_doubt"


def test_a_step_that_was_passed_over_is_undone_if_it_says_so(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Started)
    FAIL["send"] = Rejected("no")
    saga_id = lost(b, monkeypatch, "started")
    b.run()
    assert ends(b, saga_id) == ("COMPENSATED", ["COMPENSATED", "COMPENSATED", "FAILED"])
    assert LOG[-2:] == ["resign:1", "refund:1"]


def test_an_error_that_says_nothing_leaves_doubt_too(bench: Make) -> None:
    """Not only a lost attempt does."""
    b = bench(Trip)
    FAIL["insure"] = TimeoutError("no answer")
    ANSWERS[:] = [True, True, False]
    saga_id = b.start("trip")
    b.run()
    assert ends(b, saga_id) == ("COMPLETED", ["COMPLETED", "FAILED", "COMPLETED"])
    assert b.show(saga_id)["in_doubt"] == ["insure"]


def test_a_plain_failure_is_passed_over_without_doubt(bench: Make) -> None:
    b = bench(Trip)
    FAIL["insure"] = ValueError("broken")
    ANSWERS[:] = [True, True, False]
    saga_id = b.start("trip")
    b.run()
    assert ends(b, saga_id) == ("COMPLETED", ["COMPLETED", "FAILED", "COMPLETED"])
    assert (b.show(saga_id)["in_doubt"], LOG) == ([], ["pay:1", "insure:1", "send:1"])


class Polling(Saga[Order], name="polling"):
    """Its step polls, and can be skipped."""

    @step(when=first_asked, within=timedelta(hours=1))
    def job(self, request: Order, ctx: Context) -> str:
        act("job", ctx)
        raise NotYet(60)

    @job.compensate
    def stop(self, job: str | None, ctx: Context) -> None:
        act("stop", ctx)

    @step(retry=ONCE)
    def end(self, ctx: Context) -> None:
        act("end", ctx)


def test_a_step_that_polls_and_is_skipped_now_is_undone(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    arrive_at_once(monkeypatch)
    b = bench(Polling)
    FAIL["end"] = Rejected("no")
    ANSWERS[:] = [True]
    saga_id = b.start("polling")
    b.deliver("polling", "job")
    ANSWERS[:] = [False]
    b.clock.advance(61)
    b.run()
    assert ends(b, saga_id) == ("COMPENSATED", ["COMPENSATED", "FAILED"])
    assert LOG == ["job:1", "end:1", "stop:1"]


def test_an_error_of_the_condition_fails_the_steps_own_attempt(bench: Make) -> None:
    b = bench(Trip)
    ANSWERS[:] = [ValueError("broken"), ValueError("broken"), False]
    saga_id = b.start("trip")
    b.run()
    assert b.actions(saga_id)[1:4] == ["StepCompleted", "StepFailed", "StepSkipped"]
    failed = b.entry(saga_id, "StepFailed")["details"]
    assert (failed["error"], failed["excused"]) == ({"type": "ValueError", "message": "broken"}, True)
    assert "insured" in failed["stack_trace"]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (1, "when: insured() returned int, not bool"),
        (NotYet(60), "when: insured() raised NotYet; it must return True or False"),
        (
            ExceptionGroup("two", [NotYet(60), ValueError()]),
            "when: insured() raised NotYet; it must return True or False",
        ),
        (TypeChanged("no"), "when: insured() raised TypeChanged; it must return True or False"),
        (SystemExit(1), "when: insured() raised SystemExit"),
        (CancelledError(), "when: insured() raised CancelledError"),
    ],
)
def test_another_answer_fails_the_step(bench: Make, said: int | BaseException, error: str) -> None:
    b = bench(Trip)
    ANSWERS[:] = [said]
    saga_id = b.start("trip")
    b.run()
    assert ends(b, saga_id) == ("COMPENSATED", ["COMPENSATED", "FAILED", "PENDING"])
    assert b.step(saga_id, 1)["error"]["message"] == error
    assert (b.show(saga_id)["in_doubt"], LOG) == ([], ["pay:1", "refund:1"])


class Guarded(Saga[Order], name="guarded"):
    """The step behind the first one has a circuit breaker."""

    @step
    def pay(self, request: Order, ctx: Context) -> str:
        act("pay", ctx)
        return "paid"

    @step(retry=ONCE, circuit_breaker=CircuitBreaker(failure_threshold=1, open_for=30), when=insured)
    def insure(self, ctx: Context) -> None:
        act("insure", ctx)


def test_a_probe_that_is_skipped_says_nothing(bench: Make) -> None:
    """The next saga is the probe then, whether the one before asked ahead or not."""
    b = bench(Guarded)
    ANSWERS[:] = [True]
    FAIL["insure"] = 1
    b.start("guarded")
    b.run()
    [breaker] = b.engine.breaker_operations.list()
    assert breaker["state"] == "open"
    b.clock.advance(100)
    ANSWERS[:] = [True, False]
    skipped = b.start("guarded")
    b.run()
    assert ends(b, skipped) == ("COMPLETED", ["COMPLETED", "SKIPPED"])
    [breaker] = b.engine.breaker_operations.list()
    assert breaker["state"] == "half-open"
    ANSWERS[:] = [True]
    probe = b.start("guarded")
    b.run()
    assert ends(b, probe) == ("COMPLETED", ["COMPLETED", "COMPLETED"])


def test_an_open_breaker_and_a_paused_step_are_not_asked_ahead(bench: Make) -> None:
    b = bench(Guarded)
    b.engine.pausing.pause("guarded", "ada", "no", step="insure")
    skipped = b.start("guarded")
    b.run()
    assert ends(b, skipped) == ("COMPLETED", ["COMPLETED", "SKIPPED"])


class Timed(Trip, name="timed", timeout=timedelta(minutes=1)):
    """It has a deadline."""


def test_past_the_deadline_nobody_asks(bench: Make) -> None:
    b = bench(Timed)
    saga_id = b.start("timed")

    def late(*arguments: Any) -> str | None:
        result = call(*arguments)
        b.clock.advance(61)
        return result

    call = b.replace_call(late)
    b.deliver("timed", "pay")
    assert (ASKED, b.actions(saga_id)[1:3]) == ([], ["StepCompleted", "SagaTimedOut"])
    b.run()
    assert ends(b, saga_id) == ("COMPENSATED", ["COMPENSATED", "PENDING", "PENDING"])


def test_a_saga_that_is_paused_at_its_skipped_step_goes_on_behind_it(bench: Make) -> None:
    b = bench(Trip)
    ANSWERS[:] = [ValueError("later"), False]
    saga_id = b.start("trip")
    b.deliver("trip", "pay")
    b.engine.pausing.pause("trip", "ada", "no", saga_id=saga_id)
    b.run()
    assert ends(b, saga_id)[1] == ["COMPLETED", "PENDING", "PENDING"]
    b.engine.pausing.resume("trip", "ada", saga_id=saga_id)
    b.run()
    assert ends(b, saga_id) == SKIPPED


def many(one: str, two: str, request: Order) -> bool:
    ASKED.append(one + two)
    return answer()


class Wide(Saga[Order], name="wide"):
    """Only the condition takes the first results."""

    @step
    def one(self) -> str:
        return "1"

    @step
    def two(self) -> str:
        return "2"

    @step(when=many)
    def three(self) -> str:
        return "3"

    @step(when=many)
    def four(self) -> str:
        return "4"


@pytest.mark.parametrize(("carry", "reads"), [(True, 0), (False, 1)])
def test_results_that_only_the_condition_takes_are_carried_or_read(
    bench: Make, wire: Wire, carry: bool, reads: int
) -> None:
    b = bench(Wide, carry=carry)
    saga_id = b.start("wide")
    wire.requests.clear()
    b.run()
    assert wire.names().count("BatchGetItem") == reads
    assert (ends(b, saga_id), ASKED) == (("COMPLETED", ["COMPLETED"] * 2 + ["SKIPPED"] * 2), ["12", "12"])


@dataclass(frozen=True)
class Card:
    number: Secret[str]


def fits(request: Card) -> bool:
    raise ValueError(f"no card {request.number}")


class Hidden(Saga[Card], name="hidden"):
    """Its condition quotes what readers must not see."""

    @step(retry=ONCE, when=fits)
    def pay(self) -> None: ...


def test_what_a_condition_quotes_is_hidden(bench: Make) -> None:
    b = bench(Hidden)
    saga_id = b.start("hidden", {"number": "4111-1111"})
    b.run()
    error = b.entry(saga_id, "StepFailed")["details"]["error"]
    assert error == {"type": "ValueError", "message": "no card ***"}


class Part(Saga[int], name="part"):
    """Its result is that of a step that can be skipped."""

    @step
    def begin(self, request: int) -> int:
        return request

    @step
    def odd(self, begin: int) -> bool:
        return begin % 2 == 1

    @step(when=odd)
    def end(self, begin: int) -> str:
        return f"part {begin}"


class Whole(Saga[Order], name="whole"):
    """Its parts have no result if their last step was skipped."""

    @children(Part)
    def parts(self, request: Order) -> list[int]:
        return [1, 2]

    @step
    def end(self, parts: list[str | None]) -> str:
        return ", ".join(map(str, parts))

    @children(Part, when=first_asked)
    def more(self, request: Order) -> list[int]:
        return [3]


def test_a_parent_takes_none_from_a_child_whose_last_step_was_skipped(bench: Make) -> None:
    b = bench(Whole, Part)
    saga_id = b.start("whole")
    b.run()
    assert ends(b, saga_id) == ("COMPLETED", ["COMPLETED", "COMPLETED", "SKIPPED"])
    assert b.step(saga_id, 1)["result"] == "part 1, None"


def test_a_signal_that_came_early_does_not_keep_its_wait_from_being_skipped(bench: Make) -> None:
    b = bench(First)
    ANSWERS[:] = [True]
    saga_id = b.start("first")
    b.engine.signals.send("first", saga_id, "three", "yes", "ada")
    ANSWERS[:] = [False]
    b.run()
    assert ends(b, saga_id) == ("COMPLETED", ["SKIPPED"] * 4)


def test_a_skip_that_cannot_be_committed_waits_in_its_queue(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    arrive_at_once(monkeypatch)
    b = bench(First)
    saga_id = b.start("first")
    outage = Outage(monkeypatch, b, Unavailable("no"))
    outage.of(ControlItems, "commit", "finish")
    outage.of(Journal, "put")
    outage.lasting = True
    b.deliver("first", "one")
    outage.lasting = False
    b.run()
    assert ends(b, saga_id) == ("COMPLETED", ["SKIPPED"] * 4)
    assert b.actions(saga_id)[1] == "StepSkipped"


def test_one_answer_is_given_for_all_tries_of_a_commit(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first try has kept the lease for the skip, although its response was lost."""
    b = bench(Trip)
    ANSWERS[:] = [False, True]
    saga_id = b.start("trip")
    commit = ControlItems.commit

    def losing(*arguments: Any) -> None:
        monkeypatch.setattr(ControlItems, "commit", commit)
        commit(*arguments)
        raise Unavailable("no response")

    monkeypatch.setattr(ControlItems, "commit", losing)
    b.deliver("trip", "pay")
    state = b.state(saga_id)
    assert (state.steps[1].status, state.lease, state.cursor) == (StepStatus.SKIPPED, None, 2)
    b.run()
    assert ends(b, saga_id) == SKIPPED


def test_the_condition_is_asked_between_entry_and_pointer(bench: Make) -> None:
    b = bench(Trip)
    saga_id = b.start("trip")
    seen = list[tuple[str, int]]()
    LOOKS.append(lambda: seen.append((b.actions(saga_id)[-1], b.state(saga_id).seq)))
    b.deliver("trip", "pay")
    assert seen == [("StepCompleted", 1)]


def test_an_answer_is_for_its_own_saga(bench: Make) -> None:
    b = bench(Trip)
    ANSWERS[:] = [False, True]
    first, second = b.start("trip"), b.start("trip")
    b.run()
    assert sorted([ends(b, first), ends(b, second)]) == sorted([SKIPPED, RAN])
