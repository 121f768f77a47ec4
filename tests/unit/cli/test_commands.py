"""What each command asks for, prints and exits with."""

from __future__ import annotations

import json
import re
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from sagas.cli.output import plain
from sagas.client import DeadLetter
from sagas.core.times import epoch, iso
from tests.unit.cli.conftest import Run
from tests.unit.client.stub import BEGAN, SAGA_ID, StubApi, a_saga, a_step, an_error

DEAD = a_saga(
    "DEAD_LETTERED",
    steps=[
        a_step("upload"),
        a_step("announce", "FAILED", attempts=4, error={"type": "NotFound", "message": "no\n\x1b[31mtopic"}),
    ],
    error={"step": "announce", "type": "NotFound", "message": "no\n\x1b[31mtopic"},
    why="step announce used up its attempts",
)
ENTRY: dict[str, Any] = {
    "saga_id": SAGA_ID, "seq": 1, "at": BEGAN, "saga": "create-zip", "action": "StepFailed", "step": "announce",
    "attempt": 4, "status": "RUNNING", "actor": "arn:aws:iam::1:user/ann", "correlation_id": SAGA_ID, "trace_id": None,
    "details": {"error": {"type": "NotFound", "message": "no [topic]"}, "stack_trace": "Traceback"},
}  # fmt: skip
DEFINITION: dict[str, Any] = {
    "name": "create-zip", "version": "1", "description": "", "active": False, "reason": "closed", "changed_by": "ann",
    "changed_at": BEGAN, "request": {}, "steps": [{"name": "upload"}, {"name": "announce"}],
}  # fmt: skip


class TestSkippedTime:
    """The local stack's clock may be days ahead of this machine's."""

    @pytest.fixture(autouse=True)
    def three_days(self, api: StubApi, tmp_path: Path) -> None:
        (tmp_path / ".sagas" / "clock").write_text("259200.000\n")

    def test_ages_are_by_the_stacks_clock(self, api: StubApi, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "80")):  # as on a terminal
            monkeypatch.setenv(name, value)
        now = iso(time.time() + 259_200 - 120)
        api.will(200, a_saga("RUNNING", created_at=now, updated_at=now))
        assert "2 min ago" in run("show", "create-zip", SAGA_ID).stdout
        api.will(200, {"sagas": [a_saga(created_at=now, updated_at=now)], "cursor": None})
        api.answers.pop(0)
        assert "2 min ago" in run("list").stdout

    def test_so_is_since(self, api: StubApi, run: Run) -> None:
        api.will(200, {"sagas": [], "cursor": None})
        run("list", "--since", "1h")
        asked = re.search(r"since=([^&]*)", unquote(api.asked[0].path))
        assert asked is not None
        assert abs(epoch(asked[1]) - (time.time() + 259_200 - 3600)) < 60


class TestStart:
    def test_reads_a_file(self, api: StubApi, run: Run, tmp_path: Path) -> None:
        api.will(202, a_saga("PENDING"))
        (tmp_path / "request.json").write_text('{"keys": ["ü"]}', encoding="utf-8")
        result = run("start", "create-zip", "--file", "request.json", "--key", "k1")
        assert result.exit_code == 0, result.output
        assert result.stdout.splitlines()[0] == f"create-zip {SAGA_ID} PENDING"
        assert (api.asked[0].body, api.asked[0].headers["Idempotency-Key"]) == ({"keys": ["ü"]}, "k1")

    def test_runs_one_again(self, api: StubApi, run: Run) -> None:
        new = a_saga("PENDING", saga_id="019aa59c-fb41-7d0b-8a37-c2d15e94f603")
        api.will(200, DEAD).will(202, new)
        result = run("rerun", "create-zip", SAGA_ID, "--json")
        assert (result.exit_code, json.loads(result.stdout)) == (0, new)
        assert api.asked[1].body == DEAD["request"]
        api.will(404, an_error("not_found", "there is no saga create-zip/x"))
        missing = run("rerun", "create-zip", SAGA_ID)
        assert (missing.exit_code, missing.stderr) == (1, "sagas: there is no saga create-zip/x\n")

    def test_passes_on_a_correlation_id(self, api: StubApi, run: Run) -> None:
        api.will(202, a_saga("PENDING"))
        assert run("start", "create-zip", "-f", "-", "--correlation-id", "c1", text="{}").exit_code == 0
        assert api.asked[0].headers["X-Correlation-Id"] == "c1"

    def test_reads_standard_input(self, api: StubApi, run: Run) -> None:
        api.will(202, a_saga("PENDING"))
        result = run("start", "create-zip", "-f", "-", "--json", text="[1]")
        assert (result.exit_code, json.loads(result.stdout)) == (0, a_saga("PENDING"))
        assert api.asked[0].body == [1]

    def test_refuses_what_is_not_json(self, api: StubApi, run: Run) -> None:
        result = run("start", "create-zip", "-f", "-", text="{")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "is not JSON" in result.stderr
        assert api.asked == []

    def test_takes_the_request_itself(self, api: StubApi, run: Run) -> None:
        api.will(202, a_saga("PENDING"))
        assert run("start", "create-zip", "--data", '{"keys": []}').exit_code == 0
        assert api.asked[0].body == {"keys": []}
        assert run("start", "create-zip", "--data", "{}", "--file", "-", text="{}").exit_code == 2
        assert run("start", "create-zip", "--data", "{").stderr.startswith("sagas: the request is not JSON")

    def test_without_a_file_is_wrong_usage(self, run: Run) -> None:
        assert run("start", "create-zip").exit_code == 2
        assert run("start", "create-zip", "--file", "missing.json").exit_code == 2


