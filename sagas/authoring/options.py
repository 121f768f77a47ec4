"""What a saga class is given as class keywords."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from sagas.authoring.policies import AutoDisable, OrphanSweep
from sagas.errors import DefinitionError


@dataclass(frozen=True, slots=True)
class SagaOptions:
    """The class keywords of a saga, checked. ``saga_class`` is the class's name, for messages."""

    saga_class: str
    name: str
    version: str = "1"
    lock_expiry: timedelta = timedelta(minutes=5)
    max_recovery_attempts: int = 5
    auto_disable: AutoDisable | None = None
    orphans: OrphanSweep | None = None
    stale_after: timedelta = timedelta(minutes=2)

    def __post_init__(self) -> None:
        self._require("name", _is_name, "1 to 40 characters of a-z, 0-9 and '-', starting with a letter")
        self._require("version", _is_version, "a printable string of 1 to 100 characters")
        self._require("lock_expiry", _is_positive, "a positive timedelta")
        self._require("stale_after", _is_positive, "a positive timedelta")
        self._require("max_recovery_attempts", _is_count, "a whole number from 0 to 1000")
        self._require("auto_disable", lambda value: isinstance(value, AutoDisable | None), "an AutoDisable or None")
        self._require("orphans", lambda value: isinstance(value, OrphanSweep | None), "an OrphanSweep or None")

    def _require(self, keyword: str, check: Callable[[object], bool], what: str) -> None:
        value: object = getattr(self, keyword)
        if not check(value):
            raise DefinitionError(
                f'{self.saga_class} (saga "{self.name}"): the class keyword {keyword} must be {what}, not {value!r}'
            )


OPTION_NAMES = tuple(field for field in SagaOptions.__dataclass_fields__ if field != "saga_class")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch("[a-z][a-z0-9-]{0,39}", value) is not None


def _is_version(value: object) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= 100 and value.isprintable()


def _is_positive(value: object) -> bool:
    return isinstance(value, timedelta) and value > timedelta(0)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1_000


def kebab(class_name: str) -> str:
    """Return a class name in kebab-case: ``CreateZip`` -> ``create-zip``, ``HTTPProxy`` -> ``http-proxy``."""
    words = re.sub(r"([a-z0-9])([A-Z])|([A-Z])(?=[A-Z][a-z])", r"\1\3-\2", class_name)
    return words.strip("_").replace("_", "-").lower()
