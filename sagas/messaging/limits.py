"""How long a message may wait: SQS's limits, and what comes back after a failure."""

from __future__ import annotations

LONGEST_DELAY = 900
"""Seconds: SQS's limit on ``DelaySeconds``."""
LONGEST_BACKOFF = 60.0
"""Seconds between two tries of a message that could not be handled, at most."""
LONGEST_HIDING = 41_000
"""Seconds: SQS hides a message for 12 hours at most, counted from when it was received; stay clear of it."""


def backoff(tries: int, chance: float, longest: float = LONGEST_BACKOFF) -> float:
    """Return after how many seconds to try again what failed: a second, then twice as long each time, up to a minute.
    ``longest``: seconds at most."""
    return min(2.0 ** min(tries - 1, 10), longest) * (1 + chance) / 2
