"""The code asset of a service: the top-level packages its saga classes live in, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType

from aws_cdk import Stack
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from sagas.cdk.staging import built_once, copy_files, digest_of, names_under, source_files
from sagas.errors import DefinitionError


def packages_of(saga_classes: Iterable[type]) -> list[ModuleType]:
    """Return the top-level packages the classes live in, each once.

    Raises:
        DefinitionError: a class lives where Lambda could not import it from.
    """
    packages: dict[str, ModuleType] = {}
    for saga_class in saga_classes:
        name = saga_class.__module__.partition(".")[0]
        if name == "__main__":
            raise DefinitionError(
                f"{saga_class.__qualname__} is defined in the script that is being run; move it to a module of its own"
            )
        packages[name] = sys.modules[name]
    return list(packages.values())


class CodeAssets:
    """The packages staged in one directory, as the Lambda asset of as many stacks as want it."""

    def __init__(self, packages: Sequence[ModuleType]) -> None:
        files: dict[str, Path] = {}
        for package in packages:
            name, roots = package.__name__, _roots(package)
            for root in roots:
                files |= names_under(root, source_files(root), name)
            if not roots:
                if package.__file__ is None:
                    raise DefinitionError(f"the module {name} has no file that could be deployed")
                path = Path(package.__file__)
                files[path.name] = path
        self._digest = digest_of(files)
        directory = built_once(f"code-{self._digest}", lambda target: copy_files(files, target))
        self._directory = directory.resolve()
        self._made: dict[str, lambda_.AssetCode] = {}

    def of(self, scope: Construct) -> lambda_.AssetCode:
        """Return the asset for functions in the stack of ``scope``: the CDK wants an object for each stack."""
        stack = Stack.of(scope).node.addr
        if stack not in self._made:
            self._made[stack] = lambda_.Code.from_asset(str(self._directory), asset_hash=self._digest)
        return self._made[stack]


def requirements_of(packages: Sequence[ModuleType]) -> list[Path]:
    """Return the ``requirements.txt`` files that lie in the packages."""
    candidates = (root / "requirements.txt" for package in packages for root in _roots(package))
    return [path for path in candidates if path.is_file()]


def _roots(package: ModuleType) -> list[Path]:
    return [Path(root) for root in getattr(package, "__path__", ())]
