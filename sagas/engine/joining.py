"""Wakes a parent after the end of a child was committed."""

from __future__ import annotations

import logging
import math
from contextlib import suppress

from msgspec import Struct

from sagas.core import events as ev
from sagas.core.states import Parent, SagaState
from sagas.engine.ports import WorkSender
from sagas.errors import SagaError
from sagas.messaging.work import NOW, SagasToAdvance
from sagas.store.control.control import ControlItems
from sagas.store.joins import Joins

BLOCK = 25
"""Maximum number of children that one message starts."""
_AT_ONCE = 16
"""Up to this many failures beyond ``tolerate`` wake the parent. At least one has to, and several children may fail at
once. Later ends, such as those of cancelled siblings, do not wake the parent."""


class JoinObserver(Struct, frozen=True):
    """Wakes a parent when a child's end completes the join, or makes room for more children.

    If two children end at once, both may wake the parent, which does no harm. If both messages are lost, the supervisor
    wakes it.
    """

    control: ControlItems
    joins: Joins
    work: WorkSender
    logger: logging.Logger

    def committed(self, before: SagaState, after: SagaState, fact: ev.Fact) -> None:
        """If the saga is a child, wake its parent if the parent has something to do."""
        ended = after.ended and (before.status is not after.status or before.order != after.order)
        if after.parent is None or not ended:
            return
        try:
            if self._wakes(after, after.parent):
                self.work.send_work(NOW, [SagasToAdvance([after.parent.saga_id]).work()])
        except SagaError as error:
            with suppress(SagaError):  # the supervisor looks rarely at a parent that has waited for long
                self.control.make_due(after.parent.saga_id, after.updated_at)
            fields = {"saga_id": after.saga_id, "parent": after.parent.saga_id, "error": type(error).__name__}
            self.logger.warning("could not wake the parent of an ended child; the supervisor will", extra=fields)

    def _wakes(self, child: SagaState, link: Parent) -> bool:
        """Whether all children have ended, too many have failed, more may start, or the undo can continue."""
        parent = self.control.get(link.saga_id)
        step = parent.current if parent is not None else None
        if parent is None or step is None or not parent.joins or step.name != link.step:
            return False
        if not parent.undoing:
            tally = self.joins.first_ends(link.saga_id, step)
            if tally.ended >= step.fan_out.children:
                return True
            failed = tally.ended - tally.completed
            if failed > step.fan_out.tolerate:
                return tally.ended >= step.fan_out.handed_out or failed <= step.fan_out.tolerate + _AT_ONCE
            room = step.fan_out.at_once - (step.fan_out.handed_out - tally.ended)
            return step.fan_out.handed_out < step.fan_out.children and room >= refill(step.fan_out.at_once)
        tally = self.joins.tally(link.saga_id, link.step, [step.round], step.fan_out.children)
        if tally.ended < step.fan_out.handed_out:
            return False
        if child.order is None or step.fan_out.one_by_one:
            return True
        if step.round:
            tally.update(self.joins.tally(link.saga_id, link.step, range(step.round), step.fan_out.children))
        return tally.undone(step.undo_attempts.made) >= tally.standing


def refill(at_once: int) -> int:
    """Return the number of places that must be free before more children are started. If children were started one by
    one, each start would need a new look at all children."""
    return max(1, min(BLOCK, math.ceil(at_once / 4)))
