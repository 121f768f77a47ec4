"""Halving ranges of keys, on listings of every kind."""

from __future__ import annotations

import bisect
import uuid
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagas.engine.clock import uuid7
from sagas.engine.sweep.key_ranges import middle

PREFIX = "zips/"
MOST_REQUESTS = 12


class Listing:
    """Keys in order, as S3 has them; it counts how often it was asked."""

    def __init__(self, keys: list[str]) -> None:
        self.keys = sorted(keys)
        self.asked = 0

    def first_after(self, key: str) -> str | None:
        self.asked += 1
        place = bisect.bisect_right(self.keys, key)
        return self.keys[place] if place < len(self.keys) else None

    def between(self, after: str, until: str) -> list[str]:
        return [key for key in self.keys if after < key and (not until or key <= until)]


def by_time(number: int) -> str:
    return uuid7(1_795_000_000 + number * 3.0, number.to_bytes(10, "big"))


def by_chance(number: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, str(number)))


@pytest.mark.parametrize("make", [by_time, by_chance])
def test_halves_are_about_even(make: Callable[[int], str]) -> None:
    listing = Listing([f"{PREFIX}{make(number)}/file" for number in range(4_000)])
    after, until = "", ""
    for _ in range(5):
        listing.asked = 0
        found = middle(listing.first_after, PREFIX, after, until)
        assert found is not None
        assert listing.asked <= MOST_REQUESTS
        lower, upper = len(listing.between(after, found)), len(listing.between(found, until))
        assert 0.3 < lower / (lower + upper) < 0.7
        after = found


_names = st.text("0189afAFgz-/. ü", min_size=1, max_size=40) | st.uuids().map(lambda one: f"{one}/file")


@given(st.sets(_names, max_size=30), _names, st.none() | _names)
def test_both_halves_have_keys_whatever_they_are(names: set[str], begin: str, end: str | None) -> None:
    listing = Listing([PREFIX + name for name in names])
    after, until = PREFIX + begin, PREFIX + end if end else ""
    found = middle(listing.first_after, PREFIX, after, until)
    assert listing.asked <= MOST_REQUESTS
    if found is not None:
        assert after < found
        assert not until or found < until
        assert listing.between(after, found)
        assert listing.between(found, until)


def test_the_files_of_one_saga_are_not_told_apart() -> None:
    listing = Listing([f"{PREFIX}{by_time(1)}/{number}" for number in range(100)])
    assert middle(listing.first_after, PREFIX, "", "") is None
    assert middle(Listing([]).first_after, PREFIX, "", "") is None
