"""What docstrings refer to is there, and their sections are where somebody reads them."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from types import FunctionType
from typing import Any

from sagas.authoring.steps import Undoable

ROOT = Path(__file__).parents[2]
RENDERED = ("sagas", "sagas.client", "sagas.cdk", "sagas.testing")
"""The modules whose public names the site renders."""
_SECTION = re.compile(r"^\s*(Args|Returns|Raises|Yields)\b[^:\n]*:$", re.MULTILINE)


def _is_module(parts: list[str]) -> bool:
    path = ROOT.joinpath(*parts)
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def test_a_module_that_is_named_is_there() -> None:
    gone = list[str]()
    for path in sorted((ROOT / "sagas").rglob("*.py")):
        for name in re.findall(r"`~?(sagas(?:\.\w+)+)`", path.read_text()):
            parts = name.split(".")
            modules = [*takewhile(str.islower, parts)]
            # Of a function the last part is its name.
            there = _is_module(modules) or (modules == parts and _is_module(modules[:-1]))
            gone += [] if there else [f"{path.relative_to(ROOT)}: {name}"]
    assert gone == []


def test_functions_that_nobody_looks_up_have_one_paragraph() -> None:
    """Sections are for what the site renders, and for ports, whose callers know no more than that."""
    rendered = set(_rendered())
    wrong = list[str]()
    for path in sorted((ROOT / "sagas").rglob("*.py")):
        for name, node in _functions(ast.parse(path.read_text()), []):
            if _SECTION.search(ast.get_docstring(node) or "") and (path, name) not in rendered:
                wrong.append(f"{path.relative_to(ROOT)}: {name}")
    assert wrong == []


def _rendered() -> Iterator[tuple[Path, str]]:
    """The functions that the site renders, by file and qualified name."""
    modules = map(importlib.import_module, RENDERED)
    for public in [Undoable, *(getattr(module, name) for module in modules for name in module.__all__)]:
        for member in _members(public) if inspect.isclass(public) else [public]:
            inner: Any = getattr(member, "__func__", getattr(member, "fget", member))
            function = inspect.unwrap(inner) if callable(inner) else None
            if isinstance(function, FunctionType):
                yield Path(function.__code__.co_filename), function.__qualname__


def _members(public: type[Any]) -> Iterator[Any]:
    for cls in public.__mro__:
        yield from (member for name, member in vars(cls).items() if not name.startswith("_") or name == "__init__")


def _functions(node: ast.AST, names: list[str]) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Functions by qualified name, except those of protocols."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield ".".join([*names, child.name]), child
            yield from _functions(child, [*names, child.name, "<locals>"])
        elif isinstance(child, ast.ClassDef):
            if not any("Protocol" in ast.unparse(base) for base in child.bases):
                yield from _functions(child, [*names, child.name])
        else:
            yield from _functions(child, names)
