"""Starts, updates and stops the local stack."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, cast

from botocore.exceptions import BotoCoreError, ClientError

from sagas.local.deploy.assembly import Stack, read_assembly
from sagas.local.deploy.deployment import Deployed, Deployer
from sagas.local.deploy.description import Description, describe
from sagas.local.deploy.live_code import LiveCode, changes, seen
from sagas.local.deploy.synthesis import synthesize
from sagas.local.emulator.clients import Clients
from sagas.local.errors import LocalStackError
from sagas.local.files import Files
from sagas.local.process import PATIENCE, REGION, Emulator, end_process, port_for, runs_functions_itself


class Stopped(BaseException):
    """A signal asked the local stack to stop. Like KeyboardInterrupt, it is not an error."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of ``sagas local up``. ``project`` is the directory of the CDK app, and ``app`` the command that
    synthesizes it."""

    project: Path
    app: str
    port: int | None = None
    persist: Path | None = None
    detach: bool = False
    watch: bool = False
    enforce_iam: bool = False
    origins: tuple[str, ...] = ()


def _nothing(_line: str) -> None:
    """Print nothing."""


def up(
    settings: Settings,
    ready: Callable[[Description], None],
    *,
    tell: Callable[[str], None] = _nothing,
    begins: Callable[[str], None] = _nothing,
    renewed: Callable[[], None] = lambda: None,
) -> None:
    """Start the emulator, deploy the app to it, and wait for a signal. Then let running functions finish. ``begins`` is
    called with the name of each phase of the start, and ``renewed`` after each further deployment."""
    files = Files(settings.project)
    _require_none_running(files)
    port = port_for(settings.port, settings.persist)
    files.root.mkdir(parents=True, exist_ok=True)
    with _signals_as_exception():
        emulator = Emulator(
            files,
            port,
            persist=settings.persist,
            attached=not settings.detach,
            enforce_iam=settings.enforce_iam,
            origins=settings.origins,
        )
        before = seen(settings.project) if settings.watch else {}
        stays = False
        clients = Clients(emulator.endpoint_url, REGION)
        description = None
        try:
            begins("Starting the emulator")
            emulator.wait_until_locked()
            try:
                # Start the emulator while Python and Node load the CDK.
                begins(f"Synthesizing: {settings.app}")
                directory = synthesize(settings.app, files)
                emulator.wait_until_healthy()
                description, stacks = _deploy(clients, settings, directory, pid=emulator.pid, begins=begins)
                begins("Creating an instance of each saga type")
                _require_creatable(clients, description, settings, tell)
                description.write(files.description)
            except LocalStackError:
                # If the emulator has died, that is the cause, so report it.
                emulator.check_alive()
                raise
            stays = settings.detach  # even if printing the description fails
            ready(description)
            if settings.watch:
                live = LiveCode(clients, settings.project, files.root, stacks)
                for changed in changes(settings.project, before, emulator.is_running):
                    description, live = _renew(clients, settings, files, description, live, changed, tell)
                    renewed()
            elif not settings.detach:
                emulator.wait()
        except Stopped:
            stays = False
        finally:
            if not stays:
                try:
                    emulator.stop(lambda names: tell(_waits_for(names, description)))
                finally:
                    files.description.unlink(missing_ok=True)


def deploy_again(
    settings: Settings, *, tell: Callable[[str], None] = _nothing, begins: Callable[[str], None] = _nothing
) -> Description | None:
    """Deploy the app into the project's detached stack, in which sagas and their state stay. Return ``None`` if none is
    running. If the deployment fails, the previous one keeps running."""
    files = Files(settings.project)
    if files.running_pid() is None or not files.description.exists():
        return None
    running = Description.read(files.description)
    if not running.detached:
        return None
    fixed = {
        "--port": settings.port is not None,
        "--persist": settings.persist is not None,
        "--watch": settings.watch,
        "--enforce-iam": settings.enforce_iam and not running.enforce_iam,
        "--allow-origin": bool(settings.origins),
    }
    for option in (option for option, given in fixed.items() if given):
        problem = (
            f"a local stack is already running for this project (process {running.pid}), so {option} has no effect"
        )
        raise LocalStackError(f"{problem}; leave it out to deploy into the stack, or stop it with `sagas local down`")
    clients = Clients(running.endpoint_url, running.region)
    settings = replace(settings, detach=True, enforce_iam=running.enforce_iam)
    begins(f"Synthesizing: {settings.app}")
    directory = synthesize(settings.app, files)
    description, _ = _deploy(clients, settings, directory, pid=running.pid, begins=begins)
    description.write(files.description)
    _tell_of_queues(running, description, tell)
    _require_creatable(clients, description, settings, tell)
    return description


def deploy_to_endpoint(
    settings: Settings, endpoint_url: str, *, begins: Callable[[str], None] = _nothing
) -> Description:
    """Deploy the app to an endpoint that is already running, and return its description."""
    files = Files(settings.project)
    _require_none_running(files)
    files.root.mkdir(parents=True, exist_ok=True)
    with _signals_as_exception():
        clients = Clients(endpoint_url.rstrip("/"), REGION)
        begins(f"Synthesizing: {settings.app}")
        directory = synthesize(settings.app, files)
        description, _ = _deploy(clients, settings, directory, pid=None, begins=begins)
        description.write(files.description)
        return description


def down(project: Path) -> str:
    """Stop the local stack of a project, even if its emulator has died. Returns a report of one line."""
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


def _deploy(
    clients: Clients,
    settings: Settings,
    directory: Path,
    *,
    pid: int | None,
    begins: Callable[[str], None] = _nothing,
) -> tuple[Description, list[tuple[Stack, Deployed]]]:
    embedded = pid is not None or runs_functions_itself(clients.endpoint_url)
    deployer = Deployer(clients, embedded=embedded, enforce_iam=settings.enforce_iam)
    account = deployer.account()
    stacks: list[tuple[Stack, Deployed]] = []
    for stack in read_assembly(directory, account, clients.region):
        begins(f"Deploying {stack.name}")
        stacks.append((stack, deployer.deploy(stack)))
    description = describe(clients, (deployed for _, deployed in stacks), pid)
    return replace(description, detached=settings.detach, enforce_iam=settings.enforce_iam), stacks


def _require_creatable(
    clients: Clients, description: Description, settings: Settings, tell: Callable[[str], None]
) -> None:
    """Have a function of each saga type create an instance, with the function's configuration and permissions."""
    functions = clients.client("lambda")
    for steps in description.functions.values():
        try:
            answer = functions.invoke(FunctionName=next(iter(steps.values())), Payload=b'{"check": "create"}')
            result: object = json.loads(answer["Payload"].read())
        except (BotoCoreError, ClientError, ValueError):
            continue  # this is not a function of the library
        problems: list[str] = cast("dict[str, Any]", result).get("problems", []) if isinstance(result, dict) else []
        for problem in problems:
            if not settings.watch:
                raise LocalStackError(problem)
            tell(problem)


