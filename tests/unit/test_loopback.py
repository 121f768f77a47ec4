"""Which requests a port on 127.0.0.1 answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sagas.loopback import Loopback, Message, Scope, origin_of, refusal

HOST = "127.0.0.1:4566"
MINE = "http://localhost:5173"
OWN = f"http://{HOST}"


def request(*headers: tuple[str, str], path: str = "/", method: str = "POST", kind: str = "http") -> Scope:
    """A request to 127.0.0.1:4566, unless its headers say otherwise."""
    named = headers if any(name.lower() == "host" for name, _ in headers) else (("host", HOST), *headers)
    lines = [(name.encode(), value.encode("latin-1")) for name, value in named if value != "(none)"]
    return {"type": kind, "method": method, "path": path, "headers": lines}


def verdict(*headers: tuple[str, str], origins: tuple[str, ...] = (), links: bool = False, **line: str) -> int | None:
    """The status of a refusal."""
    refused = refusal(request(*headers, **line), origins, links=links)
    return refused and refused.status


class TestHost:
    @pytest.mark.parametrize(
        "host",
        [
            *("127.0.0.1", "127.0.0.1:4566", "127.0.0.1:80", "localhost", "localhost:4566", "LocalHost:4566"),
            *(
                "[::1]",
                "[::1]:4566",
                "sagas.localhost:4480",
                "a.b-c.localhost",
                "my_bucket.localhost:4566",
                " localhost ",
            ),
        ],
    )
    def test_of_this_machine(self, host: str) -> None:
        assert verdict(("Host", host)) is None

    @pytest.mark.parametrize(
        "host",
        [
            *(
                "",
                "evil.example",
                "evil.example:4566",
                "localhost.evil.example",
                "127.0.0.1.evil.example",
                "evillocalhost",
            ),
            *("127.0.0.2", "0.0.0.0:4566", "127.1", "2130706433", "0x7f000001", "192.168.0.2", "10.0.0.1"),
            *("::1", "[::1", "[::]", "[::2]:4566", "[::ffff:127.0.0.1]", "[fe80::1]", "[::1%25lo]"),
            *("localhost.", "127.0.0.1.", "a.localhost.:4566", ".localhost", "a..localhost"),
            *("localhost:4566@evil.example", "evil.example#.localhost", "evil.example/.localhost", "user@localhost"),
            *("localhost:", "localhost:-1", "localhost:4566:4566", "localhost,evil.example", "localhost evil.example"),
            *("l\u00f6calhost", "localhost\n.evil.example"),
        ],
    )
    def test_of_another(self, host: str) -> None:
        assert verdict(("Host", host)) == 421

    def test_missing(self) -> None:
        assert verdict(("host", "(none)")) == 421

    def test_twice(self) -> None:
        assert verdict(("Host", HOST), ("Host", "evil.example")) == 421
        assert verdict(("Host", HOST), ("Host", HOST)) == 421

    @pytest.mark.parametrize("target", ["http://evil.example/", OWN + "/", "evil.example:443", "*", ""])
    def test_in_the_target(self, target: str) -> None:
        assert verdict(path=target) == 421

    def test_is_judged_whoever_calls(self) -> None:
        assert verdict(("Host", "evil.example"), ("Origin", MINE), origins=(MINE,)) == 421
        assert verdict(("Host", "evil.example"), ("Sec-Fetch-Site", "same-origin")) == 421


class TestOrigin:
    def test_a_program_sends_none(self) -> None:
        assert verdict() is None
        assert verdict(("User-Agent", "Boto3/1.40"), ("Sec-Fetch-Mode", "cors")) is None  # as Node's fetch

    @pytest.mark.parametrize(
        "origin",
        [
            *("http://evil.example", "https://evil.example", "null", "", "file://", "chrome-extension://abc"),
            *(OWN, "http://localhost:4566", "http://localhost", "http://localhost:5174", "https://localhost:5173"),
            *(
                "http://LOCALHOST:5173",
                "http://localhost:5173/",
                "http://localhost:5173.evil.example",
                "http://localhost:517",
            ),
            f"{MINE} {MINE}",
        ],
    )
    def test_is_foreign_unless_allowed(self, origin: str) -> None:
        for method in ("GET", "POST", "OPTIONS"):
            assert verdict(("Origin", origin), origins=(MINE,), method=method) == 403
            assert verdict(("Origin", origin), ("Sec-Fetch-Site", "same-origin"), origins=(MINE,), method=method) == 403

    @pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin"])
    def test_is_allowed_from_whichever_site(self, site: str) -> None:
        assert verdict(("Origin", MINE), ("Sec-Fetch-Site", site), origins=(MINE,)) is None
        assert verdict(("ORIGIN", MINE), ("SEC-FETCH-SITE", site), origins=(MINE,)) is None

    def test_twice(self) -> None:
        assert verdict(("Origin", MINE), ("Origin", "http://evil.example"), origins=(MINE,)) == 403

    def test_of_a_preflight(self) -> None:
        asks = ("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Private-Network", "true")
        assert verdict(("Origin", "http://evil.example"), *asks, method="OPTIONS") == 403
        assert verdict(("Origin", MINE), *asks, origins=(MINE,), method="OPTIONS") is None


class TestSite:
    def test_a_person_who_types_or_pastes_a_url(self) -> None:
        assert verdict(("Sec-Fetch-Site", "none"), ("Sec-Fetch-Mode", "navigate"), method="GET") is None

    @pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin", "", "None", "something-new"])
    @pytest.mark.parametrize("mode", ["no-cors", "navigate", "cors", "websocket"])
    def test_a_page_without_an_origin_to_judge(self, site: str, mode: str) -> None:
        # A GET changes things here: SQS and Lambda take some requests in the query.
        for method in ("GET", "POST"):
            assert verdict(("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", mode), origins=(MINE,), method=method) == 403

    def test_twice(self) -> None:
        assert verdict(("Sec-Fetch-Site", "none"), ("Sec-Fetch-Site", "cross-site")) == 403

    def test_its_own_pages_where_their_origin_is_allowed(self) -> None:
        assert verdict(("Sec-Fetch-Site", "same-origin"), origins=(OWN,)) is None
        assert verdict(("Sec-Fetch-Site", "same-site"), origins=(OWN,)) == 403
        other_port = ("Host", "127.0.0.1:4567")
        assert verdict(other_port, ("Sec-Fetch-Site", "same-origin"), origins=(OWN,)) == 403

    @pytest.mark.parametrize("site", ["cross-site", "same-site"])
    def test_links_where_any_page_may_link(self, site: str) -> None:
        link = ("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", "navigate")
        assert verdict(*link, links=True, method="GET") is None
        assert verdict(*link, links=True, method="POST") == 403
        assert verdict(*link, ("Origin", "null"), links=True, method="GET") == 403
        assert verdict(("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", "no-cors"), links=True, method="GET") == 403


class TestOriginOf:
    @pytest.mark.parametrize(
        ("url", "origin"),
        [
            (MINE, MINE),
            ("http://localhost:5173/", MINE),
            ("HTTP://LocalHost:5173", MINE),
            ("http://app.localhost:80", "http://app.localhost"),
            ("https://app.example:443", "https://app.example"),
            ("https://app.example:80", "https://app.example:80"),
            ("http://[::1]:3000", "http://[::1]:3000"),
            ("tauri://localhost", "tauri://localhost"),
        ],
    )
    def test_is_written_as_browsers_write_it(self, url: str, origin: str) -> None:
        assert origin_of(url) == origin

    @pytest.mark.parametrize(
        "url",
        [
            *("", "*", "null", "localhost", "localhost:5173", "//localhost:5173", "http://", "http:///"),
            *("http://*", "http://*.example", "http://a:b@localhost", "http://localhost/app", "http://localhost?x"),
            *(
                "http://localhost#x",
                "http://localhost:",
                "http://localhost:0",
                "http://localhost:65536",
                "http://b\u00fccher.example",
            ),
            *("http://localhost:5173,http://localhost:5174", " http://localhost:5173", "http://localhost:5173\n"),
        ],
    )
    def test_refuses_what_is_none(self, url: str) -> None:
        with pytest.raises(
            ValueError, match="is not an origin; write scheme, host and port like http://localhost:5173"
        ):
            origin_of(url)


def answer(scope: Scope, origins: tuple[str, ...] = ()) -> tuple[list[Message], int]:
    """What a server answers whose application allows every page, and how many requests that application saw."""
    seen, sent = list[Scope](), list[Message]()
    headers = [(b"Access-Control-Allow-Origin", b"*"), (b"access-control-max-age", b"9"), (b"x-kept", b"1")]

    async def app(scope: Scope, _receive: Any, send: Any) -> None:
        seen.append(scope)
        kind = "websocket.accept" if scope["type"] == "websocket" else "http.response.start"
        await send({"type": kind, "status": 200, "headers": list(headers)})

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(Loopback(app, origins)(scope, _nothing, send))
    return sent, len(seen)


async def _nothing() -> Message:
    return {"type": "http.request"}


class TestAnswers:
    def test_no_page_is_allowed_unless_its_origin_is(self) -> None:
        (start,), _ = answer(request())
        assert start["headers"] == [(b"x-kept", b"1")]
        (start,), _ = answer(request(("Origin", MINE)), origins=(MINE,))
        assert len(start["headers"]) == 3
        (start,), _ = answer(request(kind="websocket"))
        assert start["headers"] == [(b"x-kept", b"1")]

    @pytest.mark.parametrize(
        ("header", "status", "rule"),
        [
            (
                ("Host", "evil.example"),
                421,
                "Host is 'evil.example'; this port answers only to 127.0.0.1, [::1], localhost",
            ),
            (("Origin", "null"), 403, "Origin is 'null'; pages of this origin are not allowed to call this port"),
            (("Sec-Fetch-Site", "cross-site"), 403, "Sec-Fetch-Site is 'cross-site': the request comes from a page"),
        ],
    )
    def test_a_refusal_names_its_rule_and_the_application_sees_nothing(
        self, header: tuple[str, str], status: int, rule: str
    ) -> None:
        (start, body), seen = answer(request(header), origins=(MINE,))
        assert (start["status"], seen) == (status, 0)
        assert body["body"].decode().startswith(f"Refused: {rule}")
        headers = dict(start["headers"])
        assert headers[b"content-type"].startswith(b"text/plain")
        assert not [name for name in headers if name.startswith(b"access-control-")]

    def test_a_socket_is_refused_as_a_request_is(self) -> None:
        scope = request(("Origin", "http://evil.example"), kind="websocket")
        sent, seen = answer(scope)
        assert ([message["type"] for message in sent], seen) == (["websocket.close"], 0)
        (start, _), _ = answer({**scope, "extensions": {"websocket.http.response": {}}})
        assert (start["type"], start["status"]) == ("websocket.http.response.start", 403)

    def test_a_server_that_starts_is_not_judged(self) -> None:
        assert answer({"type": "lifespan"})[1] == 1
