"""Reads the input of an API call."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import parse_qs

from sagas.authoring.shapes.base import Path
from sagas.core.events import AttentionCode
from sagas.core.ids import KEY_PATTERN, LONGEST_CANCEL_REASON, LONGEST_CORRELATION_ID
from sagas.core.states import SagaStatus
from sagas.core.text import parse_json, plain
from sagas.errors import InvalidRequest, NotFound, Problem, TooLarge, listed
from sagas.handlers.http.answers import MalformedBody
from sagas.operations import LARGEST_BODY
from sagas.store.index.listing import TimeRange

FORM = "application/x-www-form-urlencoded"
MOST_FIELDS = 1_000
"""The maximum number of fields in a form."""

INCIDENT_FILTER = ("type", "step", "code", "error")
"""The query parameters that choose the sagas of an incident. Each is allowed only with those before it."""

WHOLE_ID = 36
"""The number of characters of a saga's id."""
SHORTEST_ID_START = 4
"""The minimum length of the start of an id that finds a saga."""
_ANY_ID = "00000000-0000-0000-0000-000000000000"

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TRACE_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
_SIGNATURE_PREFIX = "X-Amz-"
"""Prefix of the query parameters of a signed URL."""
_LIMIT = re.compile(r"[1-9][0-9]?|100")


def invalid(what: str, problems: list[Problem]) -> InvalidRequest:
    """Return the error for an invalid input. Both its message and its details name the problems."""
    return InvalidRequest(f"invalid {what}: {listed(problems)}", problems)


ANONYMOUS = "anonymous"
"""The name of callers of a method without authorization."""

_LONGEST = 200
"""The maximum length of an identifier that is not an ARN."""
_TOKEN = re.compile(r"(?i:bearer|basic) .*|eyJ[\w-]+(?:\.[\w-]*){2,4}", re.DOTALL)
"""Matches credentials that an authorizer has returned as the principal: a header's value, or a JSON Web Token."""


