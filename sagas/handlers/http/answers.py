"""Answers of the API. Only this module turns the library's errors into HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar, cast

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError, ServiceError

from sagas.engine.read.answers import ErrorAnswer, ProblemView, SagaView, StepView, Summary
from sagas.engine.start.starter import KeyReused, Paused
from sagas.errors import (
    Conflict,
    Denied,
    InvalidRequest,
    NotFound,
    Problem,
    SagaError,
    StateChanged,
    TooLarge,
    Unavailable,
)

SagaT = TypeVar("SagaT", bound=Summary)


Served = Callable[..., Response[str]]
"""A function that serves the operation with the same name."""


class MalformedBody(SagaError):
    """The body is not JSON."""


_CODES: tuple[tuple[type[SagaError], int, str], ...] = (
    (MalformedBody, 400, "malformed_body"),
    (NotFound, 404, "not_found"),
    (StateChanged, 409, "state_changed"),
    (Conflict, 409, "conflict"),
    (TooLarge, 413, "too_large"),
    (KeyReused, 422, "idempotency_key_reused"),
    (InvalidRequest, 422, "invalid_request"),
    (Paused, 503, "paused"),
    (Unavailable, 503, "unavailable"),
)


def answer(status: int, body: Any, headers: dict[str, str] | None = None) -> Response[str]:
    """Return an answer with a JSON body."""
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    all_headers: dict[str, Any] = {"Cache-Control": "no-store", **(headers or {})}
    return Response(status_code=status, content_type="application/json", body=text, headers=all_headers)


def error(
    status: int,
    code: str,
    message: str,
    details: list[ProblemView] | None = None,
    headers: dict[str, str] | None = None,
    saga: SagaView | None = None,
) -> Response[str]:
    """Return an error in the form that all errors have."""
    body: ErrorAnswer = {"error": {"code": code, "message": message, "details": details}}
    if saga is not None:
        body["saga"] = saga
    return answer(status, body, headers)


def answer_error(exception: SagaError, base: str = "") -> Response[str]:
    """Return the response for a :class:`SagaError`. The links of a saga in it begin with ``base``."""
    details: list[ProblemView] | None = None
    headers: dict[str, str] | None = None
    saga = linked(base, cast("SagaView", exception.saga)) if isinstance(exception, StateChanged) else None
    if isinstance(exception, InvalidRequest):
        problems = exception.problems or (Problem("$", str(exception)),)
        details = [{"path": problem.path, "message": problem.message} for problem in problems]
    if isinstance(exception, Denied):  # no caller can do anything about it, and a retry may take days to succeed
        return answer_unexpected(exception)
    if isinstance(exception, Unavailable):
        headers = {"Retry-After": f"{max(1, round(exception.retry_after))}"}
    for kind, status, code in _CODES:
        if isinstance(exception, kind):
            return error(status, code, str(exception), details, headers, saga)
    return answer_unexpected(exception)


def answer_unexpected(exception: Exception) -> Response[str]:
    """Return the answer for any other exception, without its details."""
    if isinstance(exception, NotFoundError):
        return error(404, "not_found", "no such resource")
    if isinstance(exception, ServiceError):
        return error(int(exception.status_code), "refused", "the request was refused")
    return error(500, "internal", "internal error; the service's log has it under the id of this request")


def linked(base: str, saga: SagaT) -> SagaT:
    """Prefix the links of a saga with the request's stage."""
    saga["links"]["self"] = base + saga["links"]["self"]
    steps: list[StepView] = saga.get("steps", [])  # pyright: ignore[reportAssignmentType] -- a SagaView has steps
    for step in steps:
        if "children" in step:
            step["children"]["href"] = base + step["children"]["href"]
    return saga
