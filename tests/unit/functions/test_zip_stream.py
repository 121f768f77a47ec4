"""The archive is a valid zip, the same every time, whatever goes in; and nothing piles up."""

from __future__ import annotations

import io
import os
import tracemalloc
import zipfile
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.zip_stream import ArchiveEntry, in_parts, stream_zip

MIB = 2**20

contents = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\\"), min_size=1, max_size=20),
    st.lists(st.binary(max_size=300), max_size=4),
    max_size=6,
)


def entries(files: dict[str, list[bytes]]) -> Iterator[ArchiveEntry]:
    return (ArchiveEntry(name, sum(map(len, chunks)), chunks) for name, chunks in files.items())


@given(files=contents)
def test_what_goes_in_comes_out(files: dict[str, list[bytes]]) -> None:
    with zipfile.ZipFile(io.BytesIO(b"".join(stream_zip(entries(files))))) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == {n: b"".join(c) for n, c in files.items()}


@given(files=contents)
def test_the_same_entries_give_the_same_bytes(files: dict[str, list[bytes]]) -> None:
    assert b"".join(stream_zip(entries(files))) == b"".join(stream_zip(entries(files)))


def test_entries_carry_no_time_and_are_readable_by_all() -> None:
    with zipfile.ZipFile(io.BytesIO(b"".join(stream_zip([ArchiveEntry("a", 1, [b"x"])])))) as archive:
        info = archive.getinfo("a")
    assert info.date_time == (1980, 1, 1, 0, 0, 0)
    assert info.external_attr >> 16 == 0o100644


@pytest.mark.parametrize("size", [1, 3])
def test_an_entry_of_another_size_than_announced_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="should have"):
        list(stream_zip([ArchiveEntry("a", size, [b"xx"])]))


def test_large_entries_are_zip64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 10_000)
    content = os.urandom(20_000)
    raw = b"".join(stream_zip([ArchiveEntry("big", len(content), [content]), ArchiveEntry("small", 1, [b"x"])]))
    monkeypatch.undo()
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        assert archive.testzip() is None
        assert archive.read("big") == content
        assert archive.read("small") == b"x"
        assert archive.getinfo("big").extract_version == zipfile.ZIP64_VERSION


def test_nothing_piles_up() -> None:
    noise = os.urandom(MIB)
    tracemalloc.start()
    try:
        written = sum(map(len, stream_zip([ArchiveEntry("a", 16 * MIB, (noise for _ in range(16)))])))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert written > 16 * MIB
    assert peak < 4 * MIB, peak


@given(chunks=st.lists(st.binary(max_size=50)), size=st.integers(1, 20))
def test_parts_are_the_same_bytes_in_pieces_of_one_size(chunks: list[bytes], size: int) -> None:
    parts = list(in_parts(chunks, size))
    assert b"".join(parts) == b"".join(chunks)
    assert all(len(part) == size for part in parts[:-1])
    assert all(parts)
    assert all(len(part) <= size for part in parts)
