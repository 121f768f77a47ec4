"""Lives that end in a purge, and starts under the key of what was purged."""

from __future__ import annotations

from tests.faults.sagas import STAGE
from tests.faults.scenario import ALWAYS, Scenarios, life
from tests.faults.world import CrashWorld

PURGING = Scenarios()


@PURGING.ends()
def _purged_and_started_again(world: CrashWorld) -> None:
    life(world)
    world.keep_no_longer()
    world.start()
    world.settle()


@PURGING.ends("COMPENSATED")
def _undone_purged_and_started_again(world: CrashWorld) -> None:
    """While a step is in doubt it is kept."""
    STAGE.reject = {"second"}
    life(world)
    world.keep_no_longer()
    STAGE.reject = set()
    world.start()
    world.settle()


@PURGING.ends()
def _large_results_purged(world: CrashWorld) -> None:
    life(world, "bulky")
    world.keep_no_longer()
    world.start("bulky")
    world.settle()


@PURGING.ends()
def _purged_by_an_operator(world: CrashWorld) -> None:
    life(world)
    world.clock.advance(60.0)
    world.purge()
    world.start()
    world.settle()


@PURGING.ends()
def _purged_by_an_operator_who_died(world: CrashWorld) -> None:
    """Or who was not answered: the supervisor goes on where the purge ended."""
    life(world, "bulky")
    world.clock.advance(60.0)
    world.purge_once()
    world.keep_no_longer()
    world.start("bulky")
    world.settle()


@PURGING.ends("COMPENSATED")
def _failed_settled_and_purged(world: CrashWorld) -> None:
    STAGE.fail = {"second": ALWAYS}
    life(world, "halting")
    world.operate("resolve", "seen", "", ())
    world.clock.advance(60.0)
    world.purge()
    world.start("halting")
    world.settle()


@PURGING.ends("COMPENSATED")
def _failed_settled_and_undone_after_all(world: CrashWorld) -> None:
    """What is purged meanwhile is purged, or undone: never half of each."""
    STAGE.fail = {"second": ALWAYS}
    life(world, "halting")
    world.operate("resolve", "seen", "", ())
    world.clock.advance(60.0)
    world.operate("compensate", "after all")
    world.settle()


@PURGING.ends()
def _started_again_while_it_is_purged(world: CrashWorld) -> None:
    life(world)
    world.clock.advance(60.0)
    world.purge_once()
    world.start()
    world.purge()
    world.start()
    world.settle()


@PURGING.ends()
def _started_again_after_its_item_was_lost(world: CrashWorld) -> None:
    life(world)
    world.lose_items()
    world.start()
    world.settle()
