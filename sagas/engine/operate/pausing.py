"""Pausing: the sagas of a type, those at one of its steps, or one saga stop before the next step until resumed.

A message whose step would begin is deleted, and its saga *parked*: under a key of its own in the index of what is due,
where nobody looks at it before it has to end. No attempt is used, nothing is journaled. Resuming makes each due again,
as it was seen, and sends its message anew.

A worker may park a saga in the five seconds for which it believes in a pause that has ended. So it looks again, after
parking: if the pause has ended, it goes on with the message at hand. And the supervisor goes on looking for parked
sagas for a day, since the index shows a write a little later.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

from sagas.core.effects import Discard
from sagas.core.pauses import Pause, Scope
from sagas.core.states import SagaState
from sagas.engine.advance import Advancer
from sagas.engine.clock import Clock
from sagas.engine.operate.auto_disable import AutoDisabler
from sagas.engine.registry import Registry
from sagas.errors import Conflict, InvalidRequest, NotFound, Problem, Unavailable
from sagas.messaging.message.message import Message
from sagas.store.control.control import ControlItems
from sagas.store.control.mapping import NEVER_DUE
from sagas.store.index.listing import Listing
from sagas.store.types.pauses import SETTLING, Pauses

_MOST_AT_ONCE = 1_000
_A_SECOND = 20
"""Sagas that are sent anew for each second."""
_BUDGET = 8.0
"""Seconds for sending: the caller waits. The supervisor sends the others."""
SPREAD = 60.0
"""Seconds over which the supervisor spreads what it sends anew."""
_MOST_SAGAS = 100
"""Sagas that may be paused one by one: every worker reads all pauses at once, and an item holds 400 KB."""


@dataclass(frozen=True, slots=True)
class Parking:
    """The gate of what is paused; see :class:`sagas.engine.gates.Gate`."""

    pauses: Pauses
    control: ControlItems

    def known_until(self, message: Message) -> float:
        """Never: a saga is to be parked, so its message must be looked at."""
        return 0.0

    def is_open(self, message: Message) -> bool:
        """Whether the message's step, or undo, may begin."""
        return self.pauses.holding(message.saga, message.step, message.saga_id, undo=message.undo) is None

    def admit(self, message: Message, state: SagaState, act_until: float) -> Discard | None:
        """Park the saga until it is resumed."""
        if not self.control.park(state):
            return None
        if self.pauses.holding_back(state, fresh=True):
            return Discard()
        # Resumed meanwhile: the operator's call may have looked before it was parked.
        self.control.unpark(state, state.updated_at)
        return None

    def silent_until(self, state: SagaState) -> float:
        """Never: nobody looks for a saga that is parked."""
        return 0.0


