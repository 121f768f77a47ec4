"""Lives of sagas that start two others."""

from __future__ import annotations

from unittest.mock import patch

from sagas.authoring.context import Context
from sagas.engine import children
from sagas.testing.faults import ProcessDied
from tests.faults.sagas import STAGE
from tests.faults.scenario import ALWAYS, Scenarios, life
from tests.faults.world import CrashWorld

PARENTS = Scenarios(families=True)
_UNTIL_THEY_RUN = 4
"""What happens before the children's first steps: the parent's two steps, a look, a message of each child's."""


@PARENTS.ends("COMPLETED")
def _two_children(world: CrashWorld) -> None:
    life(world, "family")


@PARENTS.ends("COMPLETED")
def _children_one_after_the_other(world: CrashWorld) -> None:
    life(world, "orderly")


@PARENTS.ends("COMPENSATED")
def _a_child_fails(world: CrashWorld) -> None:
    """The other one runs, or is over: it is undone."""
    STAGE.reject = {"send 1"}
    life(world, "family")


@PARENTS.ends("COMPENSATED")
def _a_child_fails_when_the_other_is_over(world: CrashWorld) -> None:
    STAGE.reject = {"send 1"}
    life(world, "orderly")


@PARENTS.ends("COMPLETED")
def _a_failed_child_is_tolerated(world: CrashWorld) -> None:
    STAGE.reject = {"send 1"}
    life(world, "tolerant")


@PARENTS.ends("COMPENSATED")
def _both_children_fail(world: CrashWorld) -> None:
    STAGE.reject = {"send 0", "send 1"}
    life(world, "tolerant")


@PARENTS.ends("COMPENSATED")
def _children_undone_with_their_parent(world: CrashWorld) -> None:
    STAGE.reject = {"last"}
    life(world, "family")


@PARENTS.ends("COMPENSATED")
def _children_undone_one_after_the_other(world: CrashWorld) -> None:
    STAGE.reject = {"last"}
    life(world, "orderly")


@PARENTS.ends("COMPENSATED")
def _a_failed_child_undone_with_the_other(world: CrashWorld) -> None:
    """FAILED, it stands as it is; its parent has it undone all the same."""
    STAGE.reject, STAGE.fail = set(), {"send 1": ALWAYS}
    life(world, "mixed")


@PARENTS.ends("CANCELLED")
def _cancelled_before_the_children_run(world: CrashWorld) -> None:
    world.start("family")
    world.steps(2)
    world.cancel()
    world.settle()


def _starts_lost(world: CrashWorld) -> None:
    """Both children are handed out, by a message each, and no message arrives."""
    world.start("family")
    with patch.object(children, "BLOCK", 1):
        world.steps(3)
    world.mailbox.lose()


@PARENTS.ends("COMPLETED")
def _starts_of_children_lost(world: CrashWorld) -> None:
    _starts_lost(world)
    world.settle()


@PARENTS.ends("CANCELLED")
def _cancelled_before_the_children_are_started(world: CrashWorld) -> None:
    _starts_lost(world)
    world.cancel()
    world.settle()


@PARENTS.ends("CANCELLED")
def _cancelled_while_the_children_run(world: CrashWorld) -> None:
    world.start("family")
    world.steps(_UNTIL_THEY_RUN)
    world.cancel()
    world.settle()


@PARENTS.ends("CANCELLED", "COMPLETED")
def _cancelled_when_a_child_is_over(world: CrashWorld) -> None:
    asked: list[str] = []

    def during(name: str, ctx: Context) -> None:
        if name == "send 1" and not asked:
            asked.append(name)
            world.cancel()

    STAGE.during = during
    life(world, "family")


@PARENTS.ends("COMPENSATION_FAILED")
def _a_child_cannot_be_undone(world: CrashWorld) -> None:
    STAGE.reject, STAGE.fail = {"last"}, {"unbook 1": ALWAYS}
    life(world, "family")


@PARENTS.ends("COMPENSATION_FAILED")
def _a_child_fails_and_cannot_be_undone(world: CrashWorld) -> None:
    STAGE.reject, STAGE.fail = {"send 1"}, {"unbook 1": ALWAYS}
    life(world, "family")


@PARENTS.ends("COMPENSATED")
def _a_child_undone_at_the_second_try(world: CrashWorld) -> None:
    STAGE.reject, STAGE.fail = {"last"}, {"unbook 1": 2}
    life(world, "family")
    world.operate("retry", "fixed")
    world.settle()


@PARENTS.ends("COMPENSATION_FAILED")
def _a_child_settled_by_hand(world: CrashWorld) -> None:
    STAGE.reject, STAGE.fail = {"last"}, {"unbook 1": ALWAYS}
    life(world, "family")
    world.operate("resolve", "done by hand", "refunded", ("born",))
    world.settle()


@PARENTS.ends("COMPLETED")
def _failed_children_started_anew(world: CrashWorld) -> None:
    STAGE.fail = {"send 1": 2}
    life(world, "insistent")
    world.operate("retry", "fixed")
    world.settle()


@PARENTS.ends("COMPENSATED")
def _failed_children_started_anew_and_undone(world: CrashWorld) -> None:
    STAGE.fail = {"send 1": ALWAYS}
    life(world, "insistent")
    world.operate("retry", "fixed")
    world.settle()
    world.operate("compensate", "enough")
    world.settle()


@PARENTS.ends("COMPLETED")
def _a_child_that_waits_for_an_operator(world: CrashWorld) -> None:
    """An operator may not settle it, while its parent waits for its end, and so retries it."""
    STAGE.fail = {"send 1": 2}
    world.start("patient")
    world.until("StepDeadLettered", "send")
    world.operate_children("resolve", "done by hand", "sent", ())
    if world.refused:
        world.operate_children("retry", "fixed")
    world.settle()


@PARENTS.ends("COMPLETED")
def _messages_of_children_lost(world: CrashWorld) -> None:
    world.start("family")
    for _ in range(2):
        world.steps(3)
        world.mailbox.lose()
    world.settle()


@PARENTS.ends("COMPLETED")
def _every_message_of_a_family_again_and_again(world: CrashWorld) -> None:
    world.echo = True
    life(world, "family")


@PARENTS.ends()
def _a_family_is_purged(world: CrashWorld) -> None:
    life(world, "family")
    world.keep_no_longer()
    world.start("family")
    world.settle()


@PARENTS.ends("COMPENSATED")
def _an_undone_family_is_purged_by_an_operator(world: CrashWorld) -> None:
    """While a step is in doubt, its own or a child's, it is kept."""
    STAGE.reject = {"last"}
    world.start("family")
    world.mailbox.delay(70.0)
    world.settle()
    world.clock.advance(60.0)
    world.purge()
    world.start("family")
    world.settle()


@PARENTS.ends("CANCELLED")
def _a_cancelled_family_is_purged_by_an_operator(world: CrashWorld) -> None:
    world.start("family")
    world.mailbox.delay(70.0)
    world.steps(_UNTIL_THEY_RUN + 1)
    world.cancel()
    world.settle()
    world.clock.advance(60.0)
    world.purge()
    world.start("family")
    world.settle()


@PARENTS.ends("COMPLETED")
def _a_family_with_a_child_in_doubt_is_kept(world: CrashWorld) -> None:
    """Both attempts to send die, so nobody knows whether it was sent: a person has to look first."""

    def during(name: str, ctx: Context) -> None:
        if name == "send 1":
            raise ProcessDied

    STAGE.during = during
    life(world, "tolerant")
    world.keep_no_longer()
    world.start("tolerant")
    world.settle()
