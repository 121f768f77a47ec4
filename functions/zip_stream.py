"""A zip archive as a stream of bytes. Memory holds only the current chunk, and a directory record per entry.

The standard library's ``zipfile`` can write to files that cannot seek. The size and checksum of an entry then follow
its data (a *data descriptor*, APPNOTE 4.3.9), and the announced size determines whether the entry uses zip64. This
module adds a file object whose content can be taken out while it is written.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# Zip's epoch. With real timestamps, the archive of a retry would differ from the first archive.
_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_READABLE_FILE = 0o100644 << 16


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """A file to archive.

    Args:
        name: the path in the archive, with forward slashes.
        size: the length in bytes, which decides whether the entry needs zip64.
        chunks: the content. It is read once, when its turn comes.
    """

    name: str
    size: int
    chunks: Iterable[bytes]


def stream_zip(entries: Iterable[ArchiveEntry]) -> Iterator[bytes]:
    """Yield the archive of ``entries``, in pieces of about the size of the chunks.

    Equal entries always give equal bytes.

    Raises:
        ValueError: an entry is longer or shorter than its announced size.
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
    info.create_system = _UNIX  # zipfile would write the current system
    info.external_attr = _READABLE_FILE
    return info


def in_parts(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Regroup ``chunks`` into parts of exactly ``size`` bytes. Only the last part may be shorter, and no part is
    empty."""
    buffer = bytearray()
    for chunk in chunks:
        buffer += chunk
        while len(buffer) >= size:
            yield bytes(memoryview(buffer)[:size])
            del buffer[:size]
    if buffer:
        yield bytes(buffer)


class _Sink:
    """A file without ``seek``, so zipfile writes it from start to end."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes, /) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing: zipfile calls this, but there is nothing to flush."""

    def close(self) -> None:
        """Do nothing: the types of zipfile require this method, but zipfile never calls it."""

    def take(self) -> bytes:
        """Return the bytes that were written since the last call."""
        taken = b"".join(self._pieces)
        self._pieces.clear()
        return taken
