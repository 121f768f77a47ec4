"""Secrets of many shapes, the ways in which code spells them, and whether a text shows one."""

from __future__ import annotations

import base64
import enum
import html
import json
import textwrap
import traceback
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple, TypedDict, cast
from uuid import UUID

import pydantic

from sagas import Secret
from sagas.authoring.codec import encode
from sagas.spellings import HIDDEN, SHORTEST

PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nabcDEF+/90==\n-----END PRIVATE KEY-----\n"


class Tier(enum.Enum):
    GOLDEN = "tier-4711"


class Level(enum.IntEnum):
    HIGHEST = 47_114_712


class Colour(enum.StrEnum):
    CRIMSON = "c0ffee-red"


@dataclass(frozen=True)
class Card:
    number: str
    expires: date


@dataclass(frozen=True)
class Wallet:
    card: Card
    others: tuple[Card, ...] = ()


class Account(TypedDict):
    iban: str
    bank: str


class Spot(NamedTuple):
    street: str
    number: int


class Person(pydantic.BaseModel):
    name: str
    born: date


class Token(pydantic.RootModel[str]):
    pass


CARD = Card("4111-1111-1111-1111", date(1987, 6, 5))
SHAPES: dict[str, tuple[Any, Any]] = {
    "text": (Secret[str], "DE00 1234 5678"),
    "text of four": (Secret[str], "x9k2"),
    "text with quotes": (Secret[str], "a'b\"c'd\"e\\f"),
    "text with tabs": (Secret[str], "user\tpass\tword"),
    "text with a backslash": (Secret[str], "C:\\new\\table\\x41"),
    "text that is not ASCII": (Secret[str], "Jürgen Größe"),
    "text beyond the BMP": (Secret[str], "🔑 über 🗝 alles"),
    "text of a URL": (Secret[str], "https://u:p%41ss+w@host/?a=b&c=d e"),
    "text of HTML": (Secret[str], '<b>O\'Hara & "Söhne"</b>'),
    "text of JSON": (Secret[str], '{"pin": "47-11", "list": ["ä", null]}'),
    "text of digits": (Secret[str], "4111111111111111"),
    "PEM key": (Secret[str], PEM),
    "CRLF lines": (Secret[str], "first line\r\n  second line\r\nthird line"),
    "bytes": (Secret[bytes], b"secret-bytes-of-ann"),
    "binary bytes": (Secret[bytes], bytes(range(120, 150))),
    "bytes of a PEM key": (Secret[bytes], PEM.encode()),
    "integer": (Secret[int], 4_111_222_233),
    "negative integer": (Secret[int], -47_110_815),
    "float": (Secret[float], 12_345.675),
    "whole float": (Secret[float], 98_765.0),
    "decimal": (Secret[Decimal], Decimal("12345.60")),
    "large decimal": (Secret[Decimal], Decimal("1.2345E+9")),
    "date": (Secret[date], date(1987, 6, 5)),
    "datetime": (Secret[datetime], datetime(2031, 2, 3, 4, 5, 6, tzinfo=UTC)),
    "datetime of a zone": (Secret[datetime], datetime(2031, 2, 3, 4, 5, 6, 7, tzinfo=timezone(timedelta(hours=2)))),
    "naive datetime": (Secret[datetime], datetime(2031, 2, 3, 4, 5, 6, 700_000)),
    "time": (Secret[time], time(4, 5, 6)),
    "duration": (Secret[timedelta], timedelta(days=3, seconds=4711)),
    "UUID": (Secret[UUID], UUID("019aa5cd-4f25-7b02-8d6c-3f21d2a4c951")),
    "enum": (Secret[Tier], Tier.GOLDEN),
    "int enum": (Secret[Level], Level.HIGHEST),
    "str enum": (Secret[Colour], Colour.CRIMSON),
    "optional": (Secret[str] | None, "maybe-a-secret"),
    "union": (Secret[date | int], date(1987, 6, 5)),
    "list": (list[Secret[str]], ["first-item", "second-item"]),
    "secret list": (Secret[list[int]], [471_147_114, 815_081_508]),
    "dict": (dict[str, Secret[str]], {"pin": "value-of-pin"}),
    "secret dict": (Secret[dict[str, int]], {"ann@example.org": 471_147_114}),
    "dataclass": (Secret[Card], CARD),
    "nested dataclasses": (Secret[Wallet], Wallet(CARD, (Card("5500-0000-0000-0004", date(2001, 2, 3)),))),
    "TypedDict": (Secret[Account], {"iban": "DE00 1234 5678", "bank": "bank of ann"}),
    "named tuple": (Secret[Spot], Spot("Gräfin-Str. 5", 471_147)),
    "pydantic model": (Secret[Person], Person(name="Ada Lovelace", born=date(1815, 12, 10))),
    "root model": (Secret[Token], Token("root-of-token")),
    "free JSON": (Secret[Any], {"deep": [{"er": "deepest-value"}]}),
}
"""By name, a type that hides its value, and a value."""


