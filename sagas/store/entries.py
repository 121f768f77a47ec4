"""A journal entry, and what of a fact it keeps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sagas.core import events as ev
from sagas.core.states import DeadLetter, Purge, SagaState
from sagas.core.times import epoch, iso
from sagas.store.entry_hash import details_hash, linked, payload_hash, sealed

ACTIONS = frozenset({"SagaStarted", "NeverStarted", *ev.FACTS})
"""What entries of this version may record."""


@dataclass(frozen=True, slots=True)
class Action:
    """What a purge leaves of an entry: that something happened, and when. No text and no value of the saga's own.

    ``seal`` stands for what is gone, so that the chain of hashes can still be verified.
    """

    seq: int
    action: str
    status: str
    step: str | None
    attempt: int | None
    at: float
    actor: str
    seal: str

    def hash_after(self, head: bytes, saga_id: str, saga: str) -> bytes:
        """Return the entry's hash, which covers all entries before it.

        Args:
            head: the hash of the entry before it; empty for none.
            saga_id: whose.
            saga: the saga type's name.
        """
        told = self.action, self.step, self.attempt, self.status, self.actor
        return linked(head, (saga_id, self.seq, iso(self.at), saga, *told), self.seal)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What a purge leaves of a saga, in the place of its first entry.

    Args:
        purge: when, by whom and why.
        request_hash: of the request, by which a repeated start is known again.
        state: the saga as it was; no payload is in it.
        actions: its audit trail, the last 1,000 entries of it at most.
        aside: it had payloads in S3.
        link: the hash of the entry before the first of the actions; empty when there was none.
        found_by: the names, not the values, of what it was found by.
        objects: bucket and key of the first objects in S3 that its results named.
        more_objects: how many more they named.
    """

    purge: Purge
    request_hash: str
    state: SagaState
    actions: tuple[Action, ...]
    aside: bool
    link: bytes = b""
    found_by: tuple[str, ...] = ()
    objects: tuple[tuple[str, str], ...] = ()
    more_objects: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a saga's journal, which is its audit trail.

    Args:
        saga_id: whose.
        seq: which, from 1 without gap.
        at: epoch seconds.
        saga: the saga type's name.
        action: the fact's name.
        status: the saga's status after it.
        token: the fencing token of the worker that wrote it.
        step: the step it is about.
        attempt: the execution it is about.
        actor: who: ``worker``, ``supervisor``, or a person's identity.
        correlation_id: of the saga.
        trace_id: of the invocation that wrote it.
        details: what else is to be known, as JSON builtins.
        payload: the request or the result, as JSON text.
        salt: of the entry's hashes: 22 random characters of base64url; empty in a tombstone.
        link: the hash of the entry before it; empty for the first.
        hashed: the hash of a payload that is stored aside or encrypted, while it is not loaded.
        encrypted: the payload as it is encrypted, while it is not loaded.
        tombstone: what is left of a saga that was purged, in its first entry.
    """

    saga_id: str
    seq: int
    at: float
    saga: str
    action: str
    status: str
    token: int
    step: str | None = None
    attempt: int | None = None
    actor: str = "worker"
    correlation_id: str = ""
    trace_id: str = ""
    details: dict[str, Any] = field(default_factory=dict[str, Any])
    payload: str | None = None
    salt: str = ""
    link: bytes = b""
    hashed: str = ""
    encrypted: str = ""
    tombstone: Tombstone | None = None

    @property
    def payload_hash(self) -> str:
        """The hash of the payload; empty if there is none."""
        return self.hashed if self.payload is None else payload_hash(self.salt, self.payload)

    @property
    def seal(self) -> str:
        """What stands for all that a purge takes away."""
        details = {name: value for name, value in self.details.items() if name != "payload_ref"}
        hashes = self.payload_hash, details_hash(self.salt, details)
        return sealed(self.token, self.correlation_id, self.trace_id, *hashes)

    def hash_after(self, head: bytes) -> bytes:
        """Return the entry's hash, which covers all entries before it.

        Args:
            head: the hash of the entry before it; empty for none.
        """
        return action_of(self).hash_after(head, self.saga_id, self.saga)


def action_of(entry: Entry) -> Action:
    """Return what a purge leaves of an entry."""
    told = entry.action, entry.status, entry.step, entry.attempt, entry.at, entry.actor
    return Action(entry.seq, *told, entry.seal)


NEVER_STARTED = "NeverStarted"
"""What is in the first slot of a child that is not to be started any more. It is no fact: there is no such saga."""
RESULTS = ("StepCompleted", "SignalReceived", "WaitEnded", "ChildrenEnded")
"""Those by which a step has its result, which later steps take."""


def _error(failure: ev.Failure) -> dict[str, Any]:
    return {"type": failure.type, "message": failure.message}


def _failure(details: dict[str, Any]) -> ev.Failure:
    error: dict[str, Any] = details.get("error") or {}
    return ev.Failure(str(error.get("type", "Unknown")), str(error.get("message", "")))


def details_of(fact: ev.Fact) -> dict[str, Any]:
    """Return what an entry keeps of ``fact`` beyond step and attempt; enough for :func:`fact_of`."""
    match fact:
        case ev.StepFailed():
            kept = {"error": _error(fact.failure), "permanent": fact.permanent, "rejected": fact.rejected}
            marks = {"excused": fact.excused, "outcome_unknown": fact.outcome_unknown}
            return kept | _next_attempt(fact.retry_at) | {mark: True for mark, given in marks.items() if given}
        case (
            ev.StepLost(failure=failure)
            | ev.CompensationFailed(failure=failure)
            | ev.StepDeadLettered(failure=ev.Failure() as failure)
        ):
            return {"error": _error(failure)}
        case ev.CompensationAttemptFailed():
            return {"error": _error(fact.failure)} | _next_attempt(fact.retry_at)
        case ev.StepDeadLettered(message=DeadLetter() as dead):
            return {"dispatch": dead.dispatch, "hops": dead.hops, "message_id": dead.message_id}
        case ev.CompensationStarted():
            return {"cause": fact.cause}
        case ev.Recovered():
            silence = {"unanswered": fact.unanswered, "attention": fact.attention}
            return {"stall": fact.stall} | {name: value for name, value in silence.items() if value}
        case ev.Redriven():
            return {"note": fact.note}
        case ev.Resolved():
            return {"note": fact.note, "action": fact.taken, "undone_by_hand": list(fact.steps)}
        case _:
            return _details_of_wait(fact)


def _details_of_wait(fact: ev.Fact) -> dict[str, Any]:
    match fact:
        case ev.WaitStarted():
            return {"until": iso(fact.until)}
        case ev.WaitTimedOut():
            return {"error": {"type": "WaitTimedOut", "message": "no signal came in time"}}
        case ev.Postponed():
            told = {"message": fact.message, "after": fact.after, "next_attempt_at": iso(fact.retry_at)}
            return told | {"since": iso(fact.since), "looks": fact.looks}
        case ev.ChildrenStarted():
            return {"children": fact.children, "types": list(fact.types)}
        case ev.ChildrenEnded():
            error = {} if fact.failure is None else {"error": _error(fact.failure)}
            return {"completed": fact.completed, "failed": fact.failed} | error
        case ev.SagaTimedOut():
            return {"error": {"type": "SagaTimedOut", "message": "the saga's own timeout has passed"}}
        case _:
            return {}


def _next_attempt(retry_at: float) -> dict[str, Any]:
    return {"next_attempt_at": iso(retry_at)} if retry_at else {}


def fact_of(entry: Entry, index: int) -> ev.Fact:
    """Return the fact that ``entry`` records. ``index``: the position of its step.

    Raises:
        KeyError: the action is none of the automaton's.
    """
    kind, details, attempt = ev.FACTS[entry.action], entry.details, entry.attempt or 0
    retry_at = epoch(details["next_attempt_at"]) if details.get("next_attempt_at") else 0.0
    if kind is ev.StepFailed:
        permanent, rejected = bool(details.get("permanent")), bool(details.get("rejected"))
        excused, unknown = bool(details.get("excused")), bool(details.get("outcome_unknown"))
        return ev.StepFailed(index, attempt, _failure(details), permanent, rejected, retry_at, excused, unknown)
    if kind is ev.CompensationAttemptFailed:
        return ev.CompensationAttemptFailed(index, attempt, _failure(details), retry_at)
    if kind is ev.CompensationFailed:
        return ev.CompensationFailed(index, attempt, _failure(details))
    if kind is ev.WaitStarted:
        return ev.WaitStarted(index, attempt, epoch(details["until"]))
    if issubclass(kind, ev.Postponed):
        message, after, since = str(details["message"]), float(details["after"]), epoch(details["since"])
        return kind(index, attempt, message, after, retry_at, since, int(details["looks"]))
    if kind is ev.ChildrenStarted:
        return ev.ChildrenStarted(index, attempt, int(details["children"]), tuple(map(str, details["types"])))
    if kind in (ev.StepCompleted, ev.StepLost, ev.StepCompensated):
        return kind(index, attempt)
    return _fact_without_attempt(kind, details, index)


def _fact_without_attempt(kind: type[ev.Fact], details: dict[str, Any], index: int) -> ev.Fact:
    if kind is ev.StepDeadLettered:
        known = "message_id" in details
        dead = DeadLetter(int(details["dispatch"]), int(details["hops"]), details["message_id"]) if known else None
        return ev.StepDeadLettered(index, dead, _failure(details) if "error" in details else None)
    if kind is ev.ChildrenEnded:
        failure = _failure(details) if "error" in details else None
        return ev.ChildrenEnded(index, int(details["completed"]), int(details["failed"]), failure)
    if kind in (ev.SignalReceived, ev.WaitTimedOut, ev.WaitEnded):
        return kind(index)
    if kind is ev.CompensationStarted:
        return ev.CompensationStarted(str(details.get("cause", "failure")))
    if kind is ev.Recovered:
        attention = bool(details.get("attention"))
        return ev.Recovered(bool(details.get("stall", True)), int(details.get("unanswered", 0)), attention)
    if kind is ev.Redriven:
        return ev.Redriven(str(details.get("note", "")))
    if kind is ev.Resolved:
        by_hand = tuple(str(name) for name in details.get("undone_by_hand", ()))
        return ev.Resolved(str(details.get("note", "")), str(details.get("action", "")), by_hand)
    return kind()
