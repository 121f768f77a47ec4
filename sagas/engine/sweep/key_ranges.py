"""Splits a range of S3 keys in two, with ListObjectsV2 as the only source.

S3 lists only forward. It reports neither the number of keys nor the last key, but it returns the first key after any
text. A saga's keys begin with its id: 32 hexadecimal digits, which sort like numbers. So numbers at growing distances
from the beginning are tried until no key follows. The last number is the end of the range, and the number half-way is
the middle. Ids derived from an idempotency key are spread evenly; the others begin with the time. So both halves have
keys.
"""

from __future__ import annotations

from collections.abc import Callable

_DIGITS = 32
_CLOSER = 3
"""This many requests narrow the end down, from a power of two to a sixteenth of the range."""


def middle(first_after: Callable[[str], str | None], prefix: str, after: str, until: str) -> str | None:
    """Return a key in the range with keys on both sides of it; ``None`` if ids do not separate the keys."""
    first = first_after(after)
    if first is None or (until and first >= until):
        return None
    low = _number(first.removeprefix(prefix))

    def more_after(number: int) -> bool:
        key = prefix + _text(number)
        following = first_after(key) if number < 16**_DIGITS and (not until or key < until) else None
        return following is not None and (not until or following <= until)

    least, most = -1, 4 * _DIGITS  # exponents of two: keys follow after the first distance, none after the second
    while most - least > 1:
        power = (least + most) // 2
        least, most = (power, most) if more_after(low + 2**power) else (least, power)
    if least < 0:
        return None
    near, far = low + 2**least, low + 2**most
    for _ in range(_CLOSER):
        between = (near + far) // 2
        near, far = (between, far) if more_after(between) else (near, between)
    key = prefix + _text(max((low + near) // 2, low + 1))
    return key if first < key else None


def _number(name: str) -> int:
    """Return the id, as a number, that sorts closest to a name."""
    digits, filling = "", "0"
    for character in name.replace("-", "")[:_DIGITS]:
        if character in "0123456789abcdef":
            digits += character
            continue
        # All other characters sort before the digits, between digits and letters, or after the letters.
        filling = "0" if character < "a" else "f"
        digits += "a" if "9" < character < "a" else ""
        break
    return int((digits + filling * _DIGITS)[:_DIGITS], 16)


def _text(number: int) -> str:
    digits = f"{number:0{_DIGITS}x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
