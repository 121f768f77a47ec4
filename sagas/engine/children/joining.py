"""What a child that has ended tells its parent, once that is committed."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from sagas.core import events as ev
from sagas.core.states import Parent, SagaState
from sagas.engine.children.children import refill
from sagas.engine.ports import WorkSender
from sagas.errors import SagaError
from sagas.messaging.work import NOW, SagasToLookAfter
from sagas.store.children.joins import Joins
from sagas.store.control.control import ControlItems

_AT_ONCE = 16
"""Failed children beyond those tolerated of which each has the parent looked after: of several that fail at once one at
least does. Those that are cancelled for it do not."""


@dataclass(frozen=True, slots=True)
class JoinObserver:
    """Has a parent looked after when a child's end completes its join, or leaves room for further children.

    Two that end at once may both do so, which does no harm. What is lost here the supervisor finds.
    """

    control: ControlItems
    joins: Joins
    work: WorkSender
    logger: logging.Logger

    def committed(self, before: SagaState, after: SagaState, fact: ev.Fact) -> None:
        """See whether the saga is a child that has ended, and whether its parent minds."""
        ended = after.over and (before.status is not after.status or before.order != after.order)
        if after.parent is None or not ended:
            return
        try:
            if self._minds(after, after.parent):
                self.work.send_work(NOW, [SagasToLookAfter([after.parent.saga_id]).work()])
        except SagaError as error:
            fields = {"saga_id": after.saga_id, "parent": after.parent.saga_id, "error": type(error).__name__}
            self.logger.warning("a parent was not told of its child's end: the supervisor looks after it", extra=fields)

    def _minds(self, child: SagaState, whose: Parent) -> bool:
        """Whether all are over, too many have failed, there is room for others, or the undoing is to go on."""
        parent = self.control.get(whose.saga_id)
        step = parent.current if parent is not None else None
        if parent is None or step is None or not parent.joins or step.name != whose.step:
            return False
        if not parent.undoing:
            tally = self.joins.first_ends(whose.saga_id, step)
            if tally.ended >= step.fan_out.children:
                return True
            failed = tally.ended - tally.completed
            if failed > step.fan_out.tolerate:
                return tally.ended >= step.fan_out.handed_out or failed <= step.fan_out.tolerate + _AT_ONCE
            room = step.fan_out.at_once - (step.fan_out.handed_out - tally.ended)
            return step.fan_out.handed_out < step.fan_out.children and room >= refill(step.fan_out.at_once)
        tally = self.joins.tally(whose.saga_id, whose.step, [step.round], step.fan_out.children)
        if tally.ended < step.fan_out.handed_out:
            return False
        if child.order is None or step.fan_out.one_by_one:
            return True
        if step.round:
            tally.update(self.joins.tally(whose.saga_id, whose.step, range(step.round), step.fan_out.children))
        return tally.undone(step.undo_attempts.made) >= tally.standing
