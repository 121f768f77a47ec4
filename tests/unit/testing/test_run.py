"""``sagas.testing.run``: what an author sees of a saga that runs in process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise, repeat
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sagas import (
    Context,
    DefinitionError,
    InvalidRequest,
    NotYet,
    PermanentError,
    Rejected,
    Retry,
    Saga,
    TimedOut,
    step,
    wait_for,
)
from sagas.core.text import epoch
from sagas.errors import TooLarge
from sagas.operations import LARGEST_BODY
from sagas.testing import run
from tests.support.sagas import ONCE, Fatal, Order, Reminded, Seat, Stubborn, Trip

SLOW = Retry.linear(max_retries=2, base_delay=3600)


class Pricing(Saga[Order]):
    """Asynchronous, with results of types that JSON does not have."""

    @step(result="price", retry=SLOW)
    async def quote(self, request: Order, ctx: Context) -> Decimal:
        await asyncio.sleep(0)
        return Decimal("9.90") * request.count

    @quote.compensate
    async def withdraw(self, price: Decimal, ctx: Context) -> None:
        await asyncio.sleep(0)
        ctx.client("mail").append((ctx.idempotency_key, ctx.forward_key, price))

    @step(retry=Retry.constant(max_retries=1, delay=0.2))
    def confirm(self, price: Decimal, ctx: Context) -> str:
        return f"{price} {ctx.saga} {ctx.s3_key('offer.pdf')} {ctx.remaining_time():.0f}"


class Ordered(Saga[Order], retry=Retry.constant(max_retries=2, delay=60), undo_retry=ONCE):
    """Its steps and undos have the policies of the class."""

    @step
    def reserve(self) -> None: ...

    @reserve.compensate
    def release(self) -> None: ...

    @step
    def pay(self) -> None: ...


class Slow(Saga[Order]):
    """Takes longer than it may, by the machine's clock."""

    @step(timeout=0.05, retry=ONCE)
    async def wait(self) -> None:
        await asyncio.sleep(0.3)


class Blocking(Saga[Order]):
    """The same, and it cannot be cancelled."""

    @step(timeout=0.05, retry=ONCE)
    def wait(self) -> None:
        time.sleep(0.06)  # the subject: code that takes longer than it may


class Five(Saga[Order], name="five"):
    """As many steps as a saga often has."""

    @step
    def first(self, request: Order) -> str:
        return request.item

    @step
    def second(self, first: str) -> str:
        return f"{first}2"

    @step
    def third(self, second: str) -> str:
        return f"{second}3"

    @step
    def fourth(self, third: str) -> str:
        return f"{third}4"

    @step
    def fifth(self, fourth: str) -> str:
        return f"{fourth}5"


class Rehearsing(Saga[Order], name="rehearsing"):
    """Runs a saga while it runs."""

    @step
    def rehearse(self, request: Order) -> dict[str, Any]:
        return dict(run(Five, request).results)

    @step
    def repeat(self, rehearse: dict[str, Any]) -> str:
        return rehearse["fifth"]


class Mistaken(Saga[Order]):
    """Returns another type than it says."""

    @step(retry=Retry.constant(max_retries=1, delay=0))
    def number(self, ctx: Context) -> int:
        wrong: Any = "seven"
        return wrong


class Unset(Pricing):
    """Its configuration is missing."""

    @classmethod
    def create(cls) -> Unset:
        raise KeyError("SEATS_URL")


class Forgetful(Saga[Order]):
    """Returns nothing."""

    @step
    def seat(self, ctx: Context) -> Seat:  # pyright: ignore[reportReturnType] - that is what is tested
        ctx.logger.info("no return")


class Careless(Saga[Order]):
    """Returns what is wrong in several places."""

    @step
    def seats(self) -> dict[str, list[Seat]]:
        wrong: Any = {
            "a": [Seat(1), Seat(cast("int", "secret"))],
            "b": ("secret",),
            "c": {"secret": 1},
            "d": "secret",
        }
        return wrong


def actions(audit: list[Any]) -> list[str]:
    return [entry.action for entry in audit]


def test_the_policies_of_a_class() -> None:
    failed = run(Ordered, Order("tea", 1), fail={"pay": TimeoutError("slow"), "release": TimeoutError("slow")})
    assert failed.status == "COMPENSATION_FAILED"
    assert actions(failed.audit).count("StepFailed") == 3
    assert actions(failed.audit).count("CompensationFailed") == 1


