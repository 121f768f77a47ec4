"""A deployed stack as a test sees it, and the one that ``sagas local up`` starts, ended by its process id."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import boto3
from botocore.config import Config
from typer.testing import CliRunner

from sagas import SagaClient
from sagas.cli.main import app as commands
from sagas.engine.clock import skipped
from tests.support.shared import shared

REPOSITORY = Path(__file__).resolve().parents[2]
SAGAS = str(Path(sys.executable).parent / "sagas")
PACE = float(os.environ.get("SAGAS_E2E_PACE", "1"))
"""By which every deadline is multiplied: an account, or an emulator in a container, is slower than the embedded one."""

LEASH = ("setpriv", "--pdeathsig", "TERM") if shutil.which("setpriv") else ()
"""Before a command, on Linux: it is asked to end when the tests' process ends, in whatever way."""
T = TypeVar("T")


def free_port() -> int:
    """Return a port on 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def poll(what: str, check: Callable[[], T | None], deadline: float = 30.0, every: float = 0.05) -> T:
    """Return the first true answer of ``check``; fail after ``deadline``, times the pace. It is asked ``every`` so many
    seconds, and less often the longer it takes: what is waited for needs the processor, too."""
    began = time.monotonic()
    while (passed := time.monotonic() - began) < deadline * PACE:
        answer = check()
        if answer:
            return answer
        time.sleep(max(every, min(passed / 5, 0.5)))
    raise AssertionError(f"{what}: not within {deadline * PACE:g} s")


def run_sagas(project: Path, *arguments: str, deadline: float = 60.0) -> subprocess.CompletedProcess[str]:
    """Run the ``sagas`` command to its end, in a process of its own."""
    return subprocess.run(
        [SAGAS, *arguments],
        cwd=project,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=deadline * PACE,
        check=False,
    )


def assembled(app: str) -> str:
    """Return a command that writes what ``app``, ``python -m`` a module, wrote when it was first asked in this run."""
    module = app.removeprefix("python -m ")
    assert module.replace(".", "").isidentifier(), app
    return shlex.join(["python", "-m", "tests.e2e.assembled", str(shared("assemblies")), module])


def launch(project: Path, app: str, *options: str, port: int | None = None) -> Running:
    """Start ``sagas local up`` in the background, and wait until it is ready."""
    running = start(project, app, *options, port=port)
    try:
        poll("local stack", running.ready, deadline=150)
    except BaseException:
        running.stop()
        raise
    return running


@contextmanager
def launched(project: Path, app: str, *options: str) -> Generator[Running]:
    """Start ``sagas local up``, and end it afterwards."""
    running = launch(project, app, *options)
    try:
        yield running
    finally:
        running.stop()


def start(project: Path, app: str, *options: str, port: int | None = None, errors: int | None = None) -> Running:
    """Start ``sagas local up`` in the background, with its errors in a file or where a descriptor says."""
    command = [*LEASH, SAGAS, "local", "up", "--app", app, "--port", str(port or free_port()), *options]
    with (project / "out.txt").open("w") as out, (project / "err.txt").open("w") as err:
        process = subprocess.Popen(
            command, cwd=project, env=_environment(), stdout=out, stderr=errors or err, start_new_session=True
        )
    return Running(project, process)


class Stack:
    """A stack that is described by ``.sagas/local.json``.

    Args:
        project: the directory that holds it.
    """

    options: tuple[str, ...] = ()
    """What tells the ``sagas`` command which stack is meant."""

    def __init__(self, project: Path) -> None:
        self.project = project

    @property
    def description(self) -> dict[str, Any]:
        """What ``.sagas/local.json`` says."""
        return json.loads((self.project / ".sagas" / "local.json").read_text())

    @property
    def session(self) -> Any:
        """A session of boto3, or what looks like one: its credentials sign, its clients reach the stack."""
        return boto3.Session(
            aws_access_key_id="test", aws_secret_access_key="test", region_name=self.description["region"]
        )

    def client(self, service: str) -> Any:
        """Return a boto3 client of where the stack is."""
        config = cast("Any", Config)(s3={"addressing_style": "path"})
        return self.session.client(service, endpoint_url=self.description["endpoint_url"], config=config)

    def saga_client(self) -> SagaClient:
        """Return a client of the stack."""
        return SagaClient.local(self.project)

    def skip(self, seconds: float) -> None:
        """Let time pass at once, where there is a clock that can be moved. Elsewhere it passes by itself."""

    def skip_to(self, moment: float) -> None:
        """Let the time until then, in epoch seconds, pass at once where there is a clock that can be moved."""

    def sagas(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of ``sagas`` on this stack to its end, in this process: to start one takes longer than most
        commands do."""
        given = [*arguments, *self.options]
        with chdir(self.project):
            ended = CliRunner().invoke(commands, given)
        if ended.exception is not None and not isinstance(ended.exception, SystemExit):
            raise ended.exception
        return subprocess.CompletedProcess(given, ended.exit_code, ended.stdout, ended.stderr)


class Running(Stack):
    """A local stack that was launched in the foreground.

    Args:
        project: its directory.
        process: the command.
    """

    def __init__(self, project: Path, process: subprocess.Popen[bytes]) -> None:
        super().__init__(project)
        self.process = process

    def ready(self) -> bool:
        """Tell whether the command has said so: all is deployed, seeded and printed; fail if it has ended."""
        if self.process.poll() is not None:
            raise AssertionError((self.project / "err.txt").read_text() or "the command ended without a word")
        return "\nReady. " in (self.project / "out.txt").read_text()

    def skip(self, seconds: float) -> None:
        """Move the stack's clock on, whatever is under way.

        ``sagas local tick --advance`` waits for that first, and for a message of a dead worker it would wait for long.
        """
        draft = self._clock.with_suffix(".draft")
        draft.write_text(f"{skipped(str(self._clock)) + seconds:.3f}\n")
        draft.replace(self._clock)

    def skip_to(self, moment: float) -> None:
        """Move the stack's clock on to then, if it is not there yet."""
        self.skip(max(0.0, moment - time.time() - skipped(str(self._clock))))

    @property
    def _clock(self) -> Path:
        return (self.project / ".sagas" / "clock").resolve()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal to the command, by its process id, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=60)


def _environment() -> dict[str, str]:
    """As in the repository: its packages can be imported from any directory."""
    return {**os.environ, "PYTHONPATH": str(REPOSITORY)}
