"""Convert states to control items and back, in DynamoDB's own JSON. Defaults are not stored.

PynamoDB's models describe the same items, for requests about parts of an item. A test keeps both equal.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar

from msgspec.structs import asdict

from sagas.core.rules import LONG_WAIT, forward, in_wait, quiet_until, unread_of
from sagas.core.states import (
    COUNTERS,
    Attempts,
    Cancel,
    DeadMessage,
    FanOut,
    Lease,
    Order,
    Parent,
    Polling,
    Progress,
    Purge,
    Recovery,
    SagaState,
    SagaStatus,
    StepState,
    StepStatus,
    Unread,
)
from sagas.core.text import epoch, iso
from sagas.errors import NewerFormat, check_format
from sagas.store.journal.entries import packed_hash, unpacked_hash
from sagas.store.tables import Incident, StoreSettings, packed, unpacked

Kind = TypeVar("Kind", bound=StrEnum)
Item = dict[str, Any]
"""An item, or a map in an item: its attributes by name, in DynamoDB's JSON."""

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
_USUAL = Purge(0.0)
"""The purge at the end of the retention."""


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
    lease, shard = state.lease, shard_of(state.saga_id, settings.shards)
    # A correlation id that equals the saga's id is not stored. A long one is stored as an empty text: the journal has
    # it.
    correlation_id = state.correlation_id if len(state.correlation_id) <= _LONGEST_STORED else ""
    item = attributes_of(
        {
            "saga_id": state.saga_id,
            "saga": state.saga,
            "version": state.version,
            "correlation_id": None if state.correlation_id == state.saga_id else correlation_id,
            "status": state.status.value,
            "cursor": state.cursor,
            "seq": state.seq,
            "token": state.token,
            "dispatch": state.dispatch,
            "lease_owner": lease and lease.owner,
            "lease_expires_at": lease and iso(lease.expires_at),
            "act_until": lease and iso(lease.act_until),
            "not_before": text_of(state.not_before),
            "lost_until": text_of(state.lost_until),
            "cancel_requested_at": text_of(state.cancel.at),
            "head": state.head + (packed_hash(state.digest) if state.digest else b"") if state.head else None,
            "attention": text_of(state.attention),
            "deadline": text_of(state.deadline),
            "overdue": state.overdue or None,
            "created_at": iso(state.created_at),
            "updated_at": iso(state.updated_at),
            "ended_at": text_of(state.ended_at),
            "name_shard": f"{state.saga}#{shard}",
        }
    )
    item |= _set_attributes_of(
        {
            "cancel_requested_by": state.cancel.by,
            "cancel_reason": state.cancel.reason,
            "cancelling": state.cancel.journaled,
            "rejected": state.rejected,
            "failed": state.failed,
            "cause": state.cause,
            "recovery_attempts": state.recovery.attempts,
            "recovery_exhausted": state.recovery.exhausted,
            "unanswered": state.unanswered,
            "error_seq": state.error_seq,
            "err": state.error_type,
            "resolution_seq": state.resolution_seq,
            "unreadable": state.unreadable,
            "settling_since": int(state.settling_since),
            "retrying_undos": state.retrying_undos,
        }
    )
    item["steps"] = {"L": [{"M": _step_item(step, claimable=state.status not in _BACKWARD)} for step in state.steps]}
    if state.dead:
        item["dead"] = packed(asdict(state.dead))
    if state.purge:
        item["purge"] = purge_item(state.purge)
    if state.polling:
        polling = state.polling
        looks = {"since": iso(polling.since), "looks": polling.looks, "due": iso(polling.due)}
        looks |= _set({"redacted_by": polling.redacted_by})
        item["polling"] = packed({**looks, "message": polling.message, "after": polling.after})
    if unread := state.unread:
        why = {"since": iso(unread.since), "code": unread.code, "error": unread.error}
        item["unread"] = packed(why | _set({"listed": unread.listed, "key": unread.key}))
    if parent := state.parent:
        link = {"id": parent.saga_id, "saga": parent.saga, "step": parent.step, "n": parent.position}
        if parent.round:
            link["round"] = parent.round
        if parent.counters != COUNTERS:
            link["counters"] = parent.counters
        item["parent"] = packed(link)
    if order := state.order:
        item["order"] = {"N": str(order.number if order.open else -order.number)}
    return item | _places(state, settings, stale_after)


