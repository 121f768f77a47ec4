"""Spans of a saga: its messages, claims, attempts and commits. Without a tracer, nothing in this module runs.

A saga is one trace across all its functions. The first entry and every message contain the trace context of the start.
Each span that handles a message has this context as its parent, and the span that sent the message as a link.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Protocol

from msgspec.structs import replace

from sagas.core import events as ev
from sagas.core.states import SagaState
from sagas.engine.attempt.attempt import AttemptServices, Invocation
from sagas.engine.attempt.course import Course
from sagas.engine.attempt.failures import Skipped
from sagas.engine.attempt.idempotency import IdempotentAttempt
from sagas.engine.committer import Committed
from sagas.engine.ports import MessageSender
from sagas.engine.registry import SagaType
from sagas.errors import SagaError
from sagas.messaging.message import Message, Trace, trace_in, trace_of
from sagas.messaging.routes import Routes
from sagas.messaging.work import NOW
from sagas.store.journal.journal import Journal

Attributes = Mapping[str, str | int | bool]

_AT_HAND: ContextVar[tuple[str, Trace] | None] = ContextVar("sagas_trace_at_hand", default=None)
"""The id of the saga whose message is being handled, and its trace."""


class Span(Protocol):
    """A running span."""

    def set(self, attributes: Attributes) -> None:
        """Add or change attributes."""
        ...

    def failed(self, kind: str) -> None:
        """Mark the span as failed. Only the error's type is recorded, because the text may quote payloads."""
        ...


class Tracer(Protocol):
    """Creates spans; see ``sagas.handlers.otel``."""

    def span(
        self,
        name: str,
        attributes: Attributes,
        *,
        kind: str = "internal",
        parent: Mapping[str, str] | None = None,
        link: str = "",
    ) -> AbstractContextManager[Span]:
        """Create a span and make it active. If an exception is raised, the span is marked as failed, and the exception
        propagates.

        Args:
            name: the span's name. There should be few different names.
            attributes: the attributes. Names are from the semantic conventions, or start with ``sagas.``.
            kind: ``internal``, ``server``, ``producer`` or ``consumer``.
            parent: headers of the parent, a span in another process; the active span by default.
            link: ``traceparent`` of the span that caused this one.
        """
        ...

    def headers(self) -> dict[str, str]:
        """Return ``traceparent`` and any ``tracestate`` of the active span; empty if there is none."""
        ...


def about(message: Message) -> dict[str, str | int | bool]:
    """Attributes that name a message's saga and step."""
    return {
        "sagas.saga": message.saga,
        "sagas.saga_id": message.saga_id,
        "sagas.step": message.step,
        "sagas.undo": message.undo,
    }


@contextmanager
def handling(message: Message, tracer: Tracer) -> Generator[None]:
    """While a message is handled, send its saga's messages in the message's trace. If it has no trace, use the active
    span's."""
    trace = message.trace or trace_of(tracer.headers())
    token = _AT_HAND.set((message.saga_id, trace) if trace is not None else None)
    try:
        yield
    finally:
        _AT_HAND.reset(token)


class TracedSender:
    """Sends messages with their saga's trace.

    Args:
        sender: the queues.
        routes: the routes, which give spans the names of queues.
        journal: the journal, which has a saga's trace for messages that the supervisor or an operator sends.
        tracer: the tracer that creates the spans.
    """

    def __init__(self, sender: MessageSender, routes: Routes, journal: Journal, tracer: Tracer) -> None:
        self._sender = sender
        self._routes = routes
        self._journal = journal
        self._tracer = tracer

    def send(self, message: Message, delay: float = 0.0) -> None:
        """Send a message; see ``sagas.messaging.queues.Queues.send``."""
        now = self._routes.work.get(NOW) if message.codeless else None
        queue = now or self._routes.queue(message.saga, message.step).rsplit("/", 1)[-1]
        attributes = {**_messaging("send", queue), **about(message)}
        with self._tracer.span(f"send {queue}", attributes, kind="producer"):
            headers = self._tracer.headers()
            trace = message.trace
            at_hand = _AT_HAND.get()
            if trace is None and at_hand is not None and at_hand[0] == message.saga_id:
                trace = at_hand[1]
            if trace is None:
                with suppress(SagaError):  # the message is sent even without its trace
                    first = self._journal.entries(message.saga_id, [1]).get(1)
                    trace = trace_in(first.details.get("trace")) if first is not None else None
            trace = trace or trace_of(headers)
            if trace is not None:
                linked = Trace(trace.saga, trace.state, headers.get("traceparent", ""))
                message = replace(message, trace=linked)
            self._sender.send(message, delay)

    def send_all(self, messages: Sequence[Message]) -> None:
        """Send messages, each with a separate span."""
        for message in messages:
            self.send(message)


def _messaging(operation: str, queue: str) -> dict[str, str]:
    return {
        "messaging.system": "aws_sqs",
        "messaging.operation.type": operation,
        "messaging.operation.name": operation,
        "messaging.destination.name": queue,
    }


def received(message: Message, queue: str) -> dict[str, str | int | bool]:
    """Attributes of the span that handles a message."""
    return {
        **_messaging("process", queue),
        "messaging.message.id": message.message_id,
        "messaging.message.conversation_id": message.correlation_id,
        "sagas.receives": message.receives,
        **about(message),
    }


class TracedAttempt(IdempotentAttempt):
    """An attempt with separate spans for claim, code and commit. The code's span is active while user code runs."""

    def __init__(
        self,
        services: AttemptServices,
        saga_type: SagaType,
        message: Message,
        invocation: Invocation,
        course: Course,
        *,
        tracer: Tracer,
    ) -> None:
        super().__init__(services, saga_type, message, invocation, course)
        self._tracer = tracer

    def claim(self) -> SagaState | None:
        """Claim the saga; see :meth:`sagas.engine.attempt.attempt.Attempt.claim`."""
        with self._tracer.span("claim", about(self._message)) as span:
            held = super().claim()
            span.set({"sagas.claimed": held is not None})
            return held

    def execute(self, held: SagaState) -> str | None:
        """Run the code; see :meth:`sagas.engine.attempt.attempt.Attempt.execute`."""
        message = self._message
        step = held.steps[self._message.index]
        attributes = about(message) | {"sagas.attempt": step.undo_attempts.made if message.undo else step.attempts.made}
        what = "undo" if message.undo else "step"
        with self._tracer.span(f"{what} {message.saga}.{message.step}", attributes) as span:
            try:
                return super().execute(held)
            except Skipped as error:  # nothing has failed
                skipped = error
                span.set({"sagas.skipped": True})
        raise skipped

    def _code_begins(self, held: SagaState) -> None:
        if self._context is not None:
            self._context.trace = self._tracer.headers
        super()._code_begins(held)

    def _commit(self, held: SagaState, fact: ev.Fact, payload: str | None, details: dict[str, Any]) -> Committed:
        with self._tracer.span("commit", {**about(self._message), "sagas.action": fact.action}) as span:
            committed = super()._commit(held, fact, payload, details)
            span.set({"sagas.status": committed.state.status.value})
            return committed


def traced_attempts(
    tracer: Tracer,
) -> Callable[[AttemptServices, SagaType, Message, Invocation, Course], TracedAttempt]:
    """Return a factory of attempts with spans."""
    return lambda services, saga_type, message, invocation, course: TracedAttempt(
        services, saga_type, message, invocation, course, tracer=tracer
    )
