"""Pausing saga types: their sagas stop before the next step, and go on when the type is resumed.

A message whose step would begin is deleted, and its saga *parked*: under a key of its own in the index of what is due,
where nobody looks at it before it has to end. No attempt is used, nothing is journaled. Resuming makes each due again,
as it was seen, and sends its message anew.

A worker may park a saga in the five seconds for which it believes in a pause that is over. So it looks again, after
parking: if the type was resumed, it goes on with the message at hand. And the supervisor goes on looking for parked
sagas for a day, since the index shows a write a little later.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from sagas.core.commands import Discard
from sagas.core.states import SagaState
from sagas.engine.advance import Advancer
from sagas.engine.clock import Clock
from sagas.engine.registry import Registry
from sagas.errors import Unavailable
from sagas.messaging.message import Message
from sagas.store.control import ControlItems
from sagas.store.listing import Listing
from sagas.store.mapping import NEVER_DUE
from sagas.store.pauses import Pause, Pauses

_SETTLING = 86_400.0
"""Seconds for which the supervisor looks for parked sagas of a type that was resumed."""
_MOST_AT_ONCE = 1_000
_A_SECOND = 20
"""Sagas that are sent anew for each second."""
_BUDGET = 8.0
"""Seconds for sending: the caller waits. Who is not sent anew is left to the supervisor."""
SPREAD = 60.0
"""Seconds over which the supervisor spreads what it sends anew."""


@dataclass(frozen=True, slots=True)
class Parking:
    """The gate of paused saga types; see :class:`sagas.engine.gates.Gate`."""

    pauses: Pauses
    control: ControlItems

    def known_until(self, message: Message) -> float:
        """Never: a saga is to be parked, so its message must be looked at."""
        return 0.0

    def is_open(self, message: Message) -> bool:
        """Whether steps, or undos, of the message's saga type may begin."""
        return not _holds(self.pauses.get(message.saga), undo=message.undo)

    def admit(self, message: Message, state: SagaState, act_until: float) -> Discard | None:
        """Park the saga until its type is resumed."""
        if not self.control.park(state):
            return None
        if _holds(self.pauses.get(state.saga, fresh=True), undo=state.undoing):
            return Discard()
        # Resumed meanwhile: who resumed it may have looked before it was parked.
        self.control.unpark(state, state.updated_at)
        return None

    def silent_until(self, state: SagaState) -> float:
        """Never: nobody looks for a saga that is parked."""
        return 0.0


@dataclass(frozen=True, slots=True)
class Pausing:
    """Pauses and resumes saga types."""

    pauses: Pauses
    registry: Registry
    control: ControlItems
    listing: Listing
    advancer: Advancer
    logger: logging.Logger

    def pause(self, name: str, actor: str, reason: str = "", *, starts: bool = False, undos: bool = False) -> None:
        """Have the sagas of a type stop before their next step; within five seconds everybody knows.

        Args:
            name: the saga type.
            actor: who does it.
            reason: why.
            starts: accept new sagas, which wait before their first step.
            undos: have undos wait, too.

        Raises:
            NotFound: there is no such type.
            Unavailable: the store is out of reach.
        """
        self.registry.get(name)
        before = self.pauses.get(name, fresh=True)
        since = before.at if before.on else self._clock.now()
        self.pauses.put(name, Pause(since, actor, reason, starts, undos))
        fields = {"saga": name, "actor": actor, "starts": starts, "undos": undos}
        self.logger.info("the saga type is paused", extra=fields)
        if before.undos and not undos:
            self._send_parked(name, only_undos=True)

    def resume(self, name: str, actor: str) -> int:
        """Have the sagas of a type go on, spread over time; return how many were sent on their way by this call.

        Beyond a thousand, and after eight seconds of sending, they are left to the supervisor.

        Raises:
            NotFound: there is no such type.
            Unavailable: the store is out of reach.
        """
        self.registry.get(name)
        before = self.pauses.get(name, fresh=True)
        if not before.at:
            return 0
        if before.on:
            self.pauses.put(name, replace(before, by=actor, resumed_at=self._clock.now()))
        sent = self._send_parked(name)
        self.logger.info("the saga type is resumed", extra={"saga": name, "actor": actor, "sent": sent})
        return sent

    @property
    def _clock(self) -> Clock:
        return self.advancer.services.clock

    def _send_parked(self, name: str, *, only_undos: bool = False) -> int:
        end, sent = self._clock.now() + _BUDGET, 0
        for position in self.listing.parked(name, _MOST_AT_ONCE, only_undos=only_undos):
            if self._clock.now() >= end:
                break
            state = self.control.get(position.saga_id)
            if state is None or not state.parked:
                continue
            try:
                sent += self.send(state, sent / _A_SECOND)
            except Unavailable:
                break
        return sent

    def send(self, state: SagaState, delay: float) -> bool:
        """Send a parked saga on its way; ``False`` if another run has.

        It is due first, so that the supervisor finds it should this process die before it has sent the message.

        Args:
            state: the saga.
            delay: seconds after which the message is to arrive.

        Raises:
            Unavailable: the store or the queue is out of reach.
        """
        patience = self.advancer.plan(state).stale_after
        if not self.control.unpark(state, state.in_time(self._clock.now() + delay + patience)):
            return False
        if state.lease is None:
            self.advancer.send_again(state, delay)
        return True

    def seen(self, state: SagaState) -> bool:
        """Deal with a parked saga that the supervisor has come to; whether that is all there is to do.

        Raises:
            Unavailable: the store or the queue is out of reach.
        """
        if not state.parked:
            return False
        if not _holds(self.pauses.get(state.saga), undo=state.undoing):
            self.send(state, self._clock.chance() * SPREAD)
        return True

    def shards(self, now: float) -> dict[str, float]:
        """Return the keys of the index where there may be parked sagas, and by when they are to be looked at.

        While a type is paused these are the ones whose own deadline has passed, and undos if those go on; once it is
        resumed, all.

        Raises:
            Unavailable: the store is out of reach.
        """
        found = dict[str, float]()
        for name, pause in self.pauses.all().items():
            if pause.on or now - pause.resumed_at < _SETTLING:
                found |= dict.fromkeys(self.listing.parked_shards(name), now if pause.on else NEVER_DUE)
                # Undos were parked if an earlier pause of the type held them, too.
                held = pause.on and pause.undos
                found |= dict.fromkeys(self.listing.parked_shards(name, undo=True), now if held else NEVER_DUE)
        return found


def _holds(pause: Pause, *, undo: bool) -> bool:
    return pause.on and (pause.undos or not undo)
