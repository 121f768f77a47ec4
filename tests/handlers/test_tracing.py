"""Spans by OpenTelemetry: one trace a saga, over queues, operators and the supervisor."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from sagas import Context, Saga, step
from sagas.handlers import otel, supervisor, telemetry
from sagas.handlers import step as step_handler
from tests.handlers.conftest import Make, Site, request
from tests.support.aws import LambdaContext
from tests.support.sagas import FAIL, Order, Stubborn, Trip

CALLER_TRACE, CALLER_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CALLER = f"00-{CALLER_TRACE}-{CALLER_SPAN}-01"
EXPORTER = InMemorySpanExporter()
OUTGOING: list[dict[str, str]] = []


class Calling(Saga[Order], name="calling"):
    """Notes the headers that it would send, and the span that is active."""

    @step
    def call(self, ctx: Context) -> str:
        OUTGOING.append(dict(ctx.trace_headers))
        return format(trace.get_current_span().get_span_context().span_id, "016x")

    @step
    async def call_again(self, ctx: Context) -> str:
        OUTGOING.append(dict(ctx.trace_headers))
        return format(trace.get_current_span().get_span_context().span_id, "016x")


@pytest.fixture
def traced(site: Make, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """A site whose functions are traced into memory."""
    monkeypatch.setattr(otel, "exporter_from", lambda environment: EXPORTER)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    EXPORTER.clear()
    OUTGOING.clear()

    def make(*classes: type[Any], **environment: str) -> Site:
        return site(*classes, OTEL_TRACES_EXPORTER="memory", **environment)

    yield make
    telemetry.tracer.cache_clear()


def spans(prefix: str = "") -> list[ReadableSpan]:
    """The spans that were exported, oldest first."""
    return sorted((one for one in EXPORTER.get_finished_spans() if one.name.startswith(prefix)), key=_began)


def _began(span: ReadableSpan) -> int:
    return span.start_time or 0


def begin(site: Site, name: str, traceparent: str | None = CALLER, **headers: str) -> str:
    """Start a saga as a caller who has a trace."""
    event = request("POST", f"/sagas/{name}", {"item": "train"})
    event["headers"] |= {"traceparent": traceparent, **headers} if traceparent else headers
    return site.send(event).body["saga_id"]


def identity(span: ReadableSpan) -> SpanContext:
    """What tells a span from others."""
    found = span.get_span_context()
    assert found is not None
    return found


def trace_ids() -> set[str]:
    """The traces of all but the calls that read: of the site's own, too, for the API's description."""
    return {format(identity(one).trace_id, "032x") for one in spans() if not one.name.startswith("GET")}


def parent_of(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_a_saga_is_one_trace_which_is_the_callers(traced: Make) -> None:
    s = traced(Trip)
    saga_id = begin(s, "trip", tracestate="vendor=1")
    s.run()
    assert s.call("GET", f"/sagas/trip/{saga_id}").body["status"] == "COMPLETED"
    assert format(identity(spans("POST /sagas")[0]).trace_id, "032x") == CALLER_TRACE
    (started,) = spans("POST /sagas")
    assert (started.kind, parent_of(started)) == (SpanKind.SERVER, int(CALLER_SPAN, 16))
    assert attributes(started)["http.route"] == "/sagas/{type}"
    assert (attributes(started)["faas.trigger"], attributes(started)["http.response.status_code"]) == ("http", 202)
    sent, handled = spans("send "), spans("process ")
    assert [attributes(one)["sagas.step"] for one in sent] == ["book", "pay", "tell"]
    assert [attributes(one)["sagas.step"] for one in handled] == ["book", "pay", "tell"]
    for producer, consumer in zip(sent, handled, strict=True):
        assert (producer.kind, consumer.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
        assert parent_of(consumer) == identity(started).span_id
        (link,) = consumer.links
        assert link.context.span_id == identity(producer).span_id
        assert identity(consumer).trace_state.get("vendor") == "1"
        known = attributes(consumer)
        assert known["messaging.system"] == "aws_sqs"
        assert known["messaging.operation.type"] == "process"
        assert known["messaging.destination.name"] == attributes(producer)["messaging.destination.name"]
        assert known["messaging.message.id"]
        assert (known["faas.trigger"], known["sagas.saga_id"]) == ("pubsub", saga_id)
        inner = [one for one in spans() if one.parent and one.parent.span_id == identity(consumer).span_id]
        names = [one.name for one in inner]
        assert names[:3] == ["claim", f"step trip.{known['sagas.step']}", "commit"]
    assert parent_of(sent[0]) == identity(started).span_id
    assert {format(identity(one).trace_id, "032x") for one in (*sent, *handled)} == {CALLER_TRACE}
    assert attributes(spans("commit")[-1])["sagas.status"] == "COMPLETED"
    assert attributes(spans("step trip.pay")[0])["sagas.attempt"] == 1


def wanted(request: Order) -> bool:
    return request.count > 1


class Skipping(Saga[Order], name="skipping"):
    """Its only step can be skipped."""

    @step(when=wanted)
    def call(self) -> None: ...


def test_a_skipped_step_has_not_failed(traced: Make) -> None:
    s = traced(Skipping)
    saga_id = begin(s, "skipping")
    s.run()
    assert s.call("GET", f"/sagas/skipping/{saga_id}").body["steps"][0]["status"] == "SKIPPED"
    [span] = spans("step skipping.call")
    assert (span.status.status_code, attributes(span)["sagas.skipped"]) == (StatusCode.UNSET, True)
    assert "error.type" not in attributes(span)


def test_entries_name_the_trace(traced: Make) -> None:
    s = traced(Trip)
    saga_id = begin(s, "trip")
    s.run()
    entries = s.call("GET", f"/sagas/trip/{saga_id}/audit").body["entries"]
    assert {one["trace_id"] for one in entries[1:]} == {CALLER_TRACE}


def test_without_a_caller_s_trace_it_has_one_of_its_own(traced: Make) -> None:
    s = traced(Trip)
    begin(s, "trip", None)
    s.run()
    assert len(trace_ids()) == 1
    assert trace_ids() != {CALLER_TRACE}


def test_undos_and_failures_are_spans_and_no_error_text_is_in_them(traced: Make) -> None:
    s = traced(Trip)
    FAIL["pay"] = ValueError("card of ann@example.org")
    begin(s, "trip")
    s.run()
    (undone,) = spans("undo ")
    assert (undone.name, attributes(undone)["sagas.undo"]) == ("undo trip.book", True)
    failed = spans("step trip.pay")
    assert len(failed) == 3
    for one in failed:
        assert (one.status.status_code, attributes(one)["error.type"]) == (StatusCode.ERROR, "ValueError")
    assert "ann@example.org" not in "".join(one.to_json() for one in spans())
    assert trace_ids() == {CALLER_TRACE}


def test_user_code_runs_in_the_span_of_its_step(traced: Make) -> None:
    s = traced(Calling)
    saga_id = begin(s, "calling")
    s.run()
    steps = [format(identity(one).span_id, "016x") for one in spans("step ")]
    saga = s.call("GET", f"/sagas/calling/{saga_id}").body
    assert [one["result"] for one in saga["steps"]] == steps
    assert [one["traceparent"] for one in OUTGOING] == [f"00-{CALLER_TRACE}-{span}-01" for span in steps]


def test_an_operators_retry_goes_on_in_the_sagas_trace(traced: Make) -> None:
    s = traced(Stubborn)
    FAIL["second"] = 2
    saga_id = begin(s, "stubborn")
    s.run()
    assert s.call("POST", f"/sagas/stubborn/{saga_id}/retry", {"reason": "again"}).status == 202
    EXPORTER.clear()
    s.run()
    assert s.call("GET", f"/sagas/stubborn/{saga_id}").body["status"] == "COMPLETED"
    assert [attributes(one)["sagas.step"] for one in spans("process ")] == ["second"]
    (handled,) = spans("process ")
    assert format(identity(handled).trace_id, "032x") == CALLER_TRACE
    (link,) = handled.links
    assert format(link.context.trace_id, "032x") != CALLER_TRACE


def test_a_message_without_a_trace_begins_one_that_goes_on(traced: Make) -> None:
    s = traced(Trip)
    s.engine.starter.start("trip", {"item": "train"})
    s.run()
    (first, *others) = spans("process ")
    assert first.parent is None
    assert others
    assert len(trace_ids()) == 1


def test_a_caller_who_does_not_sample_is_obeyed(traced: Make) -> None:
    s = traced(Trip)
    saga_id = begin(s, "trip", CALLER[:-1] + "0")
    s.run()
    assert spans("process ") == []
    assert s.call("GET", f"/sagas/trip/{saga_id}").body["status"] == "COMPLETED"


@pytest.mark.parametrize("broken", ["nonsense", "00-" + "0" * 32 + "-00f067aa0ba902b7-01", ""])
def test_a_trace_that_is_none_does_no_harm(traced: Make, broken: str) -> None:
    s = traced(Trip)
    saga_id = begin(s, "trip", broken)
    s.run()
    assert s.call("GET", f"/sagas/trip/{saga_id}").body["status"] == "COMPLETED"


def test_where_nothing_is_traced_nothing_of_it_is_stored_or_sent(site: Make) -> None:
    s = site(Calling)
    OUTGOING.clear()
    saga_id = begin(s, "calling")
    (record,) = s.stack.receive("calling", "call")
    assert "trace" not in json.loads(record["body"])
    assert "trace" not in s.call("GET", f"/sagas/calling/{saga_id}/audit").body["entries"][0]["details"]
    s.stack.sqs.change_message_visibility(
        QueueUrl=s.stack.queues["calling"]["call"], ReceiptHandle=record["receiptHandle"], VisibilityTimeout=0
    )
    s.run()
    assert OUTGOING == [{}, {}]


def test_the_supervisor_is_traced(traced: Make) -> None:
    traced(Trip)
    supervisor.reset()
    supervisor.handler({"task": "recover"}, LambdaContext())
    supervisor.reset()
    (ran,) = spans("supervisor")
    assert attributes(ran)["faas.trigger"] == "timer"


# The provider and its exporter.


def test_sampling_and_exporter_are_the_standard_variables() -> None:
    source = """
