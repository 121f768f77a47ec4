"""``sagas doctor``: its options, and what it prints."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from sagas.cli.output import count_of, emit, fail, plain_line, progress_line, say
from sagas.cli.project.types import App, app_of_project
from sagas.cli.target import Target, on_target

if TYPE_CHECKING:
    from sagas.cli.doctor.checks import Finding

_NAME = 14
"""The width of the column with the names of the checks."""


@on_target
def doctor(target: Target, app_command: App = None) -> None:
    """Check credentials, account, app and stack, before and after a deployment. Changes nothing."""
    # The CDK and boto3 take time to load, and no help text needs them.
    from botocore.exceptions import BotoCoreError, ClientError

    from sagas.cli.doctor.checks import CHECKS, explained
    from sagas.cli.doctor.site import Site
    from sagas.errors import SagaError

    found: list[tuple[str, Finding]] = []
    site = Site(target, app_of_project(Path("cdk.json")) if app_command is None else app_command)
    try:
        site.connect()
        missing = target.stack and not site.status and site.no_app
    except (SagaError, BotoCoreError, ClientError) as error:
        text, todo = explained(error, site.caller, site.where)
        fail(f"{text}; {todo}" if todo else text, 2)
    if missing:
        fail(f"there is no stack {target.stack} in {site.where}; name its region with --region; {missing}", 2)
    with progress_line() as line:
        for check in CHECKS:
            line.update(Text(check.name))
            for finding in check.findings(site):
                found.append((check.name, finding))
                if not target.as_json:
                    _show(check.name, finding)
    failed = sum(finding.state == "fail" for _, finding in found)
    if target.as_json:
        checks = [{"check": name, **asdict(finding)} for name, finding in found]
        emit({"stack": target.stack, "region": site.region, "endpoint_url": site.endpoint_url, "checks": checks})
    if failed:
        fail(f"{count_of(failed, 'problem')} to solve before the service can work")


def _show(name: str, finding: Finding) -> None:
    say(plain_line(f"{'-' if finding.state == 'unchecked' else finding.state:<5} {name:<{_NAME}}{finding.text}"))
    if finding.todo:
        say(plain_line(f"{'':<{_NAME + 6}}{finding.todo}"))


def add_to(app: typer.Typer) -> None:
    app.command()(doctor)