def test_it_completes_and_gives_every_result_by_name() -> None:
    outcome = run(Pricing, Order("tea", 3))
    assert outcome.status == "COMPLETED"
    assert outcome.results == {
        "price": Decimal("29.70"),
        "confirm": "29.70 pricing pricing/00000000-0000-7000-8000-000000000000/offer.pdf 30",
    }
    assert outcome.error is None
    assert outcome.steps == {"quote": "COMPLETED", "confirm": "COMPLETED"}


def test_the_audit_trail_is_that_of_production() -> None:
    audit = run(Trip, Order("train"), fail={"tell": ValueError("nobody listens")}).audit
    assert actions(audit) == [
        "SagaStarted",
        *["StepCompleted"] * 2,
        *["StepFailed"] * 3,
        "CompensationStarted",
        *["StepCompensated"] * 2,
    ]
    assert [entry["seq"] for entry in audit] == list(range(1, 10))
    last = audit[5]
    assert (last.step, last.attempt, last.status) == ("tell", 3, "RUNNING")
    assert last.details["error"] == {"type": "ValueError", "message": "nobody listens"}
    assert "ValueError: nobody listens" in last.details["stack_trace"]
    assert audit[-1].status == "COMPENSATED"


def test_delays_are_skipped_but_show_in_the_trail() -> None:
    audit = run(Pricing, Order("tea"), fail={"quote": RuntimeError}).audit
    failed = [epoch(entry.at) for entry in audit if entry.action == "StepFailed"]
    assert [round(at - failed[0]) for at in failed] == [0, 3600, 10_800]
    assert all(one.at <= other.at for one, other in pairwise(audit))


def test_a_failing_step_is_undone_and_its_error_told() -> None:
    mail: list[Any] = []
    outcome = run(Pricing, Order("tea"), fail={"confirm": RuntimeError("no")}, clients={"mail": mail}, saga_id="s")
    assert outcome.status == "COMPENSATED"
    assert outcome.error == {"step": "confirm", "type": "RuntimeError", "message": "no"}
    assert mail == [("s:quote:undo", "s:quote", Decimal("9.90"))]
    assert outcome.results == {"price": Decimal("9.90")}


@pytest.mark.parametrize(
    ("saga_class", "fail", "status", "attempts"),
    [
        (Trip, {"pay": PermanentError("never")}, "COMPENSATED", 1),
        (Trip, {"pay": RuntimeError, "unbook": RuntimeError("no")}, "COMPENSATION_FAILED", 3),
        (Stubborn, {"second": RuntimeError}, "DEAD_LETTERED", 2),
        (Stubborn, {"second": Rejected("declined")}, "COMPENSATED", 1),
        (Fatal, {"second": RuntimeError}, "FAILED", 1),
    ],
)
def test_it_ends_as_its_policies_say(saga_class: Any, fail: Any, status: str, attempts: int) -> None:
    outcome = run(saga_class, Order("x"), fail=fail)
    assert outcome.status == status
    assert actions(outcome.audit).count("StepFailed") == attempts
    assert outcome.error is not None
    assert outcome.error.step in fail


class Essay(Saga[str]):
    """Takes a text, and waits for another one."""

    review = wait_for(str, timeout=timedelta(hours=1))

    @step
    def publish(self, request: str, review: str) -> int:
        return len(request) + len(review)


