"""Epoch seconds to ISO 8601 in UTC with milliseconds, and back. Such strings sort as the times they stand for."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

_AGO = re.compile(r"(\d{1,6})([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@lru_cache(maxsize=512)
def iso(seconds: float) -> str:
    """Return ``2026-11-21T08:44:42.123Z`` for epoch seconds."""
    text = datetime.fromtimestamp(round(seconds, 3), UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def epoch(text: str) -> float:
    """Return epoch seconds, to the millisecond, for what :func:`iso` wrote."""
    return round(datetime.fromisoformat(text).timestamp(), 3)


def so_long_ago(text: str, now: float) -> str | None:
    """Return the time that ``90s``, ``30m``, ``2h`` or ``3d`` ago was, as :func:`iso` does; ``None`` for other texts.

    Args:
        text: how long ago.
        now: epoch seconds.
    """
    ago = _AGO.fullmatch(text)
    return None if ago is None else iso(now - int(ago[1]) * _UNITS[ago[2]])
