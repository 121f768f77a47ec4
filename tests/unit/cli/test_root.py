"""What all commands have in common."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from typer.testing import CliRunner

from sagas.cli import run as command
from sagas.cli.main import app
from tests.support.modules import forgotten
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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no file that is always full")
def test_a_full_disk_is_reported_in_one_line() -> None:
    code = "import sys; from sagas.cli import run; sys.argv[1:] = ['events', 'schema']; run()"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "sagas: cannot write the output: No space left on device\n")


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
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == "sagas: no local stack is running for this project; `sagas local up` starts one\n"

    def test_with_a_stack_that_was_killed(self, api: StubApi, run: Run, tmp_path: Path) -> None:
        described = tmp_path / ".sagas" / "local.json"
        described.write_text(described.read_text().replace(api.url, "http://127.0.0.1:9/v1"))
        result = run("list", "--json")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "the API at http://127.0.0.1:9/v1 is out of reach" in result.stderr
        assert result.stderr.endswith("; `sagas local up` starts the local stack\n")

    def test_a_region_needs_a_stack(self, run: Run) -> None:
        assert run("list", "--region", "eu-central-1").exit_code == 2


NAMED = ("--stack", "shop", "--region", "eu-west-1")
SIGN_IN = "sign in to AWS, or name a profile with --profile"


def answered(code: str, message: str) -> Callable[..., Any]:
    """A request that CloudFormation answers so."""

    def call(_client: object, operation: str, _parameters: object) -> Any:
        raise ClientError({"Error": {"Code": code, "Message": message}}, operation)

    return call


class TestWithoutTheService:
    """Each is said in one line, with what to do, and the exit status is 2."""

    @pytest.fixture(autouse=True)
    def no_configuration(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(name)
        for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
            monkeypatch.setenv(name, str(tmp_path / "none"))
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        forgotten(monkeypatch, "shop")
        (tmp_path / "shop.py").write_text(
            "from sagas import Saga, step\n"
            "class Shop(Saga[str], name='shop'):\n    @step\n    def a(self) -> None: ...\n"
        )

    @pytest.mark.parametrize(
        "command",
        [
            ["list"],
            ["attention"],
            ["check", "shop:Shop"],
            ["dlq", "list", "shop"],
            ["recover", "--all", "--dry-run"],
            ["doctor"],
        ],
        ids=" ".join,
    )
    @pytest.mark.parametrize(
        ("options", "answer", "todo"),
        [
            (NAMED, None, SIGN_IN),
            (("--stack", "shop", "--profile", "nope"), None, SIGN_IN),
            (("--stack", "shop"), None, "name one with --region or AWS_DEFAULT_REGION"),
            (NAMED, ("ExpiredToken", "The security token is expired"), SIGN_IN),
            (
                NAMED,
                ("AccessDenied", "ann is not authorized to perform: cloudformation:DoThis on x"),
                "grant cloudformation:DoThis to this caller",
            ),
        ],
        ids=["no credentials", "no profile", "no region", "expired", "no right"],
    )
    def test_a_stack(
        self,
        run: Run,
        monkeypatch: pytest.MonkeyPatch,
        command: list[str],
        options: tuple[str, ...],
        answer: tuple[str, str] | None,
        todo: str,
    ) -> None:
        if answer is not None:
            monkeypatch.setattr("botocore.client.BaseClient._make_api_call", answered(*answer))
        result = run(*command, *options)
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
        assert result.stderr.endswith(f"; {todo}\n")

    def test_a_stack_that_does_not_exist(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        call = answered("ValidationError", "Stack with id shop does not exist")
        monkeypatch.setattr("botocore.client.BaseClient._make_api_call", call)
        result = run("list", *NAMED)
        assert result.exit_code == 2
        assert result.stderr.endswith("does not exist; check its name, or name its region with --region\n")

    def test_a_region_that_does_not_exist(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        def call(_client: object, _operation: str, _parameters: object) -> Any:
            raise EndpointConnectionError(endpoint_url="https://cloudformation.mars-1.amazonaws.com")

        monkeypatch.setattr("botocore.client.BaseClient._make_api_call", call)
        result = run("list", "--stack", "shop", "--region", "mars-1")
        assert result.exit_code == 2
        assert "cloudformation.mars-1.amazonaws.com" in result.stderr
        assert result.stderr.endswith("; check the region and your network\n")

    @pytest.mark.parametrize(
        ("message", "todo"),
        [
            (
                "ann is not authorized to perform: execute-api:Invoke on x",
                "this call needs the right 'read'; grant execute-api:Invoke to this caller",
            ),
            ("Forbidden", "grant execute-api:Invoke to this caller"),
            ("The security token included in the request is expired", SIGN_IN),
        ],
    )
    @pytest.mark.parametrize("gateway", [False, True])
    def test_a_right_on_its_api(self, api: StubApi, run: Run, gateway: bool, message: str, todo: str) -> None:
        api.will(403, {"Message": message} if gateway else an_error("forbidden", message))
        result = run("list")
        assert result.exit_code == 2
        assert result.stderr == f"sagas: the API refused the call (403): {message}; {todo}\n"


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
