"""Marks: a line for each invocation of a function, in one file that all functions write and the driver reads.

That is how time and the end of a saga are seen, the same way for all variants and without a request to anything.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

_NAME = "marks.jsonl"


@dataclass(frozen=True, slots=True)
class Mark:
    """An invocation that has ended.

    Args:
        variant: whose function it was.
        role: what the function is for.
        saga_ids: of the sagas it was about.
        begun: monotonic seconds, which all processes of a machine share.
        ended: likewise.
        cpu: seconds of processor time that its process used in that time, in user and system mode.
    """

    variant: str
    role: str
    saga_ids: tuple[str, ...]
    begun: float
    ended: float
    cpu: float


class Pen:
    """Writes marks.

    Args:
        directory: of the file.
    """

    def __init__(self, directory: Path) -> None:
        self._file = os.open(directory / _NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, mark: Mark) -> None:
        """Add a mark. Lines of several processes do not mix, as each is written at once."""
        os.write(self._file, json.dumps(asdict(mark)).encode() + b"\n")


class Eye:
    """Reads marks, each once.

    Args:
        directory: of the file.
    """

    def __init__(self, directory: Path) -> None:
        path = directory / _NAME
        path.touch()
        self._file = path.open("rb")

    def new(self) -> Iterator[Mark]:
        """Yield the marks since the last call."""
        while line := self._file.readline():
            if not line.endswith(b"\n"):
                self._file.seek(-len(line), os.SEEK_CUR)
                return
            fields = json.loads(line)
            yield Mark(**fields | {"saga_ids": tuple(fields["saga_ids"])})
