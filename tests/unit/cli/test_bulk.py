"""Commands on many sagas, and those that find and count them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.unit.cli.conftest import Run
from tests.unit.client.stub import BEGAN, SAGA_ID, SEQ, StubApi, a_saga, an_error, attention

OTHER = SAGA_ID[:-1] + "0"


def dead(saga_id: str = SAGA_ID) -> dict[str, Any]:
    error = {"step": "check", "type": "Timeout", "message": "too late"}
    return a_saga("DEAD_LETTERED", saga_id=saga_id, error=error, attention=attention("exhausted", error))


def written(home: Path, job: str = "j1", action: str = "retry", **fields: Any) -> Path:
    """Write the file of a job, and return its path."""
    selection = {"type": "create-zip", "needing": True, "as_of": BEGAN}
    record = {"job": job, "service": str(home), "action": action, "selection": selection, "reason": "fixed"}
    path = home / "home" / ".sagas" / "jobs" / f"{job}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**record, "began_at": BEGAN, "written_at": BEGAN, **fields}))
    return path


def page(*sagas: dict[str, Any]) -> dict[str, Any]:
    return {"sagas": list(sagas), "cursor": None}


def test_all_that_match_are_retried(api: StubApi, run: Run, tmp_path: Path) -> None:
    api.will(200, page(dead(), dead(OTHER)))
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
    assert api.asked[0].path == "/v1/attention?type=create-zip&limit=100"
    bodies = [one.body for one in api.asked if one.method == "POST"]
    assert bodies == [{"reason": f"bulk {told['job']}: fixed", "seq": SEQ}] * 2
    (path,) = (tmp_path / "home" / ".sagas" / "jobs").iterdir()
    assert path.name == f"{told['job']}.json"
    assert SAGA_ID not in path.read_text()


def test_the_commands_that_attention_prints_act_on_that_incident_alone(api: StubApi, run: Run) -> None:
    seen = {"first_seen": BEGAN, "last_seen": BEGAN, "at_least": False}
    hostile = "It's $(reboot)\x1b[2J"
    down = {"type": "create-zip", "step": "check", "code": "exhausted", "error_type": "Down", "count": 320, **seen}
    undo = {**down, "code": "undo_failed", "error_type": hostile, "count": 1}
    api.will(200, {"incidents": [down, undo, {**down, "code": "failed", "error_type": None}], "at_least": False})
    said = run("attention", "create-zip").stdout
    assert "\x1b" not in said
    commands = [line for line in said.splitlines() if line.startswith("sagas ")]
    shell = subprocess.run(
        ["bash", "-c", 'for c; do eval "set -- $c"; printf \'%s\\0\' "$#" "$@"; done', "-", *commands],
        capture_output=True,
        check=True,
    )
    words, given = iter(shell.stdout.decode().split("\0")), list[list[str]]()
    while count := next(words):
        given.append([next(words) for _ in range(int(count))])
    assert [arguments[1] for arguments in given] == ["retry", "retry", "compensate"]
    for arguments, error in zip(given, ("Down", hostile, ""), strict=True):
        api.answers.clear()
        api.will(200, page(dead())).will(202, dead())
        options = "--yes", *(["--reason", "n"] if arguments[1] == "compensate" else [])
        words_of = [word for word in arguments[1:] if word not in ("--reason", "...")]
        result = run(*words_of, *options)
        assert result.exit_code == 0, result.output
        query = parse_qs(urlsplit(api.asked[-2].path).query, keep_blank_values=True)
        assert (query["step"], query["error"]) == (["check"], [error])
        assert "of 1 " in result.stdout


def test_no_saga_matches_is_said_before_a_reason_is_asked_for(api: StubApi, run: Run) -> None:
    api.will(200, page())
    result = run("resolve", "create-zip", "--all", "--step", "check", "--code", "failed")
    assert (result.exit_code, result.stdout) == (0, "No saga matches.\n")
    api.answers.clear()
    api.will(200, page(dead()))
    result = run("resolve", "create-zip", "--all")
    assert result.exit_code == 2
    assert "Missing option '--reason'." in result.stderr
    assert {one.method for one in api.asked} == {"GET"}


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
    api.will(200, page(dead()))
    result = run("retry", "create-zip", "--all", text="n\n")
    assert result.exit_code == 1
    assert {one.method for one in api.asked} == {"GET"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["retry", "--all"],
        ["cancel", "--all", "--yes"],
        ["retry", "create-zip", "--all", "--code", "failed"],
        ["retry", "create-zip", SAGA_ID, "--job", "j1"],
        ["retry", "create-zip", "--all", "--job", "../j1"],
        ["retry", "create-zip", SAGA_ID, "--status", "FAILED"],
        ["cancel", "create-zip", SAGA_ID, "--find", "customer=c"],
        ["cancel", "create-zip", "--all", "--find", "customer"],
        ["retry", "create-zip", SAGA_ID, "--all"],
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
        (["retry", "create-zip", SAGA_ID, "--all"], "--all: needs TYPE, and takes no id"),
    ):
        assert problem in " ".join(run(*arguments).stderr.replace("│", " ").split())


def test_one_first_that_fails_again_is_the_last(api: StubApi, run: Run) -> None:
    api.will(200, page(dead(), dead(OTHER)))
    api.will(202, dead()).will(200, dead())
    result = run("retry", "create-zip", "--all", "--one-first", "--yes")
    assert result.exit_code == 1
    assert "DEAD_LETTERED" in result.stdout
    assert "1 remaining" in result.stdout
    assert len([one for one in api.asked if one.method == "POST"]) == 1


def test_a_job_is_run_again(api: StubApi, run: Run, tmp_path: Path) -> None:
    written(tmp_path)
    newer = dead(SAGA_ID[:-1] + "2")
    newer["attention"]["since"] = "2026-11-21T10:00:00.000Z"
    api.will(200, page(dead(OTHER), newer)).will(202, dead(OTHER))
    result = run("retry", "--all", "--job", "j1", "--yes")
    assert result.exit_code == 0, result.output
    assert "Retried 1 saga of 1 (bulk j1)." in result.stdout
    assert [one.path for one in api.asked] == [
        "/v1/attention?type=create-zip&limit=100",
        f"/v1/sagas/create-zip/{OTHER}/retry",
    ]
    assert api.asked[1].body == {"reason": "bulk j1: fixed", "seq": SEQ}


@pytest.mark.parametrize(
    ("arguments", "fields", "problem"),
    [
        (["cancel"], {}, "job j1 is another one: retry of create-zip"),
        (["retry", "loan"], {}, "job j1 is another one: retry of create-zip"),
        (["retry", "--status", "FAILED"], {}, "job j1 has another filter"),
        (["retry", "--reason", "other"], {}, "job j1 has another reason or other options"),
        (["retry"], {"service": "shop in x"}, "job j1 is for the service shop in x, not "),
        (["retry"], {"left_out": ["find"]}, "pass the same --find again"),
        (["retry"], {"left_out": ["picked"]}, "which sagas job j1 was for is not kept"),
    ],
)
def test_a_job_is_not_taken_for_another(
    api: StubApi, run: Run, tmp_path: Path, arguments: list[str], fields: dict[str, Any], problem: str
) -> None:
    written(tmp_path, **fields)
    result = run(*arguments, "--all", "--job", "j1", "--yes")
    assert result.exit_code == 1
    assert problem in result.stderr
    assert api.asked == []


def test_search_keys_that_a_job_does_not_keep_are_passed_again(api: StubApi, run: Run, tmp_path: Path) -> None:
    written(tmp_path, left_out=["find"])
    api.will(200, page(dead())).will(202, dead())
    result = run("retry", "--all", "--job", "j1", "--find", "order=o-17", "--yes")
    assert result.exit_code == 0, result.output
    assert api.asked[0].path == "/v1/sagas?order=o-17&type=create-zip&limit=100"


def test_a_command_may_be_repeated_with_the_name_of_its_job(api: StubApi, run: Run) -> None:
    for _ in range(2):
        api.answers.clear()
        failed = a_saga("FAILED", ended_at=BEGAN, request={}, correlation_id="c")
        api.will(200, page(failed)).will(200, failed).will(202, a_saga(saga_id=OTHER))
        result = run("rerun", "create-zip", "--all", "--status", "FAILED", "--job", "night", "--since", "12d", "--yes")
        assert result.exit_code == 0, result.output
        assert "Reran 1 saga of 1 (bulk night)." in result.stdout
    keys = [one.headers["Idempotency-Key"] for one in api.asked if one.method == "POST"]
    assert keys == [f"bulk night {SAGA_ID}"] * 2


def test_a_job_that_stops_says_why_and_how_to_go_on(api: StubApi, run: Run) -> None:
    api.will(200, page(*(dead(f"{SAGA_ID[:-1]}{number}") for number in range(7))))
    api.will(403, {"Message": "ann is not authorized to perform: execute-api:Invoke on x"})
    result = run("retry", "create-zip", "--all", "--yes", "--job", "j7")
    assert result.exit_code == 1
    said = result.stdout.splitlines()
    assert said[0] == "Retried 0 sagas of 7, 5 failed, 2 remaining (bulk j7)."
    assert said[1].startswith("Stopped: 5 failures in a row; the last: the API refused the call (403): ann is not")
    assert said[1].endswith("this call needs the right 'operate'.")
    assert said[2] == "Continue with `sagas retry --all --job j7`."


@pytest.mark.slow
def test_a_job_that_is_killed_goes_on_and_acts_on_nothing_twice(
    api: StubApi, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sagas = {f"{SAGA_ID[:-2]}{number:02x}": dead(f"{SAGA_ID[:-2]}{number:02x}") for number in range(120)}
    requests, retried, lock = iter(api.asked), list[str](), threading.Lock()

    def answer() -> Any:
        """Answer as a service does: what was retried needs no operator any more."""
        with lock:
            request = next(requests)
            if request.method == "GET":
                return 200, page(*(each for saga_id, each in sagas.items() if saga_id not in retried)), {}
            retried.append(request.path.split("/")[-2])
            return 202, dead(), {}

    monkeypatch.setattr(api, "next", answer)
    program = "from sagas.cli.main import main; main()"
    command = [sys.executable, "-c", program, "retry", "create-zip", "--all", "--yes", "--job", "j1", "--rate", "40"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(tmp_path / "home")}
    with subprocess.Popen(command, env=environment, cwd=tmp_path) as process:
        end = time.monotonic() + 60
        while len(retried) < 20:
            assert time.monotonic() < end, "it does not begin"
            time.sleep(0.01)
        process.kill()
    assert 20 <= len(retried) < 120
    (told,) = json.loads(run("jobs", "--json").stdout)["jobs"]
    assert told.get("ended", False) is False
    result = run("retry", "--all", "--job", "j1", "--yes", "--rate", "1000")
    assert result.exit_code == 0, result.output
    assert sorted(retried) == sorted(sagas)
    assert {each.body["reason"].rstrip(": ") for each in api.asked if each.method == "POST"} == {"bulk j1"}


def test_jobs_are_listed(api: StubApi, run: Run, tmp_path: Path) -> None:
    assert "No jobs yet" in run("jobs").stdout
    counts = {"chosen": 7, "done": 2, "already": 0, "refused": 0, "failed": 5}
    written(tmp_path, "j2", counts=counts, stopped="5 failures in a row", ended=True, reason="a\x1b[2Jb")
    written(tmp_path, "j1", "rerun", counts={"chosen": 2, "done": 2}, ended=True)
    written(tmp_path, "j0", counts={"chosen": 9, "done": 1})
    (tmp_path / "home" / ".sagas" / "jobs" / "bad.json").write_text("{}")
    result = run("jobs")
    lines = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert "2 done, 5 failed of 7" in lines["j2"]
    assert "stopped: 5 failures in a row" in lines["j2"]
    assert "\x1b" not in result.stdout
    assert "ended" in lines["j1"]
    assert "not ended" in lines["j0"]
    assert "bad.json is not the file of a job; delete it" in result.stderr
    listed = {one["job"]: one for one in json.loads(run("jobs", "--json").stdout)["jobs"]}
    assert {name: one["unfinished"] for name, one in listed.items()} == {"j2": True, "j1": False, "j0": True}
    assert listed["j2"]["selection"] == {"type": "create-zip", "needing": True, "as_of": BEGAN}
    assert api.asked == []


def test_a_reason_that_is_too_long_is_wrong_usage(api: StubApi, run: Run) -> None:
    api.will(200, page(dead()))
    chosen = "create-zip", "--all", "--status", "DEAD_LETTERED"
    result = run("cancel", *chosen, "--yes", "--reason", "x" * 486)
    assert result.exit_code == 2
    assert "reason: longer than 485 characters" in re.sub(r"[\s│]+", " ", result.output)


def test_a_file_that_cannot_be_written_is_told_before_anything_is_done(api: StubApi, run: Run, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("in the way")
    api.will(200, page(dead()))
    result = run("cancel", "create-zip", "--all", "--status", "DEAD_LETTERED", "--yes")
    assert result.exit_code == 1
    assert "cannot be written (Not a directory)" in result.output
    assert {one.method for one in api.asked} == {"GET"}


def test_options_of_one_are_those_of_each(api: StubApi, run: Run) -> None:
    api.will(200, page(a_saga("RUNNING"))).will(200, page()).will(200, page()).will(200, page())
    api.will(202, a_saga("RUNNING"))
    arguments = "create-zip", "--all", "--yes"
    assert run("cancel", *arguments, "--force").exit_code == 0
    assert "force=true" in api.asked[-1].path
    api.answers.clear()
    api.will(200, page(a_saga("COMPLETED"))).will(202, a_saga("COMPENSATING"))
    undo = "--status", "COMPLETED", "--force", "--reason", "a mistake"
    assert run("compensate", *arguments, *undo).exit_code == 0
    assert api.asked[-1].body["force"] is True
    api.answers.clear()
    api.will(200, page(dead())).will(200, dead())
    by_hand = "--reason", "paid back by hand", "--action", "paid back", "--undone", "pay"
    assert run("resolve", *arguments, *by_hand).exit_code == 0
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
