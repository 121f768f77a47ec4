"""Real engines: the emulator, and AWS's own DynamoDB Local. Each is one process on a free port of 127.0.0.1.

The processes of a test run share it: the first that asks for it starts it. Its standard input is a pipe that each of
them holds open, and it ends when that does: with the last of them, however that one ends.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.support.aws import REGION
from tests.support.shared import shared

_REPOSITORY = Path(__file__).parents[2]
_VERSION = "3.1.0"
_LIBRARIES = _REPOSITORY / ".sagas" / "cache" / "dynamodb-local" / _VERSION
_SERVER = _REPOSITORY / "tests" / "store" / "LoopbackServer.java"
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>sagas</groupId><artifactId>tests</artifactId><version>1</version>
<dependencies><dependency><groupId>software.amazon.dynamodb</groupId><artifactId>DynamoDBLocal</artifactId>
<version>{_VERSION}</version></dependency></dependencies></project>
"""
_MINISTACK = """
import os, runpy, sys, threading
os.environ |= {"BIND_HOST": "127.0.0.1", "GATEWAY_PORT": sys.argv.pop()}
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
runpy.run_module("ministack", run_name="__main__")
"""
"""It ends with its standard input, and so with whoever started it, however that ended."""
_BRIEF = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For a process of some minutes: Java's thorough compiler takes longer than what it compiles."""
_START_DEADLINE = 90.0
_DOWNLOAD_DEADLINE = 110.0


@dataclass(frozen=True)
class Database:
    """Where a store is. ``s3_url``: where its payloads go. ``None``: in this process, in memory and on moto."""

    name: str
    endpoint_url: str | None = None
    s3_url: str | None = None


def lead_nowhere(patch: pytest.MonkeyPatch) -> None:
    """Set credentials and a region that lead nowhere."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        patch.setenv(name, "test")
    patch.setenv("AWS_DEFAULT_REGION", REGION)


def free_port() -> int:
    """A port on 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=2).close()
    except urllib.error.HTTPError as error:
        error.close()
        return True
    except OSError:
        return False
    return True


_held: list[int] = []
"""The pipes that this process holds open."""


def _served(name: str, command: Callable[[int], list[str]], path: str = "") -> str:
    """Return the address of the server of this test run, which is started if there is none.

    Args:
        name: of its files in the folder of the run.
        command: starts it on a port.
        path: where it answers once it is ready.
    """
    # Processes that put all tables on one engine each have their own.
    folder = shared(f"servers-{os.getpid()}" if os.environ.get("SAGAS_TESTS_TABLES") else "servers")
    pipe, address = folder / f"{name}.pipe", folder / f"{name}.url"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(OSError):  # no pipe, or no server that reads it
            _held.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
            return address.read_text()
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        _held.append(os.open(pipe, os.O_WRONLY))
        os.set_blocking(reading, True)
        port = free_port()
        process = subprocess.Popen(
            command(port),
            env={"PATH": os.environ["PATH"], "TMPDIR": str(folder)},
            stdin=reading,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(reading)
        atexit.register(_end, process)
        _wait(process, f"http://127.0.0.1:{port}{path}")
        address.write_text(f"http://127.0.0.1:{port}")
        return address.read_text()


def _wait(process: subprocess.Popen[bytes], url: str) -> None:
    """Wait until a server answers."""
    deadline = time.monotonic() + _START_DEADLINE
    while not _answers(url):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{process.args} does not answer; exit code {process.returncode}")
        time.sleep(0.02)  # a poll with a deadline


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let go of all servers, and wait until the other processes have let go of this one."""
    while _held:
        os.close(_held.pop())
    process.wait()


@cache
def emulator() -> Database:
    """Start ministack."""
    url = _served("emulator", lambda port: [sys.executable, "-c", _MINISTACK, str(port)], "/_ministack/health")
    return Database("emulator", url, url)


@cache
def dynamodb_local() -> Database:
    """Start DynamoDB Local, which Maven fetches once. It has no S3.

    Without Java or Maven the test is skipped, but not in CI: there it fails.
    """
    libraries = _libraries()
    classpath, natives = f"{libraries}/*", f"-Djava.library.path={libraries}"
    java = ["java", *_BRIEF, natives, "-cp", classpath, str(_SERVER), "-inMemory", "-sharedDb", "-disableTelemetry"]
    return Database("dynamodb_local", _served("dynamodb-local", lambda port: [*java, "-port", str(port)]))


def _libraries() -> Path:
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            _missing(f"DynamoDB Local needs {tool}")
    _LIBRARIES.parent.mkdir(parents=True, exist_ok=True)
    with _LIBRARIES.with_name(f"{_VERSION}.lock").open("w") as lock:  # processes of one run want it at the same time
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _LIBRARIES.is_dir():
            _download()
    return _LIBRARIES


def _download() -> None:
    with tempfile.TemporaryDirectory(dir=_LIBRARIES.parent) as scratch:
        pom, found = Path(scratch, "pom.xml"), Path(scratch, "libraries")
        pom.write_text(_POM)
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={found}"]
        environment = {**os.environ, "MAVEN_OPTS": " ".join([os.environ.get("MAVEN_OPTS", ""), *_BRIEF])}
        try:
            subprocess.run(command, env=environment, check=True, capture_output=True, timeout=_DOWNLOAD_DEADLINE)
        except (subprocess.SubprocessError, OSError) as error:
            _missing(f"DynamoDB Local could not be fetched: {type(error).__name__}")
        found.rename(_LIBRARIES)


def _missing(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def database(name: str) -> Database:
    """Return the engine of that name, running."""
    servers = {"emulator": emulator, "dynamodb_local": dynamodb_local}
    return servers[name]() if name in servers else Database(name)
