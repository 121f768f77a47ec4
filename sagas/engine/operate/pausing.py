"""Pauses and resumes a saga type, one of its steps, or a single saga. Paused sagas stop before their next step.

When a message arrives whose step would begin, it is deleted, and its saga is marked as paused. The mark moves the saga
to a separate key of the index of due sagas. There it becomes due only at its deadline. This uses no attempt and
journals nothing. A resume makes each saga that has not changed due again, and sends its message again.

A worker caches pauses for five seconds, so it may mark a saga whose pause has ended. So it then checks the pause again,
and handles the message if the pause has ended. Because the index lags and processes die, the supervisor looks once an
hour at what is marked. A saga that no pause holds continues.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from sagas.authoring.definition.definition import is_step_name
from sagas.core.gates import Pause, Scope
from sagas.core.states import SagaState
from sagas.engine.advance import Advancer
from sagas.engine.clock import Clock
from sagas.engine.operate.auto_disable import AutoDisabler
from sagas.engine.registry import Registry
from sagas.errors import Conflict, InvalidRequest, NotFound, Problem, Unavailable
from sagas.store.connection import Contended, Refused
from sagas.store.control.control import ControlItems
from sagas.store.control.mapping import NEVER_DUE
from sagas.store.index.listing import Listing
from sagas.store.pauses import Pauses

_MOST_AT_ONCE = 1_000
_A_SECOND = 20
"""Sagas sent again per second."""
_BUDGET = 8.0
"""Maximum seconds for sending, because the caller waits. The supervisor sends the other sagas."""
SPREAD = 60.0
"""Seconds over which the supervisor spreads the messages that it sends again."""
_MOST_SAGAS = 100
"""Maximum number of individually paused sagas."""
_MOST_STEPS = 300
"""Maximum number of paused steps. Workers read all pauses in one item of at most 400 KB. A pause takes 180 bytes at
most, so there is always room for the pauses of 2,000 types. All of them, with their reasons, fit into an answer of the
API."""
_TRIES = 10
_WAIT = 0.1
"""Maximum seconds between the first two tries to store a pause. Later tries are further apart."""
HOUR = 3600.0
"""Seconds between two looks at all that is marked."""
_KNOWN = 10.0
"""Seconds after which every environment knows of a change. A function that looks earlier may believe in a pause that
has ended."""


class Search(Struct, frozen=True):
    """Index keys whose sagas the supervisor hands out. Times are epoch seconds.

    Args:
        shards: the index keys.
        horizon: the sagas that are due by then are handed out.
        since: when this search began. Each saga is handed out once in a search, though it stays where it is because a
            pause holds it. 0: the sagas leave these keys, so those that are still there are handed out again.
    """

    shards: list[str]
    horizon: float
    since: float = 0.0


class _Look(Struct):
    """What the supervisor's environment remembers of a type's paused sagas. ``held``: the pauses that held them at its
    last visit. ``changed``: when it saw other pauses. ``at``: when it last looked at all of them. Epoch seconds."""

    held: dict[Scope, Pause]
    changed: float = 0.0
    at: float = 0.0


class Pausing(Struct, frozen=True):
    """Pauses and resumes saga types, steps and sagas."""

    pauses: Pauses
    registry: Registry
    control: ControlItems
    listing: Listing
    advancer: Advancer
    auto_disabler: AutoDisabler
    logger: logging.Logger
    _looks: dict[tuple[str, bool], _Look] = field(default_factory=dict[tuple[str, bool], _Look])

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
        steps = [declared.name for declared in self.registry.get(name).definition.steps]
        if step and step not in steps:
            raise _unknown_step(name, step, steps)
        scope = Scope(name, step, saga_id)
        if saga_id:
            self._must_be_in_flight(scope)
        kinds = {"starts_only": starts_only, "starts": starts, "undos": undos}

        def paused(before: Pause) -> Pause:
            if not before.on:
                self._make_room(scope)
            since = before.at if before.on else self._clock.now()
            return Pause(since, actor, reason, **kinds, revision=before.revision)

        before, now = self._change(scope, paused)
        self.logger.info("paused", extra={"saga": name, "scope": scope.text, "actor": actor, **kinds})
        if before.holds(undo=True) and not now.holds(undo=True):
            self._send_paused(scope, only_undos=now.holds(undo=False))
        elif before.holds(undo=False) and not now.holds(undo=False):
            self._send_paused(scope)

    def resume(self, name: str, actor: str, *, step: str = "", saga_id: str = "") -> int:
        """Let sagas continue, spread over time. Return the number of sagas that this call has sent.

        After 1,000 sagas or eight seconds, the supervisor sends the others. If the library had paused starts of the
        type, starts are accepted again. A step that a release has removed can be resumed if it was ever paused.
        """
        scope = Scope(name, step, saga_id)
        steps = [one.name for one in self.registry.get(name).definition.steps]
        if step and step not in steps and not (is_step_name(step) and self.pauses.ever(scope)):
            raise _unknown_step(name, step, steps)
        if scope == Scope(name):
            self.auto_disabler.forget(name)
        self._end(scope, self.pauses.get(scope, fresh=True), actor)
        sent = self._send_paused(scope)
        self.logger.info("resumed", extra={"saga": name, "scope": scope.text, "actor": actor, "sent": sent})
        return sent

    @property
    def _clock(self) -> Clock:
        return self.advancer.services.clock

    def _change(self, scope: Scope, change: Callable[[Pause], Pause]) -> tuple[Pause, Pause]:
        """Change a pause as it is stored, and again if another call changes it in between. Return it before and
        after. Nothing is stored if ``change`` returns the same object."""
        for tries in range(1, _TRIES):
            before = self.pauses.get(scope, fresh=True)
            after = change(before)
            if after is before:
                return before, before
            try:
                self.pauses.put(scope, after)
            except (Refused, Contended):
                self._clock.sleep(_WAIT * tries * self._clock.chance())
            else:
                return before, after
        raise Unavailable("other calls change the pauses all the time; try again", retry_after=1)

    def _end(self, scope: Scope, pause: Pause, actor: str) -> None:
        """End this pause. One that another call has stored since it was read stays."""

        def ended(now: Pause) -> Pause:
            mine = now.on and now.revision == pause.revision
            return replace(now, by=actor, resumed_at=self._clock.now()) if mine else now

        self._change(scope, ended)

    def _must_be_in_flight(self, scope: Scope) -> None:
        state = self.control.get(scope.saga_id)
        if state is None or state.saga != scope.name:
            raise NotFound(f"no saga with id {scope.saga_id} (type {scope.name})")
        if state.ended:
            raise Conflict(f"the saga is {state.status.value}; only sagas in flight can be paused")

    def _make_room(self, scope: Scope) -> None:
        """Refuse a further pause at the limit. The pauses of single sagas that have ended are deleted first. A type's
        pause always has room."""
        on = self.pauses.all()
        steps = [other for other in on if other.step]
        sagas = [other for other in on if other.saga_id]
        if scope.step and len(steps) >= _MOST_STEPS:
            raise Conflict(f"{len(steps)} steps are paused, which is the limit; pause the type instead")
        if not scope.saga_id or len(sagas) < _MOST_SAGAS:
            return
        states = self.control.get_many([other.saga_id for other in sagas])
        ended = [other for other in sagas if other.saga_id not in states or states[other.saga_id].ended]
        if not ended:
            raise Conflict(
                f"{len(sagas)} sagas are paused singly, which is the limit; pause a step or the type instead"
            )
        for other in ended:
            self._end(other, on[other], "")

    def _send_paused(self, scope: Scope, *, only_undos: bool = False) -> int:
        end = self._clock.now() + _BUDGET
        sent = 0
        for saga_id in self._ids_in(scope, only_undos=only_undos):
            if self._clock.now() >= end:
                break
            state = self.control.get(saga_id)
            if state is None or not state.paused or not scope.covers(state) or self.pauses.holding_back(state):
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
        """Handle a saga that may be paused: let it continue if its pause has ended. Return whether it was paused."""
        if not state.paused:
            return False
        if not self.pauses.holding_back(state):
            self.send(state, self._clock.chance() * SPREAD)
        return True

    def shards(self, now: float) -> list[Search]:
        """Return what to hand out of the paused sagas of all types: those past their deadline, and those that no pause
        holds.

        The index does not show which step a saga has reached. So while the pauses of a type hold only some of its
        sagas, all are handed out, once for each change of these pauses and once an hour. If no pause holds any, the
        keys are searched for an hour after a change, then once an hour, and until they are empty. ``now``: epoch
        seconds.
        """
        on = self.pauses.all()
        names = {saga.definition.name: None for saga in self.registry} | {scope.name: None for scope in on}
        return [
            search
            for name in names
            for undo in (False, True)
            for search in self._shards_of(name, undo, {s: p for s, p in on.items() if s.name == name}, now)
        ]

    def _shards_of(self, name: str, undo: bool, pauses: dict[Scope, Pause], now: float) -> Iterable[Search]:
        """Return what to hand out of a type's sagas that are paused before a step or, with ``undo``, before an undo."""
        keys = self.listing.paused_shards(name, undo=undo)
        held = {scope: pause for scope, pause in pauses.items() if pause.holds(undo=undo)}
        look = self._looks.get((name, undo))
        if look is None or look.held != held:
            look = self._looks[name, undo] = _Look(held, now, look.at) if look else _Look(held)
        is_time = now - look.at >= HOUR or look.at < look.changed <= now - _KNOWN
        if held:
            yield Search(keys, now)
            if Scope(name) not in held:
                look.at = math.floor(now) if is_time else look.at
                yield Search(keys, NEVER_DUE, look.at)
        elif name in self.registry and (is_time or now - look.changed < HOUR):
            if any(self.listing.first_due(keys, NEVER_DUE)):
                yield Search(keys, NEVER_DUE)
            else:
                look.at = now


def _unknown_step(name: str, step: str, steps: list[str]) -> InvalidRequest:
    problem = Problem("$.step", f"{name} has no step {step!r}; it has {', '.join(steps)}")
    return InvalidRequest("unknown step", [problem])
