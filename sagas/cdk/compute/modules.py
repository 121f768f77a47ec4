"""Finds the modules that a module imports, by reading the sources without running them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path


class Modules:
    """The modules in the files of some packages. ``files`` has the paths by name, such as ``shop/orders/saga.py``."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        names = [name for name in files if name.endswith(".py")]
        self._files = {name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name for name in names}
        self._sources = files
        self._imported = cache(self._imports_of)

    def file_of(self, module: str) -> str | None:
        """Return the name of a module's file, or ``None`` if the packages have no such module."""
        return self._files.get(module)

    def reached_from(self, module: str) -> set[str]:
        """Return the files that the import of a module needs: its own, and those of all direct and indirect imports."""
        reached: set[str] = set()
        waiting = [module]
        while waiting:
            name = waiting.pop()
            # Importing a.b.c also runs a and a.b.
            while name:
                file = self._files.get(name)
                if file is not None and file not in reached:
                    reached.add(file)
                    waiting += self._imported(name)
                name = name.rpartition(".")[0]
        return reached

    def _imports_of(self, module: str) -> frozenset[str]:
        file = self._files[module]
        try:
            tree = ast.parse(self._sources[file].read_bytes())
        except (SyntaxError, ValueError):
            # A file that cannot be parsed may import anything.
            return frozenset(self._files)
        package = module if file.endswith("/__init__.py") else module.rpartition(".")[0]
        return frozenset(name for node in ast.walk(tree) for name in _named(node, package) if name in self._files)


def _named(node: ast.AST, package: str) -> Iterator[str]:
    """Yield the module names in a syntax node. Every string counts: it may be an argument of ``import_module``."""
    match node:
        case ast.Import(names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module, names, level):
            parts = package.split(".")[: len(package.split(".")) - (level or 1) + 1] if level else []
            start = ".".join([*parts, *([module] if module else [])])
            yield start
            yield from (f"{start}.{alias.name}" for alias in names)
        case ast.Constant(str(text)):
            yield text
        case _:
            pass
