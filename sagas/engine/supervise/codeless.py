"""Advances one saga as far as is possible without step code: journals the pending fact, such as the end of a wait, and
sends the next message.

The message that ends a wait comes from the queue ``now``. If it is lost, the supervisor finds the saga.
"""

from __future__ import annotations

import math

from msgspec import Struct

from sagas.core.commands import MessageArrived, Postpone, Visited
from sagas.engine.advance import Advancer
from sagas.engine.committer import EntryContext
from sagas.store.control.control import ControlItems

_RACE = 1.0
"""Seconds until a saga that others have just changed is read again."""


class CodelessAdvancer(Struct, frozen=True):
    """Advances single sagas without step code. Concurrent calls do no harm."""

    advancer: Advancer
    control: ControlItems

    def look(self, saga_id: str, dispatch: int = 0) -> float:
        """Journal the pending fact of a saga, and send the next message. Returns when to call this again, in epoch
        seconds; 0 for never, because the saga has ended, others handle it, or the supervisor will find it."""
        clock = self.advancer.services.clock
        state = self.control.get(saga_id)
        if state is None or state.ended:
            return 0.0
        if state.lease is not None and state.lease.expires_at > clock.now():
            return state.lease.expires_at  # the lease holder may have died
        lease = self.advancer.lease()
        arrival = (
            MessageArrived(state.cursor, state.undoing, dispatch, 0, "", lease)
            if dispatch
            else Visited(lease, math.inf)
        )
        advanced = self.advancer.advance(state, arrival, EntryContext())
        if advanced.lost_race:
            return clock.now() + _RACE
        return advanced.then.until if isinstance(advanced.then, Postpone) else 0.0
