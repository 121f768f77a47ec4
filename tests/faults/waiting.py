"""Lives of sagas that wait: for a signal, a time, an operator who resumes them."""

from __future__ import annotations

from sagas.authoring.context import Context
from tests.faults.sagas import STAGE
from tests.faults.scenario import ALWAYS, Scenarios, life
from tests.faults.world import CrashWorld

WAITING = Scenarios()


@WAITING.ends("COMPLETED", "COMPENSATED")
def _signalled(world: CrashWorld) -> None:
    """COMPENSATED where a process lingered until the wait was over."""
    world.start("asking")
    world.steps(2)
    world.signal()
    world.settle()


@WAITING.ends("COMPLETED", "COMPENSATED")
def _a_long_wait_is_taken_over(world: CrashWorld) -> None:
    """Its holder died. COMPENSATED where a process lingered until the wait was over."""
    world.start("asking")
    world.until("WaitStarted", "answer")
    world.abandon()
    world.clock.advance(240.0)
    world.steps(8)
    if any(state.waiting_for and state.steps[state.cursor].signalled for state in world.states()):
        raise AssertionError("a signal that was accepted waits for the end of the wait")
    world.signal()
    world.settle()


@WAITING.ends("COMPLETED", "COMPENSATED")
def _signal_out_of_reach(world: CrashWorld) -> None:
    """S3 does not give back the value of a large signal. COMPENSATED where a process lingered until the wait was
    over."""
    world.start("asking")
    world.steps(2)
    STAGE.unreadable = 24
    world.signal("x" * 20_000)
    world.settle()


@WAITING.ends("COMPLETED", "COMPENSATED")
def _signalled_early(world: CrashWorld) -> None:
    """COMPENSATED where the signal's write lingered until the wait was over, and its sender got no answer."""
    world.start("asking")
    world.signal()
    world.settle()


@WAITING.ends("COMPLETED", "COMPENSATED")
def _signalled_late(world: CrashWorld) -> None:
    """COMPLETED where what was disturbed made the wait begin later."""
    world.start("asking")
    world.steps(2)
    world.clock.advance(1001.0)
    world.signal()
    world.settle()


@WAITING.ends("COMPLETED", "COMPENSATED")
def _signalled_twice(world: CrashWorld) -> None:
    """COMPENSATED where a process lingered until the wait was over."""
    world.start("brief")
    world.steps(1)
    world.signal()
    world.signal("no")
    world.signal()
    world.settle()


def _answer_itself(name: str, ctx: Context) -> None:
    if name == "answer":
        ctx.signal("yes")


@WAITING.ends("COMPLETED")
def _answered_by_the_code_that_asks(world: CrashWorld) -> None:
    STAGE.during = _answer_itself
    life(world, "asking")


@WAITING.ends("COMPLETED", "COMPENSATED")
def _answered_by_the_code_that_asks_half_a_minute(world: CrashWorld) -> None:
    """COMPENSATED where its process died behind the answer, and lingered until the wait was over."""
    STAGE.during = _answer_itself
    life(world, "brief-asking")


@WAITING.ends("COMPENSATED")
def _signalled_and_undone(world: CrashWorld) -> None:
    STAGE.reject = {"second"}
    world.start("asking")
    world.steps(2)
    world.signal()
    world.settle()


@WAITING.ends("COMPENSATED")
def _waited_in_vain(world: CrashWorld) -> None:
    life(world, "asking")


@WAITING.ends("COMPENSATED")
def _waited_in_vain_for_half_a_minute(world: CrashWorld) -> None:
    life(world, "brief-asking")


@WAITING.ends("COMPENSATED")
def _could_not_ask(world: CrashWorld) -> None:
    STAGE.fail = {"answer": ALWAYS}
    life(world, "asking")


@WAITING.ends("CANCELLED", "COMPENSATED")
def _cancelled_while_it_waits(world: CrashWorld) -> None:
    """COMPENSATED where a process lingered until the wait was over."""
    world.start("asking")
    world.steps(2)
    world.cancel()
    world.settle()


@WAITING.ends("CANCELLED", "COMPENSATED")
def _signalled_and_cancelled(world: CrashWorld) -> None:
    """COMPENSATED where a process lingered until the wait was over."""
    world.start("asking")
    world.steps(2)
    world.signal()
    world.cancel()
    world.settle()


@WAITING.ends("COMPLETED")
def _slept_and_looked_again(world: CrashWorld) -> None:
    life(world, "sleepy")


@WAITING.ends("FAILED")
def _looked_in_vain_until_its_time_was_up(world: CrashWorld) -> None:
    life(world, "unready")


@WAITING.ends("COMPENSATED")
def _stopped_a_job(world: CrashWorld) -> None:
    life(world, "job")


@WAITING.ends("CANCELLED", "COMPENSATED")
def _cancelled_during_a_job(world: CrashWorld) -> None:
    """COMPENSATED where the job's end came first."""
    world.start("job")
    world.steps(1)
    world.cancel()
    world.settle()


@WAITING.ends("COMPENSATED")
def _over_its_deadline(world: CrashWorld) -> None:
    life(world, "endless")


def _paused(world: CrashWorld, happening: int = 4, saga: str = "pair") -> None:
    """Have the type paused for a while; all environments know. So much happens meanwhile."""
    world.call(lambda engine: engine.pausing.pause(saga, "ada"))
    world.clock.advance(6.0)
    world.steps(happening)


@WAITING.ends("COMPLETED")
def _paused_and_resumed(world: CrashWorld) -> None:
    world.start()
    world.steps(1)
    _paused(world)
    world.call(lambda engine: engine.pausing.resume("pair", "ada"))
    world.settle()


@WAITING.ends("COMPLETED")
def _resumed_by_a_client_that_may_die(world: CrashWorld) -> None:
    """If it stored the end of the pause, nobody else does what it left to do, but the supervisor."""
    world.start()
    world.steps(1)
    _paused(world)
    if world.resume_once("pair"):
        world.call(lambda engine: engine.pausing.resume("pair", "ada"))
    world.settle()


@WAITING.ends("COMPLETED")
def _paused_and_resumed_at_once(world: CrashWorld) -> None:
    """Workers go on believing that it is paused, for some seconds."""
    world.start()
    world.steps(1)
    _paused(world, 0)
    believed = world.engine.pauses.all(fresh=True)
    world.call(lambda engine: engine.pausing.resume("pair", "ada"))
    world.engine.pauses.cache(believed)
    world.settle()


@WAITING.ends("CANCELLED")
def _paused_and_cancelled(world: CrashWorld) -> None:
    world.start()
    world.steps(1)
    _paused(world)
    world.cancel()
    world.settle()


@WAITING.ends("CANCELLED", "COMPLETED")
def _cancelled_while_a_pause_parks_it(world: CrashWorld) -> None:
    """Its message is still on its way when the cancel comes. COMPLETED where the cancel was not accepted."""
    world.start()
    _paused(world, 0)
    world.cancel_once()
    world.settle()
    if any(state.cancel.at and not state.ended for state in world.states()):
        raise AssertionError("an accepted cancel waits for the end of a pause")
    world.call(lambda engine: engine.pausing.resume("pair", "ada"))
    world.settle()


@WAITING.ends("COMPLETED")
def _paused_for_longer_than_a_step_has_patience(world: CrashWorld) -> None:
    world.start("eager")
    world.steps(1)
    _paused(world, saga="eager")
    world.clock.advance(3600.0)
    world.call(lambda engine: engine.pausing.resume("eager", "ada"))
    world.settle()
