"""The lives of sagas that are disturbed at every request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sagas.authoring.context import Context
from tests.faults.sagas import STAGE
from tests.faults.world import CrashWorld

_ALWAYS = 99


@dataclass(frozen=True, slots=True)
class Scenario:
    """One life. ``ends``: the statuses it may end in, whatever dies; a cancel by others adds CANCELLED. ``chained``:
    whether all steps share a queue and a function, which goes on with what is next."""

    name: str
    play: Callable[[CrashWorld], None]
    ends: frozenset[str]
    chained: bool = False


SCENARIOS: dict[str, Scenario] = {}


def _scenario(*ends: str) -> Callable[[Callable[[CrashWorld], None]], Callable[[CrashWorld], None]]:
    def add(play: Callable[[CrashWorld], None]) -> Callable[[CrashWorld], None]:
        name = play.__name__.strip("_")
        SCENARIOS[name] = Scenario(name, play, frozenset(ends))
        return play

    return add


def _life(world: CrashWorld, saga: str = "pair") -> None:
    world.start(saga)
    world.settle()


@_scenario("COMPLETED")
def _happy(world: CrashWorld) -> None:
    _life(world)


@_scenario("COMPLETED")
def _short_lease(world: CrashWorld) -> None:
    _life(world, "short")


@_scenario("COMPENSATED")
def _short_lease_undone(world: CrashWorld) -> None:
    STAGE.reject = {"second"}
    _life(world, "short")


@_scenario("COMPLETED")
def _retry_at_once(world: CrashWorld) -> None:
    STAGE.fail = {"first": 1}
    _life(world)


@_scenario("COMPLETED")
def _retry_later(world: CrashWorld) -> None:
    STAGE.fail = {"second": 1}
    _life(world)


@_scenario("COMPENSATED")
def _exhausted_compensate(world: CrashWorld) -> None:
    STAGE.fail = {"second": _ALWAYS}
    _life(world)


@_scenario("FAILED")
def _exhausted_fail(world: CrashWorld) -> None:
    STAGE.fail = {"second": _ALWAYS}
    _life(world, "halting")


@_scenario("DEAD_LETTERED")
def _exhausted_dead_letter(world: CrashWorld) -> None:
    STAGE.fail = {"second": _ALWAYS}
    _life(world, "parked")


@_scenario("COMPENSATED")
def _rejected(world: CrashWorld) -> None:
    STAGE.reject = {"second"}
    _life(world)


@_scenario("COMPENSATED")
def _undo_retried(world: CrashWorld) -> None:
    STAGE.reject, STAGE.fail = {"second"}, {"undo_first": 1}
    _life(world)


@_scenario("COMPENSATION_FAILED")
def _undo_fails(world: CrashWorld) -> None:
    STAGE.reject, STAGE.fail = {"second"}, {"undo_first": _ALWAYS}
    _life(world)


@_scenario("COMPENSATED")
def _undo_retried_by_an_operator(world: CrashWorld) -> None:
    STAGE.reject, STAGE.fail = {"second"}, {"undo_first": 3}
    _life(world)
    world.operate("retry", "fixed")
    world.settle()


@_scenario("COMPENSATION_FAILED")
def _undo_settled_by_hand(world: CrashWorld) -> None:
    STAGE.reject, STAGE.fail = {"second"}, {"undo_first": _ALWAYS}
    _life(world)
    world.operate("resolve", "done by hand", "refunded", ("first",))
    world.settle()


@_scenario("CANCELLED")
def _cancel_before(world: CrashWorld) -> None:
    world.start()
    world.cancel()
    world.settle()


@_scenario("CANCELLED")
def _cancel_between(world: CrashWorld) -> None:
    world.start()
    world.steps(1)
    world.cancel()
    world.settle()


def _cancel_in(world: CrashWorld, step: str) -> None:
    asked: list[str] = []

    def during(name: str, ctx: Context) -> None:
        if name == step and not asked:
            asked.append(name)
            world.cancel()

    STAGE.during = during


@_scenario("CANCELLED", "COMPLETED")
def _cancel_during_a_step(world: CrashWorld) -> None:
    _cancel_in(world, "first")
    _life(world)


@_scenario("CANCELLED", "COMPLETED")
def _cancel_during_the_last_step(world: CrashWorld) -> None:
    _cancel_in(world, "second")
    _life(world)


@_scenario("COMPENSATED")
def _cancel_while_undoing(world: CrashWorld) -> None:
    STAGE.reject = {"second"}
    _cancel_in(world, "undo_first")
    _life(world)


@_scenario("CANCELLED")
def _cancel_dead_lettered(world: CrashWorld) -> None:
    STAGE.fail = {"second": _ALWAYS}
    _life(world, "parked")
    world.cancel()
    world.settle()


@_scenario("COMPLETED", "DEAD_LETTERED")
def _redriven(world: CrashWorld) -> None:
    STAGE.fail = {"second": 2}
    _life(world, "parked")
    world.clock.advance(5.0)
    world.mailbox.redrive()
    world.settle()


@_scenario("COMPLETED")
def _retried_by_an_operator_then_redriven(world: CrashWorld) -> None:
    STAGE.fail = {"second": 2}
    _life(world, "parked")
    world.operate("retry", "fixed")
    world.settle()
    world.mailbox.redrive()
    world.settle()


@_scenario("COMPENSATED")
def _dead_lettered_undone_by_an_operator(world: CrashWorld) -> None:
    STAGE.fail = {"second": _ALWAYS}
    _life(world, "parked")
    world.operate("compensate", "give up")
    world.settle()


@_scenario("COMPENSATED")
def _failed_undone_by_an_operator(world: CrashWorld) -> None:
    STAGE.fail = {"second": _ALWAYS}
    _life(world, "halting")
    world.operate("compensate", "give up")
    world.settle()


@_scenario("FAILED")
def _failed_settled_by_an_operator(world: CrashWorld) -> None:
    STAGE.fail = {"second": _ALWAYS}
    _life(world, "halting")
    world.operate("resolve", "seen", "", ())
    world.settle()


@_scenario("COMPLETED")
def _large_results(world: CrashWorld) -> None:
    _life(world, "bulky")


@_scenario("COMPENSATED")
def _large_results_undone(world: CrashWorld) -> None:
    STAGE.reject = {"second"}
    _life(world, "bulky")


@_scenario("COMPLETED")
def _circuit_breaker(world: CrashWorld) -> None:
    STAGE.fail = {"first": 2}
    _life(world, "guarded")


@_scenario("COMPENSATED", "COMPLETED")
def _circuit_breaker_not_waited_for(world: CrashWorld) -> None:
    """COMPLETED if the breaker does not hear of the failures."""
    STAGE.fail = {"second": 3}
    _life(world, "hasty")


@_scenario("COMPENSATED")
def _undo_when_started(world: CrashWorld) -> None:
    STAGE.fail = {"second": _ALWAYS}
    _life(world, "started")


def _late_in(world: CrashWorld, step: str, *attempts: int) -> None:
    """Have a step or undo take nine seconds, of the five that it has, in these attempts."""

    def during(name: str, ctx: Context) -> None:
        if name == step and ctx.attempt in attempts:
            world.clock.advance(9.0)

    STAGE.during = during


@_scenario("COMPLETED")
def _late_once(world: CrashWorld) -> None:
    _late_in(world, "second", 1)
    _life(world)


@_scenario("COMPENSATED")
def _late_each_time(world: CrashWorld) -> None:
    _late_in(world, "second", 1, 2, 3)
    _life(world)


@_scenario("COMPENSATED")
def _late_at_last(world: CrashWorld) -> None:
    STAGE.fail = {"second": 2}
    _late_in(world, "second", 3)
    _life(world)


@_scenario("COMPENSATED")
def _late_and_undone_when_started(world: CrashWorld) -> None:
    _late_in(world, "second", 1, 2, 3)
    _life(world, "started")


@_scenario("COMPENSATED")
def _late_undo(world: CrashWorld) -> None:
    STAGE.reject = {"second"}
    _late_in(world, "undo_first", 1)
    _life(world)


@_scenario("COMPLETED")
def _message_lost(world: CrashWorld) -> None:
    world.start()
    world.steps(1)
    world.mailbox.lose()
    world.settle()


@_scenario("COMPENSATED")
def _message_of_an_undo_lost(world: CrashWorld) -> None:
    STAGE.reject = {"second"}
    world.start()
    world.steps(2)
    world.mailbox.lose()
    world.settle()


@_scenario("COMPLETED", "COMPENSATED")
def _every_message_lost(world: CrashWorld) -> None:
    """Patience ends at the sixth stall."""
    world.start()
    for _ in range(6):
        world.steps(1)
        world.mailbox.lose()
    world.settle()


@_scenario("COMPLETED")
def _started_twice(world: CrashWorld) -> None:
    world.start()
    world.start()
    world.settle()
    world.start()
    world.settle()


@_scenario("COMPLETED")
def _started_without_a_key(world: CrashWorld) -> None:
    world.start(key=None)
    world.settle()


@_scenario("COMPLETED")
def _every_message_again_and_again(world: CrashWorld) -> None:
    STAGE.fail = {"second": 1}
    world.echo = True
    _life(world)


@_scenario("COMPENSATED")
def _every_undo_again_and_again(world: CrashWorld) -> None:
    STAGE.reject = {"second"}
    world.echo = True
    _life(world)


@_scenario("COMPLETED")
def _slow_message_overtaken(world: CrashWorld) -> None:
    """The supervisor sends a message anew that was only slow; both arrive, while the retry is due."""
    STAGE.fail = {"second": 1}
    world.start()
    world.steps(1)
    world.mailbox.delay(400.0)
    world.settle()


@_scenario()
def _purged_and_started_again(world: CrashWorld) -> None:
    _life(world)
    world.keep_no_longer()
    world.start()
    world.settle()


@_scenario("COMPENSATED")
def _undone_purged_and_started_again(world: CrashWorld) -> None:
    """While a step is in doubt it is kept."""
    STAGE.reject = {"second"}
    _life(world)
    world.keep_no_longer()
    STAGE.reject = set()
    world.start()
    world.settle()


@_scenario()
def _large_results_purged(world: CrashWorld) -> None:
    _life(world, "bulky")
    world.keep_no_longer()
    world.start("bulky")
    world.settle()


@_scenario()
def _purged_by_an_operator(world: CrashWorld) -> None:
    _life(world)
    world.clock.advance(60.0)
    world.purge()
    world.start()
    world.settle()


@_scenario()
def _purged_by_an_operator_who_died(world: CrashWorld) -> None:
    """Or who was not answered: the supervisor goes on where the purge ended."""
    _life(world, "bulky")
    world.clock.advance(60.0)
    world.purge_once()
    world.keep_no_longer()
    world.start("bulky")
    world.settle()


@_scenario("COMPENSATED")
def _failed_settled_and_purged(world: CrashWorld) -> None:
    STAGE.fail = {"second": _ALWAYS}
    _life(world, "halting")
    world.operate("resolve", "seen", "", ())
    world.clock.advance(60.0)
    world.purge()
    world.start("halting")
    world.settle()


@_scenario("COMPENSATED")
def _failed_settled_and_undone_after_all(world: CrashWorld) -> None:
    """What is purged meanwhile is purged, or undone: never half of each."""
    STAGE.fail = {"second": _ALWAYS}
    _life(world, "halting")
    world.operate("resolve", "seen", "", ())
    world.clock.advance(60.0)
    world.operate("compensate", "after all")
    world.settle()


@_scenario()
def _started_again_while_it_is_purged(world: CrashWorld) -> None:
    _life(world)
    world.clock.advance(60.0)
    world.purge_once()
    world.start()
    world.purge()
    world.start()
    world.settle()


@_scenario()
def _started_again_after_its_item_expired(world: CrashWorld) -> None:
    """Under version 0.1.0."""
    _life(world)
    world.delete_by_time_to_live()
    world.start()
    world.settle()


@_scenario("DEAD_LETTERED", "COMPENSATION_FAILED")
def _type_changed(world: CrashWorld) -> None:
    """The undo that a cancel asks for cannot read it either."""
    STAGE.refuse = True
    _life(world, "stamped")


@_scenario("COMPLETED")
def _type_changed_and_back(world: CrashWorld) -> None:
    STAGE.refuse = True
    _life(world, "stamped")
    STAGE.refuse = False
    world.operate("retry", "it fits again")
    world.settle()


@_scenario("COMPENSATION_FAILED")
def _type_changed_given_up(world: CrashWorld) -> None:
    """The undo cannot read it either."""
    STAGE.refuse = True
    _life(world, "stamped")
    world.operate("compensate", "give up")
    world.settle()


@_scenario("COMPENSATED")
def _type_of_an_undo_changed_and_back(world: CrashWorld) -> None:
    STAGE.reject = {"second"}
    world.start("stamped")
    world.steps(2)
    STAGE.refuse = True
    world.settle()
    STAGE.refuse = False
    world.operate("retry", "it fits again")
    world.settle()


@_scenario("CANCELLED", "COMPENSATION_FAILED")
def _type_changed_cancelled(world: CrashWorld) -> None:
    STAGE.refuse = True
    world.start("stamped")
    world.steps(2)
    STAGE.refuse = False
    world.cancel()
    world.settle()


@_scenario("COMPLETED")
def _steps_take_their_time(world: CrashWorld) -> None:
    """Three of them take 30 s of the 40 that a function may act, and each may take longer."""

    def during(name: str, ctx: Context) -> None:
        world.clock.advance(10.0)

    STAGE.during = during
    _life(world, "long")


@_scenario("COMPENSATED")
def _steps_take_their_time_and_are_undone(world: CrashWorld) -> None:
    def during(name: str, ctx: Context) -> None:
        world.clock.advance(8.0)

    STAGE.during, STAGE.reject = during, {"fourth"}
    _life(world, "long")


@_scenario("COMPLETED")
def _steps_retried_one_after_the_other(world: CrashWorld) -> None:
    """The second and third at once, the fourth later."""
    STAGE.fail = {"second": 1, "third": 1, "fourth": 1}
    _life(world, "long")


@_scenario("CANCELLED", "COMPLETED")
def _cancel_during_a_step_in_the_middle(world: CrashWorld) -> None:
    _cancel_in(world, "second")
    _life(world, "long")


@_scenario("COMPLETED", "COMPENSATED")
def _signalled(world: CrashWorld) -> None:
    """COMPENSATED where a process lingered until the wait was over."""
    world.start("asking")
    world.steps(2)
    world.signal()
    world.settle()


@_scenario("COMPLETED")
def _signalled_early(world: CrashWorld) -> None:
    world.start("asking")
    world.signal()
    world.settle()


@_scenario("COMPLETED", "COMPENSATED")
def _signalled_late(world: CrashWorld) -> None:
    """COMPLETED where what was disturbed made the wait begin later."""
    world.start("asking")
    world.steps(2)
    world.clock.advance(1001.0)
    world.signal()
    world.settle()


@_scenario("COMPLETED", "COMPENSATED")
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


@_scenario("COMPLETED")
def _answered_by_the_code_that_asks(world: CrashWorld) -> None:
    STAGE.during = _answer_itself
    _life(world, "asking")


@_scenario("COMPLETED", "COMPENSATED")
def _answered_by_the_code_that_asks_half_a_minute(world: CrashWorld) -> None:
    """COMPENSATED where its process died behind the answer, and lingered until the wait was over."""
    STAGE.during = _answer_itself
    _life(world, "brief-asking")


@_scenario("COMPENSATED")
def _signalled_and_undone(world: CrashWorld) -> None:
    STAGE.reject = {"second"}
    world.start("asking")
    world.steps(2)
    world.signal()
    world.settle()


@_scenario("COMPENSATED")
def _waited_in_vain(world: CrashWorld) -> None:
    _life(world, "asking")


@_scenario("COMPENSATED")
def _waited_in_vain_for_half_a_minute(world: CrashWorld) -> None:
    _life(world, "brief-asking")


@_scenario("COMPENSATED")
def _could_not_ask(world: CrashWorld) -> None:
    STAGE.fail = {"answer": _ALWAYS}
    _life(world, "asking")


@_scenario("CANCELLED", "COMPENSATED")
def _cancelled_while_it_waits(world: CrashWorld) -> None:
    """COMPENSATED where a process lingered until the wait was over."""
    world.start("asking")
    world.steps(2)
    world.cancel()
    world.settle()


@_scenario("CANCELLED", "COMPENSATED")
def _signalled_and_cancelled(world: CrashWorld) -> None:
    """COMPENSATED where a process lingered until the wait was over."""
    world.start("asking")
    world.steps(2)
    world.signal()
    world.cancel()
    world.settle()


@_scenario("COMPLETED")
def _slept_and_looked_again(world: CrashWorld) -> None:
    _life(world, "sleepy")


@_scenario("COMPENSATED")
def _over_its_deadline(world: CrashWorld) -> None:
    _life(world, "endless")


def _paused(world: CrashWorld, happening: int = 4) -> None:
    """Have the type paused for a while; all environments know. So much happens meanwhile."""
    world.call(lambda engine: engine.pausing.pause("pair", "ada"))
    world.clock.advance(6.0)
    world.steps(happening)


@_scenario("COMPLETED")
def _paused_and_resumed(world: CrashWorld) -> None:
    world.start()
    world.steps(1)
    _paused(world)
    world.call(lambda engine: engine.pausing.resume("pair", "ada"))
    world.settle()


@_scenario("COMPLETED")
def _paused_and_resumed_at_once(world: CrashWorld) -> None:
    """Workers go on believing that it is paused, for some seconds."""
    world.start()
    world.steps(1)
    _paused(world, 0)
    believed = world.engine.pauses.all(fresh=True)
    world.call(lambda engine: engine.pausing.resume("pair", "ada"))
    world.engine.pauses.believe(believed)
    world.settle()


@_scenario("CANCELLED")
def _paused_and_cancelled(world: CrashWorld) -> None:
    world.start()
    world.steps(1)
    _paused(world)
    world.cancel()
    world.settle()


_FASTER = ("cancel_between", "paused_and_cancelled")


def _chained(scenario: Scenario) -> Scenario:
    """The same life, its steps chained. What counts deliveries counts them past the end of a chain."""
    faster = frozenset({"COMPLETED"}) if scenario.name in _FASTER else frozenset[str]()
    return Scenario(f"{scenario.name}, chained", scenario.play, scenario.ends | faster, chained=True)


CHAINED = {one.name: one for one in map(_chained, tuple(SCENARIOS.values()))}
EVERY = SCENARIOS | CHAINED
