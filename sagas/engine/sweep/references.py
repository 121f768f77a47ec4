"""Finds the objects that a saga's request and results name. If that is unclear, an object counts as named.

A result may name an object by its URI, its URL, or its file name alone. The name of a folder stands for all files in
it, and names may be assembled from parts. So a file counts as named in two cases: a text or number in request or
results contains the file name up to its first dot, or a text ends with the saga's folder. Case and percent-encoding
make no difference.
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

_FILE = re.compile(r"/+[^/*?\s]")
"""Follows a saga's id in the key of a file. A pattern with the id itself would be compiled for each saga."""
_MEMBERS = {member.name for member in fields(S3Object)}


def unnamed(
    saga_id: str, filenames: Collection[str], entries: Sequence[Entry], load: Callable[[Entry], Entry]
) -> set[str]:
    """Return the files of a saga that none of its payloads names."""
    remaining = {filename: _folded(filename.split(".", 1)[0] or filename) for filename in filenames}
    for entry in sorted(entries, key=lambda entry: entry.payload is None):
        payload = load(entry).payload
        if payload is None:  # the saga was purged in the meantime
            return set()
        for text in _texts(json.loads(payload)):
            # The text, in all forms that are treated alike.
            forms = (text, unquote(text), unquote_plus(text)) if "%" in text or "+" in text else (text,)
            plain = _folded("\n".join(forms))
            if _names_folder(plain, saga_id):
                return set()
            remaining = {filename: stem for filename, stem in remaining.items() if stem not in plain}
            if not remaining:
                return set()
    return set(remaining)


def objects_in(value: Any) -> Iterator[tuple[str, str]]:
    """Yield bucket and key of each part of a result that is, or looks like, an :class:`S3Object`."""
    remaining: list[Any] = [value]
    while remaining:
        value = remaining.pop()
        if isinstance(value, list):
            remaining += reversed(cast("list[Any]", value))
        elif isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            bucket = members.get("bucket")
            key = members.get("key")
            alike = members.keys() <= _MEMBERS or members.keys() >= _MEMBERS
            if alike and isinstance(bucket, str) and isinstance(key, str) and bucket and key:
                yield bucket, key
            else:
                remaining += reversed(members.values())


def _names_folder(text: str, saga_id: str) -> bool:
    """Whether a text has the saga's id without a file's name behind it."""
    at = text.find(saga_id)
    while at >= 0:
        end = at + len(saga_id)
        if not _FILE.match(text, end):
            return True
        at = text.find(saga_id, end)
    return False


def _folded(text: str) -> str:
    return text if text.isascii() and text.islower() else unicodedata.normalize("NFC", text).casefold()


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts and numbers in a JSON value, including the names of members."""
    remaining: list[Any] = [value]
    while remaining:
        value = remaining.pop()
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
                remaining += members.values()
            case _:
                remaining += cast("list[Any]", value)
