"""Sagas on AWS serverless: a class whose methods are steps, each with its undo."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sagas.authoring.children import children
    from sagas.authoring.context import Context, OrphanedObject, S3Object
    from sagas.authoring.policies import AutoDisable, CircuitBreaker, Exhausted, OrphanSweep, Retry
    from sagas.authoring.redaction import Secret
    from sagas.authoring.saga import Saga
    from sagas.authoring.steps import step
    from sagas.authoring.waits import sleep, wait_for
    from sagas.client import SagaClient
    from sagas.errors import (
        Cancelled,
        DefinitionError,
        InvalidRequest,
        NotYet,
        PermanentError,
        Rejected,
        SagaError,
        TimedOut,
    )

__all__ = [
    "AutoDisable",
    "Cancelled",
    "CircuitBreaker",
    "Context",
    "DefinitionError",
    "Exhausted",
    "InvalidRequest",
    "NotYet",
    "OrphanSweep",
    "OrphanedObject",
    "PermanentError",
    "Rejected",
    "Retry",
    "S3Object",
    "Saga",
    "SagaClient",
    "SagaError",
    "Secret",
    "TimedOut",
    "children",
    "sleep",
    "step",
    "wait_for",
]

_MODULES = {
    "AutoDisable": "authoring.policies",
    "CircuitBreaker": "authoring.policies",
    "Context": "authoring.context",
    "Exhausted": "authoring.policies",
    "OrphanSweep": "authoring.policies",
    "OrphanedObject": "authoring.context",
    "Retry": "authoring.policies",
    "S3Object": "authoring.context",
    "Saga": "authoring.saga",
    "SagaClient": "client",
    "Secret": "authoring.redaction",
    "children": "authoring.children",
    "sleep": "authoring.waits",
    "step": "authoring.steps",
    "wait_for": "authoring.waits",
}
"""The modules of names, except errors. They are imported on first use, because commands, functions and clients import
this package, too, and need few of them."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"sagas.{_MODULES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
