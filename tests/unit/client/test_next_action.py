"""The one right next action: of every incident that the runbook has a section for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from sagas.client.read.next_action import Do, command_of, needed, next_action
from sagas.core.events import AttentionCode
from sagas.core.text import epoch
from tests.unit.client.stub import SAGA_ID, SEQ, a_saga, a_step, attention

NOW = epoch("2026-11-21T09:49:00.000Z")
ERROR = {"type": "NotFound", "message": "no topic"}
GONE = {"type": "CodeGone", "message": "the code of announce is not deployed"}
VAIN = {"type": "WaitTimedOut", "message": "no signal arrived in time"}
LATER = "2026-11-21T09:50:00.000Z"
ATTENTION = "needs-attention"
ENDED = "2026-11-21T09:48:52.000Z"


def at(step: str, error: dict[str, str], code: str = "exhausted") -> dict[str, Any]:
    """Fields of a saga that failed at a step."""
    cause = {"step": step, **error}
    return {"error": cause, "steps": [a_step(step, "FAILED", error=error)], "attention": attention(code, cause)}


UNDO = {
    "steps": [a_step("capture", "COMPENSATION_FAILED", undo_attempts=4, error=ERROR)],
    "attention": attention("undo_failed", {"step": "capture", "undo": True, **ERROR}),
}
LEASE = {"claimed_at": ENDED, "expires_at": ENDED, "heartbeat_at": None}
STALLED = {"attention": attention("recovery_exhausted")}
SILENT = {"attention": attention("no_response", step="ship")}
DOUBT = {"attention": attention("in_doubt", step="ship"), "in_doubt": ["ship"]}
BROKEN = {"breaker": {"step": "score", "open_until": LATER}}
PAST = {"past_pivot": "capture"}
STOPPED = {**PAST, **at("ship", ERROR, "pivot_holds")}
STUCK = {**PAST, "attention": attention("stalled", {"step": "ship", "type": "Stalled", "message": ""})}
UNFIT = {"attention": attention("does_not_fit", step="ship")}
AWAITS = {**UNFIT, "waiting": {"kind": "release", "until": LATER, "step": "ship", "message": "it is gone"}}
OVERDUE = {**PAST, "attention": attention("overdue")}
WAITS = {"steps": [a_step("approval", "WAITING", waiting_for="signal")]}
TABLE: list[tuple[str, dict[str, Any], Do, str, str]] = [
    ("COMPENSATION_FAILED", UNDO, Do.RETRY, "The undo of capture failed", "compensation-failed"),
    ("DEAD_LETTERED", at("announce", ERROR), Do.RETRY, "Step announce used up its attempts", "dead-letters"),
    ("DEAD_LETTERED", at("announce", GONE, "code_missing"), Do.NOTHING, "Step announce was not called", ATTENTION),
    ("DEAD_LETTERED", at("approval", VAIN, "wait_timed_out"), Do.RETRY, "Step approval timed out", "dead-letters"),
    ("FAILED", at("ship", ERROR, "failed"), Do.COMPENSATE, "Step ship failed", "failed"),
    ("COMPENSATED", STALLED, Do.RESOLVE, "Recovery is exhausted", "needs-attention"),
    ("RUNNING", SILENT, Do.RETRY, "The function is silent", "function-errors"),
    ("CANCELLED", DOUBT, Do.RESOLVE, "ship may have taken effect", "needs-attention"),
    ("RUNNING", {"lease": LEASE}, Do.RECOVER, "The saga stalled", ""),
    ("RUNNING", {"lease": {**LEASE, "expires_at": LATER}}, Do.NOTHING, "", ""),
    ("RUNNING", BROKEN, Do.BREAKER, "The saga waits for the breaker of score", "breaker-opened"),
    ("WAITING", WAITS, Do.SIGNAL, "approval waits for a signal", ""),
    ("DEAD_LETTERED", STOPPED, Do.RETRY, "Step ship failed", "needs-attention"),
    ("DEAD_LETTERED", STUCK, Do.RETRY, "Step ship stalled too often", "needs-attention"),
    ("RUNNING", UNFIT, Do.NOTHING, "Step ship does not fit the release", "needs-attention"),
    ("RUNNING", AWAITS, Do.NOTHING, "The saga waits for a release", ""),
    ("RUNNING", OVERDUE, Do.NOTHING, "Its deadline has passed", "needs-attention"),
    ("WAITING", {**WAITS, **OVERDUE}, Do.SIGNAL, "approval waits for a signal", ""),
    ("COMPLETED", {}, Do.NOTHING, "", ""),
    ("FAILED", {**at("ship", ERROR), "resolution": {"by": "ann"}}, Do.NOTHING, "", ""),
    ("FAILED", {**at("ship", ERROR), "purged_at": ENDED}, Do.NOTHING, "", ""),
]  # fmt: skip


@pytest.mark.parametrize(("status", "fields", "do", "problem", "runbook"), TABLE)
def test_table(status: str, fields: dict[str, Any], do: Do, problem: str, runbook: str) -> None:
    saga = a_saga(status, **fields)
    action = next_action(saga, NOW)
    assert (action.do, action.problem, action.runbook) == (do, problem, runbook)
    command = command_of(action.do, saga, action.step)
    assert bool(command) == (do is not Do.NOTHING)
    assert (f"--seq {SEQ}" in command) == (do in (Do.RETRY, Do.COMPENSATE, Do.RESOLVE))


@pytest.mark.parametrize("fields", [UNFIT, AWAITS])
@pytest.mark.parametrize(("status", "others"), [("RUNNING", (Do.CANCEL,)), ("COMPENSATING", ())])
def test_a_look_is_not_offered_for_a_saga_that_waits_for_a_release(
    status: str, others: tuple[Do, ...], fields: dict[str, Any]
) -> None:
    assert next_action(a_saga(status, **fields), NOW).others == others


@pytest.mark.parametrize(("status", "fields"), [("RUNNING", {}), ("RUNNING", BROKEN), ("DEAD_LETTERED", STOPPED)])
def test_past_its_pivot_nothing_is_offered_that_the_api_refuses(status: str, fields: dict[str, Any]) -> None:
    before = next_action(a_saga(status, **{**fields, "past_pivot": ""}), NOW)
    past = next_action(a_saga(status, **{**fields, **PAST}), NOW)
    assert {Do.CANCEL, Do.COMPENSATE} & {*before.others}
    assert not {Do.CANCEL, Do.COMPENSATE} & {*past.others}
    assert not past.problem or "--force" in past.means


def test_the_sections_are_those_of_the_runbook() -> None:
    (runbook,) = (Path(__file__).parents[3] / "docs").rglob("runbook.md")
    headings = re.findall(r"^## (.+)$", runbook.read_text(), re.MULTILINE)
    known = {heading.lower().replace(" ", "-") for heading in headings}
    assert {runbook for *_, runbook in TABLE if runbook} <= known


def test_a_summary_is_enough() -> None:
    summary = {key: one for key, one in a_saga("DEAD_LETTERED").items() if key not in ("steps", "error", "request")}
    assert next_action({**summary, "attention": attention("exhausted")}, NOW).do is Do.RETRY
    assert next_action({**summary, "attention": attention("code_missing")}, NOW).do is Do.NOTHING


@pytest.mark.parametrize("code", AttentionCode)
def test_each_reason_has_a_way_on_for_one_saga_and_for_many(code: AttentionCode) -> None:
    one, many = needed(code, "pay", SAGA_ID), needed(code, "pay", "trip --all")
    assert one.problem == many.problem
    assert one.title
    assert "{" not in one.problem + one.means + many.means
    assert "pay" in one.problem or code in ("recovery_exhausted", "no_response", "overdue")
