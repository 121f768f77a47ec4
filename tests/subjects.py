"""Tests that prove breadth run in ``make proof``, and in the gate only while the files of their subject have changed.

A test names its subject by ``@pytest.mark.proof(SUBJECT)``. The gate leaves it out as long as the files of the subject
have the hash in ``tests/subjects.json``. ``make subjects`` runs the tests of each subject that has changed, and records
its new hash when they pass.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "tests/subjects.json"
_GENERATED = frozenset({"__pycache__", ".sagas", "cdk.out", "build", "dist", "node_modules"})
"""Folders that git ignores, too."""

SUBJECTS: dict[str, tuple[str, ...]] = {
    "rules that others stand in for": (
        "sagas/core/arrivals.py",
        "sagas/core/automaton.py",
        "sagas/core/rules.py",
        "sagas/core/transitions.py",
        "sagas/core/automaton.py",
        "sagas/engine/advance.py",
        "sagas/engine/attempt/attempt.py",
        "sagas/engine/committer.py",
        "sagas/engine/worker.py",
        "sagas/store/control/control.py",
        "sagas/store/journal/journal.py",
        "tests/faults/rules.py",
        "tests/interleavings",
    ),
    "the service under load": (
        "sagas/engine/advance.py",
        "sagas/engine/committer.py",
        "sagas/engine/supervise/due_scan.py",
        "sagas/engine/joining.py",
        "sagas/engine/step_queues.py",
        "sagas/engine/supervise/codeless.py",
        "sagas/engine/supervise/recovery.py",
        "sagas/engine/operate/signals.py",
        "sagas/engine/worker.py",
        "sagas/handlers/bulk.py",
        "sagas/handlers/now.py",
        "sagas/handlers/tasks/due.py",
        "sagas/handlers/tasks/finding.py",
        "sagas/handlers/tasks/recovering.py",
        "sagas/handlers/supervisor.py",
        "sagas/handlers/tasks/working.py",
        "sagas/messaging/queues.py",
        "sagas/store/schedule/scan_positions.py",
        "sagas/store/watermarks.py",
        "sagas/store/index/listing.py",
        "tests/load",
    ),
    "tables in memory": (
        "sagas/store",
        "sagas/testing/expressions.py",
        "sagas/testing/tables.py",
        "tests/support/dynamodb.py",
        "tests/support/refused.py",
        "tests/support/tables.py",
        "tests/engine/test_tables_agree.py",
        ".ci/constraints.txt",
    ),
    "restore": (
        "sagas/store/connection.py",
        "sagas/store/restored.py",
        "tests/engine/test_restore.py",
    ),
    "store engines": (
        "sagas/store",
        "sagas/testing/expressions.py",
        "sagas/testing/tables.py",
        "tests/store",
        "tests/engine/test_disaster.py",
        "tests/engine/test_races.py",
        "tests/support",
        ".ci/constraints.txt",
    ),
    "soak": (
        "sagas/core",
        "sagas/engine/advance.py",
        "sagas/engine/attempt/attempt.py",
        "sagas/engine/committer.py",
        "sagas/engine/attempt/failures.py",
        "sagas/engine/supervise/recovery.py",
        "sagas/engine/worker.py",
        "sagas/store/control/control.py",
        "sagas/store/journal/journal.py",
        "tests/soak",
    ),
    "hostile API": (
        "functions",
        "sagas/handlers/http/answers.py",
        "sagas/handlers/api.py",
        "sagas/handlers/http/bodies.py",
        "sagas/handlers/bulk.py",
        "sagas/handlers/http/types.py",
        "sagas/handlers/http/inputs.py",
        "sagas/handlers/http/openapi.py",
        "sagas/handlers/http/sagas.py",
        "sagas/handlers/http/schemas.py",
        "sagas/handlers/http/signals.py",
        "tests/e2e/hostile_checks.py",
        "tests/e2e/test_hostile_api.py",
        "tests/e2e/test_waiting.py",
    ),
    "hardening": (
        ".ci/constraints.txt",
        "docs/operations/hardening.md",
        "sagas/cdk",
        "tests/cdk/test_hardening.py",
    ),
    "generated clients": (
        "sagas/authoring/shapes",
        "sagas/engine/read/answers.py",
        "sagas/engine/read/overviews.py",
        "sagas/engine/read/reports.py",
        "sagas/handlers/http/bodies.py",
        "sagas/handlers/http/openapi.py",
        "sagas/handlers/http/schemas.py",
        "sagas/operations.py",
        "tests/e2e/client_tools.py",
        "tests/e2e/test_generated_clients.py",
    ),
    "generated projects": (
        ".ci/constraints.txt",
        "README.md",
        "docs/tutorial/first-saga.md",
        "hatch_build.py",
        "pyproject.toml",
        "sagas/cli/examples",
        "sagas/cli/project/init.py",
        "sagas/cli/template",
        "tests/e2e/pages.py",
        "tests/e2e/test_own_project.py",
        "tests/unit/cli/test_init.py",
    ),
    "ways to install": (
        "hatch_build.py",
        "pyproject.toml",
        "sagas/cdk/compute/layer.py",
        "sagas/cli/__init__.py",
        "tests/e2e/test_ways_to_install.py",
    ),
    "tutorials": (
        "demo",
        "docs/tutorial",
        "events",
        "functions",
        "infra",
        "sagas/cli",
        "tests/e2e/pages.py",
        "tests/e2e/test_tutorials.py",
    ),
    "local stack": (
        "pyproject.toml",
        "sagas/cli/project/init.py",
        "sagas/cli/project/local.py",
        "sagas/cli/read/logs.py",
        "sagas/cli/template",
        "sagas/client/read/logs.py",
        "sagas/local",
        "sagas/loopback.py",
        "tests/e2e/probe",
        "tests/e2e/test_authoring.py",
        "tests/e2e/test_local_stack.py",
        "tests/e2e/test_releases_in_flight.py",
    ),
    "site": (
        "CHANGELOG.md",
        "docs",
        "tests/e2e/console/accessible.py",
        "tests/e2e/console/test_site.py",
    ),
    "console in a browser": (
        "sagas/client/read/advice.py",
        "sagas/client/read/next_action.py",
        "sagas/console",
        "sagas/loopback.py",
        "tests/e2e/console",
        "tests/unit/console/service.py",
    ),
    "CDK CLI": (
        "Makefile",
        "cdk.json",
        "docs/operations/deploying.md",
        "infra",
        "pyproject.toml",
        "tests/e2e/cdk_cli.py",
        "tests/e2e/test_cdk_cli.py",
    ),
    "elsewhere": (
        "sagas/cdk/access/grants.py",
        "sagas/client/endpoints.py",
        "sagas/client/transport.py",
        "tests/e2e/account",
        "tests/e2e/cdk_cli.py",
        "tests/e2e/conftest.py",
        "tests/e2e/elsewhere.py",
        "tests/e2e/test_elsewhere.py",
    ),
    "crowds": (
        "sagas/engine/children.py",
        "sagas/engine/joining.py",
        "sagas/engine/step_queues.py",
        "sagas/engine/operate/signals.py",
        "sagas/handlers/commands.py",
        "sagas/store/inbox.py",
        "sagas/store/joins.py",
        "sagas/store/watermarks.py",
        "tests/e2e/convoys",
        "tests/e2e/test_children.py",
        "tests/e2e/test_events.py",
        "tests/e2e/test_failures.py",
        "tests/e2e/test_waiting.py",
    ),
    "nested stacks": (
        "sagas/cdk/layout/nested_stacks.py",
        "sagas/cdk/layout/step_groups.py",
        "sagas/local/emulator/nested.py",
        "sagas/messaging/queues.py",
        "tests/e2e/nested",
        "tests/e2e/test_nested_stacks.py",
    ),
    "sizes of services": (
        "functions/checkout.py",
        "functions/create_zip.py",
        "sagas/cdk",
        "tests/cdk/saga_classes.py",
        "tests/cdk/templates.py",
        "tests/cdk/test_many_types.py",
        "tests/cdk/test_monitoring.py",
        "tests/cdk/test_nested.py",
        "tests/e2e/nested/many.py",
    ),
    "enforced IAM": (
        ".ci/constraints.txt",
        "docs/build/children.md",
        "sagas/cdk/access/api.py",
        "sagas/cdk/messages/callbacks.py",
        "sagas/cdk/access/grants.py",
        "sagas/client/transport.py",
        "sagas/local",
        "sagas/store/callback_keys.py",
        "tests/e2e/trials/calls.py",
        "tests/e2e/trials/enforced.py",
        "tests/e2e/test_enforced.py",
        "tests/e2e/trials/waits.py",
    ),
    "other origins": (
        "sagas/console/app.py",
        "sagas/console/guard.py",
        "sagas/console/serving.py",
        "sagas/local/emulator/emulator.py",
        "sagas/local/process.py",
        "sagas/loopback.py",
        "tests/e2e/console/conftest.py",
        "tests/e2e/console/test_other_origins.py",
    ),
}
"""The files and folders by subject. What is below a folder counts, and so does the test itself."""


def _files(paths: tuple[str, ...]) -> Iterator[Path]:
    for path in sorted(ROOT / name for name in paths):
        if not path.exists():
            raise LookupError(f"a subject has {path.relative_to(ROOT)}, which does not exist")
        found = [path] if path.is_file() else sorted(path.rglob("*"))
        yield from (file for file in found if file.is_file() and _GENERATED.isdisjoint(file.relative_to(ROOT).parts))


@cache
def test_files(subject: str) -> list[str]:
    """Return the files of a subject that have its tests."""
    files = (file.relative_to(ROOT).as_posix() for file in _files(SUBJECTS[subject]))
    return [file for file in files if file.startswith("tests/") and Path(file).name.startswith("test_")]


def digest(subject: str) -> str:
    """The hash of a subject's files, their names and contents."""
    total = hashlib.sha256()
    for file in _files(SUBJECTS[subject]):
        total.update(f"{file.relative_to(ROOT)}\0".encode())
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:16]