def _renew(
    clients: Clients,
    settings: Settings,
    files: Files,
    description: Description,
    live: LiveCode,
    changed: Sequence[Path],
    tell: Callable[[str], None],
) -> tuple[Description, LiveCode]:
    """Deploy changes: the code of functions at once, and the whole stack if more has changed."""
    names = ", ".join(path.as_posix() for path in changed)
    try:
        began = time.monotonic()
        functions, everything = live.renew(changed)
        if functions:
            tell(f"{names}: new code in {functions} functions after {time.monotonic() - began:.1f} s")
            _require_creatable(clients, description, settings, tell)
        if everything:
            tell(f"{names}: deploying the whole stack")
            directory = synthesize(settings.app, files)
            previous = description
            description, stacks = _deploy(clients, settings, directory, pid=description.pid)
            description.write(files.description)
            _tell_of_queues(previous, description, tell)
            live = LiveCode(clients, settings.project, files.root, stacks)
            tell(f"Deployed after {time.monotonic() - began:.1f} s.")
    except (LocalStackError, BotoCoreError, ClientError) as error:
        tell(f"{error}; the previous deployment keeps running")
    return description, live


def _tell_of_queues(before: Description, after: Description, tell: Callable[[str], None]) -> None:
    """Name the steps whose queues a deployment has deleted, with the messages in them."""
    urls = {url for queues in after.queues.values() for url in queues.values()}
    for saga, queues in before.queues.items():
        steps = [step for step, url in queues.items() if url not in urls]
        if steps:
            late = "the supervisor sends messages that were in it again, minutes later"
            tell(f"{saga}: the queue of {', '.join(steps)} was replaced or deleted; {late}")


def _waits_for(names: str, description: Description | None) -> str:
    """Name the functions that are still running, by saga and step if possible."""
    steps = description.functions if description is not None else {}
    labels = {name: f"{saga} {step}" for saga, by_step in steps.items() for step, name in by_step.items()}
    running = ", ".join(labels.get(name, name) for name in names.split())
    return f"Waiting up to {PATIENCE:.0f} s for running functions: {running}"


def _require_none_running(files: Files) -> None:
    pid = files.running_pid()
    if pid is not None:
        raise LocalStackError(
            f"a local stack is already running for this project (process {pid}); `sagas local down` stops it"
        )


@contextmanager
def _signals_as_exception() -> Generator[None]:
    """Turn the signals that end a process into :class:`Stopped`, so child processes are ended, too."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Stopped

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
