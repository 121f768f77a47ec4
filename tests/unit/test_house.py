"""The shape of the library: small modules, small folders, no circles, and few functions that are used once."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = {path: path.read_text() for path in sorted((ROOT / "sagas").rglob("*.py"))}
MOST_LINES, MOST_MODULES, MOST_USED_ONCE, MOST_IN_ALL = 450, 12, 0.07, 48_438


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


def test_modules_are_short() -> None:
    lines = {_name(path): text.count("\n") for path, text in MODULES.items()}
    long = {name: count for name, count in lines.items() if count > MOST_LINES}
    assert long == {}, f"move a part that is a subject of its own to another module: more than {MOST_LINES} lines"
    total = sum(lines.values())
    assert total <= MOST_IN_ALL, "make it shorter, or raise MOST_IN_ALL and say in the commit what for"


def test_folders_are_small() -> None:
    folders = Counter(str(path.parent.relative_to(ROOT)) for path in MODULES if path.name != "__init__.py")
    large = {folder: count for folder, count in folders.items() if count > MOST_MODULES}
    assert large == {}, f"make a folder of modules that belong together: more than {MOST_MODULES} modules"


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


def test_few_private_functions_are_used_once() -> None:
    """A helper earns its name by a second caller, or by saying more than its lines.

    A function that is handed over, or has a decorator, cannot do without a name.
    """
    functions, once = 0, list[str]()
    for path, text in MODULES.items():
        tree, uses = ast.parse(text), Counter(re.findall(r"\b_\w+\b", text))
        calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        functions += sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in ast.walk(tree))
        once += [
            f"{_name(path)}.{node.name}"
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.decorator_list
            if re.match("_[^_]", node.name) and uses[node.name] == 2 and node.name in calls
        ]
    most = int(MOST_USED_ONCE * functions)
    assert len(once) <= most, f"write {len(once) - most} of these where they are called: {once}"


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
