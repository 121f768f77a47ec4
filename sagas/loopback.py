"""Protects a port on 127.0.0.1: only this machine's programs, and pages that are allowed, can send requests to it.

Other machines cannot reach 127.0.0.1, but pages in a browser on this machine can. Each page can send requests to the
port, and a page whose host name resolves to 127.0.0.1 (DNS rebinding) can read the responses. Browsers identify the
page of a request in ``Host``, ``Origin`` and ``Sec-Fetch-Site``. Programs send neither ``Origin`` nor
``Sec-Fetch-Site``.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from dataclasses import dataclass
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_HOST = re.compile(r"(127\.0\.0\.1|\[::1\]|([a-z0-9_-]+\.)*localhost)(:[0-9]{1,5})?", re.IGNORECASE)
"""Nobody else can make a host with one of these names resolve to this machine. A final period is refused, too."""
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?/?", re.IGNORECASE)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_RESPONSES = ("http.response.start", "websocket.accept", "websocket.http.response.start")


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason for refusing a request.

    Args:
        status: the HTTP status.
        reason: a sentence that states the rule.
    """

    status: int
    reason: str


def origin_of(url: str) -> str:
    """Return an origin in the form of the header ``Origin``."""
    match = _ORIGIN.fullmatch(url)
    port = int(match[3]) if match and match[3] else None
    if match is None or (port is not None and not 0 < port < 2**16):
        raise ValueError(f"{url!r} is not an origin; write scheme, host and port like http://localhost:5173")
    scheme = match[1].lower()
    host = match[2].lower()
    return f"{scheme}://{host}" + ("" if port in (None, _DEFAULT_PORTS.get(scheme)) else f":{port}")


def refusal(scope: Scope, origins: Collection[str], *, links: bool = False) -> Refusal | None:
    """Return the reason for refusing a request; ``None`` if it is allowed."""
    if not scope["path"].startswith("/"):
        return Refusal(421, "the request target is not a path")
    hosts = _values(scope, b"host")
    if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
        answers_to = "this port answers only to 127.0.0.1, [::1], localhost and *.localhost"
        return Refusal(421, f"Host is {_quoted(hosts)}; {answers_to}")
    callers = _values(scope, b"origin")
    if any(caller not in origins for caller in callers):
        return Refusal(403, f"Origin is {_quoted(callers)}; pages of this origin are not allowed to call this port")
    # A page with an allowed origin is usually on another site.
    sites = [] if callers else _values(scope, b"sec-fetch-site")
    harmless = {"none", "same-origin"} if f"http://{hosts[0]}" in origins else {"none"}
    follows_link = (
        links and scope.get("method") in ("GET", "HEAD") and _values(scope, b"sec-fetch-mode") == ["navigate"]
    )
    if not harmless.issuperset(sites) and not follows_link:
        return Refusal(403, f"Sec-Fetch-Site is {_quoted(sites)}: the request comes from a page, but has no Origin")
    return None


class Loopback:
    """An ASGI application that passes allowed requests to another application, and refuses all others.

    A response has ``Access-Control-*`` headers only if the request has an allowed origin.

    Args:
        app: the application that answers allowed requests.
        origins: the origins of pages that may send requests.
        links: whether any page may link to this port. Use it only if GET requests have no side effects.
    """

    def __init__(self, app: App, origins: Collection[str] = (), *, links: bool = False) -> None:
        self._app = app
        self._origins = frozenset(origins)
        self._links = links

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refused = refusal(scope, self._origins, links=self._links)
        if refused is not None:
            await _refuse(refused, scope, send)
            return

        async def send_to_programs(message: Message) -> None:
            if message["type"] in _RESPONSES:
                headers = message.get("headers", ())
                message["headers"] = [
                    header for header in headers if not header[0].lower().startswith(b"access-control-")
                ]
            await send(message)

        await self._app(scope, receive, send if _values(scope, b"origin") else send_to_programs)


async def _refuse(refused: Refusal, scope: Scope, send: Send) -> None:
    kind = "http" if scope["type"] == "http" else "websocket.http"
    if kind != "http" and "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close"})  # the server answers 403
        return
    body = f"Refused: {refused.reason}.\n".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"x-content-type-options", b"nosniff"),
    ]
    await send({"type": f"{kind}.response.start", "status": refused.status, "headers": headers})
    await send({"type": f"{kind}.response.body", "body": body})


def _values(scope: Scope, name: bytes) -> list[str]:
    """Return the values of a header: one for each line of the request that has this header."""
    return [value.decode("latin-1").strip() for key, value in scope["headers"] if key.lower() == name]


def _quoted(values: list[str]) -> str:
    return " and ".join(repr(value[:200]) for value in values) or "missing"