class TestWatch:
    def test_tells_each_change_in_a_line(self, api: StubApi, run: Run) -> None:
        retrying = a_step("upload", "RETRYING", error={"type": "Timeout", "message": "slow"}, next_attempt_at=BEGAN)
        api.will(202, a_saga("PENDING", steps=[a_step("upload", "PENDING", attempts=0)]))
        api.will(200, a_saga("RUNNING", steps=[retrying]))
        api.will(200, a_saga("COMPLETED", steps=[a_step("upload", attempts=2)]))
        result = run("start", "create-zip", "-f", "-", "--watch", text="{}")
        assert result.exit_code == 0, result.output
        assert result.stdout.splitlines()[:5] == [
            f"Started create-zip {SAGA_ID}",
            "09:48:50.216 step upload RETRYING, Timeout: slow, again at 09:48:50.216",
            "09:48:50.216 saga RUNNING",
            "09:48:50.216 step upload COMPLETED, attempt 2",
            "09:48:50.216 saga COMPLETED",
        ]

    @pytest.mark.parametrize("status", ["COMPENSATED", "CANCELLED", "FAILED", "COMPENSATION_FAILED", "DEAD_LETTERED"])
    def test_exits_with_3_at_any_other_end(self, api: StubApi, run: Run, status: str) -> None:
        api.will(200, a_saga(status))
        assert run("show", "create-zip", SAGA_ID, "--watch").exit_code == 3

    def test_exits_with_4_when_it_takes_too_long(self, api: StubApi, run: Run) -> None:
        api.will(200, a_saga("RUNNING"))
        result = run("show", "create-zip", SAGA_ID, "--watch", "--timeout", "0.2")
        assert result.exit_code == 4
        assert "still RUNNING after 0.2 s" in result.stderr

    def test_with_json_only_the_end_is_printed(self, api: StubApi, run: Run) -> None:
        api.will(202, a_saga("PENDING")).will(200, a_saga("RUNNING")).will(200, DEAD)
        result = run("start", "create-zip", "-f", "-", "--watch", "--json", text="{}")
        assert (result.exit_code, json.loads(result.stdout)) == (3, DEAD)

    def test_on_a_terminal_the_page_is_redrawn(self, api: StubApi, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        api.will(202, a_saga("PENDING")).will(200, a_saga("RUNNING")).will(200, DEAD)
        result = run("start", "create-zip", "-f", "-", "--watch", text="{}")
        assert result.exit_code == 3, result.output
        pages = result.stdout.split("started 2026-11-21")
        assert "RUNNING" in pages[0]
        assert f"`sagas retry create-zip {SAGA_ID}`" in " ".join(pages[-1].split())

    def test_progress_is_told_in_lines(self, api: StubApi, run: Run) -> None:
        told = {"step": "check", "fraction": 0.25, "message": "packing \x1b[31m", "at": "2026-11-21T09:48:52.000Z"}
        busy = a_saga("RUNNING", progress=told)
        api.will(200, busy).will(200, busy).will(200, a_saga("COMPLETED"))
        result = run("show", "create-zip", SAGA_ID, "--watch")
        assert result.exit_code == 0, result.output
        assert "09:48:52.000 step check is at 25% packing [31m" in result.stdout.splitlines()

    def test_retry_can_be_watched(self, api: StubApi, run: Run) -> None:
        api.will(202, a_saga("RUNNING")).will(200, a_saga("COMPLETED"))
        assert run("retry", "create-zip", SAGA_ID, "--watch").exit_code == 0


class TestShow:
    def test_tells_what_happened_and_what_to_do(self, api: StubApi, run: Run) -> None:
        api.will(200, DEAD).will(200, {"entries": [ENTRY | {"trace_id": "1-abc"}], "cursor": None})
        result = run("show", "create-zip", SAGA_ID)
        assert result.exit_code == 0, result.output
        lines = result.stdout.splitlines()
        assert lines[0] == f"create-zip {SAGA_ID} DEAD_LETTERED"
        assert lines[1].startswith("started 2026-11-21 09:48:50 UTC")
        assert lines[4].split() == ["announce", "FAILED", "4", "0.00", "s", "NotFound"]
        assert f"create-zip {SAGA_ID}, step announce, attempt 4 failed: NotFound: no [31mtopic" in lines
        assert f"`sagas dlq redrive create-zip --saga-id {SAGA_ID}`" in lines[6]
        assert f"`sagas retry create-zip {SAGA_ID}`" in lines[6]
        assert lines[7:] == ["request {}", "stack trace of announce, attempt 4, trace id 1-abc", "  Traceback"]
        assert "\x1b" not in result.stdout

    @pytest.mark.parametrize("wanted", [SAGA_ID, SAGA_ID[:8]])
    def test_by_its_id_alone_or_how_that_begins(self, api: StubApi, run: Run, wanted: str) -> None:
        api.will(200, a_saga())
        assert run("show", wanted).exit_code == 0
        assert [one.path for one in api.asked] == [f"/v1/sagas/{wanted}"]

    def test_by_its_type_and_how_its_id_begins(self, api: StubApi, run: Run) -> None:
        api.will(200, a_saga())
        assert run("show", "create-zip", SAGA_ID[:8]).exit_code == 0
        assert [one.path for one in api.asked] == [f"/v1/sagas/{SAGA_ID[:8]}", f"/v1/sagas/create-zip/{SAGA_ID}"]
        wrong = run("show", "checkout", SAGA_ID[:8])
        assert wrong.exit_code == 1
        assert wrong.stderr == f"sagas: the saga whose id begins with '{SAGA_ID[:8]}' is a create-zip\n"

    def test_by_an_ambiguous_beginning_is_refused(self, api: StubApi, run: Run) -> None:
        api.will(409, an_error("conflict", "several sagas' ids begin so"))
        result = run("show", SAGA_ID[:8])
        assert (result.exit_code, result.stderr) == (1, "sagas: several sagas' ids begin so\n")
        assert run("show").exit_code == 2

    @pytest.mark.parametrize("name", [[], ["create-zip"]])
    def test_the_newest(self, api: StubApi, run: Run, name: list[str]) -> None:
        api.will(200, {"sagas": [a_saga()], "cursor": "x"}).will(200, a_saga())
        assert run("show", *name, "--last").exit_code == 0
        query = "name=create-zip&limit=1" if name else "limit=1"
        assert [one.path for one in api.asked] == [f"/v1/sagas?{query}", f"/v1/sagas/create-zip/{SAGA_ID}"]

    def test_request_and_results_are_there_and_long_ones_cut(self, api: StubApi, run: Run) -> None:
        steps = [a_step("upload", result={"etag": "\x1b[31mx"}), a_step("announce", result="m-1")]
        api.will(200, a_saga(request={"keys": [f"k{number}" for number in range(40)]}, steps=steps))
        told = run("show", "create-zip", SAGA_ID).stdout
        assert '"etag": "\\u001b[31mx"' in told
        assert 'result of announce "m-1"' in told
        assert '"k17"' in told
        assert '"k18"' not in told
        assert "24 more lines: --json has all" in told

    def test_progress_is_a_bar(self, api: StubApi, run: Run) -> None:
        told = {"step": "check", "fraction": 0.5, "message": "packing", "at": "2026-11-21T09:48:52.000Z"}
        api.will(200, a_saga("RUNNING", progress=told))
        (bar,) = [one for one in run("show", "create-zip", SAGA_ID).stdout.splitlines() if "50%" in one]
        assert bar.split()[0] == "check"
        assert bar.split()[-2:] == ["50%", "packing"]

    def test_as_json_it_is_what_the_api_says(self, api: StubApi, run: Run) -> None:
        api.will(200, DEAD)
        assert json.loads(run("show", "create-zip", SAGA_ID, "--json").stdout) == DEAD


class TestLists:
    def test_list(self, api: StubApi, run: Run) -> None:
        api.will(200, {"sagas": [a_saga("COMPLETED")], "cursor": None})
        result = run("list", "--name", "create-zip")
        assert SAGA_ID in result.stdout
        assert "cursor" not in result.stdout
        assert "why" not in result.stdout

    def test_a_filter_may_leave_pages_empty(self, api: StubApi, run: Run) -> None:
        api.will(200, {"sagas": [], "cursor": "two"}).will(200, {"sagas": [a_saga("FAILED")], "cursor": "three"})
        result = run("list", "--status", "FAILED", "--limit", "1", "--json")
        assert json.loads(result.stdout) == {"sagas": [a_saga("FAILED")], "cursor": "three"}
        assert [one.path for one in api.asked] == [
            "/v1/sagas?status=FAILED&limit=1", "/v1/sagas?status=FAILED&limit=1&cursor=two",
        ]  # fmt: skip

    def test_attention_goes_on_for_one_type(self, api: StubApi, run: Run) -> None:
        api.will(200, {"sagas": [], "cursor": "two"}).will(200, {"sagas": [DEAD], "cursor": None})
        result = run("attention", "--name", "create-zip", "--json")
        assert json.loads(result.stdout) == {"sagas": [DEAD], "cursor": None}
        assert [one.path for one in api.asked] == [
            "/v1/attention?name=create-zip&limit=20", "/v1/attention?name=create-zip&limit=20&cursor=two",
        ]  # fmt: skip

    def test_one_that_goes_on_says_how(self, api: StubApi, run: Run) -> None:
        api.will(200, {"sagas": [a_saga()], "cursor": "abc"})
        assert run("list", "--limit", "1").stdout.splitlines()[-1] == "There may be more: --cursor abc"

    def test_an_empty_one_says_so(self, api: StubApi, run: Run) -> None:
        api.will(200, {"sagas": [], "cursor": None})
        assert run("list").stdout == "There are no such sagas.\n"
        assert run("attention").stdout == "No saga needs you.\n"

    def test_attention_says_why(self, api: StubApi, run: Run) -> None:
        api.will(200, {"sagas": [DEAD], "cursor": None})
        assert "step announce used up its attempts" in run("attention").stdout

    def test_audit(self, api: StubApi, run: Run) -> None:
        api.will(200, {"entries": [ENTRY], "cursor": None})
        told = run("audit", "create-zip", SAGA_ID).stdout
        assert "NotFound: no [topic]" in told
        assert "user/ann" in told
        assert "Traceback" not in told
        assert json.loads(run("audit", "create-zip", SAGA_ID, "--json").stdout) == {"entries": [ENTRY]}

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            ({}, ""),
            ({"chained_from": 2}, "Entries before 2 were written by an older version, and are covered since."),
            ({"chained_from": None}, "No entry has a hash: an older version wrote them all."),
            ({"purged_at": BEGAN}, "the trail of actions is left, without payloads."),
        ],
    )
    def test_audit_verifies(self, api: StubApi, run: Run, more: dict[str, Any], said: str) -> None:
        found = {"saga_id": SAGA_ID, "verified": True, "entries": 3, "chained_from": 1, "broken": None}
        api.will(200, found | more)
        told = run("audit", "create-zip", SAGA_ID, "--verify")
        assert (told.exit_code, told.stdout.splitlines()[0]) == (0, "3 entries: all are what was written.")
        assert said in told.stdout
        assert len(told.stdout.splitlines()) == 1 + bool(said)
        assert api.asked[-1].path.endswith(f"{SAGA_ID}/verification")

    def test_audit_tells_of_a_broken_trail(self, api: StubApi, run: Run) -> None:
        broken = {"seq": 2, "what": "missing", "message": "entry 2 is missing"}
        found: dict[str, Any] = {
            "saga_id": SAGA_ID, "verified": False, "entries": 3, "chained_from": 1, "broken": broken,
        }  # fmt: skip
        api.will(200, found)
        told = run("audit", "create-zip", SAGA_ID, "--verify")
        assert (told.exit_code, told.stdout) == (1, "")
        assert told.stderr == "sagas: the audit trail is broken: entry 2 is missing\n"
        told = run("audit", "create-zip", SAGA_ID, "--verify", "--json")
        assert (told.exit_code, json.loads(told.stdout)) == (1, found)

    def test_definitions(self, api: StubApi, run: Run) -> None:
        api.will(200, {"definitions": [DEFINITION]})
        assert run("definitions").stdout.splitlines()[1].split() == [
            "create-zip", "1", "disabled", "upload", "->", "announce", "closed",
        ]  # fmt: skip
        assert json.loads(run("definitions", "--json").stdout) == {"definitions": [DEFINITION]}

    @pytest.mark.parametrize("arguments", [["--limit", "0"], ["--limit", "101"], ["--status", "DONE"]])
    def test_wrong_usage(self, run: Run, arguments: list[str]) -> None:
        assert run("list", *arguments).exit_code == 2


