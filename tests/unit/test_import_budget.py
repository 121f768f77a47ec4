"""What ``import sagas`` costs and offers."""

from __future__ import annotations

import ast
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
    "tracing is off": "from sagas.handlers.telemetry import tracer; assert tracer() is None",
}


BUDGET = {
    "step": 70,
    "api": 122,
    "commands": 72,
    "supervisor": 140,  # the task that writes the overview
    "now": 93,
    "bulk": 119,
    "outbox": 74,
    "archiving": 25,
}
"""How many modules of the library each function may load, packages included. A function loads what it runs: whoever
raises a number says what for."""
STEP = [
    "sagas",
    "sagas.authoring",
    "sagas.authoring.codec",
    "sagas.authoring.context",
    "sagas.authoring.definition",
    "sagas.authoring.definition.definition",
    "sagas.authoring.policies",
    "sagas.authoring.redaction",
    "sagas.authoring.shapes",
    "sagas.authoring.shapes.base",
    "sagas.authoring.shapes.comparing",
    "sagas.authoring.shapes.compiler",
    "sagas.authoring.shapes.containers",
    "sagas.authoring.shapes.records",
    "sagas.authoring.shapes.scalars",
    "sagas.authoring.shapes.unions",
    "sagas.authoring.signatures",
    "sagas.aws",
    "sagas.core",
    "sagas.core.arrivals",
    "sagas.core.automaton",
    "sagas.core.commands",
    "sagas.core.events",
    "sagas.core.fit",
    "sagas.core.gates",
    "sagas.core.ids",
    "sagas.core.rules",
    "sagas.core.states",
    "sagas.core.text",
    "sagas.core.transitions",
    "sagas.core.undoing",
    "sagas.engine",
    "sagas.engine.advance",
    "sagas.engine.attempt",
    "sagas.engine.attempt.attempt",
    "sagas.engine.attempt.context",
    "sagas.engine.attempt.course",
    "sagas.engine.attempt.failures",
    "sagas.engine.attempt.heartbeat",
    "sagas.engine.attempt.idempotency",
    "sagas.engine.attempt.runner",
    "sagas.engine.clock",
    "sagas.engine.committer",
    "sagas.engine.engine",
    "sagas.engine.ports",
    "sagas.engine.registry",
    "sagas.errors",
    "sagas.handlers",
    "sagas.handlers.invocation",
    "sagas.handlers.step",
    "sagas.handlers.telemetry",
    "sagas.messaging",
    "sagas.messaging.message",
    "sagas.messaging.queues",
    "sagas.messaging.routes",
    "sagas.messaging.work",
    "sagas.paths",
    "sagas.spellings",
    "sagas.store",
    "sagas.store.connection",
    "sagas.store.control",
    "sagas.store.control.control",
    "sagas.store.control.mapping",
    "sagas.store.journal",
    "sagas.store.journal.entries",
    "sagas.store.journal.journal",
    "sagas.store.pauses",
    "sagas.store.schema",
    "sagas.store.tables",
    "sagas.threads",
]
"""All modules of the library that a step's function loads, before it loads its saga types."""
TYPES = [
    "sagas.engine.worker",
    "sagas.authoring.definition.building",
    "sagas.authoring.definition.members",
    "sagas.authoring.saga",
    "sagas.authoring.steps",
    "sagas.authoring.waits",
]
"""What its saga types load besides, with the worker, if they declare no circuit breaker and no ``auto_disable``."""
THEIRS = ("asyncio", "aws_lambda_powertools.event_handler")
"""What botocore, PynamoDB and Powertools must not bring along, nor a step that is not ``async``."""
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
    "SAGAS_SERVICE": "test",
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


@pytest.mark.parametrize("words", ["sagas show ", "sagas dlq list ", "sagas list --st"])
def test_completion_does_not_load_what_converts_arguments(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_SAGAS_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    run = "import sys; sys.argv = ['sagas']; from sagas.cli.main import app"
    run += "\ntry: app(prog_name='sagas')\nexcept SystemExit: pass"
    assert below(modules_after(run), ["pydantic", "botocore"]) == []


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
    assert below(loaded, THEIRS) == []
    assert below(loaded, ["sagas"]) == sorted([*STEP, *TYPES])


def test_a_steps_function_loads_these_modules() -> None:
    """Whoever adds one says in the commit why every step of every saga needs it."""
    assert below(modules_after("import sagas.handlers.step"), ["sagas"]) == STEP
    assert len(STEP) <= BUDGET["step"]


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


def test_records_that_functions_load_are_structs() -> None:
    """A dataclass takes a millisecond to make, sixty times as long as a Struct. These are policies whose constructors
    check, what authors' steps return, problems that compare without a field, and the engine."""
    library = Path(sagas.__file__).parent
    loaded = ("authoring", "core", "engine", "handlers", "messaging", "store", "errors.py")
    found = {
        node.name
        for path in library.rglob("*.py")
        if path.relative_to(library).parts[0] in loaded
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(it) for it in node.decorator_list)
    }
    policies = {"AutoDisable", "CircuitBreaker", "OrphanSweep", "Retry"}
    assert found == policies | {"OrphanedObject", "S3Object", "Problem", "Engine"}
