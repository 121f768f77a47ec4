"""Who may talk to the console: each line of its security is a test."""

from __future__ import annotations

import html
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sagas.console
from tests.unit.console.conftest import ORIGIN, PORT, Browser
from tests.unit.console.service import FakeService, numbered

SAME = {"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"}
SAGA = f"/local/eu-central-1/sagas/create-zip/{numbered(1)}"
RETRY = f"/sagas/create-zip/{numbered(1)}/retry"


class TestHost:
    @pytest.mark.parametrize("host", [f"sagas.localhost:{PORT}", f"Sagas.Localhost:{PORT}"])
    def test_its_own_is_answered(self, browser: Browser, host: str) -> None:
        assert browser.get("/", headers={"Host": host}).status_code == 200

    @pytest.mark.parametrize("host", [f"127.0.0.1:{PORT}", f"[::1]:{PORT}", f"localhost:{PORT}", "sagas.localhost"])
    def test_a_name_that_it_shares_with_other_servers_gets_no_cookie(self, service: FakeService, host: str) -> None:
        browser = Browser(service)
        answer = browser.get("/", params={"token": browser.session.token}, headers={"Host": host})
        assert (answer.status_code, "set-cookie" in answer.headers) == (421, False)
        assert f"http://sagas.localhost:{PORT}/" in answer.text
        assert browser.open().get("/").status_code == 200  # the token is still good

    @pytest.mark.parametrize("host", ["evil.example", f"evil.example:{PORT}", f"0.0.0.0:{PORT}", ""])
    def test_any_other_is_not(self, browser: Browser, host: str) -> None:
        for path in ("/", "/static/console.css", "/?token=x"):
            assert browser.get(path, headers={"Host": host}).status_code == 421

    def test_of_another_port_is_not_the_console(self, browser: Browser, service: FakeService) -> None:
        host = f"sagas.localhost:{PORT + 1}"
        form = {"csrf": browser.session.csrf}
        for headers, status in (({"Origin": f"http://{host}"}, 403), ({}, 421)):
            answer = browser.post(RETRY, data=form, headers={**SAME, "Host": host, **headers})
            assert answer.status_code == status
        assert service.did() == []


