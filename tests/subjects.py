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

SUBJECTS: dict[str, tuple[str, ...]] = {
    "enforced IAM": (
        "docs/how-to/start-from-a-saga.md",
        "pyproject.toml",
        "sagas/cdk/api.py",
        "sagas/cdk/callbacks.py",
        "sagas/cdk/grants.py",
        "sagas/client/transport.py",
        "sagas/local",
        "sagas/store/callback_keys.py",
        "tests/e2e/enforced",
        "tests/e2e/test_enforced.py",
        "tests/e2e/waiting/sagas.py",
    ),
    "other origins": (
        "sagas/console/app.py",
        "sagas/console/guard.py",
        "sagas/console/serving.py",
        "sagas/local/emulator.py",
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
        yield from (file for file in found if file.is_file() and "__pycache__" not in file.parts)


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
        environment = os.environ | {"SAGAS_SUBJECTS": subject}
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
