"""The budget of ideas: whoever adds one adds its line to ``tests/ideas.toml``, and says what it is for."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_overloads

import pytest

from sagas import children, errors, sleep, step, wait_for
from sagas.authoring.children import ChildrenOptions
from sagas.authoring.saga import Saga
from sagas.authoring.steps import Undoable
from sagas.cdk.options.service_options import FunctionOptions, SagaServiceProps
from sagas.cli.main import MODULES, commands_in
from sagas.core.events import FACTS
from sagas.core.states import SagaStatus, StepStatus
from sagas.handlers.telemetry import METRICS
from sagas.operations import OPERATIONS

ROOT = Path(__file__).parents[2]
IDEAS: dict[str, dict[str, str]] = tomllib.loads((ROOT / "tests" / "ideas.toml").read_text())
MOST = {"protocols": 13, "modes": 21, "verbs for gates": 2, "CLI verbs": 38, "construct options": 46}
"""How many there may be. More is a decision, not an oversight."""


def _sources() -> Iterator[tuple[Path, str]]:
    return ((path, path.read_text()) for path in sorted((ROOT / "sagas").rglob("*.py")))


def _classes(base: str) -> set[str]:
    """Classes of the package by one of their bases, as it is written."""
    return {
        node.name
        for _, source in _sources()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef) and any(ast.unparse(one).split("[")[0] == base for one in node.bases)
    }


def _keywords() -> set[str]:
    """What authors write, as ``call(keyword)``."""
    stub = re.search(r"def __init_subclass__\(\s*cls,\s*\*,(.*?)\) -> None", inspect.getsource(Saga), re.DOTALL)
    assert stub
    found = {f"class({name})" for name in re.findall(r"^\s*(\w+):", stub[1], re.MULTILINE)}
    undo: Any = vars(Undoable)["compensate"]
    calls: tuple[Callable[..., Any], ...] = (step, undo, wait_for, sleep, children)
    for call in calls:
        declared = {name for form in get_overloads(call) for name in inspect.signature(form).parameters}
        declared |= ChildrenOptions.__annotations__.keys() if call is children else set()
        found |= {f"{call.__name__}({name})" for name in declared - _POSITIONAL}
    return found


_POSITIONAL = {"self", "fn", "child", "first", "second", "third", "fourth", "fifth", "sixth", "more", "options"}


def _commands(commands: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, inner in commands.items():
        if hasattr(inner, "commands"):
            yield from _commands(inner.commands, f"{path}{name} ")
        elif not inner.hidden:
            yield f"{path}{name}"


def _alarms() -> set[str]:
    rows = (ROOT / "docs" / "reference" / "alarms.md").read_text().splitlines()
    return {row.split("|")[1].strip() for row in rows if row.startswith("| ")} - {"alarm"}


FOUND: dict[str, Callable[[], set[str]]] = {
    "facts": lambda: set(FACTS),
    "statuses": lambda: {*map(str, SagaStatus), *map(str, StepStatus)},
    "environment variables": lambda: {name for _, text in _sources() for name in re.findall(r"SAGAS_[A-Z_]+", text)},
    "construct options": lambda: set(SagaServiceProps.__annotations__),
    "options of a function": lambda: set(inspect.signature(FunctionOptions).parameters),
    "keywords of authors": _keywords,
    "CLI verbs": lambda: {verb for module in MODULES for verb in _commands(commands_in(module))},
    "operations": lambda: {operation.name for operation in OPERATIONS},
    "metrics": lambda: set(METRICS),
    "alarms": _alarms,
    "errors": lambda: {
        name for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, Exception)
    },
    "protocols": lambda: _classes("Protocol"),
}


@pytest.mark.parametrize("kind", FOUND)
def test_each_idea_has_a_line_that_says_what_it_is_for(kind: str) -> None:
    expected = FOUND[kind]()
    missing, stale = sorted(expected - IDEAS[kind].keys()), sorted(IDEAS[kind].keys() - expected)
    assert (missing, stale) == ([], []), f"tests/ideas.toml, [{kind}]: add {missing}, remove {stale}"


def test_no_line_is_empty() -> None:
    assert [f"{kind}: {name}" for kind, ideas in IDEAS.items() for name, text in ideas.items() if len(text) < 10] == []


@pytest.mark.parametrize("kind", MOST)
def test_there_are_no_more_than_were_decided(kind: str) -> None:
    assert len(IDEAS[kind]) <= MOST[kind], f"make it part of another of the {kind}, or raise MOST and say why"
