"""Spans with OpenTelemetry. ``sagas.handlers.telemetry`` imports this only if tracing is on."""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from threading import Thread
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Link, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from sagas import threads
from sagas.engine.observe.tracing import Attributes

_KINDS = {kind.name.lower(): kind for kind in SpanKind}
_OF_LAMBDA = {
    "faas.name": "AWS_LAMBDA_FUNCTION_NAME",
    "faas.version": "AWS_LAMBDA_FUNCTION_VERSION",
    "cloud.region": "AWS_REGION",
}
_W3C = TraceContextTextMapPropagator()
"""Propagates trace contexts, but not baggage: callers choose that, and it would get into messages."""


class OtelSpan:
    """An OpenTelemetry span; see :class:`sagas.engine.observe.tracing.Span`."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def set(self, attributes: Attributes) -> None:
        """Add or change attributes."""
        self._span.set_attributes(dict(attributes))

    def failed(self, kind: str) -> None:
        """Mark the span as failed."""
        self._span.set_attribute("error.type", kind)
        self._span.set_status(StatusCode.ERROR, kind)


class OtelTracer:
    """Creates spans; see :class:`sagas.engine.observe.tracing.Tracer`.

    Args:
        provider: exports the spans.
    """

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("lambda-sagas")
        self._flush: Thread | None = None

    @contextmanager
    def span(
        self,
        name: str,
        attributes: Attributes,
        *,
        kind: str = "internal",
        parent: Mapping[str, str] | None = None,
        link: str = "",
    ) -> Generator[OtelSpan]:
        """Create a span and activate it."""
        # If the parent is invalid, begin a new trace, and do not join one that happens to be active.
        context = None if parent is None else _W3C.extract(parent, Context())
        followed = trace.get_current_span(_W3C.extract({"traceparent": link}, Context())).get_span_context()
        links = [Link(followed)] if followed.is_valid else []
        with self._tracer.start_as_current_span(
            name,
            context=context,
            kind=_KINDS[kind],
            attributes=dict(attributes),
            links=links,
            record_exception=False,
            set_status_on_exception=False,
        ) as active:
            span = OtelSpan(active)
            try:
                yield span
            except BaseException as error:
                span.failed(type(error).__name__)
                raise

    def headers(self) -> dict[str, str]:
        """Return ``traceparent`` and ``tracestate`` of the active span."""
        carrier: dict[str, str] = {}
        _W3C.inject(carrier)
        return carrier

    def flush(self, seconds: float) -> bool:
        """Export ended spans within a time limit. The next flush exports the others. Returns whether no span remains:
        each was exported, or dropped by the exporter."""
        if self._flush is None or not self._flush.is_alive():
            self._flush = threads.start("sagas-spans", self._provider.force_flush, logging.getLogger("sagas"))
        self._flush.join(max(seconds, 0.0))
        return not self._flush.is_alive()


def tracer_from(environment: Mapping[str, str]) -> OtelTracer:
    """Return the tracer that the standard variables ``OTEL_*`` configure.

    If a provider exists, for example from a layer that instruments the function, it is used unchanged.
    """
    provider: Any = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        attributes = {name: environment[variable] for name, variable in _OF_LAMBDA.items() if environment.get(variable)}
        attributes |= {"cloud.provider": "aws", "cloud.platform": "aws_lambda"} if "faas.name" in attributes else {}
        named = environment.get("OTEL_SERVICE_NAME") or "service.name=" in environment.get(
            "OTEL_RESOURCE_ATTRIBUTES", ""
        )
        if not named:
            attributes["service.name"] = environment.get("POWERTOOLS_SERVICE_NAME") or "sagas"
        provider = TracerProvider(resource=Resource.create(attributes))
        provider.add_span_processor(BatchSpanProcessor(exporter_from(environment)))
        trace.set_tracer_provider(provider)
    return OtelTracer(provider)


def exporter_from(environment: Mapping[str, str]) -> SpanExporter:
    """Return the exporter that ``OTEL_TRACES_EXPORTER`` names."""
    name = environment["OTEL_TRACES_EXPORTER"].strip()
    if name == "otlp":
        protocols = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
        protocol = next((environment[variable] for variable in protocols if environment.get(variable)), "http/protobuf")
        name = "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"
    for entry in entry_points(group="opentelemetry_traces_exporter", name=name):
        return entry.load()()
    raise LookupError(f"OTEL_TRACES_EXPORTER is {name!r}, but no exporter of that name is installed")
