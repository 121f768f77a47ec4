"""What options are checked by: numbers within limits, words that are known, platforms the library runs on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from aws_cdk import aws_lambda as lambda_

from sagas.errors import DefinitionError

ARCHITECTURES = ("arm64", "x86_64")
_OLDEST_PYTHON = 11


def within(where: str, option: str, value: Any, least: float, most: float) -> None:
    """Refuse a number outside of what AWS or the library allows; ``None`` stands for the default.

    Raises:
        DefinitionError: it is no number, or outside.
    """
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise DefinitionError(f"{where}: {option} must be {least:,} to {most:,}, not {value!r}")


def of_kind(where: str, option: str, value: object, kind: type, *, none: bool = False) -> None:
    """Refuse what is not of a type of this library's, or Python's: the CDK would fail on it far from here.

    Raises:
        DefinitionError: it is of another.
    """
    if isinstance(value, kind) or (none and value is None):
        return
    name = kind.__name__
    told = "True or False" if kind is bool else f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
    raise DefinitionError(f"{where}: {option} must be {told}{' or None' if none else ''}, not {value!r}")


def fits(where: str, architecture: lambda_.Architecture | None, runtime: lambda_.Runtime | None) -> None:
    """Refuse what the library does not run on; ``None`` stands for the service's own.

    Raises:
        DefinitionError: it is no architecture of Lambda's, or no Python from 3.11 on.
    """
    if architecture is not None:
        one_of(where, "architecture", architecture.name, ARCHITECTURES)
    version = re.fullmatch(r"python3\.(\d+)", runtime.name) if runtime is not None else None
    if runtime is not None and (version is None or int(version[1]) < _OLDEST_PYTHON):
        raise DefinitionError(f"{where}: runtime must be a Python from 3.{_OLDEST_PYTHON} on, not {runtime.name}")


def one_of(where: str, option: str, value: object, known: Sequence[str]) -> None:
    """Refuse a word that is none of those known.

    Raises:
        DefinitionError: it is another.
    """
    if value not in known:
        raise DefinitionError(f"{where}: {option} must be one of {', '.join(known)}, not {value!r}")
