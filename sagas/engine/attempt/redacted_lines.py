"""Redacts the lines that code logs with ``ctx.logger``."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, cast

from sagas.spellings import HIDDEN

_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""The attributes of every record. The others are the line's own fields."""
_TRACES = logging.Formatter()


class RedactedLines(logging.Filter):
    """Redacts messages, fields and exceptions.

    Args:
        redact: returns a text without hidden values.
    """

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._redact = redact

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact a record. A line must neither fail its step nor be logged as it is."""
        own = {name: value for name, value in vars(record).items() if name not in _RECORD}
        try:
            fields = {self._redact(name): self._value(value) for name, value in own.items()}
            # Powertools logs a message that is not a text as JSON.
            message = self._redact(record.getMessage()) if isinstance(record.msg, str) else self._value(record.msg)
            if record.exc_info and record.exc_info[0] is not None:
                # A formatter would write the exception itself. The names are those of Powertools' fields.
                record.exc_text = self._redact(_TRACES.formatException(record.exc_info))
                fields |= {"exception": record.exc_text, "exception_name": record.exc_info[0].__name__}
        except Exception as error:  # noqa: BLE001 - the values are the author's, and so are their __str__
            fields = dict[str, Any]()
            message = f"a line that cannot be redacted ({type(error).__name__})"
        record.msg = message
        record.args = ()
        record.exc_info = None
        for name in own:
            delattr(record, name)
        vars(record).update(fields)
        return True

    def _value(self, value: Any) -> Any:
        """Return a value as it may be logged. An object that would be written with a hidden value is replaced by its
        redacted text."""
        match value:
            case str():
                return self._redact(value)
            case dict():
                members = cast("dict[Any, Any]", value)
                return {self._value(name): self._value(item) for name, item in members.items()}
            case list() | tuple() | set() | frozenset():
                return [self._value(item) for item in cast("list[Any]", value)]
            case None | bool():
                return value
            case _:
                text = f"{value} {getattr(value, '__dict__', '')}"
                if self._redact(text) == text:
                    return value
                return HIDDEN if isinstance(value, int | float) else self._redact(str(value))
