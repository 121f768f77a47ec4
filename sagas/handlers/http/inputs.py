"""Reading what a caller of the API sent."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import os
import re
from datetime import UTC, datetime
from typing import Any

from sagas.authoring.shapes.base import Path
from sagas.core.ids import KEY_PATTERN, LONGEST_CANCEL_REASON, LONGEST_CORRELATION_ID
from sagas.core.states import SagaStatus
from sagas.errors import InvalidRequest, NotFound, Problem, TooLarge
from sagas.handlers.http.actors import actor_of
from sagas.handlers.http.answers import MalformedBody
from sagas.store.index.listing import Span

LARGEST_BODY = 256 * 1024
"""Bytes a body may have."""

WHOLE_ID = 36
"""Characters of a saga's id."""
SHORTEST_BEGINNING = 4
_ANY_ID = "00000000-0000-0000-0000-000000000000"

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TRACE_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
_OF_SIGNATURES = "X-Amz-"
_LIMIT = re.compile(r"[1-9][0-9]?|100")


class Request:
    """A REST API (v1) event, read field by field. Whatever does not fit raises an error that names the field."""

    def __init__(self, event: dict[str, Any]) -> None:
        self._event = event

    @property
    def _context(self) -> dict[str, Any]:
        return self._event.get("requestContext") or {}

    @property
    def actor(self) -> str:
        """Who asks, by the identity that API Gateway has checked."""
        return actor_of(self._context)

    @property
    def base(self) -> str:
        """What precedes ``/sagas`` in the URL's path: the stage, and where in its API the service is mounted.

        ``SAGAS_BASE_PATH`` overrides it.
        """
        fixed = os.environ.get("SAGAS_BASE_PATH")
        if fixed is not None:
            names = {f"{{{name}}}": str(self._context.get(name, "")) for name in ("apiId", "stage")}
            return functools.reduce(lambda text, name: text.replace(name, names[name]), names, fixed)
        path = str(self._context.get("path") or "")
        stage = path[: -len(self._event["path"])] if path.endswith(str(self._event.get("path"))) else ""
        return stage + os.environ.get("SAGAS_MOUNT", "")

    @property
    def correlation_id(self) -> str | None:
        """The caller's own: the header ``X-Correlation-Id``, else the trace id of a W3C ``traceparent``; ``None`` if
        there is neither.

        A ``traceparent`` that is none is passed over, as its standard wants it: proxies write it, not callers.
        """
        given = self.header("X-Correlation-Id")
        if given is None:
            trace = _TRACE_PARENT.fullmatch(self.header("traceparent") or "")
            return trace[1] if trace else None
        if len(given) > LONGEST_CORRELATION_ID or not re.fullmatch(KEY_PATTERN, given):
            text = f"must be 1 to {LONGEST_CORRELATION_ID} printable characters of ASCII, no space first or last"
            raise InvalidRequest("the correlation id is not usable", [Problem("header.X-Correlation-Id", text)])
        return given

    def header(self, name: str) -> str | None:
        """Return a header, whatever its case; ``None`` if it is missing."""
        headers: dict[str, str] = self._event.get("headers") or {}
        return next((value for key, value in headers.items() if key.lower() == name.lower()), None)

    def knows(self, tag: str) -> bool:
        """Whether the caller's ``If-None-Match`` has an ``ETag``: nothing but that is to be answered then."""
        known = (one.strip().removeprefix("W/") for one in (self.header("If-None-Match") or "").split(","))
        return tag in known

    def body(self) -> Any:
        """Return the body as JSON builtins.

        A key that stands twice in one object is refused: of two readers, each may take another value.
        """

        def constant(name: str) -> Any:
            raise ValueError(f"{name} is not JSON")

        def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            found = dict(pairs)
            if len(found) < len(pairs):
                raise ValueError("a key stands twice in one object")
            return found

        raw: str = self._event.get("body") or ""
        try:
            data = base64.b64decode(raw, validate=True) if self._event.get("isBase64Encoded") else raw.encode()
            if len(data) > LARGEST_BODY:
                raise TooLarge(f"the body has {len(data)} bytes; at most {LARGEST_BODY} are accepted")
            return json.loads(data.decode("utf-8-sig"), parse_constant=constant, object_pairs_hook=unique)
        except (ValueError, RecursionError) as error:
            raise MalformedBody("the body is not JSON") from error

    @property
    def has_body(self) -> bool:
        """Whether there is a body at all."""
        return bool(self._event.get("body"))

    @property
    def _query(self) -> dict[str, str]:
        return self._event.get("queryStringParameters") or {}

    def only(self, *names: str) -> None:
        """Refuse query parameters other than these, and those that are given more than once: one would be passed over.

        Those by which a call is signed in its URL are nobody's.
        """
        query = Path("query")
        unknown = [name for name in self._query if name not in names and not name.startswith(_OF_SIGNATURES)]
        if unknown:
            what = f"unknown; expected one of {', '.join(names)}" if names else "unknown; this call takes none"
            problems = [Problem(str(query / name), what) for name in unknown]
            raise InvalidRequest("unknown query parameters", problems)
        given: dict[str, list[str]] = self._event.get("multiValueQueryStringParameters") or {}
        repeated = [name for name in names if len(given.get(name) or ()) > 1]
        if repeated:
            told = [Problem(str(query / name), "is given more than once") for name in repeated]
            raise InvalidRequest("the parameters do not fit", told)

    def text(self, name: str) -> str | None:
        """Return a query parameter; ``None`` if it is missing."""
        return self._query.get(name)

    def moment(self, name: str) -> float:
        """Return a query parameter that is a time, UTC without an offset, in epoch seconds; 0 if it is missing."""
        text = self.text(name)
        if text is None:
            return 0.0
        try:
            # A + in a URL is a space.
            moment = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
            return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp(), 3)
        except (ValueError, OverflowError):
            problem = Problem(f"query.{name}", "must be a time like 2026-11-22T10:00:00Z")
            raise InvalidRequest("the time does not fit", [problem]) from None

    def span(self) -> Span:
        """Return the span of ``since`` and ``until``, its beginning inclusive."""
        span = Span(self.moment("since"), self.moment("until"))
        if span.until and span.until <= span.since:
            problem = Problem("query.until", "must be later than since")
            raise InvalidRequest("the times do not fit", [problem])
        return span

    def others(self, *names: str) -> dict[str, str]:
        """Return the query parameters but these."""
        found = {name: value for name, value in self._query.items() if name not in names}
        return {name: value for name, value in found.items() if not name.startswith(_OF_SIGNATURES)}

    def limit(self) -> int:
        """Return the page size, 1 to 100; 20 if none was asked for."""
        text = self.text("limit")
        if text is None:
            return 20
        if not _LIMIT.fullmatch(text):
            problem = Problem("query.limit", "must be a whole number from 1 to 100")
            raise InvalidRequest("the limit does not fit", [problem])
        return int(text)

    def cursor(self, *of: object) -> str | None:
        """Return where a list is to go on; ``None`` where it begins."""
        text = self.text("cursor")
        if text is None:
            return None
        mark = _mark_of(of)
        if not text.endswith(mark):
            problem = Problem("query.cursor", "is not a cursor from an earlier answer about the same")
            raise InvalidRequest("invalid cursor", [problem])
        return text.removesuffix(mark)

    def flag(self, name: str) -> bool:
        """Return a query parameter that is ``true`` or ``false``; false if it is missing."""
        text = self.text(name)
        if text not in (None, "true", "false"):
            raise InvalidRequest(f"{name} does not fit", [Problem(f"query.{name}", "must be true or false")])
        return text == "true"

    def cancel_reason(self) -> str:
        """Return why a saga is cancelled; empty if that is not said."""
        text = self.text("reason") or ""
        if len(text) > LONGEST_CANCEL_REASON:
            problem = Problem("query.reason", f"must have {LONGEST_CANCEL_REASON} characters at most")
            raise InvalidRequest("the reason is too long", [problem])
        return text

    def parent(self) -> str:
        """Return the id of the saga whose children are asked for."""
        text = self.text("parent") or ""
        if not _UUID.fullmatch(text):
            raise InvalidRequest("the parent does not fit", [Problem("query.parent", "must be a saga's id, a UUID")])
        return text.lower()

    def status(self) -> str | None:
        """Return the status to filter by."""
        text = self.text("status")
        if text is not None and text not in tuple(SagaStatus):
            problem = Problem("query.status", "must be one of " + ", ".join(SagaStatus))
            raise InvalidRequest("the status does not fit", [problem])
        return text