def _places(state: SagaState, settings: StoreSettings, stale_after: float) -> Item:
    """Return a saga's keys in the sparse indexes of ended sagas, of sagas that need an operator, and of due sagas."""
    item, shard = Item(), shard_of(state.saga_id, settings.shards)
    if state.ended_at:
        item["ended"] = {"S": ended_shard(state.saga, state.status, shard)}
    waiting = state.status is SagaStatus.DEAD_LETTERED and not state.cancel.at
    stopped = bool(state.attention) and (state.ended or waiting)
    goes_on = state.attention and (state.unanswered or (state.overdue and forward(state)))
    if stopped or goes_on or unread_of(state):
        # The attention list is an index of its own, because it does not depend on when the supervisor looks at the
        # saga.
        item |= attributes_of({"incident_shard": str(shard), "incident": Incident.of(state).key})
    if place := _open_place(state, settings, stale_after, stopped=stopped):
        item |= attributes_of({"open_shard": place[0], "due": iso(place[1])})
    return item


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


def _set_attributes_of(values: Mapping[str, str | int | bool]) -> Item:
    """Return the same, but leave out zero, false and empty values, too: missing attributes have these defaults."""
    return attributes_of(_set(values))


def _set(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}


def text_of(seconds: float) -> str | None:
    """Return the stored form of a time; ``None`` for 0, which means never."""
    return iso(seconds) if seconds else None


def time_of(text: str | None) -> float:
    """Return the time of a stored form from :func:`text_of`."""
    return epoch(text) if text else 0.0


@lru_cache(maxsize=512)  # most steps of a saga stay the same, and are those of others
def _step_item(step: StepState, *, claimable: bool) -> Item:
    """Return the stored form of a step. ``claimable``: a claim may increase its attempts, so even 0 is stored."""
    item = _set_attributes_of(
        {
            "name": step.name,
            "status": step.status.value,
            "attempts": step.attempts.made,
            "granted": step.attempts.at_grant,
            "undo_attempts": step.undo_attempts.made,
            "undo_granted": step.undo_attempts.at_grant,
            "seq": step.result_seq,
            "lost": step.outcome_unknown,
            "undo": step.undo,
            "kind": step.waits_for,
            "round": step.round,
            "sig": step.signalled,
            "late": step.timed_out,
            "many": step.fan_out.children,
            "next": step.fan_out.handed_out,
            "at": step.fan_out.at_once,
            "spare": step.fan_out.tolerate,
            "back": step.fan_out.one_by_one,
            "asked": step.fan_out.requests_seq,
            "of": step.fan_out.of,
            "post": step.postponed,
            "pivot": step.pivot,
            "out": step.result,
        }
    )
    return {**item, "attempts": {"N": str(step.attempts.made)}} if claimable else item


def purge_item(purge: Purge) -> Item:
    """Return the stored form of a purge, without the usual actor and reason."""
    stored = {
        name: text for name, text in (("by", purge.by), ("reason", purge.reason)) if text != getattr(_USUAL, name)
    }
    return packed({"at": iso(purge.at), **stored})


def purge_in(stored: Item) -> Purge:
    """Return the purge of a stored form."""
    purge: dict[str, str] = unpacked(stored)
    return Purge(epoch(purge["at"]), purge.get("by", _USUAL.by), purge.get("reason", _USUAL.reason))


def text_in(item: Item, name: str) -> str:
    """Return a string of an item; empty if it is missing."""
    return item[name]["S"] if name in item else ""


def number_in(item: Item, name: str) -> int:
    """Return a whole number of an item; 0 if it is missing."""
    return int(item[name]["N"]) if name in item else 0


def _flag_in(item: Item, name: str) -> bool:
    return name in item and item[name]["BOOL"]