def recorded() -> dict[str, str]:
    """The hashes under which the tests of the subjects have passed last."""
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


@cache
def runs(subject: str) -> bool:
    """Whether the tests of a subject run now. ``SAGAS_SUBJECTS``: in these alone, by commas, or in all."""
    if chosen := os.environ.get("SAGAS_SUBJECTS"):
        return chosen == "all" or subject in chosen.split(",")
    return recorded().get(subject) != digest(subject)


def main() -> int:
    """Run the tests of each subject that has changed; record the hashes of those that pass. Return 1 if one fails."""
    failed: list[str] = []
    for subject in SUBJECTS:
        now = digest(subject)
        if recorded().get(subject) == now:
            continue
        print(f"== {subject}", flush=True)
        tests = (
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "2",
            "--dist",
            "loadfile",
            "-m",
            "proof",
            *test_files(subject),
        )
        environment = os.environ | {"SAGAS_SUBJECTS": subject, "CI": "true"}  # a missing engine proves nothing
        if subprocess.run(tests, cwd=ROOT, env=environment, check=False).returncode:
            failed.append(subject)
            continue
        kept = {name: value for name, value in recorded().items() if name in SUBJECTS} | {subject: now}
        RECORD.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n")
    if failed:
        print(f"failed, and not recorded: {', '.join(failed)}", flush=True)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
