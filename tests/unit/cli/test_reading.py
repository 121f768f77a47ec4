"""``sagas show``, ``list``, ``audit`` and their like: what they ask for and print."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from typer.testing import CliRunner

from sagas.cli.main import app
from sagas.cli.project import console
from sagas.core.text import epoch, iso
from tests.unit.cli.conftest import DEAD, DEFINITION, ENTRY, PAUSE, Run
from tests.unit.client.stub import BEGAN, SAGA_ID, SEQ, StubApi, a_saga, a_step, an_error, an_overview, attention


class TestShow:
    def test_tells_what_happened_and_what_to_do(self, api: StubApi, run: Run) -> None:
        api.will(200, DEAD).will(200, {"entries": [ENTRY | {"trace_id": "1-abc"}], "cursor": None})
        result = run("show", "create-zip", SAGA_ID)
        assert result.exit_code == 0, result.output
        lines = result.stdout.splitlines()
        assert lines[0] == f"create-zip {SAGA_ID} DEAD_LETTERED"
        assert lines[1].startswith("started 2026-11-21 09:48:50 UTC as version 1, ")
        assert lines[4].split() == ["announce", "FAILED", "4", "NotFound"]
        assert f"create-zip {SAGA_ID}, step announce, attempt 4 failed: NotFound: no [31mtopic" in lines
        assert f"`sagas retry create-zip {SAGA_ID} --seq {SEQ}`" in lines[6]
        assert f"`sagas retry create-zip {SAGA_ID} --seq {SEQ}`" in lines[6]
        assert lines[7:] == ["request {}", "stack trace of announce, attempt 4, trace id 1-abc", "  Traceback"]
        assert "\x1b" not in result.stdout

    def test_names_the_undo_whose_trace_it_is(self, api: StubApi, run: Run) -> None:
        undone = ENTRY | {"action": "CompensationFailed", "step": "upload", "attempt": 2}
        api.will(200, DEAD).will(200, {"entries": [undone], "cursor": None})
        lines = run("show", "create-zip", SAGA_ID).stdout.splitlines()
        assert "stack trace of the undo of upload, attempt 2" in lines

    @pytest.mark.parametrize("wanted", [SAGA_ID, SAGA_ID[:8]])
    def test_by_its_id_alone_or_how_that_begins(self, api: StubApi, run: Run, wanted: str) -> None:
        api.will(200, a_saga())
        assert run("show", wanted).exit_code == 0
        assert [one.path for one in api.asked] == [f"/v1/sagas/{wanted}"]

    def test_by_its_type_and_how_its_id_begins(self, api: StubApi, run: Run) -> None:
        api.will(200, a_saga())
        assert run("show", "create-zip", SAGA_ID[:8]).exit_code == 0
        assert [one.path for one in api.asked] == [f"/v1/sagas/{SAGA_ID[:8]}"]
        wrong = run("show", "checkout", SAGA_ID[:8])
        assert wrong.exit_code == 1
        assert wrong.stderr == f"sagas: saga {SAGA_ID} has type create-zip, not checkout\n"

    def test_by_an_ambiguous_beginning_is_refused(self, api: StubApi, run: Run) -> None:
        api.will(409, an_error("conflict", "2 saga ids start with 01a1; type more of it"))
        result = run("show", SAGA_ID[:8])
        assert (result.exit_code, result.stderr) == (1, "sagas: 2 saga ids start with 01a1; type more of it\n")
        assert run("show").exit_code == 2

    def test_by_its_idempotency_key(self, api: StubApi, run: Run) -> None:
        api.will(200, {"sagas": [a_saga()], "cursor": None}).will(202, a_saga("RUNNING"))
        assert run("cancel", "create-zip", "key:order 7").exit_code == 0
        assert [one.path for one in api.asked] == [
            "/v1/sagas?type=create-zip&idempotency_key=order%207", f"/v1/sagas/create-zip/{SAGA_ID}",
        ]  # fmt: skip
        api.answers[:] = [(200, {"sagas": [], "cursor": None}, {})]
        missing = run("cancel", "create-zip", "key:order 8")
        assert missing.stderr == "sagas: no saga of type create-zip has the idempotency key 'order 8'\n"
        assert run("cancel", "key:order 7").exit_code == 2

    @pytest.mark.parametrize("words", [[SAGA_ID[:8]], ["--last"], ["create-zip", "--last"]])
    @pytest.mark.parametrize("verb", ["cancel", "retry", "compensate", "purge", "signal", "result", "rerun", "audit"])
    def test_all_verbs_take_it_alike(self, api: StubApi, run: Run, verb: str, words: list[str]) -> None:
        api.will(200, {"sagas": [a_saga()], "cursor": None} if "--last" in words else a_saga(result=1))
        api.will(200, a_saga(result=1) | {"entries": [], "cursor": None})
        rest = ["check", "--data", "1"] if verb == "signal" else []
        assert run(verb, *words, *rest).exit_code == 0
        if verb not in ("result", "rerun"):
            assert api.asked[-1].path.startswith(f"/v1/sagas/create-zip/{SAGA_ID}")
        if verb not in ("cancel", "retry", "compensate", "rerun"):
            alone = run(verb, "create-zip", "--all")
            assert "this command takes one saga at a time" in " ".join(alone.stderr.replace("│", " ").split())

    @pytest.mark.parametrize("name", [[], ["create-zip"]])
    def test_the_newest(self, api: StubApi, run: Run, name: list[str]) -> None:
        api.will(200, {"sagas": [a_saga()], "cursor": "x"}).will(200, a_saga())
        assert run("show", *name, "--last").exit_code == 0
        query = "type=create-zip&limit=1" if name else "limit=1"
        assert [one.path for one in api.asked] == [f"/v1/sagas?{query}", f"/v1/sagas/create-zip/{SAGA_ID}"]

    @pytest.mark.parametrize("given", [[SAGA_ID[:8]], ["--last"], ["create-zip", SAGA_ID]])
    def test_it_is_opened_in_the_browser_as_it_is_shown(
        self, api: StubApi, run: Run, monkeypatch: pytest.MonkeyPatch, given: list[str]
    ) -> None:
        opened = list[str]()

        def serve(_target: Any, _port: int, path: str, **_options: bool) -> None:
            opened.append(path)

        monkeypatch.setattr(console, "_serve", serve)
        if given == ["--last"]:
            api.will(200, {"sagas": [a_saga()], "cursor": None})
        api.will(200, a_saga())
        assert run("open", *given).exit_code == 0
        assert opened == [f"/sagas/create-zip/{SAGA_ID}"]
        assert run("open").exit_code == 0
        assert opened[1:] == ["/"]

    def test_request_and_results_are_there_and_long_ones_cut(self, api: StubApi, run: Run) -> None:
        steps = [a_step("upload", result={"etag": "\x1b[31mx"}), a_step("announce", result="m-1")]
        api.will(200, a_saga(request={"keys": [f"k{number}" for number in range(40)]}, steps=steps))
        told = run("show", "create-zip", SAGA_ID).stdout
        assert '"etag": "\\u001b[31mx"' in told
        assert 'result of announce "m-1"' in told
        assert '"k17"' in told
        assert '"k18"' not in told
        assert "24 more lines: --json prints all" in told

    def test_how_long_an_attempt_ran_is_not_told_of_a_wait(self, api: StubApi, run: Run) -> None:
        ended = {"ended_at": "2026-11-24T09:48:50.216Z"}
        steps = [a_step("reply", took=None, **ended), a_step("check", took=1.5, **ended)]
        api.will(200, a_saga(steps=steps))
        lines = run("show", "create-zip", SAGA_ID).stdout.splitlines()
        told = [line.split() for line in lines if "COMPLETED" in line]
        assert told[1:] == [
            ["reply", "COMPLETED", "1"],
            ["check", "COMPLETED", "1", "1.5", "s"],
        ]

    def test_what_came_after_its_end_is_no_part_of_how_long_it_took(self, api: StubApi, run: Run) -> None:
        ended, settled = "2026-11-21T09:48:55.216Z", "2026-11-24T09:48:50.216Z"
        api.will(200, a_saga("FAILED", ended_at=ended, updated_at=settled))
        assert "took 5.0 s, last changed" in " ".join(run("show", "create-zip", SAGA_ID).stdout.split())

    def test_progress_is_a_bar(self, api: StubApi, run: Run) -> None:
        told = {"step": "check", "fraction": 0.5, "message": "packing", "at": "2026-11-21T09:48:52.000Z"}
        api.will(200, a_saga("RUNNING", progress=told))
        (bar,) = [one for one in run("show", "create-zip", SAGA_ID).stdout.splitlines() if "50%" in one]
        assert bar.split()[0] == "check"
        assert bar.split()[-2:] == ["50%", "packing"]

    def test_as_json_it_is_what_the_api_says(self, api: StubApi, run: Run) -> None:
        api.will(200, DEAD)
        assert json.loads(run("show", "create-zip", SAGA_ID, "--json").stdout) == DEAD


class TestResult:
    def test_is_printed(self, api: StubApi, run: Run) -> None:
        api.will(200, a_saga("RUNNING")).will(200, a_saga("COMPLETED", result={"etag": "x"}))
        told = run("result", "create-zip", SAGA_ID, "--wait", "20s")
        assert (told.exit_code, json.loads(told.stdout)) == (0, {"etag": "x"})

    def test_of_one_that_did_not_complete_in_time_has_the_status_of_then(self, api: StubApi, run: Run) -> None:
        api.will(200, a_saga("PENDING")).will(200, a_saga("WAITING"))
        told = run("result", "create-zip", SAGA_ID, "--wait", "0s")
        assert (told.exit_code, told.stderr) == (1, "sagas: the saga is WAITING; only COMPLETED sagas have a result\n")

    def test_of_one_that_was_purged_is_gone(self, api: StubApi, run: Run) -> None:
        api.will(200, a_saga("COMPLETED", result=None, purged_at=BEGAN, purge_reason=""))
        told = run("result", "create-zip", SAGA_ID)
        assert (told.exit_code, told.stdout) == (1, "")
        assert told.stderr == "sagas: the saga was purged at 2026-11-21 09:48:50 UTC, with its result\n"


class TestLists:
    def test_list(self, api: StubApi, run: Run) -> None:
        api.will(200, {"sagas": [a_saga("COMPLETED")], "cursor": None})
        result = run("list", "create-zip")
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
        result = run("attention", "create-zip", "--sagas", "--json")
        assert json.loads(result.stdout) == {"sagas": [DEAD], "cursor": None}
        assert [one.path for one in api.asked] == [
            "/v1/attention?type=create-zip&limit=20", "/v1/attention?type=create-zip&limit=20&cursor=two",
        ]  # fmt: skip

    def test_one_that_goes_on_says_how(self, api: StubApi, run: Run) -> None:
        api.will(200, {"sagas": [a_saga()], "cursor": "abc"})
        assert run("list", "--limit", "1").stdout.splitlines()[-1] == "Continue with --cursor abc"

    def test_an_empty_one_says_so(self, api: StubApi, run: Run) -> None:
        api.will(200, {"sagas": [], "cursor": None})
        assert run("list").stdout == "No sagas.\n"
        assert run("attention", "--sagas").stdout == "Nothing needs attention.\n"

    def test_attention_says_why(self, api: StubApi, run: Run) -> None:
        api.will(200, {"sagas": [DEAD], "cursor": None})
        assert "step announce used up its attempts" in run("attention", "--sagas").stdout

    def test_a_pipe_cuts_nothing(self, api: StubApi, run: Run) -> None:
        reason = "the provider is down " * 60
        api.will(200, {"sagas": [DEAD | {"attention": attention("exhausted", reason=reason)}], "cursor": None})
        assert reason.strip() in run("attention", "--sagas").stdout

    def test_incidents(self, api: StubApi, run: Run) -> None:
        seen = {"first_seen": DEAD["updated_at"], "last_seen": DEAD["updated_at"]}
        one = {
            "type": "create-zip",
            "step": "announce",
            "code": "exhausted",
            "error_type": "ProviderDown",
            "count": 741,
            "at_least": False,
        }
        more = {"code": "failed", "error_type": None, "count": 1_000, "at_least": True}
        until = {"code": "does_not_fit", "error_type": "release 1", "until": "2026-11-21T11:23:00.000Z"}
        answer = {"incidents": [one | seen, one | seen | more, one | seen | until], "at_least": True}
        api.will(200, answer)
        head, first, second, third, *commands, _, more = run("attention", "create-zip").stdout.splitlines()
        assert commands == [
            "sagas retry create-zip --all --step announce --code exhausted --error ProviderDown",
            "sagas compensate create-zip --all --step announce --code failed --error '' --reason ...",
        ]
        assert head.split()[:6] == ["type", "step", "error", "sagas", "since", "last"]
        assert first.split()[:4] == ["create-zip", "announce", "ProviderDown", "741"]
        assert first.endswith("Nothing has been rolled back. Fix the cause, then retry: this step runs again.")
        assert second.split()[:4] == ["create-zip", "announce", "failed", "1,000+"]
        assert third.split()[:5] == ["create-zip", "announce", "release", "1", "741"]
        assert third.endswith("before they need you. Until 2026-11-21 11:23:00 UTC.")
        assert more == "There are more incidents than these."
        assert json.loads(run("attention", "create-zip", "--json").stdout) == answer
        api.will(200, answer).will(200, an_overview())
        api.answers.pop(0)
        both = json.loads(run("attention", "--json").stdout)
        assert both == answer | {"rejected_commands": 0, "overview": an_overview()}
        api.answers.clear()
        api.will(200, {"incidents": [], "at_least": False}).will(200, an_overview())
        assert run("attention").stdout == "Nothing needs attention.\n"
        paths = [*["/v1/attention?type=create-zip&group=incident"] * 2]
        paths += ["/v1/attention?group=incident", "/v1/overview"] * 2
        assert [asked.path for asked in api.asked] == paths

    def test_what_is_stopped_is_shown_with_why(self, api: StubApi, run: Run) -> None:
        error = {"type": "ProviderDown", "message": "503\x1b[31m", "at": BEGAN, "saga_id": SAGA_ID, "seq": 4}
        breaker = {"type": "quote", "step": "ask", "state": "open", "failures": 8, "open_until": BEGAN}
        pause = PAUSE | {"type": "trip", "step": "book", "reason": "INC-4711"}
        late = {"type": "loan", "saga_id": SAGA_ID, "seq": 2, "status": "RUNNING", "due_since": BEGAN}
        overview = an_overview(
            overdue={"count": 3, "at_least": False, "sagas": [late | {"lease_expires_at": None}] * 2},
            breakers=[breaker | {"last_error": error}],
            pauses=[pause],
            messages=[{"type": "zip", "count": 3}],
            left_out={"types": 0, "overdue": 1, "breakers": 14, "pauses": 0, "messages": 0},
        )
        api.will(200, {"incidents": [], "at_least": False}).will(200, overview)
        shown = run("attention", "--wide")
        assert shown.exit_code == 0, shown.output
        head, loan, quote, trip, left, end = shown.stdout.splitlines()
        assert head.split() == ["type", "stopped", "since", "why"]
        assert "2 sagas overdue" in loan
        assert "breaker of ask open" in quote
        assert "8 failures in a row; ProviderDown: 503" in quote
        assert "\x1b[31m" not in quote
        assert "book paused" in trip
        assert "INC-4711" in trip
        assert "3 leftover dead letters" in left
        assert end.endswith("; and 15 more.")

    def test_rejected_commands(self, api: StubApi, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        def count_letters(_client: object, name: str) -> int:
            return {"commands": 3}[name]

        monkeypatch.setattr("sagas.client.SagaClient.count_letters", count_letters)
        api.will(200, {"incidents": [], "at_least": False}).will(200, an_overview())
        assert (
            run("attention").stdout == "Rejected commands and events: 3. `sagas dlq list commands` has the reasons.\n"
        )

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
            ({"purged_at": BEGAN}, "the trail of actions is complete but has no payloads."),
        ],
    )
    def test_audit_verifies(self, api: StubApi, run: Run, more: dict[str, Any], said: str) -> None:
        found = {"saga_id": SAGA_ID, "verified": True, "entries": 3, "broken": None}
        api.will(200, found | more)
        told = run("audit", "create-zip", SAGA_ID, "--verify")
        assert (told.exit_code, told.stdout.splitlines()[0]) == (0, "3 entries match their hashes.")
        assert said in told.stdout
        assert len(told.stdout.splitlines()) == 1 + bool(said)
        assert api.asked[-1].path.endswith(f"{SAGA_ID}/verification")

    def test_audit_tells_of_a_broken_trail(self, api: StubApi, run: Run) -> None:
        broken = {"seq": 2, "what": "missing", "message": "entry 2 is missing"}
        found: dict[str, Any] = {
            "saga_id": SAGA_ID, "verified": False, "entries": 3, "broken": broken,
        }  # fmt: skip
        api.will(200, found)
        told = run("audit", "create-zip", SAGA_ID, "--verify")
        assert (told.exit_code, told.stdout) == (1, "")
        assert told.stderr == "sagas: the audit trail is broken: entry 2 is missing\n"
        told = run("audit", "create-zip", SAGA_ID, "--verify", "--json")
        assert (told.exit_code, json.loads(told.stdout)) == (1, found)

    def test_definitions(self, api: StubApi, run: Run) -> None:
        api.will(200, {"types": [DEFINITION]})
        assert run("types").stdout.splitlines()[1].split() == [
            "create-zip", "1", "refused", "upload", "->", "announce", "starts", "paused", "by", "ann:", "closed",
        ]  # fmt: skip
        assert json.loads(run("types", "--json").stdout) == {"types": [DEFINITION]}

    @pytest.mark.parametrize("arguments", [["--limit", "0"], ["--limit", "101"], ["--status", "DONE"]])
    def test_wrong_usage(self, run: Run, arguments: list[str]) -> None:
        assert run("list", *arguments).exit_code == 2


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


class TestTerminal:
    """What fits into the 80 columns of a terminal."""

    @pytest.fixture(autouse=True)
    def narrow(self, api: StubApi, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "80")

    def lines(self, run: Run, *arguments: str) -> list[str]:
        return [re.sub("\x1b\\[[0-9;]*m", "", line).rstrip() for line in run(*arguments).stdout.splitlines()]

    def test_a_list_drops_columns_and_shortens_ids(self, api: StubApi, run: Run) -> None:
        sagas = [a_saga("COMPENSATION_FAILED", type="a-type-with-a-rather-long-name"), a_saga("PENDING")]
        api.will(200, {"sagas": sagas, "cursor": None})
        lines = self.lines(run, "list")
        assert lines[0].split() == ["id", "type", "status", "started", "changed"]
        assert all(len(line) <= 80 for line in lines)
        assert lines[2].split()[:3] == [SAGA_ID[:8], "create-zip", "PENDING"]
        assert lines[2].endswith("d ago")

    @pytest.mark.parametrize("sagas", [False, True])
    def test_one_incident(self, api: StubApi, run: Run, sagas: bool) -> None:
        api.will(200, {"sagas": [], "cursor": None, "incidents": [], "at_least": False})
        kind = ("--step", "announce", "--code", "exhausted", "--error", "Provider#Down")
        assert run("attention", "create-zip", *kind, *["--sagas"] * sagas).stdout == "Nothing needs attention.\n"
        asked = "/v1/attention?type=create-zip&step=announce&code=exhausted&error=Provider%23Down"
        assert api.asked[-1].path == asked + ("&limit=20" if sagas else "&group=incident")

    def test_an_incident_has_its_error_and_what_to_do(self, api: StubApi, run: Run) -> None:
        seen = {"first_seen": DEAD["updated_at"], "last_seen": DEAD["updated_at"], "code": "exhausted", "count": 741}
        what = {"type": "checkout-of-a-basket", "step": "charge-the-card", "error_type": "ProviderUnavailable"}
        one = {**what, **seen, "at_least": False}
        api.will(200, {"incidents": [one, one | {"code": "code_missing"}], "at_least": False})
        api.will(200, an_overview())
        lines = self.lines(run, "attention")
        assert lines[0].split() == ["type", "step", "error", "sagas", "next"]
        assert lines[1].split() == ["checkout-of-a-basket", "charge-the-card", "ProviderUnavailable", "741", "retry"]
        assert lines[2].split()[-1] == "deploy"
        assert all(len(line) <= 80 for line in lines if not line.startswith("sagas "))  # to be copied

    def test_wide_has_all(self, api: StubApi, run: Run) -> None:
        api.will(200, {"sagas": [DEAD], "cursor": None})
        head, line = self.lines(run, "attention", "--sagas", "--wide")
        assert head.split() == ["id", "type", "status", "started", "changed", "error", "reason"]
        assert line.startswith(f"{SAGA_ID}  create-zip  DEAD_LETTERED  2026-11-21 09:48:50 UTC")
        assert line.endswith("step announce used up its attempts")

    def test_ids_are_as_long_as_it_takes_to_tell_them_apart(self, api: StubApi, run: Run) -> None:
        other = SAGA_ID[:10] + "f" + SAGA_ID[11:]
        api.will(200, {"sagas": [a_saga(), a_saga(saga_id=other)], "cursor": None})
        assert [line.split()[0] for line in self.lines(run, "list")[1:]] == [SAGA_ID[:11], other[:11]]

    def test_a_list_says_whose_type_is_paused(self, api: StubApi, run: Run) -> None:
        sagas = [a_saga("WAITING", type="a-type-with-a-rather-long-name", paused=True), a_saga("COMPENSATION_FAILED")]
        api.will(200, {"sagas": sagas, "cursor": None})
        lines = self.lines(run, "list")[1:]
        assert ["WAITING paused" in line for line in lines] == [True, False]
        assert all(len(line) <= 80 for line in lines)

    def test_an_audit_has_whole_actions_and_times(self, api: StubApi, run: Run) -> None:
        api.will(200, {"entries": [ENTRY | {"action": "CompensationAttemptFailed"}], "cursor": None})
        lines = self.lines(run, "audit", "create-zip", SAGA_ID)
        assert "2026-11-21 09:48:50.216  CompensationAttemptFailed  announce" in lines[1]
        assert all(len(line) <= 80 for line in lines)
        wide = self.lines(run, "audit", "create-zip", SAGA_ID, "--wide")
        assert "arn:aws:iam::1:user/ann" in wide[1]


class TestCompletion:
    """What the shell is offered: from the last list, without a request."""

    def test_types_then_ids_and_steps(self, api: StubApi, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        api.will(200, {"sagas": [a_saga()], "cursor": None}).will(200, {"types": [DEFINITION]})
        assert run("list").exit_code == 0
        assert run("types").exit_code == 0
        requests = len(api.asked)

        def completed(words: str) -> list[str]:
            monkeypatch.setenv("_SAGAS_COMPLETE", "complete_bash")
            monkeypatch.setenv("COMP_WORDS", words)
            monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
            offered = CliRunner().invoke(app, [], prog_name="sagas").stdout.split()
            monkeypatch.delenv("_SAGAS_COMPLETE")
            return offered

        assert completed("sagas show ") == ["create-zip", SAGA_ID]
        assert completed(f"sagas show {SAGA_ID[:6]}") == [SAGA_ID]
        assert completed("sagas pause create-zip ") == ["upload", "announce", SAGA_ID]
        assert completed("sagas pause create-zip an") == ["announce"]
        assert completed("sagas show --stack Shop ") == []
        assert len(api.asked) == requests
