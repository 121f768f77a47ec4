"""What an ``Idempotency-Key`` may look like: the API checks it, and the client before it sends one."""

from __future__ import annotations

LONGEST_KEY = 256
"""Characters it may have."""
KEY_PATTERN = r"^[!-~]([ -~]*[!-~])?$"
"""No others: HTTP names no encoding for them, so that one key would arrive as several, and it cuts spaces off."""
