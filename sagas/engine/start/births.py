"""How a saga begins: its first entry, its control item, its first message."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from sagas.authoring.codec import content_hash
from sagas.core.ids import child_id
from sagas.core.states import Parent, SagaState
from sagas.engine.attempt.carrying import carried, digest_of
from sagas.engine.clock import Clock
from sagas.engine.registry import Registry, SagaType
from sagas.engine.start.found_by import found_by, named, values_of
from sagas.errors import InvalidRequest
from sagas.messaging.message.carried import fitting
from sagas.messaging.message.message import Message
from sagas.messaging.message.trace import trace_in, trace_of
from sagas.store.control.control import ControlItems
from sagas.store.index.findings import Findings
from sagas.store.journal.entries import NEVER_STARTED, Entry
from sagas.store.journal.journal import Journal

PARENT = "parent"
"""Who acts where a saga does what its parent wants."""


@dataclass(frozen=True, slots=True)
class Births:
    """Stores children.

    Args:
        registry: the saga types.
        control, journal: where they are stored.
        clock: tells the time.
        carry: whether first messages bring the requests along.
        headers: of the active span, where there is tracing.
        findings: where what children are found by is stored; nowhere without.
    """

    registry: Registry
    control: ControlItems
    journal: Journal
    clock: Clock
    carry: bool = True
    headers: Callable[[], dict[str, str]] | None = None
    findings: Findings | None = None

    def start_child(
        self, name: str, request: Any, parent: Parent, *, correlation_id: str, sends: bool = True
    ) -> Message | None:
        """Store a child, if it is not there yet. That its type is disabled concerns callers only. Returns its first
        message, which is to be sent; ``None`` where there is none: it is on its way, or its parent has decided that
        it is never to start."""
        saga_type = self.registry.get(name)
        saga_id = child_id(parent.saga_id, parent.step, parent.position, parent.round)
        values = dict[str, str]()
        if self.findings is not None:
            with suppress(InvalidRequest):  # it is started all the same, and its first step says what does not fit
                values = values_of(saga_type, request)
        more = named(values) | trace_details(self.headers)
        entry = first_entry(saga_type, saga_id, request, PARENT, self.clock, more)
        details = {**entry.details, "parent": asdict(parent)}
        entry = replace(entry, correlation_id=correlation_id or parent.saga_id, details=details)
        found = self.journal.put(entry)
        if found.action == NEVER_STARTED or found.tombstone is not None:
            return None
        stale_after, state = saga_type.definition.stale_after.total_seconds(), new_state(saga_type, found)
        values = found_by(saga_type, found)
        if found is not entry:
            items = self.findings.items(state, values) if self.findings is not None else ()
            made = self.control.create_again(state, stale_after, self.journal, items)
        else:
            if self.findings is not None:
                self.findings.put(state, values)
            made = self.control.create(state, stale_after)
        if not made and sends:
            known = self.control.get(saga_id)
            made = known is not None and known.token == 0
        if not made:
            return None
        return first_message(saga_type, state, found, carry=self.carry, traced=self.headers is not None)


def trace_details(headers: Callable[[], dict[str, str]] | None) -> dict[str, Any]:
    """Return what the first entry keeps of the saga's trace, which begins here; nothing where nothing is traced."""
    trace = trace_of(headers()) if headers is not None else None
    return {} if trace is None else {"trace": {"saga": trace.saga, "state": trace.state}}


def first_entry(
    saga_type: SagaType, saga_id: str, request: Any, actor: str, clock: Clock, more: Mapping[str, Any]
) -> Entry:
    """Return the first entry of a new saga."""
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
        details={"request_hash": content_hash(request)} | saga_type.first_entry_details | dict(more),
        payload=json.dumps(request, separators=(",", ":"), ensure_ascii=False),
        salt=clock.new_salt(),
    )


def new_state(saga_type: SagaType, entry: Entry) -> SagaState:
    """Return a saga as its first entry has it begin."""
    definition, parent = saga_type.definition, entry.details.get("parent")
    return SagaState(
        saga_id=entry.saga_id,
        saga=definition.name,
        version=str(entry.details["version"]),
        steps=saga_type.steps_recorded(entry.details),
        correlation_id=entry.correlation_id,
        created_at=entry.at,
        updated_at=entry.at,
        digest=digest_of((carried(entry),)),
        deadline=saga_type.deadline(entry.at),
        head=entry.hash_after(b""),
        parent=None if parent is None else Parent(**parent),
    )


def first_message(
    saga_type: SagaType, state: SagaState, entry: Entry, *, carry: bool = True, traced: bool = False
) -> Message | None:
    """Return the first message of a new saga; ``None`` where its code is not deployed."""
    first = state.steps[0].name
    if all(step.name != first for step in saga_type.definition.steps):
        return None
    message = Message(state.saga_id, state.saga, first, 0, False, state.dispatch, 0, entry.correlation_id)
    message = replace(message, codeless=not saga_type.step(first).asks)
    if carry:
        message = replace(message, inputs=fitting((carried(entry),)))
    if traced:
        message = replace(message, trace=trace_in(entry.details.get("trace")))
    return message
