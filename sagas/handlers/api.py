"""The function behind the REST API."""

from __future__ import annotations

import os
import re
from functools import lru_cache, wraps
from typing import Any, cast
from urllib.parse import quote

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError

from sagas.engine.engine import Engine
from sagas.errors import SagaError
from sagas.handlers.http.answers import Served, answer_error, answer_unexpected
from sagas.handlers.http.inputs import Request
from sagas.handlers.http.sagas import (
    attention_operations,
    list_operations,
    operator_operations,
    saga_operations,
    upkeep_operations,
)
from sagas.handlers.http.signals import add_callback_route, signal_operations
from sagas.handlers.http.types import breaker_operations, statistics_operations, type_operations
from sagas.handlers.invocation import warm
from sagas.handlers.telemetry import frames, telemetry, traced, tracer
from sagas.operations import OPERATIONS

_NO_CALL: dict[str, Any] = {"httpMethod": "GET", "path": ""}
"""The event that replaces events which are not from API Gateway. No route matches it."""
SERVED = (
    *(saga_operations, list_operations, attention_operations, operator_operations, signal_operations),
    *(upkeep_operations, type_operations, breaker_operations, statistics_operations),
)
"""The functions that return the route functions, which together serve :data:`sagas.operations.OPERATIONS`."""
_PARAMETER = re.compile(r"\{(\w+)\+?\}")


def _argument(parameter: re.Match[str]) -> str:
    """Return the name of the argument for a path parameter: ``name`` for ``type``, which is a builtin of Python."""
    return "<name>" if parameter[1] == "type" else f"<{parameter[1]}>"


@lru_cache(maxsize=1)
def _engine() -> Engine:
    observer = telemetry()
    return Engine.from_environment(os.environ, observer, observer.plain_logger, tracer())


@lru_cache(maxsize=1)
def _app() -> APIGatewayRestResolver:
    engine = _engine()
    mount = os.environ.get("SAGAS_MOUNT")
    app = APIGatewayRestResolver(debug=False, strip_prefixes=[mount] if mount else None)

    def answer(error: SagaError) -> Response[str]:
        refusal = answer_error(error, Request(app.current_event.raw_event).base)
        if refusal.status_code == 500:
            return unexpected(error)
        telemetry().logger.info("request refused", extra={"error": type(error).__name__})
        return refusal

    def unexpected(error: Exception) -> Response[str]:
        if not isinstance(error, NotFoundError):
            telemetry().logger.error("request failed", extra={"error": type(error).__name__, "at": frames(error)})
        return answer_unexpected(error)

    app.exception_handler(SagaError)(answer)
    app.exception_handler([NotFoundError, Exception])(unexpected)

    def with_own_tables(function: Served) -> Served:
        """Return the function of an operation, which does nothing with the tables of another service."""

        @wraps(function)
        def serve(**arguments: str) -> Response[str]:
            engine.pauses.all()
            return function(**arguments)

        return serve

    served = {function.__name__: with_own_tables(function) for of in SERVED for function in of(app, engine)}
    for operation in OPERATIONS:
        app.route(_PARAMETER.sub(_argument, operation.path), operation.method)(served[operation.name])
    if engine.callbacks is not None:
        add_callback_route(app, engine, engine.callbacks)
    return app


@traced("http")
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Handle a REST API (v1) event. Returns a proxy response even for errors, and never raises."""
    call = _matched(event)
    active = tracer()
    if active is None or call is _NO_CALL:
        return _app().resolve(call, context)
    from sagas.handlers.spans import serving

    with serving(active, call, context) as span:
        answer = _app().resolve(call, context)
        span.set({"http.response.status_code": answer["statusCode"]})
        if answer["statusCode"] >= 500:
            span.failed(str(answer["statusCode"]))
        return answer


def _matched(event: Any) -> dict[str, Any]:
    """Return the call with the path of the resource that API Gateway matched, because IAM and authorizers have allowed
    that path. The caller's path can look like that of another resource once its slashes are decoded.

    Functions can receive any event: an event that does not have API Gateway's form becomes ``_NO_CALL``.
    """
    call = cast("dict[str, Any]", event) if isinstance(event, dict) else dict[str, Any]()
    mappings = ("headers", "queryStringParameters", "requestContext", "pathParameters")
    fits = (
        all(isinstance(call.get(name), str) for name in ("httpMethod", "resource"))
        and all(isinstance(call.get(name), dict | None) for name in mappings)
        and isinstance(call.get("body"), str | None)
    )
    values: dict[str, Any] = (fits and call.get("pathParameters")) or {}
    if not fits or not all(isinstance(values.get(name), str) for name in _PARAMETER.findall(call["resource"])):
        return _NO_CALL
    return call | {"path": _PARAMETER.sub(lambda name: quote(values[name[1]], safe=""), call["resource"])}


def reset() -> None:
    """Forget the engine, so the next invocation reads the environment again."""
    _app.cache_clear()
    _engine.cache_clear()
    tracer.cache_clear()


_PARTS = (
    "starter",
    "operations",
    "signals",
    "pausing",
    "recovery",
    "purger",
    "verifier",
    "breaker_operations",
    "statistics",
    "in_flight",
)
"""The parts that the API runs."""
warm(_app, lambda: _engine().warm(*_PARTS))
