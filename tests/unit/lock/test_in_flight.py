"""Sagas of a stack, grouped by blueprint and position, judged against the code to deploy."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sagas import Saga, children, sleep, step, wait_for
from sagas.authoring.definition.definition import definition_of
from sagas.core.states import StepStatus
from sagas.errors import InvalidRequest, NotFound
from sagas.lock.changes import Change, changes_in_flight, read_in_flight
from sagas.lock.content import FORMAT, LETTERS, Content, blueprint_of, fault_of, hash_of, read
from sagas.testing import assert_fits_release


class Two(Saga[str], name="trip", version="2"):
    @step
    def hold(self, request: str) -> int: ...

    @hold.compensate
    def release(self, hold: int) -> None: ...

    @step
    def pay(self, hold: int) -> str: ...

    @step
    def thank(self, pay: str) -> None: ...


class PaidByHand(Saga[str], name="trip", version="3"):
    hold = Two.hold
    release = Two.release

    @wait_for(str, timeout=timedelta(days=1))
    def pay(self, hold: int) -> None: ...

    thank = Two.thank


class PaidLater(Saga[str], name="trip", version="3"):
    hold = Two.hold
    release = Two.release
    pay = sleep(timedelta(days=1))

    @step
    def thank(self) -> None: ...


class WithoutPay(Saga[str], name="trip", version="3"):
    hold = Two.hold
    release = Two.release

    @step
    def thank(self) -> None: ...


class WithoutUndo(Saga[str], name="trip", version="3"):
    @step
    def hold(self, request: str) -> int: ...

    pay = Two.pay
    thank = Two.thank


def large(request: str) -> bool:
    return len(request) > 5


class Insured(Saga[str], name="trip", version="2"):
    """Its second step can be skipped."""

    hold = Two.hold
    release = Two.release

    @step(when=large)
    def pay(self, hold: int) -> str: ...

    @pay.compensate
    def refund(self, pay: str) -> None: ...

    @step
    def thank(self, pay: str | None) -> int: ...

    @thank.compensate
    def regret(self, pay: str | None) -> None: ...


class AlwaysInsured(Saga[str], name="trip", version="3"):
    """It takes for granted what sagas of the version before may lack."""

    hold = Two.hold
    release = Two.release

    @step
    def pay(self, hold: int) -> str: ...

    @pay.compensate
    def refund(self, pay: str) -> None: ...

    @step
    def thank(self, pay: str) -> int: ...

    @thank.compensate
    def regret(self, pay: str) -> None: ...


class HeldByName(Saga[str], name="trip", version="3"):
    @step
    def hold(self, request: str) -> str: ...

    @hold.compensate
    def release(self, hold: str) -> None: ...

    @step
    def pay(self, hold: str) -> str: ...

    thank = Two.thank


class Paying(Saga[str], name="trip", version="4"):
    """After its pivot nothing is undone."""

    hold = Two.hold
    release = Two.release

    @step(pivot=True)
    def pay(self, hold: int) -> str: ...

    thank = Two.thank


def group(old: type[Saga[Any]], status: str, cursor: int, steps: str, **more: Any) -> Content:
    name = hash_of(blueprint_of(definition_of(old)))
    usual: Content = {
        "blueprint": name,
        "status": status,
        "cursor": cursor,
        "steps": steps,
        "count": 1,
        "oldest": "2026-10-02T08:00:00.000Z",
        "examples": [],
    }
    return usual | more


def answer(*groups: Content, blueprints: tuple[type[Saga[Any]], ...] = (Two,), deployed: Any = None) -> Content:
    known = {hash_of(each): each for each in (blueprint_of(definition_of(cls)) for cls in blueprints)}
    current = "" if deployed is None else hash_of(blueprint_of(definition_of(deployed)))
    return {"blueprints": known, "deployed": current, "groups": [*groups]}


def compared(stored: Content, *new: type[Saga[Any]], name: str = "trip") -> list[Change]:
    return changes_in_flight({"format": FORMAT, "types": {name: stored}}, map(definition_of, new))


def stops(new: type[Saga[Any]], status: str, cursor: int, steps: str, old: type[Saga[Any]] = Two) -> list[str]:
    found = compared(answer(group(old, status, cursor, steps), blueprints=(old,)), new)
    return [f"{one.where}: {one.what}" for one in found if one.breaks]


def test_each_status_of_a_step_has_a_letter() -> None:
    assert set(LETTERS) == set(StepStatus)
    assert len(set(LETTERS.values())) == len(LETTERS)


def test_a_line_has_type_number_version_day_place_and_effect() -> None:
    [change] = compared(answer(group(Two, "RUNNING", 1, "CPP", count=412)), PaidByHand)
    assert str(change) == (
        'trip, 412 sagas of version 2 since 2 Oct before step "pay": it is a wait now, and was a step. '
        "They would be dead-lettered (TypeChanged)."
    )
    [change] = compared(answer(group(Two, "PENDING", 0, "PPP")), PaidByHand)
    assert str(change) == (
        'trip, 1 saga of version 2 since 2 Oct before step "hold": step "pay" is a wait now, and was a step. '
        "They would be dead-lettered (TypeChanged)."
    )
    [change] = compared(answer(group(Two, "RUNNING", 0, "RPP")), HeldByName)[:1]
    assert str(change) == (
        'trip, 1 saga of version 2 since 2 Oct at step "hold": the result of step "hold", $: changed from an integer '
        'to string. They would be dead-lettered before step "pay" (TypeChanged).'
    )


def test_only_what_is_still_to_come_stops_a_saga() -> None:
    assert stops(WithoutPay, "RUNNING", 1, "CPP") == ['step "pay": it is gone']
    assert stops(WithoutPay, "RUNNING", 2, "CCP") == []
    assert stops(WithoutPay, "DEAD_LETTERED", 1, "CFP") == ['step "pay": it is gone']
    assert stops(WithoutPay, "COMPENSATING", 0, "UFP") == []


def test_an_undo_that_is_gone_stops_what_may_be_undone() -> None:
    gone = ['the undo of step "hold": it is gone']
    assert stops(WithoutUndo, "PENDING", 0, "PPP") == gone
    assert stops(WithoutUndo, "RUNNING", 2, "CCP") == gone
    assert stops(WithoutUndo, "COMPENSATING", 0, "UFP") == gone
    assert stops(WithoutUndo, "COMPENSATION_FAILED", 0, "XFP") == gone
    assert stops(WithoutUndo, "COMPENSATION_FAILED", 0, "BXP") == []
    assert stops(WithoutUndo, "FAILED", 1, "CFP") == gone
    assert stops(WithoutUndo, "RUNNING", 2, "CCP", Paying) == [], "past the pivot"
    assert stops(WithoutUndo, "RUNNING", 1, "CPP", Paying) == gone


def test_a_result_that_is_taken_for_granted_stops_those_that_skipped_its_step() -> None:
    skipped = [
        'step "thank": it takes the result of step "pay", which they skipped',
        'the undo of step "thank": it takes the result of step "pay", which they skipped',
    ]
    assert stops(AlwaysInsured, "RUNNING", 2, "CSP", Insured) == skipped
    assert stops(AlwaysInsured, "RUNNING", 1, "CPP", Insured) == []
    assert stops(AlwaysInsured, "RUNNING", 2, "CCP", Insured) == []
    assert stops(AlwaysInsured, "COMPENSATING", 2, "CSU", Insured) == skipped[1:]
    may = 'step "thank": it takes the result of step "pay", which they may skip'
    assert may in stops(AlwaysInsured, "RUNNING", 1, "CRP", Insured)
    [change, _] = compared(answer(group(Insured, "RUNNING", 2, "CSP", count=3), blueprints=(Insured,)), AlwaysInsured)
    assert str(change) == (
        'trip, 3 sagas of version 2 since 2 Oct before step "thank": it takes the result of step "pay", which they '
        "skipped. They would be dead-lettered there (TypeChanged)."
    )
    assert change.todo == "Annotate the result of 'pay' `... | None` while any are in flight"


def test_a_condition_that_comes_goes_or_changes_stops_nobody_else() -> None:
    assert stops(Insured, "RUNNING", 1, "CPP", AlwaysInsured) == []
    assert stops(Insured, "RUNNING", 2, "CSP", Insured) == []


def test_a_blueprint_says_which_steps_have_a_condition() -> None:
    conditions = [each.get("when") for each in blueprint_of(definition_of(Insured))["steps"]]
    assert conditions == [None, True, None]


def test_the_undo_of_a_skipped_step_is_not_needed() -> None:
    without = 'the undo of step "pay": it is gone'
    assert without in stops(Two, "RUNNING", 2, "CCP", Insured)
    assert without not in stops(Two, "RUNNING", 2, "CSP", Insured)


def test_a_value_stops_those_that_have_stored_it() -> None:
    assert stops(HeldByName, "PENDING", 0, "PPP") == []
    assert stops(HeldByName, "RUNNING", 0, "TPP") == []
    changed = ['the result of step "hold", $: changed from an integer to string']
    assert stops(HeldByName, "RUNNING", 1, "CRP") == changed
    assert stops(HeldByName, "COMPENSATING", 0, "UFP") == changed


def test_a_wait_that_has_begun_needs_its_code_for_a_signal_only() -> None:
    assert stops(Two, "WAITING", 1, "CWP", PaidByHand) == ['step "pay": it is a step now, and was a wait']
    assert stops(Two, "WAITING", 1, "CWP", PaidLater) == []
    assert stops(Two, "RUNNING", 1, "CPP", PaidLater) == ['step "pay": it is a step now, and was a wait']


def test_a_rollback_is_named() -> None:
    stored = answer(group(Two, "RUNNING", 1, "CPP"), blueprints=(Two, WithoutPay))
    [change] = compared(stored, WithoutPay)
    assert change.what == "it was added and is gone"
    stored = answer(group(Two, "RUNNING", 1, "CPP"), blueprints=(Two, WithoutPay), deployed=WithoutPay)
    [change] = compared(stored, WithoutPay)
    assert change.what == "it is gone", "the code that is deployed already is no rollback"


def test_a_type_that_is_gone_stops_all_of_its_sagas() -> None:
    [change] = compared(answer(group(Two, "RUNNING", 1, "CPP")))
    assert str(change).startswith('trip, 1 saga of version 2 since 2 Oct before step "pay": the type is gone. They ')


def test_the_same_finding_at_the_same_place_is_one_line() -> None:
    groups = (
        group(Two, "RUNNING", 1, "CPP", count=2, oldest="2026-10-05T08:00:00.000Z", examples=["c", "d"]),
        group(Two, "RUNNING", 1, "CTP", count=3, oldest="2026-10-02T08:00:00.000Z", examples=["a", "b"]),
    )
    [change] = compared(answer(*groups), PaidByHand)
    assert (change.count, change.since, change.ids) == (5, "2026-10-02T08:00:00.000Z", ("a", "b", "c"))


def test_a_saga_of_an_unknown_blueprint_is_judged_by_its_steps() -> None:
    names: list[Content] = [
        {"name": name, "undo": []} if name == "hold" else {"name": name} for name in ("hold", "pay", "thank")
    ]
    known: Content = {"x" * 22: {"format": FORMAT, "saga": "trip", "version": "2", "steps": names}}
    stored = {"blueprints": known, "groups": [group(Two, "RUNNING", 1, "CPP", blueprint="x" * 22, count=38)]}
    assert [str(change) for change in compared(stored, HeldByName)] == [
        "trip: 38 sagas of an unknown blueprint; steps were judged, values were not."
    ]
    assert [change.what for change in compared(stored, WithoutPay) if change.breaks] == ["it is gone"]


def test_sagas_that_the_deployed_release_starts_are_a_warning() -> None:
    [change] = compared(answer(deployed=Two), WithoutPay)
    assert not change.breaks
    assert str(change) == (
        'trip, new ones until you deploy, of version 2: step "pay" is gone. They would be dead-lettered (CodeGone).'
    )


def test_a_step_that_is_back_is_a_warning() -> None:
    stored = answer(group(Two, "RUNNING", 2, "CCP"), blueprints=(Two, WithoutPay), deployed=WithoutPay)
    new_ones, change = compared(stored, Two)
    assert not change.breaks
    assert new_ones.sagas == "new ones until you deploy, of version 3"
    assert (change.where, change.what) == (
        'step "pay"',
        "it was removed and is back: it runs other code under an old name",
    )


class Parent(Saga[str], name="parent"):
    @children(Two)
    def trips(self, request: str) -> list[str]: ...

    @step
    def done(self) -> None: ...


def test_children_that_completed_may_exist_and_have_to_be_undone() -> None:
    types = {"parent": answer(group(Parent, "RUNNING", 1, "CP"), blueprints=(Parent,)), "trip": answer()}
    found = changes_in_flight({"format": FORMAT, "types": types}, map(definition_of, (Parent, WithoutUndo)))
    [change] = [one for one in found if one.saga == "trip"]
    assert not change.breaks
    assert str(change).startswith(
        'trip, completed children of version 2, which may exist: the undo of step "hold" is gone. They would end '
    )


def written(path: Path, stored: object, version: int = FORMAT) -> Path:
    path.write_text(json.dumps({"format": version, "types": {"trip": stored}}))
    return path


def test_a_test_can_compare_with_a_saved_file(tmp_path: Path) -> None:
    path = written(tmp_path / "in-flight.json", answer(group(Two, "RUNNING", 1, "CPP")))
    assert_fits_release(Two, in_flight=path)
    with pytest.raises(AssertionError, match=r'1 saga of version 2 since 2 Oct before step "pay": it is gone'):
        assert_fits_release(WithoutPay, in_flight=path)


@pytest.mark.parametrize(
    "broken",
    [
        {"count": 0},
        {"count": "many"},
        {"cursor": 4},
        {"steps": "C"},
        {"steps": "C?P"},
        {"status": "GONE"},
        {"oldest": "yesterday"},
        {"blueprint": "unknown"},
    ],
)
def test_what_is_no_saved_file_is_refused(tmp_path: Path, broken: Content) -> None:
    path = written(tmp_path / "in-flight.json", answer({**group(Two, "RUNNING", 1, "CPP"), **broken}))
    with pytest.raises(InvalidRequest, match="is not a file of sagas in flight"):
        read_in_flight(path)


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ({"version": None}, "Expected `str`, got `null` - at `$.version`"),
        ({"request": 5}, "at `$.request`"),
        ({"request": {"$ref": "#/types/Gone"}}, "a schema cannot be read: KeyError: 'Gone'"),
        ({"request": {"type": "object", "properties": [1]}}, "a schema cannot be read"),
        ({"steps": [{"name": "hold", "waits_for": "moon"}]}, "Invalid enum value 'moon' - at `$.steps[0].waits_for`"),
        ({"steps": ["hold"]}, "at `$.steps[0]`"),
    ],
)
def test_a_blueprint_that_cannot_be_compared_is_named(tmp_path: Path, broken: Content, named: str) -> None:
    blueprint = blueprint_of(definition_of(Two)) | broken
    flights, lock = tmp_path / "in-flight.json", tmp_path / "lock.json"
    flights.write_text(
        json.dumps({"format": FORMAT, "types": {"trip": {"blueprints": {"old": blueprint}, "groups": []}}})
    )
    lock.write_text(json.dumps({"format": FORMAT, "sagas": {"trip": blueprint}}))
    for reads, path, start in (
        (read_in_flight, flights, "$.types.trip: blueprint old: "),
        (read, lock, "$.sagas.trip: "),
    ):
        with pytest.raises(InvalidRequest) as refused:
            reads(path)
        [problem] = refused.value.problems
        text = f"{problem.path}: {problem.message}"
        assert text.startswith(start)
        assert named in text


def test_types_that_share_types_are_read_once() -> None:
    """Each of 40 types has the next one twice: there are a trillion ways from the first to the last."""
    both = dict[str, Content]()
    for number in range(40):
        following = {"$ref": f"#/types/T{number + 1}"}
        both[f"T{number}"] = {"type": "object", "properties": {"a": following, "b": following}}
    blueprint = blueprint_of(definition_of(Two)) | {"request": {"$ref": "#/types/T0"}}
    assert fault_of(blueprint | {"types": {**both, "T40": {"type": "integer"}}}) == ""
    assert fault_of(blueprint | {"types": both}) == "a schema cannot be read: KeyError: 'T40'"


def test_another_format_or_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"in-flight\.json has format 1; this version reads 2"):
        read_in_flight(written(tmp_path / "in-flight.json", answer(), 1))
    with pytest.raises(NotFound, match="`sagas check --save` creates it"):
        read_in_flight(tmp_path / "nowhere.json")
