"""Epoch seconds to ISO 8601 in UTC with milliseconds, and back. Such strings sort as the times they stand for."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(seconds: float) -> str:
    """Return ``2026-11-21T08:44:42.123Z`` for epoch seconds."""
    text = datetime.fromtimestamp(round(seconds, 3), UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def epoch(text: str) -> float:
    """Return epoch seconds, to the millisecond, for what :func:`iso` wrote."""
    return round(datetime.fromisoformat(text).timestamp(), 3)
