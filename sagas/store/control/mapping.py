"""Convert states to control items and back, in DynamoDB's own JSON. :mod:`sagas.store.schema` describes the items."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from functools import lru_cache

from sagas.core.rules import LONG_WAIT, awaits_release, forward, in_wait, quiet_until, unread_of
from sagas.core.states import Order, SagaState, SagaStatus, StepState
from sagas.core.text import epoch, iso
from sagas.errors import NewerFormat, check_format
from sagas.store.journal.entries import packed_hash, unpacked_hash
from sagas.store.schema import CONTROL, PROGRESS, STEP, Item
from sagas.store.tables import Incident, StoreSettings

PAUSED = "paused#"
"""Prefix of the keys of paused sagas in the index ``open``."""
NEVER_DUE = 253_370_764_800.0
"""Epoch seconds in the year 9999, which never come."""

_LONGEST_STORED = 36
"""Maximum characters of a correlation id in the control item. Only the first journal entry has a longer one."""
_HEAD = 32
"""Bytes of an entry's hash."""
_BACKWARD = frozenset(
    {SagaStatus.COMPENSATING, SagaStatus.COMPENSATED, SagaStatus.CANCELLED, SagaStatus.COMPENSATION_FAILED}
)


@lru_cache(maxsize=64)
def shard_of(saga_id: str, shards: int) -> int:
    """Return the shard of a saga. Indexes have shards because a partition takes a thousand writes per second."""
    return int.from_bytes(hashlib.sha256(saga_id.encode()).digest()[:4]) % shards


def sent_ahead(state: SagaState) -> bool:
    """Whether the supervisor sends the saga's message shortly before the end of a wait. This applies to long waits
    without lease or message. If the saga's own deadline comes first, the supervisor handles the deadline when it
    passes."""
    waits_long = state.status is SagaStatus.WAITING and state.not_before - state.updated_at > LONG_WAIT
    return waits_long and not state.lease and not 0.0 < state.ends_at < state.not_before


def due_at(state: SagaState, stale_after: float) -> float:
    """Return when the supervisor should look at the saga.

    The time is rounded up to a multiple of ``stale_after``, so a short saga only writes to the index at its start and
    end. The end of a wait and the saga's own deadline are not rounded. The next poll of a step is rounded, because
    steps poll often, unless the saga has no message. A dead-lettered saga that was resolved is only due at its own
    deadline. It stays in the index, for lists. A saga is due at once if an input may be missing.
    """
    lease = state.lease.expires_at if state.lease else 0.0
    if state.unread and state.unread.key and not state.unread.gone and not lease:
        return state.updated_at  # the supervisor looks for the object
    if sent_ahead(state) or (in_wait(state) and not state.joins and not state.lease):
        due = state.not_before
    elif state.status is SagaStatus.DEAD_LETTERED and not state.lease and not state.cancel.at:
        due = NEVER_DUE
    else:
        quiet = 0.0 if state.status is SagaStatus.WAITING and lease else quiet_until(state, stale_after)
        due = math.ceil(max(quiet, lease + stale_after) / stale_after) * stale_after
    return state.in_time(due)


def paused_until(state: SagaState) -> float:
    """Return when the supervisor should look at a paused saga: not before its own deadline."""
    return state.ends_at or NEVER_DUE


def wait_shard(shard: int) -> str:
    """Return the key in the index ``open`` of a shard's sagas that wait long. They are handled before they are due."""
    return f"wait#{shard}"


def paused_shard(saga: str, shard: int, *, undo: bool) -> str:
    """Return the key in the index ``open`` of a shard's paused sagas. Sagas whose undo is paused have a separate key,
    because undos may be resumed earlier. No type's name has a ``#``."""
    return f"{PAUSED}{saga}#undo#{shard}" if undo else f"{PAUSED}{saga}#{shard}"


def ended_shard(saga: str, status: str, shard: int) -> str:
    """Return the key in the index ``ended`` of the sagas of a type and shard that ended with a status."""
    return f"{saga}#{status}#{shard}"


STOPPED = "stopped"
"""The key in the index ``open`` of circuit breakers that are not closed, and of types whose starts the library has
paused. So a reader finds them with one request, however many there are of those that are not."""


def purge_shard(shard: int) -> str:
    """Return the key in the index ``open`` of a shard's sagas that will be purged."""
    return f"purge#{shard}"


STARTING = 60.0
"""Seconds after which a start can no longer complete. The function that starts runs at most 29 s, or 30 s for a
child."""
OVERTAKEN = 900.0
"""Seconds for which a process that has lost its lease may still run. A lease for work without code is short, and the
function may run as long as Lambda allows."""


def purge_at(state: SagaState, settings: StoreSettings) -> float:
    """Return when (epoch seconds) the supervisor should purge the saga, or continue its purge; 0 for never.

    Retention counts from a saga's end. A saga that needs an operator is kept until it is resolved, and its retention
    counts from then.

    A purge must not end while a process that does not know of it may still write: late writes would be kept for good.
    Such processes are a caller that wrote the first entry and creates the control item next, a function that starts
    children, and a lost execution. An interrupted purge continues at the same time.
    """
    if state.purge is not None:
        began = state.updated_at if any(step.fan_out.children for step in state.steps) else state.created_at
        return max(state.purge.at, began + STARTING, state.lost_until + OVERTAKEN if state.lost_until else 0.0)
    # A child is kept as long as its parent, and they are purged together.
    never = state.saga in settings.never_expiring or not settings.retention or state.parent is not None
    return 0.0 if never or state.attention or not state.ended else state.updated_at + settings.retention


