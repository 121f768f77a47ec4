"""What operators do: what each command asks for, prints and exits with."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.cli.conftest import DEFINITION, PAUSE, Run
from tests.unit.client.stub import BEGAN, SAGA_ID, StubApi, a_saga, an_error

BREAKER: dict[str, Any] = {
    "type": "create-zip", "step": "announce", "state": "open", "failures": 5, "open_until": BEGAN, "waiting": 12,
    "more_waiting": False,
    "last_error": {"type": "ProviderDown", "message": "503 of quotes", "at": BEGAN, "saga_id": SAGA_ID, "seq": 7},
}  # fmt: skip


class TestOperating:
    @pytest.mark.parametrize(
        ("arguments", "method", "path", "body"),
        [
            (["cancel"], "DELETE", "", None),
            (["cancel", "--reason", "no more"], "DELETE", "?reason=no%20more", None),
            (["retry", "--reason", "again"], "POST", "/retry", {"reason": "again"}),
            (["compensate"], "POST", "/compensate", {"reason": ""}),
            (["compensate", "--yes"], "POST", "/compensate", {"reason": ""}),
            (["purge", "--reason", "asked for"], "POST", "/purge", {"reason": "asked for"}),
            (
                ["resolve", "--reason", "n", "--action", "a", "--undone", "s", "--undone", "t"],
                "POST",
                "/resolve",
                {"reason": "n", "action": "a", "steps": ["s", "t"]},
            ),
            (["retry", "--seq", "9"], "POST", "/retry", {"reason": "", "seq": 9}),
            (["compensate", "--seq", "9"], "POST", "/compensate", {"reason": "", "seq": 9}),
            (
                ["resolve", "--reason", "n", "--seq", "9"],
                "POST",
                "/resolve",
                {"reason": "n", "action": "", "steps": [], "seq": 9},
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

    def test_a_state_that_has_changed_is_named(self, api: StubApi, run: Run) -> None:
        text = "the saga, which is COMPLETED, has changed: seq 9 is not its last audit entry, which is 12"
        api.will(409, {**an_error("state_changed", text), "saga": a_saga(seq=12)})
        result = run("retry", "create-zip", SAGA_ID, "--seq", "9")
        assert (result.exit_code, result.stderr) == (1, f"sagas: {text}\n")
        assert run("retry", "create-zip", SAGA_ID, "--seq", "the last").exit_code == 2

    def test_a_paused_step_that_a_release_removed_is_resumed(self, api: StubApi, run: Run) -> None:
        gone = DEFINITION | {"pauses": [PAUSE | {"step": "zip"}, PAUSE | {"saga_id": SAGA_ID}]}
        for answer in ({"types": [gone]}, DEFINITION):
            api.will(200, answer)
        assert run("resume", "create-zip", "zip").stdout == "create-zip zip is no longer paused.\n"
        assert api.asked[-1].body == {"paused": False, "step": "zip", "saga_id": None, "reason": ""}

    def test_pause_and_resume(self, api: StubApi, run: Run) -> None:
        types, saga_id = {"types": [DEFINITION]}, SAGA_ID
        for answer in (DEFINITION, types, DEFINITION, DEFINITION, types, a_saga(), DEFINITION, types, DEFINITION):
            api.will(200, answer)
        pause = ("pause", "create-zip")
        said = run(*pause, "--starts", "--reason", "an incident").stdout
        assert said.splitlines() == [
            "create-zip is paused: no step starts. New sagas are accepted and wait.",
            "`sagas resume create-zip` ends the pause.",
        ]
        said = run(*pause, "upload", "--undos", "--reason", "an incident").stdout
        assert said.splitlines()[1] == "`sagas resume create-zip upload` ends the pause."
        said = run(*pause, "--starts-only", "--reason", "closed").stdout
        assert said.startswith("Starts of create-zip are paused. Sagas in flight continue.")
        assert run(*pause, saga_id[:8], "--reason", "odd").stdout.startswith(f"create-zip {saga_id} is paused")
        assert run("resume", "create-zip", "upload").stdout == "create-zip upload is no longer paused.\n"
        alone = {"step": None, "saga_id": None, "starts": False, "undos": False, "reason": "an incident"}
        assert [one.body for one in api.asked if one.method == "PUT"] == [
            alone | {"paused": True, "starts": True},
            alone | {"paused": True, "step": "upload", "undos": True},
            alone | {"active": False, "reason": "closed"},
            alone | {"paused": True, "saga_id": saga_id, "reason": "odd"},
            {"paused": False, "step": "upload", "saga_id": None, "reason": ""},
        ]

    @pytest.mark.parametrize(
        "arguments",
        [
            ["resolve", "create-zip", SAGA_ID],
            ["pause", "create-zip"],
            ["pause", "create-zip", "--reason", " "],
            ["cancel", "create-zip"],
        ],
    )
    def test_what_must_be_said_must_be_said(self, run: Run, arguments: list[str]) -> None:
        assert run(*arguments).exit_code == 2


class TestBreakers:
    def test_lists(self, api: StubApi, run: Run) -> None:
        calm = BREAKER | {"step": "upload", "state": "closed", "failures": 0, "open_until": None, "waiting": 0}
        calm["last_error"] = None
        api.will(200, {"breakers": [BREAKER, calm, BREAKER | {"state": "half-open", "more_waiting": True}]})
        result = run("breakers")
        assert result.exit_code == 0, result.output
        _, first, second, third = [" ".join(line.split()) for line in result.stdout.splitlines()]
        assert first == "create-zip announce open 5 2026-11-21 09:48:50 UTC 12 ProviderDown: 503 of quotes"
        assert second == "create-zip upload closed"
        assert third == "create-zip announce half-open 5 2026-11-21 09:48:50 UTC 12 or more ProviderDown: 503 of quotes"
        assert json.loads(run("breakers", "--json").stdout)["breakers"][0] == BREAKER
        assert [(one.method, one.path) for one in api.asked] == [("GET", "/v1/breakers")] * 2

    def test_says_so_when_there_are_none(self, api: StubApi, run: Run) -> None:
        api.will(200, {"breakers": []})
        assert run("breakers").stdout == "No step declares a circuit breaker.\n"

    def test_closes(self, api: StubApi, run: Run) -> None:
        closed = BREAKER | {"state": "closed", "failures": 0, "open_until": None, "more_waiting": True}
        api.will(200, closed)
        told = run("breakers", "close", "create-zip", "announce").stdout.splitlines()
        assert told[0].endswith("is closed. Waiting sagas that were resumed: 12.")
        assert "within 15 minutes" in told[1]
        assert json.loads(run("breakers", "close", "create-zip", "announce", "--json").stdout) == closed
        [one, _] = api.asked
        assert (one.method, one.path, one.body) == ("POST", "/v1/breakers/create-zip/announce/close", None)

    def test_options_in_the_wrong_place_are_refused(self, api: StubApi, run: Run) -> None:
        result = run("breakers", "--stack", "Shop", "close", "create-zip", "announce")
        assert result.exit_code == 2
        assert "belongs after close" in " ".join(result.stderr.replace("│", " ").split())
        assert api.asked == []

    def test_an_unknown_one(self, api: StubApi, run: Run) -> None:
        api.will(404, an_error("not_found", "step 'x' of saga 'create-zip' has no circuit breaker"))
        result = run("breakers", "close", "create-zip", "x")
        assert (result.exit_code, result.stderr) == (1, "sagas: step 'x' of saga 'create-zip' has no circuit breaker\n")

    def test_show_says_that_a_saga_waits_behind_one(self, api: StubApi, run: Run) -> None:
        waiting = a_saga("RUNNING", breaker={"step": "announce", "open_until": "2126-11-21T09:48:50.216Z"})
        api.will(200, waiting)
        told = run("show", "create-zip", SAGA_ID).stdout
        assert "The saga waits for the circuit breaker of step announce, open until 2126-11-21 09:48:50 UTC." in told
        assert "`sagas breakers close create-zip announce`" in told
        api.answers.clear()
        api.will(200, a_saga("RUNNING", breaker={"step": "announce", "open_until": BEGAN}))
        assert "announce, half-open since 2026-11-21" in run("show", "create-zip", SAGA_ID).stdout

    def test_a_service_that_does_not_tell_is_shown_all_the_same(self, api: StubApi, run: Run) -> None:
        older = a_saga("RUNNING")
        del older["breaker"]
        api.will(200, older)
        assert "breaker" not in run("show", "create-zip", SAGA_ID).stdout


class TestSupervising:
    # fmt: off
    REPORT: dict[str, Any] = {"recovered": 1, "given_up": 0, "untouched": 2, "failed": 0, "remaining": 3, "saga_ids": [SAGA_ID]}  # noqa: E501, RUF012
    # fmt: on

    @pytest.mark.parametrize("command", [["recover", "--all"], ["local", "tick"]])
    def test_recovers_now(self, api: StubApi, run: Run, command: list[str]) -> None:
        api.will(200, self.REPORT)
        result = run(*command, "--stale-after", "5s")
        assert result.exit_code == 0, result.output
        assert result.stdout.splitlines() == [
            "Recovered 1 saga, 2 did not need it, 0 failed, 3 remain for the next run", SAGA_ID,
        ]  # fmt: skip
        (asked,) = api.asked
        assert asked.path.endswith("/2015-03-31/functions/the-supervisor/invocations")
        assert asked.body == {"task": "recover", "stale_after": 5.0}

    def test_recovers_what_is_asked_for(self, api: StubApi, run: Run) -> None:
        api.will(200, self.REPORT)
        result = run("recover", "create-zip", SAGA_ID, "--limit", "5", "--max-attempts", "3")
        assert result.exit_code == 0, result.output
        (asked,) = api.asked
        assert asked.path.endswith("/types/create-zip/recover")
        assert asked.body == {"saga_id": SAGA_ID, "limit": 5, "max_attempts": 3}

    def test_a_dry_run_lists_what_is_due(self, api: StubApi, run: Run) -> None:
        due = {"saga_id": SAGA_ID, "type": "create-zip", "status": "RUNNING", "attempts": 2, "due_since": BEGAN}
        api.will(200, self.REPORT | {"due": [due]}).will(200, self.REPORT | {"due": []})
        head, line = run("recover", "create-zip", "--all", "--dry-run").stdout.splitlines()
        assert head.split() == ["id", "type", "status", "stalls", "due"]
        assert line.split()[:4] == [SAGA_ID, "create-zip", "RUNNING", "2"]
        assert run("recover", "create-zip", "--all", "--dry-run").stdout == "No saga is due.\n"
        assert [asked.body for asked in api.asked] == [{"dry_run": True}] * 2
        assert run("recover", "create-zip", SAGA_ID, "--attempts", "0", "--dry-run").exit_code == 2

    def test_sets_recovery_attempts(self, api: StubApi, run: Run) -> None:
        api.will(200, a_saga("RUNNING")).will(200, self.REPORT)
        result = run("recover", "create-zip", SAGA_ID, "--attempts", "0")
        assert result.stdout.splitlines()[0] == f"Set the stalls of create-zip {SAGA_ID} to 0."
        asked, then = api.asked
        assert (asked.method, asked.body) == ("PUT", {"attempts": 0})
        assert asked.path.endswith(f"/sagas/create-zip/{SAGA_ID}/recovery-attempts")
        assert (then.path, then.body) == ("/v1/types/create-zip/recover", {"saga_id": SAGA_ID})
        assert run("recover", "create-zip", SAGA_ID, "--attempts", "1001").exit_code == 2
        assert run("recover", "create-zip", "--all", "--attempts", "0").exit_code == 2
        assert len(api.asked) == 2

    def test_all_of_a_type(self, api: StubApi, run: Run) -> None:
        api.will(200, self.REPORT)
        assert run("recover", "create-zip", "--all", "--json").exit_code == 0
        assert [(one.path, one.body) for one in api.asked] == [("/v1/types/create-zip/recover", {})]
        assert run("recover").exit_code == 2

    def test_as_json(self, api: StubApi, run: Run) -> None:
        api.will(200, self.REPORT)
        assert json.loads(run("recover", "--all", "--json").stdout) == self.REPORT

    @pytest.mark.parametrize("command", [["recover", "--all"], ["local", "tick"], ["sweep", "create-zip"]])
    def test_that_fails_in_one_line(self, api: StubApi, run: Run, command: list[str]) -> None:
        api.will(200, {"errorType": "Error", "errorMessage": "out\nof order"}, {"X-Amz-Function-Error": "Unhandled"})
        result = run(*command)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == "sagas: the supervisor failed: out of order\n"

    @pytest.mark.parametrize("length", ["-1s", "5", "1.5h", "", "4000d", "3D", "3 d", "٣d"])
    @pytest.mark.parametrize("option", [["recover", "--all", "--stale-after"], ["local", "tick", "--advance"]])
    def test_a_length_has_one_form(self, api: StubApi, run: Run, option: list[str], length: str) -> None:
        refused = run(*option, length)
        assert refused.exit_code == 2
        text = " ".join(refused.stderr.replace("│", " ").split())
        assert f"Invalid value for '{option[-1]}': '{length}' is not a length such as 90s, 15m, 2h or 12d" in text
        assert api.asked == []


def test_a_purge_names_what_it_leaves_to_the_sweep(api: StubApi, run: Run) -> None:
    purged = {"purged_at": BEGAN, "purge_reason": "", "more_objects": 2}
    api.will(200, a_saga("COMPLETED", objects=[{"bucket": "zips", "key": "1/a.zip"}], **purged))
    told = " ".join(run("purge", "create-zip", SAGA_ID).stdout.split())
    assert "s3://zips/1/a.zip is left to the sweep." in told
    assert "2 more objects are left to the sweep." in told


@pytest.mark.parametrize("seed", ["", "  ", "echo 'half"])
def test_a_seed_that_is_no_command_is_told_before_anything_is_started(run: Run, seed: str) -> None:
    refused = run("local", "up", "--seed", seed)
    assert (refused.exit_code, "--seed" in refused.stderr) == (2, True)


@pytest.mark.parametrize("url", ["localhost:5173", "*", "http://localhost:5173/app"])
def test_an_origin_to_allow_is_judged_before_anything_is_started(run: Run, url: str) -> None:
    refused = run("local", "up", "--allow-origin", "http://localhost:5173", "--allow-origin", url)
    assert refused.exit_code == 2
    assert "Invalid value for '--allow-origin'" in refused.stderr
    assert repr(url) in refused.stderr
