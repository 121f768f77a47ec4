"""A zip archive as a stream of bytes: nothing is held but the chunk at hand and one line per entry for the directory.

The standard library's ``zipfile`` already knows how to write to something that cannot seek: sizes and checksum then
follow an entry's data instead of preceding it (a *data descriptor*, APPNOTE 4.3.9), and zip64 is chosen by the size
announced. Only a file object is missing whose content can be taken out while it is being written.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# Zip's epoch. Real timestamps would make a retried archive differ from the first one.
_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_READABLE_FILE = 0o100644 << 16


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """One file to be archived.

    Args:
        name: its path in the archive, with forward slashes.
        size: its length in bytes; decides whether it needs zip64.
        chunks: its content, read once, when the archive comes to it.
    """

    name: str
    size: int
    chunks: Iterable[bytes]


def stream_zip(entries: Iterable[ArchiveEntry]) -> Iterator[bytes]:
    """Yield the archive of ``entries``, in pieces of about the size of their chunks.

    The same entries give the same bytes, whenever and wherever it runs.

    Raises:
        ValueError: an entry turned out longer or shorter than it said.
    """
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in entries:
            yield from _stream_entry(archive, entry, sink)
    yield sink.take()


def _stream_entry(archive: zipfile.ZipFile, entry: ArchiveEntry, sink: _Sink) -> Iterator[bytes]:
    written = 0
    with archive.open(_header(entry), "w") as file:
        for chunk in entry.chunks:
            file.write(chunk)
            written += len(chunk)
            yield sink.take()
    if written != entry.size:
        raise ValueError(f"{entry.name!r} should have {entry.size} bytes and has {written}")


def _header(entry: ArchiveEntry) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(entry.name, _EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.file_size = entry.size
    info.create_system = _UNIX  # zipfile would write the system it runs on
    info.external_attr = _READABLE_FILE
    return info


def in_parts(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Regroup ``chunks`` into parts of exactly ``size`` bytes; the last one may be shorter, none is empty."""
    buffer = bytearray()
    for chunk in chunks:
        buffer += chunk
        while len(buffer) >= size:
            yield bytes(memoryview(buffer)[:size])
            del buffer[:size]
    if buffer:
        yield bytes(buffer)


class _Sink:
    """A file without ``seek``, so that zipfile writes it from start to end."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes, /) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """zipfile calls it; there is nothing to flush."""

    def close(self) -> None:
        """zipfile's types ask for it; it closes only what it opened itself."""

    def take(self) -> bytes:
        """Return what was written since the last call."""
        taken = b"".join(self._pieces)
        self._pieces.clear()
        return taken
