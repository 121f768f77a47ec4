"""Reads the events that select what a task of the supervisor does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from sagas.errors import InvalidRequest, Problem

Event = TypeVar("Event", bound=msgspec.Struct)


def read_event(event: Mapping[str, Any], kind: type[Event]) -> Event:
    """Return an event as its class declares it; null is a missing field. An error names the first invalid field, and
    what is allowed."""
    fields = {name: value for name, value in event.items() if value is not None}
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        expected, _, path = str(error).partition(" - at `")
        raise InvalidRequest("the event is invalid", [Problem(path.rstrip("`"), expected)]) from None
