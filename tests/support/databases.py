"""Real engines: the emulator, and AWS's own DynamoDB Local. Each is one process on a free port of 127.0.0.1, started
when first asked for and ended, by its process id, with the test session."""

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
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

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
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
runpy.run_module("ministack", run_name="__main__")
"""
"""It ends with its standard input, and so with whoever started it, however that ended."""
_BRIEF = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For a process of some minutes: Java's thorough compiler takes longer than what it compiles."""
_START_DEADLINE = 30.0
_DOWNLOAD_DEADLINE = 110.0


@dataclass(frozen=True)
class Database:
    """Where a store is. ``s3_url``: where its payloads go. ``None``: in this process, on moto or in memory."""

    name: str
    endpoint_url: str | None = None
    s3_url: str | None = None


def _free_port() -> int:
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


def _launch(command: list[str], environment: dict[str, str], url: str) -> None:
    """Start a process, wait until it answers, and have it ended with this one."""
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    atexit.register(_end, process)
    deadline = time.monotonic() + _START_DEADLINE
    while not _answers(url):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{command[0]} does not answer; exit code {process.returncode}")
        time.sleep(0.02)  # a poll with a deadline


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


@cache
def emulator() -> Database:
    """Start ministack."""
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    environment = {"PATH": os.environ["PATH"], "BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port)}
    _launch([sys.executable, "-c", _MINISTACK], environment, f"{url}/_ministack/health")
    return Database("emulator", url, url)


@cache
def dynamodb_local() -> Database:
    """Start DynamoDB Local, which Maven fetches once. It has no S3.

    Without Java or Maven the test is skipped, but not in CI: there it fails.
    """
    libraries = _libraries()
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    classpath, natives = f"{libraries}/*", f"-Djava.library.path={libraries}"
    options = ["-inMemory", "-sharedDb", "-disableTelemetry", "-port", str(port)]
    command = ["java", *_BRIEF, natives, "-cp", classpath, str(_SERVER), *options]
    _launch(command, {"PATH": os.environ["PATH"]}, url)
    return Database("dynamodb_local", url)


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
