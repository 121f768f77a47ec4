"""``sagas local``: the stack on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sagas.cli.output import fail, say
from sagas.cli.supervising import StaleAfter, show_recovery
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
        start_stack(settings, lambda description: _show(description, detach=detach), detach=detach)
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


def _show(description: Description, *, detach: bool = True) -> None:
    say(f"API      {description.api_url}")
    say(f"Emulator {description.endpoint_url} ({description.region}, any credentials)")
    for saga, steps in description.functions.items():
        say(f"Saga     {saga}: {' -> '.join(steps)}")
    say("All else is in .sagas/local.json.")
    say("`sagas local down` ends it." if detach else "Ready. Ctrl-C ends it.")
