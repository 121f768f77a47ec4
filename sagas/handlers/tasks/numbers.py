"""Numbers in events."""

from __future__ import annotations

import math
from typing import Any


def is_number(value: Any) -> bool:
    """Return whether an event's value is a finite number. Some JSON readers also accept NaN and infinities."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, int) or math.isfinite(value)