@dataclass(frozen=True, slots=True)
class Pausing:
    """Pauses and resumes saga types, steps and sagas."""

    pauses: Pauses
    registry: Registry
    control: ControlItems
    listing: Listing
    advancer: Advancer
    auto_disabler: AutoDisabler
    logger: logging.Logger

    def pause(
        self,
        name: str,
        actor: str,
        reason: str = "",
        *,
        step: str = "",
        saga_id: str = "",
        starts_only: bool = False,
        starts: bool = False,
        undos: bool = False,
    ) -> None:
        """Have sagas stop before their next step; within five seconds every worker knows.

        A pause that lasts already is replaced, and keeps the time at which it began.
        """
        scope = self._scope(name, step, saga_id)
        if saga_id:
            self._must_be_in_flight(scope)
        before = self.pauses.get(scope, fresh=True)
        if saga_id and not before.on:
            self._make_room()
        since = before.at if before.on else self._clock.now()
        now = Pause(since, actor, reason, starts_only, starts, undos)
        self.pauses.put(scope, now)
        kinds = {"starts_only": starts_only, "starts": starts, "undos": undos}
        self.logger.info("paused", extra={"saga": name, "scope": scope.text, "actor": actor, **kinds})
        if before.holds(undo=True) and not now.holds(undo=True):
            self._send_parked(scope, only_undos=now.holds(undo=False))
        elif before.holds(undo=False) and not now.holds(undo=False):
            self._send_parked(scope)

    def resume(self, name: str, actor: str, *, step: str = "", saga_id: str = "") -> int:
        """Have sagas go on, spread over time; return how many were sent on their way by this call.

        Beyond a thousand, and after eight seconds of sending, they are left to the supervisor. Starts of a type that
        the library has paused are accepted again.
        """
        scope = self._scope(name, step, saga_id)
        if scope == Scope(name):
            self.auto_disabler.forget(name)
        before = self.pauses.get(scope, fresh=True)
        if not before.at:
            return 0
        if before.on:
            self.pauses.put(scope, replace(before, by=actor, resumed_at=self._clock.now()))
        sent = self._send_parked(scope)
        self.logger.info("resumed", extra={"saga": name, "scope": scope.text, "actor": actor, "sent": sent})
        return sent

    @property
    def _clock(self) -> Clock:
        return self.advancer.services.clock

    def _scope(self, name: str, step: str, saga_id: str) -> Scope:
        steps = [other.name for other in self.registry.get(name).definition.steps]
        if step and step not in steps:
            problem = Problem("$.step", f"{name} has no step {step!r}; it has {', '.join(steps)}")
            raise InvalidRequest("the step is unknown", [problem])
        return Scope(name, step, saga_id)

    def _must_be_in_flight(self, scope: Scope) -> None:
        state = self.control.get(scope.saga_id)
        if state is None or state.saga != scope.name:
            raise NotFound(f"no saga with id {scope.saga_id} (type {scope.name})")
        if state.over:
            raise Conflict(f"the saga is {state.status.value}; only sagas in flight can be paused")

    def _make_room(self) -> None:
        """Forget the pauses of sagas that have ended, where as many are paused one by one as may be."""
        on = [other for other, pause in self.pauses.all().items() if pause.on and other.saga_id]
        if len(on) < _MOST_SAGAS:
            return
        states = self.control.get_many([other.saga_id for other in on])
        ended = [other for other in on if other.saga_id not in states or states[other.saga_id].over]
        if not ended:
            text = f"{len(on)} sagas are paused one by one, which is the most; pause a step or the type instead"
            raise Conflict(text)
        for other in ended:
            self.pauses.put(other, replace(self.pauses.get(other), resumed_at=self._clock.now()))

    def _send_parked(self, scope: Scope, *, only_undos: bool = False) -> int:
        end, sent = self._clock.now() + _BUDGET, 0
        for saga_id in self._parked(scope, only_undos=only_undos):
            if self._clock.now() >= end:
                break
            state = self.control.get(saga_id)
            if state is None or not state.parked or not scope.covers(state):
                continue
            try:
                sent += self.send(state, sent / _A_SECOND)
            except Unavailable:
                break
        return sent

    def _parked(self, scope: Scope, *, only_undos: bool) -> Iterable[str]:
        if scope.saga_id:
            return [scope.saga_id]
        found = self.listing.parked(scope.name, _MOST_AT_ONCE, only_undos=only_undos)
        return (position.saga_id for position in found)

    def send(self, state: SagaState, delay: float) -> bool:
        """Send a parked saga on its way; ``False`` if another run has.

        It is due first, so that the supervisor finds it should this process die before it has sent the message.
        ``delay``: seconds after which the message is to arrive.
        """
        patience = self.advancer.plan(state).stale_after
        if not self.control.unpark(state, state.in_time(self._clock.now() + delay + patience)):
            return False
        if state.lease is None:
            self.advancer.send_again(state, delay)
        return True

    def seen(self, state: SagaState) -> bool:
        """Deal with a parked saga that the supervisor has come to; whether that is all there is to do."""
        if not state.parked:
            return False
        if not self.pauses.holding_back(state):
            self.send(state, self._clock.chance() * SPREAD)
        return True

    def shards(self, now: float) -> dict[str, float]:
        """Return the keys of the index where there may be parked sagas, and by when they are to be looked at.

        Where all that is parked is still held back, these are the sagas whose own deadline has passed; otherwise all.
        """
        pauses = dict[str, dict[Scope, Pause]]()
        for scope, pause in self.pauses.all().items():
            if pause.on or now - pause.resumed_at < SETTLING:
                pauses.setdefault(scope.name, {})[scope] = pause
        found = dict[str, float]()
        for name, of_type in pauses.items():
            for undo in (False, True):
                whole = Scope(name) in of_type and of_type[Scope(name)].holds(undo=undo)
                held = whole or all(pause.holds(undo=undo) for pause in of_type.values())
                keys = self.listing.parked_shards(name, undo=undo)
                found |= dict.fromkeys(keys, now if held else NEVER_DUE)
        return found
