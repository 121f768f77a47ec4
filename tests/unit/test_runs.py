"""Which tests a run of pytest takes, and what an interrupted one leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.error import URLError

import pytest

from tests.e2e.stack import REPOSITORY, poll
from tests.support.shared import RUN

pytestmark = pytest.mark.slow

_PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
_FOLDER = "tests/faults"
_FILE = f"{_FOLDER}/test_rules.py"


def _collected(*arguments: str) -> list[str]:
    command = [*_PYTEST, "--collect-only", *arguments]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return [line for line in ended.stdout.splitlines() if "::" in line]


def test_a_folder_has_its_fast_tests_and_a_file_all_of_its_tests() -> None:
    assert _collected(_FOLDER)
    assert not [test for test in _collected(_FOLDER) if test.startswith(_FILE)]
    named = _collected(_FILE, _FOLDER, "tests/test_long.py")
    assert {test.partition("::")[0] for test in named} > {_FILE, "tests/test_long.py"}


def test_a_test_runs_that_is_named_and_an_expression_chooses() -> None:
    proof = "tests/test_long.py::test_nothing_is_found[soak]"
    assert _collected(proof) == [proof]
    chosen = _collected(_FOLDER, "-m", "slow")
    assert [test for test in chosen if test.startswith(_FILE)]
    assert not {*chosen} & {*_collected(_FOLDER)}


def test_an_interrupted_run_leaves_no_server_and_no_folder(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith((RUN, "PYTEST_"))}
    run = subprocess.Popen(
        [*_PYTEST, "-n", "2", "-m", "slow", "-k", "emulator", f"--basetemp={tmp_path / 'pytest'}", "tests/store"],
        cwd=REPOSITORY,
        env={**environment, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        process_group=0,
    )
    try:
        url = poll("the emulator", lambda: next((path.read_text() for path in tmp_path.glob("sagas-*/*/*.url")), None))
        urllib.request.urlopen(f"{url}/_ministack/health", timeout=10).close()
    finally:
        os.killpg(run.pid, signal.SIGINT)
    assert run.wait(30) == pytest.ExitCode.INTERRUPTED
    with pytest.raises(URLError):
        urllib.request.urlopen(url, timeout=10)
    assert [path.name for path in tmp_path.iterdir() if path.name != "pytest"] == []