class TestSession:
    @pytest.mark.parametrize("path", ["/", "/sagas", "/static/console.js", "/nothing", SAGA])
    def test_without_the_cookie_nothing_is_answered(self, service: FakeService, path: str) -> None:
        answer = Browser(service).get(path)
        assert answer.status_code == 401
        assert "URL that the command printed" in answer.text
        assert service.asked == []

    def test_the_token_becomes_a_cookie_once_and_leaves_the_url(self, service: FakeService) -> None:
        browser, other = Browser(service), Browser(service)
        other.session = browser.session
        token = browser.session.token
        answer = browser.get("/sagas", params={"token": token, "type": "a b"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/sagas?type=a+b")
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith(f"sagas-{PORT}=")
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert "Domain" not in cookie
        assert browser.get("/").status_code == 200
        browser.cookies.clear()
        assert browser.get("/", params={"token": token}).status_code == 401

    def test_a_reader_who_opens_the_url_again_is_let_in(self, service: FakeService) -> None:
        browser = Browser(service)
        token = browser.session.token
        browser.open()
        answer = browser.get("/", params={"token": token})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")

    def test_the_first_url_leads_nowhere_else(self, service: FakeService) -> None:
        browser = Browser(service)
        answer = browser.get(f"{ORIGIN}//evil.example/", params={"token": browser.session.token})
        assert answer.headers["location"] == "/evil.example/"

    @pytest.mark.parametrize("wrong", ["", "x", "ü"])
    def test_a_wrong_token_is_none(self, service: FakeService, wrong: str) -> None:
        assert Browser(service).get("/", params={"token": wrong}).status_code == 401

    def test_a_wrong_cookie_is_none(self, browser: Browser) -> None:
        browser.cookies.clear()
        assert browser.get("/", headers={"Cookie": f"sagas-{PORT}=x"}).status_code == 401
        assert browser.get("/", headers={"Cookie": f"sagas-{PORT + 1}={browser.session.secret}"}).status_code == 401


class TestForms:
    def test_of_its_own_are_taken(self, browser: Browser, service: FakeService) -> None:
        answer = browser.submit(RETRY)
        assert answer.status_code == 303
        assert answer.headers["location"] == f"/local/eu-central-1/sagas/create-zip/{numbered(1)}?did=retry"
        assert service.did() == [("retry", numbered(1), "")]

    @pytest.mark.parametrize(
        "headers",
        [
            {},
            {"Origin": ORIGIN},
            {"Sec-Fetch-Site": "same-origin"},
            {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
            {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"},
            {"Origin": f"http://localhost:{PORT}", "Sec-Fetch-Site": "same-origin"},
            {"Origin": f"http://sagas.localhost:{PORT + 1}", "Sec-Fetch-Site": "same-site"},
            {"Origin": ORIGIN, "Sec-Fetch-Site": "same-site"},
            {"Origin": ORIGIN, "Sec-Fetch-Site": "none"},
        ],
    )
    def test_of_another_page_are_refused(self, browser: Browser, service: FakeService, headers: dict[str, str]) -> None:
        answer = browser.post(RETRY, data={"csrf": browser.session.csrf}, headers=headers)
        assert answer.status_code == 403
        assert service.did() == []

    @pytest.mark.parametrize("form", [{}, {"csrf": ""}, {"csrf": "x"}, {"csrf": "ü"}])
    def test_without_the_sessions_token_are_refused(
        self, browser: Browser, service: FakeService, form: dict[str, str]
    ) -> None:
        assert browser.post(RETRY, data=form, headers=SAME).status_code == 403
        assert service.did() == []

    def test_without_the_cookie_are_refused(self, browser: Browser, service: FakeService) -> None:
        browser.cookies.clear()
        assert browser.submit(RETRY).status_code == 401
        assert service.did() == []

    def test_too_large_ones_are_refused(self, browser: Browser) -> None:
        assert browser.submit(RETRY, reason="x" * 2**20).status_code == 413

    @pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
    def test_other_methods_are_refused(self, browser: Browser, method: str) -> None:
        assert browser.request(method, RETRY, headers=SAME).status_code == 405


class TestReading:
    @pytest.mark.parametrize("site", ["cross-site", "same-site"])
    def test_another_page_may_link_here_and_no_more(self, browser: Browser, site: str) -> None:
        link = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
        assert browser.get("/", headers=link).status_code == 200
        for mode in ("cors", "no-cors", "same-origin"):
            assert browser.get("/", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}).status_code == 403

    def test_changes_nothing(self, browser: Browser, service: FakeService) -> None:
        for path in (RETRY, "/jobs/j1/stop", "/letters/create-zip/look", "/types/create-zip/pause"):
            assert browser.get(path).status_code in (404, 405)
        assert service.did() == []


@pytest.mark.parametrize("path", ["/", "/nothing", "/static/console.css", SAGA])
def test_every_answer_has_the_headers(browser: Browser, path: str) -> None:
    headers = browser.get(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == ("no-cache" if path.startswith("/static") else "no-store")
    assert "access-control-allow-origin" not in headers


def test_a_refusal_has_them_too(service: FakeService) -> None:
    assert "default-src 'none'" in Browser(service).get("/").headers["content-security-policy"]


class TestReadOnly:
    @pytest.fixture
    def browser(self, service: FakeService) -> Browser:
        return Browser(service, read_only=True).open()

    @pytest.mark.parametrize(
        "path", ["/", RETRY, "/jobs", "/letters/create-zip/delete", "/types/create-zip/pause", "/x"]
    )
    def test_no_form_is_taken(self, browser: Browser, service: FakeService, path: str) -> None:
        assert browser.submit(path).status_code == 405
        assert service.did() == []

    @pytest.mark.parametrize(
        "path",
        [
            "/",
            "/sagas",
            "/letters/create-zip",
            "/types/create-zip",
            "/breakers",
            "/sweeps/create-zip",
            f"/local/eu-central-1/sagas/create-zip/{numbered(1)}",
        ],
    )
    def test_there_is_no_button(self, browser: Browser, path: str) -> None:
        text = browser.get(path).text
        assert 'method="post"' not in text
        assert "csrf" not in text
        assert "checkbox" not in text


def test_nothing_is_shown_unescaped() -> None:
    folder = Path(sagas.console.__file__).parent
    for path in (folder / "templates").glob("*.html"):
        text = path.read_text()
        assert "|safe" not in text.replace(" ", ""), path
        assert "autoescape" not in text, path
        assert " style=" not in text, path
        assert "<script>" not in text, path
        assert not [part for part in text.split() if part.startswith(("onclick", "onload", "onerror"))], path
    assert "Markup(" not in "".join(path.read_text() for path in folder.rglob("*.py"))


def test_the_token_is_in_no_representation(service: FakeService) -> None:
    session = Browser(service).session
    assert session.token not in repr(session)
    assert session.secret not in repr(session)


RECORD = """
import json, sys
from pathlib import Path
from urllib.parse import unquote, urlsplit
page = Path(unquote(urlsplit(sys.argv[1]).path))
others = page.parent.stat().st_mode & 0o77
Path(sys.argv[0]).with_name("opened.json").write_text(json.dumps([sys.argv, page.read_text(), others]))
"""
"""A browser that writes down what it is started with."""


def test_the_browser_is_started_without_the_token(tmp_path: Path, service: FakeService) -> None:
    session, browser = Browser(service).session, tmp_path / "browser.py"
    browser.write_text(RECORD)
    url = session.url("/sagas/create-zip")
    opening = f"""
from sagas.console.serving import opened_in_browser
with opened_in_browser({url!r}, print):
    pass
"""
    environment = {**os.environ, "BROWSER": f"{sys.executable} {browser} %s"}
    subprocess.run([sys.executable, "-c", opening], env=environment, check=True, timeout=60)
    argv, page, others = json.loads(browser.with_name("opened.json").read_text())
    assert session.token not in " ".join(argv)
    assert argv[1].startswith("file:///")
    assert url in html.unescape(page)
    assert others == 0  # they may not read the folder
    assert not Path(argv[1].removeprefix("file://")).exists()
