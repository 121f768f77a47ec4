"""What ``import sagas`` costs and offers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

import sagas

HEAVY = ["boto3", "botocore", "pydantic", "aws_cdk", "pynamodb", "aws_lambda_powertools", "opentelemetry"]
STAGES = {
    "authoring": "import sagas; from sagas import Saga, step; from sagas.testing import FakeContext",
    "commands": "import sagas.cli.main",
    "client": "from sagas import SagaClient",
    "functions": "import sagas.handlers.api, sagas.handlers.step, sagas.handlers.bulk, sagas.handlers.supervisor",
    "tracing is off": "from sagas.handlers.observability.tracing import tracer; assert tracer() is None",
}


BUDGET = {
    "step": 119,
    "api": 175,
    "commands": 142,
    "supervisor": 184,
    "now": 146,
    "bulk": 166,
    "outbox": 131,
    "archiving": 40,
}
"""How many modules of the library each function may load, packages included. A function loads what it runs: whoever
raises a number says what for. The last rise: a start stores the blueprint of its type."""
NOT_FOR_STEPS = (
    *("sagas.engine.sweep", "sagas.engine.operate", "sagas.engine.read", "sagas.engine.start"),
    *("sagas.engine.supervise.purge", "sagas.engine.supervise.verify", "sagas.engine.supervise.recovery"),
    *("sagas.engine.observe", "sagas.store.index", "sagas.store.encryption", "sagas.handlers.http"),
    *("asyncio", "aws_lambda_powertools.event_handler"),
)
"""What no step runs whose type declares no circuit breaker and no ``auto_disable``, and that is not ``async``. Nor do
botocore, PynamoDB and Powertools bring asyncio along."""
PLAIN = """
from sagas import Saga, step

class Plain(Saga[str]):
    @step
    def only(self, request: str) -> str:
        return request
"""
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
    "POWERTOOLS_METRICS_NAMESPACE": "test",
    "POWERTOOLS_SERVICE_NAME": "test",
    "SAGAS_TABLE": "sagas",
    "SAGAS_AUDIT_TABLE": "audit",
    "SAGAS_CLASSES": '["plain:Plain"]',
    "SAGAS_QUEUES": '{"base": "https://sqs.eu-central-1.amazonaws.com/123456789012", "token": "test"}',
}
"""Of a step's function in its init phase, in which it sends no request."""


def modules_after(statement: str, environment: Mapping[str, str] | None = None) -> list[str]:
    """Return the modules that are loaded after a statement in a fresh process."""
    source = f"import sys\n{statement}\nprint(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", source], check=True, capture_output=True, text=True, env=os.environ | (environment or {})
    )
    return run.stdout.splitlines()[-1].split()


def below(names: Iterable[str], packages: Sequence[str]) -> list[str]:
    """Return the modules that are these, or in these."""
    return sorted(name for name in names if any(name == one or name.startswith(f"{one}.") for one in packages))


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


def test_the_client_signs_with_botocore_and_loads_boto3_when_it_calls_more_than_the_api(
    loaded: dict[str, set[str]],
) -> None:
    assert loaded["client"] == {"botocore"}


def test_help_loads_no_command_and_draws_without_rich() -> None:
    run = "import sys; sys.argv = ['sagas', '--help']; from sagas.cli.main import main"
    run += "\ntry: main()\nexcept SystemExit: pass"
    names = modules_after(run)
    assert below(names, ["sagas"]) == [
        *("sagas", "sagas.cli", "sagas.cli.main", "sagas.cli.output", "sagas.core", "sagas.core.text")
    ]
    assert below(names, ["rich", "pydantic", "botocore"]) == []


def test_a_list_loads_neither_boto3_nor_what_only_authors_need() -> None:
    names = modules_after("from sagas import SagaClient; import sagas.cli.read.reading")
    assert below(names, ["boto3", "botocore.session", "sagas.authoring", "sagas.messaging", "sagas.store"]) == []


def test_functions_load_nothing_of_tracing_unless_it_is_on(loaded: dict[str, set[str]]) -> None:
    assert "aws_lambda_powertools" in loaded["functions"]
    assert "opentelemetry" not in loaded["tracing is off"]


@pytest.mark.parametrize("function", BUDGET)
def test_a_function_loads_no_more_than_it_runs(function: str) -> None:
    ours = below(modules_after(f"import sagas.handlers.{function}"), ["sagas"])
    assert len(ours) <= BUDGET[function], (
        f"{len(ours)} modules; load the new ones where they are used, or raise BUDGET and say why: {', '.join(ours)}"
    )


def test_a_steps_function_loads_nothing_of_the_operators(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(PLAIN, encoding="utf-8")
    where = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    loaded = modules_after(
        "import sagas.handlers.step; assert 'botocore.client' in sys.modules and 'plain' in sys.modules",
        ENVIRONMENT | {"PYTHONPATH": where},
    )
    assert below(loaded, NOT_FOR_STEPS) == []


def test_no_function_calls_what_botocore_keeps_to_itself() -> None:
    root = Path(sagas.__path__[0])
    private = re.compile(
        r"_make_api_call|_request_signer|\b_endpoint\.|from botocore[\w.]* import .*\b_|botocore(\.\w+)*\._"
    )
    files = (file for file in root.rglob("*.py") if "testing" not in file.parts)
    assert [file.name for file in files if private.search(file.read_text(encoding="utf-8"))] == []


CONNECTED = """
import gc
from botocore.client import BaseClient
from botocore.session import Session

made = gc.get_objects()
services = [one.meta.service_model.service_name for one in made if isinstance(one, BaseClient)]
print(sum(isinstance(one, Session) for one in made), *sorted(services))
"""
"""Prints the number of sessions, and the services that have a client."""


@pytest.mark.parametrize("function", ["step", "api", "now", "bulk"])
def test_a_function_makes_one_session_and_two_clients_in_its_init_phase(tmp_path: Path, function: str) -> None:
    (tmp_path / "plain.py").write_text(PLAIN, encoding="utf-8")
    where = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    run = subprocess.run(
        [sys.executable, "-c", f"import sagas.handlers.{function}\n{CONNECTED}"],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | ENVIRONMENT | {"PYTHONPATH": where},
    )
    assert run.stdout.splitlines()[-1] == "1 dynamodb sqs"


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
