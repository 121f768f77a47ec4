"""``sagas start`` and what follows a saga."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import DEAD, Run
from tests.unit.client.stub import BEGAN, SAGA_ID, StubApi, a_saga, a_step, an_error


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
        api.will(404, an_error("not_found", "no saga with id x (type create-zip)"))
        missing = run("rerun", "create-zip", SAGA_ID)
        assert (missing.exit_code, missing.stderr) == (1, "sagas: no saga with id x (type create-zip)\n")

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
        assert run("start", "create-zip", "--data", "{").stderr.startswith("sagas: --data is not JSON")

    def test_takes_null(self, api: StubApi, run: Run) -> None:
        api.will(202, a_saga("PENDING"))
        assert run("start", "nightly", "-d", "null").exit_code == 0
        assert api.asked[0].raw == b"null"

    def test_reads_what_an_editor_marked_as_utf8(self, api: StubApi, run: Run, tmp_path: Path) -> None:
        api.will(202, a_saga("PENDING"))
        file = tmp_path / "request.json"
        file.write_bytes(b'\xef\xbb\xbf{"keys": ["\xc3\xa4"]}')
        assert run("start", "create-zip", "--file", str(file)).exit_code == 0
        assert api.asked[0].body == {"keys": ["ä"]}

    @pytest.mark.parametrize(
        ("text", "reason"),
        [('{"a": 1, "a": 2}', "an object has the key 'a' twice"), ('{"a": NaN}', "NaN"), ("1" * 5000, "4,300 digits")],
    )
    def test_refuses_what_readers_disagree_on(self, api: StubApi, run: Run, text: str, reason: str) -> None:
        result = run("start", "create-zip", "--data", text)
        assert (result.exit_code, reason in result.stderr) == (1, True)
        assert api.asked == []

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
        result = run("show", "create-zip", SAGA_ID, "--watch", "--timeout", "0s")
        assert result.exit_code == 4
        assert "still RUNNING after 0 s" in result.stderr

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
        assert f"`sagas retry create-zip {SAGA_ID} --seq 9`" in " ".join(pages[-1].split())

    def test_progress_is_told_in_lines(self, api: StubApi, run: Run) -> None:
        told = {"step": "check", "fraction": 0.25, "message": "packing \x1b[31m", "at": "2026-11-21T09:48:52.000Z"}
        busy = a_saga("RUNNING", progress=told)
        api.will(200, busy).will(200, busy).will(200, a_saga("COMPLETED"))
        result = run("show", "create-zip", SAGA_ID, "--watch")
        assert result.exit_code == 0, result.output
        assert "09:48:52.000 step check is at 25% packing [31m" in result.stdout.splitlines()

    def test_what_it_waits_for_is_told_in_a_line_once(self, api: StubApi, run: Run) -> None:
        waits = {"waits_until": "2026-11-24T09:48:50.216Z", "message": None}
        reply = a_saga("WAITING", steps=[a_step("reply", "WAITING", waiting_for="signal", **waits)])
        counts: dict[str, Any] = {
            "total": 3,
            "started": 3,
            "completed": 0,
            "failed": 0,
            "finished": 0.0,
            "failures": [],
            "href": "",
        }
        parts = {"waiting_for": "children", "waits_until": None, "message": None}
        before = a_saga("WAITING", steps=[a_step("parts", "WAITING", children=counts, **parts)])
        after = a_saga("WAITING", steps=[a_step("parts", "WAITING", children=counts | {"completed": 1}, **parts)])
        later = {"waiting_for": "retry", "waits_until": BEGAN, "next_attempt_at": BEGAN, "message": "not\x1b there"}
        settle = a_saga("WAITING", steps=[a_step("settle", "WAITING", **later)])
        for saga in (reply, reply, reply | {"updated_at": "2026-11-21T09:50:00.000Z"}, before, after, settle):
            api.will(200, saga)
        api.will(200, a_saga("COMPLETED"))
        lines = run("show", "create-zip", SAGA_ID, "--watch").stdout.splitlines()
        (signal,) = [line for line in lines if "waits for a signal" in line]
        assert signal.startswith(
            "09:48:50.216 reply waits for a signal since 2026-11-21 09:48:50 UTC, until 2026-11-24 "
        )
        assert signal.endswith(f"To send it: `sagas signal create-zip {SAGA_ID} reply --data JSON`.")
        (children,) = [line for line in lines if "waits for its children" in line]
        assert f"0 of 3 completed, 0 failed, 0% ended. `sagas list --parent {SAGA_ID}` lists them." in children
        (look,) = [line for line in lines if "runs again" in line]
        assert "settle is not ready (not there). It runs again at 2026-11-21 09:48:50 UTC, in 0.00 s." in look

    def test_retry_can_be_watched(self, api: StubApi, run: Run) -> None:
        api.will(202, a_saga("RUNNING")).will(200, a_saga("COMPLETED"))
        assert run("retry", "create-zip", SAGA_ID, "--watch").exit_code == 0
