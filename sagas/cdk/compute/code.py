"""The code of a service: the top-level packages that contain its saga classes, and nothing else."""

from __future__ import annotations

import hashlib
import sys
from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

from aws_cdk import Stack
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from sagas.cdk.compute.bytecode import add_bytecode, compiler_for
from sagas.cdk.compute.layer import Layer, PackagingError
from sagas.cdk.compute.staging import built_once, copy_files, digest_of, names_under, source_files
from sagas.errors import DefinitionError
from sagas.imports import Code, Shipped, advice, module_names, modules_below
from sagas.messaging.routes import TYPES_FILE


def packages_of(saga_classes: Iterable[type]) -> list[ModuleType]:
    """Return the top-level packages that contain the classes, each once."""
    packages: dict[str, ModuleType] = {}
    for saga_class in saga_classes:
        name = saga_class.__module__.partition(".")[0]
        if name == "__main__":
            raise DefinitionError(
                f"{saga_class.__qualname__} is defined in the script that is being run; move it to its own module"
            )
        packages[name] = sys.modules[name]
    return list(packages.values())


class CodeAssets:
    """The code of the functions, as Lambda assets. The functions of a saga do not contain the code of other sagas. So a
    change to one saga makes new versions only of its own functions and of the service's functions. An asset omits the
    modules of other saga classes, or their packages below the top level, unless the saga imports them. ``types`` has
    the text of ``sagas-types.json`` by saga class, and for ``None`` the text for all sagas. ``runtime``, like
    ``python3.13``, is the one to compile for; ``None`` compiles nothing."""

    def __init__(
        self, saga_classes: Sequence[type], types: Mapping[type | None, str] | None = None, runtime: str | None = None
    ) -> None:
        self.packages = packages_of(saga_classes)
        files: dict[str, Path] = {}
        for package in self.packages:
            name = package.__name__
            roots = _roots(package)
            for root in roots:
                files |= names_under(root, source_files(root), name)
            if not roots:
                if package.__file__ is None:
                    raise DefinitionError(f"the module {name} has no file to deploy")
                path = Path(package.__file__)
                files[path.name] = path
        self._files = files
        self._modules = Code(files)
        self._names = module_names(files)
        self._saga_classes = saga_classes
        self._checked: set[tuple[type | None, str]] = set()
        modules = {each: file for each in saga_classes if (file := self._modules.file_of(each.__module__))}
        self._territories: dict[type, str] = {}
        for saga_class, file in modules.items():
            # A saga owns the package of its module. If that package contains other sagas, it owns only the module.
            around = file.rpartition("/")[0] + "/"
            others = [other for other in modules.values() if other != file and _is_in(other, around)]
            self._territories[saga_class] = file if others or around.count("/") == 1 else around
        owners: list[type | None] = [None, *saga_classes]
        selections = [{name: files[name] for name in self._selection(owner)} for owner in owners]
        texts = [(types or {}).get(owner, "") for owner in owners]
        compiled = ["bytecode", runtime] if runtime and compiler_for(runtime) else []
        digests = [digest_of(selection, text, *compiled) for selection, text in zip(selections, texts, strict=True)]
        self._digests = dict(zip(owners, digests, strict=True))

        def build(target: Path) -> None:
            for digest, selection, text in zip(digests, selections, texts, strict=True):
                copy_files(selection, target / digest)
                if text:
                    (target / digest / TYPES_FILE).write_text(text, encoding="utf-8")
                if runtime:
                    add_bytecode(target / digest, "/var/task", runtime)

        together = hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()[:32]
        self._directory = built_once(f"code-{together}", build).resolve()
        self._assets: dict[tuple[Stack, str], lambda_.AssetCode] = {}

    def of(self, scope: Construct, saga_class: type | None = None) -> lambda_.AssetCode:
        """Return the code asset for the stack of ``scope``: the CDK needs one asset object per stack."""
        digest = self._digests[saga_class]
        key = Stack.of(scope), digest
        if key not in self._assets:
            self._assets[key] = lambda_.Code.from_asset(str(self._directory / digest), asset_hash=digest)
        return self._assets[key]

    def check_imports(self, saga_class: type | None, layer: Layer, provided: Collection[str]) -> None:
        """Refuse code that imports what a function does not have: neither in its code or its layer, nor ``provided``
        by other means. ``saga_class`` is the class whose code the function runs; ``None`` stands for all classes."""
        if (saga_class, layer.digest) in self._checked:
            return
        roots = {each.__module__ for each in self._saga_classes if saga_class in (None, each)}
        modules = ChainMap(self._names, modules_below(layer.directory / "python"))
        missing = self._modules.missing_in(roots, Shipped(layer.python, modules, provided))
        if missing:
            raise PackagingError(advice(missing, layer.python, self._place))
        self._checked.add((saga_class, layer.digest))

    def _place(self, name: str) -> str:
        path = self._files[name]
        project = Path.cwd()
        return str(path.relative_to(project) if path.is_relative_to(project) else path)

    def _selection(self, saga_class: type | None) -> list[str]:
        # A module without a source file may import anything.
        if saga_class is None or saga_class not in self._territories:
            return sorted(self._files)
        reached = self._modules.reached_from(saga_class.__module__)
        left_out = [
            territory
            for other, territory in self._territories.items()
            if other is not saga_class and not any(_is_in(name, territory) for name in reached)
        ]
        return sorted(name for name in self._files if not any(_is_in(name, territory) for territory in left_out))


def _is_in(name: str, territory: str) -> bool:
    return name == territory or (territory.endswith("/") and name.startswith(territory))


def requirements_of(packages: Sequence[ModuleType]) -> list[Path]:
    """Return the ``requirements.txt`` files in the packages."""
    candidates = (root / "requirements.txt" for package in packages for root in _roots(package))
    return [path for path in candidates if path.is_file()]


def _roots(package: ModuleType) -> list[Path]:
    return [Path(root) for root in getattr(package, "__path__", ())]
