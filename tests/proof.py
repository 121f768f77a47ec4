"""``make proof``: the long versions of what the gate cuts short, each in a process of its own, and their figures."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field

_PYTEST = ("-m", "pytest", "-q", "-n", "0", "--timeout", "1500")
_ENGINE = (*_PYTEST, "tests/engine", "tests/handlers")
_HOSTILE = ("tests/unit/authoring/test_schema_agrees.py", "tests/handlers/test_hostile_events.py")
_PROPERTIES = ("-m", "hypothesis", "tests/unit", "tests/store")


@dataclass(frozen=True, slots=True)
class Part:
    """One proof: what it shows, and what runs it. ``given``: variables of its environment."""

    title: str
    arguments: tuple[str, ...]
    given: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Done:
    """How a part ended."""

    part: Part
    output: str
    seconds: float
    passed: bool


PARTS = (
    Part("Sagas soaked on the local stack", ("-m", "tests.soak")),
    Part("The service under load", ("-m", "tests.load")),
    Part("Orders of requests: larger stories", ("-m", "tests.interleavings", "long")),
    Part("Requests that linger, a message twice", ("-m", "tests.faults", "lingers")),
    Part("Requests that linger, others cancel", ("-m", "tests.faults", "cancels")),
    Part("Requests that linger, others purge", ("-m", "tests.faults", "purges")),
    Part("The engine and its functions on DynamoDB Local", _ENGINE, {"SAGAS_TESTS_TABLES": "dynamodb_local"}),
    Part("The engine and its functions on moto's DynamoDB", _ENGINE, {"SAGAS_TESTS_TABLES": "moto"}),
    Part("Hostile requests to the running API", (*_PYTEST, "tests/e2e/test_hostile_api.py"), {"SAGAS_PROOF": "full"}),
    Part("Killed workers, and a thousand in line", (*_PYTEST, "tests/e2e/test_failures.py"), {"SAGAS_PROOF": "full"}),
    Part("A thousand children", (*_PYTEST, "-s", "tests/e2e/test_children.py"), {"SAGAS_PROOF": "full"}),
    Part("A thousand that wait", (*_PYTEST, "tests/e2e/test_waiting.py"), {"SAGAS_PROOF": "full"}),
    Part("A newcomer's two commands", (*_PYTEST, "tests/e2e/test_newcomer.py"), {"SAGAS_PROOF": "full"}),
    Part("A storm of events", (*_PYTEST, "tests/e2e/test_events.py"), {"SAGAS_PROOF": "full"}),
    Part("Hostile events", (*_PYTEST, *_HOSTILE), {"SAGAS_PROOF": "full"}),
    Part("Properties, 500 examples of each", (*_PYTEST, *_PROPERTIES), {"SAGAS_PROOF": "full"}),
    Part("A service of 60 types and 480 steps", (*_PYTEST, "tests/cdk/test_size.py"), {"SAGAS_PROOF": "full"}),
    Part("A saga of 42 steps in nested stacks", (*_PYTEST, "tests/cdk/test_nested.py"), {"SAGAS_PROOF": "full"}),
    Part("Answers that are lost", ("-m", "tests.faults", "answers")),
    Part("Deaths", ("-m", "tests.faults", "deaths", "successors", "rules")),
    Part("Parents and children", ("-m", "tests.faults", "families", "kin-answers", "kin-lingers")),
    Part("Deaths, two in a row", ("-m", "tests.faults", "pairs")),
    Part(
        "Orders of requests: all short stories, and without each rule", ("-m", "tests.interleavings", "short", "rules")
    ),
    Part("Races on real engines", (*_PYTEST, "tests/store", "tests/engine/test_races.py")),
    Part(
        "100,000 sagas, of which 50 stall", (*_PYTEST, "tests/engine/test_recovery_reads.py"), {"SAGAS_MANY": "100000"}
    ),
)
"""Longest first, so that no processor waits for the last."""


def _run(part: Part) -> Done:
    began = time.monotonic()
    done = subprocess.run(
        (sys.executable, *part.arguments),
        env=os.environ | part.given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Done(part, done.stdout, time.monotonic() - began, done.returncode == 0)


def _tell(done: Done) -> None:
    verdict = "" if done.passed else "  FAILED"
    print(f"== {done.part.title}: {done.seconds:.0f} s{verdict}\n{done.output.rstrip()}\n", flush=True)


def main(words: Sequence[str]) -> int:
    """Run every part, or those whose title has one of ``words`` in it; return how many failed."""
    began, failed = time.monotonic(), 0
    parts = [part for part in PARTS if not words or any(word in part.title for word in words)]
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        for under_way in as_completed([pool.submit(_run, part) for part in parts]):
            done = under_way.result()
            _tell(done)
            failed += not done.passed
    print(f"{len(parts)} proofs, {failed} failed, {(time.monotonic() - began) / 60:.0f} minutes", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
