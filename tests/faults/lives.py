"""The lives of sagas of steps: retries, undos, cancels, operators, lost messages."""

from __future__ import annotations

from sagas.authoring.context import Context
from sagas.testing.faults import ProcessDied
from tests.faults.sagas import STAGE
from tests.faults.scenario import ALWAYS, Scenarios, cancel_in, life
from tests.faults.world import CrashWorld

LIVES = Scenarios()


@LIVES.ends("COMPLETED")
def _happy(world: CrashWorld) -> None:
    life(world)


@LIVES.ends("COMPLETED")
def _first_of_its_service(world: CrashWorld) -> None:
    world.tables.forget(world.settings.sagas_table, "pauses")  # so the start claims the tables
    life(world)


@LIVES.ends("COMPLETED")
def _short_lease(world: CrashWorld) -> None:
    life(world, "short")


@LIVES.ends("COMPENSATED")
def _short_lease_undone(world: CrashWorld) -> None:
    STAGE.reject = {"second"}
    life(world, "short")


@LIVES.ends("COMPLETED")
def _retry_at_once(world: CrashWorld) -> None:
    STAGE.fail = {"first": 1}
    life(world)


@LIVES.ends("COMPLETED")
def _retry_later(world: CrashWorld) -> None:
    STAGE.fail = {"second": 1}
    life(world)


@LIVES.ends("COMPENSATED")
def _exhausted_compensate(world: CrashWorld) -> None:
    STAGE.fail = {"second": ALWAYS}
    life(world)


@LIVES.ends("FAILED")
def _exhausted_fail(world: CrashWorld) -> None:
    STAGE.fail = {"second": ALWAYS}
    life(world, "halting")


@LIVES.ends("DEAD_LETTERED")
def _exhausted_dead_letter(world: CrashWorld) -> None:
    STAGE.fail = {"second": ALWAYS}
    life(world, "parked")


@LIVES.ends("COMPENSATED")
def _rejected(world: CrashWorld) -> None:
    STAGE.reject = {"second"}
    life(world)


@LIVES.ends("COMPENSATED")
def _undo_retried(world: CrashWorld) -> None:
    STAGE.reject, STAGE.fail = {"second"}, {"undo_first": 1}
    life(world)


@LIVES.ends("COMPENSATION_FAILED")
def _undo_fails(world: CrashWorld) -> None:
    STAGE.reject, STAGE.fail = {"second"}, {"undo_first": ALWAYS}
    life(world)


@LIVES.ends("COMPENSATED")
def _undo_retried_by_an_operator(world: CrashWorld) -> None:
    STAGE.reject, STAGE.fail = {"second"}, {"undo_first": 3}
    life(world)
    world.operate("retry", "fixed")
    world.settle()


@LIVES.ends("COMPENSATION_FAILED")
def _undo_settled_by_hand(world: CrashWorld) -> None:
    STAGE.reject, STAGE.fail = {"second"}, {"undo_first": ALWAYS}
    life(world)
    world.operate("resolve", "done by hand", "refunded", ("first",))
    world.settle()


@LIVES.ends("CANCELLED")
def _cancel_before(world: CrashWorld) -> None:
    world.start()
    world.cancel()
    world.settle()


@LIVES.ends("CANCELLED")
def _cancel_between(world: CrashWorld) -> None:
    world.start()
    world.steps(1)
    world.cancel()
    world.settle()


@LIVES.ends("CANCELLED", "COMPLETED")
def _cancel_during_a_step(world: CrashWorld) -> None:
    cancel_in(world, "first")
    life(world)


@LIVES.ends("CANCELLED", "COMPLETED")
def _cancel_during_the_last_step(world: CrashWorld) -> None:
    cancel_in(world, "second")
    life(world)


@LIVES.ends("COMPENSATED")
def _cancel_while_undoing(world: CrashWorld) -> None:
    STAGE.reject = {"second"}
    cancel_in(world, "undo_first")
    life(world)


@LIVES.ends("CANCELLED")
def _cancel_dead_lettered(world: CrashWorld) -> None:
    STAGE.fail = {"second": ALWAYS}
    life(world, "parked")
    world.cancel()
    world.settle()


@LIVES.ends("COMPLETED", "DEAD_LETTERED")
def _redriven(world: CrashWorld) -> None:
    STAGE.fail = {"second": 2}
    life(world, "parked")
    world.clock.advance(5.0)
    world.mailbox.redrive()
    world.settle()