@pytest.mark.parametrize("letter", ["x", "ü"])
def test_it_takes_what_the_api_takes(letter: str) -> None:
    longest = letter * ((LARGEST_BODY - 2) // len(letter.encode()))  # without the quotes
    assert run(Essay, longest, signals={"review": longest}).result == 2 * len(longest)
    for request, review, path in ((longest + "x", "x", "request"), ("x", longest + "x", 'signals: "review"')):
        with pytest.raises(TooLarge) as refused:
            run(Essay, request, signals={"review": review})
        assert str(refused.value).startswith(f"{path}: is {LARGEST_BODY + 1:,} bytes of JSON; the API takes")


def test_a_result_of_another_type_fails_the_step() -> None:
    outcome = run(Mistaken, Order("x"))
    assert outcome.status == "COMPENSATED"
    assert outcome.error is not None
    assert outcome.error.type == "WrongResult"
    told = "the result of step 'number' is not the int it declares: $ is str, expected an integer"
    assert outcome.error.message == told
    assert actions(outcome.audit).count("StepFailed") == 1
    assert outcome.in_doubt == ("number",)


def test_a_forgotten_return_is_told() -> None:
    outcome = run(Forgetful, Order("x"))
    assert outcome.error is not None
    assert outcome.error.message == (
        "the result of step 'seat' is not the Seat it declares: $ is NoneType, expected Seat; is a return missing?"
    )


def test_what_is_wrong_inside_is_named_by_path_and_never_quoted() -> None:
    outcome = run(Careless, Order("x"))
    assert outcome.error is not None
    assert outcome.error.message == (
        "the result of step 'seats' is not the dict[str, list[tests.support.sagas.Seat]] it declares: "
        "$.a[1].number is str, expected an integer; $.b is tuple, expected an array; $.c is dict, expected an array; "
        "and 1 more"
    )
    assert "secret" not in str(outcome.audit)


def test_results_come_to_the_next_step_as_their_type() -> None:
    assert run(Trip, Order("x", 7)).results["book"] == Seat(7)


@pytest.mark.parametrize("name", ["notify", "SagaStarted", ""])
def test_a_name_that_is_no_step_or_undo_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f'trip has no step or undo "{name}"; it has book, pay, tell, unbook, refund'):
        run(Trip, Order("x"), fail={name: RuntimeError()})


def test_what_is_no_exception_cannot_be_raised() -> None:
    wrong: Any = {"pay": "RuntimeError"}
    with pytest.raises(TypeError, match='fail: "pay" must be an exception'):
        run(Trip, Order("x"), fail=wrong)


def test_a_request_of_another_type_is_refused() -> None:
    wrong: Any = SimpleNamespace(item="x")
    with pytest.raises(
        InvalidRequest, match=r"request: the value is not a valid Order: \$ is SimpleNamespace, expected"
    ):
        run(Trip, wrong)
    wrong = Order("x", "many")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidRequest, match=r"request: .* is str, expected an integer"):
        run(Trip, wrong)


@pytest.mark.parametrize("name", ["fail", "signals", "at"])
def test_what_goes_by_name_must_be_a_dict(name: str) -> None:
    wrong: Any = {name: ["pay"]}
    with pytest.raises(TypeError, match=rf"{name}: must be a dict by step name, such as .*, not \['pay'\]"):
        run(Trip, Order("x"), **wrong)


def test_results_are_had_by_step_too() -> None:
    outcome = run(Pricing, Order("x", 2), clients={"mail": []})
    assert outcome.results[Pricing.quote] == outcome.results["price"] == Decimal("19.80")
    with pytest.raises(KeyError):
        outcome.results["quote"]


def test_a_create_that_raises_is_told_and_not_played() -> None:
    with pytest.raises(DefinitionError, match=r"Unset.create\(\) raised KeyError: 'SEATS_URL'"):
        run(Unset, Order("x"))


def test_a_create_that_returns_nothing_is_told() -> None:
    class Forgetful(Trip, name="forgetful"):
        @classmethod
        def create(cls) -> Any:
            cls()

    with pytest.raises(
        DefinitionError, match=r"Forgetful.create\(\) raised TypeError: create\(\) returned NoneType; it must"
    ):
        run(Forgetful, Order("x"))


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
def test_a_create_that_is_async_is_told() -> None:
    class Waiting(Trip, name="waiting"):
        @classmethod
        async def create(cls) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            return cls()

    with pytest.raises(
        DefinitionError, match=r"Waiting.create\(\) raised TypeError: create\(\) returned coroutine; it must"
    ):
        run(Waiting, Order("x"))


def test_a_late_attempt_can_be_played() -> None:
    outcome = run(Trip, Order("x"), fail={"pay": TimedOut("no answer")})
    assert (outcome.status, outcome.in_doubt) == ("COMPENSATED", ("pay",))
    assert actions(outcome.audit).count("StepFailed") == 3


