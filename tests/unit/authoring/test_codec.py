"""What the codec refuses, where it says the problem is, and that it never quotes the value."""

from __future__ import annotations

import enum
import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from typing import Annotated, Any, ForwardRef, Literal, NamedTuple, NewType, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest
from typing_extensions import TypeAliasType

from sagas import DefinitionError, InvalidRequest, S3Object, Saga, Secret, step
from sagas.authoring.codec import canonical, content_hash, decode, encode, json_schema
from sagas.authoring.shapes.base import UnsupportedType
from sagas.authoring.shapes.compiler import shape_of
from sagas.authoring.shapes.records import Record
from sagas.testing import run

UserId = NewType("UserId", str)
JsonValue = dict[str, "JsonValue"] | list["JsonValue"] | str | int | float | bool | None


def _label(value: object) -> str:
    """Name a case the same in every process: without addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Address:
    city: str
    zip: int = 0


@dataclass
class Order:
    keys: list[str]
    address: Address
    color: Color = Color.RED


@dataclass
class Even:
    number: int
    half: int = field(init=False)

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ValueError(f"{self.number} is odd")
        self.half = self.number // 2


class Pair(NamedTuple):
    a: int
    b: int = 2


class Options(TypedDict, total=False):
    fast: bool


class Model(pydantic.BaseModel):
    number: int
    when: date
    inner: list[Model] = []

    @pydantic.field_validator("number")
    @classmethod
    def small(cls, value: int) -> int:
        if value > 1000:
            raise ValueError(f"{value} is too much")
        return value


class Open(pydantic.BaseModel, extra="allow"):
    number: int


def problems_of(data: Any, type_: Any) -> dict[str, str]:
    with pytest.raises(InvalidRequest) as caught:
        decode(data, type_)
    return {problem.path: problem.message for problem in caught.value.problems}


def test_every_failing_path_is_told() -> None:
    data = {"keys": ["a", 1, None], "address": {"city": 3, "street": "x"}, "color": "green", "odd-one": 1}
    assert problems_of(data, Order) == {
        "$.keys[1]": "expected a string",
        "$.keys[2]": "expected a string",
        "$.address.city": "expected a string",
        "$.address.street": "unknown field",
        "$.color": "expected one of 'red', 'blue'",
        '$["odd-one"]': "unknown field",
    }
    assert problems_of({}, Order) == {
        "$.keys": "required field is missing",
        "$.address": "required field is missing",
    }


STRICT: list[tuple[Any, Any]] = [
    ("1", int),
    (1.5, int),
    (2.0**53, int),
    (True, int),
    (1, bool),
    (True, float),
    ("1.5", float),
    (1, str),
    (None, str),
    (float("nan"), float),
    (float("inf"), Any),
    (10**400, float),
    ("2026-01-01", datetime),
    ("20260101", date),
    (0, date),
    (1, Decimal),
    ("NaN", Decimal),
    ("1\n", Decimal),
    ("0" * 32, UUID),
    ("a", bytes),
    ("é", bytes),
    ({"a": 1}, list[int]),
    ([1], tuple[int, int]),
    ([1, 2, 3], Pair),
    ([], Pair),
    ({"01": 1}, dict[int, int]),
    ({"x": 1}, dict[int, int]),
    ({"1.0": 1, "1": 2}, dict[float, int]),
    ({"1E+99999999999999999999": 1}, dict[Decimal, int]),
    ("1E+99999999999999999999", Decimal),
    ("1e999999999", Decimal),
    ("1e-999999999", Decimal),
    ("20260101T000000Z", datetime),
    ({"x": 1}, Options),
    ("a", Literal["b"]),
    (1, Literal[True]),
    (1.0, Literal[True]),
    (1.5, Literal[1]),
    ([], Literal["b"]),
    ({}, Address | None),
    ("\ud800", str),
    ({"\ud800": 1}, Any),
    (1 << 5000, int),
    ((1, 2), Any),
    (object(), Any),
    ({1: 2}, Any),
    ([[]], set[Any]),
    ({"number": 3}, Even),
    ({"number": 4, "half": 2}, Even),
]


@pytest.mark.parametrize(("data", "type_"), STRICT, ids=lambda value: ascii(_label(value))[:40])
def test_decoding_is_strict(data: Any, type_: Any) -> None:
    assert problems_of(data, type_)


def test_problems_never_quote_the_value() -> None:
    secret = "s3cr3t"
    for type_ in (int, date, Decimal, UUID, Color, Literal["a"], Address, list[int], Address | None, Even, Model):
        with pytest.raises(InvalidRequest) as caught:
            decode(secret, type_)
        assert secret not in f"{caught.value} {caught.value.problems}"
    assert problems_of({"number": 98765}, Even) == {"$": "refused by Even (ValueError)"}
    assert problems_of({"number": 98765, "when": secret}, Model) == {
        "$.number": "refused by Model (value_error)",
        "$.when": "Input should be a valid date in the format YYYY-MM-DD",
    }


def test_what_is_not_encoded_is_made_again() -> None:
    assert encode(Even(4), Even) == {"number": 4}
    assert decode({"number": 4}, Even) == Even(4)


WRONG_VALUES: list[tuple[Any, Any]] = [
    ("1", int),
    (True, int),
    (float("nan"), float),
    (datetime(2026, 1, 1), date),
    (Decimal("NaN"), Decimal),
    ({"city": "x"}, Address),
    ((1, 2), list[int]),
    ([1, 2], tuple[int, ...]),
    (Pair(1, 2), tuple[int, int]),
    (object(), Any),
    (Address("x"), Any),
    ({"fast": 1}, Options),
    ("green", Color),
    (None, Address),
    ({1: 2}, dict[str, int]),
    (S3Object("b", "k"), Address),
]


@pytest.mark.parametrize(("value", "type_"), WRONG_VALUES, ids=_label)
def test_encoding_checks_the_value(value: Any, type_: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        encode(value, type_)
    assert caught.value.problems


def test_a_subclass_would_lose_what_it_adds() -> None:
    @dataclass
    class Longer(Address):
        street: str = "x"

    with pytest.raises(InvalidRequest):
        encode(Longer("y"), Address)


@pytest.mark.parametrize("value", [2**63, -(2**100), 2**4000])
def test_large_integers_stay_exact(value: int) -> None:
    assert decode(encode(value, int), int) == value
    assert canonical(value) == str(value).encode()


def test_deep_nesting_is_a_clear_error() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for call in (lambda: decode(deep, Any), lambda: encode(deep, Any), lambda: canonical(deep)):
        with pytest.raises(InvalidRequest) as caught:
            call()
        assert caught.value.problems[0].message == "nested deeper than 100 levels"


def test_the_list_of_problems_is_limited() -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode([1] * 5000, list[str])
    assert len(caught.value.problems) == 1000


def test_canonical_json_does_not_depend_on_order_or_spelling() -> None:
    assert canonical({"b": 1.0, "a": [True, None, "é"]}) == '{"a":[true,null,"é"],"b":1}'.encode()
    assert content_hash({"a": 1, "b": 2}) == content_hash({"b": 2, "a": 1.0})
    assert content_hash({"a": 1}) != content_hash({"a": True})
    assert len(content_hash(None)) == 64


HASHES: list[tuple[Any, str]] = [
    (None, "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b"),
    ({"item": "train", "count": 2}, "eeebf397a2faf1830e652de2b1fedb5ed0a8a97b1ba0f76c4fa61761163946e1"),
    (
        {"b": [True, None, 'é\u2028"\\\n\x01\x7f'], "a": {"é": 1, "z": 0, "Z": -0.0}},
        "3551d42c82beffe4dccb1b9ec5db70600e13b95d2f10c556f2b800e286e90f6d",
    ),
    (
        [1.0, -3.0, 1.5, 1e22, 1e16, 9007199254740991.0, 9007199254740992.0, 5e-324, 0.1],
        "a21f033a9b59fbd36f738f034c2944ab46a68d8cb52148fb440f14814ce5e525",
    ),
    ([2**63, -(2**100)], "9adb7781c97d095db8a9dcb5b796a2ed4c0a130a2828b7759ab217ff02b83a99"),
    ({"a": [{"b": [[]]}, {}], "": ""}, "334dd45bde2c9c4b0f4b2a08680c9f0617ae02f21406771aed6667f0ab2cf9ea"),
    ("\U0001f600", "7a0c50b92434b015545fe93ab723db2d4b2cdd14a441405624a9ce8be29f1d5a"),
]


@pytest.mark.parametrize(("data", "known"), HASHES, ids=_label)
def test_a_hash_stays_what_it_was(data: Any, known: str) -> None:
    """They are stored: an idempotency key must find the same request in them."""
    assert content_hash(data) == known


def test_what_is_hashed_may_be_a_dict_of_another_class() -> None:
    assert canonical(OrderedDict[str, Any](b=1.0, a=OrderedDict[str, Any]())) == b'{"a":{},"b":1}'


@pytest.mark.parametrize(
    "value", [(), {1: 2}, float("inf"), 2**4096, "\ud800", {"a": ["\udfff"]}, IntEnum("N", "one").one]
)
def test_what_is_not_json_has_no_hash(value: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        content_hash(value)
    assert caught.value.problems


def test_sets_are_written_in_a_stable_order() -> None:
    assert encode({"c", "a", "b"}, set[str]) == ["a", "b", "c"]


UNSUPPORTED: list[Any] = [
    complex,
    type,
    object(),
    dict[bool, int],
    dict[Address, int],
    dict[Literal[1], int],
    set[list[int]],
    set[Address],
    str | date,
    str | bytes,
    bytes | UUID,
    Color | str,
    date | Literal["2026-01-01"],
    object | date,
    list[int] | tuple[int, ...],
    Address | dict[str, Any],
    ForwardRef("Later"),
    enum.Enum("Odd", {"A": 1.5}),
    enum.Flag("Bits", "A B"),
]


Ids = TypeAliasType("Ids", "list[int]")


def test_an_alias_of_a_text_says_what_is_wrong() -> None:
    with pytest.raises(UnsupportedType, match="is a text in the place of a type"):
        json_schema(Ids)


@pytest.mark.parametrize("type_", UNSUPPORTED, ids=_label)
def test_unsupported_types_are_refused(type_: Any) -> None:
    with pytest.raises(UnsupportedType):
        json_schema(type_)


def test_members_of_a_union_must_be_told_apart() -> None:
    @dataclass
    class Same:
        city: str
        zip: int = 1

    @dataclass
    class Less:
        city: str

    with pytest.raises(UnsupportedType, match="be distinguished"):
        json_schema(Address | Same)
    with pytest.raises(UnsupportedType, match="be distinguished"):
        json_schema(Address | Less)
    assert decode(encode(Less("x"), Less | Address), Less | Address) == Less("x")
    assert decode(encode(Address("x"), Less | Address), Less | Address) == Address("x")


@dataclass
class Left:
    next: Left | Right | None
    tag: Address


@dataclass
class Right:
    next: Left | Right | None
    tag: Options


class LeftDict(TypedDict):
    next: LeftDict | RightDict | None
    tag: Address


class RightDict(TypedDict):
    next: LeftDict | RightDict | None
    tag: Options


@pytest.mark.parametrize("type_", [Left | Right, LeftDict | RightDict])
def test_members_told_apart_far_inside_cost_no_more_than_their_size(type_: Any) -> None:
    """Each level tried as either would double the work: 90 of them would take longer than the universe is old."""
    data: Any = None
    for _ in range(90):
        data = {"next": data, "tag": {"fast": True}}
    value = decode(data, type_)
    assert encode(value, type_) == data
    data["next"]["next"]["next"]["tag"] = 1
    assert problems_of(data, type_)


def test_a_path_is_not_longer_than_can_be_shown() -> None:
    data: Any = "\ud800"
    for _ in range(90):
        data = {"k" * 60: data}
    [path] = problems_of(data, Any)
    assert len(path) < 1_100
    assert path.startswith("$.kkk")


def test_one_point_nought_is_an_integer_as_in_json_schema() -> None:
    for type_ in (int, int | None, Literal[1, "a"], list[int] | str):
        data = [1.0] if type_ == list[int] | str else 1.0
        value = decode(data, type_)
        assert value == data
        assert isinstance(value if not isinstance(value, list) else value[0], int)
    assert isinstance(decode(1.0, int | float), float)
    assert isinstance(decode(1.0, Literal[1] | float), float)
    assert decode({"city": "x", "zip": 2.0}, Address | Even) == Address("x", 2)
    assert decode({"number": 3.0, "when": "2026-01-01"}, Model) == Model(number=3, when=date(2026, 1, 1))


def test_an_init_var_is_refused() -> None:
    @dataclass
    class Odd:
        x: InitVar[int]

    with pytest.raises(UnsupportedType, match="InitVar"):
        json_schema(Odd)


def test_names_for_types_are_looked_through() -> None:
    assert decode("x", UserId) == "x"
    assert decode(1, Annotated[int, "positive"]) == 1
    value = {"a": [1, {"b": None}]}
    assert decode(value, JsonValue) == value
    assert json_schema(JsonValue) == {}


def test_pydantic_decides_what_its_models_take() -> None:
    data: dict[str, Any] = {"number": 1, "when": "2026-01-01", "inner": [{"number": "2", "oops": 1}]}
    assert problems_of(data, Model) == {
        "$.inner[0].number": "Input should be a valid integer",
        "$.inner[0].when": "required field is missing",
        "$.inner[0].oops": "unknown field",
    }
    assert decode({"number": 1, "more": 2}, Open) == Open.model_validate({"number": 1, "more": 2})
    with pytest.raises(InvalidRequest):
        encode({"number": 1}, Open)


@dataclass
class Late:
    """A step sets the second field."""

    number: int
    state: str = field(init=False, default="new")


@dataclass
class Cents:
    """Each reader converts again."""

    amount: int

    def __post_init__(self) -> None:
        self.amount *= 100


@dataclass
class Page:
    of: Cents


@dataclass(eq=False)
class Blind:
    """All of them are equal, it says."""

    number: int
    note: str = field(init=False, default="", compare=False, repr=False)

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # pyright: ignore[reportAssignmentType]


@dataclass
class Doubling:
    number: int

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value * 2)


class Signed(Pair):
    def __new__(cls, a: int, b: int = 2) -> Signed:
        return super().__new__(cls, a + 1, b)


class Hiding(pydantic.BaseModel):
    number: int
    note: str = pydantic.Field(default="", exclude=True)
    _cents: int = pydantic.PrivateAttr(default=0)

    def __eq__(self, other: object) -> bool:
        return True


class Base(pydantic.BaseModel):
    name: str


class Derived(Base):
    rank: int


class Holder(pydantic.BaseModel):
    inner: Base


class Converted(pydantic.BaseModel):
    amount: int

    @pydantic.field_validator("amount")
    @classmethod
    def cents(cls, amount: int) -> int:
        return amount * 100


def late(state: str) -> Late:
    value = Late(1)
    value.state = state
    return value


def blind(note: str) -> Blind:
    value = Blind(1)
    value.note = note
    return value


def hiding(cents: int) -> Hiding:
    value = Hiding(number=1)
    value._cents = cents  # pyright: ignore[reportPrivateUsage]
    return value


@dataclass
class Reading:
    """What it derives is NaN."""

    total: float
    mean: float = field(init=False)

    def __post_init__(self) -> None:
        self.mean = self.total / 2 if self.total else float("nan")  # another one each time


@dataclass
class Trimmed:
    name: str
    parts: Sequence[int] = ()

    def __post_init__(self) -> None:
        self.name = self.name.strip().lower()
        self.parts = tuple(self.parts)


ANOTHER: dict[str, tuple[Any, Any, str]] = {
    "a field with init=False that a step set": (late("paid"), Late, "$.state"),
    "a __post_init__ that converts": (Cents(5), Cents, "$.amount"),
    "one in a list": ([Even(2), Cents(5)], list[Even | Cents], "$[1].amount"),
    "one in a dataclass": (Page(Cents(5)), Page, "$.of.amount"),
    "a field that __eq__ leaves out": (blind("x"), Blind, "$.note"),
    "a __setattr__ that converts": (Doubling(1), Doubling, "$.number"),
    "a __new__ that converts": (Signed(1), Signed, "$[0]"),
    "an integer that no float is": (2**53 + 1, float, "$"),
    "one as a key": ({2**53 + 1: "a"}, dict[float, str], '$["?"]'),
    "a time whose offset depends on the date": (time(9, tzinfo=ZoneInfo("Europe/Berlin")), time, "$"),
    "an excluded field": (Hiding(number=1, note="x"), Hiding, "$.note"),
    "a private attribute": (hiding(5), Hiding, "$._cents"),
    "a subclass in a field": (Holder(inner=Derived(name="a", rank=1)), Holder, "$.inner"),
    "a subclass in a list": ([Holder(inner=Derived(name="a", rank=1))], list[Holder], "$[0].inner"),
    "a validator that converts": (Converted(amount=5), Converted, "$.amount"),
}


@pytest.mark.parametrize("name", ANOTHER)
def test_a_value_that_would_be_another_on_its_way_is_refused(name: str) -> None:
    value, type_, place = ANOTHER[name]
    with pytest.raises(InvalidRequest) as caught:
        encode(value, type_)
    assert [problem.path for problem in caught.value.problems] == [place]


SAME: dict[str, tuple[Any, Any]] = {
    "a field that is derived": (Even(4), Even),
    "a field that is not set otherwise": (late("new"), Late),
    "NaN": (Reading(0.0), Reading),
    "normalised once": (Trimmed(" Ada ", [1, 2]), Trimmed),
    "nothing hidden": (hiding(0), Hiding),
    "the class itself in a field": (Holder(inner=Base(name="a")), Holder),
    "an integer that a float is": (2**53, float),
    "a time with an offset": (time(9, tzinfo=timezone(timedelta(hours=2))), time),
    "a datetime with a zone": (datetime(2026, 11, 27, tzinfo=ZoneInfo("Europe/Berlin")), datetime),
    "a list for a sequence": ([1, 2], Sequence[int]),
    "a tuple for a sequence": ((1, 2), Sequence[int]),
    "an IntEnum": (IntEnum("Level", {"LOW": 1}).LOW, int),  # pyright: ignore[reportAttributeAccessIssue]
}


@pytest.mark.parametrize("name", SAME)
def test_a_value_that_comes_back_is_written(name: str) -> None:
    value, type_ = SAME[name]
    assert encode(decode(encode(value, type_), type_), type_) == encode(value, type_)


Positive = Annotated[int, pydantic.Field(gt=0)]
Epoch = Annotated[
    datetime,
    pydantic.PlainSerializer(lambda at: int(at.timestamp()), return_type=int),
    pydantic.BeforeValidator(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
]
Short = Annotated[str, pydantic.StringConstraints(max_length=3)]


@dataclass
class Ruled:
    count: Positive
    at: Epoch  # pyright: ignore[reportInvalidTypeForm]
    name: Short | None = None
    code: Annotated[Secret[str], pydantic.Field(min_length=2)] = "ab"


def test_rules_in_annotated_are_followed() -> None:
    at = datetime(2026, 11, 27, tzinfo=UTC)
    data = encode(Ruled(1, at, "abc"), Ruled)
    assert data == {"count": 1, "at": int(at.timestamp()), "name": "abc", "code": "ab"}
    assert decode(data, Ruled) == Ruled(1, at, "abc")
    wrong = {"count": 0, "at": 1, "name": "long", "code": "a"}
    assert problems_of(wrong, Ruled) == {
        "$.count": "Input should be greater than 0",
        "$.name": "String should have at most 3 characters",
        "$.code": "String should have at least 2 characters",
    }
    with pytest.raises(InvalidRequest) as caught:
        encode(Ruled(-1, at), Ruled)
    assert [(one.path, one.message) for one in caught.value.problems] == [("$.count", "Input should be greater than 0")]
    assert problems_of("1", Positive) == {"$": "Input should be a valid integer"}
    properties = json_schema(Ruled)["$defs"]["Ruled"]["properties"]
    assert properties["count"] == {"type": "integer", "exclusiveMinimum": 0}
    assert decode(None, Positive | None) is None
    record = shape_of(Ruled)
    assert isinstance(record, Record)
    assert record.fields["code"].shape.secret


def test_a_serializer_whose_json_the_type_does_not_take_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        encode(1, Annotated[int, pydantic.PlainSerializer(lambda number: f"{number} CHF")])


IGNORED: list[Any] = [
    Annotated[list[int], pydantic.Field(max_length=3)],
    Annotated[dict[str, Secret[str]], pydantic.Field(max_length=3)],
    Annotated[Address, pydantic.AfterValidator(lambda value: value)],
    Annotated[int, msgspec.Meta(gt=0)],
    Positive | float,
    Annotated[str, pydantic.Field(max_length=3)] | date,
]


@pytest.mark.parametrize("type_", IGNORED, ids=_label)
def test_rules_that_would_be_ignored_are_refused(type_: Any) -> None:
    with pytest.raises(UnsupportedType):
        json_schema(type_)


def test_a_class_with_such_a_type_is_refused() -> None:
    with pytest.raises(
        DefinitionError, match=r'step "keep": the result .* would be ignored for list.int.; use a pydantic'
    ):

        class Wrong(Saga[int]):  # pyright: ignore[reportUnusedClass]
            @step
            def keep(self) -> Annotated[list[int], pydantic.Field(max_length=3)]: ...


def test_a_result_that_would_be_another_fails_its_step() -> None:
    class Priced(Saga[int]):
        @step
        def price(self, request: int) -> Cents:
            return Cents(request)

        @step
        def charge(self, price: Cents) -> int:
            return price.amount

    outcome = run(Priced, 5)
    assert outcome.status == "COMPENSATED"
    assert "$.amount: is another when Cents is read back" in str(outcome.error)


class Login(pydantic.BaseModel):
    name: str
    password: pydantic.SecretStr | None = None


class OpenLogin(Login):
    @pydantic.field_serializer("password", when_used="json")
    def written(self, password: pydantic.SecretStr | None) -> str | None:
        return None if password is None else password.get_secret_value()


class OneWay(pydantic.BaseModel):
    number: int = pydantic.Field(serialization_alias="written", default=0)


def test_a_model_that_would_not_come_back_is_not_written() -> None:
    starred = "**********"
    for password in ("hunter2", starred):
        login = OpenLogin(name="ada", password=pydantic.SecretStr(password))
        assert decode(encode(login, OpenLogin), OpenLogin) == login
    for kept in (Login(name=starred), Login(name="ada", password=pydantic.SecretStr(starred))):
        assert decode(encode(kept, Login), Login) == kept
    with pytest.raises(InvalidRequest) as caught:
        encode([Login(name="ada", password=pydantic.SecretStr("hunter2"))], list[Login])
    (problem,) = caught.value.problems
    assert (problem.path, "writes a secret as stars: annotate" in problem.message) == ("$[0]", True)
    with pytest.raises(InvalidRequest) as caught:
        encode(OneWay(number=1), OneWay)
    assert "OneWay cannot read the JSON it writes" in caught.value.problems[0].message


def test_a_schema_says_what_decode_takes() -> None:
    schema = json_schema(Order)
    order = schema["$defs"]["Order"]
    assert schema["$ref"] == "#/$defs/Order"
    assert order["required"] == ["keys", "address"]
    assert order["additionalProperties"] is False
    assert order["properties"]["color"] == {"enum": ["red", "blue"]}
    assert json_schema(tuple[int, str])["prefixItems"] == [{"type": "integer"}, {"type": "string"}]
    assert json_schema(Pair)["$defs"]["Pair"]["minItems"] == 1
    day, nothing = json_schema(date | None)["anyOf"]
    assert (day["type"], day["format"], nothing) == ("string", "date", {"type": "null"})


def test_references_may_point_elsewhere() -> None:
    schema = json_schema(Order, ref_template="#/components/schemas/{name}")
    assert schema["$ref"] == "#/components/schemas/Order"
    model = json_schema(list[Model])
    assert model["items"] == {"$ref": "#/$defs/Model"}
    assert set(model["$defs"]) == {"Model"}
    assert all(
        definition.get("additionalProperties") is False or "$ref" in definition
        for definition in model["$defs"].values()
    )