def state_of(item: Item) -> SagaState:
    """Return the state of a control item."""
    saga_id, owner = item["saga_id"]["S"], text_in(item, "lease_owner")
    what = f"saga {saga_id}"
    check_format(number_in(item, "format"), what)
    report: Item | None = unpacked(item["progress"]) if "progress" in item else None
    progress = None
    if report:
        progress = Progress(
            fraction=float(report["fraction"]),
            message=report["message"],
            at=epoch(report["at"]),
            late=bool(report.get("late")),
            redacted_by=report.get("redacted_by", ""),
        )
    polling, unread, parent = None, None, None
    if "polling" in item:
        poll: dict[str, Any] = unpacked(item["polling"])
        since, due = epoch(poll["since"]), epoch(poll["due"])
        mark = poll.get("redacted_by", "")
        polling = Polling(since, int(poll["looks"]), poll["message"], float(poll["after"]), due, mark)
    if "unread" in item:
        why: dict[str, Any] = unpacked(item["unread"])
        listed, key = bool(why.get("listed")), why.get("key", "")
        unread = Unread(epoch(why["since"]), why["code"], why["error"], listed, key)
    if "parent" in item:
        link = unpacked(item["parent"])
        round_, counters = int(link.get("round", 0)), int(link.get("counters", COUNTERS))
        parent = Parent(link["id"], link["saga"], link["step"], int(link["n"]), round_, counters)
    seq = int(item["seq"]["N"])
    head: bytes = item["head"]["B"] if "head" in item else b""
    return SagaState(
        saga_id=saga_id,
        saga=item["saga"]["S"],
        version=item["version"]["S"],
        correlation_id=item["correlation_id"]["S"] if "correlation_id" in item else saga_id,
        status=member(SagaStatus, item["status"]["S"], what),
        steps=tuple(_step_in(step["M"], what) for step in item["steps"]["L"]),
        cursor=int(item["cursor"]["N"]),
        seq=seq,
        token=int(item["token"]["N"]),
        dispatch=int(item["dispatch"]["N"]),
        lease=Lease(owner, epoch(item["lease_expires_at"]["S"]), epoch(item["act_until"]["S"])) if owner else None,
        cancel=Cancel(
            time_of(text_in(item, "cancel_requested_at")),
            text_in(item, "cancel_requested_by"),
            text_in(item, "cancel_reason"),
            _flag_in(item, "cancelling"),
        ),
        rejected=_flag_in(item, "rejected"),
        failed=_flag_in(item, "failed"),
        cause=text_in(item, "cause"),
        recovery=Recovery(number_in(item, "recovery_attempts"), _flag_in(item, "recovery_exhausted")),
        unanswered=number_in(item, "unanswered"),
        dead=DeadMessage(**unpacked(item["dead"])) if "dead" in item else None,
        error_seq=number_in(item, "error_seq"),
        error_type=text_in(item, "err"),
        resolution_seq=number_in(item, "resolution_seq"),
        unreadable=text_in(item, "unreadable"),
        digest=unpacked_hash(head[_HEAD:]),
        head=head[:_HEAD],
        created_at=epoch(item["created_at"]["S"]),
        updated_at=epoch(item["updated_at"]["S"]),
        ended_at=time_of(text_in(item, "ended_at")),
        not_before=time_of(text_in(item, "not_before")),
        lost_until=time_of(text_in(item, "lost_until")),
        attention=time_of(text_in(item, "attention")),
        progress=progress,
        purge=purge_in(item["purge"]) if "purge" in item else None,
        polling=polling,
        deadline=time_of(text_in(item, "deadline")),
        overdue=_flag_in(item, "overdue"),
        parent=parent,
        order=Order(abs(order), order > 0) if (order := number_in(item, "order")) else None,
        paused=text_in(item, "open_shard").startswith(PAUSED),
        settling_since=float(number_in(item, "settling_since")),
        unread=unread,
        retrying_undos=_flag_in(item, "retrying_undos"),
    )


def member(kind: type[Kind], text: str, what: str) -> Kind:
    """Return the member of an enumeration for a stored value, which only a newer version may know."""
    try:
        return kind(text)
    except ValueError:
        raise NewerFormat(what) from None


def _step_in(item: Item, what: str) -> StepState:
    return StepState(
        name=item["name"]["S"],
        status=member(StepStatus, item["status"]["S"], what),
        attempts=Attempts(number_in(item, "attempts"), number_in(item, "granted")),
        undo_attempts=Attempts(number_in(item, "undo_attempts"), number_in(item, "undo_granted")),
        result_seq=number_in(item, "seq"),
        outcome_unknown=_flag_in(item, "lost"),
        undo=_flag_in(item, "undo"),
        waits_for=text_in(item, "kind"),
        round=number_in(item, "round"),
        signalled=_flag_in(item, "sig"),
        timed_out=_flag_in(item, "late"),
        fan_out=FanOut(
            children=number_in(item, "many"),
            handed_out=number_in(item, "next"),
            at_once=number_in(item, "at"),
            tolerate=number_in(item, "spare"),
            one_by_one=_flag_in(item, "back"),
            requests_seq=number_in(item, "asked"),
            of=text_in(item, "of"),
        ),
        postponed=_flag_in(item, "post"),
        pivot=_flag_in(item, "pivot"),
        result=_flag_in(item, "out"),
    )
