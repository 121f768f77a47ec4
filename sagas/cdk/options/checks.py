"""Checks options for numbers out of range, words that are not allowed, and platforms that are not supported."""

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
"""Variables that only Lambda may set."""


def within(where: str, option: str, value: Any, least: float, most: float) -> None:
    """Refuse a number outside the limits of AWS or the library. ``None`` stands for the default."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise DefinitionError(f"{where}: {option} must be {least:,} to {most:,}, not {value!r}")


def of_kind(where: str, option: str, value: object, kind: type, *, none: bool = False) -> None:
    """Refuse a value of the wrong type. The CDK would refuse it later, without naming the option."""
    if isinstance(value, kind) or (none and value is None):
        return
    name = kind.__name__
    expected = "True or False" if kind is bool else f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
    raise DefinitionError(f"{where}: {option} must be {expected}{' or None' if none else ''}, not {value!r}")


def variables(where: str, environment: Mapping[str, str]) -> None:
    """Refuse environment variables that Lambda does not accept."""
    of_kind(where, "environment", environment, Mapping)
    for name, value in environment.items():
        of_kind(where, f"environment: {name}", value, str)
        if name in _OF_LAMBDA:
            raise DefinitionError(f"{where}: environment: {name} must be left out: Lambda sets it")
        if _VARIABLE.fullmatch(name) is None:
            form = "at least two letters, digits or underscores, the first a letter"
            raise DefinitionError(f"{where}: environment: a name must be {form}, not {name!r}")


def fits(where: str, architecture: lambda_.Architecture | None, runtime: lambda_.Runtime | None) -> None:
    """Refuse platforms that the library does not support. ``None`` stands for the service's platform."""
    if architecture is not None:
        one_of(where, "architecture", architecture.name, ARCHITECTURES)
    version = re.fullmatch(r"python3\.(\d+)", runtime.name) if runtime is not None else None
    if runtime is not None and (version is None or int(version[1]) < _OLDEST_PYTHON):
        raise DefinitionError(f"{where}: runtime must be Python 3.{_OLDEST_PYTHON} or newer, not {runtime.name}")


def one_of(where: str, option: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise DefinitionError(f"{where}: {option} must be one of {', '.join(allowed)}, not {value!r}")