class Request:
    """A REST API (v1) event, read field by field. An invalid field raises an error that names it."""

    def __init__(self, event: dict[str, Any]) -> None:
        self._event = event

    @property
    def _context(self) -> dict[str, Any]:
        return self._event.get("requestContext") or {}

    @property
    def actor(self) -> str:
        """The name of the caller, from the identity that API Gateway has verified."""
        return actor_of(self._context)

    @property
    def base(self) -> str:
        """The part of the URL's path before ``/sagas``: the stage, and the service's path in the API.

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
        """The header ``X-Correlation-Id``, else the trace id of a W3C ``traceparent``, else ``None``.

        An invalid ``traceparent`` is ignored, as the W3C demands, because proxies write it and not callers.
        """
        own = self.header("X-Correlation-Id")
        if own is None:
            trace = _TRACE_PARENT.fullmatch(self.header("traceparent") or "")
            return trace[1] if trace else None
        if len(own) > LONGEST_CORRELATION_ID or not re.fullmatch(KEY_PATTERN, own):
            text = f"must be 1 to {LONGEST_CORRELATION_ID} printable ASCII characters, with no space at either end"
            raise invalid("correlation id", [Problem("header.X-Correlation-Id", text)])
        return own

    def header(self, name: str) -> str | None:
        """Return a header; ``None`` if it is missing. Its name may be in upper or lower case."""
        headers: dict[str, str] = self._event.get("headers") or {}
        return next((value for key, value in headers.items() if key.lower() == name.lower()), None)

    def has_current(self, tag: str) -> bool:
        """Whether the caller's ``If-None-Match`` contains the ``ETag`` of the current answer."""
        cached = (text.strip().removeprefix("W/") for text in (self.header("If-None-Match") or "").split(","))
        return tag in cached

    def body(self) -> Any:
        """Return the body as JSON builtins. JSON whose value readers may disagree on is refused."""
        text = self._text()
        try:
            return parse_json(text)
        except json.JSONDecodeError as error:
            raise MalformedBody(f"the body is not JSON: {error.msg} at character {error.pos + 1}") from error
        except ValueError as error:
            raise MalformedBody(f"the body cannot be read: {error}") from error

    def body_or_form(self) -> Any:
        """Return the body as JSON builtins. A form becomes an object of texts; a name that it has several times gets a
        list of them. No body is ``None``, since many systems post without one."""
        if (self.header("Content-Type") or "").partition(";")[0].strip().lower() != FORM:
            return self.body() if self.has_body else None
        try:
            fields = parse_qs(self._text(), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
        except ValueError as error:
            fault = f"it is not a form in UTF-8 with at most {MOST_FIELDS:,} fields"
            raise MalformedBody(f"the body cannot be read: {fault}") from error
        return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}

    def _text(self) -> str:
        """Return the body as text, without the mark that some editors put before UTF-8."""
        raw: str = self._event.get("body") or ""
        coding = self.header("Content-Encoding")
        if coding is not None and coding.lower() != "identity":
            raise MalformedBody(f"the body cannot be read: it is compressed ({plain(coding[:32])}); send it as it is")
        try:
            data = base64.b64decode(raw, validate=True) if self._event.get("isBase64Encoded") else raw.encode()
            if len(data) > LARGEST_BODY:
                raise TooLarge(f"the body is {len(data)} bytes; the limit is {LARGEST_BODY}")
            return data.decode("utf-8-sig")
        except ValueError as error:
            raise MalformedBody("the body cannot be read: it is not UTF-8") from error

    @property
    def has_body(self) -> bool:
        """Whether the call has a body."""
        return bool(self._event.get("body"))

    @property
    def _query(self) -> dict[str, str]:
        return self._event.get("queryStringParameters") or {}

    def check_query(self, *names: str) -> None:
        """Refuse unknown query parameters. Refuse repeated ones, too, because all but one value would be ignored.

        The parameters of a signed URL are always allowed.
        """
        query = Path("query")
        unknown = [name for name in self._query if name not in names and not name.startswith(_SIGNATURE_PREFIX)]
        if unknown:
            expected = f"expected one of {', '.join(names)}" if names else "this call takes no query parameters"
            raise invalid("parameters", [Problem(str(query / name), f"unknown; {expected}") for name in unknown])
        values: dict[str, list[str]] = self._event.get("multiValueQueryStringParameters") or {}
        repeated = [name for name in names if len(values.get(name) or ()) > 1]
        if repeated:
            raise invalid("parameters", [Problem(str(query / name), "must not be repeated") for name in repeated])

    def text(self, name: str) -> str | None:
        """Return a query parameter; ``None`` if it is missing."""
        return self._query.get(name)

    def moment(self, name: str) -> float:
        """Return the epoch seconds of a query parameter that is a time (UTC by default); 0 if it is missing."""
        text = self.text(name)
        if text is None:
            return 0.0
        try:
            # A + in a URL is decoded to a space.
            moment = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
            return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp(), 3)
        except (ValueError, OverflowError):
            problem = Problem(f"query.{name}", "must be a time like 2026-11-22T10:00:00Z")
            raise invalid("parameters", [problem]) from None

    def span(self) -> TimeRange:
        """Return the span from ``since``, inclusive, to ``until``."""
        span = TimeRange(self.moment("since"), self.moment("until"))
        if span.until and span.until <= span.since:
            raise invalid("parameters", [Problem("query.until", "must be later than since")])
        return span

    def others(self, *names: str) -> dict[str, str]:
        """Return the query parameters except these."""
        values = {name: value for name, value in self._query.items() if name not in names}
        return {name: value for name, value in values.items() if not name.startswith(_SIGNATURE_PREFIX)}

    def limit(self) -> int:
        """Return the page size, 1 to 100; 20 by default."""
        text = self.text("limit")
        if text is None:
            return 20
        if not _LIMIT.fullmatch(text):
            raise invalid("parameters", [Problem("query.limit", "must be a whole number from 1 to 100")])
        return int(text)

    def cursor(self, *of: object) -> str | None:
        """Return the position at which a list continues; ``None`` for its start."""
        text = self.text("cursor")
        if text is None:
            return None
        mark = _mark_of(of)
        if not text.endswith(mark):
            raise invalid("cursor", [Problem("query.cursor", "must be from an earlier answer of the same list")])
        return text.removesuffix(mark)

    def incident(self) -> tuple[str | None, list[str]]:
        """Return the type of the sagas that are asked for, then step, code and error type, or the first of these. An
        empty error type stands for sagas without an error."""
        given = [self.text(name) for name in INCIDENT_FILTER]
        for name, needed in zip(INCIDENT_FILTER[1:], INCIDENT_FILTER, strict=False):
            if self.text(name) is not None and self.text(needed) is None:
                raise invalid("parameters", [Problem(f"query.{name}", f"allowed only with {needed}")])
        code = self.text("code")
        if code is not None and code not in list(AttentionCode):
            problem = Problem("query.code", f"unknown; expected one of {', '.join(AttentionCode)}")
            raise invalid("parameters", [problem])
        return given[0], [value for value in given[1:] if value is not None]

    def flag(self, name: str) -> bool:
        """Return a query parameter that is ``true`` or ``false``; false if it is missing."""
        text = self.text(name)
        if text not in (None, "true", "false"):
            raise invalid("parameters", [Problem(f"query.{name}", "must be true or false")])
        return text == "true"

    def cancel_reason(self) -> str:
        """Return the reason of a cancel; empty if there is none."""
        text = self.text("reason") or ""
        if len(text) > LONGEST_CANCEL_REASON:
            problem = Problem("query.reason", f"longer than {LONGEST_CANCEL_REASON} characters")
            raise invalid("parameters", [problem])
        return text

    def parent(self) -> str:
        """Return the id of the saga whose children are listed."""
        text = self.text("parent") or ""
        if not _UUID.fullmatch(text):
            raise invalid("parameters", [Problem("query.parent", "must be a saga's id, a UUID")])
        return text.lower()

    def status(self) -> str | None:
        """Return the status to filter by."""
        text = self.text("status")
        if text is not None and text not in tuple(SagaStatus):
            problem = Problem("query.status", "must be one of " + ", ".join(SagaStatus))
            raise invalid("parameters", [problem])
        return text


