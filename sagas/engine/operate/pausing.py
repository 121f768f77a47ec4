"""Pauses and resumes a saga type, one of its steps, or a single saga. Paused sagas stop before their next step.

When a message arrives whose step would begin, it is deleted, and its saga is marked as paused. The mark moves the saga
to a separate key of the index of due sagas. There it becomes due only at its deadline. This uses no attempt and
journals nothing. A resume makes each saga that has not changed due again, and sends its message again.

A worker caches pauses for five seconds, so it may mark a saga whose pause has ended. So it then checks the pause again,
and handles the message if the pause has ended. Because the index lags, the supervisor looks for paused sagas for
another day.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from sagas.core.gates import Pause, Scope
from sagas.core.states import SagaState
from sagas.engine.advance import Advancer
from sagas.engine.clock import Clock
from sagas.engine.operate.auto_disable import AutoDisabler
from sagas.engine.registry import Registry
from sagas.errors import Conflict, InvalidRequest, NotFound, Problem, Unavailable
from sagas.store.control.control import ControlItems
from sagas.store.control.mapping import NEVER_DUE
from sagas.store.index.listing import Listing
from sagas.store.pauses import SETTLING, Pauses

_MOST_AT_ONCE = 1_000
_A_SECOND = 20
"""Sagas sent again per second."""
_BUDGET = 8.0
"""Maximum seconds for sending, because the caller waits. The supervisor sends the other sagas."""
SPREAD = 60.0
"""Seconds over which the supervisor spreads the messages that it sends again."""
_MOST_SAGAS = 100
"""Maximum number of individually paused sagas. Workers read all pauses in one item of at most 400 KB."""


class Pausing(Struct, frozen=True):
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
        """Make sagas stop before their next step, within five seconds.

        An existing pause is replaced, but its start time is kept.
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
            self._send_paused(scope, only_undos=now.holds(undo=False))
        elif before.holds(undo=False) and not now.holds(undo=False):
            self._send_paused(scope)

    def resume(self, name: str, actor: str, *, step: str = "", saga_id: str = "") -> int:
        """Let sagas continue, spread over time. Return the number of sagas that this call has sent.

        After 1,000 sagas or eight seconds, the supervisor sends the others. If the library had paused starts of the
        type, starts are accepted again.
        """
        scope = self._scope(name, step, saga_id)
        if scope == Scope(name):
            self.auto_disabler.forget(name)
        before = self.pauses.get(scope, fresh=True)
        if not before.at:
            return 0
        if before.on:
            self.pauses.put(scope, replace(before, by=actor, resumed_at=self._clock.now()))
        sent = self._send_paused(scope)
        self.logger.info("resumed", extra={"saga": name, "scope": scope.text, "actor": actor, "sent": sent})
        return sent

    @property
    def _clock(self) -> Clock:
        return self.advancer.services.clock

    def _scope(self, name: str, step: str, saga_id: str) -> Scope:
        steps = [declared.name for declared in self.registry.get(name).definition.steps]
        if step and step not in steps:
            problem = Problem("$.step", f"{name} has no step {step!r}; it has {', '.join(steps)}")
            raise InvalidRequest("unknown step", [problem])
        return Scope(name, step, saga_id)

    def _must_be_in_flight(self, scope: Scope) -> None:
        state = self.control.get(scope.saga_id)
        if state is None or state.saga != scope.name:
            raise NotFound(f"no saga with id {scope.saga_id} (type {scope.name})")
        if state.ended:
            raise Conflict(f"the saga is {state.status.value}; only sagas in flight can be paused")

    def _make_room(self) -> None:
        """If the limit of individually paused sagas is reached, delete the pauses of sagas that have ended."""
        on = [other for other, pause in self.pauses.all().items() if pause.on and other.saga_id]
        if len(on) < _MOST_SAGAS:
            return
        states = self.control.get_many([other.saga_id for other in on])
        ended = [other for other in on if other.saga_id not in states or states[other.saga_id].ended]
        if not ended:
            raise Conflict(f"{len(on)} sagas are paused singly, which is the limit; pause a step or the type instead")
        for other in ended:
            self.pauses.put(other, replace(self.pauses.get(other), resumed_at=self._clock.now()))

    def _send_paused(self, scope: Scope, *, only_undos: bool = False) -> int:
        end, sent = self._clock.now() + _BUDGET, 0
        for saga_id in self._ids_in(scope, only_undos=only_undos):
            if self._clock.now() >= end:
                break
            state = self.control.get(saga_id)
            if state is None or not state.paused or not scope.covers(state):
                continue
            try:
                sent += self.send(state, sent / _A_SECOND)
            except Unavailable:
                break
        return sent

    def _ids_in(self, scope: Scope, *, only_undos: bool) -> Iterable[str]:
        """Return the ids of sagas that a pause of this scope may hold."""
        if scope.saga_id:
            return [scope.saga_id]
        positions = self.listing.paused(scope.name, _MOST_AT_ONCE, only_undos=only_undos)
        return (position.saga_id for position in positions)

    def send(self, state: SagaState, delay: float) -> bool:
        """Let a paused saga continue. Return ``False`` if another run has done so.

        The saga becomes due before its message is sent, so the supervisor finds it if this process dies in between.
        ``delay``: seconds after which the message arrives.
        """
        stale_after = self.advancer.plan(state).stale_after
        if not self.control.mark_resumed(state, state.in_time(self._clock.now() + delay + stale_after)):
            return False
        if state.lease is None:
            self.advancer.send_again(state, delay)
        return True

    def seen(self, state: SagaState) -> bool:
        """Handle a due saga that may be paused: let it continue if its pause has ended. Return whether it was
        paused."""
        if not state.paused:
            return False
        if not self.pauses.holding_back(state):
            self.send(state, self._clock.chance() * SPREAD)
        return True

    def shards(self, now: float) -> dict[str, float]:
        """Return the index keys that may have paused sagas, each with a time: its sagas due by then are to be handled.

        While a pause covers all sagas of a key, only sagas past their deadline are due by that time. Otherwise all are.
        """
        pauses = dict[str, dict[Scope, Pause]]()
        for scope, pause in self.pauses.all().items():
            if pause.on or now - pause.resumed_at < SETTLING:
                pauses.setdefault(scope.name, {})[scope] = pause
        horizons = dict[str, float]()
        for name, of_type in pauses.items():
            for undo in (False, True):
                whole = Scope(name) in of_type and of_type[Scope(name)].holds(undo=undo)
                covered = whole or all(pause.holds(undo=undo) for pause in of_type.values())
                keys = self.listing.paused_shards(name, undo=undo)
                horizons |= dict.fromkeys(keys, now if covered else NEVER_DUE)
        return horizons
