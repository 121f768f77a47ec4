"""Epoch seconds to ISO 8601 in UTC with milliseconds, and back. Such strings sort as the times they stand for."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

_AGO = re.compile(r"(\d{1,6})([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def iso(seconds: float) -> str:
    """Return ``2026-11-21T08:44:42.123Z`` for epoch seconds."""
    whole, milliseconds = divmod(round(round(seconds, 3) * 1000), 1000)
    return f"{_to_the_second(whole)}.{milliseconds:03d}Z"


@lru_cache(maxsize=64)
def _to_the_second(seconds: int) -> str:
    # A step writes 15 times, most of them within a second or two of each other.
    return datetime.fromtimestamp(seconds, UTC).isoformat().removesuffix("+00:00")


def epoch(text: str) -> float:
    """Return epoch seconds, to the millisecond, for what :func:`iso` wrote."""
    return round(datetime.fromisoformat(text).timestamp(), 3)


def so_long_ago(text: str, now: float) -> str | None:
    """Return the time that ``90s``, ``30m``, ``2h`` or ``3d`` ago was, as :func:`iso` does; ``None`` for other texts.
    ``now``: epoch seconds."""
    ago = _AGO.fullmatch(text)
    return None if ago is None else iso(now - int(ago[1]) * _UNITS[ago[2]])