@pytest.mark.parametrize("saga_class", [Slow, Blocking])
def test_what_ends_after_its_timeout_has_timed_out(saga_class: Any) -> None:
    outcome = run(saga_class, Order("x"))
    assert (outcome.status, outcome.in_doubt) == ("COMPENSATED", ("wait",))
    assert outcome.error is not None
    assert outcome.error.type == "TimedOut"
    assert outcome.error.message.startswith("it ended 0.")
    assert "after its timeout of 0.05 s" in outcome.error.message


def test_time_that_code_takes_is_in_the_trail() -> None:
    audit = run(Blocking, Order("x")).audit
    assert epoch(audit[1].at) - epoch(audit[0].at) >= 0.05


def test_the_sagas_clock_moves_with_what_is_skipped() -> None:
    began, outcome = datetime.now(UTC), run(Reminded, Order("train"))
    assert timedelta(minutes=59) < outcome.waited["reminder"] <= timedelta(hours=1)
    assert abs(outcome.result - began - timedelta(days=14, hours=1)) < timedelta(minutes=1)


def test_each_execution_has_an_instance_of_its_own() -> None:
    made: list[Any] = []

    class Counted(Trip, name="counted"):
        @classmethod
        def create(cls) -> Counted:
            made.append(cls())
            return made[-1]

        @Trip.book.compensate
        def unbook(self, book: Seat, ctx: Context) -> None:
            seen.append(self)

        @step
        def check(self) -> None:
            seen.append(self)
            raise Rejected("no")

    seen: list[Any] = []
    assert run(Counted, Order("x")).status == "COMPENSATED"
    assert len({id(one) for one in seen}) == 2
    assert len(made) == 1 + 6  # the first one shows whether create() works


def test_state_on_the_instance_is_gone_in_the_next_step() -> None:
    class Selfy(Saga[Order], name="selfy"):
        @step
        def first(self) -> None:
            setattr(self, "token", "t")  # noqa: B010 - one that no analysis sees

        @step(retry=Retry.constant(max_retries=0, delay=0))
        def second(self) -> str:
            token: str = vars(self)["token"]
            return token

    outcome = run(Selfy, Order("x"))
    assert outcome.error == {"step": "second", "type": "KeyError", "message": "'token'"}


def test_code_that_exits_has_failed_and_nothing_more() -> None:
    assert run(Trip, Order("x"), fail={"tell": SystemExit(3)}).status == "COMPENSATED"


def test_it_loads_nothing_of_aws() -> None:
    source = "import sys, sagas.testing; print(*sorted({'boto3', 'botocore', 'pynamodb'} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", source], check=True, capture_output=True, text=True)
    assert loaded.stdout.split() == []


def test_five_steps_take_less_than_ten_milliseconds() -> None:
    """In the first of many runs that no other process slows down."""

    def seconds() -> float:
        began = time.process_time()
        assert run(Five, Order("x")).status == "COMPLETED"
        return time.process_time() - began

    assert any(seconds() < 0.01 for _ in range(200))


def test_a_run_within_a_run_has_a_store_of_its_own() -> None:
    outcome = run(Rehearsing, Order("x"))
    assert outcome.status == "COMPLETED"
    assert outcome.result == "x2345"
    assert list(outcome.steps) == ["rehearse", "repeat"]


def test_runs_in_several_threads_have_stores_of_their_own() -> None:
    items = [f"item{number}" for number in range(8)]
    with ThreadPoolExecutor(len(items)) as pool:
        outcomes = list(pool.map(run, repeat(Five), map(Order, items)))
    assert [outcome.results["fifth"] for outcome in outcomes] == [f"{item}2345" for item in items]


def test_a_result_may_be_larger_than_an_item_of_dynamodb() -> None:
    class Large(Saga[Order], name="large"):
        @step
        def make(self) -> str:
            return "x" * 500_000

        @step
        def measure(self, make: str) -> int:
            return len(make)

    assert run(Large, Order("x")).result == 500_000


class Printing(Saga[str]):
    """Polls for four seconds."""

    @step(within=timedelta(seconds=4))
    def label(self, request: str) -> str:
        raise NotYet(1, request)


@pytest.mark.parametrize(("message", "text"), [("", "not yet after 4 s"), ("queued", "not yet after 4 s: queued")])
def test_a_poll_that_ran_out_says_so(message: str, text: str) -> None:
    error = run(Printing, message).error
    assert error is not None
    assert (error.type, error.message) == ("NotYet", text)
