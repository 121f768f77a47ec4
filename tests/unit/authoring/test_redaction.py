"""What is not to be shown: by type, by place, and in texts."""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import pydantic
import pytest

from sagas import Saga, Secret, step
from sagas.authoring.codec import decode, encode
from sagas.authoring.definition.definition import definition_of
from sagas.authoring.redaction import HIDDEN, Redaction
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


SHOWN_PARTS = pytest.mark.parametrize(
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


@SHOWN_PARTS
def test_what_is_shown_of_a_request(name: str, value: Any, shown: Any) -> None:
    assert _redaction().view("request", {name: value})[0] == {name: shown}


def test_what_is_shown_of_results() -> None:
    shown = _redaction().view
    assert shown("charge", [{"code": "12345", "ok": "yes"}]) == ([{"code": HIDDEN, "ok": "yes"}], ["12345"])
    assert shown("token", "tok") == (HIDDEN, ["tok"])
    assert shown("token", None) == (None, [])
    assert shown("use", "tok") == ("tok", [])


def test_a_value_is_hidden_where_its_entry_says_so_and_where_its_type_does() -> None:
    stored = (("a", "[1]"), ("**", "pin"))
    value = {"a": ["b", "c"], "d": [{"pin": {"e": 2.5}}, True]}
    seen = {"a": ["b", HIDDEN], "d": [{"pin": HIDDEN}, True]}
    assert _redaction().view("gone", value, stored) == (seen, ["c", "e", "2.5"])
    assert _redaction().view("charge", [{"code": "12345", "ok": "yes"}], (("[*]", "ok"),))[0] == [
        {"code": HIDDEN, "ok": HIDDEN}
    ]
    assert _redaction().view("gone", value) == (value, [])


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


def _by_paths(cls: type[Any], source: str, value: Any) -> Any:
    """What a reader sees that knows the hidden paths and no types."""
    hidden = _redaction(cls).hidden
    return Redaction(dict.fromkeys(hidden, Any), {**hidden}).view(source, value)[0]


@SHOWN_PARTS
def test_the_paths_alone_hide_what_the_types_hide(name: str, value: Any, shown: Any) -> None:
    assert _by_paths(Pay, "request", {name: value}) == {name: shown}


def test_hidden_paths() -> None:
    assert _redaction(Plain).hidden == {}
    hidden = _redaction().hidden
    assert set(hidden) == {"request", "charge", "token"}
    assert hidden["token"] == ((),)
    assert hidden["charge"] == (("[*]", "code"),)
    assert hidden["request"] == (
        ("account", "iban"),
        ("by_name", "[*]", "cvc"),
        ("by_name", "[*]", "number"),
        ("card", "cvc"),
        ("card", "number"),
        ("cards", "[*]", "cvc"),
        ("cards", "[*]", "number"),
        ("free", "password"),
        ("node", "**", "inner"),
        ("person", "cards", "[*]"),
        ("person", "tax_id"),
        ("place", "[0]"),
    )


class Leaf(NamedTuple):
    pin: Secret[str]
    more: list[Leaf]


@dataclass
class Cash:
    amount: int


@dataclass
class Even:
    odd: Odd | None
    code: Secret[str]


@dataclass
class Odd:
    even: Even | None
    codes: list[Secret[str]]


class Unresolved(pydantic.BaseModel):
    # The name is never defined: that is what the test needs.
    later: DefinedLater  # pyright: ignore[reportUndefinedVariable, reportUnknownVariableType]  # noqa: F821


class Open(pydantic.BaseModel):
    tags: dict[str, str]
    inner: Open | None = None
    pin: Secret[str]


class Hides(Saga[Card | Cash], redact=["$.either", "$.either.code"]):
    @step
    def leaf(self) -> Leaf: ...

    @step
    def odd(self) -> list[Odd]: ...

    @step
    def model(self) -> Open: ...

    @step
    def unresolved(self) -> Unresolved: ...

    @step
    def either(self) -> Even | Cash: ...

    @step
    def done(self) -> Cash: ...


def test_hidden_paths_of_types_that_contain_themselves_and_of_unions() -> None:
    hidden = _redaction(Hides).hidden
    assert hidden["request"] == (("cvc",), ("number",)), "a member of a union counts for all"
    assert hidden["leaf"] == ((),), "items have no names, so all of it is hidden"
    assert hidden["odd"] == (("[*]", "**", "code"), ("[*]", "**", "codes"))
    assert hidden["model"] == (("**", "pin"),)
    assert hidden["unresolved"] == ((),)
    assert hidden["either"] == ((),), "a path below a hidden one adds nothing"
    assert "done" not in hidden


def test_a_member_at_any_depth() -> None:
    odd = [{"even": {"odd": {"even": None, "codes": ["a"]}, "code": "b"}, "codes": ["c"]}]
    seen = [{"even": {"odd": {"even": None, "codes": HIDDEN}, "code": HIDDEN}, "codes": HIDDEN}]
    assert _by_paths(Hides, "odd", odd) == seen
    assert _by_paths(Hides, "model", {"tags": {}, "inner": {"pin": "1", "inner": None}, "pin": "2"}) == {
        "tags": {},
        "inner": {"pin": HIDDEN, "inner": None},
        "pin": HIDDEN,
    }


class Key(pydantic.RootModel[Secret[str]]):
    pass


class Keys(pydantic.RootModel[dict[str, list[Secret[str]]]]):
    pass


class Plan(enum.Enum):
    GOLDEN = "tier-1"


class Aliased(pydantic.BaseModel):
    key: Key
    keys: Keys
    iban: Secret[str] = pydantic.Field(
        default="DE00", validation_alias=pydantic.AliasChoices("IBAN", "ibanCode"), serialization_alias="IBAN"
    )
    queue: deque[Secret[str]] = deque()
    models: deque[Key] = deque()
    plain: deque[str] = deque()


class Rooted(Saga[Aliased], name="rooted", redact=["$.take.x[*]"]):
    @step
    def take(self, request: Aliased) -> Keys: ...

    @step
    def plans(self) -> Secret[dict[str, Plan]]: ...

    @step
    def card(self) -> Secret[Card]: ...


def test_pydantic_models_hide_what_their_json_has() -> None:
    hidden = _redaction(Rooted).hidden
    assert hidden["take"] == (("[*]", "[*]"), ("x", "[*]"))
    paths = {("IBAN",), ("iban",), ("ibanCode",), ("key",), ("keys", "[*]", "[*]"), ("models",), ("queue",)}
    assert {*hidden["request"]} == paths
    value = Aliased(key=Key("k-1"), keys=Keys({"a": ["k-2"]}), queue=deque(["q"]), models=deque([Key("m")]))
    shown, secrets = _redaction(Rooted).view("request", encode(value, Aliased))
    assert shown["key"] == shown["queue"] == shown["models"] == shown["IBAN"] == HIDDEN
    assert (shown["keys"], shown["plain"]) == ({"a": [HIDDEN]}, [])
    assert {"k-1", "k-2", "q", "m", "DE00"} <= {*secrets}
    assert decode(encode(value, Aliased), Aliased) == value


def test_keys_of_hidden_objects_and_names_of_enumerations_are_values_too() -> None:
    view = _redaction(Rooted).view
    assert view("plans", {"ann": "tier-1"}) == (HIDDEN, ["ann", "tier-1", "GOLDEN", "Plan.GOLDEN"])
    assert view("card", CARD) == (HIDDEN, ["4111111111111111", "ann", "1234"]), "names of fields are none"


class Inner(pydantic.BaseModel):
    by_key: list[dict[Secret[str], int]]


class Outer(pydantic.BaseModel):
    inner: Inner | None


@pytest.mark.parametrize("type_", [dict[Secret[str], int], list[dict[Secret[str], int]], Inner, Outer])
def test_a_dict_with_secret_keys_is_refused(type_: Any) -> None:
    with pytest.raises(DefinitionError, match="the keys of a dict are shown"):

        class Wrong(Saga[type_], name="wrong"):  # pyright: ignore[reportUnusedClass, reportInvalidTypeForm]
            @step
            def do(self) -> None: ...
