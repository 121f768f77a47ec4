"""What ``import sagas`` costs and offers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import sagas

HEAVY = ["boto3", "botocore", "pydantic", "aws_cdk", "pynamodb", "aws_lambda_powertools", "opentelemetry"]
STAGES = {
    "authoring": "import sagas; from sagas import Saga, step; from sagas.testing import FakeContext",
    "commands": "import sagas.cli.main",
    "client": "import sagas.client",
    "functions": "import sagas.handlers.api, sagas.handlers.step, sagas.handlers.bulk, sagas.handlers.supervisor",
    "tracing is off": "from sagas.handlers.observability.tracing import tracer; assert tracer() is None",
}


def loaded_by(*statements: str) -> list[set[str]]:
    """Return the heavy packages that are loaded after each statement, one after the other in one process."""
    show = f"print(*(name for name in {HEAVY!r} if name in sys.modules))"
    source = "\n".join(["import sys", *(f"{statement}\n{show}" for statement in statements)])
    run = subprocess.run([sys.executable, "-c", source], check=True, capture_output=True, text=True)
    return [set(line.split()) for line in run.stdout.splitlines()]


@pytest.fixture(scope="module")
def loaded() -> dict[str, set[str]]:
    """The heavy packages that are loaded after each stage."""
    return dict(zip(STAGES, loaded_by(*STAGES.values()), strict=True))


def test_importing_the_authoring_api_loads_nothing_heavy(loaded: dict[str, set[str]]) -> None:
    assert loaded["authoring"] == set()


def test_the_command_line_loads_neither_boto_nor_the_cdk_to_tell_what_it_can(loaded: dict[str, set[str]]) -> None:
    assert loaded["commands"] == set()


def test_importing_the_client_loads_boto_and_nothing_of_the_engine_at_work(loaded: dict[str, set[str]]) -> None:
    assert loaded["client"] == {"boto3", "botocore"}


def test_functions_load_nothing_of_tracing_unless_it_is_on(loaded: dict[str, set[str]]) -> None:
    assert "aws_lambda_powertools" in loaded["functions"]
    assert "opentelemetry" not in loaded["tracing is off"]


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
