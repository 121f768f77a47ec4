"""``sagas init``: what it makes, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sagas.cli.main import app

REPOSITORY = Path(__file__).resolve().parents[3]
TEMPLATE = REPOSITORY / "sagas" / "cli" / "template"
BIN = Path(sys.executable).parent
STRICT = {"include": ["."], "typeCheckingMode": "strict", "pythonVersion": "3.11", "reportMissingTypeStubs": False}

IN_PROOF = pytest.mark.slow

Init = Callable[..., Result]


@pytest.fixture
def init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Init:
    """Runs ``sagas init`` in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(app, ["init", *arguments])


@pytest.fixture
def made(init: Init) -> Path:
    """A project called my-trips."""
    result = init("somewhere/new", "--name", "my-trips")
    assert result.exit_code == 0, result.output
    return Path("somewhere/new").resolve()


def test_it_prints_the_real_folder(init: Init, tmp_path: Path) -> None:
    result = init(".", "--name", "my-trips")
    assert result.stdout.startswith(f"Created my-trips in {tmp_path}. Continue there,"), result.output


def run_in(project: Path, *command: str | Path) -> str:
    """Run a command, which must succeed without a word against the project; return what it says."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def assert_passes_our_linter(project: Path) -> None:
    rules = ("--no-cache", "--config", REPOSITORY / "pyproject.toml")
    run_in(project, BIN / "ruff", "check", *rules, ".")
    run_in(project, BIN / "ruff", "format", "--check", *rules, ".")


def assert_passes_strict_type_checks(project: Path) -> None:
    (project / "pyrightconfig.json").write_text(json.dumps(STRICT))
    assert "0 errors, 0 warnings" in run_in(project, BIN / "pyright", "--pythonpath", sys.executable)


def refusal(result: Result) -> str:
    """The one line by which the command refused."""
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line


class TestProject:
    def test_has_every_file_of_the_template(self, made: Path) -> None:
        wanted = {path.relative_to(TEMPLATE).as_posix() for path in TEMPLATE.rglob("*") if path.is_file()}
        files = {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()}
        assert {f"{name}.tmpl" for name in files} == wanted
        assert {"pyproject.toml", "cdk.json", "infra/app.py", "infra/stack.py", ".gitignore", "README.md"} <= files

    def test_has_its_name_and_our_version(self, made: Path) -> None:
        pyproject = (made / "pyproject.toml").read_text()
        assert 'name = "my-trips"' in pyproject
        assert f'"lambda-sagas[local]>={version("lambda-sagas")}"' in pyproject
        assert (made / "README.md").read_text().startswith("# my-trips\n")
        assert 'ServiceStack(app, "my-trips")' in (made / "infra" / "app.py").read_text()
        texts = {path: path.read_text() for path in made.rglob("*") if path.is_file()}
        assert not [path for path, text in texts.items() if re.search(r"(?<!\$)\{\{", text)]  # GitHub's are ${{ }}

    def test_passes_its_own_check(self, made: Path) -> None:
        assert "records no release yet" in run_in(made, BIN / "sagas", "check")

    @IN_PROOF
    def test_passes_its_own_tests(self, made: Path) -> None:
        assert "6 passed" in run_in(made, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")

    @IN_PROOF
    def test_is_synthesized_without_a_node_of_ones_own_to_where_its_app_says(self, made: Path) -> None:
        synthesize = "import infra.app as app, aws_cdk; app.ServiceStack = aws_cdk.Stack; app.build_app().synth()"
        run_in(made, "/usr/bin/env", "PATH=/nowhere", sys.executable, "-c", synthesize)
        assert (made / "cdk.out" / "my-trips.template.json").is_file()

    def test_a_first_deployment_that_fails_leaves_no_table(self, made: Path) -> None:
        stack = (made / "infra" / "stack.py").read_text()
        assert "removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE" in stack
        assert not re.search(r"^\s*deletion_protection=", stack, re.MULTILINE)

    def test_passes_our_linter(self, made: Path) -> None:
        assert_passes_our_linter(made)

    @IN_PROOF
    def test_passes_strict_type_checks(self, made: Path) -> None:
        assert_passes_strict_type_checks(made)


@pytest.fixture
def another(init: Init, request: pytest.FixtureRequest) -> Path:
    """A project with one of the other examples."""
    assert init("new", "--name", "my-trips", "--example", request.param).exit_code == 0
    return Path("new").resolve()


EXAMPLES = pytest.mark.parametrize("another", ["approval", "fan-out"], indirect=True)


@EXAMPLES
def test_another_example_is_a_project_too(another: Path) -> None:
    files = {path.relative_to(another).as_posix() for path in another.rglob("*") if path.is_file()}
    assert {"pyproject.toml", "cdk.json", "infra/app.py", ".github/workflows/deploy.yml"} <= files
    assert not [name for name in files if "trip" in name]
    assert_passes_our_linter(another)
    assert "records no release yet" in run_in(another, BIN / "sagas", "check")


@IN_PROOF
@EXAMPLES
def test_another_example_passes_its_own_tests_and_strict_type_checks(another: Path) -> None:
    assert "4 passed" in run_in(another, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert_passes_strict_type_checks(another)


def test_an_example_that_there_is_not(init: Init) -> None:
    assert init("new", "--example", "rocket").exit_code == 2


class TestName:
    def test_is_the_directory_s_by_default(self, init: Init) -> None:
        result = init("My Trips_2")
        assert result.exit_code == 0, result.output
        assert 'name = "my-trips-2"' in Path("My Trips_2/pyproject.toml").read_text()

    @pytest.mark.parametrize(
        ("directory", "name"), [("Über Shop", "uber-shop"), ("Straße", "strasse"), ("Café_2", "cafe-2")]
    )
    def test_is_written_without_accents(self, init: Init, directory: str, name: str) -> None:
        assert init(directory).exit_code == 0
        assert f'name = "{name}"' in Path(directory, "pyproject.toml").read_text()

    @pytest.mark.parametrize("directory", ["Søren", "店"])
    def test_is_never_one_with_letters_missing(self, init: Init, directory: str) -> None:
        assert refusal(init(directory)).endswith("choose another with --name")

    @pytest.mark.parametrize(
        "name", ["", "Trips", "2trips", "my_trips", "trips-", "-trips", "a--b", "a" * 41, "a b", 'a"b', "trips\n", "é"]
    )
    def test_that_cannot_be_used(self, init: Init, name: str) -> None:
        assert "cannot be the name" in refusal(init("new", f"--name={name}"))
        assert not Path("new").exists()

    def test_of_what_it_depends_on(self, init: Init) -> None:
        assert "cannot be called" in refusal(init("new", "--name", "lambda-sagas"))

    def test_of_a_directory_that_cannot_be_used(self, init: Init) -> None:
        assert refusal(init("2026")).endswith("choose another with --name")
        assert init("2026", "--name", "a" * 40).exit_code == 0


class TestDirectory:
    def test_not_empty(self, init: Init) -> None:
        Path("full").mkdir()
        Path("full", "mine.txt").write_text("mine")
        assert refusal(init("full")) == "sagas: full is not empty"
        assert [path.name for path in Path("full").iterdir()] == ["mine.txt"]

    def test_a_second_time(self, init: Init) -> None:
        assert init("twice").exit_code == 0
        assert "not empty" in refusal(init("twice"))

    def test_a_file(self, init: Init) -> None:
        Path("file").write_text("")
        assert refusal(init("file")) == "sagas: file is not a directory"
        assert "cannot" in refusal(init("file/below"))

    def test_one_that_git_and_a_virtual_environment_are_in_already(self, init: Init) -> None:
        for name in (".git", ".venv"):
            Path("begun", name).mkdir(parents=True)
        assert init("begun").exit_code == 0

    def test_the_current_one(self, init: Init, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "here").mkdir()
        monkeypatch.chdir(tmp_path / "here")
        assert init(".").exit_code == 0
        assert 'name = "here"' in Path("pyproject.toml").read_text()
