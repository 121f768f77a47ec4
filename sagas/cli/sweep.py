"""``sagas sweep``: orphaned objects of one saga type, now, by the supervisor of the local stack."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from botocore.exceptions import BotoCoreError, ClientError

from sagas.cli.output import emit, fail, plain, say
from sagas.cli.reading import Name
from sagas.local.clients import Clients
from sagas.local.description import Description
from sagas.local.errors import LocalStackError
from sagas.local.files import Files

__all__ = ["Invoke", "invoke_supervisor", "sweep", "sweep_once"]

Invoke = Callable[[dict[str, Any]], dict[str, Any]]
"""Calls the supervisor with an event and returns its answer."""

_SECONDS = 15.0
"""How long one call may take; what is left is the next call's. The client waits for an answer for 30 seconds."""
_COUNTS = ("listed", "orphans", "deleted", "archived", "handled", "unknown", "foreign", "errors")
_DONE = {"delete": "deleted", "archive": "archived and deleted", "report": "reported", "on_orphans": "handled"}
_MEANING = {
    "orphans": "left by sagas that were undone",
    "unknown": "of sagas that do not exist here; never touched",
    "foreign": "whose key no saga of this type made; never touched",
    "errors": "not dealt with",
}
_MOST_SHOWN = 100


def sweep(
    name: Name,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and touch nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Go on even where most objects are orphans.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")] = False,
) -> None:
    """Sweep the S3 objects that undone sagas of a type left behind, once, now."""
    try:
        report = sweep_once(invoke_supervisor, {"saga": name, "dry_run": dry_run, "force": force})
    except LocalStackError as error:
        fail(str(error))
    if as_json:
        emit(report)
    else:
        _show(report)
    _judge(report)


def invoke_supervisor(event: dict[str, Any]) -> dict[str, Any]:
    """Call the supervisor of this directory's local stack.

    Raises:
        LocalStackError: no stack is running here, or the supervisor failed.
    """
    description = Description.read(Files(Path.cwd()).description)
    client = Clients(description.endpoint_url, description.region).client("lambda")
    try:
        called = client.invoke(FunctionName=description.supervisor, Payload=json.dumps(event).encode())
        answer = json.loads(called["Payload"].read())
    except (BotoCoreError, ClientError, ValueError) as error:
        raise LocalStackError(f"the supervisor did not answer: {error}") from error
    if "FunctionError" in called:
        raise LocalStackError(str(answer.get("errorMessage", "the supervisor failed and gave no reason")))
    return answer


def sweep_once(invoke: Invoke, options: Mapping[str, Any]) -> dict[str, Any]:
    """Sweep to the end, in as many calls as it takes; return one report for all.

    Args:
        invoke: calls the supervisor.
        options: ``saga``, ``dry_run`` and ``force``.

    Raises:
        LocalStackError: the supervisor failed, or gets nowhere.
    """
    total: dict[str, Any] = {}
    while True:
        event = {"task": "sweep", "now": True, "seconds": _SECONDS, "start_after": total.get("start_after", "")}
        answer = invoke(event | dict(options))
        if not answer.get("swept"):
            raise LocalStackError("the supervisor swept nothing")
        report: dict[str, Any] = answer["swept"][0]
        moved = any(report[count] for count in ("listed", "deleted"))
        total = _together(total, report)
        if report["finished"] or report["error"] or (report["stopped"] and not report["dry_run"]):
            return total
        if not moved:
            raise LocalStackError("the supervisor had no time to sweep")


def _together(total: dict[str, Any], report: dict[str, Any]) -> dict[str, Any]:
    if not total:
        return report
    sums = {count: total[count] + report[count] for count in _COUNTS}
    return report | sums | {"sample": _samples(total, report), "stopped": total["stopped"] or report["stopped"]}


def _samples(total: dict[str, Any], report: dict[str, Any]) -> dict[str, list[str]]:
    """The examples of both, the first ones first, a hundred at most."""
    left, samples = _MOST_SHOWN, cast("dict[str, list[str]]", {})
    for kind in _MEANING:
        found = [*total["sample"].get(kind, ()), *report["sample"].get(kind, ())][:left]
        left -= len(found)
        if found:
            samples[kind] = found
    return samples


def _show(report: dict[str, Any]) -> None:
    say(f"{report['saga']}: {report['listed']} objects under {report['prefix']} in {report['bucket']}")
    for kind, meaning in _MEANING.items():
        if report[kind] or kind == "orphans":
            say(f"{kind:8} {report[kind]:6}  {meaning}{_what_became(kind, report)}")
        for key in report["sample"].get(kind, ()):
            say(f"         {plain(key)}")


def _what_became(kind: str, report: dict[str, Any]) -> str:
    if kind != "orphans" or not report["orphans"]:
        return ""
    done = _DONE.get(report["action"], report["action"])
    if report["dry_run"]:
        return f"; would be {done}"
    if report["action"] == "report":
        return f"; {done}"
    return f"; {max(report['deleted'], report['handled'])} {done}"


def _judge(report: dict[str, Any]) -> None:
    """End with exit code 1 when something was left that should not be."""
    if report["error"]:
        fail(f"the sweep of {report['saga']} failed: {report['error']}")
    if report["stopped"] and report["dry_run"]:
        typer.echo(f"sagas: a sweep would stop: {report['stopped']}; --force would go on", err=True)
    elif report["stopped"] and report["action"] != "report":
        fail(f"stopped: {report['stopped']}; look with --dry-run, and --force goes on")
    if report["errors"]:
        fail(f"{report['errors']} objects could not be dealt with")
