"""Shows functions of the local stack the modules that they have in Lambda, and no others.

The emulator runs functions in the interpreter of the local stack, because the wheels of a layer are for Lambda's
platform. This interpreter has many more packages than a layer.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from sagas.imports import RUNTIME_MODULES, is_here

VARIABLE = "SAGAS_LOCAL_MODULES"
"""The variable of a function with the top-level modules of its layer, and the parts of this library in it."""
PRELUDE = f"import {__name__}\n{__name__}.show_shipped()\n"
"""The first lines of the program that a function's process runs."""
_IMPORTING = "_find_and_load_unlocked"
"""The function of importlib that asks for a module in order to import it. ``find_spec`` only asks."""


def show_shipped(environment: Mapping[str, str] = os.environ) -> None:
    """Hide all modules that the function lacks in Lambda, loaded ones, too. Its code is in the current directory."""
    if VARIABLE not in environment:
        return  # the stack has no layer for this function
    code = {path.name.partition(".")[0] for path in Path.cwd().iterdir()}
    visible = {"__main__", *sys.stdlib_module_names, *RUNTIME_MODULES, *environment[VARIABLE].split(","), *code}
    sys.meta_path[:] = [*(_Visible(finder, visible) for finder in sys.meta_path), _Refusal(visible)]
    for name in [name for name in sys.modules if _is_hidden(name, visible)]:
        del sys.modules[name]
        package, _, member = name.rpartition(".")
        if package in sys.modules:
            vars(sys.modules[package]).pop(member, None)


def _is_hidden(name: str, visible: set[str]) -> bool:
    top, *parts = name.split(".")
    return top not in visible or (top == "sagas" and bool(parts) and f"{top}.{parts[0]}" not in visible)


class _Visible:
    """A finder that does not find hidden modules."""

    def __init__(self, finder: Any, visible: set[str]) -> None:
        self._finder = finder
        self._visible = visible

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return None if _is_hidden(name, self._visible) else self._finder.find_spec(name, path, target)


class _Refusal:
    """The last finder. It says why a module that is here was not found."""

    def __init__(self, visible: set[str]) -> None:
        self._visible = visible

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        importing = sys._getframe(2).f_code.co_name == _IMPORTING  # pyright: ignore[reportPrivateUsage]
        if importing and _is_hidden(name, self._visible) and is_here(name):
            advice = "add it to requirements.txt, or to SagaService(provided=...)"
            raise ModuleNotFoundError(
                f"No module named {name!r}: it is here, but not in the layer; {advice}", name=name
            )
        return None
