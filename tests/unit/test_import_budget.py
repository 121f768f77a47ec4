"""What ``import sagas`` costs and offers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import sagas

HEAVY = ["boto3", "botocore", "pydantic", "aws_cdk", "pynamodb", "aws_lambda_powertools", "opentelemetry"]


def loaded_by(statement: str) -> set[str]:
    source = f"import sys; {statement}; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    return set(
        subprocess.run([sys.executable, "-c", source], check=True, capture_output=True, text=True).stdout.split()
    )


def test_importing_the_authoring_api_loads_nothing_heavy() -> None:
    assert loaded_by("import sagas; from sagas import Saga, step; from sagas.testing import FakeContext") == set()


def test_importing_the_client_loads_boto_and_nothing_of_the_engine_at_work() -> None:
    assert loaded_by("import sagas.client") == {"boto3", "botocore"}


def test_the_command_line_loads_neither_boto_nor_the_cdk_to_tell_what_it_can() -> None:
    assert loaded_by("import sagas.cli.main") == set()


def test_functions_load_nothing_of_tracing_unless_it_is_on() -> None:
    handlers = "sagas.handlers.api, sagas.handlers.step, sagas.handlers.bulk, sagas.handlers.supervisor"
    called = f"import {handlers}; from sagas.handlers.tracing import tracer; assert tracer() is None"
    assert "aws_lambda_powertools" in loaded_by(called)
    assert "opentelemetry" not in loaded_by(called)


def test_the_public_names_are_these() -> None:
    assert sagas.__all__ == [
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
    assert all(hasattr(sagas, name) for name in sagas.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        _ = sagas.nothing
