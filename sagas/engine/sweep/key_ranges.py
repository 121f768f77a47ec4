"""Halving a range of keys of which only the listing is known.

S3 lists forward only, and tells neither how many keys there are nor which is the last. But it answers what comes first
after a key, and the keys of sagas begin with their ids: 32 hexadecimal digits, whose order is that of numbers. So the
end of the range is found by asking what comes after numbers at growing distances from its beginning, and its middle is
the number half-way. Ids that an idempotency key decides are spread evenly, the others begin with the time: either way
both halves have keys, if not as many.
"""

from __future__ import annotations

from collections.abc import Callable

_DIGITS = 32
_CLOSER = 3
"""Requests by which the end is found more closely than by a power of two: to a sixteenth of the range."""


def middle(first_after: Callable[[str], str | None], prefix: str, after: str, until: str) -> str | None:
    """Return a key between two, with keys on both sides of it; ``None`` if they cannot be told apart by ids."""
    first = first_after(after)
    if first is None or (until and first >= until):
        return None
    low = _number(first.removeprefix(prefix))

    def more_after(number: int) -> bool:
        key = prefix + _text(number)
        following = first_after(key) if number < 16**_DIGITS and (not until or key < until) else None
        return following is not None and (not until or following <= until)

    least, most = -1, 4 * _DIGITS  # of powers of two: there is more beyond the one, and nothing beyond the other
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
    """The number that an id stands for at which a name would be put."""
    digits, filling = "", "0"
    for character in name.replace("-", "")[:_DIGITS]:
        if character in "0123456789abcdef":
            digits += character
            continue
        # Everything but digits comes before them, between them and the letters, or after those.
        filling = "0" if character < "a" else "f"
        digits += "a" if "9" < character < "a" else ""
        break
    return int((digits + filling * _DIGITS)[:_DIGITS], 16)


def _text(number: int) -> str:
    digits = f"{number:0{_DIGITS}x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
