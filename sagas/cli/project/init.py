"""``sagas init``: creates a project with a first saga that works."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from enum import StrEnum
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from sagas.cli.output import fail, say

_SUFFIX = ".tmpl"
"""The suffix of all template files, so tools do not take the files for code, tests or settings of this library."""

_HARMLESS = frozenset({".git", ".venv"})
"""Files and folders that the target directory may already have."""

_NAME = re.compile(r"[a-z](?:[a-z0-9]|-(?=[a-z0-9])){0,39}")
_RESERVED = frozenset({"lambda-sagas", "sagas"})
"""Names that a project cannot have, because it would hide a package that it needs."""


class Example(StrEnum):
    """The feature that the project's first saga shows. All values but the first replace the template's own saga."""

    TRIP = "trip"
    APPROVAL = "approval"
    FAN_OUT = "fan-out"


_SAGAS = {
    Example.TRIP: ("functions.trip:Trip",),
    Example.APPROVAL: ("functions.expense:Expense",),
    Example.FAN_OUT: ("functions.shipment:Shipment", "functions.shipment:Parcel"),
}
_OF_AN_EXAMPLE = ("README.md", "events/", "functions/trip.py", "infra/stack.py", "sagas.lock.json", "tests/test_")
"""Files of the template that the other examples replace."""


def init(
    directory: Annotated[Path, typer.Argument(help="Target directory; created if missing, must be empty")],
    name: Annotated[
        str | None, typer.Option(help="Name of the project and the stack; by default the directory's name")
    ] = None,
    example: Annotated[Example, typer.Option(help="Feature that the first saga shows")] = Example.TRIP,
) -> None:
    """Create a project with a first saga, its tests and the CDK app that deploys it."""
    project_name = _name_of(directory.resolve()) if name is None else name
    advice = "; choose another with --name" if name is None else ""
    if project_name in _RESERVED:
        fail(f'a project cannot be called "{project_name}"{advice}')
    if _NAME.fullmatch(project_name) is None:
        rule = "1 to 40 characters of a-z, 0-9 and single '-', starting with a letter and not ending with '-'"
        fail(f'"{project_name}" cannot be the name of project and stack: {rule}{advice}')
    try:
        if directory.exists() and not directory.is_dir():
            fail(f"{directory} is not a directory")
        if directory.is_dir() and any(entry.name not in _HARMLESS for entry in directory.iterdir()):
            fail(f"{directory} is not empty")
    except OSError as error:
        fail(f"cannot read {directory}: {error.strerror}")
    sagas = ", ".join(f'"{saga}"' for saga in _SAGAS[example])
    values = {"{{name}}": project_name, "{{version}}": version("lambda-sagas"), "{{sagas}}": sagas}
    entries = dict(_template(files("sagas.cli") / "template", PurePosixPath()))
    if example is not Example.TRIP:
        entries = {path: source for path, source in entries.items() if not path.as_posix().startswith(_OF_AN_EXAMPLE)}
        entries |= dict(_template(files("sagas.cli") / "examples" / example, PurePosixPath()))
    try:
        for path, source in entries.items():
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            text = source.read_text(encoding="utf-8")
            for placeholder, value in values.items():
                text = text.replace(placeholder, value)
            with target.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        fail(f"cannot write to {directory}: {error.strerror}")
    say(f"Created {project_name} in {directory.resolve()}. Continue there, in a virtual environment:")
    say('  pip install ".[dev]"')
    say("  pytest")
    say("  sagas local up")
    say("README.md explains the rest.")


def _name_of(directory: Path) -> str:
    """Return a project's name from its directory's: ``uber-shop`` for ``Über Shop``. Letters that cannot be written in
    ASCII stay, so that the name is refused."""
    letters = unicodedata.normalize("NFKD", directory.name.casefold())
    plain = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return re.sub(r"[\W_]+", "-", plain).strip("-")


def _template(folder: Traversable, path: PurePosixPath) -> Iterator[tuple[PurePosixPath, Traversable]]:
    """Yield the files of the template below ``folder``, each with its path in the project."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _template(entry, path / entry.name)
        elif entry.name.endswith(_SUFFIX):
            yield path / entry.name.removesuffix(_SUFFIX), entry


def add_to(app: typer.Typer) -> None:
    app.command()(init)
