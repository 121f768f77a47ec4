"""Whether and how invocations are traced by OpenTelemetry. Where they are not, nothing of it is imported."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any

from sagas.handlers.observability.telemetry import telemetry

if TYPE_CHECKING:
    from sagas.handlers.observability.otel import OtelTracer

_LONGEST_FLUSH = 2.0
"""Seconds that the end of an invocation may wait for the exporter. What is left goes with the next one's."""
_RESERVE = 0.5
"""Seconds of the function's time that are not given to the exporter: the invocation has to end in them."""

Handler = Callable[[Any, Any], dict[str, Any]]


@lru_cache(maxsize=1)
def tracer() -> OtelTracer | None:
    """Return what makes spans; ``None`` where none are wanted.

    They are where ``OTEL_TRACES_EXPORTER`` names an exporter, unless ``OTEL_SDK_DISABLED`` is true. If what it takes is
    not installed the log says so, and nothing is traced: no saga fails for it.
    """
    exporter = os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if exporter in ("", "none") or os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    try:
        from sagas.handlers.observability.otel import tracer_from

        return tracer_from(os.environ)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with tracing, sagas go on without
        reason = str(error) if isinstance(error, ImportError | LookupError) else type(error).__name__
        telemetry().logger.error("nothing is traced: install lambda-sagas[otel]", error=reason)
        return None


def traced(trigger: str, name: str = "") -> Callable[[Handler], Handler]:
    """Return a decorator of handlers: their spans are exported at the end of each invocation, within bounds."""

    def decorated(handler: Handler) -> Handler:
        @wraps(handler)
        def outer(event: Any, context: Any) -> dict[str, Any]:
            made = tracer()
            if made is None:
                return handler(event, context)
            try:
                if not name:
                    return handler(event, context)
                with made.span(name, faas(trigger, context), kind="server"):
                    return handler(event, context)
            finally:
                remaining = context.get_remaining_time_in_millis() / 1000 - _RESERVE
                if not made.flush(min(_LONGEST_FLUSH, remaining)):
                    telemetry().logger.warning("spans are left: their exporter is slow or out of reach")

        return outer

    return decorated


def faas(trigger: str, context: Any) -> dict[str, str]:
    """Return what the semantic conventions want to know of an invocation."""
    known = {
        "faas.invocation_id": getattr(context, "aws_request_id", ""),
        "cloud.resource_id": getattr(context, "invoked_function_arn", ""),
    }
    return {"faas.trigger": trigger, **{name: str(value) for name, value in known.items() if value}}
