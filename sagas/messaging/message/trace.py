"""The trace of a saga in its messages, in the form of W3C's Trace Context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

_Header = Annotated[str, msgspec.Meta(max_length=512)]


class Trace(msgspec.Struct, frozen=True):
    """The trace of a saga. An invalid trace context is ignored, and never makes a message fail.

    Args:
        saga: the ``traceparent`` of the saga's start, which is the parent of all its spans.
        state: the ``tracestate`` of the saga's start.
        sent: the ``traceparent`` of the span that sent this message; empty before it is sent.
    """

    saga: _Header
    state: _Header = ""
    sent: _Header = ""

    @property
    def carrier(self) -> dict[str, str]:
        """The trace headers of the saga's start."""
        return {"traceparent": self.saga, "tracestate": self.state}


def trace_in(details: object) -> Trace | None:
    """Read the trace from the details of a first entry; ``None`` if there is none."""
    try:
        return msgspec.convert(details, Trace)
    except msgspec.ValidationError:
        return None


def trace_of(headers: Mapping[str, str]) -> Trace | None:
    """Return the trace that starts with the span in these headers; ``None`` if there is none."""
    return Trace(headers["traceparent"], headers.get("tracestate", "")) if "traceparent" in headers else None
