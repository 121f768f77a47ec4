"""Lives of sagas with a pivot: what comes before it has completed, and behind it."""

from __future__ import annotations

from collections.abc import Callable

from sagas.authoring.context import Context
from sagas.core.states import SagaState
from sagas.testing.faults import ProcessDied
from tests.faults.sagas import STAGE
from tests.faults.scenario import ALWAYS, Scenarios, cancel_in, life
from tests.faults.world import CrashWorld

PIVOTS = Scenarios()
PIVOT_FAMILIES = Scenarios(families=True)


def _force(world: CrashWorld, whose: Callable[[SagaState], bool] = lambda state: state.parent is None) -> None:
    """An operator has sagas undone, who means it and says why."""
    for state in filter(whose, world.states()):
        world.call(
            lambda engine, state=state: engine.operations.compensate(
                state.saga, state.saga_id, "it was paid back", "ada", force=True
            )
        )


def _past_it(world: CrashWorld) -> None:
    """Let things happen until the pivot has completed, and nothing more than that takes."""
    world.start("pivotal")
    world.until("StepCompleted", "second")


@PIVOTS.ends("COMPLETED")
def _pivot_passed(world: CrashWorld) -> None:
    life(world, "pivotal")


@PIVOTS.ends("COMPENSATED", "DEAD_LETTERED")
def _pivot_refused(world: CrashWorld) -> None:
    """DEAD_LETTERED where an execution before the one that says no was lost."""
    STAGE.reject = {"second"}
    life(world, "pivotal")


@PIVOTS.ends("COMPENSATED", "DEAD_LETTERED")
def _pivot_exhausted(world: CrashWorld) -> None:
    """DEAD_LETTERED where one of its executions was lost."""
    STAGE.fail = {"second": ALWAYS}
    life(world, "pivotal")


@PIVOTS.ends("DEAD_LETTERED")
def _pivot_then_refused(world: CrashWorld) -> None:
    STAGE.reject = {"third"}
    life(world, "pivotal")


@PIVOTS.ends("COMPLETED")
def _pivot_then_exhausted_and_retried(world: CrashWorld) -> None:
    STAGE.fail = {"third": 2}
    life(world, "pivotal")
    world.operate("retry", "fixed")
    world.settle()


@PIVOTS.ends("DEAD_LETTERED")
def _pivot_then_given_up_without_force(world: CrashWorld) -> None:
    STAGE.fail = {"third": ALWAYS}
    life(world, "pivotal")
    world.operate("compensate", "enough")
    world.settle()


@PIVOTS.ends("COMPENSATED")
def _pivot_then_undone_by_force(world: CrashWorld) -> None:
    STAGE.reject = {"third"}
    life(world, "pivotal")
    _force(world)
    world.settle()


@PIVOTS.ends("COMPENSATED")
def _pivot_passed_and_undone_by_force(world: CrashWorld) -> None:
    life(world, "pivotal")
    _force(world)
    world.settle()


@PIVOTS.ends("CANCELLED")
def _pivot_cancelled_before(world: CrashWorld) -> None:
    world.start("pivotal")
    world.until("StepCompleted", "first")
    world.cancel()
    world.settle()


@PIVOTS.ends("COMPLETED")
def _pivot_cancelled_during(world: CrashWorld) -> None:
    cancel_in(world, "second")
    life(world, "pivotal")


@PIVOTS.ends("CANCELLED", "COMPLETED", "DEAD_LETTERED")
def _pivot_cancelled_while_it_fails(world: CrashWorld) -> None:
    """COMPLETED or DEAD_LETTERED where an execution was lost."""
    STAGE.fail = {"second": 1}
    cancel_in(world, "second")
    life(world, "pivotal")


@PIVOTS.ends("COMPLETED")
def _pivot_cancelled_behind(world: CrashWorld) -> None:
    _past_it(world)
    world.cancel()
    world.settle()


@PIVOTS.ends("COMPLETED")
def _pivot_last_and_cancelled_during(world: CrashWorld) -> None:
    cancel_in(world, "second")
    life(world, "pivotal-last")


def _dies_in_its_pivot(name: str, ctx: Context) -> None:
    if name == "second":
        raise ProcessDied


@PIVOTS.ends("DEAD_LETTERED")
def _pivot_in_doubt(world: CrashWorld) -> None:
    STAGE.during, world.counted = _dies_in_its_pivot, True
    life(world, "pivotal")
    world.cancel()
    world.settle()


@PIVOTS.ends("COMPENSATED")
def _pivot_in_doubt_and_undone_by_force(world: CrashWorld) -> None:
    STAGE.during = _dies_in_its_pivot
    life(world, "pivotal")
    _force(world)
    world.settle()


def _given_up(world: CrashWorld) -> None:
    """Every message behind the pivot is lost until the supervisor gives up."""
    _past_it(world)
    for _ in range(4):
        world.stall()
        if any(state.recovery.exhausted for state in world.states()):
            break
    world.settle()


@PIVOTS.ends("COMPLETED", "DEAD_LETTERED")
def _pivot_then_messages_lost_beyond_patience(world: CrashWorld) -> None:
    """COMPLETED where what was disturbed used up fewer stalls."""
    _given_up(world)


@PIVOTS.ends("COMPLETED")
def _pivot_then_messages_lost_and_retried(world: CrashWorld) -> None:
    _given_up(world)
    world.operate("retry", "the queue is back")
    world.settle()


@PIVOTS.ends("COMPENSATED", "COMPLETED", "DEAD_LETTERED")
def _pivot_before_the_deadline(world: CrashWorld) -> None:
    """Its message is so late that the deadline comes first; where the process of a pivot lingered, it is in doubt."""
    world.start("late")
    world.until("StepCompleted", "first")
    world.mailbox.delay(400.0)
    world.settle()


@PIVOTS.ends("DEAD_LETTERED")
def _pivot_then_overdue(world: CrashWorld) -> None:
    life(world, "late")


@PIVOTS.ends("COMPLETED", "DEAD_LETTERED")
def _pivot_then_overdue_and_signalled(world: CrashWorld) -> None:
    """DEAD_LETTERED where a process lingered until the wait was over."""
    world.start("late")
    world.until("SagaTimedOut", "")
    world.signal()
    world.settle()


@PIVOTS.ends("COMPENSATED")
def _pivot_then_undone_by_force_while_it_waits(world: CrashWorld) -> None:
    world.start("late")
    world.until("SagaTimedOut", "")
    _force(world)
    world.settle()


@PIVOT_FAMILIES.ends("CANCELLED", "COMPENSATION_FAILED", "COMPLETED")
def _pivot_of_a_child_not_reached(world: CrashWorld) -> None:
    """CANCELLED, unless the cancel lingered."""
    world.start("pivot-family")
    world.until("ChildrenStarted", "born")
    world.cancel()
    world.settle()


@PIVOT_FAMILIES.ends("COMPENSATION_FAILED", "CANCELLED", "COMPLETED")
def _pivot_of_a_child_passed(world: CrashWorld) -> None:
    """CANCELLED where the cancel overtook both pivots, COMPLETED where it came too late."""
    world.start("pivot-family")
    world.until("StepCompleted", "send")
    world.cancel()
    world.settle()


@PIVOT_FAMILIES.ends("COMPENSATED")
def _pivot_of_a_child_undone_by_force(world: CrashWorld) -> None:
    STAGE.reject = {"last"}
    life(world, "pivot-family")
    _force(world, lambda state: state.parent is not None)
    world.settle()
    world.operate("retry", "both are paid back")
    world.settle()
