"""The names of S3 objects in the archive. Some objects cannot be archived."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


def archive_names(keys: Sequence[str]) -> list[str]:
    """Return the path in the archive for each key, which is the key without leading slashes.

    Raises:
        ValueError: a key occurs twice, cannot be unpacked safely, or would overwrite another key when unpacked. S3
            distinguishes ``A``, ``a`` and the two ways to write ``é``; many file systems do not.
    """
    names = [_archive_name(key) for key in keys]
    taken: dict[str, str] = {}
    for key, name in zip(keys, names, strict=True):
        folded = _folded(name)
        if folded in taken:
            other = taken[folded]
            raise ValueError(
                f"{key!r} occurs twice" if other == key else f"{key!r} and {other!r} collide in the archive"
            )
        taken[folded] = key
    _refuse_file_as_folder(taken)
    return names


def _archive_name(key: str) -> str:
    name = key.lstrip("/")
    unsafe = {"", ".", ".."} & set(name.split("/")) or any(ord(c) < 32 or c in "\\\x7f" for c in name)
    if unsafe:
        raise ValueError(f"{key!r} cannot be the path of a file in an archive")
    return name


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _refuse_file_as_folder(taken: dict[str, str]) -> None:
    for folded, key in taken.items():
        parts = folded.split("/")
        for depth in range(1, len(parts)):
            file = taken.get("/".join(parts[:depth]))
            if file is not None:
                raise ValueError(f"{file!r} is a file, and the folder of {key!r}")
