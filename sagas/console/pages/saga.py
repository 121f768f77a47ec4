"""The page of a saga: its history, its state, and what to do next."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sagas.client.read.advice import advice
from sagas.client.read.families import childless_in, family_of
from sagas.client.read.next_action import Do, command_of, next_action
from sagas.console.desk import LABELS, Desk
from sagas.console.drawing.graph import graph
from sagas.console.drawing.timeline import WORDS, timeline
from sagas.console.forms import NOT_SENT, PREFIX, RefusedForm, fields_of
from sagas.console.redaction import scrubbed
from sagas.operations import VERBS

_PAGE = 200
_FAMILY = 100
"""A page shows at most this many sagas of a family. The list has the others."""
_BAD = ("Failed", "Lost", "DeadLettered", "TimedOut", "Exhausted")
_DID: Mapping[str, str] = {name: operation.verb.confirmation for name, operation in VERBS.items()} | {
    Do.RECOVER: "The supervisor checked the saga.",
    Do.SIGNAL: "The signal was accepted.",
    Do.RERUN: "This is the new saga.",
}
_ADVISED = (*map(str, Do),)
_WAITS = {
    "signal": "It waits for a signal",
    "children": "It waits for the sagas that it started",
    "paused": "It waits before its next step, which is paused",
    "release": "It waits for a release",
    "inputs": "It waits until its inputs can be read",
}
"""Texts that say what a saga waits for."""
_RELEASE = "Waiting for a release"
"""The beginning of sentences that only repeat the action."""
_ENDED = ("COMPLETED", "COMPENSATED", "CANCELLED", "FAILED", "COMPENSATION_FAILED")


def show(
    desk: Desk, request: Request, name: str, saga_id: str, refused: RefusedForm = NOT_SENT, http_status: int = 200
) -> Response:
    blocks = desk.blocks(rest=True)
    source = desk.source
    full = source.show(name, saga_id)  # without it, there is no page
    saga, hidden = desk.view_of(full)
    audit = blocks.read("the audit trail", lambda: source.audit(full), [])
    entries = scrubbed(_without_values(audit), hidden)
    now = desk.clock()
    action = next_action(saga, now)
    types = {saga_type["type"]: saga_type for saga_type in blocks.read("the type", source.types, [])}
    declared = {step["name"]: step for step in types.get(name, {}).get("steps", ())}
    related = any(step.get("children") for step in saga["steps"])
    family = (
        blocks.read("the children", lambda: family_of(source.list, saga, _FAMILY, childless_in(types.values())), None)
        if related
        else None
    )
    waits = _wait(saga, declared)
    # The page has buttons instead of commands, and explains the action elsewhere.
    lines = [line for line in advice(saga, now) if "`sagas " not in line and not line.startswith(_RELEASE)]
    # Any saga that has ended can be run again.
    again = (Do.RERUN,) if saga["status"] in _ENDED and not saga.get("purged_at") else ()
    return desk.page(
        request,
        "saga.html",
        http_status,
        saga=saga,
        family=scrubbed(family, hidden),
        child_errors=_errors_of_children(desk, saga),
        action=action,
        do="" if action.do is Do.NOTHING else str(action.do),
        others=[str(do) for do in dict.fromkeys((*action.others, *again, *_usual(saga["status"]))) if LABELS.get(do)],
        commands={str(do): command_of(do, saga, action.step) for do in Do},
        sentences=[line.replace(f"{name} {saga_id}, ", "") for line in lines],
        graph=graph(saga["steps"], {step: one["undo"] for step, one in declared.items()}, waits["misfit"]),
        timeline=timeline(saga, entries, now),
        words=WORDS,
        traces=[entry for entry in reversed(entries) if entry["details"].get("stack_trace")],
        **_audit_page(request, entries),
        **waits,
        prefix=PREFIX,
        refused=refused,
        undoable=[step["name"] for step in saga["steps"] if step["status"] == "COMPENSATION_FAILED"],
        ended=saga["status"] in _ENDED,
        did=_DID.get(request.query_params.get("did", ""), ""),
        link=desk.saga_path(name, saga_id),
        logs=desk.links.logs(saga["saga_id"], saga["created_at"], saga["updated_at"]),
        blocks=blocks,
    )


def _usual(status: str) -> list[str]:
    """Return the verbs that the advice never names. Verbs for many sagas are offered only in their usual statuses."""
    others = ((name, operation.bulk_statuses) for name, operation in VERBS.items() if name not in _ADVISED)
    return [name for name, many in others if not many or status in many]


def _audit_page(request: Request, entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a page of the audit trail, the last entry first."""
    failed = request.query_params.get("audit") == "failed"
    listed = [entry for entry in entries if not failed or entry["action"].endswith(_BAD)]
    first = max(int(at) if (at := request.query_params.get("from", "0")).isdigit() else 0, 0)
    return {
        "entries": list(reversed(listed))[first : first + _PAGE],
        "entry_count": len(listed),
        "first": first,
        "per_page": _PAGE,
        "failed_only": failed,
    }


def _wait(saga: Mapping[str, Any], declared: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the saga waits for, and the fields of a signal's form."""
    waits = next((step for step in saga["steps"] if step.get("waiting_for") == "signal"), None)
    waiting: Mapping[str, Any] = saga.get("waiting") or {}
    return {
        "waits": waits,
        "misfit": waiting.get("step", ""),
        "waiting": _WAITS.get(waiting.get("kind", ""), ""),
        "waits_until": waiting.get("until"),
        "fields": fields_of(declared.get(waits["name"], {}).get("signal")) if waits else (),
    }


def _errors_of_children(desk: Desk, saga: Mapping[str, Any]) -> dict[str, str]:
    """Return the errors of children by id. A message needs the full child, which shows what to redact."""
    of_steps: list[Mapping[str, Any]] = [step.get("children") or {} for step in saga["steps"]]
    failures = [failure for of in of_steps for failure in of.get("failures", ())]
    full = desk.source.in_full(failures)
    errors = dict[str, str]()
    for failure in failures:
        error = desk.error({"error": failure["error"]}, full.get(failure["saga_id"]))
        errors[failure["saga_id"]] = error or (failure["error"]["type"] if failure["error"] else "")
    return errors


def document(desk: Desk, _request: Request, name: str, saga_id: str) -> Response:
    full = desk.source.show(name, saga_id)
    saga, hidden = desk.view_of(full)
    entries = scrubbed(_without_values(desk.source.audit(full)), hidden)
    headers = {"Content-Disposition": 'attachment; filename="saga.json"'}
    text = json.dumps({"saga": saga, "entries": entries}, indent=2)
    return Response(text, media_type="application/json", headers=headers)


def _without_values(entries: list[Any]) -> list[Any]:
    """Return entries without values. The page shows the values as request and results, redacted."""
    kept = ({key: value for key, value in entry["details"].items() if key != "value"} for entry in entries)
    return [{**entry, "details": details} for entry, details in zip(entries, kept, strict=True)]
