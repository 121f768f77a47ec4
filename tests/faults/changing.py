"""Lives during which what was stored stops fitting the code."""

from __future__ import annotations

from tests.faults.sagas import STAGE, HesitantUnasked, HesitantWithoutSecond, WithoutFirst
from tests.faults.scenario import Scenarios, life
from tests.faults.world import CrashWorld

CHANGING = Scenarios()


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