BREAKER: dict[str, Any] = {
    "saga": "create-zip", "step": "announce", "state": "open", "failures": 5, "open_until": BEGAN, "waiting": 12,
    "more_waiting": False,
}  # fmt: skip


class TestBreakers:
    def test_lists(self, api: StubApi, run: Run) -> None:
        calm = BREAKER | {"step": "upload", "state": "closed", "failures": 0, "open_until": None, "waiting": 0}
        api.will(200, {"breakers": [BREAKER, calm, BREAKER | {"state": "half-open", "more_waiting": True}]})
        result = run("breakers")
        assert result.exit_code == 0, result.output
        _, first, second, third = [" ".join(line.split()) for line in result.stdout.splitlines()]
        assert first == "create-zip announce open 5 2026-11-21 09:48:50 UTC 12"
        assert second == "create-zip upload closed"
        assert third == "create-zip announce half-open 5 2026-11-21 09:48:50 UTC 12 or more"
        assert json.loads(run("breakers", "--json").stdout)["breakers"][0] == BREAKER
        assert [(one.method, one.path) for one in api.asked] == [("GET", "/v1/breakers")] * 2

    def test_says_so_when_there_are_none(self, api: StubApi, run: Run) -> None:
        api.will(200, {"breakers": []})
        assert run("breakers").stdout == "No step declares a circuit breaker.\n"

    def test_closes(self, api: StubApi, run: Run) -> None:
        closed = BREAKER | {"state": "closed", "failures": 0, "open_until": None, "more_waiting": True}
        api.will(200, closed)
        told = run("breakers", "close", "create-zip", "announce").stdout.splitlines()
        assert told[0].endswith("is closed. Waiting sagas that were sent on their way: 12.")
        assert "by themselves" in told[1]
        assert json.loads(run("breakers", "close", "create-zip", "announce", "--json").stdout) == closed
        [one, _] = api.asked
        assert (one.method, one.path, one.body) == ("POST", "/v1/breakers/create-zip/announce/close", None)

    def test_options_in_the_wrong_place_are_refused(self, api: StubApi, run: Run) -> None:
        result = run("breakers", "--stack", "Shop", "close", "create-zip", "announce")
        assert result.exit_code == 2
        assert "goes after close" in " ".join(result.stderr.replace("│", " ").split())
        assert api.asked == []

    def test_an_unknown_one(self, api: StubApi, run: Run) -> None:
        api.will(404, an_error("not_found", "step 'x' of saga 'create-zip' has no circuit breaker"))
        result = run("breakers", "close", "create-zip", "x")
        assert (result.exit_code, result.stderr) == (1, "sagas: step 'x' of saga 'create-zip' has no circuit breaker\n")

    def test_show_says_that_a_saga_waits_behind_one(self, api: StubApi, run: Run) -> None:
        waiting = a_saga("RUNNING", breaker={"step": "announce", "open_until": "2126-11-21T09:48:50.216Z"})
        api.will(200, waiting)
        told = run("show", "create-zip", SAGA_ID).stdout
        assert "It waits for the breaker of step announce, open until 2126-11-21 09:48:50 UTC." in told
        assert "`sagas breakers close create-zip announce`" in told
        api.answers.clear()
        api.will(200, a_saga("RUNNING", breaker={"step": "announce", "open_until": BEGAN}))
        assert "announce, which lets one saga try since 2026-11-21" in run("show", "create-zip", SAGA_ID).stdout

    def test_a_service_that_does_not_tell_is_shown_all_the_same(self, api: StubApi, run: Run) -> None:
        older = a_saga("RUNNING")
        del older["breaker"]
        api.will(200, older)
        assert "breaker" not in run("show", "create-zip", SAGA_ID).stdout


