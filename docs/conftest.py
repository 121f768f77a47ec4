"""Every block of Python on every page is run, the blocks of a page one after the other, as one module."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

from sybil import Sybil
from sybil.parsers.myst import PythonCodeBlockParser, SkipParser

sys.path.insert(0, str(Path(__file__).parent / "examples"))
_MODULE = "page_of_the_documentation"


def setup(namespace: dict[str, Any]) -> None:
    """Have what a page defines belong to a module, as dataclasses ask for one."""
    module: Any = types.SimpleNamespace()
    module.__dict__ = namespace  # what a page defines later is found in it as well
    sys.modules[_MODULE] = module
    namespace["__name__"] = _MODULE


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(future_imports=["annotations"]), SkipParser()],
    patterns=["*.md"],
    excludes=["changelog.md"],
    setup=setup,
).pytest()
