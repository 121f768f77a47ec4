"""Workers of the local stack that are forked are what started ones would be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sagas import errors
from sagas.local.emulator.prefork import Forked, Prefork

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only"), pytest.mark.slow]

SCRIPT = """
import atexit, json, os, sys
atexit.register(lambda: print("the end", file=sys.stderr))
print(json.dumps({
    "read": sys.stdin.readline(),
    "cwd": os.getcwd(),
    "environment": dict(os.environ),
    "argv": sys.argv,
    "path": sys.path[:1],
    "name": __name__,
    "boto3": "boto3" in sys.modules,
}), flush=True)
sys.stdin.read()
"""
READ = """
import json, os
from importlib import import_module
from sagas.local.emulator import prefork

read, environment = set(), type(os.environ)
found = environment.__getitem__
environment.__getitem__ = lambda self, name: read.add(name) or found(self, name)
for name in prefork._IMPORTED:
    import_module(name)
print(json.dumps(sorted(name for name in read if not name.startswith(prefork._READ_WHILE_IMPORTED))))
"""
FORK_DEADLINE = 10.0


@pytest.fixture(scope="module")
def prefork() -> Iterator[Prefork]:
    made = Prefork()
    yield made
    made.close()


@pytest.fixture
def start(prefork: Prefork, tmp_path: Path) -> Iterator[Any]:
    """Start a worker as ministack does."""
    code, script = tmp_path / "code", tmp_path / "_worker.py"
    code.mkdir()
    script.write_text(SCRIPT)
    started: list[Any] = []

    def starting(by: Prefork = prefork, /, **variables: str) -> Any:
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        environment = {**os.environ, **variables}
        command = [sys.executable, str(script)]
        started.append(by.Popen(command, cwd=str(code), text=True, bufsize=1, env=environment, **pipes))
        return started[-1]

    yield starting
    for one in started:
        one.kill()
        one.wait(5)
        for pipe in (one.stdin, one.stdout, one.stderr):
            pipe.close()


def _told(worker: Any) -> dict[str, Any]:
    worker.stdin.write("hello\n")
    worker.stdin.flush()
    return json.loads(worker.stdout.readline())


def test_one_is_what_a_process_of_its_own_is(start: Any, tmp_path: Path) -> None:
    forked, plain = start(OF_THE_FUNCTION="1"), start(OF_THE_FUNCTION="1", PYNAMODB_CONFIG="")
    assert isinstance(forked, Forked)
    assert isinstance(plain, subprocess.Popen)
    told, expected = _told(forked), _told(plain)
    assert (told.pop("boto3"), expected.pop("boto3")) == (True, False)
    del expected["environment"]["PYNAMODB_CONFIG"]
    assert told == expected
    assert told["read"] == "hello\n"
    assert told["environment"]["OF_THE_FUNCTION"] == "1"
    assert told["path"] == [str(tmp_path)]


def test_one_ends_as_any_does(start: Any) -> None:
    worker = start()
    _told(worker)
    assert worker.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        worker.wait(0.01)
    worker.stdin.close()
    assert worker.stderr.read() == "the end\n"
    assert worker.wait(FORK_DEADLINE) == worker.poll() == 0


@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_one_can_be_ended(start: Any, how: str) -> None:
    worker = start()
    _told(worker)
    getattr(worker, how)()
    assert worker.wait(FORK_DEADLINE) == 0
    assert worker.stdout.read() == ""
    getattr(worker, how)()  # it is gone: nobody else gets the signal


def test_none_shares_what_another_was_given(start: Any) -> None:
    one = start(OF_THE_FUNCTION="1")
    other = start()
    assert _told(one)["environment"]["OF_THE_FUNCTION"] == "1"
    assert "OF_THE_FUNCTION" not in _told(other)["environment"]
    assert one.pid != other.pid


@pytest.mark.parametrize("given", ["boto3.py", "msgspec/__init__.py", "sagas/__init__.py"])
def test_a_function_with_a_package_of_that_name_has_its_own(start: Any, tmp_path: Path, given: str) -> None:
    own = tmp_path / "code" / given
    own.parent.mkdir(exist_ok=True)
    own.touch()
    assert isinstance(start(), subprocess.Popen)


def test_no_other_variable_is_read_before_one_is_forked() -> None:
    command = [sys.executable, "-P", "-c", READ]
    assert json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout) == []


@pytest.mark.parametrize("variable", ["PYTHONOPTIMIZE", "POWERTOOLS_DEBUG", "_LAMBDA_LAYERS_DIRS"])
def test_variables_that_count_from_the_start_do(start: Any, variable: str) -> None:
    assert isinstance(start(**{variable: "1"}), subprocess.Popen)


def test_code_that_was_edited_is_used(start: Any) -> None:
    assert isinstance(start(), Forked)
    path = Path(errors.__file__)
    before = path.stat()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000))
    try:
        assert isinstance(start(), subprocess.Popen)
        assert isinstance(start(), Forked)  # it waits until all is imported anew
    finally:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_without_the_process_that_forks_one_is_started(start: Any) -> None:
    prefork = Prefork()
    before = start(prefork)
    prefork.close()
    worker = start(prefork)
    assert isinstance(before, Forked)
    assert isinstance(worker, subprocess.Popen)
    assert _told(before)["read"] == "hello\n"
    assert _told(worker)["read"] == "hello\n"


def test_it_ends_with_whoever_started_it() -> None:
    script = "from sagas.local.emulator.prefork import Prefork; print(Prefork().pid, flush=True); input()"
    owner = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert owner.stdout
    pid = int(owner.stdout.readline())
    assert Path(f"/proc/{pid}").exists()
    owner.kill()
    owner.communicate()
    deadline = time.monotonic() + FORK_DEADLINE
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
            break  # nobody waits for it here, but it has ended
        time.sleep(0.05)
    else:
        assert not Path(f"/proc/{pid}").exists()
