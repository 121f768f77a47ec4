"""``sagas check``: the file of the last release, and what it says of this code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sagas.authoring.definition.definition import definition_of
from sagas.cli.main import app
from sagas.lock import LOCK
from sagas.lock.content import content_of, text_of
from tests.unit.client.stub import StubApi

REPOSITORY = Path(__file__).resolve().parents[3]

CODE = """
from dataclasses import dataclass
from sagas import Saga, step

@dataclass(frozen=True)
class Order:
    item: str
{field}

class Base(Saga[Order], name="order"):
    @step
    def pay(self, request: Order) -> str:
        return "paid"
"""

Run = Callable[..., Result]
NOT_CHECKED = "is in the CDK app, and was not checked; list it in [tool.sagas] of pyproject.toml"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs the command in a project whose saga has the ``field`` given."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    Path("pyproject.toml").write_text('[tool.sagas]\nsagas = ["orders_app"]\n')

    def check(*arguments: str, field: str = "") -> Result:
        Path("orders_app.py").write_text(CODE.format(field=field))
        sys.modules.pop("orders_app", None)
        return CliRunner().invoke(app, ["check", *arguments])

    yield check
    sys.modules.pop("orders_app", None)


def test_the_first_file_is_written(run: Run) -> None:
    missing = run()
    assert (missing.exit_code, missing.stderr) == (
        1,
        f"sagas: {LOCK} does not exist; `sagas check --write` creates it\n",
    )
    written = run("--write")
    assert (written.exit_code, written.stdout.splitlines()[-1]) == (0, f"Wrote {LOCK}.")
    same = run()
    assert (same.exit_code, same.stdout) == (0, f"No change since {LOCK} affects sagas in flight.\n")


def test_what_stops_sagas_in_flight_is_an_error_until_it_is_written(run: Run) -> None:
    run("--write")
    found = run(field="    price: int")
    assert found.exit_code == 1
    [line, advice, hint] = found.stdout.splitlines()
    assert line.startswith("STOPS order, the request, $.price: a new field without a default. ")
    assert advice == "Give the request, $.price a default."
    assert "--write" in hint
    assert found.stderr == "sagas: 1 of 1 change since the last release would stop sagas in flight\n"
    assert run("--write", field="    price: int").exit_code == 0
    assert run(field="    price: int").exit_code == 0


def test_what_fits_is_none(run: Run) -> None:
    run("--write")
    fits = run(field="    price: int = 0")
    assert fits.exit_code == 0
    assert "`sagas check --write` records these types" in fits.stdout


def test_an_undo_that_is_never_retried_is_warned_of(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = (
        CODE.replace("import Saga", "import Retry, Saga").replace("@step", "@step(retry=Retry.constant(max_retries=0))")
        + "    @pay.compensate\n    def refund(self) -> None: ...\n"
    )
    monkeypatch.setattr(sys.modules[__name__], "CODE", declared)
    cure = "set retry= of the undo, or undo_retry= of the class"
    warning = f"order: undo refund of step pay has the step's max_retries=0; {cure}"
    warned = run("--write")
    assert (warned.exit_code, warned.stdout.splitlines()[0]) == (0, f"Warning: {warning}")
    assert json.loads(run("--json").stdout)["warnings"] == [warning]
    for answer in (
        declared.replace("@pay.compensate", "@pay.compensate(retry=Retry.constant(max_retries=0))"),
        declared.replace('name="order"', 'name="order", undo_retry=Retry.linear()'),
    ):
        monkeypatch.setattr(sys.modules[__name__], "CODE", answer)
        assert json.loads(run("--json").stdout)["warnings"] == []


def test_before_the_first_release_nothing_stops(run: Run) -> None:
    """The file of a new project."""
    Path(LOCK).write_text('{"format": 2, "sagas": {}}')
    found = run()
    assert (found.exit_code, found.stdout.splitlines()[0]) == (
        0,
        f"{LOCK} records no release yet, so no saga can be in flight.",
    )


def test_types_that_only_the_app_has_are_named(run: Run) -> None:
    """``[tool.sagas]`` is a second list, which somebody forgets."""
    run("--write")
    variables = {"SAGAS_CLASSES": json.dumps(["orders_app:Base", "functions.refund:Refund"])}
    function = {"Type": "AWS::Lambda::Function", "Properties": {"Environment": {"Variables": variables}}}
    for directory in (Path("cdk.out"), Path(".sagas/cdk.out")):
        directory.mkdir(parents=True)
        (directory / "manifest.json").write_text("{}")
        (directory / "Shop.template.json").write_text(json.dumps({"Resources": {"Refund": function}}))
        found = run("--json")
        assert (found.exit_code, json.loads(found.stdout)["warnings"]) == (
            0,
            [f"functions.refund:Refund {NOT_CHECKED}"],
        )
        assert json.loads(run("orders_app", "--json").stdout)["warnings"] == []


def test_as_json(run: Run) -> None:
    run("--write")
    found = run("--json", field="    price: int")
    assert found.exit_code == 1
    told = json.loads(found.stdout)
    assert (told["lock"], told["written"], told["incompatible"]) == (LOCK, False, 1)
    [change] = told["changes"]
    assert (change["saga"], change["where"], change["incompatible"]) == ("order", "the request, $.price", True)
    assert set(change) == {"saga", "where", "what", "effect", "todo", "incompatible"}


def test_a_class_or_module_can_be_named(run: Run) -> None:
    run("--write")
    assert run("orders_app:Base").exit_code == 0
    assert run("orders_app").exit_code == 0


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nowhere_at_all", "nowhere_at_all cannot be loaded: ModuleNotFoundError"),
        ("orders_app:Missing", "orders_app:Missing cannot be loaded: AttributeError"),
        ("orders_app:Order", "orders_app:Order cannot be loaded: DefinitionError"),
        ("dataclasses", "dataclasses defines no saga"),
    ],
)
def test_what_cannot_be_found_is_told_in_a_line(run: Run, name: str, told: str) -> None:
    run("--write")
    result = run(name)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"sagas: {told}")


@pytest.mark.parametrize("text", ["", "[tool.sagas]\n", "[tool.sagas]\nsagas = []\n"])
def test_no_types_are_told(run: Run, text: str) -> None:
    Path("pyproject.toml").write_text(text)
    result = run()
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no saga types; pass them, or list them in [tool.sagas] of pyproject.toml" in result.stderr


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("tool = 3\n", "$.tool"),
        ("[tool]\nsagas = 3\n", "$.tool.sagas"),
        ('[tool.sagas]\nsagas = "orders_app"\n', "$.tool.sagas.sagas"),
        ("[tool.sagas]\nsagas = [3]\n", "$.tool.sagas.sagas[0]"),
    ],
)
def test_a_setting_of_another_type_is_named(run: Run, text: str, place: str) -> None:
    Path("pyproject.toml").write_text(text)
    result = run()
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("sagas: pyproject.toml: Expected ")
    assert f"at `{place}`" in result.stderr


def test_a_broken_file_is_told(run: Run) -> None:
    Path(LOCK).write_text('{"format": 1, "sagas": {}}')
    result = run()
    assert result.exit_code == 1
    assert result.stderr == f"sagas: {LOCK} has format 1; this version reads 2. Write it with `sagas check --write`\n"
    assert run("--write").exit_code == run().exit_code == 0


def test_the_reference_sagas_are_those_of_their_file() -> None:
    """After a change that is meant: ``sagas check --write``."""
    from functions.approval import Approval
    from functions.basket import Basket, Parcel
    from functions.checkout import Checkout
    from functions.create_zip import CreateZip

    content = content_of(map(definition_of, (CreateZip, Checkout, Approval, Basket, Parcel)))
    assert (REPOSITORY / LOCK).read_text() == text_of(content)


def test_and_the_command_finds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert CliRunner().invoke(app, ["check"]).exit_code == 0


def _types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the working directory a project with a saga."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    Path("pyproject.toml").write_text('[tool.sagas]\nsagas = ["orders_app"]\n')
    Path("orders_app.py").write_text(CODE.format(field=""))
    sys.modules.pop("orders_app", None)


PAID = {
    "format": 2,
    "saga": "order",
    "version": "1",
    "result": "charge",
    "request": {"type": "string"},
    "steps": [{"name": "charge", "result": {"type": "string"}}, {"name": "pay", "result": {"type": "string"}}],
}
GROUP = {
    "blueprint": "b" * 22,
    "status": "PENDING",
    "cursor": 0,
    "steps": "PP",
    "count": 2,
    "oldest": "2026-10-02T08:00:00.000Z",
    "examples": ["0198c0de-0000-7000-8000-000000000001"],
}
IN_FLIGHT = {"blueprints": {"b" * 22: PAID}, "deployed": "b" * 22, "groups": [GROUP], "undeployed": [], "cursor": None}
STOPS = (
    'STOPS order, 2 sagas of version 1 since 2 Oct before step "charge": it is gone. They would be dead-lettered '
    "(CodeGone)."
)


@pytest.fixture
def local(api: StubApi, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubApi]:
    """A local stack that has sagas in flight."""
    _types(monkeypatch)
    api.answers = [(200, {"types": [{"type": "order"}]}, {}), (200, IN_FLIGHT, {})]
    yield api
    sys.modules.pop("orders_app", None)


def _check(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["check", *arguments])


def test_a_stack_with_sagas_that_stop(local: StubApi) -> None:
    found = _check("--local", "--ids")
    assert found.exit_code == 1
    lines = found.stdout.splitlines()
    assert lines[:2] == [STOPS, "  0198c0de-0000-7000-8000-000000000001"]
    assert any(line.startswith("Fits, but order, new ones until you deploy, of version 1: ") for line in lines)
    assert found.stderr == "sagas: this code would stop sagas in flight in the local stack\n"
    assert [asked.path for asked in local.asked] == ["/v1/types", "/v1/types/order/in-flight"]


def test_what_a_stack_has_can_be_saved_and_compared_later(local: StubApi) -> None:
    assert _check("--local", "--save", "in-flight.json").exit_code == 1
    text = Path("in-flight.json").read_text()
    assert "0198c0de" not in text
    later = _check("--in-flight", "in-flight.json")
    assert (later.exit_code, later.stdout.splitlines()[0]) == (1, STOPS)
    told = json.loads(_check("--in-flight", "in-flight.json", "--json").stdout)
    assert (told["in_flight"], told["sagas"], told["incompatible"]) == ("in-flight.json", 2, 2)
    assert told["changes"][0]["count"] == 2
    assert len(local.asked) == 2


def test_sagas_of_a_type_that_is_not_deployed_any_more_stop(local: StubApi) -> None:
    blueprint = {**PAID, "saga": "trip"}
    gone = {**IN_FLIGHT, "blueprints": {"b" * 22: blueprint}, "deployed": None, "undeployed": ["trip"]}
    local.answers = [
        (200, {"types": [{"type": "order"}]}, {}),
        (200, {**IN_FLIGHT, "groups": [], "undeployed": ["trip"]}, {}),
        (200, gone, {}),
    ]
    found = _check("--local")
    assert found.exit_code == 1
    assert found.stdout.startswith(
        'STOPS trip, 2 sagas of version 1 since 2 Oct before step "charge": the type is gone.'
    )
    assert [asked.path for asked in local.asked][2:] == ["/v1/types/trip/in-flight"]


def test_a_deployed_type_that_was_not_checked_is_named(local: StubApi) -> None:
    """Whether it has sagas in flight or not."""
    refund = {**IN_FLIGHT, "blueprints": {"b" * 22: {**PAID, "saga": "refund"}}, "groups": []}
    local.answers = [
        (200, {"types": [{"type": "order"}, {"type": "refund"}]}, {}),
        (200, {**IN_FLIGHT, "groups": []}, {}),
        (200, refund, {}),
    ]
    found = _check("--local", "--save", "in-flight.json")
    named = "refund is deployed, and was not checked; unless you remove it, list it in [tool.sagas] of pyproject.toml"
    assert (found.exit_code, found.stdout.splitlines()[0]) == (0, f"Warning: {named}")
    assert json.loads(_check("--in-flight", "in-flight.json", "--json").stdout)["unlisted"] == ["refund"]


def test_a_stack_whose_sagas_continue(local: StubApi) -> None:
    local.answers = [(200, {"types": []}, {}), (404, {"error": {"code": "NotFound", "message": "no"}}, {})]
    found = _check("--local")
    assert (found.exit_code, found.stdout) == (0, "0 sagas in flight in the local stack can continue with this code.\n")


@pytest.mark.usefixtures("local")
def test_without_credentials_stack_or_file_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    Path("broken.json").write_text("{")
    Path(".sagas/local.json").unlink()
    for arguments in (
        ("--stack", "Shop", "--region", "eu-central-1"),
        ("--local",),
        ("--in-flight", "nowhere.json"),
        ("--in-flight", "broken.json"),
    ):
        found = _check(*arguments)
        assert (found.exit_code, found.stdout, found.stderr.count("\n")) == (2, "", 1), (arguments, found.stderr)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--local", "--stack", "Shop"),
        ("--in-flight", "f.json", "--local"),
        ("--ids",),
        ("--save", "f.json"),
        ("--in-flight", "f.json", "--save", "g.json"),
        ("--write", "--local"),
    ],
)
def test_options_that_do_not_go_together(arguments: tuple[str, ...]) -> None:
    assert _check(*arguments).exit_code == 2


APP = """
import json, os, pathlib
out = pathlib.Path(os.environ["CDK_OUTDIR"])
out.mkdir(parents=True)
(out / "manifest.json").write_text("{{}}")
variables = {{"SAGAS_CLASSES": {classes!r}}}
function = {{"Type": "AWS::Lambda::Function", "Properties": {{"Environment": {{"Variables": variables}}}}}}
resources = {{"F": function, "Q": {{"Type": "AWS::SQS::Queue"}}}}
(out / "Shop.template.json").write_text(json.dumps({{"Resources": resources}}))
(out / "asset").mkdir()
(out / "asset" / "types.json").write_text(json.dumps({{"classes": ["orders_app:Base"]}}))
"""


@pytest.mark.parametrize("classes", ['["orders_app:Base"]', "@types.json"])
def test_the_types_are_those_of_the_cdk_app(run: Run, classes: str) -> None:
    run("--write")
    Path("pyproject.toml").unlink()
    Path("app.py").write_text(APP.format(classes=classes))
    Path("cdk.json").write_text('{"app": "python app.py"}')
    found = run()
    assert (found.exit_code, found.stdout) == (0, f"No change since {LOCK} affects sagas in flight.\n"), found.stderr


def test_an_app_that_fails_is_named(run: Run) -> None:
    run("--write")
    Path("pyproject.toml").unlink()
    Path("cdk.json").write_text('{"app": "python nowhere.py"}')
    found = run()
    assert (found.exit_code, found.stdout) == (1, "")
    assert found.stderr.startswith("sagas: cdk.json: the app 'python nowhere.py' failed")