def cursor_for(cursor: str | None, *of: object) -> str | None:
    """Return a cursor that is valid in one list only; ``None`` at the end of the list.

    Lists have different orders, so a cursor of another list would continue at an arbitrary position.
    """
    return None if cursor is None else cursor + _mark_of(of)


def _mark_of(of: tuple[object, ...]) -> str:
    digest = hashlib.sha256(json.dumps(of, sort_keys=True).encode()).digest()
    return base64.urlsafe_b64encode(digest[:6]).decode()


def checked_id(saga_id: str) -> str:
    """Return a saga's id in its canonical form."""
    if not _UUID.fullmatch(saga_id):
        raise NotFound(f"{saga_id[:WHOLE_ID]!r} is not a saga id")
    return saga_id.lower()


def checked_id_start(text: str) -> str:
    """Return a saga's id, or the start of one, in its canonical form."""
    start = text.lower()
    # If another id's digits complete it to a UUID, it is the start of one.
    if len(start) > WHOLE_ID or not _UUID.fullmatch(start + _ANY_ID[len(start) :]):
        raise NotFound(f"{text[:WHOLE_ID]!r} is not a saga id or the start of one")
    if len(start) < SHORTEST_ID_START:
        raise invalid("saga id", [Problem("path.saga_id", f"must be at least {SHORTEST_ID_START} characters long")])
    return start


def actor_of(context: Mapping[str, Any]) -> str:
    """Return the caller's name for the audit trail. With IAM, it is the caller's ARN, which ends with the session's
    name if a role was assumed. All sessions of an identity pool have the same name, so ``#`` and the identity's id are
    added. With a Cognito user pool, it is ``cognito:`` and the claim ``sub``, which is never reused, or else the user
    name. With a Lambda authorizer, it is ``authorizer:`` and the ``principalId``, or ``withheld`` if that is a token.
    An identifier that is not printable or has more than 200 characters is replaced by its SHA-256 digest, so a caller
    always has the same name."""
    identity = _mapping(context.get("identity"))
    authorizer = _mapping(context.get("authorizer"))
    if arn := _text(identity.get("userArn")):
        pooled = _text(identity.get("cognitoIdentityId"))
        return f"{arn}#{pooled}" if pooled else arn
    # Only the claims of a user pool are an object. A Lambda authorizer returns texts, numbers and booleans.
    claims = _mapping(authorizer.get("claims"))
    for claim in ("sub", "cognito:username", "username"):
        if name := _text(claims.get(claim)):
            return f"cognito:{_plain(name)}"
    if principal := _text(authorizer.get("principalId")):
        return f"authorizer:{_plain(principal)}"
    return _text(identity.get("caller")) or ANONYMOUS


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    """An identifier. Return a principal as text. A Lambda authorizer may also return a number or a boolean."""
    return str(value).strip() if isinstance(value, str | int | float) else ""


def _plain(name: str) -> str:
    if _TOKEN.fullmatch(name):
        return "withheld"
    if len(name) <= _LONGEST and name.isprintable():
        return name
    return "sha256:" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
