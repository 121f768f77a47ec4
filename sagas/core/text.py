"""Formats times, durations and details, cleans texts for AWS and for terminals, and reads JSON of senders.

Stored times are ISO 8601 in UTC with milliseconds, so they sort by time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

_LENGTH = re.compile(r"([0-9]{1,9})([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LONGEST = 3_660 * 86_400
"""The longest duration in seconds, ten years. A time that is so far in the past or future is a valid date."""
DETAILS = ("reason", "action", "cause", "fraction", "next_attempt_at")
"""The details of audit entries that tables have room for, besides the error."""


@lru_cache(maxsize=64)  # a step stores 15 timestamps, most of them equal
def iso(seconds: float) -> str:
    """Return ``2026-11-21T08:44:42.123Z`` for epoch seconds."""
    whole, milliseconds = divmod(round(round(seconds, 3) * 1000), 1000)
    text = datetime.fromtimestamp(whole, UTC).isoformat().removesuffix("+00:00")
    return f"{text}.{milliseconds:03d}Z"


@lru_cache(maxsize=64)
def epoch(text: str) -> float:
    """Return epoch seconds with milliseconds for a time in the format of :func:`iso`."""
    return round(datetime.fromisoformat(text).timestamp(), 3)


def seconds_of(text: str) -> float | None:
    """Return the seconds of ``90s``, ``15m``, ``2h`` or ``12d``; ``None`` for other texts, and above 3660 days."""
    length = _LENGTH.fullmatch(text)
    seconds = float(int(length[1]) * _UNITS[length[2]]) if length is not None else None
    return None if seconds is None or seconds > _LONGEST else seconds


def so_long_ago(text: str, now: float) -> str | None:
    """Return the time that was ``90s``, ``15m``, ``2h`` or ``12d`` ago, in the format of :func:`iso`; ``None`` for
    other texts.
    ``now``: epoch seconds."""
    seconds = seconds_of(text)
    return None if seconds is None else iso(now - seconds)


def outside_xml(text: str) -> bool:
    """Whether a text has a character that SQS refuses in bodies and attributes, and that S3 refuses in lists of
    keys."""
    # A pattern with these ranges takes 4 ms to compile, a quarter of a function's first invocation.
    return not text.isprintable() and not all(map(_in_xml, text))


def _in_xml(character: str) -> bool:
    if character < " ":
        return character in "\t\n\r"
    return not "\ud800" <= character <= "\udfff" and character not in "\ufffe\uffff"


def sendable(text: str) -> str:
    """Return equivalent JSON text that SQS accepts.

    JSON already escapes control characters and lone surrogates, but not two other characters that SQS rejects.
    """
    return text.replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")


def parse_json(text: str) -> Any:
    """Return the value of a JSON text that somebody has sent. Raises ``json.JSONDecodeError`` if it is not JSON, and
    another ``ValueError`` if readers may disagree on its value, or cannot read it: it has ``NaN``, the same key twice
    in an object, a number of more than 4,300 digits, or too many levels."""
    try:
        return json.loads(text, parse_constant=_constant, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (json.JSONDecodeError, _Unclear):
        raise
    except ValueError:  # Python converts no longer number
        raise ValueError("a number has more than 4,300 digits") from None


class _Unclear(ValueError):
    """Readers may disagree on the value of a JSON text."""


def _constant(name: str) -> Any:
    raise _Unclear(f"{name} is not a JSON value")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in values if names.count(name) > 1)
        raise _Unclear(f"an object has the key {plain(twice[:64])!r} twice")
    return values


def plain(text: str) -> str:
    """Return ``text`` as one line, without the control characters on which a terminal would act."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(printable.split())


def details_text(details: Mapping[str, Any]) -> str:
    """Return the details of an audit entry that tables have room for, in a line."""
    error: Mapping[str, str] | None = details.get("error")
    texts = [f"{error.get('type')}: {error.get('message')}"] if error else []
    return ", ".join(texts + [f"{name.replace('_', ' ')}: {details[name]}" for name in DETAILS if details.get(name)])


def end_of(saga: Mapping[str, Any]) -> str:
    """Return when a saga ended; for a saga in flight, when it last changed."""
    return saga["ended_at"] or saga["updated_at"]


def moment(text: str) -> str:
    """Return ``2026-11-21 08:44:42 UTC`` for an ISO 8601 time in UTC."""
    return f"{text[:10]} {text[11:19]} UTC"


def day(text: str) -> str:
    """Return ``21 Nov`` for an ISO 8601 time."""
    at = datetime.fromisoformat(text)
    return f"{at.day} {at:%b}"


def clock_time(text: str) -> str:
    """Return ``08:44:42.123`` for an ISO 8601 time in UTC with milliseconds."""
    return text[11:23]


def span(seconds: float) -> str:
    """Return a duration with one or two units: ``0.12 s``, ``12.3 s``, ``2 min 5 s``, ``3 h 20 min``, ``2 d 4 h``."""
    seconds = max(seconds, 0.0)
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    for size, unit, smaller, part in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            remaining = int(seconds % size // smaller)
            return f"{int(seconds // size)} {unit}" + (f" {remaining} {part}" if remaining else "")
    raise AssertionError("unreachable")


def age(seconds: float) -> str:
    """Return a duration, rounded down to one unit: ``8 s``, ``3 min``, ``5 h``, ``12 d``."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(max(seconds, 0.0))} s"


def ago(text: str | None, now: float) -> str:
    """Return ``3 min ago`` for an ISO 8601 time in UTC; empty if it is unknown. ``now``: epoch seconds."""
    return f"{age(now - epoch(text))} ago" if text else ""


def between(begin: str | None, end: str | None) -> str:
    """Return the duration between two ISO 8601 times; empty if one is unknown."""
    return span(epoch(end) - epoch(begin)) if begin and end else ""
