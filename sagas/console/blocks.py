"""The blocks of a page. Each is read alone, so one that cannot be read leaves the others as they are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

from sagas.errors import InvalidRequest, SagaError

T = TypeVar("T")


class Unread(NamedTuple):
    """A block that could not be read: its name, since when (UTC, to the minute), and why."""

    name: str
    since: str
    why: str


class Blocks:
    """Reads the blocks of one page.

    Args:
        since: when blocks could not be read for the first time (epoch seconds), by name. All pages share it.
        now: the time, in epoch seconds.
        rest: whether the page has more than these blocks.
    """

    def __init__(self, since: dict[str, float], now: float, *, rest: bool = False) -> None:
        self._since = since
        self._now = now
        self._errors = dict[str, SagaError]()
        self._has_any = rest

    def read(self, name: str, ask: Callable[[], T], otherwise: T) -> T:
        """Return a block or, if it cannot be read, ``otherwise``. ``name`` is what the page calls it. If the page's own
        request is wrong, there is nothing to try again, so ``InvalidRequest`` is raised."""
        try:
            answer = ask()
        except InvalidRequest:
            raise
        except SagaError as error:
            self._since.setdefault(name, self._now)
            self._errors[name] = error
            return otherwise
        self._since.pop(name, None)
        self._has_any |= answer is not None  # which stands for what is unknown
        return answer

    @property
    def unread(self) -> list[Unread]:
        """The blocks that could not be read. If the page has nothing else, their first error is raised."""
        if self._errors and not self._has_any:
            raise next(iter(self._errors.values()))
        times = {name: datetime.fromtimestamp(self._since.get(name, self._now), UTC) for name in self._errors}
        return [Unread(name, f"{times[name]:%H:%M}", str(error)) for name, error in sorted(self._errors.items())]
