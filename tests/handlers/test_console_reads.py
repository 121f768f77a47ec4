"""What the console's first page costs: calls are counted at the API's handler, reads at the tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from anyio.from_thread import start_blocking_portal

from sagas import SagaClient
from sagas.console import app
from sagas.console.source import Source
from sagas.core.states import SagaStatus
from sagas.handlers import api as api_handler
from sagas.handlers import supervisor
from tests.handlers.conftest import Make, Site, request
from tests.handlers.test_overview import EIGHT, dead, many, write
from tests.store.states import saga
from tests.support.aws import REGION, LambdaContext
from tests.support.reads import counted
from tests.support.sagas import FAIL, Stubborn, Trip
from tests.unit.client.stub import StubApi, serving
from tests.unit.console.conftest import Browser, text_of

Tab = Callable[[Site], tuple[Browser, StubApi]]


@pytest.fixture(scope="module", autouse=True)
def _loop() -> Iterator[None]:
    """One event loop for all browsers."""
    with start_blocking_portal() as Browser.portal:
        yield
    Browser.portal = None


@pytest.fixture
def tab(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tab]:
    """Open the console of a site in an account. Its clock is the site's."""
    supervisor.reset()
    with serving() as api:

        def served() -> tuple[int, Any, dict[str, str]]:
            url = urlsplit(api.asked[-1].path.removeprefix("/v1"))
            answer = api_handler.handler(request("GET", url.path, **dict(parse_qsl(url.query))), LambdaContext())
            return answer["statusCode"], json.loads(answer["body"]), {}

        def open_(site: Site) -> tuple[Browser, StubApi]:
            monkeypatch.setattr(api, "next", served)
            monkeypatch.setattr(app, "Source", partial(Source, clock=site.clock.now))
            client: Any = SagaClient(api.url, region=REGION)
            browser = Browser(client, stack="shop").open()
            return browser, api

        yield open_


def settled(site: Site, browser: Browser, api: StubApi) -> None:
    """Look at the page until it has read what it shows."""
    write(site)
    for _ in range(2):
        assert browser.get("/").status_code == 200
        site.clock.advance(30)
    api.asked.clear()


def test_a_refresh_with_nothing_new_takes_two_calls_and_five_reads_at_most(
    site: Make, tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = site(*many(50), Stubborn, **EIGHT)
    FAIL["second"] = RuntimeError("no")
    s.begin("stubborn")
    s.run()
    dead(s, "many-3", 2)
    browser, api = tab(s)
    settled(s, browser, api)
    write(s)
    asked = counted(monkeypatch)
    page = text_of(browser.get("/").text)
    assert "stubborn · step second used up its attempts" in page
    assert [call.path for call in api.asked] == ["/v1/overview"]
    assert len(asked.reading) <= 5


def test_a_visible_page_at_rest_takes_400_units_an_hour_at_most(
    site: Make, tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = site(*many(50), Stubborn, **EIGHT)
    FAIL["second"] = RuntimeError("no")
    s.begin("stubborn")
    s.run()
    browser, api = tab(s)
    settled(s, browser, api)
    with monkeypatch.context() as patch:
        asked = counted(patch)
        units = 0.0
        for _ in range(10):  # minutes, which are like all others
            write(s)
            asked.clear()
            for _ in range(2):
                s.clock.advance(30)
                assert browser.get("/").status_code == 200
            units += asked.read
    assert units * 6 <= 400
    assert len(api.asked) <= 10 * 2 + 2, "the menu asks in the background"


def test_what_has_changed_is_read(site: Make, tab: Tab) -> None:
    s = site(Stubborn, **EIGHT)
    browser, api = tab(s)
    settled(s, browser, api)
    assert "Nothing needs you" in browser.get("/").text
    FAIL["second"] = RuntimeError("no")
    s.begin("stubborn")
    s.run()
    write(s)
    s.clock.advance(30)
    assert "stubborn · step second used up its attempts" in text_of(browser.get("/").text)


@pytest.mark.slow
def test_the_first_page_loads_with_twelve_thousand_open_sagas_and_as_many_failed_ones(site: Make, tab: Tab) -> None:
    s = site(Stubborn, Trip, **EIGHT)
    for _ in range(12_000):
        assert s.engine.control.create(saga(SagaStatus.RUNNING, saga="stubborn", created_at=s.clock.now()), 60.0)
    dead(s, "stubborn", 12_000)
    dead(s, "trip", 1)
    write(s)
    browser, _ = tab(s)
    page = text_of(browser.get("/").text)
    assert "stubborn · " in page
    assert "trip · " in page
    assert "So many sagas are in flight" in page
