"""``sagas trim``: makes tables consistent that were restored one by one."""

from __future__ import annotations

from typing import Annotated

import typer

from sagas.cli.output import count_of, fail, say
from sagas.cli.times import Moment, moment
from sagas.errors import SagaError


def trim(
    sagas_table: Annotated[str, typer.Argument(metavar="SAGAS", help="Restored table of sagas", show_default=False)],
    audit_table: Annotated[str, typer.Argument(metavar="AUDIT", help="Restored audit table", show_default=False)],
    joins_table: Annotated[
        str, typer.Argument(metavar="[JOINS]", help="Restored table of joins, if sagas have children")
    ] = "",
    restored_to: Annotated[
        Moment | None, moment(help="Time to which SAGAS was restored; read from DynamoDB by default")
    ] = None,
    region: Annotated[str | None, typer.Option(help="AWS region of the tables")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")] = False,
) -> None:
    """Remove entries from restored tables that are newer than the restored table of sagas, before you use them."""
    from sagas.aws import PATIENT
    from sagas.core.text import epoch, iso
    from sagas.engine.clock import SystemClock
    from sagas.store.connection import SharedConnection
    from sagas.store.restored import time_of_restore, trim_audit, trim_joins

    since = None if restored_to is None else epoch(restored_to.at(SystemClock().now()))
    connection = SharedConnection(region=region)
    connection.config = PATIENT
    try:
        since = time_of_restore(connection, sagas_table) if since is None else since
        if since is None:
            fail(f"DynamoDB does not say to which time {sagas_table} was restored; pass --restored-to")
        question = f"Is {sagas_table} as of {iso(since)}, and does no service use these tables yet?"
        if not yes and not typer.confirm(question, err=True):
            raise typer.Exit(1)
        audit = trim_audit(connection, sagas_table, audit_table, since)
        say(f"{audit_table}: {count_of(audit.scanned, 'item')} scanned, {audit.removed:,} removed")
        if joins_table:
            joins = trim_joins(connection, sagas_table, joins_table, since)
            say(f"{joins_table}: {count_of(joins.scanned, 'item')} scanned, {joins.removed:,} removed")
    except SagaError as error:
        fail(f"{error}; the tables are not trimmed yet; run the command again")
