"""Advances one saga as far as is possible without step code: journals the pending fact, such as the end of a wait, and
sends the next message.

The message that ends a wait comes from the queue ``now``. If it is lost, the supervisor finds the saga.
"""

from __future__ import annotations

import math

from msgspec import Struct

from sagas.core import events as ev
from sagas.core.automaton import decide
from sagas.core.commands import CancelArrived, MessageArrived, Postpone, StallNoticed
from sagas.core.states import SagaState
from sagas.engine.advance import Advancer
from sagas.engine.committer import EntryContext
from sagas.store.control.control import ControlItems

_RACE = 1.0
"""Seconds until a saga that others have just changed is read again."""


def in_time(advancer: Advancer, control: ControlItems, state: SagaState) -> SagaState | None:
    """Apply a saga's deadline if it has passed: cancel the saga, or mark it as overdue if it is past its pivot. Returns
    the saga; ``None`` if others have changed it."""
    now = advancer.services.clock.now()
    if not state.ends_at or state.ends_at > now:
        return state
    decision = decide(advancer.plan(state), state, CancelArrived(ev.DEADLINE), now)
    if decision.state is state:
        stall = StallNoticed(advancer.lease(), math.inf)
        advanced = advancer.advance(state, stall, EntryContext(actor="supervisor"))
        return None if advanced.lost_race else advanced.state
    control.request_cancel(state, decision.state)
    current = control.get(state.saga_id)
    # The request is also refused if an earlier one has succeeded without a response, or if there was another cancel.
    return current if current is not None and current.cancel.at else None


class CodelessAdvancer(Struct, frozen=True):
    """Advances single sagas without step code. Concurrent calls do no harm."""

    advancer: Advancer
    control: ControlItems

    def look(self, saga_id: str, dispatch: int = 0) -> float:
        """Journal the pending fact of a saga, and send the next message. Returns when to call this again, in epoch
        seconds; 0 for never, because the saga has ended, others handle it, or the supervisor will find it."""
        clock = self.advancer.services.clock
        current = self.control.get(saga_id)
        if current is None or current.ended:
            return 0.0
        if current.lease is not None and current.lease.expires_at > clock.now():
            return current.lease.expires_at  # the lease holder may have died
        state = in_time(self.advancer, self.control, current)
        if state is None:
            return clock.now() + _RACE
        lease = self.advancer.lease()
        arrival = (
            MessageArrived(state.cursor, state.undoing, dispatch, 0, "", lease)
            if dispatch
            else StallNoticed(lease, math.inf)
        )
        advanced = self.advancer.advance(state, arrival, EntryContext())
        if advanced.lost_race:
            return clock.now() + _RACE
        return advanced.then.until if isinstance(advanced.then, Postpone) else 0.0
