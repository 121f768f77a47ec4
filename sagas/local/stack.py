"""The local stack from start to end."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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
from sagas.local.process import PATIENCE, REGION, Emulator, end_process, require_free_port, runs_functions_itself


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
        watch: deploy the code anew when it changes; state stays.
        enforce_iam: have every call, the API's included, allowed or denied by the caller's policies, as AWS does.
        origins: whose pages in a browser may call the emulator and the API.
    """

    project: Path
    app: str = "python -m infra.app"
    port: int = 4566
    persist: Path | None = None
    watch: bool = False
    enforce_iam: bool = False
    origins: tuple[str, ...] = ()


def _nothing(_line: str) -> None:
    """Tell nobody."""


def up(
    settings: Settings,
    ready: Callable[[Description], None],
    *,
    detach: bool = False,
    tell: Callable[[str], None] = _nothing,
    begins: Callable[[str], None] = _nothing,
) -> None:
    """Start the emulator, deploy the app to it, and stay until a signal; then let running functions finish. ``begins``:
    told what is done next, of all that takes seconds until it is ready."""
    files = Files(settings.project)
    _require_none_running(files)
    require_free_port(settings.port)
    files.root.mkdir(parents=True, exist_ok=True)
    with _signals_as_exception():
        emulator = Emulator(
            files,
            settings.port,
            persist=settings.persist,
            attached=not detach,
            enforce_iam=settings.enforce_iam,
            origins=settings.origins,
        )
        before = seen(settings.project) if settings.watch else {}
        kept, clients, description = False, Clients(emulator.endpoint_url, REGION), None
        try:
            begins("Starting the emulator")
            emulator.wait_until_locked()
            try:
                # Until it answers, it takes as long as Python and Node take to load the CDK.
                begins(f"Synthesizing: {settings.app}")
                directory = synthesize(settings.app, files)
                emulator.wait_until_healthy()
                description, stacks = _deploy(clients, settings, directory, pid=emulator.pid, begins=begins)
                begins("Asking each saga type for its instance")
                _require_creatable(clients, description, settings, tell)
                description.write(files.description)
            except LocalStackError:
                # If the emulator died on the way, that is the cause and the rest its consequence.
                emulator.check_alive()
                raise
            kept = detach  # also where nobody reads any more what is told of it
            ready(description)
            if settings.watch:
                live = LiveCode(clients, settings.project, files.root, stacks)
                for changed in changes(settings.project, before, emulator.is_running):
                    description, live = _renew(clients, settings, files, description, live, changed, tell)
            elif not detach:
                emulator.wait()
        except Stopped:
            kept = False
        finally:
            if not kept:
                try:
                    emulator.stop(lambda names: tell(_waits_for(names, description)))
                finally:
                    files.description.unlink(missing_ok=True)


def deploy_to_endpoint(
    settings: Settings, endpoint_url: str, *, begins: Callable[[str], None] = _nothing
) -> Description:
    """Deploy the app to an endpoint that is already running, and describe it."""
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
    """End the local stack of a project, also one that is already dead. Returns what was done, in one line."""
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
    return describe(clients, (deployed for _, deployed in stacks), pid), stacks


def _require_creatable(
    clients: Clients, description: Description, settings: Settings, tell: Callable[[str], None]
) -> None:
    """Have a function of each saga type make its instance, where configuration and permissions are the function's."""
    functions = clients.client("lambda")
    for steps in description.functions.values():
        try:
            answer = functions.invoke(FunctionName=next(iter(steps.values())), Payload=b'{"check": "create"}')
            found: object = json.loads(answer["Payload"].read())
        except (BotoCoreError, ClientError, ValueError):
            continue  # what is no function of ours is not asked
        problems: list[str] = cast("dict[str, Any]", found).get("problems", []) if isinstance(found, dict) else []
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
    """Deploy what changed: the code of the functions at once, and the whole stack where that is not all of it."""
    names = ", ".join(path.as_posix() for path in changed)
    try:
        began = time.monotonic()
        functions, everything = live.renew(changed)
        if functions:
            tell(f"{names}: new code in {functions} functions after {time.monotonic() - began:.1f} s")
            _require_creatable(clients, description, settings, tell)
        if everything:
            tell(f"{names}: deploying the stack anew")
            directory = synthesize(settings.app, files)
            description, stacks = _deploy(clients, settings, directory, pid=description.pid)
            description.write(files.description)
            live = LiveCode(clients, settings.project, files.root, stacks)
            tell(f"Deployed after {time.monotonic() - began:.1f} s.")
    except (LocalStackError, BotoCoreError, ClientError) as error:
        tell(f"{error}; what was deployed before goes on")
    return description, live


def _waits_for(names: str, description: Description | None) -> str:
    """Say what is waited for, by saga and step where a function runs one."""
    steps = description.functions if description is not None else {}
    known = {name: f"{saga} {step}" for saga, by_step in steps.items() for step, name in by_step.items()}
    told = ", ".join(known.get(name, name) for name in names.split())
    return f"Waiting up to {PATIENCE:.0f} s for what runs: {told}"


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
