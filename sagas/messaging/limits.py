"""SQS's limits on how long a message may wait."""

from __future__ import annotations

LONGEST_DELAY = 900
"""Seconds: SQS's limit on ``DelaySeconds``."""
LONGEST_BACKOFF = 60.0
"""Seconds between two tries of a message that could not be handled, at most."""
LONGEST_HIDING = 41_000
"""Seconds: SQS hides a message for 12 hours at most, counted from its receipt; stay clear of it."""
