"""How long a message can wait: the limits of SQS, and the backoff after a failure."""

from __future__ import annotations

LONGEST_DELAY = 900
"""The limit of SQS for ``DelaySeconds``."""
LONGEST_BACKOFF = 60.0
"""The most seconds between two tries of a message that could not be handled."""
LONGEST_HIDING = 41_000
"""In seconds, with a margin: SQS hides a message for at most 12 hours from when it was received."""


def backoff(tries: int, chance: float, longest: float = LONGEST_BACKOFF) -> float:
    """Return the seconds until the next try: about one second, then twice as long each time, at most ``longest``."""
    return min(2.0 ** min(tries - 1, 10), longest) * (1 + chance) / 2
