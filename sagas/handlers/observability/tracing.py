"""Trace invocations with OpenTelemetry, which is only imported if tracing is on."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any

from sagas.handlers.observability.telemetry import telemetry

if TYPE_CHECKING:
    from sagas.handlers.observability.otel import OtelTracer

_LONGEST_FLUSH = 2.0
"""An invocation ends after waiting at most this many seconds for the exporter. The next one exports the rest."""
_RESERVE = 0.5
"""Seconds of the function's time that are reserved for the end of the invocation."""

Handler = Callable[[Any, Any], dict[str, Any]]


@lru_cache(maxsize=1)
def tracer() -> OtelTracer | None:
    """Return the tracer; ``None`` if tracing is off.

    Tracing is on if ``OTEL_TRACES_EXPORTER`` names an exporter, unless ``OTEL_SDK_DISABLED`` is true. If packages are
    missing, an error is logged and nothing is traced, but no saga fails.
    """
    exporter = os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if exporter in ("", "none") or os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    try:
        from sagas.handlers.observability.otel import tracer_from

        return tracer_from(os.environ)
    except Exception as error:  # noqa: BLE001 - sagas continue without tracing
        reason = str(error) if isinstance(error, ImportError | LookupError) else type(error).__name__
        telemetry().logger.error("tracing is off: install lambda-sagas[otel]", error=reason)
        return None


def traced(trigger: str, name: str = "") -> Callable[[Handler], Handler]:
    """Return a decorator that exports a handler's spans at the end of each invocation, within a time limit."""

    def decorated(handler: Handler) -> Handler:
        @wraps(handler)
        def outer(event: Any, context: Any) -> dict[str, Any]:
            active = tracer()
            if active is None:
                return handler(event, context)
            try:
                if not name:
                    return handler(event, context)
                with active.span(name, faas(trigger, context), kind="server"):
                    return handler(event, context)
            finally:
                remaining = context.get_remaining_time_in_millis() / 1000 - _RESERVE
                if not active.flush(min(_LONGEST_FLUSH, remaining)):
                    telemetry().logger.warning("some spans were not exported: the exporter is slow or unreachable")

        return outer

    return decorated


def faas(trigger: str, context: Any) -> dict[str, str]:
    """Return an invocation's attributes, as the semantic conventions define them."""
    attributes = {
        "faas.invocation_id": getattr(context, "aws_request_id", ""),
        "cloud.resource_id": getattr(context, "invoked_function_arn", ""),
    }
    return {"faas.trigger": trigger, **{name: str(value) for name, value in attributes.items() if value}}
