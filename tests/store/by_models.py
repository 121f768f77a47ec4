"""The requests of a step's hot path as PynamoDB's models put them together: what ours are held against."""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64decode, urlsafe_b64encode
from typing import Any

from pynamodb.expressions.update import Update

from sagas.core.rules import attention_code
from sagas.core.states import (
    Attempts,
    Cancel,
    DeadMessage,
    Lease,
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
from sagas.errors import FORMAT
from sagas.store.control.mapping import OVERTAKEN, due_at, shard_of
from sagas.store.journal.entries import Entry
from sagas.store.tables import DeadAttribute, StepAttribute, StoreSettings, Tables

_FORWARD = (SagaStatus.PENDING.value, SagaStatus.RUNNING.value, SagaStatus.WAITING.value)
_READY = (StepStatus.PENDING.value, StepStatus.RETRYING.value)
_BACKWARD = (
    SagaStatus.COMPENSATING,
    SagaStatus.COMPENSATED,
    SagaStatus.CANCELLED,
    SagaStatus.COMPENSATION_FAILED,
)
_TIMES = ("ended_at", "not_before", "lost_until", "attention", "deadline")
_PLAIN = (
    "rejected",
    "failed",
    "cause",
    "overdue",
    "unanswered",
    "error_seq",
    "error_type",
    "resolution_seq",
    "unreadable",
    "retrying_undos",
)

# States and entries as items, and back.


def control_item(tables: Tables, state: SagaState, settings: StoreSettings, stale_after: float) -> dict[str, Any]:
    """A state as DynamoDB has it, without what only the store adds: when it is due, and when it expires."""
    dead = state.dead
    values: dict[str, Any] = {
        "saga": state.saga,
        "version": state.version,
        "correlation_id": state.correlation_id if state.correlation_id != state.saga_id else None,
        "status": state.status.value,
        "steps": [_step_attribute(step, state.status) for step in state.steps],
        "cursor": state.cursor,
        "seq": state.seq,
        "token": state.token,
        "dispatch": state.dispatch,
        "dead": dead and DeadAttribute(dispatch=dead.dispatch, hops=dead.hops, message_id=dead.message_id),
        "lease_owner": state.lease and state.lease.owner,
        "lease_expires_at": state.lease and iso(state.lease.expires_at),
        "act_until": state.lease and iso(state.lease.act_until),
        "created_at": iso(state.created_at),
        "updated_at": iso(state.updated_at),
        "name_shard": f"{state.saga}#{shard_of(state.saga_id, settings.shards)}",
        "cancel_requested_at": iso(state.cancel.at) if state.cancel.at else None,
        "cancel_requested_by": state.cancel.by or None,
        "cancel_reason": state.cancel.reason or None,
        "cancelling": state.cancel.journaled or None,
        "settling_since": int(state.settling_since) or None,
        "recovery_attempts": state.recovery.attempts or None,
        "recovery_exhausted": state.recovery.exhausted or None,
        "head": state.head + urlsafe_b64decode(f"{state.digest}==") if state.head else None,
    }
    values |= {name: getattr(state, name) or None for name in _PLAIN}
    values |= {name: iso(getattr(state, name)) if getattr(state, name) else None for name in _TIMES}
    waiting = state.status is SagaStatus.DEAD_LETTERED and not state.cancel.at
    purge, kept = state.purge, state.attention or not state.ended or not settings.retention
    if purge:
        values["purge"] = {"at": iso(purge.at)}
        values["purge"] |= {} if purge.by == "supervisor" else {"by": purge.by}
        values["purge"] |= {} if purge.reason == "retention" else {"reason": purge.reason}
    if state.ended_at:
        values["ended"] = f"{state.saga}#{state.status.value}#{shard_of(state.saga_id, settings.shards)}"
    if state.polling:
        values["polling"] = {"since": iso(state.polling.since), "looks": state.polling.looks}
        values["polling"] |= {"due": iso(state.polling.due), "message": state.polling.message}
        values["polling"] |= {"after": state.polling.after}
    values["unread"] = _why_unread(state.unread) if state.unread else None
    overdue = state.overdue and not state.ended and not state.undoing
    unread = state.unread is not None and state.unread.listed and not state.attention
    if unread or (state.attention and (state.ended or waiting or state.unanswered or overdue)):
        shard = shard_of(state.saga_id, settings.shards)
        undo = [step.name for step in state.steps if step.status is StepStatus.COMPENSATION_FAILED]
        doubt = state.in_doubt if state.ended and state.status is not SagaStatus.FAILED else ()
        here = state.steps[min(state.cursor, len(state.steps) - 1)].name
        step = here if unread and state.cursor < len(state.steps) else [*undo, *doubt, here][0]
        code, at = attention_code(state).value, state.attention
        if unread and state.unread:
            at = state.unread.since
        key = f"{iso(at)[:19]}Z#{state.saga}#{step}#{code}#{state.error_type}"
        values |= {"attention_shard": str(shard), "attention_at": key}
    if purge or not kept:
        shard = shard_of(state.saga_id, settings.shards)
        due = state.updated_at + settings.retention
        if purge:
            born = state.updated_at if [step for step in state.steps if step.fan_out.children] else state.created_at
            due = max(purge.at, born + 60, state.lost_until + OVERTAKEN if state.lost_until else 0)
        values |= {"open_shard": f"purge#{shard}", "due": iso(due)}
    elif state.attention and waiting and state.deadline and not state.past_pivot:
        values |= {"open_shard": str(shard_of(state.saga_id, settings.shards)), "due": iso(state.deadline)}
    elif not (state.attention and waiting) and not state.ended:
        shard = shard_of(state.saga_id, settings.shards)
        long = state.status is SagaStatus.WAITING and not state.lease and state.not_before - state.updated_at > 900
        long = long and (not state.deadline or bool(state.cancel.at) or state.deadline >= state.not_before)
        values |= {"open_shard": f"wait#{shard}" if long else str(shard), "due": iso(due_at(state, stale_after))}
    return _sent(tables.control(saga_id=state.saga_id, **values).to_dynamodb_dict())


def _sent(item: dict[str, Any]) -> dict[str, Any]:
    """The item as it is handed to botocore: of binary values the model makes JSON, which it need not be."""
    return {name: {"B": b64decode(value["B"])} if "B" in value else value for name, value in item.items()}


def _step_attribute(step: StepState, status: SagaStatus) -> StepAttribute:
    made = StepAttribute(
        name=step.name,
        status=step.status.value,
        attempts=step.attempts.made,
        granted=step.attempts.at_grant or None,
        undo_attempts=step.undo_attempts.made or None,
        undo_granted=step.undo_attempts.at_grant or None,
        seq=step.result_seq or None,
        lost=step.outcome_unknown or None,
        undo=step.undo or None,
        kind=step.waits_for or None,
        round=step.round or None,
        sig=step.signalled or None,
        late=step.timed_out or None,
        post=step.postponed or None,
        pivot=step.pivot or None,
        out=step.result or None,
    )
    if not step.attempts.made and status in _BACKWARD:
        made.attempts = None
    return made


def control_state(tables: Tables, stored: dict[str, Any]) -> SagaState:
    """The state an item holds."""
    item = tables.control.from_raw_data(stored)
    dead, noted, owner = item.dead, item.progress, item.lease_owner
    return SagaState(
        saga_id=item.saga_id,
        saga=item.saga,
        version=item.version,
        correlation_id=item.correlation_id or item.saga_id,
        status=SagaStatus(item.status),
        steps=tuple(_step_state(step) for step in item.steps),
        cursor=int(item.cursor),
        seq=int(item.seq),
        token=int(item.token),
        dispatch=int(item.dispatch),
        lease=Lease(owner, epoch(item.lease_expires_at), epoch(item.act_until)) if owner else None,
        cancel=Cancel(
            epoch(item.cancel_requested_at) if item.cancel_requested_at else 0.0,
            item.cancel_requested_by or "",
            item.cancel_reason or "",
            bool(item.cancelling),
        ),
        rejected=bool(item.rejected),
        failed=bool(item.failed),
        cause=item.cause or "",
        recovery=Recovery(int(item.recovery_attempts or 0), bool(item.recovery_exhausted)),
        unanswered=int(item.unanswered or 0),
        dead=DeadMessage(int(dead.dispatch), int(dead.hops), dead.message_id) if dead else None,
        error_seq=int(item.error_seq or 0),
        error_type=item.error_type or "",
        resolution_seq=int(item.resolution_seq or 0),
        unreadable=item.unreadable or "",
        settling_since=float(item.settling_since or 0),
        retrying_undos=bool(item.retrying_undos),
        overdue=bool(item.overdue),
        head=(item.head or b"")[:32],
        digest=urlsafe_b64encode((item.head or b"")[32:]).decode().rstrip("="),
        created_at=epoch(item.created_at),
        updated_at=epoch(item.updated_at),
        progress=Progress(float(noted["fraction"]), noted["message"], epoch(noted["at"])) if noted else None,
        purge=_purge(item.purge) if item.purge else None,
        polling=_polling(item.polling) if item.polling else None,
        unread=_unread(item.unread) if item.unread else None,
        paused=(item.open_shard or "").startswith("paused#"),
        parent=None,  # families have no hot path of their own
        order=None,
        **{name: epoch(text) for name in _TIMES if (text := getattr(item, name))},
    )


def _polling(told: dict[str, Any]) -> Polling:
    return Polling(epoch(told["since"]), int(told["looks"]), told["message"], float(told["after"]), epoch(told["due"]))


def _why_unread(unread: Unread) -> dict[str, Any]:
    given = {"since": iso(unread.since), "code": unread.code, "error": unread.error}
    return given | ({"listed": True} if unread.listed else {}) | ({"key": unread.key} if unread.key else {})


def _unread(told: dict[str, Any]) -> Unread:
    since = epoch(told["since"])
    return Unread(since, told["code"], told["error"], told.get("listed", False), told.get("key", ""))


def _purge(purge: dict[str, str]) -> Purge:
    return Purge(epoch(purge["at"]), purge.get("by", "supervisor"), purge.get("reason", "retention"))


def _step_state(item: Any) -> StepState:
    return StepState(
        name=item.name,
        status=StepStatus(item.status),
        attempts=Attempts(int(item.attempts or 0), int(item.granted or 0)),
        undo_attempts=Attempts(int(item.undo_attempts or 0), int(item.undo_granted or 0)),
        result_seq=int(item.seq or 0),
        outcome_unknown=bool(item.lost),
        undo=bool(item.undo),
        waits_for=item.kind or "",
        round=int(item.round or 0),
        signalled=bool(item.sig),
        timed_out=bool(item.late),
        postponed=bool(item.post),
        pivot=bool(item.pivot),
        result=bool(item.out),
    )


def entry_item(tables: Tables, entry: Entry) -> dict[str, Any]:
    """An entry as DynamoDB has it, its payload beside it."""
    item = tables.entry(
        saga_id=entry.saga_id,
        seq=entry.seq,
        format=FORMAT,
        at=iso(entry.at),
        saga=entry.saga,
        action=entry.action,
        step=entry.step,
        attempt=entry.attempt,
        status=entry.status,
        actor=entry.actor,
        correlation_id=entry.correlation_id,
        trace_id=entry.trace_id or None,
        token=entry.token,
        prev=entry.link or None,
        details=entry.details,
        payload=entry.payload,
        payload_hash=entry.payload_hash if entry.payload is not None else None,
        salt=entry.salt or None,
    )
    return _sent(item.to_dynamodb_dict())


def entry_of(tables: Tables, stored: dict[str, Any]) -> Entry:
    """The entry an item holds."""
    item = tables.entry.from_raw_data(stored)
    return Entry(
        saga_id=item.saga_id,
        seq=int(item.seq),
        at=epoch(item.at),
        saga=item.saga,
        action=item.action,
        step=item.step,
        attempt=None if item.attempt is None else int(item.attempt),
        status=item.status,
        actor=item.actor,
        correlation_id=item.correlation_id or "",
        trace_id=item.trace_id or "",
        token=int(item.token),
        details=dict(item.details),
        payload=item.payload,
        salt=item.salt or "",
        link=item.prev or b"",
    )


# Conditions and updates.


def claim_step(
    tables: Tables, index: int, dispatch: int, lease: Lease, now: float, name: str | None
) -> tuple[Any, Any]:
    """Condition and update of a step's claim."""
    model = tables.control
    step = model.steps[index]
    condition = (
        _free(tables, index, dispatch, now, name)
        & model.status.is_in(*_FORWARD)
        & (step.status.is_in(*_READY) | ((step.status == StepStatus.WAITING.value) & model.polling.exists()))
        & model.cancel_requested_at.does_not_exist()
        & model.recovery_exhausted.does_not_exist()
    )
    running = [
        step.status.set(StepStatus.RUNNING.value),
        step.attempts.set(step.attempts + 1),
        model.status.set(SagaStatus.RUNNING.value),
    ]
    return condition, Update(*running, *_held(tables, lease), model.not_before.remove())


def claim_undo(
    tables: Tables, index: int, dispatch: int, lease: Lease, now: float, name: str | None
) -> tuple[Any, Any]:
    """Condition and update of an undo's claim."""
    model = tables.control
    step = model.steps[index]
    condition = (
        _free(tables, index, dispatch, now, name)
        & (model.status == SagaStatus.COMPENSATING.value)
        & _passed(model.lost_until, now)
    )
    undoing = [
        step.status.set(StepStatus.COMPENSATING.value),
        step.undo_attempts.set((step.undo_attempts | 0) + 1),
    ]
    return condition, Update(*undoing, *_held(tables, lease), model.not_before.remove())


def _free(tables: Tables, index: int, dispatch: int, now: float, name: str | None) -> Any:
    model = tables.control
    condition = (
        model.lease_owner.does_not_exist()
        & (model.cursor == index)
        & (model.dispatch == dispatch)
        & _passed(model.not_before, now)
        & _readable(tables)
    )
    return condition if name is None else condition & (model.steps[index].name == name)


def _passed(attribute: Any, now: float) -> Any:
    return attribute.does_not_exist() | (attribute <= iso(now))


def _readable(tables: Tables) -> Any:
    model = tables.control
    return model.format.does_not_exist() | (model.format <= FORMAT)


def _held(tables: Tables, lease: Lease) -> list[Any]:
    model = tables.control
    return [
        model.token.set(model.token + 1),
        model.lease_owner.set(lease.owner),
        model.lease_expires_at.set(iso(lease.expires_at)),
        model.act_until.set(iso(lease.act_until)),
    ]


def claim(tables: Tables, before: SagaState) -> Any:
    """Condition of a claim of what was read."""
    model, lease = tables.control, before.lease
    condition = (model.token == before.token) & (model.seq == before.seq) & _readable(tables)
    if lease is None:
        return condition & model.lease_owner.does_not_exist()
    return condition & (model.lease_owner == lease.owner) & (model.lease_expires_at == iso(lease.expires_at))


def commit(tables: Tables, before: SagaState, after: SagaState) -> Any:
    """Condition of a commit."""
    model = tables.control
    condition = (model.token == before.token) & (model.seq == before.seq)
    for index, (was, now) in enumerate(zip(before.steps, after.steps, strict=True)):
        if was.waits_for == "signal" and was != now and not was.signalled:
            condition &= model.steps[index].sig.does_not_exist()
    ignoring = before.status.value in _FORWARD and not before.cancel.at and not after.undoing
    return condition & model.cancel_requested_at.does_not_exist() if ignoring else condition


def extend(tables: Tables, state: SagaState, lease: Lease, expires_at: float) -> tuple[Any, Any]:
    """Condition and update of a heartbeat."""
    model = tables.control
    condition = (model.lease_owner == lease.owner) & (model.token == state.token) & (model.seq == state.seq)
    return condition, Update(model.lease_expires_at.set(iso(expires_at)))