import os
from sagas.handlers.telemetry import tracer
made = tracer()
with made.span("thing", {"sagas.saga": "trip"}):
    pass
assert made.flush(5)
"""
    shown: dict[str, str] = {}
    for ratio in ("0", "1"):
        environment = {
            "OTEL_TRACES_EXPORTER": "console",
            "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
            "OTEL_TRACES_SAMPLER_ARG": ratio,
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=prod",
            "POWERTOOLS_SERVICE_NAME": "shop",
            "AWS_LAMBDA_FUNCTION_NAME": "shop-book",
            "PYTHONPATH": ":".join(sys.path),
        }
        done = subprocess.run(
            [sys.executable, "-c", source], env=environment, capture_output=True, text=True, check=True
        )
        shown[ratio] = done.stdout
    assert shown["0"] == ""
    span = json.loads(shown["1"])
    assert span["name"] == "thing"
    resource = span["resource"]["attributes"]
    assert (resource["service.name"], resource["faas.name"]) == ("shop", "shop-book")
    assert resource["deployment.environment.name"] == "prod"


def test_an_exporter_that_is_not_installed_is_told_of_and_sagas_go_on(
    site: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(LookupError, match="'nonsense', but no exporter of that name is installed"):
        otel.exporter_from({"OTEL_TRACES_EXPORTER": "nonsense"})

    def missing(environment: object) -> None:
        raise ImportError("No module named 'opentelemetry'")

    monkeypatch.setattr(otel, "tracer_from", missing)
    s = site(Trip, OTEL_TRACES_EXPORTER="otlp")
    saga_id = begin(s, "trip")
    s.run()
    assert s.call("GET", f"/sagas/trip/{saga_id}").body["status"] == "COMPLETED"
    told = [one for one in caplog.records if one.getMessage() == "tracing is off: install lambda-sagas[otel]"]
    assert [getattr(one, "error", "") for one in told] == ["No module named 'opentelemetry'"]


@pytest.mark.parametrize("variables", [{}, {"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_SDK_DISABLED": "true"}])
def test_off_is_off(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    monkeypatch.delenv("OTEL_TRACES_EXPORTER", raising=False)
    if "OTEL_SDK_DISABLED" in variables:
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    telemetry.tracer.cache_clear()
    assert telemetry.tracer() is None
    telemetry.tracer.cache_clear()


def test_otlp_is_there_with_the_extra() -> None:
    exporter = otel.exporter_from({"OTEL_TRACES_EXPORTER": "otlp"})
    assert type(exporter).__module__.startswith("opentelemetry.exporter.otlp.proto.http")
    exporter.shutdown()


class Stuck(SpanExporter):
    """An exporter whose other end does not answer."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.exported: list[str] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.released.wait(30)
        self.exported += [one.name for one in spans]
        return SpanExportResult.SUCCESS


def test_a_slow_exporter_holds_an_invocation_up_no_longer_than_it_may() -> None:
    exporter, provider = Stuck(), TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    made = otel.OtelTracer(provider)
    with made.span("first", {}):
        pass
    began = time.monotonic()
    assert not made.flush(0.2)
    with made.span("second", {}):
        pass
    assert not made.flush(0.2)
    assert time.monotonic() - began < 5
    exporter.released.set()
    assert made.flush(10)
    assert made.flush(10)
    assert exporter.exported == ["first", "second"]
    provider.shutdown()


def test_the_end_of_an_invocation_exports_within_its_time(
    traced: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    s = traced(Trip)
    given: list[float] = []

    def slow(self: otel.OtelTracer, seconds: float) -> bool:
        given.append(seconds)
        return False

    monkeypatch.setattr(otel.OtelTracer, "flush", slow)
    begin(s, "trip")
    step_handler.handler({"Records": []}, LambdaContext())
    assert given
    assert all(0 < seconds <= 2.0 for seconds in given)
    assert "some spans were not exported: the exporter is slow or unreachable" in caplog.messages
