"""Whether what a saga has stored names an object."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagas.authoring.context import object_key
from sagas.engine.sweep.references import objects_in, unnamed
from sagas.errors import InvalidRequest
from sagas.store.journal.entries import Entry

ID = "0199c2a1-7c1e-7000-8000-0123456789ab"
KEY = f"zips/{ID}/archive-1.zip"


def entry(seq: int, payload: str | None) -> Entry:
    return Entry(ID, seq, 0.0, "zip", "StepCompleted", "COMPLETED", 1, payload=payload)


def as_it_is(one: Entry) -> Entry:
    return one


def left(value: Any, *filenames: str) -> set[str]:
    return unnamed(ID, filenames or ("archive-1.zip",), [entry(2, json.dumps(value))], as_it_is)


@pytest.mark.parametrize(
    "value",
    [
        KEY,
        {"bucket": "zips", "key": KEY},
        ["zips", KEY],
        {"deep": [{"down": f"s3://zips/{KEY}"}]},
        f"https://zips.s3.amazonaws.com/{KEY}?X-Amz-Signature=abc",
        {KEY: 1},
        "archive-1.zip",
        {"folder": f"zips/{ID}", "name": "archive-1.zip"},
        {"stem": "archive-1", "suffix": ".zip"},
        "ARCHIVE-1.ZIP",
        quote("archive-1.zip", safe="").replace("-", "%2D"),
        f"all of zips/{ID}/",
        f"s3://zips/zips/{ID}/*",
        f"zips/{ID}",
        ID,
    ],
    ids=str,
)
def test_named(value: Any) -> None:
    assert left(value) == set()


@pytest.mark.parametrize(
    "value",
    [None, True, 1, 1.5, "", "archive-2.zip", f"zips/{ID}/archive-2.zip", {"key": f"zips/{ID}/archive-2.zip"}, [], {}],
    ids=str,
)
def test_not_named(value: Any) -> None:
    assert left(value) == {"archive-1.zip"}


def test_each_file_for_itself() -> None:
    value = {"key": f"zips/{ID}/b.zip"}
    assert left(value, "a-1.zip", "b.zip", "ü-1") == {"a-1.zip", "ü-1"}
    assert left("U\u0308-1", "a-1.zip", "b.zip", "ü-1") == {"a-1.zip", "b.zip"}
    assert left(17, "17.pdf", "18.pdf") == {"18.pdf"}
    assert left("hidden", ".hidden") == {".hidden"}


def test_what_is_stored_aside_is_fetched_only_if_the_rest_does_not_name_all() -> None:
    fetched: list[int] = []

    def load(one: Entry) -> Entry:
        fetched.append(one.seq) if one.payload is None else None
        return entry(one.seq, one.payload or json.dumps("other.zip"))

    entries = [entry(2, None), entry(3, json.dumps(KEY))]
    assert unnamed(ID, ["archive-1.zip"], entries, load) == set()
    assert fetched == []
    assert unnamed(ID, ["archive-1.zip", "other.zip", "third.zip"], entries, load) == {"third.zip"}
    assert fetched == [2]


def test_what_was_purged_tells_nothing() -> None:
    assert unnamed(ID, ["archive-1.zip"], [entry(1, '"x"'), entry(2, None)], as_it_is) == set()


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(_json, st.text(min_size=1, max_size=60), st.sampled_from(["{}", "s3://b/{}", "see {} there", '"{}"']))
def test_a_key_anywhere_names_its_object(around: Any, filename: str, how: str) -> None:
    try:
        key = object_key("zips/", ID, filename)
    except (InvalidRequest, UnicodeEncodeError):
        return
    for named in (key, filename, quote(key), quote(key, safe="")):
        assert left([around, {"x": how.replace("{}", named)}], filename) == set()


@pytest.mark.parametrize(
    ("result", "named"),
    [
        ({"bucket": "b", "key": "k", "size": None, "etag": None}, [("b", "k")]),
        ({"bucket": "b", "key": "k"}, [("b", "k")]),
        ({"bucket": "b", "key": "k", "size": 1, "etag": "e", "pages": 7}, [("b", "k")]),
        ({"bucket": "b", "key": "k", "colour": "red"}, []),
        ({"bucket": "", "key": "k"}, []),
        ({"bucket": "b", "key": 7}, []),
        ([{"bucket": "b", "key": "2"}, {"zip": {"bucket": "b", "key": "1"}}], [("b", "2"), ("b", "1")]),
        ({"bucket": {"bucket": "b", "key": "k"}, "key": []}, [("b", "k")]),
        ("s3://b/k", []),
        (None, []),
    ],
)
def test_what_is_an_object_in_a_result(result: Any, named: list[tuple[str, str]]) -> None:
    assert list(objects_in(result)) == named
