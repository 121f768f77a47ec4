"""``sagas recover | sweep | trim``: have the supervisor do its work now, and make restored tables consistent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sagas.cli.one_saga import SagaRef, Type, on_saga
from sagas.cli.output import count_of, emit, fail, plain, say
from sagas.cli.tables import show_due
from sagas.cli.target import Target, on_target
from sagas.cli.times import Moment, length, moment
from sagas.errors import SagaError

if TYPE_CHECKING:
    from sagas.client import RecoveryView, SweepView

StaleAfter = Annotated[
    float | None, length(help="Silence that counts as a stall; by default, each saga's steps decide")
]
_DONE = {"delete": "deleted", "archive": "archived and deleted", "report": "reported", "on_orphans": "handled"}
_MEANING = {
    "orphans": "left by sagas that were undone",
    "unreferenced": "of completed sagas whose results do not name them",
    "unknown": "of sagas that this service does not have; never touched",
    "foreign": "with keys that no saga of this type makes; never touched",
    "errors": "failed",
}


@on_saga(all_help="All sagas that are due; with TYPE, only those of this type")
def recover(
    target: Target,
    saga: SagaRef,
    attempts: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=1_000,
            help="First set its stalls: 0 restores all recovery attempts; at the maximum the next stall undoes it",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, max=1_000, help="Maximum number; 1000 by default")] = None,
    max_attempts: Annotated[
        int | None, typer.Option(min=0, max=1_000, help="Only sagas with fewer stalls since their last progress")
    ] = None,
    stale_after: StaleAfter = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the sagas that are due and change nothing")] = False,
) -> None:
    """Recover stalled sagas now, before the supervisor's next tick."""
    client = target.client()
    if attempts is not None and (dry_run or not saga.saga_id):
        raise typer.BadParameter("takes one saga, and no --dry-run", param_hint="--attempts")
    if attempts is not None:
        client.set_recovery_attempts(saga.type, saga.saga_id, attempts)
        if not target.as_json:
            say(f"Set the stalls of {saga.type} {saga.saga_id} to {attempts}.")
    limits: dict[str, Any] = {"limit": limit, "max_attempts": max_attempts, "dry_run": dry_run}
    report = client.recover(stale_after, type=saga.type or None, saga_id=saga.saga_id or None, **limits)
    if target.as_json:
        emit(report)
    elif due := report.get("due"):
        show_due(due, target.now())
    elif dry_run:
        say("No saga is due.")
    else:
        show_recovery(report)


def show_recovery(report: RecoveryView) -> None:
    remaining = f", {report['remaining']} remain for the next run" if report["remaining"] else ""
    recovered = count_of(report["recovered"], "saga")
    given_up = f", gave up {report['given_up']}" if report["given_up"] else ""
    say(f"Recovered {recovered}{given_up}, {report['untouched']} did not need it, {report['failed']} failed{remaining}")
    for saga_id in report["saga_ids"]:
        say(saga_id)


@on_target
def sweep(
    target: Target,
    name: Type,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done and change nothing")] = False,
    force: Annotated[bool, typer.Option("--force", help="Continue even if most objects are orphans")] = False,
) -> None:
    """Sweep the S3 objects that undone sagas of a type left behind, now."""
    report = target.client().sweep(name, dry_run=dry_run, force=force)
    if target.as_json:
        emit(report)
    else:
        say(f"{report['type']}: {count_of(report['listed'], 'object')} under {report['prefix']} in {report['bucket']}")
        for kind, meaning in _MEANING.items():
            if report[kind] or kind == "orphans":
                say(f"{kind:12} {report[kind]:6}  {meaning}{_outcome(kind, report)}")
            for key in report["sample"].get(kind, ()):
                say(f"             {plain(key)}")
    # Exit with 1 if objects remain that should be gone.
    if report["error"]:
        fail(f"the sweep of {report['type']} failed: {report['error']}")
    if report["stopped"] and report["dry_run"]:
        typer.echo(f"sagas: a sweep would stop: {report['stopped']}; --force continues", err=True)
    elif report["stopped"] and report["action"] != "report":
        fail(f"stopped: {report['stopped']}; check with --dry-run, then continue with --force")
    if report["errors"]:
        fail(f"{count_of(report['errors'], 'object')} failed")


def _outcome(kind: str, report: SweepView) -> str:
    if kind != "orphans" or not report["orphans"]:
        return ""
    done = _DONE.get(report["action"], report["action"])
    if report["dry_run"]:
        return f"; would be {done}"
    if report["action"] == "report":
        return f"; {done}"
    return f"; {max(report['deleted'], report['handled'])} {done}"


def trim(
    sagas_table: Annotated[str, typer.Argument(metavar="SAGAS", help="Restored table of sagas", show_default=False)],
    audit_table: Annotated[str, typer.Argument(metavar="AUDIT", help="Restored audit table", show_default=False)],
    joins_table: Annotated[
        str, typer.Argument(metavar="[JOINS]", help="Restored table of joins, if sagas have children")
    ] = "",
    restored_to: Annotated[
        Moment | None, moment(help="Time to which SAGAS was restored; read from DynamoDB by default")
    ] = None,
    archive: Annotated[
        str, typer.Option(metavar="BUCKET", help="Bucket of the archive; lists what was purged by hand after that time")
    ] = "",
    region: Annotated[str | None, typer.Option(help="AWS region of the tables")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")] = False,
) -> None:
    """Make restored tables consistent before you use them: remove entries that are newer than the table of sagas."""
    from sagas.aws import PATIENT, connect
    from sagas.core.text import epoch, iso
    from sagas.engine.clock import SystemClock
    from sagas.store.connection import SharedConnection
    from sagas.store.restored import purged_by_hand, time_of_restore, trim_audit, trim_joins

    since = None if restored_to is None else epoch(restored_to.at(SystemClock().now()))
    connection = SharedConnection(region=region)
    connection.config = PATIENT
    try:
        since = time_of_restore(connection, sagas_table) if since is None else since
        if since is None:
            fail(f"DynamoDB does not say to which time {sagas_table} was restored; pass --restored-to")
        question = f"Was {sagas_table} restored to {iso(since)}, and are these tables still unused?"
        if not yes and not typer.confirm(question, err=True):
            raise typer.Exit(1)
        audit = trim_audit(connection, sagas_table, audit_table, since)
        say(f"{audit_table}: {count_of(audit.scanned, 'item')} scanned, {audit.removed:,} removed")
        if joins_table:
            joins = trim_joins(connection, sagas_table, joins_table, since)
            say(f"{joins_table}: {count_of(joins.scanned, 'item')} scanned, {joins.removed:,} removed")
        if archive:
            s3 = connect("s3", PATIENT, region=region)
            purged = purged_by_hand(connection, s3, sagas_table, archive, since)
            say(f"{archive}: {count_of(len(purged), 'saga')} purged by hand after that time")
            for one in purged:
                say(f"sagas purge {one.saga} {one.saga_id}  # purged at {one.at} by {plain(one.actor)}")
    except SagaError as error:
        fail(f"{error}; the tables are not trimmed yet; run the command again")


def add_to(app: typer.Typer) -> None:
    for command in (recover, sweep, trim):
        app.command()(command)
