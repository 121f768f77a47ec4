"""Finds the saga types of a project: types that are named, or else those in ``pyproject.toml`` or in the CDK app."""

from __future__ import annotations

import importlib
import json
import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from msgspec import Struct, ValidationError, convert, field

from sagas.errors import DefinitionError, InvalidRequest, SagaError

if TYPE_CHECKING:
    from sagas.authoring.definition.definition import SagaDefinition
    from sagas.authoring.saga import Saga


Types = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[MODULE[:CLASS]]...", help="Saga types; by default those of pyproject.toml, or of the CDK app"
    ),
]
App = Annotated[
    str | None, typer.Option("--app", help="Command that synthesizes the CDK app; by default the one in cdk.json")
]


def types_of_project(names: Sequence[str] = ()) -> list[SagaDefinition]:
    """Return the saga types with these names: ``module:Class``, or a module for all types that it defines. By default,
    return the types of the project in the working directory."""
    return _definitions(names or _configured(Path("pyproject.toml")) or _synthesized(Path("cdk.json")))


class _Sagas(Struct):
    sagas: list[str] = field(default_factory=list[str])


class _Tool(Struct):
    sagas: _Sagas = field(default_factory=_Sagas)


class _Project(Struct):
    tool: _Tool = field(default_factory=_Tool)


def _configured(path: Path) -> list[str]:
    try:
        return convert(tomllib.loads(path.read_text(encoding="utf-8")), _Project).tool.sagas.sagas
    except FileNotFoundError:
        return []
    except ValidationError as error:
        raise InvalidRequest(f"{path}: {error}") from None
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"{path} is not TOML: {error}") from None


def app_of_project(path: Path) -> str:
    """Return the command of ``cdk.json`` that synthesizes the CDK app; empty if there is none."""
    try:
        settings: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    app: Any = cast("dict[str, Any]", settings).get("app") if isinstance(settings, dict) else None
    return app if isinstance(app, str) else ""


def _synthesized(path: Path) -> list[str]:
    """Synthesize the CDK app as ``sagas local`` does, and return its saga types."""
    example = 'sagas = ["functions.trip:Trip"]'
    missing = f"no saga types; pass them, or list them in [tool.sagas] of pyproject.toml: {example}"
    app = app_of_project(path)
    if not app:
        raise InvalidRequest(missing)
    if find_spec("aws_cdk") is None:
        raise InvalidRequest(f"{missing}; or install lambda-sagas[cdk]")
    from sagas.local.deploy.synthesis import synthesize
    from sagas.local.errors import LocalStackError
    from sagas.local.files import Files

    files = Files(Path.cwd())
    try:
        files.root.mkdir(parents=True, exist_ok=True)
        assembly = synthesize(app, files, output="check.out")
    except (LocalStackError, OSError) as error:
        raise SagaError(f"{path}: {error}") from None
    names = list(dict.fromkeys(_names_in(assembly)))
    if not names:
        raise InvalidRequest(missing)
    return names


def only_synthesized(definitions: Sequence[SagaDefinition]) -> list[str]:
    """Return the types that functions of the newest synthesis load, and that are not among ``definitions``."""
    from sagas.local.files import Files

    files = Files(Path.cwd())
    manifests = [directory / "manifest.json" for directory in (files.project / "cdk.out", files.assembly)]
    manifests = [manifest for manifest in manifests if manifest.is_file()]
    if not manifests:
        return []
    newest = max(manifests, key=lambda manifest: manifest.stat().st_mtime).parent
    classes = [definition.saga_class for definition in definitions]
    known = {f"{saga_class.__module__}:{saga_class.__qualname__}" for saga_class in classes}
    return sorted({*_names_in(newest)} - known)


def _names_in(assembly: Path) -> Iterator[str]:
    """Yield the types that the functions of a synthesized app load."""
    for template in sorted(assembly.rglob("*.template.json")):
        resources = json.loads(template.read_text(encoding="utf-8")).get("Resources", {})
        for resource in resources.values():
            function = resource["Type"] == "AWS::Lambda::Function"
            environment: Any = resource["Properties"].get("Environment", {}) if function else {}
            classes: Any = environment.get("Variables", {}).get("SAGAS_CLASSES")
            if isinstance(classes, str) and classes.startswith("@"):  # the name of a file next to the code
                for path in assembly.rglob(classes[1:]):
                    yield from json.loads(path.read_text(encoding="utf-8"))["classes"]
            elif isinstance(classes, str):
                yield from json.loads(classes)


def _definitions(names: Sequence[str]) -> list[SagaDefinition]:
    from sagas.authoring.definition.definition import definition_of

    sys.path.insert(0, str(Path.cwd()))  # ``python -m`` does the same
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
    """Return the saga types that a module defines, in the order of its code."""
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
