"""Commands on many sagas, and those that find and count them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Run
from tests.unit.client.stub import SAGA_ID, SEQ, StubApi, a_saga, an_error, attention

OTHER = SAGA_ID[:-1] + "0"


def dead(saga_id: str = SAGA_ID) -> dict[str, Any]:
    error = {"step": "check", "type": "Timeout", "message": "too late"}
    return a_saga("DEAD_LETTERED", saga_id=saga_id, error=error, attention=attention("exhausted", error))


def head_of(action: str, *saga_ids: str) -> dict[str, Any]:
    """Return the first line of a file of outcomes."""
    return {"job": "j1", "action": action, "type": "create-zip", "reason": "", "chosen": dict.fromkeys(saga_ids, SEQ)}


def page(*sagas: dict[str, Any]) -> dict[str, Any]:
    return {"sagas": list(sagas), "cursor": None}


def test_all_that_match_are_retried(api: StubApi, run: Run) -> None:
    api.will(200, page(dead(), dead(OTHER))).will(200, page()).will(200, page())
    api.will(202, dead()).will(409, an_error("conflict", "it is over"))
    result = run(
        "retry",
        "create-zip",
        "--all",
        "--error",
        "Timeout",
        "--reason",
        "fixed",
        "--rate",
        "3",
        "--yes",
        "--json",
    )
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["chosen"], told["done"], told["refused"], told["failed"], told["remaining"]) == (2, 1, 1, 0, 0)
    bodies = [one.body for one in api.asked if one.method == "POST"]
    assert bodies == [{"reason": f"bulk {told['job']}: fixed", "seq": SEQ}] * 2
    lines = Path(told["outcomes"]).read_text().splitlines()
    assert [json.loads(line).get("outcome") for line in lines] == [None, "done", "refused"]


def test_a_dry_run_does_nothing(api: StubApi, run: Run) -> None:
    api.will(200, page(dead()))
    result = run("cancel", "create-zip", "--all", "--status", "DEAD_LETTERED", "--find", "customer=c-17", "--dry-run")
    assert "1 saga would be chosen." in result.stdout
    assert SAGA_ID in result.stdout
    (one,) = api.asked
    assert (one.method, one.path) == ("GET", "/v1/sagas?customer=c-17&type=create-zip&limit=100")


def test_a_status_is_taken_in_any_case(api: StubApi, run: Run) -> None:
    api.will(200, page(dead()))
    result = run("cancel", "create-zip", "--all", "--status", "dead_lettered", "--dry-run", "--json")
    assert result.exit_code == 0, result.output
    assert [one["status"] for one in json.loads(result.stdout)["sagas"]] == ["DEAD_LETTERED"]


def test_it_asks_first(api: StubApi, run: Run) -> None:
    api.will(200, page(dead())).will(200, page()).will(200, page())
    result = run("retry", "create-zip", "--all", text="n\n")
    assert result.exit_code == 1
    assert {one.method for one in api.asked} == {"GET"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["retry", "--all"],
        ["cancel", "--all", "--yes"],
        ["resolve", "create-zip", "--all", "--yes"],
        ["retry", "create-zip", SAGA_ID, "--status", "FAILED"],
        ["cancel", "create-zip", SAGA_ID, "--find", "customer=c"],
        ["cancel", "create-zip", "--all", "--find", "customer"],
        ["retry", "create-zip", SAGA_ID, "--all"],
        ["compensate", "create-zip", "--all", "--yes"],
        ["rerun", "create-zip"],
        ["compensate"],
        ["resolve", "create-zip", SAGA_ID],
        ["rerun", "create-zip", "--all", "--key", "k"],
        ["retry", "create-zip", "--all", "--watch"],
        ["retry", "create-zip", "--all", "--timeout", "3"],
        ["retry", "create-zip", "--all", "--seq", "3"],
        ["compensate", "create-zip", "--all", "--reason", "n", "--seq", "3"],
    ],
)
def test_what_is_not_said_or_does_not_fit_is_wrong_usage(api: StubApi, run: Run, arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2
    assert api.asked == []


def test_what_is_for_one_or_for_many_says_so(run: Run) -> None:
    for arguments, problem in (
        (["retry", "create-zip", "--all", "--watch"], "--watch: cannot be used with --all"),
        (["retry", SAGA_ID, "--one-first"], "--one-first: cannot be used without --all"),
        (["compensate", "create-zip", "--all"], "Missing option '--reason'."),
        (["retry", "create-zip", SAGA_ID, "--all"], "--all: needs TYPE, and takes no id"),
    ):
        assert problem in " ".join(run(*arguments).stderr.replace("│", " ").split())


def test_one_first_that_fails_again_is_the_last(api: StubApi, run: Run) -> None:
    api.will(200, page(dead(), dead(OTHER))).will(200, page()).will(200, page())
    api.will(202, dead()).will(200, dead())
    result = run("retry", "create-zip", "--all", "--one-first", "--yes")
    assert result.exit_code == 1
    assert "DEAD_LETTERED" in result.stdout
    assert "1 remaining" in result.stdout
    assert len([one for one in api.asked if one.method == "POST"]) == 1


def test_a_job_is_gone_on_with(api: StubApi, run: Run, tmp_path: Path) -> None:
    head = head_of("retry", SAGA_ID, OTHER) | {"reason": "fixed"}
    done = {"saga_id": SAGA_ID, "outcome": "done", "message": "", "new": "", "at": ""}
    (tmp_path / "job.jsonl").write_text(f"{json.dumps(head)}\n{json.dumps(done)}\n")
    api.will(202, dead(OTHER))
    result = run("retry", "--all", "--outcomes", "job.jsonl", "--yes")
    assert result.exit_code == 0
    assert "Retried 2 sagas of 2 (bulk j1)." in result.stdout
    (one,) = api.asked
    assert one.path == f"/v1/sagas/create-zip/{OTHER}/retry"
    assert run("cancel", "--all", "--outcomes", "job.jsonl", "--yes").exit_code == 1


def test_one_first_of_a_job_that_is_gone_on_with_is_the_first_that_is_left(
    api: StubApi, run: Run, tmp_path: Path
) -> None:
    last = SAGA_ID[:-1] + "2"
    head = head_of("retry", SAGA_ID, OTHER, last)
    gone = {"saga_id": SAGA_ID, "outcome": "refused", "message": "it is over", "new": "", "at": ""}
    (tmp_path / "job.jsonl").write_text(f"{json.dumps(head)}\n{json.dumps(gone)}\n")
    api.will(202, dead(OTHER)).will(200, a_saga("COMPLETED", saga_id=OTHER)).will(202, dead(last))
    result = run("retry", "--all", "--outcomes", "job.jsonl", "--one-first", "--yes")
    assert result.exit_code == 0, result.output
    assert f"First saga, {OTHER}: COMPLETED" in result.stdout
    assert "Retried 2 sagas of 3, 1 refused (bulk j1)." in result.stdout


def test_a_reason_that_is_too_long_is_wrong_usage(api: StubApi, run: Run) -> None:
    api.will(200, page(dead()))
    chosen = "create-zip", "--all", "--status", "DEAD_LETTERED"
    result = run("cancel", *chosen, "--yes", "--reason", "x" * 486)
    assert result.exit_code == 2
    assert "reason: longer than 485 characters" in re.sub(r"[\s│]+", " ", result.output)


def test_outcomes_that_cannot_be_written_are_told_before_anything_is_done(api: StubApi, run: Run) -> None:
    api.will(200, page(dead()))
    chosen = "create-zip", "--all", "--status", "DEAD_LETTERED"
    result = run("cancel", *chosen, "--yes", "--outcomes", "nowhere/job.jsonl")
    assert result.exit_code == 1
    assert "job.jsonl cannot be written (No such file or directory); no call was made" in result.output
    assert {one.method for one in api.asked} == {"GET"}


def test_a_dry_run_of_a_job_that_is_gone_on_with_does_nothing(api: StubApi, run: Run, tmp_path: Path) -> None:
    head = head_of("cancel", SAGA_ID, OTHER)
    done = {"saga_id": SAGA_ID, "outcome": "done", "message": "", "new": "", "at": ""}
    (tmp_path / "job.jsonl").write_text(f"{json.dumps(head)}\n{json.dumps(done)}\n")
    arguments = "cancel", "--all", "--outcomes", "job.jsonl", "--dry-run", "--yes"
    assert "1 of 2 sagas remain." in run(*arguments).stdout
    assert json.loads(run(*arguments, "--json").stdout)["saga_ids"] == [OTHER]
    assert api.asked == []


def test_options_of_one_are_those_of_each(api: StubApi, run: Run, tmp_path: Path) -> None:
    api.will(200, page(a_saga("RUNNING"))).will(200, page()).will(200, page()).will(200, page())
    api.will(202, a_saga("RUNNING"))
    arguments = "create-zip", "--all", "--yes", "--outcomes"
    assert run("cancel", *arguments, "c.jsonl", "--force").exit_code == 0
    assert "force=true" in api.asked[-1].path
    api.answers.clear()
    api.will(200, page(a_saga("COMPLETED"))).will(202, a_saga("COMPENSATING"))
    undo = "--status", "COMPLETED", "--force", "--reason", "a mistake"
    assert run("compensate", *arguments, "u.jsonl", *undo).exit_code == 0
    assert api.asked[-1].body["force"] is True
    api.answers.clear()
    api.will(200, page(dead())).will(200, dead())
    by_hand = "--reason", "paid back by hand", "--action", "paid back", "--step", "pay"
    assert run("resolve", *arguments, "r.jsonl", *by_hand).exit_code == 0
    assert (api.asked[-1].body["action"], api.asked[-1].body["steps"]) == ("paid back", ["pay"])


def test_lists_by_value_and_time(api: StubApi, run: Run) -> None:
    api.will(200, page(a_saga()))
    times = "--since", "2026-11-22T10:00:00Z", "--until", "2026-11-23T00:00:00Z"
    result = run("list", "create-zip", "--find", "customer=c=17", *times)
    assert SAGA_ID in result.stdout
    (one,) = api.asked
    assert one.path == (
        "/v1/sagas?customer=c%3D17&type=create-zip&since=2026-11-22T10%3A00%3A00%2B00%3A00&until=2026-11-23T00%3A00%3A00%2B00%3A00&limit=20"
    )


@pytest.mark.parametrize("option", [["--idempotency-key", "order 1"], ["--parent", SAGA_ID]])
@pytest.mark.parametrize("filter_", [["--since", "2h"], ["--until", "2h"], ["--status", "FAILED"], ["--find", "c=1"]])
def test_filters_that_a_list_knows_no_use_for_are_refused(
    api: StubApi, run: Run, option: list[str], filter_: list[str]
) -> None:
    result = run("list", *option, *filter_)
    assert result.exit_code == 1
    assert f"{option[0]} can" in result.stderr
    assert api.asked == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["a", "b"],
        ["--find", "a=1", "--find", "a=2"],
        ["--since", "lately"],
        ["--since", "2026-11-22"],
        ["--until", "3w"],
    ],
)
def test_bad_filters_are_wrong_usage(api: StubApi, run: Run, arguments: list[str]) -> None:
    assert run("list", *arguments).exit_code == 2
    assert api.asked == []


def test_a_span_is_that_long_ago(api: StubApi, run: Run) -> None:
    api.will(200, page())
    run("list", "--since", "2h")
    assert "since=20" in api.asked[0].path


def test_lists_by_key(api: StubApi, run: Run) -> None:
    api.will(200, page(a_saga()))
    run("list", "create-zip", "--idempotency-key", "order 1")
    assert api.asked[0].path == "/v1/sagas?type=create-zip&idempotency_key=order%201"


def test_lists_name_sagas_by_label_and_key_before_the_id(
    api: StubApi, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = {"label": "order o-17\x1b[31m · customer c-5", "key": "pay-17\n"}
    api.will(200, page(a_saga(**about), a_saga(saga_id=SAGA_ID[:-1] + "0")))
    head, first, second = run("list", "create-zip").stdout.splitlines()
    assert head.split()[:4] == ["label", "key", "id", "type"]
    assert first.startswith(f"order o-17 [31m · customer c-5  pay-17  {SAGA_ID}")
    assert second.split()[0] == SAGA_ID[:-1] + "0"
    api.answers.clear()
    api.will(200, page(a_saga()))
    assert run("list", "create-zip").stdout.split()[:2] == ["id", "type"]
    api.answers.clear()
    api.will(200, page(a_saga(**about)))
    listed = json.loads(run("list", "create-zip", "--json").stdout)["sagas"][0]
    assert {name: listed[name] for name in about} == about
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "60")):  # as on a terminal
        monkeypatch.setenv(name, value)
    narrow = re.sub("\x1b\\[[0-9;]*m", "", run("list", "create-zip").stdout).splitlines()
    assert narrow[0].split()[:2] == ["label", "id"], "one of them is enough"


def test_a_saga_is_shown_with_label_and_key(api: StubApi, run: Run) -> None:
    api.will(200, a_saga(label="order o-17\x1b[31m", key="pay-17"))
    shown = run("show", "create-zip", SAGA_ID).stdout
    assert f"create-zip order o-17 [31m {SAGA_ID} COMPLETED" in shown
    assert "key pay-17" in shown


def test_shows_by_id_alone(api: StubApi, run: Run) -> None:
    api.will(200, a_saga()).will(200, a_saga())
    assert SAGA_ID in run("show", SAGA_ID[:8]).stdout
    assert api.asked[0].path == f"/v1/sagas/{SAGA_ID[:8]}"


STATS: dict[str, Any] = {
    "at": "2026-11-22T10:00:00.000Z",
    "since": "2026-11-21T10:00:00.000Z",
    "types": [
        {
            "type": "create-zip", "paused": True, "statuses": {"RUNNING": 3, "COMPLETED": 1000, "FAILED": 0},
            "in_flight": 3, "attention": 1, "started_per_minute": 1.5, "ended_per_minute": 0.2,
            "oldest_in_flight": "2026-11-22T09:00:00.000Z", "at_least": ["COMPLETED"],
        }
    ],
    "queues": [{"type": "create-zip", "steps": ["check"], "messages": 7}],
    "breakers": [],
    "approximate": ["messages in queues"],
}  # fmt: skip


def test_top(api: StubApi, run: Run) -> None:
    api.will(200, STATS)
    said = run("top").stdout
    for text in (
        "create-zip paused",
        "RUNNING",
        "1000+",
        "1.5",
        "2026-11-22 09:00:00",
        "Approximate: messages in queues.",
    ):
        assert text in said
    assert "FAILED" not in said
    api.will(200, STATS)
    assert json.loads(run("top", "create-zip", "--json").stdout) == STATS
    assert api.asked[1].path == "/v1/stats?type=create-zip"


def test_top_fits_into_80_columns(api: StubApi, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "80")):  # as on a terminal
        monkeypatch.setenv(name, value)
    statuses = {"COMPLETED": 22, "COMPENSATED": 4, "COMPENSATION_FAILED": 2, "CANCELLED": 3, "DEAD_LETTERED": 1}
    one: dict[str, Any] = STATS["types"][0]
    idle = one | {"type": "idle", "statuses": {"FAILED": 0}, "paused": False, "oldest_in_flight": None}
    idle |= dict.fromkeys(("attention", "started_per_minute", "ended_per_minute"), 0)
    api.will(200, STATS | {"types": [one | {"statuses": statuses}, idle], "queues": []})
    lines = [re.sub("\x1b\\[[0-9;]*m", "", line).rstrip() for line in run("top").stdout.splitlines()]
    assert all(len(line) <= 80 for line in lines)
    rows = [" ".join(line.split()) for line in lines]
    assert "create-zip paused DEAD_LETTERED 1" in rows
    assert "create-zip paused COMPLETED 22+" in rows
    assert "create-zip paused 1 1.5 0.2 2026-11-22 09:00:00 UTC" in rows
    assert "idle 0 0 0" in rows


def test_top_goes_on_for_programs_too(api: StubApi, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    api.will(200, STATS)
    pauses = iter([None, None])

    def sleep(seconds: float) -> None:
        if next(pauses, "over") == "over":
            raise KeyboardInterrupt

    monkeypatch.setattr("sagas.cli.read.statistics.time.sleep", sleep)
    said = run("top", "--watch", "--json").stdout
    assert said.count('"approximate"') == 3
    assert len(api.asked) == 3
