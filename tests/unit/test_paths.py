"""Paths into JSON: one grammar for search keys, redaction, events and commands."""

from __future__ import annotations

from typing import Any

import pytest

from sagas.paths import is_path, parse_path, value_at


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("$", ()),
        ("$.customer.id", ("customer", "id")),
        ("$.items[0]", ("items", "[0]")),
        ("$.items[*].price", ("items", "[*]", "price")),
        ("$[2][*]", ("[2]", "[*]")),
        ("$.detail-type.ünï", ("detail-type", "ünï")),
    ],
)
def test_parts(text: str, parts: tuple[str, ...]) -> None:
    assert is_path(text)
    assert parse_path(text) == parts


@pytest.mark.parametrize(
    "text",
    ["", "customer", "$customer", "$.", "$..a", "$.a b", "$.a[", "$.a[-1]", "$.a[x]", "$.a[1234567]", "$.*", 7, None],
)
def test_anything_else_is_refused_and_one_is_shown(text: object) -> None:
    assert not is_path(text)
    with pytest.raises(ValueError, match=r"is not a path; write one like \$\.customer\.id") as raised:
        parse_path(text)
    assert repr(text) in str(raised.value)


@pytest.mark.parametrize(
    ("path", "value"),
    [("$", None), ("$.a[1].b", 2), ("$.a[*].b", [1, 2]), ("$.c[*]", []), ("$.d[*][0]", [3, 4])],
)
def test_values(path: str, value: Any) -> None:
    data: dict[str, Any] = {"a": [{"b": 1}, {"b": 2}], "c": [], "d": [[3], [4, 5]]}
    assert value_at(data, parse_path(path)) == (data if path == "$" else value)


@pytest.mark.parametrize("path", ["$.x", "$.a[2]", "$.a.b", "$.a[*].x", "$.text[0]", "$.text.x", "$[0]", "$.text[*]"])
def test_what_is_missing_is_a_lookup_error(path: str) -> None:
    with pytest.raises(LookupError):
        value_at({"a": [{"b": 1}], "text": "word"}, parse_path(path))
