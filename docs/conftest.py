"""Every block of Python on every page is run, the blocks of a page one after the other, as one module."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

from sybil import Sybil
from sybil.parsers.myst import PythonCodeBlockParser, SkipParser

sys.path.insert(0, str(Path(__file__).parent / "examples"))
_MODULE = "page_of_the_documentation"


class _Page:
    """A page as a module: what it defines later is found in it as well."""

    __slots__ = ("_names",)

    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names

    @property
    def __dict__(self) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleVariableOverride] -- what vars() returns
        return self._names


def setup(namespace: dict[str, Any]) -> None:
    """Have what a page defines belong to a module, as dataclasses ask for one; what it does to stand-ins is its own."""
    for name in ("standins", "trips", "promises"):
        sys.modules.pop(name, None)
    sys.modules[_MODULE] = cast("Any", _Page(namespace))
    namespace["__name__"] = _MODULE


def teardown(_namespace: dict[str, Any]) -> None:
    """What a page has patched is as it was for whoever comes next in this process."""
    patch.stopall()


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(future_imports=["annotations"]), SkipParser()],
    patterns=["*.md"],
    excludes=["changelog.md"],
    setup=setup,
    teardown=teardown,
).pytest()