class TestOperating:
    @pytest.mark.parametrize(
        ("arguments", "method", "path", "body"),
        [
            (["cancel"], "DELETE", "", None),
            (["cancel", "--note", "no more"], "DELETE", "?note=no%20more", None),
            (["retry", "--note", "again"], "POST", "/retry", {"note": "again"}),
            (["compensate"], "POST", "/compensate", {"note": ""}),
            (["purge", "--note", "asked for"], "POST", "/purge", {"note": "asked for"}),
            (
                ["resolve", "--note", "n", "--action", "a", "--step", "s", "--step", "t"],
                "POST",
                "/resolve",
                {"note": "n", "action": "a", "steps": ["s", "t"]},
            ),
        ],
    )
    def test_on_one_saga(
        self, api: StubApi, run: Run, arguments: list[str], method: str, path: str, body: object
    ) -> None:
        api.will(202, a_saga("RUNNING"))
        command, *options = arguments
        result = run(command, "create-zip", SAGA_ID, *options, "--json")
        assert (result.exit_code, json.loads(result.stdout)) == (0, a_saga("RUNNING"))
        (asked,) = api.asked
        assert (asked.method, asked.path) == (method, f"/v1/sagas/create-zip/{SAGA_ID}{path}")
        assert asked.body == body

    def test_disable_and_enable(self, api: StubApi, run: Run) -> None:
        api.will(200, DEFINITION)
        assert run("disable", "create-zip", "--reason", "closed").stdout == "Starting create-zip is disabled.\n"
        api.will(200, DEFINITION | {"active": True}).answers.pop(0)
        assert run("enable", "create-zip").stdout == "Starting create-zip is enabled.\n"
        assert [one.body for one in api.asked] == [
            {"active": False, "reason": "closed"}, {"active": True, "reason": ""},
        ]  # fmt: skip

    @pytest.mark.parametrize(
        "arguments", [["resolve", "create-zip", SAGA_ID], ["disable", "create-zip"], ["cancel", "create-zip"]]
    )
    def test_what_must_be_said_must_be_said(self, run: Run, arguments: list[str]) -> None:
        assert run(*arguments).exit_code == 2


