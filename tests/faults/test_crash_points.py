"""Every request of a scenario fails in every way: all requests of the short scenarios, and a sample of the others'.
``make proof`` takes all requests of all scenarios."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from unittest.mock import patch

import pytest
from botocore.exceptions import ReadTimeoutError
from msgspec.structs import replace

from sagas.core import automaton
from sagas.core.automaton import ROWS, Row
from sagas.core.events import Fact, StepFailed
from sagas.core.states import SagaStatus
from sagas.engine import committer
from sagas.engine.attempt.context import StepContext
from sagas.errors import Ambiguous
from sagas.store.journal.entries import Entry
from sagas.testing.faults import DEATHS, DELAYS, LOST_ANSWERS, Fault, Wire
from tests.faults import scenarios
from tests.faults.answering import AT_ONCE, behind, scarce
from tests.faults.catching import CATCHERS
from tests.faults.explore import explore, replay
from tests.faults.rules import Life
from tests.faults.scenarios import EVERY, FAMILIES, SHORT
from tests.faults.world import CrashWorld, world
from tests.support.ids import node_id

KINDS: dict[str, Sequence[Fault]] = {
    "deaths": DEATHS,
    "lost answers": LOST_ANSWERS,
    "outages": (Fault.OUTAGE,),
    "delays": DELAYS,
}
FEW = ("happy", "rejected")
"""Whose requests all fail in all ways, whenever the tests run."""
BY_SUBJECT = {subject: [name for name in names if name not in FEW] for subject, names in scenarios.BY_SUBJECT.items()}
"""The others. A subject is a test, since one scenario takes less than a second."""


@pytest.fixture(scope="module")
def made() -> Iterator[CrashWorld]:
    with world() as one:
        yield one


@pytest.mark.parametrize("kind", KINDS, ids=node_id)
@pytest.mark.parametrize("name", FEW)
def test_whatever_fails_once_nothing_is_lost_or_repeated(made: CrashWorld, name: str, kind: str) -> None:
    in_full = name in SHORT and kind != "delays"
    figures = explore(
        made,
        [name],
        faults=KINDS[kind],
        bounds=range(1, 9 if name in FAMILIES else 8),
        sample=None if in_full else 4,
    )
    assert figures.runs > 4
    assert not figures.violations, "\n".join(figures.violations)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=node_id)
@pytest.mark.parametrize("subject", BY_SUBJECT, ids=node_id)
def test_whatever_fails_once_in_any_scenario(made: CrashWorld, subject: str, kind: str) -> None:
    for name in BY_SUBJECT[subject]:
        test_whatever_fails_once_nothing_is_lost_or_repeated(made, name, kind)


@pytest.mark.parametrize("life", [catcher for catcher in CATCHERS if isinstance(catcher, Life)], ids=node_id)
def test_what_a_rule_is_for_does_not_happen(made: CrashWorld, life: Life) -> None:
    """Without the rule, the disturbance does harm: ``test_rules.py`` switches it off."""
    wrong = [f"{life.scenario}: {trial}" for trial in replay(made, life.scenario, life.plans) if trial.error]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("subject", BY_SUBJECT, ids=node_id)
def test_reads_that_are_behind_do_no_harm(made: CrashWorld, subject: str) -> None:
    with behind(made):
        figures = explore(made, [name for name in scenarios.BY_SUBJECT[subject] if name not in AT_ONCE], sample=1)
    assert not figures.violations, "\n".join(figures.violations)


@pytest.mark.slow
@pytest.mark.parametrize("subject", BY_SUBJECT, ids=node_id)
def test_short_pages_and_half_batches_do_no_harm(made: CrashWorld, subject: str) -> None:
    with scarce(made):
        figures = explore(made, scenarios.BY_SUBJECT[subject], sample=1)
    assert not figures.violations, "\n".join(figures.violations)


@pytest.mark.slow
def test_every_row_of_the_automaton_is_entered(made: CrashWorld) -> None:
    entered = set[Row]()

    class Recorded(dict[tuple[SagaStatus, type[Any]], Row]):
        def get(self, key: Any, default: Any = None, /) -> Any:
            row = super().get(key, default)
            if row is not None:
                entered.add(row)
            return row

    with patch.object(automaton, "TABLE", Recorded(automaton.TABLE)):
        for name in EVERY:
            [trial] = replay(made, name, [()])
            assert trial.error is None, f"{name}: {trial.error}"
    assert [row for row in ROWS if row not in entered] == [], "a scenario has to enter this"


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT, ids=node_id)
def test_two_deaths_in_a_row(made: CrashWorld, name: str) -> None:
    figures = explore(made, [name], at_once=2, sample=30)
    assert not figures.violations, "\n".join(figures.violations)


def test_an_accepted_cancel_outlives_its_caller(made: CrashWorld) -> None:
    """A dead-lettered saga was on nobody's list but people's: the cancel stayed undone when its process died."""
    figures = explore(made, ["cancel_dead_lettered"])
    assert not figures.violations, "\n".join(figures.violations)


@pytest.mark.parametrize("name", ["late_each_time", "late_at_last", "late_and_undone_when_started"])
def test_a_late_result_that_counts_is_missed(made: CrashWorld, name: str) -> None:
    with patch.object(StepContext, "overtime", property(lambda context: -1.0)):
        assert explore(made, [name], stop=True).violations


def test_a_doubt_that_a_late_result_leaves_is_missed_where_its_entry_forgets_it(made: CrashWorld) -> None:
    """Then a successor that adopts the entry does not know of it."""
    remembered = committer.fact_of

    def forgotten(entry: Entry, index: int) -> Fact:
        fact = remembered(entry, index)
        return replace(fact, outcome_unknown=False) if isinstance(fact, StepFailed) else fact

    with patch.object(committer, "fact_of", forgotten):
        assert explore(made, ["late_at_last"], stop=True).violations


def test_a_lost_answer_is_ambiguous_and_no_other_error(made: CrashWorld) -> None:
    """PynamoDB asks a read timeout for its answer, which is None, and falls over it."""
    made.reset()
    with made.wire.installed():
        made.start()
        (state,) = made.states()

        def lost(operation: str, request: object) -> None:
            raise ReadTimeoutError(endpoint_url="https://dynamodb")

        with Wire({"dynamodb": lost}).installed(), pytest.raises(Ambiguous):
            made.engine.control.get(state.saga_id)
