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


@pytest.mark.parametrize("text", ["", "[tool.sagas]\n", "[tool.sagas]\nsagas = []\n", "[tool.sagas]\nsagas = 3\n"])
def test_no_types_are_told(run: Run, text: str) -> None:
    Path("pyproject.toml").write_text(text)
    result = run()
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no saga types; pass them, or list them in [tool.sagas] of pyproject.toml" in result.stderr


def test_a_broken_file_is_told(run: Run) -> None:
    Path(LOCK).write_text('{"format": 7, "sagas": {}}')
    result = run()
    assert result.exit_code == 1
    assert result.stderr == f"sagas: {LOCK} has format 7; this version reads 1. Write it with `sagas check --write`\n"
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