def _json(value: Any) -> Any:
    return encode(value, Any if isinstance(value, dict | list) else type(value))


def _text(value: Any) -> str:
    """The text of a value that goes into URLs and base64."""
    return value if isinstance(value, str) else json.dumps(_json(value), ensure_ascii=False)


def _raised(value: Any) -> str:
    try:
        try:
            raise KeyError(value)
        except KeyError as error:
            raise ExceptionGroup("several", [ValueError(str(value)), RuntimeError(f"of {value!r}")]) from error
    except ExceptionGroup as group:
        return "".join(traceback.format_exception(group))


def _base64(before: str, value: Any) -> str:
    raw = value if isinstance(value, bytes) else _text(value).encode()
    return base64.b64encode(before.encode() + raw + b"!!").decode()


SPELLINGS: dict[str, Callable[[Any], str]] = {
    "str": str,
    "repr": repr,
    "ascii": ascii,
    "f-string": lambda value: f"the value {value} is refused",
    "repr of a repr": lambda value: repr(repr([value])),
    "in a dict": lambda value: str({"value": value}),
    "JSON": lambda value: json.dumps({"value": _json(value)}, ensure_ascii=False),
    "ASCII JSON": lambda value: json.dumps({"value": _json(value)}, indent=1),
    "JSON in JSON": lambda value: json.dumps({"body": json.dumps({"value": _json(value)})}),
    "URL": lambda value: urllib.parse.quote(_text(value)),
    "query": lambda value: urllib.parse.urlencode({"value": _text(value)}),
    "URL of a URL": lambda value: urllib.parse.quote(urllib.parse.quote(_text(value), safe="")),
    "URL of JSON": lambda value: urllib.parse.quote(json.dumps(_json(value))),
    "HTML": lambda value: html.escape(_text(value)),
    "base64": lambda value: _base64("", value),
    "base64 after one": lambda value: _base64("a", value),
    "base64 after two": lambda value: _base64("ab", value),
    "base64url": lambda value: _base64("", value).translate(str.maketrans("+/", "-_")),
    "base64 in lines": lambda value: "\n".join(textwrap.wrap(_base64("a", value), 20)),
    "base64 of JSON": lambda value: _base64('{"x":', json.dumps(_json(value))),
    "hexadecimal": lambda value: (value if isinstance(value, bytes) else _text(value).encode()).hex(),
    "bytes": lambda value: repr(_text(value).encode()),
    "indented": lambda value: textwrap.indent(_text(value), "  | "),
    "KeyError": lambda value: str(KeyError(value)),
    "traceback": _raised,
    "the last line": lambda value: (str(value).splitlines() or [""])[-1],
}


def scalars(value: Any) -> list[Any]:
    """The innermost values of a value, as Python has them."""
    if isinstance(value, pydantic.BaseModel):
        return scalars(value.model_dump())
    if hasattr(value, "__dataclass_fields__"):
        return scalars(vars(value))
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        keys = [key for key in members if "@" in key]
        return [*keys, *(each for item in members.values() for each in scalars(item))]
    if isinstance(value, list | tuple):
        return [each for item in cast("list[Any]", value) for each in scalars(item)]
    return [value]


def shown(value: Any, text: str) -> list[str]:
    """The spellings of a value or of its parts that stand in a text."""
    spelled = list[str]()
    for part in scalars(value):
        plain = [
            str(part),
            repr(part),
            ascii(part),
            *(json.dumps(_json(part), ensure_ascii=not each) for each in (0, 1)),
        ]
        spelled += [each.strip("'\"") for each in plain]
        spelled += str(part).splitlines()
        spelled += [urllib.parse.quote(_text(part)), urllib.parse.quote_plus(_text(part)), html.escape(_text(part))]
        spelled += [_base64("", part)[:-6], _base64("a", part)[2:-6], _base64("ab", part)[3:-6]]
        spelled.append((part if isinstance(part, bytes) else _text(part).encode()).hex())
    return [each for each in dict.fromkeys(spelled) if len(each) >= SHORTEST and each in text and each != HIDDEN]
