"""Texts, times and spans as people read them, on the command line and in the console."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sagas.core.times import epoch


def plain(text: str) -> str:
    """Return ``text`` as one line that does nothing to a terminal but show."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(shown.split())


def end_of(saga: Mapping[str, Any]) -> str:
    """Return when a saga ended; of one that is not over, when it changed last."""
    return saga["ended_at"] or saga["updated_at"]


def moment(text: str) -> str:
    """Return ``2026-11-21 08:44:42 UTC`` for an ISO 8601 time in UTC."""
    return f"{text[:10]} {text[11:19]} UTC"


def clock_time(text: str) -> str:
    """Return ``08:44:42.123`` for an ISO 8601 time in UTC with milliseconds."""
    return text[11:23]


def span(seconds: float) -> str:
    """Return a span with one or two units: ``0.12 s``, ``12.3 s``, ``2 min 5 s``, ``3 h 20 min``, ``2 d 4 h``."""
    seconds = max(seconds, 0.0)
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    for size, unit, smaller, part in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = int(seconds % size // smaller)
            return f"{int(seconds // size)} {unit}" + (f" {rest} {part}" if rest else "")
    raise AssertionError("unreachable")


def age(seconds: float) -> str:
    """Return a span in one unit, as long ones are told: ``8 s``, ``3 min``, ``5 h``, ``12 d``."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(max(seconds, 0.0))} s"


def ago(text: str | None, now: float) -> str:
    """Return ``3 min ago`` for an ISO 8601 time in UTC; nothing if it is not known. ``now``: epoch seconds."""
    return f"{age(now - epoch(text))} ago" if text else ""


def between(begin: str | None, end: str | None) -> str:
    """Return the span between two ISO 8601 times; nothing if one is not known."""
    return span(epoch(end) - epoch(begin)) if begin and end else ""
