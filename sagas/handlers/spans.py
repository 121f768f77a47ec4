"""The spans of messages and calls. This module is imported only if tracing is on."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from sagas.engine.observe.tracing import Span, Tracer, handling, received
from sagas.handlers.telemetry import faas
from sagas.messaging.message import Message


@contextmanager
def processing(tracer: Tracer, message: Message, record: Mapping[str, Any], context: Any) -> Generator[str]:
    """Handle a message in a span of its saga's trace, with a link to the span that sent it. Returns the trace's id."""
    queue = str(record.get("eventSourceARN", "")).rsplit(":", 1)[-1]
    trace = message.trace
    with (
        tracer.span(
            f"process {queue}",
            {**received(message, queue), **faas("pubsub", context)},
            kind="consumer",
            parent=trace.carrier if trace else {},
            link=trace.sent if trace else "",
        ),
        handling(message, tracer),
    ):
        yield tracer.headers().get("traceparent", "").partition("-")[2][:32]


@contextmanager
def serving(tracer: Tracer, call: Mapping[str, Any], context: Any) -> Generator[Span]:
    """Serve a call of the API in a span whose parent is the caller's span."""
    received: Mapping[str, Any] = call.get("headers") or {}
    headers = {name.lower(): value for name, value in received.items() if isinstance(value, str)}
    method = str(call.get("httpMethod"))
    route = str(call.get("resource") or "")
    attributes = {
        "http.request.method": method,
        "http.route": route,
        # Anyone with a callback's token can send the signal, so the token must not get into a trace.
        "url.path": route if route.endswith("/callbacks/{token}") else str(call.get("path") or ""),
        "url.scheme": headers.get("x-forwarded-proto", "https"),
        **faas("http", context),
    }
    with tracer.span(f"{method} {route}".strip(), attributes, kind="server", parent=headers) as span:
        yield span
