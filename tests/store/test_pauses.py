"""Pauses as they are stored, on every engine; and several at once, where conditional writes hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from msgspec.structs import replace

from benchmarks.units import item_size
from sagas.core.gates import NO_PAUSE, Pause, Scope
from sagas.core.ids import LONGEST_REASON
from sagas.errors import WrongTables
from sagas.store.connection import Contended, Refused
from sagas.store.pauses import Pauses
from tests.store.conftest import CONCURRENT, Store
from tests.store.states import NOW, new_id

LIKE_AN_OPERATOR = "arn:aws:sts::123456789012:assumed-role/Operators/ann@example"


def pauses_of(store: Store, now: Callable[[], float] = lambda: NOW) -> Pauses:
    return Pauses(store.tables, store.settings, now, new_id)


def ended(pause: Pause) -> Pause:
    return replace(pause, resumed_at=pause.at + 1)


def test_every_environment_reads_what_is_on_and_knows_the_reason(store: Store) -> None:
    now, name = [NOW], f"type-{new_id()}"
    one, other = pauses_of(store, lambda: now[0]), pauses_of(store, lambda: now[0])
    whole, step, saga = Scope(name), Scope(name, step="pay"), Scope(name, saga_id=new_id())
    assert other.get(whole) == NO_PAUSE
    one.put(whole, Pause(NOW, "ann", "an incident\ud800", starts=True))
    one.put(step, Pause(NOW, "bob", undos=True))
    one.put(saga, Pause(NOW, "bob", starts_only=True))
    one.put(step, ended(one.get(step)))
    assert [one.get(scope).on for scope in (whole, step, saga)] == [True, False, True]
    assert other.get(whole) == NO_PAUSE  # believed for five seconds
    now[0] += 5
    found = {scope: pause for scope, pause in other.all().items() if scope.name == name}
    assert set(found) == {whole, saga}
    assert (found[whole].starts, found[whole].reason, found[saga].starts_only) == (True, "", True)
    described = other.described(found)
    assert (described[whole].by, described[whole].reason) == ("ann", "an incident\\ud800")
    assert described[saga] == replace(found[saga], by="bob")
    assert found.items() <= other.all(fresh=True).items()


def test_the_reason_is_that_of_the_pause_which_is_on(store: Store) -> None:
    scope, pauses = Scope(f"type-{new_id()}"), pauses_of(store)
    for reason in ("one", "another"):
        pauses.put(scope, replace(pauses.get(scope), at=NOW, reason=reason))
        assert pauses.listed()[scope].reason == reason
        assert pauses_of(store).listed()[scope].reason == reason


def test_what_was_ever_paused_is_known_but_no_single_saga_is(store: Store) -> None:
    name, pauses = f"type-{new_id()}", pauses_of(store)
    for scope, remembered in ((Scope(name), True), (Scope(name, "pay"), True), (Scope(name, saga_id=new_id()), False)):
        assert not pauses.ever(scope)
        pauses.put(scope, Pause(NOW, "ann", "why"))
        assert pauses.ever(scope)
        pauses.put(scope, ended(pauses.get(scope)))
        assert pauses.ever(scope) is remembered
        assert scope not in pauses.all(fresh=True)


def test_no_pause_is_replaced_or_ended_that_the_writer_has_not_read(store: Store) -> None:
    scope, ann, bob = Scope(f"type-{new_id()}"), pauses_of(store), pauses_of(store)
    ann.put(scope, Pause(NOW, "ann"))
    read = bob.get(scope, fresh=True)
    for change in (replace(read, undos=True), ended(read)):
        ann.put(scope, replace(ann.get(scope, fresh=True), reason="another"))
        for pause in (change, Pause(NOW, "bob"), replace(change, revision=new_id())):
            with pytest.raises(Refused):
                bob.put(scope, pause)
        assert ann.listed()[scope].reason == "another"
    ann.put(scope, ended(ann.get(scope)))
    with pytest.raises(Refused):
        bob.put(scope, read)
    assert scope not in ann.all(fresh=True)


def test_an_old_pause_is_not_taken_for_a_new_one_of_the_same_scope(store: Store) -> None:
    scope, pauses = Scope(f"type-{new_id()}"), pauses_of(store)
    pauses.put(scope, Pause(NOW, "ann"))
    read = pauses.get(scope)
    pauses.put(scope, ended(read))
    pauses.put(scope, Pause(NOW, "ann"))
    with pytest.raises(Refused):
        pauses.put(scope, ended(read))
    assert pauses.all(fresh=True)[scope].on


def test_the_common_item_does_not_grow_with_what_has_ended_or_with_reasons(fresh: Store) -> None:
    pauses, name = pauses_of(fresh), "t" * 40
    reason = "ü" * LONGEST_REASON

    def size() -> int:
        return item_size(fresh.item("pauses") or {})

    def pause(scope: Scope) -> None:
        pauses.put(scope, Pause(NOW, LIKE_AN_OPERATOR, reason, starts=True, undos=True))

    for scope in (Scope(name), Scope(name, "s" * 40), Scope(name, saga_id=new_id())):
        before = size()
        pause(scope)
        assert size() - before <= 180
        pauses.put(scope, ended(pauses.get(scope)))
        assert size() <= max(before, 20)


def test_the_widest_pause_holds_a_step_back(store: Store) -> None:
    name, saga_id = f"type-{new_id()}", new_id()
    pauses = pauses_of(store)
    one, step, whole = Scope(name, saga_id=saga_id), Scope(name, step="pay"), Scope(name)

    def held(step: str = "pay", saga: str = saga_id, *, undo: bool = False) -> Scope | None:
        return pauses.holding(name, step, saga, undo=undo)

    assert held() is None
    pauses.put(one, Pause(NOW, undos=True))
    assert (held(), held(undo=True), held("ship"), held(saga=new_id())) == (one, one, one, None)
    pauses.put(step, Pause(NOW))
    assert (held(), held(undo=True), held("ship"), held(saga=new_id())) == (step, one, one, step)
    pauses.put(whole, Pause(NOW, starts_only=True))
    assert (held(), held("ship", new_id())) == (step, None)
    pauses.put(whole, replace(pauses.get(whole), starts_only=False))
    assert (held(), held("ship", new_id())) == (whole, whole)


@pytest.mark.parametrize("where", CONCURRENT, indirect=True)
def test_pauses_at_once_all_take_effect(store: Store) -> None:
    """Eight operators pause steps of their own, and end some; each also pauses and resumes the type."""
    name, operators = f"type-{new_id()}", 8
    begin = Barrier(operators)

    def changed(pauses: Pauses, scope: Scope, on: bool) -> bool:
        """Write until nobody is in the way; whether there was anything to write."""
        while True:
            before = pauses.get(scope, fresh=True)
            if before.on is on:
                return False
            try:
                pauses.put(scope, Pause(NOW, "ann") if on else ended(before))
            except (Refused, Contended):
                continue
            return True

    def operate(number: int) -> tuple[int, int]:
        pauses, ons = pauses_of(store), 0
        begin.wait()
        for turn in range(5):
            assert changed(pauses, Scope(name, f"step{number}_{turn}"), True)
            ons += changed(pauses, Scope(name), True)
            ons -= changed(pauses, Scope(name), False)
            if turn % 2:
                assert changed(pauses, Scope(name, f"step{number}_{turn}"), False)
        return number, ons

    with ThreadPoolExecutor(operators) as pool:
        outcomes = list(pool.map(operate, range(operators)))
    on = {scope.step for scope in pauses_of(store).all(fresh=True) if scope.name == name and scope.step}
    assert on == {f"step{number}_{turn}" for number, turn in itertools.product(range(operators), (0, 2, 4))}
    assert sum(ons for _, ons in outcomes) == 0, "each pause of the type was ended once"
    assert not pauses_of(store).get(Scope(name), fresh=True).on


@pytest.mark.parametrize("where", CONCURRENT, indirect=True)
def test_of_pauses_and_resumes_of_one_scope_at_once_one_is_stored(store: Store) -> None:
    scope, operators = Scope(f"type-{new_id()}"), 8
    first = pauses_of(store)
    for _ in range(5):
        first.put(scope, Pause(NOW, "ann"))
        read, begin = first.get(scope, fresh=True), Barrier(operators)

        def write(number: int, read: Pause = read, begin: Barrier = begin) -> int | None:
            pauses, after = pauses_of(store), ended(read) if number % 2 else replace(read, reason=str(number))
            begin.wait()
            while True:
                try:
                    pauses.put(scope, after)
                except Contended:
                    continue
                except Refused:
                    return None
                return number

        with ThreadPoolExecutor(operators) as pool:
            [winner] = [number for number in pool.map(write, range(operators)) if number is not None]
        stored = pauses_of(store).listed().get(scope, NO_PAUSE)
        assert (stored.on, stored.reason) == ((False, "") if winner % 2 else (True, str(winner)))
        if stored.on:
            first.put(scope, ended(first.get(scope, fresh=True)))


def services(store: Store, *names: str, now: Callable[[], float] = lambda: NOW) -> list[Pauses]:
    return [Pauses(store.tables, replace(store.settings, service=name), now, new_id) for name in names]


def without_service(store: Store) -> None:
    """Take the service's id from the common item, which other tests may have stored."""
    key = {"saga_id": {"S": "pauses"}}
    names = {"#service": "service"}
    update = {"UpdateExpression": "REMOVE #service", "ExpressionAttributeNames": names}
    store.dynamodb.update_item(TableName=store.settings.sagas_table, Key=key, **update)


