"""The shape of the library: no circles, and structs where a dataclass would be slow to make."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = {path: path.read_text() for path in sorted((ROOT / "sagas").rglob("*.py"))}


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _imports(tree: ast.Module) -> Iterator[str]:
    """What a module imports when it is imported: not in functions, and not for type checkers alone."""
    pending: list[ast.stmt] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test):
            pending += [*node.body, *node.orelse]
        elif isinstance(node, ast.Try):
            pending += node.body


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Layers are judged by the contracts of import-linter; this judges the modules of one layer."""
    names = {_name(path) for path in MODULES}
    graph = {
        _name(path): {
            module
            for name in _imports(ast.parse(text))
            for module in [name if name in names else name.rpartition(".")[0]]
            if module in names and module != _name(path)
        }
        for path, text in MODULES.items()
    }
    list(TopologicalSorter(graph).static_order())  # a circle is an error that names it


def test_records_that_functions_load_are_structs() -> None:
    """A dataclass takes a millisecond to make, sixty times as long as a Struct. These are policies whose constructors
    check, what authors' steps return, problems that compare without a field, and the composition."""
    loaded = ("authoring", "core", "engine", "handlers", "messaging", "store", "errors.py")
    found = {
        node.name
        for path, source in MODULES.items()
        if path.relative_to(ROOT / "sagas").parts[0] in loaded
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(it) for it in node.decorator_list)
    }
    policies = {"AutoDisable", "CircuitBreaker", "OrphanSweep", "Retry"}
    assert found == policies | {"OrphanedObject", "S3Object", "Problem", "Core"}
