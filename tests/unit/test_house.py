"""The shape of the library: no circles."""

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
