"""What the console asks the service for, and how often."""

from __future__ import annotations

import threading
import time
from itertools import count
from typing import Any

from sagas.console.source import Source
from sagas.errors import Unavailable
from tests.unit.console.conftest import Browser, text_of
from tests.unit.console.service import FakeService, a_letter, numbered


def test_an_audit_trail_is_not_read_again_before_the_saga_has_changed(service: FakeService) -> None:
    seconds = count(step=60)
    source = Source(service, lambda: float(next(seconds)))
    asked = ("audit", "create-zip", numbered(1))
    for _ in range(3):
        assert len(source.audit(source.show("create-zip", numbered(1)))) == 1
    assert service.asked.count(asked) == 1
    service.sagas[numbered(1)]["updated_at"] = "2026-11-21T09:49:20.000Z"
    source.audit(source.show("create-zip", numbered(1)))
    assert service.asked.count(asked) == 2
    source.forget()  # something was done
    source.audit(source.show("create-zip", numbered(1)))
    assert service.asked.count(asked) == 3
    source.close()


def test_what_no_page_waits_for_is_asked_for_once_at_a_time_however_long_it_takes(service: FakeService) -> None:
    answered, asked = threading.Event(), list[int]()

    class Slow(FakeService):
        def sweeps(self) -> list[Any]:
            asked.append(1)
            assert answered.wait(60)
            return [{"type": "create-zip"}]

    source, end = Source(Slow()), time.monotonic() + 10
    for _ in range(20):
        assert source.sweeps() == []
    assert source.letters_of_all() == {"create-zip": 0}  # the threads are not all held up
    answered.set()
    while not source.sweeps():
        assert time.monotonic() < end
        time.sleep(0.01)
    assert asked == [1]
    source.close()


def test_each_page_tells_how_much_waits_at_the_others_and_who_acts(service: FakeService) -> None:
    class Signed(FakeService):
        def caller(self) -> str:
            return "arn:aws:sts::123456789012:assumed-role/Operators/anna"

    known = Signed(service.sagas.values())
    known.letters = [a_letter(), a_letter(message_id="m-2")]
    known.known_breakers = [{"state": "closed"}]
    browser, end = Browser(known, stack="shop").open(), time.monotonic() + 10
    while "Attention 1 Sagas Dead letters 2 Types Breakers Sweeps" not in (told := text_of(browser.get("/types").text)):
        assert time.monotonic() < end, told
        time.sleep(0.01)
    while "shop · eu-central-1 · anna" not in (told := text_of(browser.get("/types").text)):
        assert time.monotonic() < end, told
        time.sleep(0.01)
    browser.submit("/sagas/create-zip/" + numbered(1) + "/retry", reason="")
    assert "Attention 1 Sagas Dead letters 2" in text_of(browser.get("/types").text)  # until the cached count expires
    known.away = Unavailable("the API is out of reach", 5)
    assert "anna" in browser.get("/search").text
