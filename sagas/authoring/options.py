"""The class keywords of a saga."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, cast

from msgspec import Struct, field

from sagas.authoring.policies import LONGEST_WAIT, MAX_TIMEOUT, AutoDisable, OrphanSweep, Retry, attempt_seconds
from sagas.errors import DefinitionError


class SagaOptions(Struct, frozen=True):
    """The class keywords of a saga, checked. ``saga_class`` is the class's name, for error messages."""

    saga_class: str
    name: str
    version: str = "1"
    lock_expiry: timedelta = timedelta(minutes=5)
    max_recovery_attempts: int = 5
    auto_disable: AutoDisable | None = None
    orphans: OrphanSweep | None = None
    stale_after: timedelta = timedelta(minutes=2)
    timeout: timedelta | None = None
    retry: Retry | None = None
    undo_retry: Retry | None = None
    step_timeout: float | timedelta | None = None
    result: str | None = None
    cancellable: bool = True
    redact: Sequence[str] = ()
    find_by: Mapping[str, str] = field(default_factory=dict[str, str])
    upcast: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict[str, Callable[[Any], Any]])

    def __post_init__(self) -> None:
        for keyword, valid, what in _RULES:
            value: object = getattr(self, keyword)
            if not valid(value):
                raise DefinitionError(
                    f'{self.saga_class} (saga "{self.name}"): the class keyword {keyword} must be {what}, not {value!r}'
                )


OPTION_NAMES = tuple(name for name in SagaOptions.__struct_fields__ if name != "saga_class")


def _is_positive(value: object) -> bool:
    return isinstance(value, timedelta) and value > timedelta(0)


def _is_paths(value: object) -> bool:
    paths = cast("list[object]", value) if isinstance(value, list | tuple) else [None]
    return all(isinstance(path, str) for path in paths)


def _is_find_by(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    paths = cast("dict[object, object]", value)
    return all(isinstance(text, str) for text in (*paths, *paths.values()))


_RULES: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    (
        "name",
        lambda it: isinstance(it, str) and re.fullmatch("[a-z][a-z0-9-]{0,39}", it) is not None,
        "1 to 40 characters of a-z, 0-9 and '-', starting with a letter",
    ),
    (
        "version",
        lambda it: isinstance(it, str) and 1 <= len(it) <= 100 and it.isprintable(),
        "a printable string of 1 to 100 characters",
    ),
    ("lock_expiry", _is_positive, "a positive timedelta"),
    ("stale_after", _is_positive, "a positive timedelta"),
    (
        "max_recovery_attempts",
        lambda it: isinstance(it, int) and not isinstance(it, bool) and 0 <= it <= 1_000,
        "a whole number from 0 to 1000",
    ),
    ("auto_disable", lambda it: isinstance(it, AutoDisable | None), "an AutoDisable or None"),
    (
        "timeout",
        lambda it: it is None or (_is_positive(it) and it <= LONGEST_WAIT),
        "a positive timedelta of at most 365 days, or None",
    ),
    ("retry", lambda it: isinstance(it, Retry | None), "a Retry or None"),
    (
        "undo_retry",
        lambda it: it is None or (isinstance(it, Retry) and it.on_exhausted is None),
        "a Retry without on_exhausted, or None",
    ),
    (
        "step_timeout",
        lambda it: it is None or attempt_seconds(it) is not None,
        f"seconds or a timedelta, more than 0 and at most {MAX_TIMEOUT} seconds, or None",
    ),
    ("result", lambda it: isinstance(it, str | None), "the name of a step's result, or None"),
    ("orphans", lambda it: isinstance(it, OrphanSweep | None), "an OrphanSweep or None"),
    ("cancellable", lambda it: isinstance(it, bool), "True or False"),
    ("redact", _is_paths, "a list of paths like $.request.card.number"),
    ("upcast", lambda it: isinstance(it, Mapping), 'a dict of functions like {"request": order_before_3}'),
    ("find_by", _is_find_by, 'a dict of names and paths like {"customer": "$.customer.id"}'),
)
"""For each keyword: a test for valid values, and their description for error messages."""


def kebab(class_name: str) -> str:
    """Return a class name in kebab-case: ``CreateZip`` -> ``create-zip``, ``HTTPProxy`` -> ``http-proxy``."""
    words = re.sub(r"([a-z0-9])([A-Z])|([A-Z])(?=[A-Z][a-z])", r"\1\3-\2", class_name)
    return words.strip("_").replace("_", "-").lower()
