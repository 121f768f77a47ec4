"""What options are checked by: numbers within limits, words that are known, platforms the library runs on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import aws_lambda as lambda_

from sagas.errors import DefinitionError

ARCHITECTURES = ("arm64", "x86_64")
_OLDEST_PYTHON = 11
_VARIABLE = re.compile(r"[A-Za-z][A-Za-z0-9_]+")
_OF_LAMBDA = frozenset(
    {
        *("_HANDLER", "_X_AMZN_TRACE_ID", "LAMBDA_TASK_ROOT", "LAMBDA_RUNTIME_DIR"),
        *(f"AWS_{name}" for name in ("REGION", "DEFAULT_REGION", "EXECUTION_ENV", "SESSION_TOKEN")),
        *(f"AWS_{name}" for name in ("ACCESS_KEY", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY")),
        *(f"AWS_LAMBDA_{name}" for name in ("FUNCTION_NAME", "FUNCTION_MEMORY_SIZE", "FUNCTION_VERSION")),
        *(f"AWS_LAMBDA_{name}" for name in ("INITIALIZATION_TYPE", "LOG_GROUP_NAME", "LOG_STREAM_NAME", "RUNTIME_API")),
    }
)
"""Variables that Lambda sets itself, and lets nobody set."""


def within(where: str, option: str, value: Any, least: float, most: float) -> None:
    """Refuse a number outside of what AWS or the library allows; ``None`` stands for the default."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise DefinitionError(f"{where}: {option} must be {least:,} to {most:,}, not {value!r}")


def of_kind(where: str, option: str, value: object, kind: type, *, none: bool = False) -> None:
    """Refuse what is not of a type of this library's, or Python's: the CDK would fail on it far from here."""
    if isinstance(value, kind) or (none and value is None):
        return
    name = kind.__name__
    told = "True or False" if kind is bool else f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
    raise DefinitionError(f"{where}: {option} must be {told}{' or None' if none else ''}, not {value!r}")


def variables(where: str, given: Mapping[str, str]) -> None:
    """Refuse environment variables that Lambda does not take."""
    of_kind(where, "environment", given, Mapping)
    for name, value in given.items():
        of_kind(where, f"environment: {name}", value, str)
        if name in _OF_LAMBDA:
            raise DefinitionError(f"{where}: environment: {name} must be left to Lambda, which sets it itself")
        if _VARIABLE.fullmatch(name) is None:
            told = "must be two letters, digits or _ at least, the first a letter"
            raise DefinitionError(f"{where}: environment: a name {told}, not {name!r}")


def fits(where: str, architecture: lambda_.Architecture | None, runtime: lambda_.Runtime | None) -> None:
    """Refuse what the library does not run on; ``None`` stands for the service's own."""
    if architecture is not None:
        one_of(where, "architecture", architecture.name, ARCHITECTURES)
    version = re.fullmatch(r"python3\.(\d+)", runtime.name) if runtime is not None else None
    if runtime is not None and (version is None or int(version[1]) < _OLDEST_PYTHON):
        raise DefinitionError(f"{where}: runtime must be a Python from 3.{_OLDEST_PYTHON} on, not {runtime.name}")


def one_of(where: str, option: str, value: object, known: Sequence[str]) -> None:
    """Refuse a word that is none of those known."""
    if value not in known:
        raise DefinitionError(f"{where}: {option} must be one of {', '.join(known)}, not {value!r}")
