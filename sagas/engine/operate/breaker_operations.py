"""Operations on circuit breakers: list all, and close one."""

from __future__ import annotations

import builtins
import logging
from collections import defaultdict
from collections.abc import Sequence, Set

from msgspec import Struct

from sagas.core.gates import BreakerState, CountedError
from sagas.core.rules import forward
from sagas.core.states import SagaState
from sagas.core.text import iso
from sagas.engine.advance import Advancer
from sagas.engine.operate.breaker import GOOD_FOR, Breakers
from sagas.engine.read.overviews import BreakerErrorView, BreakerView, OpenBreakerView
from sagas.engine.read.redacting import Texts
from sagas.engine.read.views import error_view
from sagas.engine.registry import Registry
from sagas.errors import Unavailable
from sagas.store.control.control import ControlItems
from sagas.store.index.listing import Listing
from sagas.store.journal.journal import Journal

MOST_LOOKED_AT = 1_000
"""Maximum number of sagas in flight that are read to find the waiting sagas."""
_EVER = 10 * 365 * 86_400.0
"""Seconds within which every saga in flight will be due."""
_A_SECOND = 20
"""Sagas sent again per second."""
_BUDGET = 8.0
"""Maximum seconds for sending, because the caller waits. The other sagas continue on their own."""

Place = tuple[str, str]
"""A saga type and its step."""


class BreakerOperations(Struct, frozen=True):
    """Operators' actions on circuit breakers."""

    breakers: Breakers
    control: ControlItems
    listing: Listing
    advancer: Advancer
    registry: Registry
    journal: Journal
    logger: logging.Logger

    def list(self) -> list[BreakerView]:
        """Return the breakers of all steps that declare one, ordered by saga type and step."""
        states = self.breakers.states()
        held = {place for place, state in states.items() if not state.closed}
        waiting, more = self._waiting(held)
        now = self.advancer.services.clock.now()
        views = self.with_messages([breaker_view(place, state, now) for place, state in states.items()])
        return [
            {**view, "waiting": len(waiting[place]), "more_waiting": more and place in held}
            for place, view in zip(states, views, strict=True)
        ]

    def close(self, saga: str, step: str, actor: str) -> BreakerView:
        """Close a breaker, so it no longer blocks sagas.

        Waiting sagas are sent again, twenty per second, once every environment knows that the breaker is closed. This
        covers the first 1,000 sagas in flight, and ends after eight seconds. The other sagas continue on their own.
        Each does so within the time for which the breaker was not closed, at most 15 minutes. Returns the breaker;
        ``waiting`` is the number of sagas that were sent again.
        """
        before = self.breakers.close(saga, step)
        waiting, more = self._waiting(set() if before.closed else {(saga, step)})
        clock = self.advancer.services.clock
        end = clock.now() + _BUDGET
        sent = 0
        for state in waiting[saga, step]:
            if clock.now() >= end:
                break
            try:
                self.advancer.send_again(state, GOOD_FOR + 1 + sent / _A_SECOND)
            except Unavailable:
                break
            sent += 1
        fields = {"saga": saga, "step": step, "actor": actor, "was_closed": before.closed, "sent": sent}
        self.logger.info("the circuit breaker was closed by hand", extra=fields)
        more = more or sent < len(waiting[saga, step])
        view = breaker_view((saga, step), BreakerState(last_error=before.last_error), clock.now())
        return {**view, "waiting": sent, "more_waiting": more}

    def with_messages(self, breakers: Sequence[OpenBreakerView]) -> builtins.list[OpenBreakerView]:
        """Return breakers with the messages of their last errors. The entry of a purged saga has none, and of a closed
        breaker none is read."""
        errors = [breaker["last_error"] if breaker["state"] != "closed" else None for breaker in breakers]
        entries = self.journal.entries_of(dict.fromkeys((error["saga_id"], error["seq"]) for error in errors if error))
        views = builtins.list[OpenBreakerView]()
        for breaker, error in zip(breakers, errors, strict=True):
            entry = error and entries.get(error["saga_id"], {}).get(error["seq"])
            shown = error_view(entry and Texts(self.registry.redaction(breaker["type"])).entry(entry))
            if error is None or shown is None:
                views.append(breaker)
            else:
                views.append({**breaker, "last_error": {**error, "message": shown["message"]}})
        return views

    def _waiting(self, held: Set[Place]) -> tuple[dict[Place, list[SagaState]], bool]:
        """Return the sagas that wait at these steps, and whether there may be more."""
        waiting: defaultdict[Place, list[SagaState]] = defaultdict(list)
        if not held:
            return waiting, False
        clock = self.advancer.services.clock
        due = self.listing.due(clock.now() + _EVER, MOST_LOOKED_AT)
        for state in self.control.readable([position.saga_id for position in due]):
            step = state.current
            place = state.saga, step.name if step is not None else ""
            if place in held and forward(state) and state.lease is None and not state.cancel.at:
                waiting[place].append(state)
        return waiting, len(due) == MOST_LOOKED_AT


def breaker_view(place: Place, state: BreakerState, now: float) -> OpenBreakerView:
    """Return a breaker without the message of its last error. ``now``: epoch seconds."""
    saga, step = place
    error = state.last_error
    return {
        "type": saga,
        "step": step,
        "state": "closed" if state.closed else "open" if now < state.open_until else "half-open",
        "failures": state.failures,
        "open_until": None if state.closed else iso(state.open_until),
        "last_error": error and _error_view(error),
    }


def _error_view(error: CountedError) -> BreakerErrorView:
    return {
        "type": error.type,
        "message": None,
        "at": iso(error.at),
        "saga_id": error.saga_id,
        "seq": error.seq,
    }
