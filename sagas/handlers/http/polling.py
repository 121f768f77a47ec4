"""ETags for answers that callers poll: 304 without a body if the caller's copy is current."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from typing import Any

from aws_lambda_powertools.event_handler import Response

from sagas.handlers.http.answers import answer
from sagas.handlers.http.inputs import Request


def tag_of(mark: str) -> str:
    """Return the ``ETag`` of an answer. ``mark`` changes whenever the answer does, except through a deployment."""
    deployed = os.environ.get("AWS_LAMBDA_FUNCTION_VERSION", "")
    return f'"{sha256(f"{deployed} {mark}".encode()).hexdigest()[:32]}"'


def polled(request: Request, body: Any, mark: str = "") -> Response[str]:
    """Return an answer with its ``ETag``, or 304 without a body if the caller's ``If-None-Match`` has that ETag."""
    tag = tag_of(mark or json.dumps(body))
    return unchanged(tag) if request.has_current(tag) else answer(200, body, {"ETag": tag})


def unchanged(tag: str) -> Response[str]:
    """Return 304: the caller's copy with this ``ETag`` is current."""
    return Response(status_code=304, body="", headers={"ETag": tag, "Cache-Control": "no-store"})