@LIVES.ends("COMPLETED")
def _retried_by_an_operator_then_redriven(world: CrashWorld) -> None:
    STAGE.fail = {"second": 2}
    life(world, "parked")
    world.operate("retry", "fixed")
    world.settle()
    world.mailbox.redrive()
    world.settle()


@LIVES.ends("COMPENSATED")
def _dead_lettered_undone_by_an_operator(world: CrashWorld) -> None:
    STAGE.fail = {"second": ALWAYS}
    life(world, "parked")
    world.operate("compensate", "give up")
    world.settle()


@LIVES.ends("COMPENSATED")
def _failed_undone_by_an_operator(world: CrashWorld) -> None:
    STAGE.fail = {"second": ALWAYS}
    life(world, "halting")
    world.operate("compensate", "give up")
    world.settle()


@LIVES.ends("FAILED")
def _failed_settled_by_an_operator(world: CrashWorld) -> None:
    STAGE.fail = {"second": ALWAYS}
    life(world, "halting")
    world.operate("resolve", "seen", "", ())
    world.settle()


@LIVES.ends("COMPLETED")
def _large_results(world: CrashWorld) -> None:
    life(world, "bulky")


@LIVES.ends("COMPLETED")
def _inputs_out_of_reach(world: CrashWorld) -> None:
    """For longer than the attempts of a step would last."""
    world.start("bulky")
    world.until("StepCompleted", "first")
    STAGE.unreadable = 24
    world.settle()


@LIVES.ends("COMPENSATED")
def _inputs_of_an_undo_out_of_reach(world: CrashWorld) -> None:
    STAGE.reject = {"second"}
    world.start("bulky")
    world.until("StepFailed", "second")
    STAGE.unreadable = 24
    world.settle()


@LIVES.ends("COMPENSATED")
def _large_results_undone(world: CrashWorld) -> None:
    STAGE.reject = {"second"}
    life(world, "bulky")


@LIVES.ends("COMPLETED")
def _circuit_breaker(world: CrashWorld) -> None:
    STAGE.fail = {"first": 2}
    life(world, "guarded")


@LIVES.ends("COMPENSATED", "COMPLETED")
def _circuit_breaker_not_waited_for(world: CrashWorld) -> None:
    """COMPLETED if the breaker does not hear of the failures."""
    STAGE.fail = {"second": 3}
    life(world, "hasty")


@LIVES.ends("COMPENSATED")
def _undo_when_started(world: CrashWorld) -> None:
    STAGE.fail = {"second": ALWAYS}
    life(world, "started")


def _late_in(world: CrashWorld, step: str, *attempts: int) -> None:
    """Have a step or undo take nine seconds, of the five that it has, in these attempts."""

    def during(name: str, ctx: Context) -> None:
        if name == step and ctx.attempt in attempts:
            world.clock.advance(9.0)

    STAGE.during = during


@LIVES.ends("COMPLETED")
def _late_once(world: CrashWorld) -> None:
    _late_in(world, "second", 1)
    life(world)


@LIVES.ends("COMPENSATED")
def _late_each_time(world: CrashWorld) -> None:
    _late_in(world, "second", 1, 2, 3)
    life(world)


@LIVES.ends("COMPENSATED")
def _late_at_last(world: CrashWorld) -> None:
    STAGE.fail = {"second": 2}
    _late_in(world, "second", 3)
    life(world)


@LIVES.ends("COMPENSATED")
def _late_and_undone_when_started(world: CrashWorld) -> None:
    _late_in(world, "second", 1, 2, 3)
    life(world, "started")


@LIVES.ends("COMPENSATED")
def _late_undo(world: CrashWorld) -> None:
    STAGE.reject = {"second"}
    _late_in(world, "undo_first", 1)
    life(world)


@LIVES.ends("COMPLETED")
def _message_lost(world: CrashWorld) -> None:
    world.start()
    world.steps(1)
    world.mailbox.lose()
    world.settle()


@LIVES.ends("COMPENSATED")
def _message_of_an_undo_lost(world: CrashWorld) -> None:
    STAGE.reject = {"second"}
    world.start()
    world.steps(2)
    world.mailbox.lose()
    world.settle()


