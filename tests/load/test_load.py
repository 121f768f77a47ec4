"""A cut of the stories. ``make proof`` plays all of them, larger.

Of the fast set ``tests/engine/test_step_queues.py`` and ``test_recovery.py`` fail first if their subject breaks.
"""

from __future__ import annotations

import pytest

from sagas.core.commands import Backlog
from sagas.core.states import SagaState
from sagas.engine.step_queues import StepQueues
from sagas.messaging.work import BULK, NOW
from tests.load import stories
from tests.load.sagas import PARTS, Part, Sleeping, Whole

pytestmark = pytest.mark.slow


def test_a_line_of_hours_ends_as_if_there_were_none() -> None:
    told = stories.burst(sagas=400, concurrency=1)
    assert told.statuses == {"COMPLETED": 400}
    assert (told.sent_anew, told.attention, told.dead) == (0, 0, 0)
    assert told.over_after > stories.HOUR


def test_without_asking_the_line_healthy_sagas_are_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation sees it."""

    def no_line(lanes: StepQueues, state: SagaState) -> Backlog:
        return Backlog.LOST

    monkeypatch.setattr(StepQueues, "backlog", no_line)
    told = stories.burst(sagas=250, concurrency=1)
    assert told.statuses["COMPENSATED"] > 0
    assert told.attention > 0


def test_after_an_outage_of_an_hour_every_saga_ends_and_none_is_given_up() -> None:
    told = stories.outage(sagas=60)
    assert told.statuses == {"COMPLETED": 60}
    assert told.sent_anew > 0, "half of the messages are lost"
    assert (told.most_sent_anew, told.attention, told.dead) == (1, 0, 0)
    assert told.more["minutes from the end of the outage to the last end"] < 20


def unharmed(told: stories.Told, sagas: int) -> bool:
    """Whether all completed, no message counted as lost, and none needs a person any more."""
    return (told.statuses, told.stalls, told.attention) == ({"COMPLETED": sagas}, 0, 0)


def test_a_step_without_its_function_for_twelve_hours_harms_no_saga() -> None:
    told = stories.without_a_function("five-b", sagas=20)
    assert unharmed(told, 20)
    assert told.sent_anew > 0, "the supervisor does what it can"
    assert told.more["dead letters in the end"] > 20
    assert told.more["needed a person in the end"] > 0
    assert told.more["minutes until those that had started ended"] < 65


def test_believing_that_an_empty_queue_lost_its_messages_harms_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation sees it."""
    backlog = StepQueues.backlog

    def lost(lanes: StepQueues, state: SagaState) -> Backlog:
        said = backlog(lanes, state)
        return said if said is Backlog.WAITING else Backlog.LOST

    monkeypatch.setattr(StepQueues, "backlog", lost)
    told = stories.without_a_function("five-b", sagas=5)
    assert told.stalls > 0
    assert told.statuses["COMPENSATED"] > 0


@pytest.mark.parametrize("redriven", [False, True])
@pytest.mark.parametrize("miscounts", [False, True])
@pytest.mark.parametrize("queues", [("five-b",), (BULK, "five-b")], ids="+".join)
def test_a_step_or_bulk_without_a_function_harms_no_saga(
    queues: tuple[str, ...], miscounts: bool, redriven: bool
) -> None:
    told = stories.without_a_function(*queues, redriven=redriven, miscounts=miscounts)
    assert unharmed(told, 60)
    assert told.more["minutes until those that had started ended"] < (1 if redriven else 65)


@pytest.mark.parametrize("redriven", [False, True])
@pytest.mark.parametrize("miscounts", [False, True])
@pytest.mark.parametrize("queues", [(NOW,), (NOW, BULK), (NOW, BULK, "sleeping-wake")], ids="+".join)
def test_what_ends_waits_without_a_function_harms_no_saga(
    queues: tuple[str, ...], miscounts: bool, redriven: bool
) -> None:
    told = stories.without_a_function(*queues, saga_class=Sleeping, redriven=redriven, miscounts=miscounts)
    assert unharmed(told, 60)
    assert told.more["minutes until those that had started ended"] < 65


