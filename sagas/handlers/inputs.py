"""Reading what a caller of the API sent."""

from __future__ import annotations

import base64
import functools
import json
import os
import uuid
from typing import Any, cast

from sagas.core.states import SagaStatus
from sagas.errors import InvalidRequest, NotFound, Problem, TooLarge
from sagas.handlers.answers import MalformedBody

__all__ = ["LARGEST_BODY", "Request"]

LARGEST_BODY = 256 * 1024
"""Bytes a body may have."""


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
        identity: dict[str, Any] = self._context.get("identity") or {}
        return str(identity.get("userArn") or identity.get("caller") or "anonymous")

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

    def header(self, name: str) -> str | None:
        """Return a header, whatever its case; ``None`` if it is missing."""
        headers: dict[str, str] = self._event.get("headers") or {}
        return next((value for key, value in headers.items() if key.lower() == name.lower()), None)

    def body(self) -> Any:
        """Return the body as JSON builtins.

        Raises:
            TooLarge: it is over 256 KB.
            MalformedBody: it is not JSON.
        """
        raw: str = self._event.get("body") or ""
        try:
            data = base64.b64decode(raw) if self._event.get("isBase64Encoded") else raw.encode()
            if len(data) > LARGEST_BODY:
                raise TooLarge(f"the body has {len(data)} bytes; at most {LARGEST_BODY} are accepted")
            return json.loads(data, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise MalformedBody("the body is not JSON") from error

    def fields(self, **types: type) -> dict[str, Any]:
        """Return the named fields of a body that is an object and has no others; absent ones are left out.

        Raises:
            InvalidRequest: a field is of another type, or unknown.
        """
        body: Any = self.body() if self._event.get("body") else {}
        if not isinstance(body, dict):
            raise InvalidRequest("the body must be an object", [Problem("$", "must be an object")])
        given = cast("dict[str, Any]", body)
        problems = [Problem(f"$.{name}", "unknown field") for name in given if name not in types]
        for name, kind in types.items():
            if name in given and type(given[name]) is not kind:
                problems.append(Problem(f"$.{name}", f"must be of type {kind.__name__}"))
        if problems:
            raise InvalidRequest("the body does not fit", problems)
        return given

    def _query(self, name: str) -> str | None:
        given: dict[str, str] = self._event.get("queryStringParameters") or {}
        return given.get(name)

    def only(self, *names: str) -> None:
        """Refuse query parameters other than these."""
        given: dict[str, str] = self._event.get("queryStringParameters") or {}
        problems = [Problem(f"query.{name}", "unknown parameter") for name in given if name not in names]
        if problems:
            raise InvalidRequest("unknown query parameters", problems)

    def text(self, name: str) -> str | None:
        """Return a query parameter; ``None`` if it is missing."""
        return self._query(name)

    def limit(self) -> int:
        """Return the page size, 1 to 100; 20 if none was asked for."""
        text = self._query("limit")
        if text is None:
            return 20
        if not (text.isascii() and text.isdigit() and 1 <= int(text[:4]) <= 100 and len(text) <= 3):
            problem = Problem("query.limit", "must be a whole number from 1 to 100")
            raise InvalidRequest("the limit does not fit", [problem])
        return int(text)

    def status(self) -> str | None:
        """Return the status to filter by."""
        text = self._query("status")
        if text is not None and text not in tuple(SagaStatus):
            problem = Problem("query.status", "must be one of " + ", ".join(SagaStatus))
            raise InvalidRequest("the status does not fit", [problem])
        return text


def checked_id(saga_id: str) -> str:
    """Return a saga's id in its canonical form.

    Raises:
        NotFound: it is not a UUID, so no saga has it.
    """
    try:
        return str(uuid.UUID(saga_id))
    except ValueError:
        raise NotFound("the id is not a UUID: there is no such saga") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
