"""Steps that start other sagas: what they are declared as, and what is refused."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

import pytest

from sagas import DefinitionError, Exhausted, Saga, children, step
from sagas.authoring.definition.definition import definition_of
from tests.support.sagas import Parcel


def made(name: str, body: dict[str, Any]) -> Any:
    """A saga class with these members."""
    return types.new_class(name, (Saga[Basket],), {"name": name}, lambda namespace: namespace.update(body))


@dataclass(frozen=True)
class Basket:
    items: int


@dataclass(frozen=True)
class Label:
    text: str


class Shipment(Saga[Parcel], name="shipment"):
    @step
    def book(self, request: Parcel) -> Label:
        return Label(str(request.number))


class Insurance(Saga[Basket], name="insurance", result="insure"):
    @step
    def insure(self, request: Basket) -> float:
        return 1.0

    @step
    def tell(self, request: Basket) -> None: ...


class Order(Saga[Basket], name="order"):
    @children(Shipment)
    def shipments(self, request: Basket) -> list[Parcel]:
        return [Parcel(number) for number in range(request.items)]

    @children(Shipment, Insurance, concurrency=1, tolerate=1, undo="reverse")
    def both(self, request: Basket) -> tuple[Parcel, Basket]:
        return Parcel(1), request

    @step
    def close(self, shipments: list[Label], both: tuple[Label | None, float | None]) -> int:
        return len(shipments)


def test_results_are_those_of_the_children() -> None:
    order = definition_of(Order)
    shipments, both = order.step("shipments"), order.step("both")
    assert shipments.result_type == list[Label]
    assert both.result_type == tuple[Label | None, float | None]
    assert shipments.waits_for == both.waits_for == "children"
    assert shipments.children is not None
    assert both.children is not None
    assert (shipments.children.concurrency, shipments.children.tolerate, shipments.children.in_reverse) == (
        40,
        0,
        False,
    )
    assert (both.children.concurrency, both.children.tolerate, both.children.in_reverse) == (1, 1, True)
    assert [one.name for one in both.children.sagas] == ["shipment", "insurance"]
    assert (order.depth, [one.name for one in order.family]) == (2, ["shipment", "insurance"])
    assert shipments.has_lane


def test_the_method_stays_plain_python() -> None:
    assert Order().shipments(Basket(2)) == [Parcel(0), Parcel(1)]


@pytest.mark.parametrize(
    ("given", "options", "told"),
    [
        ((), {}, "pass the saga classes first"),
        ((3,), {}, "pass the saga classes first"),
        ((Shipment,), {"concurency": 3}, 'unknown option "concurency"'),
        ((Shipment,), {"concurrency": 0}, "concurrency must be a whole number from 1"),
        ((Shipment,), {"concurrency": True}, "concurrency must be a whole number from 1"),
        ((Shipment,), {"tolerate": -1}, "tolerate must be a whole number from 0"),
        ((Shipment,), {"on_failed": "FAIL"}, "on_failed must be a member of Exhausted"),
        ((Shipment,), {"undo": "never"}, 'undo must be "parallel" or "reverse"'),
        ((Shipment,) * 21, {}, "21 saga classes; at most 20"),
    ],
)
def test_mistakes_in_the_call_are_told(given: Any, options: Any, told: str) -> None:
    declare: Any = children
    with pytest.raises(DefinitionError, match=told):
        declare(*given, **options)


def declared(annotation: Any, *given: Any, taken: Any = None, **options: Any) -> None:
    """Declare a saga with a step that has children, and one that takes its result."""

    def chosen(self: Any, request: Basket) -> Any: ...

    def takes(self: Any, chosen: Any) -> None: ...

    chosen.__annotations__["return"] = annotation
    if taken is not None:
        takes.__annotations__["chosen"] = taken
    declare: Any = children
    body: dict[str, Any] = {"chosen": declare(*given, **options)(chosen), "takes": step(takes)}
    made("parent", body)


def test_types_of_requests_and_results_are_checked() -> None:
    declared(list[Parcel], Shipment, taken=list[Label])
    declared(tuple[Parcel, Basket], Shipment, Insurance, taken=tuple[Label, float])
    with pytest.raises(DefinitionError, match="; expected"):
        declared(list[Basket], Shipment)
    with pytest.raises(DefinitionError, match="; expected"):
        declared(tuple[Basket, Parcel], Shipment, Insurance)
    with pytest.raises(DefinitionError, match="cannot hold the result"):
        declared(list[Parcel], Shipment, taken=list[int])
    with pytest.raises(DefinitionError, match="cannot hold the result"):
        declared(list[Parcel], Shipment, taken=list[Label], tolerate=1)
    with pytest.raises(DefinitionError, match="cannot hold the result"):
        declared(list[Parcel], Shipment, taken=list[Label], on_failed=Exhausted.CONTINUE)
    declared(list[Parcel], Shipment, taken=list[Label | None], on_failed=Exhausted.CONTINUE)


def test_what_is_no_saga_class_is_refused() -> None:
    with pytest.raises(DefinitionError, match="Parcel is not a saga class"):
        declared(list[Parcel], Parcel)


def test_an_undo_of_its_own_is_refused() -> None:
    with pytest.raises(DefinitionError, match="a children step cannot have a compensation"):

        class Wrong(Saga[Basket]):  # pyright: ignore[reportUnusedClass]
            @children(Shipment)
            def shipments(self, request: Basket) -> list[Parcel]:
                return []

            @shipments.compensate
            def undo(self, request: Basket) -> None: ...


def test_a_saga_cannot_start_itself() -> None:
    class Inner(Saga[Basket], name="inner"):
        @children(Shipment)
        def shipments(self, request: Basket) -> list[Parcel]:
            return []

    with pytest.raises(DefinitionError, match='"shipment" would start itself, through "inner"'):

        class Cycle(Saga[Parcel], name="shipment"):  # pyright: ignore[reportUnusedClass]
            @children(Inner)
            def inner(self, request: Parcel) -> list[Basket]:
                return []


def test_five_sagas_deep_is_the_most() -> None:
    below: Any = Shipment
    for depth in range(2, 6):
        wanted: Any = definition_of(below).request_type

        def chosen(self: Any, request: Basket) -> Any:
            return []

        chosen.__annotations__["return"] = list[wanted]
        body: dict[str, Any] = {"chosen": children(below)(chosen)}
        below = made(f"level-{depth}", body)
        assert definition_of(below).depth == depth

    def too_deep(self: Any, request: Basket) -> list[Basket]:
        return []

    with pytest.raises(DefinitionError, match="nested 5 deep; with its children this one is 6 deep"):
        made("level-6", {"chosen": children(below)(too_deep)})
