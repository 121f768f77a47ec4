"""Whether functions find the modules that their code imports. The code is read, not run.

Only import statements that a function must execute are judged: not those for type checkers, for another Python or
platform, or with a fallback for an ``ImportError``. Imports by name (``import_module``) are not judged.
"""

from __future__ import annotations

import ast
import json
import operator
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

_IN_THE_RUNTIME = ("boto3", "botocore", "s3transfer", "urllib3", "dateutil", "jmespath", "six")
_OF_LAMBDA = ("awslambdaric", "snapshot_restore_py")
RUNTIME_MODULES = frozenset({*_IN_THE_RUNTIME, *_OF_LAMBDA})
"""Modules in every Python runtime of Lambda."""

PROVIDED = "sagas:provided"
"""The metadata of a layer in a template: modules that its functions get by other means."""

_REMOVED = {
    12: "asynchat asyncore distutils imp smtpd",
    13: "aifc audioop cgi cgitb chunk crypt imghdr lib2to3 mailcap msilib nis nntplib ossaudiodev pipes sndhdr spwd "
    "sunau telnetlib uu xdrlib",
}
"""Modules of the standard library by the minor version of Python that no longer has them."""
_ADDED = {14: "annotationlib compression"}
"""Modules of the standard library by the minor version of Python that has them first."""
_NAME = re.compile(r"[\w.-]+")
_MODULE_FILES = (".py", ".so", ".pyc")
_FALLBACK = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_ANY_PATCH = 99
"""A patch version that stands for the unknown one of a runtime."""


@cache
def standard_library(python: str) -> frozenset[str]:
    """Return the top-level modules of the standard library of a Python version such as ``3.13``, whichever Python this
    is."""
    removed, still = _by_version(_REMOVED, python)
    added, coming = _by_version(_ADDED, python)
    return (sys.stdlib_module_names | still | added) - removed - coming


