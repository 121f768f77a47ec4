"""Every request of a scenario fails in every way. The gate takes the scenarios of its cover, all requests of the short
ones and a sample of the others; ``make proof`` takes all requests of all scenarios."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest
from botocore.exceptions import ReadTimeoutError
from msgspec.structs import replace

from sagas.core.events import Fact, StepFailed
from sagas.engine import committer
from sagas.engine.attempt.context import StepContext
from sagas.errors import Ambiguous
from sagas.store.journal.entries import Entry
from sagas.testing.faults import Wire
from tests.faults.answering import AT_ONCE, behind, scarce
from tests.faults.explore import explore, replay
from tests.faults.gate import SHORT, cover, disturb, guards, kinds
from tests.faults.world import CrashWorld, world

FEW = ("happy", "rejected")
"""Whose requests all fail in all ways, whenever the tests run."""


@pytest.fixture(scope="module")
def made() -> Iterator[CrashWorld]:
    with world() as one:
        yield one


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(name, kind, marks=[] if name in FEW else pytest.mark.slow)
        for name in cover().scenarios
        for kind in kinds(name)
    ],
)
def test_whatever_fails_once_nothing_is_lost_or_repeated(made: CrashWorld, name: str, kind: str) -> None:
    figures = disturb(made, name, kind)
    assert figures.runs > 4
    assert not figures.violations, "\n".join(str(trial) for _, trial in figures.violations)


@pytest.mark.parametrize("name", guards())
def test_what_a_rule_is_for_does_not_happen(made: CrashWorld, name: str) -> None:
    """Without the rule, each of these disturbances does harm: ``test_cover.py`` switches it off."""
    assert [str(trial) for trial in replay(made, name, [(), *guards()[name]]) if trial.error is not None] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in cover().scenarios if name not in AT_ONCE])
def test_reads_that_are_behind_do_no_harm(made: CrashWorld, name: str) -> None:
    with behind(made):
        figures = explore(made, [name], sample=1)
    assert not figures.violations, "\n".join(str(trial) for _, trial in figures.violations)


@pytest.mark.slow
@pytest.mark.parametrize("name", cover().scenarios)
def test_short_pages_and_half_batches_do_no_harm(made: CrashWorld, name: str) -> None:
    with scarce(made):
        figures = explore(made, [name], sample=1)
    assert not figures.violations, "\n".join(str(trial) for _, trial in figures.violations)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_two_deaths_in_a_row(made: CrashWorld, name: str) -> None:
    figures = explore(made, [name], at_once=2, sample=30)
    assert not figures.violations, "\n".join(str(trial) for _, trial in figures.violations)


def test_an_accepted_cancel_outlives_its_caller(made: CrashWorld) -> None:
    """A dead-lettered saga was on nobody's list but people's: the cancel stayed undone when its process died."""
    figures = explore(made, ["cancel_dead_lettered"])
    assert not figures.violations, "\n".join(str(trial) for _, trial in figures.violations)


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
