"""Lives during which what was stored stops fitting the code."""

from __future__ import annotations

from tests.faults.sagas import (
    STAGE,
    HesitantUnasked,
    HesitantWithoutSecond,
    Short,
    ShortWithoutSecond,
    ShortWithoutUndos,
    WithoutFirst,
)
from tests.faults.scenario import Scenarios, life
from tests.faults.world import CrashWorld

CHANGING = Scenarios()
_SETTLE = 900.0
"""Seconds for which what does not fit waits for a release."""


@CHANGING.ends("DEAD_LETTERED", "COMPENSATION_FAILED")
def _type_changed(world: CrashWorld) -> None:
    """The undo that a cancel asks for cannot read it either."""
    STAGE.refuse = True
    life(world, "stamped")


@CHANGING.ends("COMPLETED")
def _type_changed_and_back(world: CrashWorld) -> None:
    STAGE.refuse = True
    life(world, "stamped")
    STAGE.refuse = False
    world.operate("retry", "it fits again")
    world.settle()


@CHANGING.ends("COMPENSATION_FAILED")
def _type_changed_given_up(world: CrashWorld) -> None:
    """The undo cannot read it either."""
    STAGE.refuse = True
    life(world, "stamped")
    world.operate("compensate", "give up")
    world.settle()


@CHANGING.ends("COMPENSATED")
def _type_of_an_undo_changed_and_back(world: CrashWorld) -> None:
    STAGE.reject = {"second"}
    world.start("stamped")
    world.steps(2)
    STAGE.refuse = True
    world.settle()
    STAGE.refuse = False
    world.operate("retry", "it fits again")
    world.settle()


@CHANGING.ends("CANCELLED", "COMPENSATION_FAILED")
def _type_changed_cancelled(world: CrashWorld) -> None:
    STAGE.refuse = True
    world.start("stamped")
    world.steps(2)
    STAGE.refuse = False
    world.cancel()
    world.settle()


@CHANGING.ends("COMPLETED", "COMPENSATED")
def _code_gone_before_the_first_step_and_back(world: CrashWorld) -> None:
    """COMPENSATED where a step's only attempt was lost."""
    world.start("plain")
    world.deploy(WithoutFirst)
    world.settle()
    world.deploy()
    world.operate("retry", "it is there again")
    world.settle()


@CHANGING.ends("COMPLETED", "COMPENSATED")
def _code_gone_between_two_looks_and_back(world: CrashWorld) -> None:
    """COMPENSATED where a process lingered until the wait was over."""
    world.start("hesitant")
    world.signal()
    world.until("StepPostponed", "second")
    world.deploy(HesitantWithoutSecond)
    world.settle()
    world.deploy()
    world.operate("retry", "it is there again")
    world.settle()


@CHANGING.ends("COMPLETED", "COMPENSATED")
def _code_that_asks_gone_between_two_looks(world: CrashWorld) -> None:
    """COMPENSATED where a process lingered until the wait was over."""
    world.start("hesitant")
    world.until("StepPostponed", "answer")
    world.deploy(HesitantUnasked)
    world.until("WaitStarted", "answer")
    world.signal()
    world.settle()
    world.deploy()


def _started_before_a_release(world: CrashWorld, other: type, looks: int = 4) -> None:
    """A saga's first step is done, and the code of what follows is not deployed any more; it is looked at."""
    world.start("short")
    world.until("StepCompleted", "first")
    world.deploy(other, settle=_SETTLE)
    world.steps(looks)


@CHANGING.ends("COMPLETED", late="DEAD_LETTERED")
def _a_release_comes_and_goes(world: CrashWorld) -> None:
    _started_before_a_release(world, ShortWithoutSecond)
    world.deploy()
    world.settle()


@CHANGING.ends("COMPLETED", late="DEAD_LETTERED")
def _a_release_on_half_of_the_functions(world: CrashWorld) -> None:
    """Every other process has its code."""
    world.start("short")
    for turn in range(12):
        world.deploy(*((ShortWithoutSecond,) if turn % 2 else (Short,)), settle=_SETTLE)
        world.steps(1)
    world.deploy()
    world.settle()


@CHANGING.ends("COMPLETED")
def _a_release_comes_for_good_and_is_taken_back(world: CrashWorld) -> None:
    """After its time the saga waits for an operator."""
    _started_before_a_release(world, ShortWithoutSecond)
    world.settle()
    world.deploy()
    world.operate("retry", "the code is back")
    world.settle()


@CHANGING.ends("CANCELLED", "COMPLETED", "COMPENSATION_FAILED")
def _cancelled_while_it_waits_for_a_release(world: CrashWorld) -> None:
    """If the step that the release removes has begun, nobody knows whether it has to be undone: an operator decides."""
    _started_before_a_release(world, ShortWithoutSecond)
    world.cancel()
    world.settle()
    world.deploy()
    world.settle()


@CHANGING.ends("COMPLETED", late="DEAD_LETTERED")
def _paused_while_a_release_comes_and_goes(world: CrashWorld) -> None:
    """A saga that is paused does not wait for a release; after the pause, its first look begins the time."""
    world.start("short")
    world.until("StepCompleted", "first")
    world.call(lambda engine: engine.pausing.pause("short", "ada"))
    world.deploy(ShortWithoutSecond, settle=_SETTLE)
    world.steps(4)
    world.call(lambda engine: engine.pausing.resume("short", "ada"))
    world.steps(4)
    world.deploy()
    world.settle()


@CHANGING.ends("COMPENSATED", late="COMPENSATION_FAILED")
def _undos_come_and_go(world: CrashWorld) -> None:
    STAGE.reject = {"second"}
    world.start("short")
    world.until("StepCompleted", "first")
    world.deploy(ShortWithoutUndos, settle=_SETTLE)
    world.steps(4)
    world.deploy()
    world.settle()