@lru_cache(maxsize=2)  # in a chain, each commit begins with the state that the last one wrote
def item_of(state: SagaState, settings: StoreSettings, stale_after: float) -> Item:
    """Return the control item of a state, without progress. Callers must not change it. ``stale_after``: seconds
    without a response until a stall."""
    item = CONTROL.packs(state)
    if state.correlation_id != state.saga_id:  # a long one is stored as an empty text: the journal has it
        short = len(state.correlation_id) <= _LONGEST_STORED
        item["correlation_id"] = {"S": state.correlation_id if short else ""}
    if state.head:
        item["head"] = {"B": state.head + (packed_hash(state.digest) if state.digest else b"")}
    if order := state.order:
        item["order"] = {"N": str(order.number if order.open else -order.number)}
    claimable = state.status not in _BACKWARD
    item["steps"] = {"L": [{"M": _step_item(step, claimable=claimable)} for step in state.steps]}
    item["name_shard"] = {"S": f"{state.saga}#{shard_of(state.saga_id, settings.shards)}"}
    return item | _places(state, settings, stale_after)


def _places(state: SagaState, settings: StoreSettings, stale_after: float) -> Item:
    """Return a saga's keys in the sparse indexes of ended sagas, of sagas that need an operator, and of due sagas."""
    item = Item()
    shard = shard_of(state.saga_id, settings.shards)
    if state.ended_at:
        item["ended"] = {"S": ended_shard(state.saga, state.status, shard)}
    waiting = state.status is SagaStatus.DEAD_LETTERED and not state.cancel.at
    stopped = bool(state.attention) and (state.ended or waiting)
    goes_on = state.attention and (state.unanswered or (state.overdue and forward(state)))
    if stopped or goes_on or unread_of(state) or awaits_release(state):
        # The attention list is an index of its own, because it does not depend on when the supervisor looks at the
        # saga.
        item |= incident_place(state, shard)
    if place := _open_place(state, settings, stale_after, stopped=stopped):
        item |= attributes_of({"open_shard": place[0], "due": iso(place[1])})
    return item


def incident_place(state: SagaState, shard: int) -> Item:
    """Return the keys of a saga on the attention list."""
    return attributes_of({"incident_shard": str(shard), "incident": Incident.of(state).key})


def _open_place(
    state: SagaState, settings: StoreSettings, stale_after: float, *, stopped: bool
) -> tuple[str, float] | None:
    """Return a saga's key in the index of due sagas, and when it is due. ``stopped``: it waits for an operator."""
    shard = shard_of(state.saga_id, settings.shards)
    if state.ended and state.order and state.order.open:
        return str(shard), due_at(state, stale_after)
    if to_purge := purge_at(state, settings):
        return purge_shard(shard), to_purge
    if stopped:
        return (str(shard), state.ends_at) if state.ends_at else None
    if state.ended:
        return None
    if state.paused:
        return paused_shard(state.saga, shard, undo=state.undoing), paused_until(state)
    return wait_shard(shard) if sent_ahead(state) else str(shard), due_at(state, stale_after)


def attributes_of(values: Mapping[str, str | int | bool | bytes | None]) -> Item:
    """Return plain values by name in DynamoDB's form. Values that are ``None`` are left out."""
    item: Item = {}
    for name, value in values.items():
        if value is None:  # checked first, because it is the most frequent
            continue
        if isinstance(value, str):
            item[name] = {"S": value}
        elif isinstance(value, bool):
            item[name] = {"BOOL": value}
        elif isinstance(value, bytes):
            item[name] = {"B": value}
        else:
            item[name] = {"N": str(value)}
    return item


def text_of(seconds: float) -> str | None:
    """Return the stored form of a time; ``None`` for 0, which means never."""
    return iso(seconds) if seconds else None


def time_of(text: str | None) -> float:
    """Return the time of a stored form from :func:`text_of`."""
    return epoch(text) if text else 0.0


@lru_cache(maxsize=512)  # most steps of a saga stay the same, and are those of others
def _step_item(step: StepState, *, claimable: bool) -> Item:
    """Return the stored form of a step. ``claimable``: a claim may increase its attempts, so even 0 is stored."""
    item = STEP.packs(step)
    return {**item, "attempts": {"N": str(step.attempts.made)}} if claimable else item


def text_in(item: Item, name: str) -> str:
    """Return a string of an item; empty if it is missing."""
    return item[name]["S"] if name in item else ""


def number_in(item: Item, name: str) -> int:
    """Return a whole number of an item; 0 if it is missing."""
    return int(item[name]["N"]) if name in item else 0


def state_of(item: Item) -> SagaState:
    """Return the state of a control item."""
    saga_id = item["saga_id"]["S"]
    what = f"saga {saga_id}"
    check_format(number_in(item, "format"), what)
    head: bytes = item["head"]["B"] if "head" in item else b""
    order = number_in(item, "order")
    try:
        return SagaState(
            **CONTROL.values(item),
            steps=tuple(STEP.unpacks(step["M"]) for step in item["steps"]["L"]),
            correlation_id=item["correlation_id"]["S"] if "correlation_id" in item else saga_id,
            head=head[:_HEAD],
            digest=unpacked_hash(head[_HEAD:]),
            progress=PROGRESS.unpacks(item["progress"]["M"]) if "progress" in item else None,
            order=Order(abs(order), order > 0) if order else None,
            paused=text_in(item, "open_shard").startswith(PAUSED),
        )
    except NewerFormat:
        raise NewerFormat(what) from None
