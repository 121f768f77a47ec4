"""A real browser, and consoles for it to open."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, sync_playwright

from sagas.client.operate.jobs import JobFolder
from sagas.console.serving import Serving
from tests.e2e.console.scene import a_bad_day
from tests.unit.console.service import FakeService

PATIENCE = 60.0
"""Seconds for what takes a page two at first, and half a minute once it has long been at rest."""
CHROMIUM = next((path for name in ("chromium", "chromium-browser") if (path := shutil.which(name))), None)

REBOUND = "rebound.example"
"""A name that resolves to this machine, though it is another's."""


_MISSING = "there is no chromium here: apt-get install chromium"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests that need a browser where there is none. In CI they fail: a proof must not go missing unseen."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
            if CHROMIUM is None and not os.environ.get("CI"):
                item.add_marker(pytest.mark.skip(reason=_MISSING))


@pytest.fixture(scope="module")
def chromium() -> Generator[Browser]:
    """One browser for the tests of a file. While Playwright runs, this thread has an event loop that runs, and other
    tests may not call ``asyncio.run``."""
    if CHROMIUM is None:
        pytest.fail(_MISSING)
    with sync_playwright() as playwright:
        # The sandbox needs what containers do not give; the pages are our own.
        names = f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1"
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", names])
        yield browser
        browser.close()


class Tab:
    """A tab of a console, and what it complained about.

    Args:
        page: the browser's.
        serving: the console.
    """

    def __init__(self, page: Page, serving: Serving) -> None:
        self.page = page
        self.serving = serving
        self.complaints: list[str] = []
        self.fetched: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.fetched.append(request.url))

    @property
    def origin(self) -> str:
        """Of the console."""
        return f"http://sagas.localhost:{self.serving.session.port}"

    def go(self, path: str) -> Page:
        """Open a page of the console."""
        self.page.goto(self.origin + path)
        return self.page

    @property
    def rev(self) -> int:
        """How often the page has asked whether there is news."""
        return int(self.page.get_attribute("main", "data-rev") or 0)

    def refreshed(self) -> None:
        """Wait until the page has asked by itself whether there is news, once more at least: on a busy machine it may
        have asked again before one looks."""
        before = self.rev
        self.until("that it asks", lambda: self.rev != before)

    def shows(self, what: Locator) -> None:
        """Wait until news are shown. The page asks less and less often while there are none, so it is asked to."""

        def shown() -> bool:
            before = self.rev
            self.press("r")
            self.until("an answer", lambda: self.rev != before)
            return what.is_visible()

        self.until(f"{what} to be shown", shown)

    def press(self, *keys: str) -> None:
        """Press keys, as soon as the page that is open hears them."""
        self.page.locator("html[data-ready]").wait_for(state="attached")
        for key in keys:
            self.page.keyboard.press(key)

    def until(self, what: str, check: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not check():
            assert time.monotonic() < end, f"{what}: not within {PATIENCE} s"
            self.page.wait_for_timeout(50)


Open = Callable[..., Tab]


@pytest.fixture
def console(chromium: Browser, tmp_path: Path) -> Generator[Open]:
    """Opens a console of a service in memory, in a context of its own."""
    with ExitStack() as ending:

        def make(service: FakeService, *, read_only: bool = False, **context: Any) -> Tab:
            serving = Serving(service, port=0, read_only=read_only, folder=JobFolder(tmp_path / "jobs"))
            ending.enter_context(serving.in_background())
            opened: BrowserContext = chromium.new_context(**context)
            ending.callback(opened.close)
            tab = Tab(opened.new_page(), serving)
            tab.page.goto(serving.url)
            return tab

        yield make


@pytest.fixture
def service() -> FakeService:
    """A service on a bad day."""
    return a_bad_day()


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Where screenshots go: ``SAGAS_SCREENSHOTS`` says, to make those of the documentation anew."""
    folder = Path(os.environ.get("SAGAS_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
