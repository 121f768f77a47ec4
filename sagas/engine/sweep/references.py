"""Whether what a saga has stored names an object, where a sweep asks; and which ones it names as such.

Where it cannot be told whether an object is named, it is.

A result may name an object in full, by its URI or URL, by its file name alone, or by its folder, which stands for all
in it; and the name may have been put together from a part of it. So a file is named when any text or number of the
request or of a result holds what comes before the first dot of its name, or when a text ends with the saga's folder.
Letters of either case are the same, and so are percent-encoded ones.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import fields
from typing import Any, cast
from urllib.parse import unquote, unquote_plus

from sagas.authoring.context import S3Object
from sagas.store.journal.entries import Entry

_MEMBERS = {one.name for one in fields(S3Object)}


def unnamed(
    saga_id: str, filenames: Collection[str], entries: Sequence[Entry], load: Callable[[Entry], Entry]
) -> set[str]:
    """Return the files of a saga that none of its payloads names."""
    left = {filename: _folded(filename.split(".", 1)[0] or filename) for filename in filenames}
    folder = re.compile(rf"{re.escape(saga_id)}(?!/+[^/*?\s])")
    for entry in sorted(entries, key=lambda entry: entry.payload is None):
        payload = load(entry).payload
        if payload is None:  # it was purged meanwhile
            return set()
        for text in _texts(json.loads(payload)):
            # Every form of it that may stand for the same name, one after the other.
            forms = (text, unquote(text), unquote_plus(text)) if "%" in text or "+" in text else (text,)
            plain = _folded("\n".join(forms))
            if folder.search(plain):
                return set()
            left = {filename: stem for filename, stem in left.items() if stem not in plain}
            if not left:
                return set()
    return set(left)


def objects_in(value: Any) -> Iterator[tuple[str, str]]:
    """Yield bucket and key of each :class:`S3Object` in a result, of classes derived from it, and of what looks like
    one."""
    left: list[Any] = [value]
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += reversed(cast("list[Any]", value))
        elif isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            bucket, key = members.get("bucket"), members.get("key")
            alike = members.keys() <= _MEMBERS or members.keys() >= _MEMBERS
            if alike and isinstance(bucket, str) and isinstance(key, str) and bucket and key:
                yield bucket, key
            else:
                left += reversed(members.values())


def _folded(text: str) -> str:
    return text if text.isascii() and text.islower() else unicodedata.normalize("NFC", text).casefold()


def _texts(value: Any) -> Iterator[str]:
    """All texts and numbers in JSON, names of members included."""
    left: list[Any] = [value]
    while left:
        value = left.pop()
        match value:
            case str():
                yield value
            case bool() | None:
                pass
            case int() | float():
                yield str(value)
            case dict():
                members = cast("dict[str, Any]", value)
                yield from members
                left += members.values()
            case _:
                left += cast("list[Any]", value)
