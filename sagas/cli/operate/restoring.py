"""``sagas trim``: makes tables that were restored one by one fit together."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from sagas.cli.output import fail, say
from sagas.errors import SagaError


def trim(
    sagas_table: Annotated[str, typer.Argument(metavar="SAGAS", help="Restored table of sagas.", show_default=False)],
    audit_table: Annotated[str, typer.Argument(metavar="AUDIT", help="Restored audit table.", show_default=False)],
    joins_table: Annotated[
        str, typer.Argument(metavar="[JOINS]", help="Restored table of joins, if sagas have children.")
    ] = "",
    restored_to: Annotated[
        str | None,
        typer.Option(help="Time to which SAGAS was restored, as 2026-11-22T10:00:00Z; by default DynamoDB's answer."),
    ] = None,
    region: Annotated[str | None, typer.Option(help="AWS region of the tables.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove from restored tables what the restored table of sagas does not know of, before anything runs on them."""
    from sagas.aws import PATIENT
    from sagas.core.text import iso
    from sagas.store.connection import SharedConnection
    from sagas.store.restored import time_of_restore, trim_audit, trim_joins

    since = _epoch(restored_to)
    connection = SharedConnection(region=region)
    connection.config = PATIENT
    try:
        since = time_of_restore(connection, sagas_table) if since is None else since
        if since is None:
            fail(f"DynamoDB does not say to which time {sagas_table} was restored: pass --restored-to")
        question = f"Does nothing run on these tables yet, and is {sagas_table} as of {iso(since)}?"
        if not yes and not typer.confirm(question, err=True):
            raise typer.Exit(1)
        audit = trim_audit(connection, sagas_table, audit_table, since)
        say(f"{audit_table}: {audit.scanned:,} items scanned, {audit.removed:,} removed")
        if joins_table:
            joins = trim_joins(connection, sagas_table, joins_table, since)
            say(f"{joins_table}: {joins.scanned:,} items scanned, {joins.removed:,} removed")
    except SagaError as error:
        fail(f"{error}; the tables are not trimmed yet, run it again")


def _epoch(text: str | None) -> float | None:
    try:
        moment = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        moment = datetime.min
    if moment is not None and moment.tzinfo is None:
        raise typer.BadParameter("expected a time with its zone, as 2026-11-22T10:00:00Z", param_hint="--restored-to")
    return None if moment is None else moment.timestamp()
