"""``fit`` judges whether deployed code may run or undo a step of a saga in flight."""

from __future__ import annotations

import pytest

from sagas.core.fit import KINDS, Deployed, fit
from sagas.core.states import StepState

GONE = "step 'pay' of type 'trip' is not in the deployed code"


def _was(kind: str, *, undo: bool = False) -> StepState:
    return StepState("pay", waits_for=kind, undo=undo)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_that_is_gone_can_neither_run_nor_be_undone(kind: str) -> None:
    judged = fit(_was(kind, undo=True), None, "trip")

    assert judged.forward is not None
    assert (judged.forward.type, judged.forward.message) == ("CodeGone", GONE)
    undo = None if judged.undo is None else (judged.undo.type, judged.undo.message)
    assert undo == (None if kind == "children" else ("CodeGone", f"the undo of {GONE}"))
    assert judged.owes_undo


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_without_an_undo_that_is_gone_owes_none(kind: str) -> None:
    judged = fit(_was(kind), None)

    assert (judged.undo, judged.owes_undo) == (None, False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("had", "has", "lacks", "owes"),
    [(False, False, False, False), (True, True, False, True), (True, False, True, True), (False, True, False, True)],
)
def test_a_step_of_the_same_kind_runs_and_its_undo_counts(
    kind: str, had: bool, has: bool, lacks: bool, owes: bool
) -> None:
    judged = fit(_was(kind, undo=had), Deployed(kind, True, has))

    assert judged.forward is None
    assert (judged.undo is not None) == (lacks and kind != "children")
    assert judged.owes_undo is owes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", KINDS)
@pytest.mark.parametrize(("had", "has"), [(False, False), (True, True), (True, False), (False, True)])
def test_a_step_of_another_kind_never_runs_and_owes_only_the_undo_that_it_had(
    kind: str, other: str, had: bool, has: bool
) -> None:
    if kind == other:
        return
    judged = fit(_was(kind, undo=had), Deployed(other, True, has))

    text = f"step 'pay' is {KINDS[other]} now, and was {KINDS[kind]} when the saga started"
    assert judged.forward is not None
    assert (judged.forward.type, judged.forward.message) == ("TypeChanged", text)
    assert (judged.undo is not None) == (had and not has and kind != "children")
    assert judged.owes_undo is had
