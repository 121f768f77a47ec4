"""The format of what is stored and sent, so that two versions of this library can work on the same sagas.

Control items, journal entries, signals and messages carry this number; what has none counts as 1. Code that meets a
higher one leaves the saga alone and comes back later: a newer version is deployed, or was. A release that changes a
format first only reads the new one; the next writes it.
"""

from __future__ import annotations

from sagas.errors import Unavailable

FORMAT = 1
"""The highest that this version reads, and what it writes. Control items leave it out."""


class NewerFormat(Unavailable):
    """This was written by a newer version of the library. It waits for that version; no attempt, no receive is used.

    Args:
        what: what was met, for the log: names, no content.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} was written by a newer version of lambda-sagas", retry_after=60)


def check_format(found: object, what: str) -> None:
    """Let what this version can read pass."""
    if isinstance(found, int | float) and not isinstance(found, bool) and found > FORMAT:
        raise NewerFormat(what)
