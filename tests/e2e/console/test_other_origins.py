"""A page of another origin, in a real browser, tries to have code run through each port that is open here."""

from __future__ import annotations

import base64
import io
import json
import threading
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from sagas.local.emulator.clients import Clients
from sagas.local.files import Files
from sagas.local.process import REGION, Emulator
from tests.e2e.console.conftest import REBOUND, Open
from tests.e2e.stack import free_port
from tests.unit.console.service import FakeService, dead

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.embedded("it attacks the emulator that we start"),
    pytest.mark.slow,
]

ROLE = "arn:aws:iam::000000000000:role/any"
ATTACK = """
async ({ calls, kind }) => {
    for (const [url, body] of calls) {
        const headers = { "Content-Type": kind === "no-cors" ? "text/plain" : "application/json" };
        await fetch(url, { method: "POST", mode: kind, headers, body }).catch(() => null);
    }
}
"""
"""What any page can do. Text needs no preflight; without CORS the page cannot read the answer, and need not."""


class _Nothing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def site() -> Generator[int]:
    """An empty page of its own origin; its port."""
    server = HTTPServer(("127.0.0.1", 0), _Nothing)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Target:
    """An emulator with an API, and what a page would have it run.

    Args:
        directory: of the emulator, in which the function leaves a file.
        port: of the emulator.
    """

    def __init__(self, directory: Path, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._ran = directory / "ran"
        self._clients = Clients(self.url, REGION)
        self._lambda = self._clients.client("lambda")
        self._lambda.create_function(
            FunctionName="there",
            Runtime="python3.13",
            Role=ROLE,
            Handler="code.handler",
            Code={"ZipFile": self._code()},
        )
        self.api_url = self._with_api()

    def _code(self) -> bytes:
        code = f"""
def handler(event, context):
    open({str(self._ran)!r}, "w").close()
    return {{"statusCode": 200}}
"""
        with zipfile.ZipFile(packed := io.BytesIO(), "w") as archive:
            archive.writestr("code.py", code)
        return packed.getvalue()

    def _with_api(self) -> str:
        api = self._clients.client("apigateway")
        rest = api.create_rest_api(name="api")
        method = {"restApiId": rest["id"], "resourceId": rest["rootResourceId"], "httpMethod": "POST"}
        api.put_method(**method, authorizationType="NONE")
        function = f"arn:aws:lambda:{REGION}:000000000000:function:there"
        uri = f"arn:aws:apigateway:{REGION}:lambda:path/2015-03-31/functions/{function}/invocations"
        api.put_integration(**method, type="AWS_PROXY", integrationHttpMethod="POST", uri=uri)
        api.create_deployment(restApiId=rest["id"], stageName="prod")
        return f"{self.url}/_aws/execute-api/{rest['id']}/prod/"

    def calls(self, through: str) -> list[tuple[str, str]]:
        """The requests that create a function and invoke one, through a port."""
        function = {
            "FunctionName": "evil", "Runtime": "python3.13", "Role": ROLE, "Handler": "code.handler",
            "Code": {"ZipFile": base64.b64encode(self._code()).decode()},
        }  # fmt: skip
        functions = f"{through}/2015-03-31/functions"
        return [
            (functions, json.dumps(function)),
            (f"{functions}/evil/invocations", "{}"),
            (f"{functions}/there/invocations", "{}"),
            (self.api_url.replace(self.url, through), "{}"),
        ]

    def changed(self) -> tuple[bool, bool]:
        """Whether a function or a queue was created, and whether a function ran; from here on it counts anew."""
        names = {one["FunctionName"] for one in self._lambda.list_functions()["Functions"]}
        created = "evil" in names or bool(self._clients.client("sqs").list_queues().get("QueueUrls"))
        ran = self._ran.exists()
        if "evil" in names:
            self._lambda.delete_function(FunctionName="evil")
        self._ran.unlink(missing_ok=True)
        return created, ran


@pytest.fixture(scope="module")
def allowed() -> Generator[int]:
    """The port of a page that may call."""
    with site() as port:
        yield port


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, allowed: int) -> Generator[Target]:
    """An emulator, which one origin's pages may call."""
    tmp_path, port = tmp_path_factory.mktemp("emulator"), free_port()
    emulator = Emulator(Files(tmp_path), port, origins=[f"http://localhost:{allowed}"])
    try:
        emulator.wait_until_healthy()
        yield Target(tmp_path, port)
    finally:
        emulator.stop()


@pytest.fixture
def page(chromium: Browser) -> Generator[Page]:
    """A tab."""
    context = chromium.new_context()
    yield context.new_page()
    context.close()


def attack(page: Page, calls: list[tuple[str, str]]) -> None:
    for kind in ("no-cors", "cors"):
        page.evaluate(ATTACK, {"calls": calls, "kind": kind})


def test_a_page_runs_code_only_if_its_origin_is_allowed(page: Page, target: Target, allowed: int) -> None:
    page.goto(f"http://localhost:{allowed}/")
    attack(page, target.calls(target.url))
    assert target.changed() == (True, True)  # so the requests are such as do it
    with site() as foreign:
        for host in ("localhost", "127.0.0.1", "evil.localhost", REBOUND):
            page.goto(f"http://{host}:{foreign}/")
            for name in ("127.0.0.1", "localhost"):
                attack(page, target.calls(target.url.replace("127.0.0.1", name)))
            assert target.changed() == (False, False), host


def test_a_page_whose_name_is_rebound_to_this_machine_runs_nothing(page: Page, target: Target) -> None:
    here = target.url.replace("127.0.0.1", REBOUND)
    answer = page.goto(here + "/")
    assert answer is not None
    assert answer.status == 421
    assert "Host is" in answer.text()
    attack(page, target.calls(here))
    assert target.changed() == (False, False)


def test_a_form_and_a_link_of_a_page_run_nothing(page: Page, target: Target) -> None:
    with site() as foreign:
        page.goto(f"http://localhost:{foreign}/")
        (url, _), (invoke, _), *_ = target.calls(target.url)
        for action in (url, invoke, target.api_url):
            page.evaluate(
                "(action) => { document.body.innerHTML = `<form method=post action='${action}'></form>`;"
                " document.forms[0].submit(); }",
                action,
            )
            page.wait_for_url(action)
            assert "Refused: Origin is" in page.content()
            page.goto(f"http://localhost:{foreign}/")
        link = f"{target.url}/?Action=CreateQueue&QueueName=evil&Version=2012-11-05"
        page.evaluate("(url) => { location = url }", link)
        page.wait_for_url(link)
        assert "Refused: Sec-Fetch-Site is" in page.content()
    assert target.changed() == (False, False)


def test_the_console_takes_nothing_of_another_page(page: Page, console: Open) -> None:
    service = FakeService([dead()])
    tab = console(service)
    address = f"http://127.0.0.1:{tab.serving.session.port}"
    with site() as foreign:
        for host in ("localhost", "evil.localhost", "sagas.localhost", REBOUND):
            other = tab.page.context.new_page()  # the cookie is there
            other.goto(f"http://{host}:{foreign}/")
            calls = [
                (f"{address.replace('127.0.0.1', name)}{path}", f"csrf={tab.serving.session.csrf}")
                for name in ("127.0.0.1", "sagas.localhost")
                for path in ("/2015-03-31/functions", "/types/create-zip/start", "/types/create-zip/disable")
            ]
            attack(other, calls)
            assert service.did() == [], host