class TestSupervising:
    REPORT: dict[str, Any] = {"recovered": 1, "untouched": 2, "failed": 0, "left": 3, "saga_ids": [SAGA_ID]}  # noqa: RUF012 - read only

    @pytest.mark.parametrize("command", [["recover"], ["local", "tick"]])
    def test_recovers_now(self, api: StubApi, run: Run, command: list[str]) -> None:
        api.will(200, self.REPORT)
        result = run(*command, "--stale-after", "5")
        assert result.exit_code == 0, result.output
        assert result.stdout.splitlines() == [
            "1 recovered, 2 left as they were, 0 failed, 3 left for the next time", SAGA_ID,
        ]  # fmt: skip
        (asked,) = api.asked
        assert asked.path.endswith("/2015-03-31/functions/the-supervisor/invocations")
        assert asked.body == {"task": "recover", "stale_after": 5.0}

    def test_recovers_what_is_asked_for(self, api: StubApi, run: Run) -> None:
        api.will(200, self.REPORT)
        result = run("recover", "create-zip", "--saga-id", SAGA_ID, "--limit", "5", "--max-attempts", "3")
        assert result.exit_code == 0, result.output
        (asked,) = api.asked
        assert asked.body == {
            "task": "recover", "name": "create-zip", "saga_id": SAGA_ID, "limit": 5, "max_attempts": 3,
        }  # fmt: skip

    def test_sets_recovery_attempts(self, api: StubApi, run: Run) -> None:
        api.will(200, a_saga("RUNNING"))
        result = run("set-recovery-attempts", "create-zip", SAGA_ID, "0")
        assert result.stdout == f"create-zip {SAGA_ID} counts as having stalled 0 times since its last progress\n"
        (asked,) = api.asked
        assert (asked.method, asked.body) == ("PUT", {"attempts": 0})
        assert asked.path.endswith(f"/sagas/create-zip/{SAGA_ID}/recovery-attempts")
        assert run("set-recovery-attempts", "create-zip", SAGA_ID, "1001").exit_code == 2

    def test_as_json(self, api: StubApi, run: Run) -> None:
        api.will(200, self.REPORT)
        assert json.loads(run("recover", "--json").stdout) == self.REPORT

    @pytest.mark.parametrize("command", [["recover"], ["local", "tick"], ["sweep", "create-zip"]])
    def test_that_fails_in_one_line(self, api: StubApi, run: Run, command: list[str]) -> None:
        api.will(200, {"errorType": "Error", "errorMessage": "out\nof order"}, {"X-Amz-Function-Error": "Unhandled"})
        result = run(*command)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == "sagas: the supervisor failed: out of order\n"

    @pytest.mark.parametrize("command", [["recover"], ["local", "tick"]])
    def test_patience_is_a_number_from_0(self, run: Run, command: list[str]) -> None:
        assert run(*command, "--stale-after", "-1").exit_code == 2


