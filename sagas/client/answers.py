"""The API's answers, which are botocore's ``AWSResponse``, and the exceptions that error answers become."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from sagas.errors import (
    Ambiguous,
    Conflict,
    InvalidRequest,
    NotFound,
    Problem,
    SagaError,
    StateChanged,
    TooLarge,
    Unavailable,
)

_RETRY_AFTER = 5.0
"""The seconds before a retry, unless a header of the answer gives them."""
_SIMPLE: Mapping[int, type[SagaError]] = {404: NotFound, 409: Conflict, 413: TooLarge}
_INVALID = (400, 422)
_TRY_LATER = (429, 503)


def json_of(answer: Any) -> Any:
    """Return the body of an answer."""
    try:
        return json.loads(answer.content)
    except ValueError:
        raise SagaError("the response is not JSON; check that the URL is that of a saga API") from None


def error_of(answer: Any, *, writes: bool, right: str) -> SagaError:
    """Return the error for an answer with a status of 300 or more. ``right``: the right that the call needs."""
    text = str(answer.headers.get("retry-after", ""))
    retry_after = float(text) if text.isdigit() else _RETRY_AFTER
    try:
        body: Any = json.loads(answer.content)
    except ValueError:
        body = None
    whole = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    value: Any = whole.get("error")
    # If a gateway or a proxy answered instead of the API, the answer has another form, or no text.
    error = cast("dict[str, Any]", value) if isinstance(value, dict) else whole
    status = answer.status_code
    message = str(error.get("message") or error.get("Message") or f"the API answered {status}")
    saga: Any = whole.get("saga")
    if error.get("code") == "state_changed" and isinstance(saga, dict):
        return StateChanged(message, cast("dict[str, Any]", saga))
    if status in _SIMPLE:
        return _SIMPLE[status](message)
    if status in _INVALID:
        details: Any = error.get("details")
        items = cast("list[dict[str, Any]]", details) if isinstance(details, list) else []
        return InvalidRequest(message, [Problem(str(item["path"]), str(item["message"])) for item in items])
    if status in _TRY_LATER:
        return Unavailable(message, retry_after)
    if status >= 500:
        return ambiguous(message, retry_after) if writes else Unavailable(message, retry_after)
    needs = f"; this call needs the right {right!r}" if "not authorized" in message else ""
    return SagaError(f"the API refused the call ({status}): {message}{needs}")


def ambiguous(message: str, retry_after: float = _RETRY_AFTER) -> Ambiguous:
    """Return the error for a call whose outcome is unknown."""
    return Ambiguous(f"{message}; the request may or may not have taken effect", retry_after)
