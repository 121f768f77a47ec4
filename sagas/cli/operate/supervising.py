"""``sagas recover | set-recovery-attempts | sweep``: what the supervisor does by itself, now, and how contended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sagas.cli.output import emit, fail, plain, say
from sagas.cli.read.reading import Name, SagaId
from sagas.cli.target import Target, on_target

if TYPE_CHECKING:
    from sagas.client import RecoveryView, SweepView

StaleAfter = Annotated[
    float | None, typer.Option(min=0, help="Seconds of silence that count as a stall; each saga's own by default.")
]
_DONE = {"delete": "deleted", "archive": "archived and deleted", "report": "reported", "on_orphans": "handled"}
_MEANING = {
    "orphans": "left by sagas that were undone",
    "unreferenced": "of completed sagas that do not name them",
    "unknown": "of sagas that do not exist here; never touched",
    "foreign": "whose key no saga of this type made; never touched",
    "errors": "not dealt with",
}


@on_target
def recover(
    target: Target,
    name: Annotated[str | None, typer.Argument(metavar="[TYPE]", help="Only sagas of this type.")] = None,
    saga_id: Annotated[str | None, typer.Option("--saga-id", help="Only this saga, due or not.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, max=1_000, help="How many at most; 1000 by default.")] = None,
    max_attempts: Annotated[
        int | None, typer.Option(min=0, max=1_000, help="Only those that stalled less often since their last progress.")
    ] = None,
    stale_after: StaleAfter = None,
) -> None:
    """Have stalled sagas recovered now, not at the supervisor's next tick."""
    report = target.client().recover(stale_after, type=name, saga_id=saga_id, limit=limit, max_attempts=max_attempts)
    if target.as_json:
        emit(report)
    else:
        show_recovery(report)


@on_target
def set_recovery_attempts(
    target: Target,
    name: Name,
    saga_id: SagaId,
    attempts: Annotated[
        int, typer.Argument(metavar="N", min=0, max=1_000, help="0 restores all recovery attempts", show_default=False)
    ],
) -> None:
    """Set how often a saga counts as having stalled: after max_recovery_attempts of its type it is given up."""
    saga = target.client().set_recovery_attempts(name, saga_id, attempts)
    if target.as_json:
        emit(saga)
    else:
        say(f"{name} {saga_id} counts as having stalled {attempts} times since its last progress")


def show_recovery(report: RecoveryView) -> None:
    """Print what a recovery did."""
    left = f", {report['left']} left for the next time" if report["left"] else ""
    say(f"{report['recovered']} recovered, {report['untouched']} left as they were, {report['failed']} failed{left}")
    for saga_id in report["saga_ids"]:
        say(saga_id)


@on_target
def sweep(
    target: Target,
    name: Name,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and touch nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Go on even where most objects are orphans.")] = False,
) -> None:
    """Sweep the S3 objects that undone sagas of a type left behind, once, now."""
    report = target.client().sweep(name, dry_run=dry_run, force=force)
    if target.as_json:
        emit(report)
    else:
        say(f"{report['type']}: {report['listed']} objects under {report['prefix']} in {report['bucket']}")
        for kind, meaning in _MEANING.items():
            if report[kind] or kind == "orphans":
                say(f"{kind:12} {report[kind]:6}  {meaning}{_what_became(kind, report)}")
            for key in report["sample"].get(kind, ()):
                say(f"             {plain(key)}")
    # exit code 1 when something was left that should not be
    if report["error"]:
        fail(f"the sweep of {report['type']} failed: {report['error']}")
    if report["stopped"] and report["dry_run"]:
        typer.echo(f"sagas: a sweep would stop: {report['stopped']}; --force would go on", err=True)
    elif report["stopped"] and report["action"] != "report":
        fail(f"stopped: {report['stopped']}; look with --dry-run, and --force goes on")
    if report["errors"]:
        fail(f"{report['errors']} objects could not be dealt with")


def _what_became(kind: str, report: SweepView) -> str:
    if kind != "orphans" or not report["orphans"]:
        return ""
    done = _DONE.get(report["action"], report["action"])
    if report["dry_run"]:
        return f"; would be {done}"
    if report["action"] == "report":
        return f"; {done}"
    return f"; {max(report['deleted'], report['handled'])} {done}"


def add_to(app: typer.Typer) -> None:
    """Add these commands to ``app``."""
    app.command("recover")(recover)
    app.command("set-recovery-attempts")(set_recovery_attempts)
    app.command("sweep")(sweep)