def leading_on(cursor: str | None, *of: object) -> str | None:
    """Return a cursor that leads on in one list only; ``None`` where that has ended.

    Lists are ordered by different things: a cursor of one would show another from anywhere.
    """
    return None if cursor is None else cursor + _mark_of(of)


def _mark_of(of: tuple[object, ...]) -> str:
    digest = hashlib.sha256(json.dumps(of, sort_keys=True).encode()).digest()
    return base64.urlsafe_b64encode(digest[:6]).decode()


def checked_id(saga_id: str) -> str:
    """Return a saga's id in its canonical form."""
    if not _UUID.fullmatch(saga_id):
        raise NotFound("the id is not a UUID: there is no such saga")
    return saga_id.lower()


def checked_beginning(text: str) -> str:
    """Return a saga's id, or how one begins, in its canonical form."""
    known = text.lower()
    # Hyphens where a UUID has them, and hexadecimal digits elsewhere.
    if len(known) > WHOLE_ID or not _UUID.fullmatch(known + _ANY_ID[len(known) :]):
        raise NotFound("the id is not a UUID, nor how one begins: there is no such saga")
    if len(known) < SHORTEST_BEGINNING:
        problem = Problem("path.saga_id", f"must have {SHORTEST_BEGINNING} characters at least")
        raise InvalidRequest("the id is too short", [problem])
    return known
