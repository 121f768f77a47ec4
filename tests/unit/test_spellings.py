"""Values are found in texts however they are spelled there, and nothing else is."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagas import Secret
from sagas.authoring.codec import decode, encode
from sagas.authoring.redaction import Redaction
from sagas.spellings import HIDDEN, Secrets
from tests.support.spelled import SHAPES, SPELLINGS, shown


def _secrets(shape: str) -> Secrets:
    type_, value = SHAPES[shape]
    return Secrets(Redaction({"request": type_}).view("request", encode(value, type_))[1])


@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_is_hidden_in_each_spelling(shape: str) -> None:
    value, secrets = SHAPES[shape][1], _secrets(shape)
    for name, spell in SPELLINGS.items():
        text = secrets.without(f"before {spell(value)} after")
        assert not shown(value, text), (name, text)
        assert HIDDEN in text or name == "the last line", (name, text)
        assert text.startswith("before ")
        assert text.endswith("after")


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=12, max_size=40)


@given(_TEXTS, st.lists(st.sampled_from(["repr", "ascii", "JSON", "ASCII JSON", "URL", "query", "HTML"]), max_size=3))
def test_any_text_is_hidden_however_often_it_is_escaped(value: str, layers: list[str]) -> None:
    text = value
    for layer in layers:
        text = SPELLINGS[layer](text)
    redacted = Secrets([value]).without(f"<<{text}>>")
    assert HIDDEN in redacted
    left = redacted.replace(HIDDEN, "")
    # What is left are the quotes, braces and names that the layers add.
    assert len(left) <= 4 + 40 * len(layers), redacted
    assert value not in redacted


@given(_TEXTS, st.sampled_from(["", "a", "ab"]), st.booleans())
def test_any_text_is_hidden_in_base64(value: str, before: str, quoted: bool) -> None:
    spell = SPELLINGS[
        "base64 of JSON" if quoted else {"": "base64", "a": "base64 after one"}.get(before, "base64 after two")
    ]
    redacted = Secrets([value]).without(spell(value))
    assert len(redacted.replace(HIDDEN, "")) <= 24, redacted


_SCALARS: dict[type[Any], st.SearchStrategy[Any]] = {
    str: st.text(st.characters(exclude_categories=["Cs"]), min_size=4, max_size=30),
    int: st.integers(10_000, 10**20) | st.integers(-(10**12), -10_000),
    float: st.floats(1_000, 1e9) | st.floats(-1e9, -1_000),
    Decimal: st.decimals("1000", "1e12", allow_nan=False, allow_infinity=False, places=2),
    date: st.dates(date(1000, 1, 1)),
    datetime: st.datetimes(
        datetime(1000, 1, 1), timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))])
    ),
    time: st.times(),
    timedelta: st.timedeltas(timedelta(days=1), timedelta(days=9_000)),
    UUID: st.uuids(),
    bytes: st.binary(min_size=6, max_size=40),
}


@given(st.data())
def test_any_value_is_hidden_in_any_spelling(data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from([*_SCALARS]))
    value: Any = decode(encode(data.draw(_SCALARS[type_]), type_), type_)  # as code gets it
    inner = Secret[type_]
    wraps: list[tuple[Any, Any]] = [(inner, value), (list[inner], [value]), (dict[str, inner], {"k": value})]
    outer, wrapped = data.draw(st.sampled_from(wraps))
    hidden = Redaction({"request": outer}).view("request", encode(wrapped, outer))[1]
    spelling = data.draw(st.sampled_from([*SPELLINGS]))
    around = data.draw(st.text("ab <>\n", max_size=5))
    text = Secrets(hidden).without(f"{around}({SPELLINGS[spelling](value)}){around}")
    assert not shown(value, text.replace(HIDDEN, "|")), (spelling, text)


def test_longer_values_come_first_and_short_ones_are_not_searched_for() -> None:
    assert Secrets(["4111", "4111-1", "of"]).without("card 4111-1 of 4111") == "card *** of ***"
    assert Secrets([]).without("nothing") == "nothing"
    assert Secrets(["abc", "1"]).without("abc 1") == "abc 1"
    assert Secrets(["12", "YWI="]).without("12.0 s, 6162") == "12.0 s, 6162", "nor for what they stand for"


def test_overlapping_values_are_one() -> None:
    assert Secrets(["abcdef", "defghi"]).without("<abcdefghi>") == "<***>"
    assert Secrets(["abcd"]).without("abcdabcd") == "******"


@pytest.mark.parametrize(
    "text", ["a path C:\\new", "50 % off", "a & b; c", "x\n  | y", "\\", "%", "&amp;", "datetime.date"]
)
def test_a_text_without_values_stays_as_it_is(text: str) -> None:
    assert Secrets(["DE00 1234", "1987-06-05", "UEVN"]).without(text) == text


def test_a_value_that_a_cut_leaves_at_the_end_is_hidden() -> None:
    secrets = Secrets(["DE00 1234 5678", "1987-06-05"])
    assert secrets.without("paid to DE00 12") == "paid to ***"
    assert secrets.without("paid to DE0") == "paid to DE0"
    assert secrets.without("born datetime.da") == "born datetime.da", "only a value itself"


def test_a_text_is_cut_after_it_is_redacted() -> None:
    secrets = Secrets(["DE00 1234"])
    assert secrets.without("to DE00 1234 now", 8) == "to *** n"
    assert secrets.without("x" * 6 + "DE00 1234", 8) == "xxxxxx**"
    assert len(secrets.without("x" * 10_000_000, 100)) == 100


def test_escapes_that_are_none_do_no_harm() -> None:
    for text in ("\\u12", "\\ud83d", "%zz%", "&#99999999;", "\\x", "\\U00110000", "%" * 50, "\\" * 50, "%25" * 50):
        assert Secrets(["unlike anything"]).without(text) == text


@pytest.mark.parametrize("value", ["\ud800 half", "\0\1\2\3", "    ", "\n\n\n\n\n", "\\\\\\\\", "%41%42", "||||"])
def test_strange_values_are_hidden_and_nothing_else(value: str) -> None:
    assert Secrets([value]).without(f"<{value}>") == f"<{HIDDEN}>"
    assert Secrets([value]).without("before and after") == "before and after"


@pytest.mark.parametrize(
    "value",
    [
        *("sNaN", "-NaN", "Infinity", "1e399", "1E+9999", "1E-9999", "9" * 5_000, "P999999999D", "A" * 10_000),
        *("0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00", "0001-01-01", "24:00:00", "-0.0000"),
    ],
)
def test_values_that_hardly_stand_for_anything_are_hidden(value: str) -> None:
    assert Secrets([value]).without(f"<{value}>") == f"<{HIDDEN}>"


def test_many_values_are_found_in_one_text() -> None:
    secrets = Secrets([f"value-{number}" for number in range(1_000)])
    text = " ".join(f"value-{number}" for number in range(300))
    assert secrets.without(text) == " ".join([HIDDEN] * 300)


def test_json_stays_json() -> None:
    secrets = Secrets(['a"b\\c\nd', "ümlaut"])
    document = json.dumps({"a": 'a"b\\c\nd', "ü": ["ümlaut und mehr"]})
    assert json.loads(secrets.without(document)) == {"a": HIDDEN, "ü": [f"{HIDDEN} und mehr"]}
