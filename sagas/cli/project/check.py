"""``sagas check``: what this code does to the sagas that the last release started."""

from __future__ import annotations

import importlib
import sys
import tomllib
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from sagas.cli.output import emit, fail, plain, say
from sagas.errors import DefinitionError, InvalidRequest, NotFound, SagaError
from sagas.lock import LOCK

if TYPE_CHECKING:
    from sagas.authoring.definition.definition import SagaDefinition
    from sagas.authoring.saga import Saga
    from sagas.lock.content import Content


def check(
    sagas: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODULE[:CLASS]]...", help="The saga types; those of pyproject.toml by default."),
    ] = None,
    lock: Annotated[Path, typer.Option(help="The lock file.")] = Path(LOCK),
    write: Annotated[bool, typer.Option("--write", help="Note these types as those of a release.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")] = False,
) -> None:
    """Compare the saga types with those of the last release: can sagas in flight go on?"""
    from sagas.lock.changes import changes
    from sagas.lock.content import content_of, text_of

    try:
        definitions = _definitions(sagas or _configured(Path("pyproject.toml")))
        known = _known(lock, write)
    except SagaError as error:
        problems = error.problems if isinstance(error, InvalidRequest) else ()
        fail("; ".join([str(error), *(f"{problem.path}: {problem.message}" for problem in problems)]))
    found = changes(known, definitions)
    if write:
        try:
            lock.write_text(text_of(content_of(definitions)), encoding="utf-8")
        except OSError as error:
            fail(f"cannot write to {lock}: {error.strerror}")
    broken = sum(change.breaks for change in found)
    if as_json:
        named = ("saga", "where", "what", "effect", "todo")
        told = [{name: getattr(one, name) for name in named} | {"incompatible": one.breaks} for one in found]
        emit({"lock": str(lock), "written": write, "incompatible": broken, "changes": told})
    else:
        for change in found:
            say(plain(f"{'STOPS' if change.breaks else 'fits '} {change}"))
        if write:
            say(f"{lock} is written.")
        elif not found:
            say(f"Nothing that concerns sagas in flight changed since {lock}.")
        if not write and known != content_of(definitions):
            say("`sagas check --write` notes these types as those of a release.")
    if broken and not write:
        fail(f"{broken} of {len(found)} changes since the last release stop sagas in flight")


def _known(lock: Path, write: bool) -> Content:
    """What the lock file says. The first that is written has none before it."""
    from sagas.lock.content import FORMAT, read

    try:
        return read(lock)
    except NotFound:
        if not write:
            raise
        return {"format": FORMAT, "sagas": {}}


def _configured(path: Path) -> list[str]:
    """The saga types that ``[tool.sagas]`` names."""
    try:
        found: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        found = {}
    except ValueError as error:
        raise InvalidRequest(f"{path} is not TOML: {error}") from None
    names: Any = found.get("tool", {}).get("sagas", {}).get("sagas")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in cast("list[Any]", names)):
        example = 'sagas = ["functions.trip:Trip"]'
        raise InvalidRequest(f"name the saga types, here or in {path}: [tool.sagas] with {example}")
    return cast("list[str]", names)


def _definitions(names: list[str]) -> list[SagaDefinition]:
    """Import what is named."""
    from sagas.authoring.definition.definition import definition_of

    sys.path.insert(0, str(Path.cwd()))  # as ``python -m`` does
    found: dict[str, SagaDefinition] = {}
    for name in names:
        module_name, _, qualified = name.partition(":")
        try:
            module: Any = importlib.import_module(module_name)
            classes = [attrgetter(qualified)(module)] if qualified else _sagas_in(module)
            defined = [definition_of(one) for one in classes]
        except Exception as error:  # noqa: BLE001 - a module of the author's may raise anything
            raise InvalidRequest(f"{name} cannot be loaded: {type(error).__name__}: {error}") from None
        if not defined:
            raise InvalidRequest(f"there is no saga in {name}")
        for one in defined:
            if found.setdefault(one.name, one).saga_class is not one.saga_class:
                raise InvalidRequest(f"two saga types are called {one.name!r}: {found[one.name].saga_class} and {name}")
    return list(found.values())


def _sagas_in(module: ModuleType) -> list[type[Saga[Any]]]:
    """The saga types that a module defines, in its order."""
    from sagas.authoring.definition.definition import definition_of
    from sagas.authoring.saga import Saga

    found: list[type[Saga[Any]]] = []
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Saga) and value.__module__ == module.__name__:
            try:
                definition_of(cast("type[Saga[Any]]", value))
            except DefinitionError:
                continue  # a base only
            found.append(cast("type[Saga[Any]]", value))
    return found
