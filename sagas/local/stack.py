"""The local stack from start to end."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from sagas.local.assembly import read_assembly
from sagas.local.clients import Clients
from sagas.local.deployment import Deployer
from sagas.local.description import Description, describe
from sagas.local.errors import LocalStackError
from sagas.local.files import Files
from sagas.local.process import REGION, Emulator, end_process, require_free_port, runs_functions_itself
from sagas.local.synthesis import synthesize


class Stopped(BaseException):
    """A signal asked the local stack to end. Like KeyboardInterrupt, not an error."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What ``sagas local up`` was asked for.

    Args:
        project: the directory of the CDK app.
        app: the command that synthesizes it.
        port: of the emulator, on 127.0.0.1.
        persist: where state is kept between runs.
    """

    project: Path
    app: str = "python -m infra.app"
    port: int = 4566
    persist: Path | None = None


def up(settings: Settings, ready: Callable[[Description], None], *, detach: bool = False) -> None:
    """Start the emulator, deploy the app to it, and stay until a signal; then let running functions finish.

    Args:
        settings: what to start.
        ready: called with the description once everything is deployed.
        detach: return when it is ready, and leave it running.

    Raises:
        LocalStackError: it cannot be started, or the emulator died.
    """
    files = Files(settings.project)
    _require_none_running(files)
    require_free_port(settings.port)
    files.root.mkdir(parents=True, exist_ok=True)
    with _signals_as_exception():
        emulator = Emulator(files, settings.port, persist=settings.persist, attached=not detach)
        kept = False
        try:
            emulator.wait_until_healthy()
            try:
                description = _deploy(Clients(emulator.endpoint_url, REGION), settings, files, pid=emulator.pid)
            except LocalStackError:
                # If the emulator died on the way, that is the cause and the rest its consequence.
                emulator.check_alive()
                raise
            ready(description)
            kept = detach
            if not detach:
                emulator.wait()
        except Stopped:
            kept = False
        finally:
            if not kept:
                try:
                    emulator.stop()
                finally:
                    files.description.unlink(missing_ok=True)


def deploy_to_endpoint(settings: Settings, endpoint_url: str) -> Description:
    """Deploy the app to an endpoint that is already running, and describe it.

    Raises:
        LocalStackError: it cannot be reached, or refuses the template.
    """
    files = Files(settings.project)
    _require_none_running(files)
    files.root.mkdir(parents=True, exist_ok=True)
    with _signals_as_exception():
        return _deploy(Clients(endpoint_url.rstrip("/"), REGION), settings, files, pid=None)


def down(project: Path) -> str:
    """End the local stack of a project, also one that is already dead.

    Returns:
        What was done, in one line.
    """
    files = Files(project)
    pid = files.running_pid()
    description = None
    with suppress(LocalStackError):
        description = Description.read(files.description)
    files.description.unlink(missing_ok=True)
    if pid is not None:
        end_process(pid, lambda: files.running_pid() != pid)
        return "The local stack has ended."
    if description is None or description.pid is not None:
        return "No local stack was running."
    deployer = Deployer(Clients(description.endpoint_url, description.region), embedded=False)
    for stack in reversed(read_assembly(files.assembly, deployer.account(), description.region)):
        deployer.delete(stack.name)
    return f"The stacks at {description.endpoint_url} are being deleted."


def _deploy(clients: Clients, settings: Settings, files: Files, *, pid: int | None) -> Description:
    directory = synthesize(settings.app, files)
    deployer = Deployer(clients, embedded=pid is not None or runs_functions_itself(clients.endpoint_url))
    account = deployer.account()
    stacks = [deployer.deploy(stack) for stack in read_assembly(directory, account, clients.region)]
    description = describe(clients, stacks, pid)
    description.write(files.description)
    return description


def _require_none_running(files: Files) -> None:
    pid = files.running_pid()
    if pid is not None:
        raise LocalStackError(f"a local stack is already running here (process {pid}); `sagas local down` ends it")


@contextmanager
def _signals_as_exception() -> Generator[None]:
    """Turn the signals that end a process into :class:`Stopped`, so that what was started is ended too."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Stopped

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
