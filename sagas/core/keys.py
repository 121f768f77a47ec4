"""What an ``Idempotency-Key`` and an ``X-Correlation-Id`` may look like: the API checks them, and the client before it
sends one."""

from __future__ import annotations

LONGEST_KEY = 256
"""Characters it may have."""
KEY_PATTERN = r"^[!-~]([ -~]*[!-~])?$"
"""No others: HTTP names no encoding for them, so that one key would arrive as several, and it cuts spaces off."""

LONGEST_CORRELATION_ID = 128
"""Characters a caller's correlation id may have; :data:`KEY_PATTERN` holds for it, too."""

LONGEST_CANCEL_NOTE = 500
"""Characters of the note that a cancel may have: until it is journaled, it is in the control item."""

LONGEST_NOTE = 4_000
"""Characters of any other note: a page of the audit trail, which shows a hundred of them, must fit into an answer."""
