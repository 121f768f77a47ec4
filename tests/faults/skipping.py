"""Lives of sagas whose steps are skipped, and during which a release changes the answer."""

from __future__ import annotations

from tests.faults.sagas import STAGE, Wanted
from tests.faults.scenario import Scenarios, cancel_in, life
from tests.faults.world import CrashWorld

SKIPPING = Scenarios()


@SKIPPING.ends("COMPLETED")
def _skipped(world: CrashWorld) -> None:
    life(world, "skipping")


@SKIPPING.ends("COMPLETED")
def _skipped_at_both_ends(world: CrashWorld) -> None:
    life(world, "skipping-ends")


@SKIPPING.ends("COMPENSATED")
def _skipped_and_undone(world: CrashWorld) -> None:
    STAGE.reject = {"third"}
    life(world, "skipping")


@SKIPPING.ends("CANCELLED")
def _skipped_and_cancelled(world: CrashWorld) -> None:
    cancel_in(world, "first")
    life(world, "skipping")


@SKIPPING.ends("COMPLETED", "CANCELLED")
def _skipped_at_both_ends_and_cancelled(world: CrashWorld) -> None:
    world.start("skipping-ends")
    world.steps(1)
    world.cancel()
    world.settle()


@SKIPPING.ends("COMPLETED")
def _skipped_until_a_release(world: CrashWorld) -> None:
    """What nobody has journaled by then runs."""
    world.start("skipping")
    world.until("StepCompleted", "first")
    world.deploy(Wanted)
    world.settle()
    world.deploy()


@SKIPPING.ends("COMPLETED")
def _skipped_from_a_release_on(world: CrashWorld) -> None:
    world.deploy(Wanted)
    world.start("skipping")
    world.until("StepCompleted", "first")
    world.deploy()
    world.settle()


@SKIPPING.ends("COMPLETED")
def _passed_over_after_a_failure(world: CrashWorld) -> None:
    """A release says no between two attempts."""
    STAGE.fail = {"second": 1}
    world.deploy(Wanted)
    world.start("skipping")
    world.until("StepFailed", "second")
    world.deploy()
    world.settle()


@SKIPPING.ends("COMPENSATED")
def _passed_over_and_undone(world: CrashWorld) -> None:
    STAGE.reject = {"third"}
    _passed_over_after_a_failure(world)
