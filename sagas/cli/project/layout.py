"""``sagas layout``: what a deployment would replace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sagas.cli.output import fail, say


def layout(
    app_command: Annotated[
        str, typer.Option("--app", help="The command that synthesizes the CDK app.")
    ] = "python -m infra.app",
    write: Annotated[bool, typer.Option("--write", help="Record it in cdk.context.json, once it is deployed.")] = False,
) -> None:
    """Tell which queues, tables and buckets a deployment would replace or drop, by what was recorded."""
    # The CDK takes its time, and no help text needs it.
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
    for what in replaced:
        say(f"would be replaced or dropped: {what}")
    if replaced:
        raise typer.Exit(1)
    say("Nothing that was recorded would be replaced.")
