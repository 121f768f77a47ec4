"""Creates sagas: the first entry, the control item, and the first message."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from sagas.authoring.codec import content_hash
from sagas.core.ids import child_id
from sagas.core.states import Parent, SagaState
from sagas.engine.attempt.course import carried, digest_of
from sagas.engine.clock import Clock
from sagas.engine.registry import Registry, SagaType
from sagas.engine.start.search_keys import named, search_keys_of, values_of
from sagas.errors import InvalidRequest
from sagas.messaging.message import Message, fitting, trace_in, trace_of
from sagas.store.control.control import ControlItems
from sagas.store.index.search_keys import SearchKeys
from sagas.store.journal.entries import NEVER_STARTED, Entry
from sagas.store.journal.journal import Journal

if TYPE_CHECKING:
    from sagas.engine.start.blueprints import Blueprints

PARENT = "parent"
"""The actor of entries that a parent causes in the audit trail of its child."""


class ChildCreator(Struct, frozen=True):
    """Creates children.

    Args:
        registry: the saga types. control, journal: store the children.
        clock: the current time.
        blueprints: stores the children's blueprints.
        carry: whether first messages contain the requests.
        headers: the function that returns the headers of the active span; ``None`` without tracing.
        search_keys: stores the children's search keys. ``None``: they are not stored.
    """

    registry: Registry
    control: ControlItems
    journal: Journal
    clock: Clock
    blueprints: Blueprints
    carry: bool = True
    headers: Callable[[], dict[str, str]] | None = None
    search_keys: SearchKeys | None = None

    def start_child(
        self, name: str, request: Any, parent: Parent, *, correlation_id: str, sends: bool = True
    ) -> Message | None:
        """Store a child unless it exists, even while starts of its type are paused. Returns the first message to send;
        ``None`` if the child has begun, or if its parent has decided that it never starts."""
        saga_type = self.registry.get(name)
        saga_id = child_id(parent.saga_id, parent.step, parent.position, parent.round)
        values = dict[str, str]()
        if self.search_keys is not None:
            with suppress(InvalidRequest):  # the child still starts, and its first step reports the error
                values = values_of(saga_type, request)
        more = named(saga_type.definition, values) | trace_details(self.headers)
        blueprint = self.blueprints.name(saga_type.definition)
        entry = first_entry(saga_type, saga_id, request, PARENT, self.clock, blueprint, more)
        details = {**entry.details, "parent": asdict(parent)}
        entry = replace(entry, correlation_id=correlation_id or parent.saga_id, details=details)
        stored = self.journal.put(entry)
        if stored.action == NEVER_STARTED or stored.tombstone is not None:
            return None
        stale_after = saga_type.definition.stale_after.total_seconds()
        state = new_state(saga_type, stored, 0.0 if stored is entry else self.clock.now())
        values = search_keys_of(saga_type, stored)
        if stored is not entry:
            items = self.search_keys.items(state, values) if self.search_keys is not None else ()
            begins = self.control.create_again(state, stale_after, self.journal, items)
        else:
            if self.search_keys is not None:
                self.search_keys.put(state, values)
            begins = self.control.create(state, stale_after)
        if not begins and sends:
            existing = self.control.get(saga_id)
            begins = existing is not None and existing.token == 0
        if not begins:
            return None
        return first_message(saga_type, state, stored, carry=self.carry, traced=self.headers is not None)


def trace_details(headers: Callable[[], dict[str, str]] | None) -> dict[str, Any]:
    """Return the details about the saga's trace for its first entry; nothing without tracing. The trace begins here."""
    trace = trace_of(headers()) if headers is not None else None
    return {} if trace is None else {"trace": {"saga": trace.saga, "state": trace.state}}


def first_entry(
    saga_type: SagaType,
    saga_id: str,
    request: Any,
    actor: str,
    clock: Clock,
    blueprint: str,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> Entry:
    """Return the first entry of a new saga. It names the blueprint."""
    return Entry(
        saga_id=saga_id,
        seq=1,
        at=clock.now(),
        saga=saga_type.definition.name,
        action="SagaStarted",
        status="PENDING",
        token=0,
        actor=actor,
        correlation_id=saga_id,
        details={"request_hash": content_hash(request), "blueprint": blueprint}
        | saga_type.first_entry_details
        | dict(more),
        payload=json.dumps(request, separators=(",", ":"), ensure_ascii=False),
        salt=clock.new_salt(),
    )


def new_state(saga_type: SagaType, entry: Entry, now: float = 0.0) -> SagaState:
    """Return the initial state of a saga, from its first entry. ``now``: epoch seconds, if its start died after the
    entry and continues only now, maybe after days. The time that the saga has begins with it."""
    definition = saga_type.definition
    parent = entry.details.get("parent")
    return SagaState(
        saga_id=entry.saga_id,
        saga=definition.name,
        version=str(entry.details["version"]),
        steps=saga_type.steps_recorded(entry.details),
        correlation_id=entry.correlation_id,
        created_at=entry.at,
        updated_at=entry.at,
        digest=digest_of((carried(entry),)),
        deadline=saga_type.deadline(now or entry.at),
        head=entry.hash_after(b""),
        parent=None if parent is None else Parent(**parent),
    )


def first_message(
    saga_type: SagaType, state: SagaState, entry: Entry, *, carry: bool = True, traced: bool = False
) -> Message | None:
    """Return the first message of a new saga; ``None`` if its first step is not deployed."""
    first = state.steps[0].name
    if all(step.name != first for step in saga_type.definition.steps):
        return None
    message = Message(state.saga_id, state.saga, first, 0, False, state.dispatch, 0, entry.correlation_id)
    message = replace(message, codeless=not saga_type.step(first).has_attempts)
    if carry:
        message = replace(message, inputs=fitting((carried(entry),)))
    if traced:
        message = replace(message, trace=trace_in(entry.details.get("trace")))
    return message
