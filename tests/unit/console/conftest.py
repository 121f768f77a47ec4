"""A console over a service in memory, and a browser that behaves as ours do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from sagas.console.app import console
from sagas.console.guard import Session
from tests.unit.console.service import NOW, FakeService, dead

PORT = 4480
ORIGIN = f"http://sagas.localhost:{PORT}"


class Browser(TestClient):
    """A tab of the console."""

    def __init__(self, service: FakeService, **options: Any) -> None:
        self.service = service
        self.session = Session(PORT)
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
        return self.post(path, data={"csrf": self.session.csrf, **form}, headers=headers)


Open = Callable[..., Browser]


@pytest.fixture
def service() -> FakeService:
    """A service with one saga, which waits for an operator."""
    return FakeService([dead()])


@pytest.fixture
def browser(service: FakeService) -> Browser:
    """A browser that has opened the console."""
    return Browser(service).open()