class TestDeadLetters:
    """What a queue of the stub holds; SQS's own answers are tested with the client."""

    LETTER = DeadLetter(
        "",
        "",
        "",
        "m-12",
        15,
        BEGAN,
        None,
        "no \x1b[31mJSON",
        {"who": "x"},
        "arn:aws:sqs:r:1:q",
        "the message's body is not JSON",
    )

    @pytest.fixture(autouse=True)
    def queue(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def letters(*_: object) -> list[DeadLetter]:
            return [self.LETTER]

        monkeypatch.setattr("sagas.client.SagaClient.dead_letters", letters)

    def test_are_listed_with_the_reason(self, run: Run) -> None:
        assert "the message's body is not JSON" in run("dlq", "list", "create-zip").stdout
        (one,) = json.loads(run("dlq", "list", "create-zip", "--json").stdout)["dead_letters"]
        assert (one["reason"], "body" in one) == ("the message's body is not JSON", False)

    def test_are_shown_whole(self, run: Run) -> None:
        told = run("dlq", "show", "create-zip", "m-1").stdout
        assert told.splitlines()[0] == "message m-12: no message of a saga"
        for part in (
            "received 15 times",
            "from arn:aws:sqs:r:1:q",
            "not readable: the message's body",
            "who: x",
            "no  [31mJSON",
        ):
            assert part in told
        assert (
            json.loads(run("dlq", "show", "create-zip", "--json").stdout)["dead_letters"][0]["body"] == self.LETTER.body
        )
        assert run("dlq", "show", "create-zip", "z").exit_code == 1

    def test_are_deleted_once_one_says_so(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = list[tuple[Any, ...]]()

        def delete(_client: object, *which: Any) -> DeadLetter:
            asked.append(which)
            return self.LETTER

        monkeypatch.setattr("sagas.client.SagaClient.delete_letter", delete)
        assert run("dlq", "delete", "create-zip", "m-12", text="n\n").exit_code == 1
        assert asked == []
        assert run("dlq", "delete", "create-zip", "m-12", text="y\n").exit_code == 0
        assert run("dlq", "delete", "create-zip", "m-12", "--yes").stdout == "Message m-12 is deleted.\n"
        assert asked == [("create-zip", "m-12")] * 2
        assert run("dlq", "delete", "create-zip", "z", "--yes").exit_code == 1


class TestTerminal:
    """What fits into the 80 columns of a terminal."""

    @pytest.fixture(autouse=True)
    def narrow(self, api: StubApi, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "80")

    def test_a_list_has_whole_ids_and_a_line_a_saga(self, api: StubApi, run: Run) -> None:
        sagas = [a_saga("COMPENSATION_FAILED", name="a-type-with-a-rather-long-name"), a_saga("PENDING")]
        api.will(200, {"sagas": sagas, "cursor": None})
        lines = [plain(re.sub("\x1b\\[[0-9;]*m", "", line)) for line in run("list").stdout.splitlines()]
        assert len(lines) == 2
        assert all(line.startswith(SAGA_ID) and len(line) <= 80 for line in lines)
        assert "d ago create-zip" in lines[1]

    def test_an_audit_has_whole_actions_and_times(self, api: StubApi, run: Run) -> None:
        api.will(200, {"entries": [ENTRY | {"action": "CompensationAttemptFailed"}], "cursor": None})
        told = re.sub("\x1b\\[[0-9;]*m", "", run("audit", "create-zip", SAGA_ID).stdout)
        assert "2026-11-21 09:48:50.216 CompensationAttemptFailed announce attempt 4" in told
        assert "by arn:aws:iam::1:user/ann" in told


class TestRoot:
    @pytest.mark.parametrize("option", ["-h", "--help"])
    def test_help(self, run: Run, option: str) -> None:
        assert "attention" in run(option).stdout
        assert run("list", option).exit_code == 0

    def test_version(self, run: Run) -> None:
        assert run("--version").stdout == f"lambda-sagas {version('lambda-sagas')}\n"

    def test_json_for_every_command(self, api: StubApi, run: Run) -> None:
        api.will(200, {"breakers": []})
        assert json.loads(run("--json", "breakers").stdout) == {"breakers": []}
        assert json.loads(run("breakers", "--json").stdout) == {"breakers": []}

    def test_completion_can_be_installed(self, run: Run) -> None:
        assert "--install-completion" in run("--help").stdout

    def test_a_status_in_any_case(self, api: StubApi, run: Run) -> None:
        api.will(200, {"sagas": [], "cursor": None})
        assert run("list", "--status", "dead_lettered").exit_code == 0
        assert "status=DEAD_LETTERED" in api.asked[0].path

    def test_a_misspelt_type_is_corrected(self, api: StubApi, run: Run) -> None:
        unknown = an_error("not_found", "there is no saga named 'creat-zip' here")
        api.will(404, unknown).will(200, {"definitions": [DEFINITION]})
        result = run("list", "--name", "creat-zip")
        assert result.stderr == "sagas: there is no saga named 'creat-zip' here; did you mean 'create-zip'?\n"

    def test_a_misspelt_command_is_corrected(self, run: Run) -> None:
        assert "'list'" in run("lits").stderr


class TestErrors:
    def test_are_one_line(self, api: StubApi, run: Run) -> None:
        api.will(409, an_error("conflict", "the saga is\nCOMPLETED"))
        result = run("cancel", "create-zip", SAGA_ID)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == "sagas: the saga is COMPLETED\n"

    def test_name_the_paths(self, api: StubApi, run: Run) -> None:
        details = [{"path": "$.keys", "message": "missing"}, {"path": "$.x", "message": "unknown field"}]
        api.will(422, an_error("invalid_request", "it does not fit", details))
        result = run("start", "create-zip", "-f", "-", text="{}")
        assert result.stderr == "sagas: it does not fit; $.keys: missing; $.x: unknown field\n"

    def test_say_when_to_try_again(self, api: StubApi, run: Run) -> None:
        api.will(503, an_error("disabled", "starting create-zip is disabled"), {"Retry-After": "60"})
        result = run("start", "create-zip", "-f", "-", text="{}")
        assert result.stderr == "sagas: starting create-zip is disabled; try again in 60 s\n"

    def test_say_what_may_have_happened(self, api: StubApi, run: Run) -> None:
        api.will_hang_up()
        result = run("start", "create-zip", "-f", "-", text="{}")
        assert result.exit_code == 1
        assert "it may have taken effect" in result.stderr

    def test_without_a_stack(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / ".sagas" / "local.json").unlink()
        result = run("list", "--json")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == "sagas: no local stack is running here; `sagas local up` starts one\n"

    def test_a_region_needs_a_stack(self, run: Run) -> None:
        assert run("list", "--region", "eu-central-1").exit_code == 2
