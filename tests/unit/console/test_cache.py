"""How long an answer is kept, and who gets it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from sagas.console.cache import Cache
from sagas.errors import Unavailable


class Setting:
    """A cache whose clock and whose other thread the test moves."""

    def __init__(self) -> None:
        self.time = 0.0
        self.submitted = list[Callable[[], None]]()
        self.cache = Cache(lambda: self.time, self.submitted.append)
        self.next = count(1).__next__

    def run(self) -> None:
        """Do what the other thread has to do."""
        while self.submitted:
            self.submitted.pop(0)()


@pytest.mark.parametrize(("kind", "lifetime"), [("show", 1.0), ("list", 1.0), ("letters", 10 / 3), ("stats", 60.0)])
def test_an_answer_lasts_as_long_as_its_kind(kind: str, lifetime: float) -> None:
    s = Setting()
    assert s.cache.get((kind, "a"), s.next) == 1
    s.time = lifetime - 0.01
    assert (s.cache.get((kind, "a"), s.next), s.cache.get((kind, "b"), s.next)) == (1, 2)
    s.time = lifetime
    assert s.cache.get((kind, "a"), s.next) == 3


def test_an_audit_trail_lasts_until_something_is_done() -> None:
    s = Setting()
    s.cache.get(("audit", "a"), s.next)
    s.time = 1e9
    assert s.cache.get(("audit", "a"), s.next) == 1
    s.cache.forget()
    assert s.cache.get(("audit", "a"), s.next) == 2


def test_the_oldest_go_where_there_are_too_many_of_a_kind() -> None:
    s = Setting()
    for trail in range(33):
        s.cache.get(("audit", trail), s.next)
    assert (s.cache.last(("audit", 0), "none"), s.cache.last(("audit", 1), "none")) == ("none", 2)


def test_all_who_ask_at_once_get_one_answer() -> None:
    s, together = Setting(), threading.Barrier(4)

    def look(_: int) -> int:
        together.wait(10)
        return s.cache.get(("show", "a"), s.next)

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(look, range(4))] == [1] * 4


def test_an_answer_to_a_question_from_before_a_change_is_not_kept() -> None:
    s = Setting()

    def overtaken() -> str:
        s.cache.forget()
        return "old"

    assert s.cache.get(("show", "a"), overtaken) == "old"
    assert s.cache.get(("show", "a"), lambda: "new") == "new"


def test_what_no_page_waits_for_is_asked_once_a_minute_and_never_missing_after_that() -> None:
    s = Setting()

    def seen() -> int:
        return s.cache.in_background(("caller",), s.next, 0)

    assert [seen(), seen(), len(s.submitted)] == [0, 0, 1]
    s.run()
    s.time = 59.0
    assert [seen(), len(s.submitted)] == [1, 0]
    s.cache.forget()
    assert [seen(), seen(), len(s.submitted)] == [1, 1, 1]
    s.run()
    assert seen() == 2


def test_what_could_not_be_asked_is_asked_again() -> None:
    s = Setting()

    def away() -> int:
        raise Unavailable("away")

    assert s.cache.in_background(("caller",), away, 0) == 0
    with pytest.raises(Unavailable):
        s.run()
    assert s.cache.in_background(("caller",), s.next, 0) == 0
    s.run()
    assert s.cache.in_background(("caller",), s.next, 0) == 1
