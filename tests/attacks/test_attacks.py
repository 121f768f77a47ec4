"""Programs that once broke what the library promises. Each prints what it saw, and HELD at its end.

The docstring of a program says what broke. To run one by itself: ``python -W ignore -m tests.attacks.NAME``.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator

import pytest

HELD = (
    "cancel_that_meets_a_pause",
    "chain_that_was_taken_apart",
    "child_that_was_settled",
    "children_in_another_order",
    "coroutine_with_a_thread",
    "exception_without_a_text",
    "join_beyond_its_function",
    "outcome_of_children_in_an_outage",
    "patience_runs_out_in_a_pause",
    "result_of_a_child_that_gained_a_step",
    "result_of_a_child_whose_steps_moved",
    "secret_of_an_older_release",
    "undo_of_a_step_that_became_children",
    "undo_of_children_that_became_a_step",
    "undo_that_is_never_run",
)
"""The programs, by module. A program that still prints BROKEN is not in the list."""


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Programs disable the log and set credentials when they are imported."""
    for name, value in (("ACCESS_KEY_ID", "test"), ("SECRET_ACCESS_KEY", "test"), ("DEFAULT_REGION", "eu-central-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("program", HELD)
def test_it_holds(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    importlib.import_module(f"tests.attacks.{program}")
    said = capsys.readouterr().out
    assert said.splitlines()[-1].startswith("HELD"), said
