"""Numbers in events."""

from __future__ import annotations

import math
from typing import Any


def is_number(value: Any) -> bool:
    """Tell whether ``value``, of an event, is a number; NaN and the infinities, which some readers let in, are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, int) or math.isfinite(value)
