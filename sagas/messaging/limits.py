"""Limits for the time that a message waits: SQS's own limits, and the backoff after failures."""

from __future__ import annotations

LONGEST_DELAY = 900
"""SQS's limit for ``DelaySeconds``."""
LONGEST_BACKOFF = 60.0
"""Maximum seconds between two tries of a message that could not be handled."""
LONGEST_HIDING = 41_000
"""Maximum seconds for which a message is hidden. SQS's limit is 12 hours from the receive; this leaves a margin."""


def backoff(tries: int, chance: float, longest: float = LONGEST_BACKOFF) -> float:
    """Return the seconds until the next try: about one at first, doubled with each try, at most ``longest``."""
    return min(2.0 ** min(tries - 1, 10), longest) * (1 + chance) / 2
