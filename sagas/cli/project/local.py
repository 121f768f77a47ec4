"""``sagas local``: the stack on this machine."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.text import Text

from sagas.cli.operate.supervising import StaleAfter, show_recovery
from sagas.cli.output import count_of, fail, need, progress_line, say
from sagas.cli.project.check import unlisted_text
from sagas.cli.project.console import PORT, listening
from sagas.cli.project.types import App, app_of_project
from sagas.cli.target import Target
from sagas.cli.times import length
from sagas.core.text import iso, moment, span
from sagas.errors import InvalidRequest, SagaError, full_text
from sagas.loopback import origin_of

if TYPE_CHECKING:
    from sagas.client import RecoveryView
    from sagas.local.deploy.description import Description

_app = typer.Typer(help="The stack on this machine, in an embedded AWS emulator.", no_args_is_help=True)


def _origins(urls: list[str] | None) -> list[str]:
    try:
        return [origin_of(url) for url in urls or ()]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


@_app.command()
def up(
    app_command: App = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port of the emulator on 127.0.0.1; by default 4566, or a free one"),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return when the stack is ready; stop it with `sagas local down`")
    ] = False,
    persist: Annotated[
        Path | None, typer.Option(file_okay=False, help="Directory that keeps the state between runs")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Deploy code whenever you edit it; sagas and their state stay")
    ] = False,
    enforce_iam: Annotated[
        bool,
        typer.Option(
            "--enforce-iam",
            help="Check the IAM permissions of every call to AWS and the API, to find missing grants",
        ),
    ] = False,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            callback=_origins,
            help="Let web pages of this origin call the emulator and the API; repeatable",
        ),
    ] = None,
    seed: Annotated[
        str | None, typer.Option("--seed", help="Command to run when the stack is ready, for example to fill tables")
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option(help="Deploy to this LocalStack-compatible endpoint instead of an embedded emulator")
    ] = None,
    no_console: Annotated[bool, typer.Option("--no-console", help="Do not serve the console")] = False,
) -> None:
    """Synthesize the CDK app of this directory and run it on this machine until Ctrl-C. If a detached stack
    runs already, deploy the app into it."""
    if watch and (detach or endpoint is not None):
        raise typer.BadParameter("cannot be combined with --detach or --endpoint", param_hint="--watch")
    if endpoint is not None and (enforce_iam or allow_origin):
        option = "--enforce-iam" if enforce_iam else "--allow-origin"
        raise typer.BadParameter("cannot be combined with --endpoint", param_hint=option)
    if seed is not None:
        _words_of(seed)  # refuse an invalid command before anything starts
    emulator = () if endpoint is not None else ("ministack", "hypercorn")
    need("the local stack", "local", "aws_cdk", *emulator)
    # Imported late: the CDK and boto3 take time to load, and no help text needs them.
    from sagas.local.errors import LocalStackError
    from sagas.local.stack import Settings, Stopped, deploy_again, deploy_to_endpoint
    from sagas.local.stack import up as start_stack

    settings = Settings(
        Path.cwd(),
        app_of_project(Path("cdk.json")) if app_command is None else app_command,
        port,
        persist.resolve() if persist else None,
        detach=detach,
        watch=watch,
        enforce_iam=enforce_iam,
        origins=tuple(allow_origin or ()),
    )
    try:
        with ExitStack() as ending, progress_line() as line:

            def begins(task: str) -> None:
                line.update(Text(task))

            running = (
                deploy_again(settings, tell=say, begins=begins)
                if endpoint is None
                else deploy_to_endpoint(settings, endpoint, begins=begins)
            )
            if running is not None:
                line.stop()
                _show(running, enforce_iam=running.enforce_iam)
                _run_seed(seed)
                _name_misfits()
                return

            def ready(description: Description) -> None:
                line.stop()
                _run_seed(seed)
                # Without sagas there is no API, and nothing to show.
                with_console = description.api_url and not (detach or no_console)
                url = ending.enter_context(_console()) if with_console else None
                _show(description, detach=detach, watch=watch, enforce_iam=enforce_iam, console=url)
                if persist is not None:
                    _name_misfits()

            start_stack(settings, ready, tell=say, begins=begins, renewed=_name_misfits)
    except LocalStackError as error:
        fail(str(error))
    except Stopped:
        raise typer.Exit(130) from None


@_app.command()
def down() -> None:
    """Stop the local stack of this directory when its running functions have finished."""
    from sagas.local.errors import LocalStackError
    from sagas.local.stack import down as end_stack

    try:
        say(end_stack(Path.cwd()))
    except LocalStackError as error:
        fail(str(error))


@_app.command()
def tick(
    stale_after: StaleAfter = None,
    advance: Annotated[float | None, length(help="Skip LENGTH first, on all clocks and ctx.now")] = None,
) -> None:
    """Recover stalled sagas now, or skip time and do everything that becomes due."""
    from sagas.client import SagaClient
    from sagas.local.clock import StackClock
    from sagas.local.errors import LocalStackError
    from sagas.local.files import Files

    if advance is not None and stale_after is not None:
        raise typer.BadParameter("cannot be combined with --advance", param_hint="--stale-after")
    try:
        if advance is None:
            show_recovery(SagaClient.local().recover(stale_after))
            return
        clock = StackClock(Files(Path.cwd()))
        report = clock.advance(advance)
        say(f"The stack's clock is at {moment(iso(clock.now()))}, {span(clock.ahead)} ahead.")
        show_recovery(cast("RecoveryView", report))
    except (SagaError, LocalStackError) as error:
        fail(full_text(error))


def _words_of(command: str) -> list[str]:
    """Split a command that is run without a shell into words."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise typer.BadParameter(f"{error}: {command}", param_hint="--seed") from None
    if not words:
        raise typer.BadParameter("is empty; it must be a command", param_hint="--seed")
    return [sys.executable if words[0] in ("python", "python3") else words[0], *words[1:]]


