"""The pages of dead letters, saga types, circuit breakers, sweeps and jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sagas.client import DeadLetter
from sagas.client.endpoints import COMMANDS
from sagas.client.operate.selection import Chosen
from sagas.console.desk import Desk
from sagas.console.forms import NOT_SENT, PREFIX, RefusedForm, fields_of
from sagas.core.fit import Deployed, fit
from sagas.core.states import StepState
from sagas.errors import NotFound, SagaError

_LISTED = 200
_LOOKED_AT = 10
"""A job's page shows what became of this many sagas by now."""


def letters_of_all(desk: Desk, request: Request) -> Response:
    return desk.page(request, "letters_all.html", counts=desk.source.letters_of_all())


def letters(
    desk: Desk,
    request: Request,
    name: str,
    found: list[DeadLetter] | None = None,
    said: str = "",
    fates: Mapping[str, str] | None = None,
) -> Response:
    if name != COMMANDS:
        type_named(desk, name)
    views = list[DeadLetter]()
    for letter in found or ():
        try:
            body: Any = json.loads(letter.body)
        except (ValueError, RecursionError):
            views.append(letter if desk.redaction.payloads else replace(letter, body="***"))
            continue
        # Messages of the library contain requests and results.
        body = desk.redaction.apply(body, list[str]())
        views.append(replace(letter, body=json.dumps(body, ensure_ascii=False)))
    # No saga waits for a rejected command.
    blocks = desk.blocks(rest=True)
    retryable = blocks.read("its sagas", lambda: desk.source.needing(name), []) if views and name != COMMANDS else []
    return desk.page(
        request,
        "letters.html",
        name=name,
        count=blocks.read("the number of messages", lambda: desk.source.letters(name), None),
        letters=views,
        retryable={saga["saga_id"]: saga for saga in retryable},
        looked=found is not None,
        said=said,
        fates=fates or {},
        blocks=blocks,
    )


def types(desk: Desk, request: Request) -> Response:
    return desk.page(request, "types.html", types=desk.source.types())


def type_(desk: Desk, request: Request, name: str, refused: RefusedForm = NOT_SENT, http_status: int = 200) -> Response:
    """Return the page of a saga type, with its steps, its pauses, and a form to start a saga. With ``in_flight`` in the
    query, it also has the sagas in flight by release."""
    saga_type = type_named(desk, name)
    blocks = desk.blocks(rest=True)
    nothing = list[dict[str, Any]]()
    asked = "in_flight" in request.query_params
    return desk.page(
        request,
        "type.html",
        http_status,
        type=saga_type,
        releases=blocks.read("sagas in flight", lambda: by_release(desk.source.in_flight(name)), nothing)
        if asked
        else None,
        fields=fields_of(saga_type["request"]),
        prefix=PREFIX,
        refused=refused,
        blocks=blocks,
    )


def by_release(in_flight: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the sagas in flight by the blueprint of their start, the oldest first, and why the deployed code does not
    fit some of their steps."""
    blueprints: Mapping[str, Any] = in_flight["blueprints"]
    deployed: list[dict[str, Any]] = blueprints[in_flight["deployed"]]["steps"] if in_flight["deployed"] else []
    code = {step["name"]: Deployed(step.get("waits_for", ""), asks=True, undo="undo" in step) for step in deployed}
    releases = dict[str, dict[str, Any]]()
    for group in sorted(in_flight["groups"], key=lambda group: group["oldest"]):
        blueprint = blueprints[group["blueprint"]]
        steps: list[StepState] = [
            StepState(step["name"], undo="undo" in step, waits_for=step.get("waits_for", ""))
            for step in blueprint["steps"]
            if not step.get("retired")
        ]
        judged = (fit(step, code.get(step.name)) for step in steps)
        misfits = [why.message for each in judged if (why := each.forward or each.undo)]
        first = {"version": blueprint["version"], "oldest": group["oldest"], "misfits": misfits, "groups": []}
        current = steps[min(int(group["cursor"]), len(steps) - 1)]
        releases.setdefault(group["blueprint"], first)["groups"].append({**group, "step": current.name})
    return list(releases.values())


def breakers(desk: Desk, request: Request) -> Response:
    blocks = desk.blocks()
    source = desk.source
    nothing = list[Any]()
    found, types = source.together(
        lambda: blocks.read("circuit breakers", source.breakers, nothing),
        lambda: blocks.read("pauses", source.types, nothing),
    )
    active = {match["type"]: True for match in found} | {saga_type["type"]: saga_type["active"] for saga_type in types}
    return desk.page(request, "breakers.html", breakers=found, active=active, blocks=blocks)


def sweeps(desk: Desk, request: Request, name: str, report: Any = None) -> Response:
    type_named(desk, name)
    counts = (
        {kind: report[kind] for kind in ("orphans", "unreferenced", "kept", "young", "unknown", "foreign")}
        if report
        else {}
    )
    stand = next((sweep for sweep in desk.source.sweeps() if sweep["type"] == name), None)
    return desk.page(request, "sweeps.html", name=name, report=report, counts=counts, stand=stand)


def sweeps_of_all(desk: Desk, request: Request) -> Response:
    return desk.page(request, "sweeps_all.html", types=desk.source.types())


def jobs(desk: Desk, request: Request) -> Response:
    """Return the list of the user's jobs on this service, also those of the command line."""
    begun = desk.jobs.running()  # before the files are read, since a job writes its file before it ends
    records, problems = desk.jobs.all()
    running = {record.job for record in records if record.job in begun and not record.ended}
    return desk.page(request, "jobs.html", jobs=records, problems=problems, running=running)


def job(desk: Desk, request: Request, name: str) -> Response:
    """Return the page of a job. If this console runs it, it has the outcome of each saga."""
    record, batch = desk.jobs.get(name)
    # Whether it runs is part of what was read: a job that ends now has more outcomes than its record.
    running = batch is not None and not record.ended
    # Use copies, because outcomes can still arrive.
    outcomes = [] if batch is None else [*batch.report.outcomes.copy().values()]
    outcomes.sort(key=lambda outcome: outcome.outcome == "done")  # the unsuccessful ones first
    rows = list[dict[str, Any]]()
    chosen = {} if batch is None else batch.report.chosen
    for outcome in outcomes[:_LISTED]:
        saga = chosen[outcome.saga_id]
        now = _status_of(desk, saga) if len(outcomes) <= _LOOKED_AT else ""
        rows.append({"type": saga.type, "saga_id": saga.saga_id, "outcome": outcome, "now": now})
    settled = sum(record.counts.get(kind, 0) for kind in ("done", "already", "refused"))
    return desk.page(
        request,
        "job.html",
        job=record,
        running=running,
        report=batch and batch.report,
        rows=rows,
        more=len(outcomes) - len(rows),
        remaining=record.counts.get("chosen", 0) - settled,
        not_tried=record.counts.get("chosen", 0) - settled - record.counts.get("failed", 0),
        resumable=batch is not None or not record.left_out,
    )


def _status_of(desk: Desk, saga: Chosen) -> str:
    """Return the status that a saga of a job has now; empty if it cannot be read."""
    try:
        return str(desk.source.show(saga.type, saga.saga_id)["status"])
    except SagaError:
        return ""


def type_named(desk: Desk, name: str) -> Any:
    """Return a saga type as the service describes it."""
    for saga_type in desk.source.types():
        if saga_type["type"] == name:
            return saga_type
    raise NotFound(f"this service has no saga type {name!r}")
