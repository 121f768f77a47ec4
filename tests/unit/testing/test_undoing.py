"""``sagas.testing.assert_undoes``: what it finds, in a saga with one fault on purpose each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from sagas import Context, NotYet, Rejected, Retry, Saga, children, sleep, step, wait_for
from sagas.testing import assert_undoes

ONCE = Retry.constant(max_retries=0, delay=0)


@dataclass(frozen=True)
class Order:
    seats: int = 2


SEATS = dict[str, int]()
PAID = dict[str, int]()
MAILS = list[str]()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    SEATS.clear()
    SEATS["train"] = 10
    PAID.clear()
    MAILS.clear()


def world() -> tuple[dict[str, int], dict[str, int], int]:
    return SEATS, PAID, len(MAILS)


class Good(Saga[Order], name="good"):
    """Each of its steps is undone, however it is disturbed."""

    @step(retry=ONCE)
    def book(self, request: Order, ctx: Context) -> str:
        if ctx.idempotency_key not in PAID:
            PAID[ctx.idempotency_key] = 0
            SEATS["train"] -= request.seats
        return ctx.idempotency_key

    @book.compensate(retry=ONCE)
    def unbook(self, book: str, request: Order) -> None:
        if PAID.pop(book, None) is not None:
            SEATS["train"] += request.seats

    @step(retry=ONCE, undo_when="started")
    def charge(self, request: Order, ctx: Context) -> str:
        PAID[ctx.idempotency_key] = 10
        return ctx.idempotency_key

    @charge.compensate(retry=ONCE)
    def refund(self, ctx: Context, charge: str | None) -> None:
        PAID.pop(ctx.forward_key, None)

    approval = wait_for(str, timeout=timedelta(days=1))
    pause = sleep(timedelta(hours=1))

    @step
    def ship(self, approval: str) -> None: ...


def proven(saga_class: type[Saga[Order]], **more: Any) -> None:
    assert_undoes(saga_class, Order(), state=world, **more)


def found(saga_class: type[Saga[Order]], **more: Any) -> str:
    """Return what is found."""
    with pytest.raises(AssertionError) as caught:
        proven(saga_class, **more)
    return str(caught.value)


def test_a_saga_without_a_fault() -> None:
    proven(Good, signals={"approval": "yes"})
    assert (SEATS, PAID, MAILS) == ({"train": 10}, {}, [])


def test_an_undo_that_is_missing() -> None:
    class Fault(Good, name="missing"):
        @step
        def label(self) -> None:
            SEATS["labels"] = 1

    text = found(Fault, signals={"approval": "yes"})
    assert text.startswith(
        "cancelled at label: undone, but the state differs\nbefore: ({'train': 10}, {}, 0)\nafter: ({"
    )
    assert "\n  [0]['labels']: nothing → 1\n" in text
    assert "Outcome CANCELLED" in text


def test_an_undo_that_is_wrong() -> None:
    class Fault(Saga[Order], name="wrong"):
        @step
        def book(self, request: Order) -> None:
            SEATS["train"] -= request.seats

        @book.compensate
        def unbook(self, request: Order) -> None:
            SEATS["train"] += 1

    assert "\n  [0]['train']: 10 → 9\n" in found(Fault)


def test_undos_that_depend_on_the_wrong_order() -> None:
    class Fault(Saga[Order], name="order"):
        @step
        def one(self) -> None:
            SEATS["one"] = 1

        @one.compensate
        def un_one(self) -> None:
            SEATS.pop("two", None)

        @step
        def two(self) -> None:
            SEATS["two"] = 1

        @two.compensate
        def un_two(self) -> None:
            SEATS.pop("one", None)

    assert found(Fault).startswith("cancelled at one:")


def test_asking_code_that_changes_the_world() -> None:
    class Fault(Saga[Order], name="asking"):
        @wait_for(str, timeout=timedelta(days=1))
        def approval(self) -> None:
            SEATS["asked"] = 1

        @approval.compensate
        def take_back(self) -> None:
            SEATS.pop("asked", None)

        @step
        def ship(self, approval: str) -> None: ...

    assert found(Fault, signals={"approval": "yes"}).startswith("cancelled at approval:")


def test_a_poll_that_is_cancelled_while_it_sleeps() -> None:
    class Fault(Saga[Order], name="polling"):
        @step
        def job(self, ctx: Context) -> str:
            SEATS["job"] = ctx.attempt
            if ctx.attempt == 1:
                raise NotYet(after=60)
            return "job"

        @job.compensate
        def stop(self, job: str) -> None:
            SEATS.pop("job", None)

    assert found(Fault).startswith("cancelled in job:")


def test_a_step_that_is_not_idempotent() -> None:
    class Fault(Saga[Order], name="twice"):
        @step(retry=ONCE)
        def book(self, request: Order) -> None:
            SEATS["train"] -= request.seats

        @book.compensate
        def unbook(self, request: Order) -> None:
            SEATS["train"] += request.seats

    assert found(Fault).startswith("book twice:")


def test_a_key_that_differs_from_attempt_to_attempt() -> None:
    class Fault(Saga[Order], name="attempt-key"):
        @step(retry=ONCE)
        def charge(self, ctx: Context) -> str:
            PAID[ctx.attempt_key] = 10
            return ctx.attempt_key

        @charge.compensate
        def refund(self, charge: str) -> None:
            PAID.pop(charge)

    assert found(Fault).startswith("charge twice:")


def test_an_undo_that_is_not_idempotent() -> None:
    class Fault(Saga[Order], name="undone-twice"):
        @step
        def book(self, request: Order, ctx: Context) -> None:
            if PAID.setdefault(ctx.idempotency_key, 0) == 0:
                PAID[ctx.idempotency_key] = 1
                SEATS["train"] -= request.seats

        @book.compensate
        def unbook(self, request: Order, ctx: Context) -> None:
            PAID.pop(ctx.forward_key, None)
            SEATS["train"] += request.seats

    assert found(Fault).startswith("book undone twice:")


def test_an_undo_that_relies_on_a_result_that_it_may_not_have() -> None:
    class Fault(Saga[Order], name="relying"):
        @step(undo_when="started", retry=ONCE)
        def charge(self, ctx: Context) -> str:
            PAID[ctx.idempotency_key] = 1
            return ctx.idempotency_key

        @charge.compensate(retry=ONCE)
        def refund(self, charge: str | None) -> None:
            assert charge is not None
            PAID.pop(charge, None)

    text = found(Fault)
    assert text.startswith("charge fails: the saga was not undone\nOutcome COMPENSATION_FAILED")


def test_a_wait_whose_undo_is_missing() -> None:
    class Fault(Saga[Order], name="behind"):
        @step
        def book(self) -> None: ...

        approval = wait_for(str, timeout=timedelta(days=1))

        @approval.compensate
        def take_back(self, approval: str) -> None:
            MAILS.append(approval)

    assert found(Fault, signals={"approval": "yes"}).startswith("cancelled behind approval:")


class Leaf(Saga[Order], name="leaf"):
    @step
    def grow(self, request: Order, ctx: Context) -> str:
        SEATS[ctx.idempotency_key] = 1
        return ctx.idempotency_key

    @grow.compensate
    def shrink(self, grow: str) -> None:
        SEATS.pop(grow, None)


class Weed(Saga[Order], name="weed"):
    @step
    def grow(self, ctx: Context) -> None:
        SEATS[ctx.idempotency_key] = 1


def test_children_are_undone_once_all_have_completed() -> None:
    class Tree(Saga[Order], name="tree"):
        @children(Leaf)
        def leaves(self, request: Order) -> list[Order]:
            return [request, request]

    class Fault(Saga[Order], name="bad-tree"):
        @children(Weed)
        def leaves(self, request: Order) -> list[Order]:
            return [request, request]

    proven(Tree)
    assert found(Fault).startswith("cancelled in leaves, with its children completed:")


def test_effects_that_may_stay() -> None:
    class Mailing(Saga[Order], name="mailing"):
        book = Good.book
        unbook = Good.unbook

        @step
        def mail(self) -> None:
            MAILS.append("booked")

    assert found(Mailing).startswith("cancelled at mail:")
    proven(Mailing, but=("mail",))
    MAILS.clear()

    class Fault(Mailing, name="mailing-fault"):
        @step
        def label(self) -> None:
            SEATS["label"] = 1

    assert "[0]['label']: nothing → 1" in found(Fault, but=("mail",))


def test_steps_behind_a_pivot_need_no_undo() -> None:
    class Pivoting(Saga[Order], name="pivoting"):
        book = Good.book
        unbook = Good.unbook

        @step(pivot=True)
        def capture(self) -> None:
            SEATS["captured"] = 1

        @step
        def ship(self) -> None:
            SEATS["shipped"] = 1

    proven(Pivoting)
    assert SEATS == {"train": 10}


def test_types_that_nobody_may_cancel_are_proved_likewise() -> None:
    class Firm(Good, name="firm", cancellable=False): ...

    proven(Firm, signals={"approval": "yes"})


def test_a_step_that_does_not_complete_is_not_proved() -> None:
    class Refusing(Saga[Order], name="refusing"):
        @step
        def check(self) -> None:
            raise Rejected("no seats")

        @step
        def book(self) -> None: ...

    text = r'step "check" does not complete with this request; the saga ended COMPENSATED \(Rejected: no seats\)'
    with pytest.raises(ValueError, match=text):
        proven(Refusing)
    text = r'step "approval" does not complete with this request; .* \(WaitTimedOut: no signal arrived in time\)'
    with pytest.raises(ValueError, match=text):
        proven(Good)


def test_a_saga_that_is_not_undone() -> None:
    class Stopping(Saga[Order], name="stopping"):
        @step
        def book(self) -> None: ...

        @book.compensate(retry=ONCE)
        def unbook(self) -> None:
            raise OSError("down")

    assert found(Stopping).startswith("cancelled at book: the saga was not undone\nOutcome COMPENSATION_FAILED")


def test_bad_input() -> None:
    with pytest.raises(ValueError, match='but: good has no step "male"; it has book, charge, approval'):
        proven(Good, but=("male",))
    with pytest.raises(ValueError, match='good has no wait "aproval" for a signal; it has approval'):
        proven(Good, signals={"aproval": "yes"})
    with pytest.raises(TypeError, match="signals: must be a dict by step name"):
        proven(Good, signals=["yes"])


def several(request: Order) -> bool:
    return request.seats > 1


class Conditional(Saga[Order], name="conditional"):
    """Most of its steps are skipped for one seat, also the first and the last."""

    @step(when=several)
    def book(self, request: Order, ctx: Context) -> str:
        SEATS["train"] -= request.seats if PAID.setdefault(ctx.idempotency_key, 1) == 1 else 0
        PAID[ctx.idempotency_key] = 2
        return ctx.idempotency_key

    @book.compensate
    def unbook(self, book: str, request: Order) -> None:
        SEATS["train"] += request.seats if PAID.pop(book, None) else 0

    approval = wait_for(str, timeout=timedelta(days=1), when=several)
    pause = sleep(timedelta(hours=1), when=several)

    @step
    def ship(self, approval: str | None) -> None: ...

    @children(Good, when=several)
    def parts(self, request: Order) -> list[Order]:
        return [request]


@pytest.mark.parametrize("seats", [1, 2])
def test_a_saga_with_conditions_is_proven_for_each_answer(seats: int) -> None:
    signals = {"approval": "yes", "parts[0].approval": "yes"} if seats > 1 else {}
    assert_undoes(Conditional, Order(seats), state=world, signals=signals)


def test_a_fault_behind_a_skipped_step_is_found() -> None:
    class Left(Conditional, name="left"):
        @step
        def mail(self) -> None:
            MAILS.append("mail")

    with pytest.raises(AssertionError, match="cancelled at mail: undone, but the state differs"):
        assert_undoes(Left, Order(1), state=world)