def _by_version(changes: Mapping[int, str], python: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the modules that changed up to a Python version, and those that change in a later one."""
    minor = int(python.partition(".")[2])
    before = frozenset(name for since, names in changes.items() if since <= minor for name in names.split())
    after = frozenset(name for since, names in changes.items() if since > minor for name in names.split())
    return before, after


def module_names(files: Iterable[str]) -> dict[str, bool]:
    """Return the modules in some files, such as ``shop/orders/saga.py``. The values say which of them are packages."""
    modules: dict[str, bool] = {}
    for file in files:
        *folders, name = file.split("/")
        if not name.endswith(_MODULE_FILES) or "__pycache__" in folders:
            continue
        stem = name.partition(".")[0]
        parts = folders if stem == "__init__" else [*folders, stem]
        if parts and all(part.isidentifier() for part in parts):
            modules.setdefault(".".join(parts), stem == "__init__")
            modules |= {".".join(folders[: depth + 1]): True for depth in range(len(folders))}
    return modules


@cache
def modules_below(directory: Path) -> dict[str, bool]:
    """Return the modules in a directory as :func:`module_names` does. Its content must not change."""
    return module_names(path.relative_to(directory).as_posix() for path in directory.rglob("*"))


@dataclass(frozen=True)
class Missing:
    """A module that functions do not have: ``module`` as imported, and ``lacking``, its part that does not exist."""

    file: str
    line: int
    module: str
    lacking: str


@dataclass(frozen=True)
class Shipped:
    """The modules that a function can import.

    Args:
        python: the version of its Python, such as ``3.13``.
        modules: the modules of its code and its layer, as :func:`module_names` returns them.
        provided: further modules, with all that they contain.
    """

    python: str
    modules: Mapping[str, bool]
    provided: Collection[str] = ()

    def lacking(self, module: str) -> str:
        """Return the part of a dotted name that the function lacks; empty if it lacks none."""
        names = list(_prefixes(module))
        if any(each in names or each.startswith(f"{module}.") for each in self.provided):
            return ""
        if names[0] not in self.modules:
            known = names[0] in RUNTIME_MODULES or names[0] in standard_library(self.python)
            return "" if known else names[0]
        for name in names:
            package = self.modules.get(name)
            if package is None:
                # The name may be that of an attribute, or of a module that the package creates. If it is a file here,
                # the function lacks that file.
                return name if is_here(name) else ""
            if not package:
                return ""
        return ""


def _prefixes(module: str) -> Iterator[str]:
    parts = module.split(".")
    return (".".join(parts[: depth + 1]) for depth in range(len(parts)))


def modules_needed(distributions: Iterable[str]) -> set[str]:
    """Return the top-level modules here of some distributions, of all that they require, and of Lambda's runtime.
    Which ones they require depends on Python's version and the platform."""
    needed: set[str] = set()
    waiting = ["boto3", *distributions]
    while waiting:
        name = canonical(waiting.pop())
        if name in needed:
            continue
        needed.add(name)
        with suppress(metadata.PackageNotFoundError):
            required = metadata.requires(name) or ()
            waiting += [match[0] for each in required if "extra" not in each and (match := _NAME.match(each))]
    owners = metadata.packages_distributions().items()
    return {module for module, names in owners if needed.intersection(map(canonical, names))}


def canonical(distribution: str) -> str:
    """Return the form of a distribution's name in which equal names are equal."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def is_here(module: str) -> bool:
    """Whether this interpreter finds a file or folder for a module. Nothing is imported."""
    path: list[str] | None = None
    for name in _prefixes(module):
        spec = PathFinder.find_spec(name, path)
        if spec is None:
            return False
        path = list(spec.submodule_search_locations or ())
    return True


class Code:
    """The modules in the files of some packages. ``files`` has the paths by name, such as ``shop/orders/saga.py``."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        names = [name for name in files if name.endswith(".py")]
        self._files = {name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name for name in names}
        self._sources = files
        self._parsed = cache(self._parse)
        self._mentioned = cache(self._mentions)

    def file_of(self, module: str) -> str | None:
        """Return the name of a module's file, or ``None`` if the packages have no such module."""
        return self._files.get(module)

    def reached_from(self, module: str) -> set[str]:
        """Return the files that the import of a module may need: its own, and those of all direct and indirect imports.
        Every string in a module counts: it may be an argument of ``import_module``."""
        return self._reach([module], self._mentioned, set())

    def missing_in(self, modules: Iterable[str], shipped: Shipped, judged: Collection[str] = ()) -> list[Missing]:
        """Return what functions that import some of these modules lack: each missing module once, where it is first
        imported. The files in ``judged`` are left out."""
        missing: dict[str, Missing] = {}
        reached = set(judged)

        def succeeds(names: Iterable[str]) -> bool:
            return not any(map(shipped.lacking, names)) and not self.missing_in(names, shipped, reached)

        def imported(module: str) -> Iterator[str]:
            for line, names in self._required(module, shipped.python, succeeds):
                for name in names:
                    if lacking := shipped.lacking(name):
                        missing.setdefault(lacking, Missing(self._files[module], line, name, lacking))
                yield from names

        self._reach(modules, imported, reached)
        return sorted(missing.values(), key=lambda each: (each.file, each.line))

    def _reach(self, modules: Iterable[str], imported: Callable[[str], Iterable[str]], reached: set[str]) -> set[str]:
        """Add the files of modules, and of those that they import, to ``reached``."""
        waiting = list(modules)
        while waiting:
            # Importing a.b.c also runs a and a.b.
            for name in _prefixes(waiting.pop()):
                file = self._files.get(name)
                if file is not None and file not in reached:
                    reached.add(file)
                    waiting += [name for name in imported(name) if name in self._files]
        return reached

    def _parse(self, module: str) -> ast.Module | None:
        try:
            return ast.parse(self._sources[self._files[module]].read_bytes())
        except (SyntaxError, ValueError):
            return None

    def _package_of(self, module: str) -> str:
        return module if self._files[module].endswith("/__init__.py") else module.rpartition(".")[0]

    def _mentions(self, module: str) -> Iterable[str]:
        tree = self._parsed(module)
        package = self._package_of(module)
        if tree is None:
            # A file that cannot be parsed may import anything.
            return self._files
        nodes = list(ast.walk(tree))
        texts = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
        return {name for node in nodes for name in _imported_by(node, package)}.union(texts)

    def _required(
        self, module: str, python: str, succeeds: Callable[[list[str]], bool]
    ) -> Iterator[tuple[int, list[str]]]:
        """Yield the lines of the import statements of a module that may not fail, with the modules that they name."""
        tree = self._parsed(module)
        package = self._package_of(module)
        body = tree.body if tree else []
        for statement in _required(body, python, lambda each: succeeds(list(_imported_by(each, package)))):
            yield statement.lineno, list(_imported_by(statement, package))


def _imported_by(node: ast.AST, package: str) -> Iterator[str]:
    """Yield the modules that an import statement names, and members of modules, which may be modules."""
    match node:
        case ast.Import(names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module, names, level):
            parts = package.split(".")[: len(package.split(".")) - (level or 1) + 1] if level else []
            start = ".".join([*parts, *([module] if module else [])])
            yield start
            yield from (f"{start}.{alias.name}" for alias in names if alias.name != "*")
        case _:
            pass


def _required(body: Iterable[ast.AST], python: str, succeeds: Callable[[ast.stmt], bool]) -> Iterator[ast.stmt]:
    """Yield the import statements in ``body`` that may not fail. ``succeeds`` says whether one does."""
    for node in body:
        match node:
            case ast.Import() | ast.ImportFrom():
                yield node
            case ast.If(test, then, otherwise):
                value = _value(test, python)
                yield from _required([] if value is False else then, python, succeeds)
                yield from _required([] if value is True else otherwise, python, succeeds)
            case ast.Try(tried, handlers, otherwise, last) if any(map(_is_fallback, handlers)):
                yield from _required(last, python, succeeds)
                attempted = list(_required([*tried, *otherwise], python, succeeds))
                works = all(map(succeeds, attempted))
                yield from attempted if works else ()
                others = (each for each in handlers if not (works and _is_fallback(each)))
                yield from _required(others, python, succeeds)
            case ast.With(items, within) if any(map(_is_suppressed, items)):
                yield from filter(succeeds, _required(within, python, succeeds))
            case ast.stmt() | ast.ExceptHandler() | ast.match_case():
                yield from _required(ast.iter_child_nodes(node), python, succeeds)
            case _:
                pass


def _is_fallback(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or _names_of(handler.type) & _FALLBACK != set()


def _is_suppressed(item: ast.withitem) -> bool:
    match item.context_expr:
        case ast.Call(function, arguments):
            return _names_of(function) == {"suppress"} and any(_names_of(each) & _FALLBACK for each in arguments)
        case _:
            return False


def _names_of(expression: ast.expr) -> set[str]:
    match expression:
        case ast.Name(name) | ast.Attribute(attr=name):
            return {name}
        case ast.Tuple(members):
            return {name for member in members for name in _names_of(member)}
        case _:
            return set()


def _value(test: ast.expr, python: str) -> bool | None:
    """Return the value of a condition in a function, as type checkers do; ``None`` if it is not known."""
    match test:
        case ast.Name("TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
            return False
        case ast.UnaryOp(ast.Not(), operand):
            value = _value(operand, python)
            return None if value is None else not value
        case ast.BoolOp(junction, operands):
            values = [_value(operand, python) for operand in operands]
            decisive = isinstance(junction, ast.Or)
            return decisive if decisive in values else None if None in values else not decisive
        case ast.Compare(left, [comparison], [right]) if type(comparison) in _COMPARISONS:
            fact = _fact(left, python)
            try:
                return None if fact is None else _COMPARISONS[type(comparison)](fact, ast.literal_eval(right))
            except (ValueError, TypeError):
                return None
        case _:
            return None


def _fact(expression: ast.expr, python: str) -> object:
    """Return what an expression about the interpreter is in a function; ``None`` if it is not known."""
    major, _, minor = python.partition(".")
    version = int(major), int(minor)
    return {
        "sys.version_info": (*version, _ANY_PATCH),
        "sys.version_info[:2]": version,
        "sys.platform": "linux",
        "os.name": "posix",
        "__name__": "imported",
    }.get(ast.unparse(expression))


def advice(missing: Sequence[Missing], python: str, place: Callable[[str], str] = str) -> str:
    """Say where missing modules are imported, and what to write. ``place`` returns the path of a file of the code."""
    names = ", ".join(f'"{each.lacking}"' for each in missing)
    provided = f"if functions get it by other means, write SagaService(provided=({names},))"
    return "; ".join([*(_advice(each, python, place(each.file)) for each in missing), provided])


def _advice(missing: Missing, python: str, path: str) -> str:
    package, in_package, _ = missing.file.partition("/")
    folder = f"{path.removesuffix(missing.file)}{package}"
    where = f"{path}:{missing.line} imports {missing.module}"
    if missing.lacking in _by_version(_REMOVED, python)[0]:
        return f"{where}, which Python {python} no longer has"
    if "." in missing.lacking:
        return f"{where}, but the functions' layer has no {missing.lacking}"
    name, version, is_project = _distribution_of(missing.module)
    if is_project:
        todo = f"move it to {folder}/" if in_package else "move both into one package"
        return f"{where}, which functions do not have, because it is outside {folder}: {todo}"
    file = f"add to {folder}/requirements.txt"
    if not in_package:
        file = f"move {path} to a package, and add to its requirements.txt"
    if not name:
        return f"{where}, which functions do not have: {file} the distribution that has it"
    known = "" if canonical(name) == canonical(missing.lacking) else f" ({name})"
    return f"{where}{known}, which functions do not have: {file} the line {name}=={version}"


def _distribution_of(module: str) -> tuple[str, str, bool]:
    """Return the name and version of the distribution that has a module here, empty if none has it, and whether the
    module is part of the project instead."""
    file = module.replace(".", "/")
    names = metadata.packages_distributions().get(module.partition(".")[0], [])
    candidates = [metadata.distribution(name) for name in dict.fromkeys(names)]
    # Several distributions may have parts of a namespace.
    candidates.sort(key=lambda each: not any(str(path).startswith(file) for path in each.files or ()))
    for each in candidates:
        origin = json.loads(each.read_text("direct_url.json") or "{}")
        if "dir_info" not in origin:
            return each.name, each.version, False
    return "", "", is_here(module.partition(".")[0])
