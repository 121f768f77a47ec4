"""Durations and times in options, with the same syntax and the same error messages in all commands."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer

from sagas.core.text import iso, seconds_of

_FORMS = "a length such as 90s, 15m, 2h or 12d"


@dataclass(frozen=True, slots=True)
class Moment:
    """The time that an option names, either as a point in time or as a length before now."""

    text: str
    ago: float | None = None

    def at(self, now: float) -> str:
        """Return the time in the API's form. ``now`` is in epoch seconds."""
        return self.text if self.ago is None else iso(now - self.ago)


def _length(text: str) -> float:
    seconds = seconds_of(text)
    if seconds is None:
        raise typer.BadParameter(f"{text!r} is not {_FORMS}")
    return seconds


def _moment(text: str) -> Moment:
    ago = seconds_of(text)
    try:
        time = datetime.fromisoformat(text) if ago is None else None
    except ValueError:
        time = datetime.min
    if time is not None and time.tzinfo is None:
        raise typer.BadParameter(f"{text!r} is not {_FORMS}, nor a time such as 2026-11-22T10:00:00Z")
    return Moment(text if time is None else time.isoformat(), ago)


def length(*names: str, help: str, **more: Any) -> Any:
    """Return an option that takes a length. The command gets seconds."""
    return typer.Option(*names, help=help, parser=_length, metavar="LENGTH", **more)


def moment(*names: str, help: str, **more: Any) -> Any:
    """Return an option that takes a time. The command gets a :class:`Moment`."""
    return typer.Option(*names, help=help, parser=_moment, metavar="TIME", **more)


Since = Annotated[Moment | None, moment(help="Only sagas that started, or with a final --status ended, since TIME")]
Until = Annotated[Moment | None, moment(help="Only sagas that started, or ended, before TIME")]
Timeout = Annotated[float | None, length(help="Stop watching after LENGTH")]
