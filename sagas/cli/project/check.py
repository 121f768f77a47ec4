"""``sagas check``: whether sagas that the last release started can continue with this code."""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from sagas.cli.output import count_of, emit, fail, plain, say
from sagas.errors import DefinitionError, InvalidRequest, NotFound, SagaError, full_text
from sagas.lock import LOCK

if TYPE_CHECKING:
    from sagas.authoring.definition.definition import SagaDefinition
    from sagas.authoring.saga import Saga
    from sagas.lock.changes import Change
    from sagas.lock.content import Content


def check(
    sagas: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODULE[:CLASS]]...", help="Saga types; by default those of pyproject.toml"),
    ] = None,
    lock: Annotated[Path, typer.Option(help="Lock file")] = Path(LOCK),
    write: Annotated[bool, typer.Option("--write", help="Record these types as those of a release")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else")] = False,
) -> None:
    """Compare the saga types with the last release: can sagas in flight continue?"""
    from sagas.lock.changes import changes
    from sagas.lock.content import content_of, text_of

    try:
        definitions = _definitions(sagas or _configured(Path("pyproject.toml")))
        recorded = _recorded(lock, write)
    except SagaError as error:
        fail(full_text(error))
    differences = changes(recorded, definitions)
    if write:
        try:
            lock.write_text(text_of(content_of(definitions)), encoding="utf-8")
        except OSError as error:
            fail(f"cannot write to {lock}: {error.strerror}")
    broken = sum(change.breaks for change in differences)
    if as_json:
        emit({"lock": str(lock), "written": write, "incompatible": broken, "changes": [*map(_entry, differences)]})
    else:
        _print(differences)
        if write:
            say(f"Wrote {lock}.")
        elif not differences:
            say(f"No change since {lock} affects sagas in flight.")
        if not write and recorded != content_of(definitions):
            say("`sagas check --write` records these types as those of a release.")
    if broken and not write:
        fail(f"{broken} of {count_of(len(differences), 'change')} since the last release would stop sagas in flight")


def _entry(change: Change) -> dict[str, Any]:
    named = ("saga", "where", "what", "effect", "todo")
    return {name: getattr(change, name) for name in named} | {"incompatible": change.breaks}


def _print(differences: Sequence[Change]) -> None:
    """Print the changes, and then each advice once."""
    for change in differences:
        say(plain(f"{'STOPS' if change.breaks else 'Fits, but'} {change}"))
    for advice in dict.fromkeys(change.todo for change in differences if change.todo):
        say(plain(f"{advice}."))


def _recorded(lock: Path, write: bool) -> Content:
    """Return the content of the lock file; an empty one if ``--write`` replaces a file that cannot be read."""
    from sagas.lock.content import FORMAT, read

    try:
        return read(lock)
    except (NotFound, InvalidRequest):
        if not write:
            raise
        return {"format": FORMAT, "sagas": {}}


def _configured(path: Path) -> list[str]:
    """Return the saga types that ``[tool.sagas]`` lists."""
    try:
        settings: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        settings = {}
    except ValueError as error:
        raise InvalidRequest(f"{path} is not TOML: {error}") from None
    names: Any = settings.get("tool", {}).get("sagas", {}).get("sagas")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in cast("list[Any]", names)):
        example = 'sagas = ["functions.trip:Trip"]'
        raise InvalidRequest(f"no saga types; pass them, or list them in [tool.sagas] of {path}: {example}")
    return cast("list[str]", names)


def _definitions(names: list[str]) -> list[SagaDefinition]:
    """Import the saga types."""
    from sagas.authoring.definition.definition import definition_of

    sys.path.insert(0, str(Path.cwd()))  # as ``python -m`` does
    definitions: dict[str, SagaDefinition] = {}
    for name in names:
        module_name, _, qualified = name.partition(":")
        try:
            module: Any = importlib.import_module(module_name)
            classes = [attrgetter(qualified)(module)] if qualified else _sagas_in(module)
            defined = [definition_of(saga_class) for saga_class in classes]
        except Exception as error:  # noqa: BLE001 - importing user code can raise anything
            raise InvalidRequest(f"{name} cannot be loaded: {type(error).__name__}: {error}") from None
        if not defined:
            raise InvalidRequest(f"{name} defines no saga")
        for definition in defined:
            first = definitions.setdefault(definition.name, definition).saga_class
            if first is not definition.saga_class:
                raise InvalidRequest(f"two saga types are called {definition.name!r}: {first} and {name}")
    return list(definitions.values())


def _sagas_in(module: ModuleType) -> list[type[Saga[Any]]]:
    """Return the saga types that a module defines, in its order."""
    from sagas.authoring.definition.definition import definition_of
    from sagas.authoring.saga import Saga

    classes: list[type[Saga[Any]]] = []
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Saga) and value.__module__ == module.__name__:
            try:
                definition_of(cast("type[Saga[Any]]", value))
            except DefinitionError:
                continue  # a base class
            classes.append(cast("type[Saga[Any]]", value))
    return classes
