"""Judges whether the deployed code of a step fits a saga that was started with earlier code.

The saga keeps its structure: the names, order and kinds of its steps, and which of them have an undo. Code and policies
come from the deployment. This module alone judges whether the two match (rule 18).
"""

from __future__ import annotations

from typing import NamedTuple

from sagas.core.events import CODE_GONE, Failure
from sagas.core.states import StepState

KINDS = {"": "a step", "signal": "a wait for a signal", "time": "a wait for a time", "children": "a step of children"}
"""The name of each kind of step. The keys are those of ``StepState.waits_for``."""


class Deployed(NamedTuple):
    """A step as it is deployed, or as a blueprint describes it.

    Args:
        kind: a key of :data:`KINDS`.
        asks: whether it has code to run.
        undo: whether it has an undo.
    """

    kind: str
    asks: bool
    undo: bool


class Fit(NamedTuple):
    """Whether the deployed code fits a step of a saga.

    Args:
        forward: why the deployed code may not run the step; ``None`` if it may, or if the step needs no code.
        undo: why the deployed code may not undo it; ``None`` if it may, or if there is nothing to undo.
        owes_undo: whether the step has to be undone once it has completed.
    """

    forward: Failure | None
    undo: Failure | None
    owes_undo: bool


def gone(was: StepState, saga: str = "") -> Failure:
    """Return why a step that is not deployed cannot run. ``saga``: the saga type, for the text."""
    of_type = f" of type {saga!r}" if saga else ""
    return Failure(CODE_GONE, f"step {was.name!r}{of_type} is not in the deployed code")


def undo_gone(was: StepState, saga: str = "") -> Failure | None:
    """Return why a step without a deployed undo cannot be undone; ``None`` for children, whose undo needs no code of
    the step. ``saga``: the saga type, for the text."""
    return None if was.waits_for == "children" else Failure(CODE_GONE, f"the undo of {gone(was, saga).message}")


def fit(was: StepState, now: Deployed | None, saga: str = "") -> Fit:
    """Compare a step as it was when the saga started with the deployed step ``now``, which is ``None`` if it is
    missing. The step's status does not matter. ``saga``: the saga type, for the texts."""
    undo = undo_gone(was, saga) if was.undo and not (now and now.undo) else None
    if now is None:
        return Fit(gone(was, saga), undo, was.undo)
    if now.kind == was.waits_for:
        return Fit(None, undo, was.undo or now.undo)
    change = f"step {was.name!r} is {KINDS[now.kind]} now, and was {KINDS[was.waits_for]} when the saga started"
    return Fit(Failure("TypeChanged", change), undo, was.undo)
