"""Who may talk to the console: this machine's browser, from its own pages, with the session of the printed URL.

``sagas.loopback`` comes first: it refuses what other pages send.
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
"""The only name of the console. Browsers send a cookie to every port of a host name, and others serve on 127.0.0.1."""
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
    # With no-referrer a browser sends "Origin: null", and our own forms would be refused.
    "Referrer-Policy": "same-origin",
}


@dataclass(slots=True)
class Session:
    """The one session of a console, which ends with its process.

    Args:
        port: that it listens on.
        token: good for one request: it becomes the cookie.
        secret: the cookie's value.
    """

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def cookie(self) -> str:
        """The cookie's name. A browser sends the cookies of a host to all its ports, so the name has the port in it."""
        return f"sagas-{self.port}"

    @property
    def host(self) -> str:
        """What a browser sends as ``Host``."""
        return f"{HOST}:{self.port}"

    @property
    def origin(self) -> str:
        """The origin of the console's own pages."""
        return f"http://{self.host}"

    @property
    def csrf(self) -> str:
        """What every form brings along."""
        return hmac.new(self.secret.encode(), b"csrf", sha256).hexdigest()

    def url(self, path: str = "/") -> str:
        """Return the URL that opens the console, once."""
        return f"{self.origin}{path}?{TOKEN}={self.token}"

    def take(self, token: str) -> bool:
        """Whether the token is the right one; from then on it is none."""
        right = bool(self.token) and hmac.compare_digest(token.encode(), self.token.encode())
        if right:
            self.token = ""
        return right

    def knows(self, headers: Headers) -> bool:
        """Whether a request brings the cookie."""
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return False
        return found is not None and hmac.compare_digest(found.value.encode(), self.secret.encode())


class Guard:
    """Refuses what is not for the console to answer, and gives every answer its headers.

    Args:
        app: what answers.
        session: of the console.
        read_only: nothing but reading is answered.
    """

    def __init__(self, app: ASGIApp, session: Session, *, read_only: bool = False) -> None:
        self._app = app
        self._session = session
        self._read_only = read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                # A page is kept nowhere; what is static is asked for again each time, and mostly not sent again.
                headers["Cache-Control"] = "no-cache" if scope["path"].startswith("/static/") else "no-store"
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """Why a request is not answered; ``None`` if it is."""
        headers, method, session = Headers(scope=scope), scope["method"], self._session
        if headers["host"].lower() != session.host:
            return PlainTextResponse(f"The console answers to {session.host} only: open {session.origin}/\n", 421)
        if method not in (*_READING, *(() if self._read_only else ("POST",))):
            why = "This console only reads.\n" if self._read_only else "This is not answered here.\n"
            return PlainTextResponse(why, 405, {"Allow": "GET, HEAD" if self._read_only else "GET, HEAD, POST"})
        opened = self._opened(scope) if method in _READING else None
        if opened is not None:
            return opened
        if not session.knows(headers):
            return PlainTextResponse("Open the URL that the command printed; it is good for one browser.\n", 401)
        own = session.origin, "same-origin"
        if method not in _READING and (headers.get("origin"), headers.get("sec-fetch-site")) != own:
            return PlainTextResponse("The console takes forms from its own pages only.\n", 403)
        return None

    def _opened(self, scope: Scope) -> Response | None:
        """The first request: its token becomes the cookie, and leaves the URL."""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        token = next((value for name, value in query if name == TOKEN), None)
        if token is None:
            return None
        known = self._session.knows(Headers(scope=scope))
        if not known and not self._session.take(token):
            return None
        rest = urlencode([(name, value) for name, value in query if name != TOKEN])
        # One slash: two would be another host.
        answer = RedirectResponse("/" + scope["path"].lstrip("/\\") + (f"?{rest}" if rest else ""), 303)
        if not known:
            # Strict would refuse a link from a chat or a ticket.
            answer.set_cookie(self._session.cookie, self._session.secret, httponly=True, samesite="lax", path="/")
        return answer
