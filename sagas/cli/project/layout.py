"""``sagas layout``: lists the resources that a deployment would replace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sagas.cli.output import fail, say


def layout(
    app_command: Annotated[
        str, typer.Option("--app", help="Command that synthesizes the CDK app")
    ] = "python -m infra.app",
    write: Annotated[bool, typer.Option("--write", help="Record the deployed layout in cdk.context.json")] = False,
) -> None:
    """List the recorded queues, tables and buckets that a deployment would replace or delete."""
    # The CDK takes time to load, and no help text needs it.
    from sagas.local.deploy.layout import compare, record
    from sagas.local.deploy.synthesis import synthesize
    from sagas.local.errors import LocalStackError
    from sagas.local.files import Files

    project = Path.cwd()
    try:
        files = Files(project)
        files.root.mkdir(parents=True, exist_ok=True)
        assembly = synthesize(app_command, files, output="layout.out")
        if write:
            say(f"Recorded {record(assembly, project)} queues, tables and buckets in cdk.context.json.")
            return
        replaced = compare(assembly, project)
    except LocalStackError as error:
        fail(str(error))
    for resource in replaced:
        say(f"would be replaced or deleted: {resource}")
    if replaced:
        raise typer.Exit(1)
    say("No recorded queue, table or bucket would be replaced.")


def add_to(app: typer.Typer) -> None:
    """Add these commands to ``app``."""
    app.command()(layout)