def _run_seed(command: str | None) -> None:
    """Run the command of ``--seed``. If the command fails, say so and keep the stack."""
    if command is None:
        return
    words = _words_of(command)
    try:
        failed = subprocess.run(words, check=False).returncode != 0  # noqa: S603 - the user's own command
    except OSError as error:
        say(f"{words[0]}: {error.strerror}")
        failed = True
    if failed:
        say(f"`{command}` failed. The stack is ready nevertheless.")


@contextmanager
def _console() -> Generator[str | None]:
    """Serve the console and yield its URL, or ``None`` if its packages are not installed."""
    if any(find_spec(package) is None for package in ("jinja2", "starlette", "uvicorn")):  # an extra
        yield None
        return
    target = Target(None, None, None, as_json=False)
    try:
        try:
            serving = listening(target, PORT)
        except InvalidRequest:  # the console of another stack uses the default port
            serving = listening(target, 0)
    except SagaError as error:
        say(f"No console: {error}")
        yield None
        return
    with serving.in_background():
        yield serving.url


def _name_misfits() -> None:
    """Print how many sagas in flight do not fit the code that was just deployed. A new process imports this code,
    because the current process may have imported older code."""
    command = [sys.executable, "-c", "from sagas.cli.main import main; main()", "check", "--local", "--json"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the words are ours
    try:
        report: dict[str, Any] = json.loads(checked.stdout)
    except ValueError:
        return  # the code cannot be imported, and the deployment has already said so
    missing = report.get("unlisted", ())
    changes = report.get("changes", ())
    for name in missing:
        say(f"Warning: {unlisted_text(name)}")
    stopped = dict[str, dict[tuple[str, str], int]]()
    for change in changes:
        if change["incompatible"] and change["saga"] not in missing:
            stopped.setdefault(change["saga"], {})[change["sagas"], change["place"]] = change["count"]
    for name, groups in stopped.items():
        count = sum(groups.values())
        wait = "does not fit this code and waits" if count == 1 else "do not fit this code and wait"
        say(f"{name}: {count_of(count, 'saga')} in flight {wait} for a release (`sagas check --local`)")


def _show(
    description: Description,
    *,
    detach: bool = True,
    watch: bool = False,
    enforce_iam: bool = False,
    console: str | None = None,
) -> None:
    from sagas.client import SagaClient

    steps: Mapping[str, Iterable[str]] = description.functions
    with suppress(SagaError):
        if description.api_url:  # the API also lists steps that have no function
            steps = {view["type"]: [step["name"] for step in view["steps"]] for view in SagaClient.local().types()}
    say(f"API      {description.api_url}")
    credentials = "for root access, use 'test' as access key and secret" if enforce_iam else "any credentials"
    say(f"Emulator {description.endpoint_url} ({description.region}, {credentials})")
    for saga, names in steps.items():
        say(f"Saga     {saga}: {' -> '.join(names)}")
    if description.pid is not None:
        say("Logs     of a saga: sagas logs ID [--follow]; of the emulator: .sagas/emulator.log")
    say("All other details are in .sagas/local.json.")
    if watch:
        say("Code is deployed whenever you save it.")
    if console:
        say(f"Console  {console}")
    say("Stop it with `sagas local down`." if detach else "Ready. Stop it with Ctrl-C.")


def add_to(app: typer.Typer) -> None:
    app.add_typer(_app, name="local")
