"""Every request of every scenario fails in every way. The gate takes all of the short lives and a sample of the long;
``make proof`` takes all of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast
from unittest.mock import patch

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from moto import mock_aws

from sagas.core.events import Fact, StepFailed
from sagas.engine import committer
from sagas.engine.context import StepContext
from sagas.errors import Ambiguous
from sagas.store.entries import Entry
from sagas.testing.faults import DEATHS, DELAYS, LOST_ANSWERS, Wire
from tests.faults.explore import explore
from tests.faults.scenarios import EVERY, FAMILIES, SCENARIOS
from tests.faults.world import CrashWorld, world
from tests.support.aws import client, create_joins_table, create_tables
from tests.support.tables import refusal

Ask = Callable[[str, dict[str, Any]], Any]

SHORT = ("happy", "rejected", "happy, chained", "rejected, chained")
_BOUNDS = {"deaths": (0,), "lost answers": (0,), "delays": (1, 2, 3, 4, 5, 6, 7)}
_FAULTS = {"deaths": DEATHS, "lost answers": LOST_ANSWERS, "delays": DELAYS}


@pytest.fixture(scope="module")
def made() -> Iterator[CrashWorld]:
    with world() as one:
        yield one


@pytest.mark.parametrize("kind", _FAULTS)
@pytest.mark.parametrize("name", [name for name in EVERY if name not in FAMILIES])
def test_whatever_fails_once_nothing_is_lost_or_repeated(made: CrashWorld, name: str, kind: str) -> None:
    sample = None if name in SHORT and kind != "delays" else 12
    figures = explore(made, [name], faults=_FAULTS[kind], bounds=_BOUNDS[kind], sample=sample)
    assert figures.runs > 10
    assert not figures.violations, "\n".join(str(trial) for _, trial in figures.violations)


@pytest.mark.parametrize("kind", _FAULTS)
@pytest.mark.parametrize("name", [name for name in EVERY if name in FAMILIES])
def test_whatever_fails_once_parents_and_children_end_together(made: CrashWorld, name: str, kind: str) -> None:
    bounds = (*_BOUNDS[kind], 8) if kind == "delays" else _BOUNDS[kind]
    figures = explore(made, [name], faults=_FAULTS[kind], bounds=bounds, sample=4)
    assert figures.runs == 5
    assert not figures.violations, "\n".join(str(trial) for _, trial in figures.violations)


@pytest.mark.parametrize("name", [name for name in EVERY if name != "paused_and_cancelled"])
def test_reads_that_are_behind_do_no_harm(made: CrashWorld, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Indexes always are, and items unless asked otherwise: by longer here than from one visit of the supervisor to the
    next, by less than a second mostly on AWS. The one left out has its pause seen at once, which functions do not
    promise."""
    monkeypatch.setattr(made.tables, "now", lambda: made.clock.now())
    monkeypatch.setattr(made.tables, "lag", 90.0)
    figures = explore(made, [name], sample=1)
    assert not figures.violations, "\n".join(str(trial) for _, trial in figures.violations)


@pytest.mark.parametrize("name", EVERY)
def test_short_pages_and_half_batches_do_no_harm(made: CrashWorld, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """As DynamoDB answers where items are large, or asked for faster than the table has capacity."""
    monkeypatch.setattr(made.tables, "scarce", True)
    figures = explore(made, [name], sample=1)
    assert not figures.violations, "\n".join(str(trial) for _, trial in figures.violations)


@pytest.mark.parametrize("name", SHORT)
def test_two_deaths_in_a_row(made: CrashWorld, name: str) -> None:
    figures = explore(made, [name], at_once=2, sample=150)
    assert not figures.violations, "\n".join(str(trial) for _, trial in figures.violations)


def test_an_accepted_cancel_outlives_its_caller(made: CrashWorld) -> None:
    """A dead-lettered saga was on nobody's list but people's: the cancel stayed undone when its process died."""
    figures = explore(made, ["cancel_dead_lettered"])
    assert not figures.violations, "\n".join(str(trial) for _, trial in figures.violations)


@pytest.mark.parametrize("name", ["late_each_time", "late_at_last", "late_and_undone_when_started"])
def test_a_late_result_that_counts_is_missed(made: CrashWorld, name: str) -> None:
    with patch.object(StepContext, "late", property(lambda context: False)):
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


@pytest.mark.parametrize(
    "name",
    [
        *("retried_by_an_operator_then_redriven", "undo_retried", "message_lost"),
        *("children_undone_one_after_the_other", "cancelled_before_the_children_are_started", "a_family_is_purged"),
    ],
)
def test_the_tables_in_memory_answer_as_moto_does(made: CrashWorld, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request is put to both, in the same order."""
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(variable, "test")
    compared: list[str] = []
    with mock_aws():
        dynamodb = client("dynamodb")
        create_tables(dynamodb, "faults")
        create_joins_table(dynamodb, "faults")
        send: Ask = dynamodb._make_api_call
        memory: Ask = made.tables.answer

        def both(operation: str, request: dict[str, Any]) -> Any:
            compared.append(operation)
            mine, real = _outcome(memory, operation, request), _outcome(send, operation, request)
            assert mine == real, (operation, request)
            if isinstance(mine, str):
                raise refusal(mine, operation, CancellationReasons=[{"Code": "ConditionalCheckFailed"}])
            return mine

        made.wire.begin()
        monkeypatch.setitem(cast("dict[str, Any]", made.wire.answers), "dynamodb", both)
        with made.wire.installed():
            made.reset(families=SCENARIOS[name].families)
            SCENARIOS[name].play(made)
    assert len(compared) > 15


def _outcome(ask: Ask, operation: str, request: dict[str, Any]) -> Any:
    """The answer without what is not compared; an error's code."""
    try:
        answer = ask(operation, request)
    except ClientError as error:
        code: dict[str, Any] = getattr(error, "response", {})
        return code["Error"]["Code"]
    kept = {key: answer[key] for key in ("Item", "Items", "Attributes", "Responses", "Count") if key in answer}
    also: dict[str, Any] = {"UnprocessedKeys": {}} if operation == "BatchGetItem" else {}
    return kept | also | ({"ScannedCount": kept["Count"]} if "Count" in kept else {})
