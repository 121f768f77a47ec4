"""Makes cold starts of the local stack ten times as fast: ``python -P -m sagas.local.emulator.prefork SOCKET``.

The process of a function spends most of its start on imports of boto3, Powertools and this library, which are the same
for all functions. So one process imports them once and forks. Each fork runs the script that ministack would have
started. A new process is started as usual where the result could differ: on systems other than Linux, and for functions
with layers, with packages of the same names, or with variables that affect imports.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any

_IMPORTED = (
    "boto3",
    "aws_lambda_powertools.logging",
    "aws_lambda_powertools.metrics",
    "pynamodb.models",
    "sagas.handlers.api",
    "sagas.handlers.commands",
    "sagas.handlers.tasks.recovering",
    "sagas.handlers.step",
    "sagas.handlers.tasks.sweeping",
)
"""The modules that all functions import. The only environment variables that the imports read:"""
_READ_WHILE_IMPORTED = (
    "PYTHON",
    "LD_",
    "HOME",
    "POWERTOOLS_DEBUG",
    "POWERTOOLS_TRACE_MIDDLEWARES",
    "PYNAMODB_",
    "AWS_EXECUTION_ENV",
    "AWS_LAMBDA_INITIALIZATION_TYPE",
    "AWS_NEW_RETRIES_2026",
    "_LAMBDA_LAYERS_DIRS",
    "SAGAS_VALIDATE_REQUESTS",
)
_CLIENTS = ("dynamodb", "sqs", "s3")
"""Most functions have clients of these services."""
_LENGTH = 4


class Prefork:
    """Replaces the module ``subprocess`` in code that starts workers with ``Popen([sys.executable, SCRIPT], ...)``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._link, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - own argv
                [sys.executable, "-P", "-m", __name__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        """End the process that forks. Its forks continue; later workers are started as new processes."""
        self._link.close()
        self._process.wait()

    def Popen(self, command: list[str], **options: Any) -> subprocess.Popen[str] | Forked:  # noqa: N802 - subprocess's
        """Fork a worker if that gives the same result; start a process otherwise."""
        environment: dict[str, str] = options.get("env") or {}
        if len(command) == 2 and command[0] == sys.executable and not _differs(environment):
            with self._lock, suppress(OSError, EOFError):
                forked = self._forked({"script": command[1], "cwd": options["cwd"], "env": environment})
                if forked is not None:
                    return forked
        return subprocess.Popen(command, **options)  # noqa: S603 - the caller's command

    def _forked(self, request: dict[str, Any]) -> Forked | None:
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        ours_err, theirs_err = os.pipe()
        theirs = [theirs_in, theirs_out, theirs_err]
        text = json.dumps(request).encode()
        try:
            socket.send_fds(self._link, [len(text).to_bytes(_LENGTH)], theirs)
            self._link.sendall(text)
            answer, handles, _, _ = socket.recv_fds(self._link, _LENGTH, 1)
        except OSError:
            for descriptor in (ours_in, ours_out, ours_err):
                os.close(descriptor)
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        if not handles:
            for descriptor in (ours_in, ours_out, ours_err):
                os.close(descriptor)
            if not answer:
                raise EOFError("the process that forks has ended")
            return None
        return Forked(int.from_bytes(answer), handles[0], ours_in, ours_out, ours_err)


class Forked:
    """A worker's process, with the interface of ``Popen``. It is not a child of this process, so its exit code is
    unknown. ``handle`` is a pidfd of the process."""

    def __init__(self, pid: int, handle: int, stdin: int, stdout: int, stderr: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdin: IO[str] = os.fdopen(stdin, "w", 1)
        self.stdout: IO[str] = os.fdopen(stdout)
        self.stderr: IO[str] = os.fdopen(stderr)
        self._handle = handle

    def poll(self) -> int | None:
        """Return 0 once the process has ended, and ``None`` before."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return 0 once the process has ended. Raise TimeoutExpired after ``timeout`` seconds."""
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._handle, select.POLLIN)
            if not poll.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(f"worker {self.pid}", timeout or 0)
            self.returncode = 0
        return self.returncode

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def __del__(self) -> None:
        with suppress(OSError):
            os.close(self._handle)


def _differs(environment: Mapping[str, str]) -> bool:
    """Whether variables that affect imports differ from the variables of this process."""
    return any(
        environment.get(name) != os.environ.get(name)
        for name in environment.keys() | os.environ.keys()
        if name.startswith(_READ_WHILE_IMPORTED)
    )


def main() -> None:
    """Import the modules, then fork on request until the other end of the socket is closed. In a fork, this returns
    when the worker's script has ended, and the process ends as usual."""
    link = socket.socket(fileno=int(sys.argv[1]))
    for name in _IMPORTED:
        import_module(name)
    _read_models()
    gc.collect()
    gc.freeze()
    files = _files()
    # Ctrl-C in a terminal is for the process that started the stack.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        length, descriptors, _, _ = socket.recv_fds(link, _LENGTH, 3)
        if not length:
            return
        request = json.loads(_received(link, int.from_bytes(length)))
        # If code was installed or edited since then, start a new process for this request, and restart this process for
        # the next.
        outdated = files != _files()
        # The same applies to code with its own modules whose names are already imported.
        if outdated or any(path.name.split(".")[0] in sys.modules for path in Path(request["cwd"]).iterdir()):
            link.sendall(bytes(_LENGTH))
        elif _fork(link, descriptors):
            _become(request)
            return
        for descriptor in descriptors:
            os.close(descriptor)
        if outdated:
            link.set_inheritable(True)
            os.execv(sys.executable, [sys.executable, "-P", "-m", "sagas.local.emulator.prefork", str(link.fileno())])  # noqa: S606


def _read_models() -> None:
    """Have botocore read the models of common services once, before any fork. Reading them, more than a megabyte of
    JSON, takes longer than all requests of a saga. Other models are read when a client is created."""
    sessions: Any = import_module("botocore.session")
    sessions.create_loader = cache(sessions.create_loader)
    session = sessions.get_session()
    for service in _CLIENTS:
        session.create_client(service, region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none")  # noqa: S106 - never used


def _received(link: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        chunk = link.recv(length - len(data))
        if not chunk:
            raise EOFError("the other end was closed within a request")
        data += chunk
    return data


def _files() -> dict[str, int]:
    """Return the modification time of each imported file, in nanoseconds."""
    times: dict[str, int] = {}
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if path:
            with suppress(OSError):
                times[path] = os.stat(path).st_mtime_ns  # noqa: PTH116 - in a third of the time, for each of 700 files
    return times


def _reap(*_: object) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _fork(link: socket.socket, descriptors: list[int]) -> bool:
    """Fork, and send a handle to the new process over ``link``. Return true in the new process, which has the
    descriptors as 0, 1 and 2."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    pid = os.fork()
    if pid:
        # This process has not reaped its child yet, so the pid is still valid.
        handle = os.pidfd_open(pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        socket.send_fds(link, [pid.to_bytes(_LENGTH)], [handle])
        os.close(handle)
        return False
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    link.close()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    return True


def _become(request: dict[str, Any]) -> None:
    """Run the script as ``python SCRIPT`` would."""
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = [request["script"]]
    sys.path.insert(0, str(Path(request["script"]).parent))
    runpy.run_path(request["script"], run_name="__main__")


if __name__ == "__main__":
    main()
