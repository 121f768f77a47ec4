"""``sagas local``: the stack on this machine."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.text import Text

from sagas.cli.operate.supervising import StaleAfter, show_recovery
from sagas.cli.output import at_work, fail, say
from sagas.cli.project.console import PORT, made
from sagas.cli.target import Target
from sagas.core.text import iso, moment, span
from sagas.errors import InvalidRequest, SagaError
from sagas.loopback import origin_of

if TYPE_CHECKING:
    from sagas.client import RecoveryView
    from sagas.local.deploy.description import Description

app = typer.Typer(help="The stack on this machine, in an embedded emulator of AWS.", no_args_is_help=True)


def _origins(urls: list[str] | None) -> list[str]:
    try:
        return [origin_of(url) for url in urls or ()]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


@app.command()
def up(
    app_command: Annotated[
        str, typer.Option("--app", help="The command that synthesizes the CDK app.")
    ] = "python -m infra.app",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the emulator on 127.0.0.1.")] = 4566,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return once it is ready; end it by `sagas local down`.")
    ] = False,
    persist: Annotated[
        Path | None, typer.Option(file_okay=False, help="Keep state in this directory from one run to the next.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Deploy code anew as soon as it is edited; sagas and their state stay.")
    ] = False,
    enforce_iam: Annotated[
        bool,
        typer.Option(
            "--enforce-iam",
            help="Have IAM decide on every call of AWS and of the API, so that a missing grant is found here.",
        ),
    ] = False,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            callback=_origins,
            help="Let web pages of this origin call the emulator and the API; repeatable.",
        ),
    ] = None,
    seed: Annotated[
        str | None, typer.Option("--seed", help="A command to run once it is ready, which fills tables, say.")
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option(help="Deploy to this LocalStack-compatible endpoint instead of starting an emulator.")
    ] = None,
    no_console: Annotated[bool, typer.Option("--no-console", help="Without the console in the browser.")] = False,
) -> None:
    """Synthesize the CDK app of this directory and run it here until Ctrl-C."""
    if watch and (detach or endpoint is not None):
        raise typer.BadParameter("stays in the foreground, with an emulator of its own", param_hint="--watch")
    if enforce_iam and endpoint is not None:
        raise typer.BadParameter("is the embedded emulator's", param_hint="--enforce-iam")
    if allow_origin and endpoint is not None:
        raise typer.BadParameter("is the embedded emulator's", param_hint="--allow-origin")
    if seed is not None:
        _words_of(seed)  # before anything is started
    # The CDK and boto3 take their time, and no help text needs them.
    from sagas.local.errors import LocalStackError
    from sagas.local.stack import Settings, Stopped, deploy_to_endpoint
    from sagas.local.stack import up as start_stack

    settings = Settings(
        Path.cwd(),
        app_command,
        port,
        persist.resolve() if persist else None,
        watch=watch,
        enforce_iam=enforce_iam,
        origins=tuple(allow_origin or ()),
    )
    try:
        with ExitStack() as ending, at_work() as work:

            def begins(what: str) -> None:
                work.update(Text(what))

            if endpoint is not None:
                description = deploy_to_endpoint(settings, endpoint, begins=begins)
                work.stop()
                _show(description)
                _run_seed(seed)
                return

            def ready(description: Description) -> None:
                work.stop()
                _run_seed(seed)
                # An app without sagas has nothing to show.
                wanted = description.api_url and not (detach or no_console)
                url = ending.enter_context(_console()) if wanted else None
                _show(description, detach=detach, watch=watch, enforce_iam=enforce_iam, console=url)

            start_stack(settings, ready, detach=detach, tell=say, begins=begins)
    except LocalStackError as error:
        fail(str(error))
    except Stopped:
        raise typer.Exit(130) from None


@app.command()
def down() -> None:
    """End the local stack of this directory, letting running functions finish."""
    from sagas.local.errors import LocalStackError
    from sagas.local.stack import down as end_stack

    try:
        say(end_stack(Path.cwd()))
    except LocalStackError as error:
        fail(str(error))


@app.command()
def tick(
    stale_after: StaleAfter = None,
    advance: Annotated[
        str | None,
        typer.Option(metavar="LENGTH", help="Skip time first, on all clocks and in ctx.now: 3d, 2h, 70m or 90s."),
    ] = None,
) -> None:
    """Have the supervisor recover once, now; or let time pass, with all that becomes due in it."""
    from sagas.client import SagaClient
    from sagas.local.clock import StackClock, length_of
    from sagas.local.errors import LocalStackError
    from sagas.local.files import Files

    if advance is not None and stale_after is not None:
        raise typer.BadParameter("goes without --advance", param_hint="--stale-after")
    try:
        if advance is None:
            show_recovery(SagaClient.local().recover(stale_after))
            return
        length = length_of(advance)
        clock = StackClock(Files(Path.cwd()))
        did = clock.advance(length)
        say(f"It is {moment(iso(clock.now()))} here: {span(clock.ahead)} ahead.")
        show_recovery(cast("RecoveryView", did))
    except InvalidRequest as error:
        fail("; ".join([str(error), *(f"{problem.path}: {problem.message}" for problem in error.problems)]))
    except (SagaError, LocalStackError) as error:
        fail(str(error))


def _words_of(command: str) -> list[str]:
    """The words of a command, to be run without a shell."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise typer.BadParameter(f"{error}: {command}", param_hint="--seed") from None
    if not words:
        raise typer.BadParameter("must be a command", param_hint="--seed")
    return [sys.executable if words[0] in ("python", "python3") else words[0], *words[1:]]


def _run_seed(command: str | None) -> None:
    """Run it; that it failed is told, and the stack stays."""
    if command is None:
        return
    words = _words_of(command)
    try:
        failed = subprocess.run(words, check=False).returncode != 0  # noqa: S603 - the user's own command
    except OSError as error:
        say(f"{words[0]}: {error.strerror}")
        failed = True
    if failed:
        say(f"`{command}` failed; the stack is ready all the same.")


@contextmanager
def _console() -> Generator[str | None]:
    """Serve the console meanwhile; yield its URL, ``None`` where its packages are not there."""
    if any(find_spec(package) is None for package in ("jinja2", "starlette", "uvicorn")):  # an extra
        yield None
        return
    target = Target(None, None, None, as_json=False)
    try:
        try:
            serving = made(target, PORT)
        except InvalidRequest:  # the console of another directory's stack has it
            serving = made(target, 0)
    except SagaError as error:
        say(f"No console: {error}")
        yield None
        return
    with serving.in_background():
        yield serving.url


def _show(
    description: Description,
    *,
    detach: bool = True,
    watch: bool = False,
    enforce_iam: bool = False,
    console: str | None = None,
) -> None:
    say(f"API      {description.api_url}")
    credentials = "access key and secret 'test' are the account's root" if enforce_iam else "any credentials"
    say(f"Emulator {description.endpoint_url} ({description.region}, {credentials})")
    for saga, steps in description.functions.items():
        say(f"Saga     {saga}: {' -> '.join(steps)}")
    if description.pid is not None:
        say("Logs     of a saga: sagas logs ID [--follow]; of the emulator: .sagas/emulator.log")
    say("All else is in .sagas/local.json.")
    if watch:
        say("Code is deployed anew as soon as you save it.")
    if console:
        say(f"Console  {console}")
    say("`sagas local down` ends it." if detach else "Ready. Ctrl-C ends it.")
