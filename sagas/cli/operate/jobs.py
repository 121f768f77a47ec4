"""``sagas jobs``: the jobs of this user, and how far they came."""

from __future__ import annotations

import typer

from sagas.cli.listing import Wide, listing, whole
from sagas.cli.output import display, emit, say, warn
from sagas.cli.target import Target, on_target
from sagas.core.text import ago, moment


@on_target
def jobs(target: Target, wide: Wide = False) -> None:
    """List your jobs on many sagas, the newest first, those of the console, too."""
    from sagas.client.operate.jobs import JobFolder

    records, problems = JobFolder().all()
    for problem in problems:
        warn(problem)
    if target.as_json:
        emit({"jobs": [{**record.view, "unfinished": record.unfinished} for record in records]})
        return
    if not records:
        say("No jobs yet: `sagas retry TYPE --all` is one.")
        return
    rows = list[list[str]]()
    for record in records:
        began = moment(record.began_at) if whole(wide) else ago(record.began_at, target.now())
        others = (f"{count:,} {kind}" for kind, count in record.counts.items() if count and kind != "chosen")
        counts = f"{', '.join(others) or '0 done'} of {record.counts.get('chosen', 0):,}"
        row = record.job, record.action, record.what, counts, record.state, began, record.reason, record.service
        rows.append([*row])
    columns = {"job": 0, "action": 0, "sagas": 0, "outcome": 0, "state": 1, "began": 2, "reason": 3, "service": 4}
    display(listing(columns, rows, wide=wide))
    if any(record.unfinished and not record.left_out for record in records):
        say("Continue an unfinished job with `sagas ACTION --all --job JOB`.")


def add_to(app: typer.Typer) -> None:
    app.command()(jobs)