@LIVES.ends("COMPLETED")
def _every_message_lost(world: CrashWorld) -> None:
    world.start()
    for _ in range(6):
        world.steps(1)
        world.mailbox.lose()
    world.settle()


def _given_up(world: CrashWorld) -> None:
    """Every message is lost until the supervisor gives up, and nothing goes on by itself meanwhile."""
    for _ in range(4):
        world.stall()
        if any(state.recovery.exhausted for state in world.states()):
            break
    world.settle()


@LIVES.ends("CANCELLED", "COMPENSATED", "COMPLETED")
def _messages_lost_beyond_patience(world: CrashWorld) -> None:
    """COMPLETED where what was disturbed used up fewer stalls."""
    world.start("impatient")
    _given_up(world)


@LIVES.ends("COMPENSATION_FAILED", "COMPENSATED")
def _messages_of_an_undo_lost_beyond_patience(world: CrashWorld) -> None:
    """COMPENSATED likewise, and where the undo is chained."""
    STAGE.reject = {"second"}
    world.start("impatient")
    world.steps(2)
    _given_up(world)


def _unanswered(world: CrashWorld) -> None:
    """No function can run until the supervisor has sent more messages in vain than there are stalls to forgive."""
    for _ in range(4):
        world.silence()
    world.settle()


@LIVES.ends("COMPLETED")
def _a_function_that_cannot_run(world: CrashWorld) -> None:
    world.start("restless")
    _unanswered(world)


@LIVES.ends("COMPENSATED")
def _an_undo_whose_function_cannot_run(world: CrashWorld) -> None:
    STAGE.reject = {"second"}
    world.start("restless")
    world.steps(2)
    _unanswered(world)


@LIVES.ends("COMPLETED")
def _dies_in_a_step(world: CrashWorld) -> None:
    died: list[str] = []

    def during(name: str, ctx: Context) -> None:
        if not died:
            died.append(name)
            raise ProcessDied

    STAGE.during = during
    life(world)


@LIVES.ends("COMPLETED")
def _started_twice(world: CrashWorld) -> None:
    world.start()
    world.start()
    world.settle()
    world.start()
    world.settle()


@LIVES.ends("COMPLETED")
def _started_without_a_key(world: CrashWorld) -> None:
    world.start(key=None)
    world.settle()


@LIVES.ends("COMPLETED")
def _every_message_again_and_again(world: CrashWorld) -> None:
    STAGE.fail = {"second": 1}
    world.echo = True
    life(world)


@LIVES.ends("COMPENSATED")
def _every_undo_again_and_again(world: CrashWorld) -> None:
    STAGE.reject = {"second"}
    world.echo = True
    life(world)


@LIVES.ends("COMPLETED")
def _slow_message_overtaken(world: CrashWorld) -> None:
    """The supervisor sends a message anew that was only slow; both arrive, while the retry is due."""
    STAGE.fail = {"second": 1}
    world.start()
    world.steps(1)
    world.mailbox.delay(400.0)
    world.settle()


@LIVES.ends("COMPLETED")
def _steps_take_their_time(world: CrashWorld) -> None:
    """Three of them take 30 s of the 40 that a function may act, and each may take longer."""

    def during(name: str, ctx: Context) -> None:
        world.clock.advance(10.0)

    STAGE.during = during
    life(world, "long")


@LIVES.ends("COMPENSATED")
def _a_step_outlasts_the_deadline(world: CrashWorld) -> None:
    def during(name: str, ctx: Context) -> None:
        world.clock.advance(10.0 if name == "first" else 0.0)

    STAGE.during = during
    life(world, "hurried")


@LIVES.ends("COMPENSATED")
def _steps_take_their_time_and_are_undone(world: CrashWorld) -> None:
    def during(name: str, ctx: Context) -> None:
        world.clock.advance(8.0)

    STAGE.during, STAGE.reject = during, {"fourth"}
    life(world, "long")


@LIVES.ends("COMPLETED")
def _steps_retried_one_after_the_other(world: CrashWorld) -> None:
    """The second and third at once, the fourth later."""
    STAGE.fail = {"second": 1, "third": 1, "fourth": 1}
    life(world, "long")


@LIVES.ends("CANCELLED", "COMPLETED")
def _cancel_during_a_step_in_the_middle(world: CrashWorld) -> None:
    cancel_in(world, "second")
    life(world, "long")
