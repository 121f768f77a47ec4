"""A console over a service in memory, and a browser that behaves as ours do."""

from __future__ import annotations

import html
import re
import tempfile
import time
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from jinja2 import Environment, FileSystemBytecodeCache
from starlette.testclient import TestClient

from sagas.client.operate.jobs import JobFolder
from sagas.console.app import console
from sagas.console.guard import Session
from tests.unit.client.stub import SEQ
from tests.unit.console.service import NOW, FakeService, dead, numbered

PORT = 4480
ORIGIN = f"http://sagas.localhost:{PORT}"
SAGA = f"/local/eu-central-1/sagas/create-zip/{numbered(1)}"
LATER = "2026-11-21T09:49:20.000Z"
STATUSES = (
    *("PENDING", "RUNNING", "WAITING", "COMPENSATING", "DEAD_LETTERED"),
    *("COMPLETED", "COMPENSATED", "CANCELLED", "FAILED", "COMPENSATION_FAILED"),
)


class Browser(TestClient):
    """A tab of the console."""

    def __init__(self, service: FakeService, **options: Any) -> None:
        self.service = service
        self.session = Session(PORT)
        options = {"folder": JobFolder(Path(tempfile.mkdtemp(prefix="jobs-"))), **options}
        app = console(service, self.session, clock=lambda: NOW, rate=1000.0, **options)
        super().__init__(app, base_url=ORIGIN, follow_redirects=False)

    def open(self) -> Browser:
        """Open the URL that was printed."""
        answer = self.get("/", params={"token": self.session.token})
        assert answer.status_code == 303, answer.text
        return self

    def submit(self, path: str, **form: Any) -> Any:
        """Send a form of the console's, as a browser does."""
        headers = {"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"}
        return self.post(path, data={"csrf": self.session.csrf, "seq": str(SEQ), **form}, headers=headers)


Open = Callable[..., Browser]


@pytest.fixture(scope="session", autouse=True)
def _compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Compile each template once in a run, not for each console: that took longer than showing its pages."""
    compiled = FileSystemBytecodeCache(str(tmp_path_factory.mktemp("templates")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sagas.console.desk.Environment", partial(Environment, bytecode_cache=compiled))
        yield


@pytest.fixture(scope="session", autouse=True)
def _event_loop() -> Generator[None]:
    """One event loop for all browsers. Without it each request starts a thread with a loop of its own."""
    with start_blocking_portal() as Browser.portal:
        yield
    Browser.portal = None


@pytest.fixture
def service() -> FakeService:
    """A service with one saga, which waits for an operator."""
    return FakeService([dead()])


@pytest.fixture
def browser(service: FakeService) -> Browser:
    """A browser that has opened the console."""
    return Browser(service).open()


def text_of(page: str) -> str:
    """The words of a page."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


def opened(service: FakeService, path: str, **options: Any) -> str:
    answer = Browser(service, **options).open().get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


def wait_over(browser: Browser, job: str, seconds: float = 10) -> str:
    """The words of a job's page once it is over."""
    end = time.monotonic() + seconds
    while 'data-over="yes"' not in (page := browser.get(job).text):
        assert time.monotonic() < end, "the job goes on"
        time.sleep(0.01)
    return text_of(page)
