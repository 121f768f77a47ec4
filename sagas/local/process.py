"""Starts, watches and stops the emulator's process."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from sagas.aws import VALIDATE
from sagas.local.errors import LocalStackError
from sagas.local.files import Files, still_running

REGION = "us-east-1"
PATIENCE = 30.0
"""When the stack stops, running functions have this many seconds to finish."""

_PORT = 4566
_START_DEADLINE = 30.0
_POLL = 0.05
_LOCK_HELD = 3


class Emulator:
    """A running emulator, on a port from :func:`port_for`. ``persist``: the directory for state that survives restarts.
    ``attached``: whether the emulator ends when this process ends. ``enforce_iam``: whether every call is checked
    against the caller's policies. ``origins``: the origins of web pages that may call it."""

    def __init__(
        self,
        files: Files,
        port: int,
        *,
        persist: Path | None = None,
        attached: bool = True,
        enforce_iam: bool = False,
        origins: Sequence[str] = (),
    ) -> None:
        if persist is not None:
            persist.mkdir(parents=True, exist_ok=True)
            (persist / "port").write_text(f"{port}\n")
        self._see_log = f"see {files.emulator_log}"
        self._port = port
        self._lock = files.lock
        self._still_running = still_running(files.lock)
        self.endpoint_url = f"http://127.0.0.1:{port}"
        files.scratch.mkdir(parents=True, exist_ok=True)
        files.clock.unlink(missing_ok=True)
        files.schedules.unlink(missing_ok=True)
        if persist is not None:
            # The clock may have been ahead when the state was stored, and must not go back.
            files.clock.symlink_to(persist.resolve() / "clock")
        command = [sys.executable, "-m", "sagas.local.emulator.emulator", str(port), str(files.lock), str(PATIENCE)]
        with files.emulator_log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - own argv
                [*command, *(["--attached"] if attached else []), *origins],
                stdin=subprocess.PIPE if attached else subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment_of(files, port, persist)
                | {"SAGAS_CLOCK": str(files.clock)}
                | ({"AUTH": "true"} if enforce_iam else {}),
                cwd=files.scratch,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its process group."""
        return self._process.pid

    def wait_until_locked(self) -> None:
        """Wait until the emulator holds the project's lock. From then on, no other emulator writes into ``.sagas``."""
        self._wait(self._has_lock)

    def wait_until_healthy(self) -> None:
        self._wait(self._answers)

    def _wait(self, until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_DEADLINE
        while not until():
            self.check_alive()
            if time.monotonic() > deadline:
                raise LocalStackError(f"the emulator did not start within {_START_DEADLINE:g} s; {self._see_log}")
            time.sleep(_POLL)
        self.check_alive()

    def _has_lock(self) -> bool:
        # Read the file, because to try the lock would hold it for a moment, and the emulator could fail to get it.
        with suppress(FileNotFoundError):
            return self._lock.read_text().strip() == str(self.pid)
        return False

    def wait(self) -> None:
        """Wait until the emulator has ended normally."""
        if self._process.wait():
            raise self._death()

    def check_alive(self) -> None:
        """Raise LocalStackError if the emulator has died."""
        if self._process.poll() is not None:
            raise self._death()

    def is_running(self) -> bool:
        """Whether the emulator is running; False after it ended normally."""
        if self._process.poll() is None:
            return True
        if self._process.returncode:
            raise self._death()
        return False

    def stop(self, tell: Callable[[str], None] = lambda line: None) -> None:
        """Let running functions finish, stop the emulator, and leave no process of its group behind."""
        reported = ""

        def has_ended() -> bool:
            nonlocal reported
            with suppress(OSError):
                names = self._still_running.read_text()
                if names not in ("", reported):
                    reported = names
                    tell(names)
            return self._process.poll() is not None

        self._still_running.unlink(missing_ok=True)
        end_process(self.pid, has_ended)
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=2)
        try:
            connection.request("GET", "/_ministack/health")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _death(self) -> LocalStackError:
        code = self._process.returncode
        if code == _LOCK_HELD:
            return LocalStackError("a local stack is already running for this project; `sagas local down` stops it")
        return LocalStackError(f"the emulator ended with exit code {code}; {self._see_log}")


def runs_functions_itself(endpoint_url: str) -> bool:
    """Whether an endpoint is an embedded emulator, which runs functions in its own interpreter."""
    with suppress(OSError), urllib.request.urlopen(f"{endpoint_url}/_ministack/health", timeout=5) as answer:  # noqa: S310
        return answer.status == http.HTTPStatus.OK
    return False


def port_for(port: int | None, persist: Path | None) -> int:
    """Return the port to use: ``port``, else the port of the stored state, else 4566 or, if that is taken, a free port.
    Raise LocalStackError if ``port`` is in use, or if the stored state belongs to another port."""
    # The URLs of stored queues contain the port, so they are not valid with another port.
    note = persist / "port" if persist is not None else None
    stored = int(note.read_text()) if note is not None and note.is_file() else None
    if stored and port not in (None, stored):
        raise LocalStackError(f"the state in {persist} was stored with port {stored}; add --port {stored}")
    if port := port or stored:
        return _free_port(port)
    try:
        return _free_port(_PORT)
    except LocalStackError:
        return _free_port(0)


def _free_port(port: int) -> int:
    with socket.socket() as probe:
        # As for servers, a port counts as free even if its last connections have only just ended.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            return probe.getsockname()[1]
        except OSError as error:
            reason = os.strerror(error.errno or 0).lower()
            raise LocalStackError(f"cannot use port {port} ({reason}); choose another with --port") from error


def end_process(pid: int, has_ended: Callable[[], bool]) -> None:
    """Ask an emulator to end, and kill it if that takes too long. Always kill the rest of its process group."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE + 10
    try:
        while not has_ended() and time.monotonic() < deadline:
            time.sleep(_POLL)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def environment_of(files: Files, port: int, persist: Path | None) -> dict[str, str]:
    """Return the whole environment of the emulator and its functions. It has no real credentials, and takes from the
    user's environment only whether requests are validated."""
    environment = ({VALIDATE: os.environ[VALIDATE]} if VALIDATE in os.environ else {}) | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.defpath]),
        "HOME": str(files.scratch),
        "TMPDIR": str(files.scratch),
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "MINISTACK_HOST": "127.0.0.1",
        "MINISTACK_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_EC2_METADATA_DISABLED": "true",
        "LAMBDA_EXECUTOR": "local",
        "DOCKER_HOST": "unix:///nonexistent",
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
    }
    if persist is not None:
        state = {"STATE_DIR": str(persist / "state"), "S3_DATA_DIR": str(persist / "s3")}
        environment |= {"PERSIST_STATE": "1", "S3_PERSIST": "1", **state}
    return environment
