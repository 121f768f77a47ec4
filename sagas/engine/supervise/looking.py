"""Looking after one saga: what it owes and takes no code of its own is done here and now.

The end of a wait is such. It comes by the queue ``now``; when that message is lost, the supervisor finds the saga.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sagas.core import events as ev
from sagas.core.automaton import decide
from sagas.core.commands import CancelAsked, MessageArrived, StallNoticed
from sagas.core.effects import Postpone
from sagas.core.states import SagaState
from sagas.engine.advance import Advancer
from sagas.engine.committer import EntryContext
from sagas.store.control.control import ControlItems

_RACE = 1.0
"""Seconds after which to look again at a saga that changed meanwhile."""


def in_time(advancer: Advancer, control: ControlItems, state: SagaState) -> SagaState | None:
    """Return a saga as it is; cancelled, where its own deadline has passed, or noted to be overdue, past its pivot.
    Returns the saga; ``None`` if it has changed meanwhile."""
    now = advancer.services.clock.now()
    if not state.ends_at or state.ends_at > now:
        return state
    asked = decide(advancer.plan(state), state, CancelAsked(ev.DEADLINE), now)
    if asked.state is state:
        stall = StallNoticed(advancer.lease(), math.inf)
        advanced = advancer.advance(state, stall, EntryContext(actor="supervisor"))
        return None if advanced.beaten else advanced.state
    control.request_cancel(state, asked.state)
    found = control.get(state.saga_id)
    # If it was refused: by its own first success, whose answer was lost, or for another cancel, which does as well.
    return found if found is not None and found.cancel.at else None


@dataclass(frozen=True, slots=True)
class Looker:
    """Looks after single sagas. Two at once do no harm."""

    advancer: Advancer
    control: ControlItems

    def look(self, saga_id: str, dispatch: int = 0) -> float:
        """Journal what a saga owes, and send what follows. Returns when to look again, in epoch seconds; 0 for never:
        it is over or gone, another one's turn, or waits for so long that the supervisor will tell."""
        clock = self.advancer.services.clock
        found = self.control.get(saga_id)
        if found is None or found.over:
            return 0.0
        if found.lease is not None and found.lease.expires_at > clock.now():
            return found.lease.expires_at  # its holder may be dead
        state = in_time(self.advancer, self.control, found)
        if state is None:
            return clock.now() + _RACE
        lease = self.advancer.lease()
        arrival = (
            MessageArrived(state.cursor, state.undoing, dispatch, 0, "", lease)
            if dispatch
            else StallNoticed(lease, math.inf)
        )
        advanced = self.advancer.advance(state, arrival, EntryContext())
        if advanced.beaten:
            return clock.now() + _RACE
        return advanced.then.until if isinstance(advanced.then, Postpone) else 0.0
