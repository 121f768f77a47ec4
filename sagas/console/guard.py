"""Access control of the console: only the browser that opened the printed URL has access.

``sagas.loopback`` runs first, and refuses requests of other pages.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST = "sagas.localhost"
"""The only host name of the console. Browsers send cookies to all ports of a host, and 127.0.0.1 has other servers."""
TOKEN = "token"  # noqa: S105 - the name of a parameter
_READING = ("GET", "HEAD")
_POLICY = "; ".join(
    [
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "img", "connect")),
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)
_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # With no-referrer, browsers would send "Origin: null" with the console's own forms, which are then refused.
    "Referrer-Policy": "same-origin",
}


@dataclass(slots=True)
class Session:
    """The session of a console. There is only one, and it ends with the process. ``token`` is the token in the printed
    URL; it is valid for one request, whose response sets the cookie. ``secret`` is the cookie's value."""

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def cookie(self) -> str:
        """The cookie's name. It contains the port, because a browser sends a host's cookies to all its ports."""
        return f"sagas-{self.port}"

    @property
    def host(self) -> str:
        """The ``Host`` header that a browser must send."""
        return f"{HOST}:{self.port}"

    @property
    def origin(self) -> str:
        return f"http://{self.host}"

    @property
    def csrf(self) -> str:
        return hmac.new(self.secret.encode(), b"csrf", sha256).hexdigest()

    def url(self, path: str = "/") -> str:
        """Return the URL that opens the console. It works once."""
        return f"{self.origin}{path}?{TOKEN}={self.token}"

    def take(self, token: str) -> bool:
        """Whether the token is valid. It works once."""
        right = bool(self.token) and hmac.compare_digest(token.encode(), self.token.encode())
        if right:
            self.token = ""
        return right

    def knows(self, headers: Headers) -> bool:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return False
        return found is not None and hmac.compare_digest(found.value.encode(), self.secret.encode())


class Guard:
    """Refuses requests without the session, and adds security headers to every answer."""

    def __init__(self, app: ASGIApp, session: Session, *, read_only: bool = False) -> None:
        self._app = app
        self._session = session
        self._read_only = read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                # No cache may store pages. Static files are revalidated each time.
                headers["Cache-Control"] = "no-cache" if scope["path"].startswith("/static/") else "no-store"
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the refusal of a request; ``None`` if it is accepted."""
        headers = Headers(scope=scope)
        method = scope["method"]
        session = self._session
        if headers["host"].lower() != session.host:
            return PlainTextResponse(f"The console answers to {session.host} only: open {session.origin}/\n", 421)
        if method not in (*_READING, *(() if self._read_only else ("POST",))):
            why = "This console only reads.\n" if self._read_only else "Method not allowed.\n"
            return PlainTextResponse(why, 405, {"Allow": "GET, HEAD" if self._read_only else "GET, HEAD, POST"})
        opened = self._opened(scope) if method in _READING else None
        if opened is not None:
            return opened
        if not session.knows(headers):
            return PlainTextResponse("Open the URL that the command printed; it works in one browser.\n", 401)
        own = session.origin, "same-origin"
        if method not in _READING and (headers.get("origin"), headers.get("sec-fetch-site")) != own:
            return PlainTextResponse("The console accepts forms only from its own pages.\n", 403)
        return None

    def _opened(self, scope: Scope) -> Response | None:
        """Return the answer to a URL with a token: it sets the cookie and redirects to the URL without the token."""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        token = next((value for name, value in query if name == TOKEN), None)
        if token is None:
            return None
        has_session = self._session.knows(Headers(scope=scope))
        if not has_session and not self._session.take(token):
            return None
        remaining = urlencode([(name, value) for name, value in query if name != TOKEN])
        # A path with two slashes would lead to another host.
        answer = RedirectResponse("/" + scope["path"].lstrip("/\\") + (f"?{remaining}" if remaining else ""), 303)
        if not has_session:
            # With Strict, links in a chat or a ticket would not work.
            answer.set_cookie(self._session.cookie, self._session.secret, httponly=True, samesite="lax", path="/")
        return answer
