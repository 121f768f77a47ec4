"""Sagas on AWS serverless: a class whose methods are steps, each with its undo."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sagas.authoring.children import children
from sagas.authoring.context import Context, OrphanedObject, S3Object
from sagas.authoring.policies import AutoDisable, CircuitBreaker, Exhausted, OrphanSweep, Retry
from sagas.authoring.redaction import Secret
from sagas.authoring.saga import Saga
from sagas.authoring.steps import step
from sagas.authoring.waits import sleep, wait_for
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

if TYPE_CHECKING:
    from sagas.client import SagaClient

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

_LAZY = {"SagaClient": "sagas.client"}
"""Names whose modules load boto3, so they are imported on first use."""


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)
