"""What a function makes in its init phase, where CPU is free, and what is left to its first invocation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

CLIENTS = ["dynamodb", "sqs"]


def cold(*arguments: str, **environment: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a cold start made and did, and its log."""
    command = [sys.executable, "-m", "tests.handlers.cold", *arguments]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True)
    return json.loads(done.stderr), [json.loads(line) for line in done.stdout.splitlines()]


def done(function: str, told: dict[str, Any]) -> bool:
    """Whether the first invocation did its work."""
    work = (told["ran"], told["status"], told["failed"])
    expected: dict[str, tuple[list[str], int | None, list[str] | None]] = {
        "step": (["book:1"], None, []),
        "api": ([], 202, None),
        "supervisor": ([], None, None),
        "now": ([], None, []),
        "bulk": ([], None, []),
        "commands": ([], None, []),
    }
    return work == expected[function]


@pytest.mark.parametrize("function", ["step", "api", "supervisor", "now", "bulk", "commands"])
def test_the_first_invocation_finds_its_clients_and_modules(function: str) -> None:
    told, log = cold(function, AWS_LAMBDA_INITIALIZATION_TYPE="on-demand")
    assert (sorted(set(told["init"])), told["first"]) == (CLIENTS, [])
    assert told["late"] == []
    assert done(function, told)
    assert not [line for line in log if line.get("level") == "ERROR"]


@pytest.mark.slow
def test_elsewhere_an_import_makes_nothing() -> None:
    told, _ = cold("step")
    assert (told["init"], sorted(set(told["first"]))) == ([], CLIENTS)
    assert done("step", told)


@pytest.mark.slow
@pytest.mark.parametrize("function", ["step", "api", "supervisor"])
def test_what_goes_wrong_is_logged_and_left_to_the_first_invocation(function: str) -> None:
    told, log = cold(function, "SAGAS_CLASSES", AWS_LAMBDA_INITIALIZATION_TYPE="on-demand")
    assert told["init"] == []
    assert done(function, told)
    [line] = [line for line in log if line.get("level") == "ERROR"]
    assert (line["message"], line["error"]) == ("preparation failed in the init phase", "SagaError")
