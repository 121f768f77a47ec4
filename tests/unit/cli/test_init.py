"""``sagas init``: what it makes, and what it refuses."""

from __future__ import annotations

import json
import os
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


def run_in(project: Path, *command: str | Path) -> str:
    """Run a command, which must succeed without a word against the project; return what it says."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


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
        assert not [path for path in made.rglob("*") if path.is_file() and "{{" in path.read_text()]

    def test_passes_its_own_tests(self, made: Path) -> None:
        assert "6 passed" in run_in(made, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")

    def test_passes_our_linter(self, made: Path) -> None:
        ruff, rules = BIN / "ruff", ("--no-cache", "--config", REPOSITORY / "pyproject.toml")
        run_in(made, ruff, "check", *rules, ".")
        run_in(made, ruff, "format", "--check", *rules, ".")

    def test_passes_strict_type_checks(self, made: Path) -> None:
        (made / "pyrightconfig.json").write_text(json.dumps(STRICT))
        found = run_in(made, BIN / "pyright", "--pythonpath", sys.executable)
        assert "0 errors, 0 warnings" in found


class TestExample:
    @pytest.fixture
    def approval(self, init: Init) -> Path:
        """A project whose first saga waits for a person."""
        result = init("desk", "--example", "approval")
        assert result.exit_code == 0, result.output
        return Path("desk").resolve()

    def test_is_trip_unless_said(self, init: Init) -> None:
        assert init("one", "--example", "trip").exit_code == init("two", "--name", "one").exit_code == 0
        one, two = (
            {path.relative_to(top): path.read_text() for path in Path(top).rglob("*") if path.is_file()}
            for top in ("one", "two")
        )
        assert one == two

    def test_that_is_not_there(self, init: Init) -> None:
        told = 'sagas: there is no example "nothing"; there are trip and approval'
        assert refusal(init("new", "--example", "nothing")) == told
        assert not Path("new").exists()

    def test_has_nothing_of_the_other_and_is_the_reference_saga(self, approval: Path) -> None:
        files = {path.relative_to(approval).as_posix(): path for path in approval.rglob("*") if path.is_file()}
        assert not [name for name in files if "trip" in name]
        assert not [name for name, path in files.items() if "{{" in path.read_text() or "trip" in path.read_text()]
        assert {"cdk.json", "infra/app.py", ".gitignore", "tests/__init__.py", "functions/__init__.py"} <= set(files)
        for shared in ("functions/approval.py", "events/approval.json", "events/approval_small.json"):
            assert files[shared].read_text() == (REPOSITORY / shared).read_text()

    def test_passes_its_own_tests(self, approval: Path) -> None:
        assert "7 passed" in run_in(approval, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")

    def test_passes_our_linter(self, approval: Path) -> None:
        ruff, rules = BIN / "ruff", ("--no-cache", "--config", REPOSITORY / "pyproject.toml")
        run_in(approval, ruff, "check", *rules, ".")
        run_in(approval, ruff, "format", "--check", *rules, ".")

    def test_passes_strict_type_checks(self, approval: Path) -> None:
        (approval / "pyrightconfig.json").write_text(json.dumps(STRICT))
        found = run_in(approval, BIN / "pyright", "--pythonpath", sys.executable)
        assert "0 errors, 0 warnings" in found

    def test_is_checked_by_its_own_lock(self, approval: Path) -> None:
        run_in(approval, BIN / "sagas", "check")


class TestName:
    def test_is_the_directory_s_by_default(self, init: Init) -> None:
        result = init("My Trips_2")
        assert result.exit_code == 0, result.output
        assert 'name = "my-trips-2"' in Path("My Trips_2/pyproject.toml").read_text()

    @pytest.mark.parametrize(
        "name", ["", "Trips", "2trips", "my_trips", "trips-", "-trips", "a--b", "a" * 41, "a b", 'a"b', "trips\n", "é"]
    )
    def test_that_cannot_be_used(self, init: Init, name: str) -> None:
        assert "cannot be the name" in refusal(init("new", f"--name={name}"))
        assert not Path("new").exists()

    def test_of_what_it_depends_on(self, init: Init) -> None:
        assert "cannot be called" in refusal(init("new", "--name", "lambda-sagas"))

    def test_of_a_directory_that_cannot_be_used(self, init: Init) -> None:
        assert refusal(init("2026")).endswith("give one by --name")
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
