"""The trace of a saga, as its messages carry it: in the form of W3C's Trace Context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

_Header = Annotated[str, msgspec.Meta(max_length=512)]


class Trace(msgspec.Struct, frozen=True):
    """Which trace a saga belongs to. What is no trace context is passed over: a message never fails by it.

    Args:
        saga: ``traceparent`` of the saga's start, which all its spans have as their parent.
        state: ``tracestate`` of it.
        sent: ``traceparent`` of the span that sent this message; empty as long as it was not sent.
    """

    saga: _Header
    state: _Header = ""
    sent: _Header = ""

    @property
    def carrier(self) -> dict[str, str]:
        """The headers of the saga's start."""
        return {"traceparent": self.saga, "tracestate": self.state}


def trace_in(details: object) -> Trace | None:
    """Read the trace from what a first entry keeps of it; ``None`` where there is none."""
    try:
        return msgspec.convert(details, Trace)
    except msgspec.ValidationError:
        return None


def trace_of(headers: Mapping[str, str]) -> Trace | None:
    """Return the trace that begins with the span of these headers; ``None`` without one."""
    return Trace(headers["traceparent"], headers.get("tracestate", "")) if "traceparent" in headers else None
