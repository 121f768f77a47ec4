"""Hides values in texts, however the texts spell them.

A value is found as it is; escaped, as ``repr``, JSON, URLs and HTML do, also several times over; behind the margin of a
traceback; line by line; in base64 and hexadecimal; and as Python writes the value that its text stands for, such as a
date. It is not found in other formats, in other cases, or if only its middle or its end is quoted.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import quote
from uuid import UUID

import msgspec

RULE = 1
"""The number of this rule. A rule that finds more has a higher number, so texts that were written under an older rule
are recognized."""
HIDDEN = "***"
"""What is shown in place of a hidden value."""
SHORTEST = 4
"""Values with fewer characters than this are not searched for, because they would be found everywhere."""
_ROOM = 12
"""The maximum number of characters that spell a single one. A text that spells a value longer is cut within it."""
_LAYERS = 6
"""How often a text may be escaped: JSON in a URL in JSON has three layers."""

_ESCAPE = r"""(?x)
      \\+u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\+u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})
    | \\+(?:u(?P<four>[0-9a-fA-F]{4}) | U(?P<eight>000[0-9a-fA-F]{5}|0010[0-9a-fA-F]{4}))
    | (?:\\+x|%(?:25)*)(?P<octet>[0-9a-fA-F]{2})
    | &(?:amp;)*(?:\#(?P<number>[0-9]{1,6}) | \#[xX](?P<hex>[0-9a-fA-F]{1,5}) | (?P<name>amp|lt|gt|quot|apos));
    | \\+(?P<letter>(?s:.)?)
"""
"""Patterns are compiled when they are first used, because most functions never hide a value in a text."""
_UTF_8 = "[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
"""Octets of one character, as characters: escapes do not say which of the two they are."""
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "a": "\a", "v": "\v", "0": "\0"}
_NAMES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_MARGIN = r"(?:\r\n?|\n)[ \t|]*"
_SPACE = r"[\s|]+"
_URL_SAFE = str.maketrans("-_", "+/")
_DIGITS = 400
"""Numbers with more digits than this are only searched for as they are in JSON."""
_DECODED = (date, datetime, time, timedelta, Decimal, UUID, bytes)
"""The types whose JSON is a text that Python writes otherwise."""


class _Reading:
    """A text as it is read: each character with the part of the original text that spells it."""

    def __init__(self, text: str, starts: list[int] | range, ends: list[int] | range) -> None:
        self.text = text
        self._starts = starts
        self._ends = ends

    @classmethod
    def of(cls, text: str) -> _Reading:
        """Return a text as it is."""
        return cls(text, range(len(text)), range(1, len(text) + 1))

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the part of the original text that spells the characters from ``start`` to ``end``."""
        return self._starts[start], self._ends[end - 1]

    def replaced(self, pattern: str, read: Callable[[re.Match[str]], list[tuple[str, int, int]]]) -> _Reading:
        """Return the text with other characters in place of each match. ``read`` returns them, each with the part of
        the match that spells it."""
        matches = [*re.finditer(pattern, self.text)]
        if not matches:
            return self
        parts = list[str]()
        starts = list[int]()
        ends = list[int]()
        last = 0
        for match in matches:
            parts.append(self.text[last : match.start()])
            starts += self._starts[last : match.start()]
            ends += self._ends[last : match.start()]
            for character, start, end in read(match):
                parts.append(character)
                starts.append(self._starts[start])
                ends.append(self._ends[end - 1])
            last = match.end()
        parts.append(self.text[last:])
        return _Reading("".join(parts), [*starts, *self._starts[last:]], [*ends, *self._ends[last:]])


def _unescaped(match: re.Match[str]) -> list[tuple[str, int, int]]:
    """Return the character that an escape stands for. Escaped backslashes and single ones are the same: none."""
    groups = {name: text for name, text in match.groupdict().items() if text is not None}
    match groups:
        case {"high": high, "low": low}:
            character = chr(0x10000 + ((int(high, 16) & 0x3FF) << 10 | int(low, 16) & 0x3FF))
        case {"hex": code} | {"octet": code} | {"four": code} | {"eight": code}:
            character = chr(int(code, 16))
        case {"number": code}:
            character = chr(int(code))
        case {"name": name}:
            character = _NAMES[name]
        case _:
            letter = groups.get("letter", "")
            character = _LETTERS.get(letter, letter)
    return [(character, *match.span())] if character else []


def _character(match: re.Match[str]) -> list[tuple[str, int, int]]:
    """Return the character whose UTF-8 the matched characters are."""
    try:
        return [(match[0].encode("latin-1").decode(), *match.span())]
    except UnicodeDecodeError:
        return [(character, at, at + 1) for at, character in enumerate(match[0], match.start())]


def _read(text: str) -> _Reading:
    """Return a text without escapes and margins."""
    reading = _Reading.of(text)
    for pattern, read in ((_ESCAPE, _unescaped), (_UTF_8, _character)):
        for _ in range(_LAYERS):
            reading = reading.replaced(pattern, read)
    return reading.replaced(_MARGIN, lambda margin: [("\n", *margin.span())])


def _spaced(reading: _Reading) -> _Reading:
    """Return a text in which a plus is a space, as in the query of a URL."""
    return reading.replaced(r"\+", lambda plus: [(" ", *plus.span())])


def _packed(reading: _Reading) -> _Reading:
    """Return a text without spaces, and with the usual letters of base64."""
    packed = reading.replaced(_SPACE, lambda spaces: [])
    packed.text = packed.text.translate(_URL_SAFE)
    return packed


class _Index:
    """Texts by their first characters.

    Args:
        values: are also found if only their beginning stands at the end of a text, which may have been cut there.
        forms: are found as a whole only.
    """

    def __init__(self, values: Iterable[str], forms: Iterable[str] = ()) -> None:
        self._by_start = dict[str, list[str]]()
        self._values = frozenset(values)
        searched = {text for text in (*self._values, *forms) if len(text) >= SHORTEST}
        for text in sorted(searched, key=len, reverse=True):
            self._by_start.setdefault(text[:SHORTEST], []).append(text)
        self.longest = max(map(len, searched), default=0)

    def found_in(self, reading: _Reading) -> Iterator[tuple[int, int]]:
        """Return the parts of the original text that spell what is searched for."""
        text = reading.text
        for at in range(len(text) - SHORTEST + 1 if self._by_start else 0):
            for found in self._by_start.get(text[at : at + SHORTEST], ()):
                if len(found) > len(text) - at and found in self._values and found.startswith(text[at:]):
                    yield reading.span(at, len(text))
                    return
                if text.startswith(found, at):
                    yield reading.span(at, at + len(found))
                    break


class Secrets:
    """Values that texts must not show.

    Args:
        values: the values as they are in JSON, numbers as texts.
    """

    def __init__(self, values: Iterable[str]) -> None:
        long = {value for value in values if len(value) >= SHORTEST}
        decoded = [each for value in long for each in _decoded(value)]
        texts = {line for value in long for line in _lines(value)}
        forms = _forms(long, decoded)
        self._plain = _Index(texts, forms)
        self._read = _Index(map(_read_as, texts), map(_read_as, forms))
        self._packed = _Index(_codes(long, decoded))

    def without(self, text: str, longest: int | None = None) -> str:
        """Return a text of at most ``longest`` characters with ``***`` in place of the values."""
        most = max(self._plain.longest, self._packed.longest)
        if longest is not None:
            text = text[: longest + _ROOM * most]  # what comes later is no part of a value that begins earlier
        if not most:
            return text
        read = _read(text)
        spans = [
            *self._plain.found_in(_Reading.of(text)),
            *self._read.found_in(_spaced(read)),
            *self._packed.found_in(_packed(read)),
        ]
        parts = list[str]()
        last = 0
        for start, end in sorted(spans):
            if start >= last:
                parts += (text[last:start], HIDDEN)
            last = max(last, end)
        return "".join((*parts, text[last:]))[:longest]


def _read_as(text: str) -> str:
    return _spaced(_read(text)).text


def _lines(value: str) -> Iterator[str]:
    """Return a value and each of its lines, which may be escaped, too."""
    yield value
    yield from map(str.strip, value.splitlines())
    yield from map(str.strip, _read(value).text.splitlines())


def _escaped(value: str) -> Iterator[str]:
    """Return a value as it stands in JSON, in Python and in URLs, without quotes."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    yield quote(value.encode(errors="surrogatepass"))


def _decoded(value: str) -> Iterator[Any]:
    """Return what a text may stand for in Python."""
    for type_ in _DECODED:
        try:
            yield msgspec.convert(value, type_)
        except (msgspec.MsgspecError, ValueError, ArithmeticError):
            continue


def _written(value: Any) -> Iterator[str]:
    """Return the texts that Python writes for a value."""
    match value:
        case bytes():
            yield repr(value)[2:-1]
            with suppress(ValueError):
                yield value.decode()
        case Decimal():
            if value.is_finite() and abs(value.adjusted()) < _DIGITS:
                yield from (str(value), f"{value:f}", f"{value:,f}", repr(float(value)))
                if value == value.to_integral_value():
                    yield from (str(int(value)), f"{int(value):,}", f"{int(value):_}")
        case datetime():
            moments = [value]
            with suppress(OverflowError):  # within a day of the first or the last year
                moments += [] if value.tzinfo is None else [value.astimezone(UTC)]
            yield from (text for moment in moments for text in (str(moment), repr(moment), moment.isoformat()))
        case UUID():
            yield from (str(value), value.hex)
        case _:
            yield from (str(value), repr(value))


def _forms(values: Iterable[str], decoded: Iterable[Any]) -> set[str]:
    """Return the texts that Python writes for values."""
    forms = {line for each in decoded for form in _written(each) for line in _lines(form)}
    # Of a short value of escapes, too few characters may remain to be searched for as they are read.
    forms |= {text for value in values if len(_read_as(value)) < SHORTEST for text in _escaped(value)}
    return {form for form in forms if len(form) >= SHORTEST}


def _codes(values: Iterable[str], decoded: Iterable[Any]) -> set[str]:
    """Return the hexadecimal digits of values, and the base64 that they have wherever they stand in other data."""
    raw = {text.encode(errors="surrogatepass") for value in values for text in _escaped(value)}
    raw |= {each for each in decoded if isinstance(each, bytes) and len(each) >= SHORTEST}
    codes = {each.hex() for each in raw} | {each.hex().upper() for each in raw}
    for before in range(3):
        first = (8 * before + 5) // 6  # the first letter that depends on the value alone
        encoded = ((b64encode(b"\0" * before + each).decode(), 8 * (before + len(each)) // 6) for each in raw)
        codes |= {text[first:last] for text, last in encoded}
    return codes