def test_tables_belong_to_the_service_that_claims_them_first(store: Store) -> None:
    without_service(store)
    one, other = services(store, "one", "other")
    other.all()
    for pauses in (one, one, *services(store, "one")):
        pauses.claim_tables()
    with pytest.raises(WrongTables, match="belong to service 'one', not to this service, 'other'"):
        other.claim_tables()  # its cache had none
    for pauses in services(store, "other", "other"):
        with pytest.raises(WrongTables):
            pauses.all(fresh=True)
    without_service(store)


def test_a_claim_leaves_the_pauses_and_a_pause_leaves_the_claim(store: Store) -> None:
    without_service(store)
    scope = Scope(f"type-{new_id()}")
    (one,) = services(store, "one")
    one.put(scope, Pause(NOW, "ann"))
    one.claim_tables()
    assert one.get(scope, fresh=True).on
    one.put(scope, ended(one.get(scope)))
    (again,) = services(store, "one")
    again.claim_tables()
    with pytest.raises(WrongTables):
        services(store, "other")[0].all(fresh=True)
    without_service(store)


@pytest.mark.parametrize("where", CONCURRENT, indirect=True)
def test_of_many_services_at_once_one_gets_the_tables(store: Store) -> None:
    without_service(store)
    together = Barrier(8)
    names = [f"service-{number}" for number in range(8)]

    def claim(pauses: Pauses) -> bool:
        together.wait()
        try:
            pauses.claim_tables()
        except WrongTables:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        claimed = [*threads.map(claim, services(store, *names))]
    assert claimed.count(True) == 1
    without_service(store)
