"""What all commands have in common."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sagas.cli import run as command
from sagas.cli.main import app
from tests.unit.cli.conftest import DEFINITION, Run
from tests.unit.client.stub import SAGA_ID, StubApi, an_error


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
        unknown = an_error("not_found", "this service has no saga type 'creat-zip'")
        api.will(404, unknown).will(200, {"types": [DEFINITION]})
        result = run("list", "creat-zip")
        assert result.stderr == "sagas: this service has no saga type 'creat-zip'; did you mean 'create-zip'?\n"

    def test_a_type_without_a_dead_letter_queue_is_not_corrected(self, api: StubApi, run: Run) -> None:
        without = "this service has no dead-letter queue for saga type 'create-zip'"
        api.will(404, an_error("not_found", without)).will(200, {"types": [DEFINITION]})
        assert run("list", "create-zip").stderr == f"sagas: {without}\n"

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

    def test_name_a_path_once(self, api: StubApi, run: Run) -> None:
        details = [{"path": "$.keys", "message": "missing"}]
        api.will(422, an_error("invalid_request", "invalid body: $.keys: missing", details))
        result = run("start", "create-zip", "-f", "-", text="{}")
        assert result.stderr == "sagas: invalid body: $.keys: missing\n"

    def test_say_when_to_try_again(self, api: StubApi, run: Run) -> None:
        api.will(503, an_error("paused", "starts of create-zip are paused"), {"Retry-After": "60"})
        result = run("start", "create-zip", "-f", "-", text="{}")
        assert result.stderr == "sagas: starts of create-zip are paused; try again in 60 s\n"

    def test_say_what_may_have_happened(self, api: StubApi, run: Run) -> None:
        api.will_hang_up()
        result = run("start", "create-zip", "-f", "-", text="{}")
        assert result.exit_code == 1
        assert result.stderr.endswith("the request may or may not have taken effect; check before you try again\n")

    def test_without_a_stack(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / ".sagas" / "local.json").unlink()
        result = run("list", "--json")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == "sagas: no local stack is running for this project; `sagas local up` starts one\n"

    def test_a_region_needs_a_stack(self, run: Run) -> None:
        assert run("list", "--region", "eu-central-1").exit_code == 2


def test_without_its_extra_the_command_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "sagas.cli.main", raising=False)
    with pytest.raises(SystemExit) as ended:
        command()
    assert ended.value.code == 'the command needs the package typer: pip install "lambda-sagas[cli]"'


@pytest.mark.parametrize("package", ["aws_cdk", "ministack", "hypercorn"])
def test_without_its_extra_the_local_stack_says_so_before_anything_starts(
    package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(app, ["local", "up"])
    assert (ended.exit_code, [*tmp_path.iterdir()]) == (1, [])
    assert f'the local stack needs the package {package}: pip install "lambda-sagas[local]"' in ended.output
