"""The format version of stored data and messages. With it, two versions of this library can work on the same sagas.

Control items, journal entries, signals and messages contain this number. If it is missing, it is 1. Code that meets a
higher number leaves the saga alone and tries again later, because a newer version is or was deployed. A release that
changes a format only reads the new format. The next release writes it.
"""

from __future__ import annotations

from sagas.errors import Unavailable

FORMAT = 1
"""The highest format that this version reads, and the format that it writes. Control items omit it."""


class NewerFormat(Unavailable):
    """A newer version of the library wrote the data. The saga waits for that version, and uses up no attempt or
    receive.

    Args:
        what: the kind of data, for the log. It contains no payload.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} was written by a newer version of lambda-sagas", retry_after=60)


def check_format(version: object, what: str) -> None:
    """Raise :class:`NewerFormat` if this release cannot read a format version."""
    if isinstance(version, int | float) and not isinstance(version, bool) and version > FORMAT:
        raise NewerFormat(what)
