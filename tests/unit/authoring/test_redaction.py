"""What is not to be shown: by type, by place, and in texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import pydantic
import pytest

from sagas import Secret
from sagas.authoring.codec import decode, encode
from sagas.authoring.definition.definition import definition_of
from sagas.authoring.redaction import HIDDEN, Redaction, without
from sagas.authoring.saga import Saga
from sagas.authoring.steps import step
from sagas.errors import DefinitionError


@dataclass(frozen=True)
class Card:
    number: Secret[str]
    holder: str
    cvc: Secret[int] | None = None


class Account(TypedDict):
    iban: Secret[str]
    bank: str


class Place(NamedTuple):
    code: Secret[str]
    name: str


class Person(pydantic.BaseModel):
    tax_id: Secret[str]
    cards: list[Secret[str]] = []
    age: int = 1


@dataclass
class Node:
    name: str
    inner: Secret[Node | None] = None
    children: list[Node] | None = None


@dataclass(frozen=True)
class Payment:
    card: Card
    cards: list[Card]
    by_name: dict[str, Card]
    account: Account
    place: Place
    person: Person
    node: Node
    free: dict[str, Any]


class Pay(Saga[Payment], redact=["$.request.free.password", "$.charge[*].code"]):
    @step
    def charge(self, request: Payment) -> list[dict[str, str]]: ...

    @step
    def token(self) -> Secret[str]: ...

    @step
    def use(self, token: str) -> str: ...


class Plain(Saga[str]):
    @step
    def do(self, request: str) -> int: ...


CARD = {"number": "4111111111111111", "holder": "ann", "cvc": 1234}
SHOWN = {"number": HIDDEN, "holder": "ann", "cvc": HIDDEN}


def _redaction(cls: type[Any] = Pay) -> Redaction:
    return definition_of(cls).redaction


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("card", CARD, SHOWN),
        ("card", CARD | {"cvc": None}, SHOWN | {"cvc": None}),
        ("cards", [CARD, CARD], [SHOWN, SHOWN]),
        ("by_name", {"x": CARD}, {"x": SHOWN}),
        ("account", {"iban": "DE02", "bank": "one"}, {"iban": HIDDEN, "bank": "one"}),
        ("place", ["secret", "here"], [HIDDEN, "here"]),
        ("person", {"tax_id": "t1", "cards": ["c1"], "age": 3}, {"tax_id": HIDDEN, "cards": [HIDDEN], "age": 3}),
        ("node", {"name": "a", "inner": {"name": "b"}}, {"name": "a", "inner": HIDDEN}),
        (
            "node",
            {"name": "a", "children": [{"name": "b", "inner": {"name": "c"}}]},
            {"name": "a", "children": [{"name": "b", "inner": HIDDEN}]},
        ),
        ("free", {"password": "pass", "user": "ann"}, {"password": HIDDEN, "user": "ann"}),
        ("card", "what an older version took", "what an older version took"),
        ("card", {"unknown": 1}, {"unknown": 1}),
    ],
)
def test_what_is_shown_of_a_request(name: str, value: Any, shown: Any) -> None:
    assert _redaction().view("request", {name: value})[0] == {name: shown}


def test_what_is_shown_of_results() -> None:
    shown = _redaction().view
    assert shown("charge", [{"code": "12345", "ok": "yes"}]) == ([{"code": HIDDEN, "ok": "yes"}], ["12345"])
    assert shown("token", "tok") == (HIDDEN, ["tok"])
    assert shown("token", None) == (None, [])
    assert shown("use", "tok") == ("tok", [])


def test_nothing_is_shown_of_a_step_that_is_not_there_any_more() -> None:
    assert _redaction().view("gone", {"a": ["b", 2.5, True]}) == (HIDDEN, ["b", "2.5"])
    assert _redaction(Plain).view("gone", {"a": 1}) == ({"a": 1}, [])


def test_types_without_secrets_hide_nothing() -> None:
    assert (_redaction().hides, _redaction(Plain).hides) == (True, False)


def test_the_values_stay_what_they_are() -> None:
    node = Node("a", Node("b", children=[Node("c")]))
    assert decode(encode(node, Node), Node) == node
    assert decode({"number": "n", "holder": "h", "cvc": 1}, Card) == Card("n", "h", 1)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("$.request.card.nubmer", "does not exist in the type"),
        ("$.request.cards.number", "does not exist in the type"),
        ("$.request[0]", "does not exist in the type"),
        ("$.nobody.x", r"must start with one of \$.request, \$.do"),
        ("$", r"must start with one of \$.request, \$.do"),
        ("$.request..x", "is not a path"),
        ("request.card", r"'request.card' is not a path; write one like \$.customer.id"),
        ("", "is not a path"),
    ],
)
def test_a_path_that_leads_nowhere_is_refused(path: str, why: str) -> None:
    with pytest.raises(DefinitionError, match=why):

        class Wrong(Saga[Payment], name="wrong", redact=[path]):  # pyright: ignore[reportUnusedClass]
            @step
            def do(self) -> None: ...


def test_so_is_what_is_no_list_of_paths() -> None:
    with pytest.raises(DefinitionError, match="redact must be a list of paths"):

        class Wrong(Saga[Payment], name="wrong", redact="request.card"):  # pyright: ignore[reportUnusedClass]
            @step
            def do(self) -> None: ...


def test_texts() -> None:
    assert without("card 4111-1 of 4111", ["4111", "4111-1", "of"]) == "card *** of ***"
    assert without("nothing", []) == "nothing"