@pytest.mark.parametrize("redriven", [False, True])
@pytest.mark.parametrize("queue", [NOW, "part-make"])
def test_a_function_that_cannot_run_harms_no_family(queue: str, redriven: bool) -> None:
    told = stories.without_a_function(queue, saga_class=Whole, kin=(Part,), sagas=4, redriven=redriven, miscounts=True)
    assert unharmed(told, 4 * (PARTS + 1))
    hours = 6 if queue == NOW else 1
    assert told.more["minutes until those that had started ended"] < (1 if redriven else 60 * hours + 5)


def test_counts_that_are_late_and_wrong_harm_nothing() -> None:
    told = stories.burst(sagas=400, concurrency=1, miscounts=True)
    assert unharmed(told, 400)
    assert told.sent_anew == 0, "a line explains itself"


def test_a_steady_load_leaves_no_backlog() -> None:
    told = stories.steady(rate=10, seconds=60)
    assert told.statuses == {"COMPLETED": 600}
    assert (told.sent_anew, told.attention, told.dead) == (0, 0, 0)
    assert told.slowest < 10 * 1.25, "undisturbed it takes a second and a quarter"


def test_a_steady_load_of_chained_steps_is_one_invocation_a_saga() -> None:
    """And what died in the middle of a chain goes on without the supervisor, within the lease of its step and five
    seconds."""
    told = stories.steady(rate=10, seconds=60, chained=True)
    assert told.statuses == {"COMPLETED": 600}
    assert (told.sent_anew, told.attention, told.dead) == (0, 0, 0)
    assert told.invocations < 600 * 1.2
    assert told.over_after < 60 + 30


def test_throttled_writes_are_made_up_for_at_once() -> None:
    told = stories.throttling(rate=0.5, seconds=15 * stories.MINUTE)
    assert told.statuses == {"COMPLETED": 450}
    assert (told.attention, told.dead) == (0, 0)
    assert told.more["ended more than 10 s after the last start"] == 0


def test_what_the_partitions_of_indexes_do_not_take_waits_and_costs_no_attempt() -> None:
    told = stories.hot_partitions(seconds=20)
    assert told.statuses == {"COMPLETED": 80}
    assert told.more["writes refused"] > 200
    assert told.more["transactions refused"] > 200
    assert told.more["attempts that failed"] == 0
    assert (told.sent_anew, told.attention, told.dead) == (0, 0, 0)
    assert told.over_after < 5 * stories.MINUTE


def test_what_was_lost_is_recovered_wide_and_each_saga_once() -> None:
    told = stories.lost_messages(sagas=500)
    assert told.statuses == {"COMPLETED": 500}
    assert (told.most_sent_anew, told.attention, told.dead) == (1, 0, 0)
    assert told.more["recovered a second, unscaled"] > 200
    assert told.more["messages to recover them"] < 100, "20 take them all; those that came too late do nothing"


def test_what_wakes_in_the_same_second_is_on_its_way_within_minutes() -> None:
    told = stories.timers(sagas=200)
    assert told.statuses == {"COMPLETED": 200}
    assert (told.sent_anew, told.attention, told.dead) == (0, 0, 0)
    assert 0 <= told.more["seconds from their time to the last on its way"] < 300


def test_each_signal_is_taken_once_and_each_saga_ends() -> None:
    told = stories.signals(sagas=400)
    assert told.statuses == {"COMPLETED": 400}
    assert told.more["signals sent"] > 400
    assert told.more["signals taken"] == told.more["signals in journals"] == 400
    assert (told.sent_anew, told.attention, told.dead) == (0, 0, 0)


def test_each_join_is_taken_once_and_no_conflict_is_an_attempt() -> None:
    told = stories.families(parents=5)
    assert told.statuses == {"COMPLETED": 505}
    assert (told.more["joins taken"], told.more["attempts that failed"]) == (5, 0)
    assert (told.sent_anew, told.attention, told.dead) == (0, 0, 0)
