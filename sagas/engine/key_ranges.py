"""Halving a range of keys of which only the listing is known.

S3 lists forward only, and tells neither how many keys there are nor which is the last. But it answers what comes first
after a key, and the keys of sagas begin with their ids: 32 hexadecimal digits, whose order is that of numbers. So the
middle of a range is guessed as a number, and moved down as long as nothing comes after it. Ids that an idempotency key
decides are spread evenly, the others begin with the time: either way both halves have keys, if not as many.
"""

from __future__ import annotations

from collections.abc import Callable

_DIGITS = 32
_PROBES = 40
"""Requests at most. Ids of which all were made this minute agree in their first 28 bits."""


def middle(first_after: Callable[[str], str | None], prefix: str, after: str, until: str) -> str | None:
    """Return a key between two, with keys on both sides of it; ``None`` if there is none to be found.

    Args:
        first_after: the first key after another, if there is one: a request each.
        prefix: of all keys.
        after: the range begins after this key; empty at the beginning of the prefix.
        until: the last key that may be in it; empty at the end of the prefix.
    """
    first = first_after(after)
    if first is None or (until and first >= until):
        return None
    low = _number(first.removeprefix(prefix))
    high = _number(until.removeprefix(prefix)) if until else 16**_DIGITS
    for _ in range(_PROBES):
        between = (low + high) // 2
        key = prefix + _text(between)
        if between <= low or not first < key:
            return None
        following = first_after(key)
        if following is not None and (not until or following <= until):
            return key if not until or key < until else None
        high = between
    return None


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
