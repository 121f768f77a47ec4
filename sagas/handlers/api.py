"""The function behind the REST API."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import Any, TypeVar, cast

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError

from sagas.core.states import SagaState, SagaStatus
from sagas.engine.answers import AuditPage, Summary
from sagas.engine.engine import Engine, from_environment
from sagas.engine.views import saga_view
from sagas.errors import InvalidRequest, Problem, SagaError
from sagas.handlers.answers import answer, answer_error, answer_unexpected
from sagas.handlers.bodies import Note, Resolution, read_body
from sagas.handlers.definitions import add_definition_routes
from sagas.handlers.inputs import Request, checked_id
from sagas.handlers.telemetry import frames, telemetry
from sagas.store.listing import IndexPosition

_SEQ = re.compile(r"[0-9]{1,9}")

SagaT = TypeVar("SagaT", bound=Summary)


@lru_cache(maxsize=1)
def _app() -> APIGatewayRestResolver:
    seen = telemetry()
    engine = from_environment(os.environ, seen, seen.plain_logger)
    mount = os.environ.get("SAGAS_MOUNT")
    app = APIGatewayRestResolver(debug=False, strip_prefixes=[mount] if mount else None)
    _add_error_handlers(app)
    _add_saga_routes(app, engine)
    _add_operation_routes(app, engine)
    add_definition_routes(app, engine)
    return app


def _request(app: APIGatewayRestResolver) -> Request:
    return Request(app.current_event.raw_event)


def _add_error_handlers(app: APIGatewayRestResolver) -> None:
    def known(error: SagaError) -> Response[str]:
        refusal = answer_error(error)
        if refusal.status_code == 500:
            return unexpected(error)
        telemetry().logger.info("request refused", extra={"error": type(error).__name__})
        return refusal

    def unexpected(error: Exception) -> Response[str]:
        if not isinstance(error, NotFoundError):
            telemetry().logger.error("request failed", extra={"error": type(error).__name__, "at": frames(error)})
        return answer_unexpected(error)

    app.exception_handler(SagaError)(known)
    app.exception_handler([NotFoundError, Exception])(unexpected)


def _add_saga_routes(app: APIGatewayRestResolver, engine: Engine) -> None:
    reader, starter = engine.reader, engine.starter

    @app.post("/sagas/<name>")
    def start(name: str) -> Response[str]:
        request = _request(app)
        engine.registry.get(name)  # before the body is looked at: an unknown type is 404, whatever comes with it
        key, actor = request.header("Idempotency-Key"), request.actor
        started = starter.start(name, request.body(), key=key, actor=actor)
        # As it was created, from what was just written; one that had been started before, as it is now.
        state, entry = started.state, started.entry
        saga = saga_view(state, [entry]) if started.created else reader.show(name, state.saga_id)
        headers = {"Location": _linked(request, saga)["links"]["self"]}
        return answer(202 if started.created else 200, saga, headers)

    @app.get("/sagas/<name>/<saga_id>/audit")
    def audit(name: str, saga_id: str) -> Response[str]:
        request = _request(app)
        request.only("limit", "cursor")
        after = _seq(request.text("cursor"))
        entries, more = reader.audit(name, checked_id(saga_id), request.limit(), after)
        cursor = None if more is None else IndexPosition("seq", str(more)).cursor
        page: AuditPage = {"entries": entries, "cursor": cursor}
        return answer(200, page)

    @app.get("/sagas/<name>/<saga_id>")
    def show(name: str, saga_id: str) -> Response[str]:
        return answer(200, _linked(_request(app), reader.show(name, checked_id(saga_id))))

    @app.get("/sagas")
    def list_sagas() -> Response[str]:
        request = _request(app)
        request.only("name", "status", "limit", "cursor")
        name = request.text("name")
        names = [name] if name is not None else [saga.definition.name for saga in engine.registry]
        for known in names:
            engine.registry.get(known)
        page = reader.list(names, request.status(), request.limit(), request.text("cursor"))
        return answer(200, {**page, "sagas": [_linked(request, saga) for saga in page["sagas"]]})

    @app.get("/attention")
    def attention() -> Response[str]:
        request = _request(app)
        request.only("name", "limit", "cursor")
        if (name := request.text("name")) is not None:
            engine.registry.get(name)
        page = reader.attention(name, request.limit(), request.text("cursor"))
        return answer(200, {**page, "sagas": [_linked(request, saga) for saga in page["sagas"]]})

    _ = start, audit, show, list_sagas, attention


def _add_operation_routes(app: APIGatewayRestResolver, engine: Engine) -> None:
    reader, operations = engine.reader, engine.operations

    def shown(state: SagaState, status: int) -> Response[str]:
        return answer(status, _linked(_request(app), reader.show(state.saga, state.saga_id)))

    @app.delete("/sagas/<name>/<saga_id>")
    def cancel(name: str, saga_id: str) -> Response[str]:
        state = operations.cancel(name, checked_id(saga_id), _request(app).actor)
        return shown(state, 200 if state.status is SagaStatus.CANCELLED else 202)

    @app.post("/sagas/<name>/<saga_id>/retry")
    def retry(name: str, saga_id: str) -> Response[str]:
        note = read_body(_request(app), Note).note
        return shown(operations.retry(name, checked_id(saga_id), note, _request(app).actor), 202)

    @app.post("/sagas/<name>/<saga_id>/compensate")
    def compensate(name: str, saga_id: str) -> Response[str]:
        note = read_body(_request(app), Note).note
        return shown(operations.compensate(name, checked_id(saga_id), note, _request(app).actor), 202)

    @app.post("/sagas/<name>/<saga_id>/resolve")
    def resolve(name: str, saga_id: str) -> Response[str]:
        body, actor = read_body(_request(app), Resolution), _request(app).actor
        steps = tuple(dict.fromkeys(body.steps))
        return shown(operations.resolve(name, checked_id(saga_id), body.note, body.action, steps, actor), 200)

    _ = cancel, retry, compensate, resolve


def _linked(request: Request, saga: SagaT) -> SagaT:
    """Make the links of a saga lead through the stage the request came by."""
    saga["links"]["self"] = request.base + saga["links"]["self"]
    return saga


def _seq(cursor: str | None) -> int:
    if cursor is None:
        return 0
    place = IndexPosition.parse(cursor)
    if place.sort != "seq" or not _SEQ.fullmatch(place.saga_id):
        raise InvalidRequest("the cursor is not valid", [Problem("query.cursor", "is from another list")])
    return int(place.saga_id)


_NO_CALL: dict[str, Any] = {"httpMethod": "GET", "path": ""}
"""What stands for an event that is none of API Gateway's: it leads nowhere."""


def _is_call(event: Any) -> bool:
    """Tell whether an event has the types that API Gateway's events have. Anything can be sent to a function."""
    if not isinstance(event, dict):
        return False
    call = cast("dict[str, Any]", event)
    texts = all(isinstance(call.get(name), str) for name in ("httpMethod", "path"))
    named = all(
        isinstance(call.get(name), dict | None) for name in ("headers", "queryStringParameters", "requestContext")
    )
    return texts and named and isinstance(call.get("body"), str | None)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Handle a REST API (v1) event.

    Args:
        event: API Gateway's proxy event.
        context: Lambda's context.

    Returns:
        A proxy answer; errors too are answers, never exceptions.
    """
    return _app().resolve(event if _is_call(event) else _NO_CALL, context)


def reset() -> None:
    """Forget the engine, so that the next invocation reads the environment anew."""
    _app.cache_clear()
