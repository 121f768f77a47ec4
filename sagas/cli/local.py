"""``sagas local``: the stack on this machine."""

from __future__ import annotations

import socket
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sagas.cli.console import PORT, made
from sagas.cli.output import fail, say
from sagas.cli.supervising import StaleAfter, show_recovery
from sagas.cli.target import Target
from sagas.errors import SagaError

if TYPE_CHECKING:
    from sagas.local.description import Description

app = typer.Typer(help="The stack on this machine, in an embedded emulator of AWS.", no_args_is_help=True)


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
    endpoint: Annotated[
        str | None, typer.Option(help="Deploy to this LocalStack-compatible endpoint instead of starting an emulator.")
    ] = None,
    no_console: Annotated[bool, typer.Option("--no-console", help="Without the console in the browser.")] = False,
) -> None:
    """Synthesize the CDK app of this directory and run it here until Ctrl-C."""
    # The CDK and boto3 take their time, and no help text needs them.
    from sagas.local.errors import LocalStackError
    from sagas.local.stack import Settings, Stopped, deploy_to_endpoint
    from sagas.local.stack import up as start_stack

    settings = Settings(Path.cwd(), app_command, port, persist.resolve() if persist else None)
    try:
        if endpoint is not None:
            _show(deploy_to_endpoint(settings, endpoint))
            return
        with ExitStack() as ending:

            def ready(description: Description) -> None:
                # An app without sagas has nothing to show.
                wanted = description.api_url and not (detach or no_console)
                url = ending.enter_context(_console()) if wanted else None
                _show(description, detach=detach, console=url)

            start_stack(settings, ready, detach=detach)
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
def tick(stale_after: StaleAfter = None) -> None:
    """Have the supervisor recover once, now."""
    from sagas.client import SagaClient

    try:
        show_recovery(SagaClient.local().recover(stale_after))
    except SagaError as error:
        fail(str(error))


@contextmanager
def _console() -> Generator[str | None]:
    """Serve the console meanwhile; yield its URL, ``None`` where its packages are not there."""
    if any(find_spec(package) is None for package in ("jinja2", "starlette", "uvicorn")):  # an extra
        yield None
        return
    target = Target(None, None, None, as_json=False)
    try:
        serving = made(target, PORT if _is_free(PORT) else 0)  # the console of another directory's stack may have it
    except SagaError as error:
        say(f"No console: {error}")
        yield None
        return
    with serving.in_background():
        yield serving.url


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _show(description: Description, *, detach: bool = True, console: str | None = None) -> None:
    say(f"API      {description.api_url}")
    say(f"Emulator {description.endpoint_url} ({description.region}, any credentials)")
    for saga, steps in description.functions.items():
        say(f"Saga     {saga}: {' -> '.join(steps)}")
    say("All else is in .sagas/local.json.")
    if console:
        say(f"Console  {console}")
    say("`sagas local down` ends it." if detach else "Ready. Ctrl-C ends it.")
