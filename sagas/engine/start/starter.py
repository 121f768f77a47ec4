"""Starts a saga once per idempotency key."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sagas.authoring.codec import decode
from sagas.authoring.redaction import REQUEST
from sagas.authoring.shapes.comparing import equal
from sagas.core.gates import Scope
from sagas.core.ids import KEY_PATTERN, LONGEST_KEY, id_for_key
from sagas.core.states import SagaState
from sagas.engine.clock import Clock
from sagas.engine.operate.auto_disable import AutoDisabler
from sagas.engine.ports import MessageSender
from sagas.engine.read.remains import Remains
from sagas.engine.registry import Registry, SagaType
from sagas.engine.start.blueprints import Blueprints
from sagas.engine.start.children import first_entry, first_message, new_state, trace_details
from sagas.engine.start.search_keys import named, search_keys_of, values_of
from sagas.errors import InvalidRequest, Problem, SagaError, TypeChanged, Unavailable
from sagas.store.control.control import ControlItems
from sagas.store.index.search_keys import SearchKeys
from sagas.store.journal.entries import Entry
from sagas.store.journal.journal import Journal
from sagas.store.pauses import Pauses
from sagas.store.types.streaks import FOREVER

_TRIES = 5
_KEPT_OF_KEY = 128
"""So many characters of an idempotency key, which is ASCII, are kept in the first entry, for lists."""
_SURELY_SENT = 4.0
"""Seconds after which an unclaimed saga may lack its first message. A second message does no harm."""


class Paused(Unavailable):
    """Starts of the saga type are paused."""


class KeyReused(InvalidRequest):
    """The idempotency key was used before with another request."""


class Started(Struct, frozen=True):
    """A started saga.

    Args:
        state: the saga; if this call created it, in its initial state.
        entry: the saga's first entry, with the request.
        created: whether this call started the saga. If not, an earlier call with the same key did, and the saga may
            have progressed.
    """

    state: SagaState
    entry: Entry
    created: bool


class Starter:
    """Stores new sagas and sends their first message."""

    def __init__(
        self,
        service: str,
        registry: Registry,
        control: ControlItems,
        journal: Journal,
        sender: MessageSender,
        clock: Clock,
        pauses: Pauses,
        auto_disabler: AutoDisabler,
        search_keys: SearchKeys,
        blueprints: Blueprints,
        *,
        carry: bool = True,
        headers: Callable[[], dict[str, str]] | None = None,
    ) -> None:
        self._service = service
        self._registry = registry
        self._control = control
        self._journal = journal
        self._sender = sender
        self._clock = clock
        self._pauses = pauses
        self._auto_disabler = auto_disabler
        self._search_keys = search_keys
        self._blueprints = blueprints
        self._remains = Remains(journal)
        self._carry = carry
        self._headers = headers

    def start(
        self,
        name: str,
        request: Any,
        *,
        key: str | None = None,
        actor: str = "unknown",
        correlation_id: str | None = None,
    ) -> Started:
        """Start a saga."""
        saga_type = self._registry.get(name)
        refusal: SagaError | None = self._refusal(saga_type)
        if refusal is not None and key is None:
            raise refusal
        values = dict[str, str]()
        try:
            decode(request, saga_type.definition.request_type)
            values = values_of(saga_type, request)
        except InvalidRequest as error:
            # If there is a key, a saga may have been started with this request before the type changed.
            refusal = error
            if key is None:
                raise
        if key is not None and (len(key) > LONGEST_KEY or not re.fullmatch(KEY_PATTERN, key)):
            text = f"must be 1 to {LONGEST_KEY} printable ASCII characters, with no space at either end"
            problem = Problem("header.Idempotency-Key", text)
            raise InvalidRequest(f"invalid idempotency key: {text}", [problem])
        saga_id = id_for_key(self._service, name, key) if key else self._clock.new_id()
        # A repeated start returns the existing saga, even while new sagas are refused.
        if refusal is not None and not self._journal.entries(saga_id, [1]):
            raise refusal
        self._pauses.claim_tables()
        more = named(saga_type.definition, values) | trace_details(self._headers)
        more |= {"key": key[:_KEPT_OF_KEY]} if key else {}
        blueprint = self._blueprints.name(saga_type.definition)
        entry = first_entry(saga_type, saga_id, request, actor, self._clock, blueprint, more)
        entry = entry if correlation_id is None else replace(entry, correlation_id=correlation_id)
        for _ in range(_TRIES):
            started = self._started(saga_type, entry, request)
            if started is not None:
                return started
        raise Unavailable("the saga was changed by others five times in a row; try again", retry_after=1)

    def _started(self, saga_type: SagaType, entry: Entry, request: Any) -> Started | None:
        """Start a saga with its first entry, or return the saga that an earlier call started; ``None`` if the earlier
        start had died and was forgotten just now."""
        stored = self._journal.put(entry)
        used_for = stored.tombstone.request_hash if stored.tombstone else stored.details.get("request_hash")
        if used_for != entry.details["request_hash"] and not self._has_equal(saga_type, stored, request):
            problem = Problem("header.Idempotency-Key", "was used with another body")
            raise KeyReused("this idempotency key was used before with another request", [problem])
        if stored is not entry:
            return self._found(saga_type, stored)
        created = state = new_state(saga_type, entry)
        self._search_keys.put(created, search_keys_of(saga_type, entry))
        if not self._control.create(created, saga_type.definition.stale_after.total_seconds()):
            # This call may have created the item itself: the AWS client may have repeated the request.
            state = self._control.get(entry.saga_id) or created
        if state.token == 0:
            self._send_first(saga_type, state, entry)
        return Started(created, entry, created=True)

    def _has_equal(self, saga_type: SagaType, first: Entry, request: Any) -> bool:
        """Whether the request in a first entry is equal, as the deployed type reads both: in another spelling, with or
        without a default. Of a purged saga, only the hash of the request remains."""
        if first.tombstone is not None:
            return False
        try:
            definition = saga_type.definition
            payload = self._journal.load(first).payload
            stored = definition.stored(REQUEST, json.loads(payload or "null"))
            return equal(stored, decode(request, definition.request_type))
        except (InvalidRequest, TypeChanged):
            return False

    def _refusal(self, saga_type: SagaType) -> Paused | None:
        """Return why the type does not accept new sagas now; ``None`` if it does."""
        name = saga_type.definition.name
        scope = Scope(name)
        pause = self._pauses.get(Scope(name))
        if pause.on and not pause.starts:
            what = f"starts of {name} are paused" if pause.starts_only else f"{name} is paused"
            reason = self._pauses.described({scope: pause})[scope].reason
            return Paused(f"{what}: {reason}" if reason else what, retry_after=60)
        until = self._auto_disabler.paused_until(name)
        remaining = until - self._clock.now()
        if remaining <= 0:
            return None
        wait = 60 if until == FOREVER else math.ceil(remaining)
        return Paused(f"starts of {name} are paused: too many of its sagas failed", retry_after=wait)

    def _found(self, saga_type: SagaType, entry: Entry) -> Started | None:
        """Return the saga that an earlier call started. If its start was interrupted, complete it; ``None`` if the
        supervisor has forgotten this start in the meantime.

        If the first entry is a tombstone, the saga was purged. If there is a second entry but no control item, the item
        was deleted or was lost in a restore. In both cases, the saga must not run again.
        """
        if entry.tombstone is not None:
            return Started(entry.tombstone.state, entry, created=False)
        saga_id = entry.saga_id
        created = False
        state = self._control.get(saga_id)
        if state is None and 2 in self._journal.entries(saga_id, [2]):
            # Read the item again, because it may have been created between the two reads.
            state = self._control.get(saga_id)
            remains = None if state is not None else self._remains.of(saga_id)
            if remains is not None:
                return Started(remains.state, entry, created=False)
        if state is None:
            state = new_state(saga_type, entry, self._clock.now())
            stale_after = saga_type.definition.stale_after.total_seconds()
            items = self._search_keys.items(state, search_keys_of(saga_type, entry))
            created = self._control.create_again(state, stale_after, self._journal, items)
            if not created:
                first = self._journal.entries(saga_id, [1]).get(1)
                if first is None:
                    return None
                if first.tombstone is not None:
                    return Started(first.tombstone.state, first, created=False)
                state = self._control.get(saga_id) or state
        if created or (state.token == 0 and self._clock.now() - state.created_at > _SURELY_SENT):
            self._send_first(saga_type, state, entry)
        return Started(state, entry, created=False)

    def _send_first(self, saga_type: SagaType, state: SagaState, entry: Entry) -> None:
        """Send the first message if its step is deployed. Otherwise the supervisor will report the saga."""
        message = first_message(saga_type, state, entry, carry=self._carry, traced=self._headers is not None)
        if message is not None:
            self._sender.send(message)
