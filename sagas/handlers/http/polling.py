"""Answers that are asked for again and again: who has one already is told just that."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from typing import Any

from aws_lambda_powertools.event_handler import Response

from sagas.handlers.http.answers import answer
from sagas.handlers.http.inputs import Request


def tag_of(mark: str) -> str:
    """Return the ``ETag`` for what changes whenever an answer does; another deployment may answer otherwise."""
    deployed = os.environ.get("AWS_LAMBDA_FUNCTION_VERSION", "")
    return f'"{sha256(f"{deployed} {mark}".encode()).hexdigest()[:32]}"'


def polled(request: Request, body: Any, mark: str = "") -> Response[str]:
    """Return an answer with its ``ETag``, or 304 without a body where the caller's ``If-None-Match`` names it."""
    tag = tag_of(mark or json.dumps(body))
    return unchanged(tag) if request.knows(tag) else answer(200, body, {"ETag": tag})


def unchanged(tag: str) -> Response[str]:
    """Return the answer that nothing has changed since the one with this ``ETag``."""
    return Response(status_code=304, body="", headers={"ETag": tag, "Cache-Control": "no-store"})
