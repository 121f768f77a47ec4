"""The list of sagas, and looking one up."""

from __future__ import annotations

import re
import time
from typing import Any

from sagas.core.text import iso
from tests.unit.client.stub import a_saga
from tests.unit.console.conftest import SAGA, Browser, opened, text_of
from tests.unit.console.service import NOW, FakeService, dead, numbered


class TestList:
    def test_filters(self, service: FakeService) -> None:
        browser = Browser(service).open()
        assert numbered(1) in browser.get("/sagas", params={"status": "dead_lettered", "type": "create-zip"}).text
        assert ("list", "create-zip", "DEAD_LETTERED") in service.asked
        assert numbered(1) not in browser.get("/sagas", params={"text": "something else"}).text
        assert numbered(1) in browser.get("/sagas", params={"text": "NO TOPIC"}).text

    def test_goes_on(self) -> None:
        service = FakeService([a_saga(saga_id=numbered(number)) for number in range(120)])
        browser = Browser(service).open()
        first = browser.get("/sagas").text
        assert first.count("data-row") == 50
        (cursor,) = re.findall(r"cursor=(\w+)", first)
        second = browser.get("/sagas", params={"cursor": cursor}).text
        assert numbered(50) in second
        assert numbered(49) not in second

    def test_search_goes_to_the_saga(self, service: FakeService) -> None:
        browser = Browser(service).open()
        answer = browser.get("/search", params={"q": numbered(1)[:20]})
        assert (answer.status_code, answer.headers["location"]) == (303, SAGA)
        assert "None of the newest" in browser.get("/search", params={"q": "ff"}).text

    def test_an_empty_one_teaches(self) -> None:
        assert "sagas start TYPE" in text_of(opened(FakeService(), "/sagas"))


class TestWhatTheServiceTells:
    """It is shown, and not asked for again."""

    def test_faults_come_with_the_list(self) -> None:
        fault = {"step": "announce", "type": "Denied", "message": "no", "undo": False}
        error = {"step": "announce", "type": "Denied", "message": "no"}
        service = FakeService([dead(number, fault=fault, error=error) for number in range(30)])
        told = text_of(opened(service, "/"))
        assert "step announce used up its attempts 30" in told
        assert "Denied: no" in told
        assert len([call for call in service.asked if call[0] == "show"]) == 1  # for all that have the same error

    def test_a_saga_is_looked_up_by_the_service(self) -> None:
        service = FakeService([dead(1)])
        service.key = "order-1"
        browser = Browser(service).open()
        for wanted in (numbered(1), numbered(1)[:8], "order-1"):
            answer = browser.get("/search", params={"q": wanted})
            assert (answer.status_code, answer.headers["location"]) == (303, SAGA)
        assert browser.get("/search", params={"q": "none of these"}).status_code == 200

    def test_a_saga_is_found_by_a_value(self) -> None:
        class Counting(FakeService):
            def stats(self, name: str | None = None) -> Any:
                one: dict[str, Any] = {"statuses": {"RUNNING": 600}, "at_least": ["RUNNING"]}
                other: dict[str, Any] = {"statuses": {"RUNNING": 500, "COMPLETED": 1}, "at_least": []}
                return {"types": [one, other]}

        service = Counting([dead(1)])
        browser = Browser(service).open()
        answer = browser.get("/search", params={"q": "customer=c 17"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/sagas?find=customer%3Dc%2017")
        assert 'name="find"' in browser.get("/sagas").text
        listed = browser.get("/sagas", params={"find": 'customer="c 17" kind=x'}).text
        assert numbered(1) in listed
        assert ("list", None, None, {"customer": "c 17", "kind": "x"}) in service.asked
        assert "find=customer%3D%22c%2017%22%20kind%3Dx" in listed  # also on the way to all that match
        for wrong in ("customer", "=x", 'customer="c'):
            answer = browser.get("/sagas", params={"find": wrong})
            assert answer.status_code == 422
            assert "find: must be like customer=c-17" in answer.text
        end = time.monotonic() + 10
        while "running 1,100+ completed 1 in flight" not in text_of(browser.get("/sagas").text):
            assert time.monotonic() < end, "the counts of all types do not come"
            time.sleep(0.01)

    def test_an_empty_page_is_not_an_empty_list(self) -> None:
        service = FakeService([dead(number) for number in range(60)])
        browser = Browser(service).open()
        page = text_of(browser.get("/sagas", params={"text": "nothing like it"}).text)
        assert "None on this page has “nothing like it” in its error, id or type." in page
        assert "sagas start" not in page
        assert "Older" in page
        assert "sagas start" in text_of(browser.get("/sagas", params={"status": "COMPLETED"}).text)

    def test_lists_are_of_a_time(self, service: FakeService) -> None:
        page = opened(service, "/sagas?since=2026-11-22T10:00Z")
        assert 'name="since" value="2026-11-22T10:00Z"' in page
        assert ("list", None, None, "2026-11-22T10:00Z") in service.asked
        assert 'name="until" value="2h"' in opened(service, "/sagas?until=2h")
        assert ("list", None, None, iso(NOW - 7200)) in service.asked


def test_ten_thousand_sagas_are_as_quick_as_fifty(service: FakeService) -> None:
    service.sagas = {numbered(number): dead(number) for number in range(10_000)}
    browser = Browser(service).open()
    page = browser.get("/sagas")
    assert len(page.content) < 60_000
    assert page.text.count("data-row") == 50
