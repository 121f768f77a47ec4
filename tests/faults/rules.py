"""The rules of the commit protocol, each to be switched off: an exploration that finds nothing then proves nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast
from unittest.mock import patch

from msgspec import structs
from msgspec.structs import replace

from sagas.core import arrivals, automaton, rules, transitions, undoing
from sagas.core import events as ev
from sagas.core.commands import Backlog, Decision, MessageArrived, Send, Write
from sagas.core.rules import Plan
from sagas.core.states import SagaState, SagaStatus, StepState
from sagas.core.text import iso
from sagas.engine import committer
from sagas.engine.attempt.attempt import SKEW, Attempt
from sagas.engine.operate import operations
from sagas.engine.operate.operations import Operations
from sagas.engine.read.remains import Remains
from sagas.engine.start.starter import Starter
from sagas.engine.step_queues import StepQueues
from sagas.engine.supervise import due_scan
from sagas.engine.supervise.due_scan import Finder
from sagas.engine.supervise.purge import Purger
from sagas.engine.supervise.recovery import RecoveryReport, RecoveryRun
from sagas.errors import Ambiguous, SagaError
from sagas.store.connection import Fenced, Refused
from sagas.store.control import control
from sagas.store.control.control import ControlItems
from sagas.store.journal.entries import Entry
from sagas.store.journal.journal import Journal
from sagas.store.journal.tombstones import Tombstones
from sagas.store.types.blueprints import BlueprintItems
from sagas.testing.faults import Fault, Point

Off = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class Life:
    """The run of a scenario that goes wrong without a rule. ``point``: what disturbs it, if anything has to."""

    scenario: str
    point: Point | None = None

    @property
    def plans(self) -> list[tuple[Point, ...]]:
        """What is replayed: the run that nothing disturbs, too, since others are compared with it."""
        return [(), (self.point,)] if self.point else [()]

    def __str__(self) -> str:
        return f"scenario {self.scenario}, {self.point or 'nothing disturbed'}"


@dataclass(frozen=True, slots=True)
class Orders:
    """A story that goes wrong without a rule in some order of its requests."""

    story: str

    def __str__(self) -> str:
        return f"story {self.story}"


@dataclass(frozen=True, slots=True)
class Rule:
    """What the protocol asks for, how to do without it, and what catches that."""

    text: str
    off: Off
    caught: tuple[Life | Orders, ...]


Switch = Callable[[], Generator[None]]


class Rules(dict[str, Rule]):
    """Those of one kind, by the names of the functions that switch them off."""

    def rule(self, text: str, *caught: Life | Orders) -> Callable[[Switch], Switch]:
        """Add a rule, which the function that is decorated switches off; see :class:`Rule`."""

        def add(off: Switch) -> Switch:
            self[off.__name__.strip("_")] = Rule(text, contextmanager(off), caught)
            return off

        return add


RULES = Rules()
_rule = RULES.rule
_control, _journal = cast("Any", ControlItems), cast("Any", Journal)


@contextmanager
def within(caller: tuple[Any, str], inner: tuple[Any, str], other: Callable[..., Any]) -> Generator[None]:
    """Have another function stand for one that a certain caller calls, and there alone.

    While that waits for an answer other processes go on, in this same process of Python's: what is at work is known by
    a variable of its context, which each of them has for itself.

    Args:
        caller: whose function it is, and its name.
        inner: likewise of the one to be replaced.
        other: stands for it.
    """
    at_work: ContextVar[bool] = ContextVar("at_work", default=False)
    calling, original = getattr(*caller), getattr(*inner)

    def called(*given: Any, **more: Any) -> Any:
        token = at_work.set(True)
        try:
            return calling(*given, **more)
        finally:
            at_work.reset(token)

    def chosen(*given: Any, **more: Any) -> Any:
        return (other if at_work.get() else original)(*given, **more)

    with patch.object(*caller, called), patch.object(*inner, chosen):
        yield


_ANY_SLOT = "attribute_exists(seq) OR attribute_not_exists(seq)"


def _no_cancel(condition: str, before: SagaState, after: SagaState) -> str:
    """The rest of a commit's condition, unchanged."""
    ignoring = before.status.value in ("PENDING", "RUNNING") and not before.cancel.at and not after.undoing
    return f"{condition} AND attribute_not_exists(#cancel_requested_at)" if ignoring else condition


@_rule("15: the head is of the entry in the slot", Life("happy", Point(10, Fault.DIES_AFTER)))
def _heads_of_ones_own_entries() -> Generator[None]:
    proven = cast("Any", committer)._proven

    def of_ones_own(decision: Decision, before: SagaState, entry: Entry) -> Decision:
        return proven(decision, before, replace(entry, token=before.token))

    with patch.object(committer, "_proven", of_ones_own):
        yield


@_rule("2: entries are write-once", Life("short_lease_undone", Point(19, Fault.DIES_BEFORE)))
def _entries_overwrite() -> Generator[None]:
    with patch.object(Journal, "vacant", _ANY_SLOT):
        yield


@_rule(
    "1, 3: only a lease holder commits, and only the open slot", Life("short_lease, chained", Point(12, Fault.LATE, 5))
)
def _commit_without_token_and_seq() -> Generator[None]:
    def mine(self: Any, before: SagaState, after: SagaState) -> str:
        return _no_cancel("attribute_exists(#token)", before, after)

    with patch.object(ControlItems, "_mine", mine):
        yield


@_rule("1: only a lease holder commits")
def _commit_without_token() -> Generator[None]:
    def mine(self: Any, before: SagaState, after: SagaState) -> str:
        return _no_cancel("#seq = :seen_seq", before, after)

    with patch.object(ControlItems, "_mine", mine):
        yield


@_rule("3: the pointer moves over the open slot only", Orders("a lost answer, undone"))
def _commit_without_seq() -> Generator[None]:
    def mine(self: Any, before: SagaState, after: SagaState) -> str:
        return _no_cancel("#token = :seen_token", before, after)

    with patch.object(ControlItems, "_mine", mine):
        yield


@_rule("1: who journals takes the lease first", Orders("a supervisor and a death"))
def _operations_without_lease() -> Generator[None]:
    def unclaimed(state: SagaState, lease: Any) -> SagaState:
        return state

    def claim(self: Any, before: SagaState, after: SagaState, stale_after: float) -> bool:
        return True

    with patch.object(arrivals, "_claimed", unclaimed), patch.object(ControlItems, "claim", claim):
        yield


@_rule("4: a takeover has a new token")
def _takeover_keeps_the_token() -> Generator[None]:
    taken = cast("Any", arrivals)._taken_over

    def same(plan: Any, state: SagaState, lease: Any, now: float) -> Any:
        decision = taken(plan, state, lease, now)
        return structs.replace(decision, state=structs.replace(decision.state, token=state.token))

    with patch.object(arrivals, "_taken_over", same):
        yield


@_rule("4: a takeover fences first", Life("happy", Point(9, Fault.DIES_AFTER)))
def _takeover_without_fence() -> Generator[None]:
    def no_fence(plan: Any, state: SagaState, now: float) -> ev.Fact:
        return ev.MessageResent()

    with patch.object(arrivals, "takeover_fact", no_fence):
        yield


@_rule("5: undoing waits", Life("short_lease, chained", Point(11, Fault.PAUSES, 3)))
def _undoing_does_not_wait() -> Generator[None]:
    with _in_place("waits", _no):
        yield


@_rule("6: attempts are counted at the claim", Life("happy", Point(9, Fault.DIES_AFTER)))
def _attempts_not_counted() -> Generator[None]:
    claim = _control._claim

    def uncounted(self: Any, *arguments: Any) -> Any:
        *first, allowed, changes, kind = arguments
        return claim(self, *first, allowed, [change for change in changes if ":one" not in change], kind)

    with patch.object(ControlItems, "_claim", uncounted):
        yield


@_rule("7: no update creates an item", Orders("a lost item and a cancel"))
def _items_created_by_updates() -> Generator[None]:
    request = _control.request_cancel

    def upsert(self: Any, before: SagaState, after: SagaState) -> bool:
        model = self._tables.control
        flag = model.cancel_requested_at.set(iso(after.cancel.at))
        if request(self, before, after):
            return True
        with suppress(Refused):
            model(before.saga_id).update(actions=[flag], condition=model.status.does_not_exist())
        return False

    with patch.object(ControlItems, "request_cancel", upsert):
        yield


@_rule("8: a stale message runs nothing", Orders("chained: two workers"))
def _stale_messages_run() -> Generator[None]:
    claim = _control.claim_step

    def current(self: Any, saga_id: str, index: int, dispatch: int, *rest: Any) -> Any:
        state = self.get(saga_id)
        return claim(self, saga_id, index, state.dispatch if state else dispatch, *rest)

    with patch.object(ControlItems, "claim_step", current):
        yield


@_rule("9: what stalls is recovered", Life("message_lost"))
def _nobody_recovers() -> Generator[None]:
    def idle(self: Any, *given: Any) -> RecoveryReport:
        return RecoveryReport()

    with patch.object(RecoveryRun, "run", idle), patch.object(RecoveryRun, "recover_due", idle):
        yield


@_rule("14: what was handed out is handed out again", Life("messages_lost_beyond_patience, chained"))
def _handed_out_for_good() -> Generator[None]:
    def busy(self: Any, queue: str, run: Any) -> bool:
        return False

    with patch.object(due_scan, "ROUND", 10.0**9), patch.object(Finder, "_idle", busy):
        yield


@_rule("10: own claims are recognised", Life("happy", Point(8, Fault.REPEATED)))
def _own_claims_not_recognised() -> Generator[None]:
    def nobodys(self: Any, refused: Any, lease: Any) -> None:
        return None

    with patch.object(ControlItems, "_own_claim", nobodys):
        yield


@_rule("10: own commits are recognised", Life("happy", Point(11, Fault.REPEATED)))
def _own_commits_not_recognised() -> Generator[None]:
    def never(item: Any, before: SagaState, moved: int = 1) -> bool:
        return False

    with patch.object(ControlItems, "_committed_already", staticmethod(never)):
        yield


@_rule("2, 10: own entries are recognised", Life("happy", Point(6, Fault.DIES_AFTER)))
def _own_entries_not_recognised() -> Generator[None]:
    occupant = _journal.occupant

    def others(self: Any, entry: Entry, item: Any) -> Entry:
        found = occupant(self, entry, item)
        if found.token == entry.token:
            raise Fenced("it is not mine")
        return found

    with patch.object(Journal, "occupant", others):
        yield


@_rule("10: a call acts only on the state that it names", Orders("a failed saga, settled or undone as it was read"))
def _a_call_acts_on_any_state() -> Generator[None]:
    with patch.object(Operations, "_repeats", return_value=False):
        yield


@_rule("10: a call that acted is answered again", Orders("a failed saga, settled or undone as it was read"))
def _no_call_is_answered_again() -> Generator[None]:
    with patch.object(cast("Any", operations)._Call, "is_recorded_by", return_value=False):
        yield


@_rule("2: a predecessor's entry is adopted", Life("happy", Point(5, Fault.DIES_AFTER)))
def _entries_not_adopted() -> Generator[None]:
    def put(self: Any, entry: Entry) -> Entry:
        with suppress(Refused):
            self._tables.connection.dispatch("PutItem", self.put_request(entry))
        return entry

    with patch.object(Journal, "put", put):
        yield


@_rule("11: in doubt is never silent", Life("short_lease, chained", Point(11, Fault.PAUSES, 3)))
def _doubt_is_silent() -> Generator[None]:
    with patch.object(SagaState, "in_doubt", property(lambda state: ())):
        yield


@_rule("10: a lost answer is no success", Life("happy", Point(5, Fault.NOT_SENT)))
def _lost_answers_count_as_success() -> Generator[None]:
    put = _journal.put

    def hopeful(self: Any, entry: Entry) -> Entry:
        try:
            return put(self, entry)
        except Ambiguous:
            return entry

    with patch.object(Journal, "put", hopeful):
        yield


@_rule(
    "5: a takeover remembers until when its predecessor may act",
    Life("short_lease, chained", Point(11, Fault.PAUSES, 3)),
)
def _takeover_forgets_the_deadline() -> Generator[None]:
    taken = cast("Any", arrivals)._taken_over

    def forgetful(plan: Any, state: SagaState, lease: Any, now: float) -> Any:
        lease_now = structs.replace(state.lease, act_until=0.0) if state.lease else None
        return taken(plan, structs.replace(state, lease=lease_now), lease, now)

    with patch.object(arrivals, "_taken_over", forgetful):
        yield


@_rule("12: the last entry tells the truth", Life("happy", Point(17, Fault.PAUSES, 4)))
def _the_end_in_two_writes() -> Generator[None]:
    def finish(self: Any, entry: Entry, before: SagaState, after: SagaState, stale: float, journal: Journal) -> None:
        if journal.put(entry) is not entry:
            raise Refused("taken", {0: None})
        self.commit(before, after, stale)

    with patch.object(ControlItems, "finish", finish):
        yield


@_rule("an accepted cancel never ends COMPLETED", Life("happy", Point(16, Fault.PAUSES, 3)))
def _commit_ignores_the_cancel() -> Generator[None]:
    def mine(self: Any, before: SagaState, after: SagaState) -> str:
        return "#token = :seen_token AND #seq = :seen_seq"

    with patch.object(ControlItems, "_mine", mine):
        yield


@_rule("a signal that was accepted is taken", Orders("a signal"))
def _signals_are_overlooked() -> Generator[None]:
    whole = _control._mine

    def mine(self: Any, before: SagaState, after: SagaState) -> str:
        return re.sub(r" AND attribute_not_exists\(#steps\[\d+\]\.#sig\)", "", whole(self, before, after))

    with patch.object(ControlItems, "_mine", mine):
        yield


@_rule("12: no entry says that a wait was in vain for which a signal was accepted", Orders("a signal"))
def _the_timeout_in_two_writes() -> Generator[None]:
    whole = ControlItems.finish

    def finish(self: Any, entry: Entry, before: SagaState, after: SagaState, stale: float, journal: Journal) -> None:
        if entry.action != "WaitTimedOut":
            whole(self, entry, before, after, stale, journal)
        elif journal.put(entry) is not entry:
            raise Refused("taken", {0: None})
        else:
            self.commit(before, after, stale)

    with patch.object(ControlItems, "finish", finish):
        yield


@_rule(
    "what is accepted while a wait is taken over is acted on soon",
    Life("a_long_wait_is_taken_over", Point(145, Fault.PAUSES, 9)),
)
def _a_takeover_overlooks_signals() -> Generator[None]:
    with patch.object(control, "in_wait", _no):
        yield


@_rule("what a takeover owes follows it", Life("a_long_wait_is_taken_over", Point(145, Fault.PAUSES, 9)))
def _a_takeover_only_releases() -> Generator[None]:
    key = SagaStatus.WAITING, ev.MessageResent
    row = automaton.TABLE[key]

    def released(plan: Plan, state: SagaState, fact: ev.MessageResent, now: float) -> Decision:
        return Decision(structs.replace(row.apply(plan, state, fact, now).state, lease=None))

    with patch.dict(automaton.TABLE, {key: structs.replace(row, apply=released)}):
        yield


@contextmanager
def _in_place(name: str, other: Callable[..., Any]) -> Generator[None]:
    """Put ``other`` in the place of a function of ``core.rules``, wherever it was imported."""
    with ExitStack() as stack:
        for module in (rules, transitions, undoing, arrivals, committer):
            if hasattr(module, name):
                stack.enter_context(patch.object(module, name, other))
        yield


def _no(*given: Any) -> bool:
    return False


@_rule("6: there is an end to retries", Life("failed_settled_and_undone_after_all, chained"))
def _retries_without_end() -> Generator[None]:
    with _in_place("out_of_budget", _no):
        yield


@_rule("6: there is an end to retries of an undo", Life("undo_fails", Point(32, Fault.DIES_BEFORE)))
def _retries_of_undos_without_end() -> Generator[None]:
    with _in_place("undo_out_of_budget", _no):
        yield


@_rule("8: a stale message revives nothing", Orders("dead letters redriven, an echo"))
def _any_message_revives() -> Generator[None]:
    def revived(state: SagaState, event: MessageArrived) -> Decision:
        return Decision(structs.replace(state, lease=event.lease, token=state.token + 1), Write(ev.SagaRetried()))

    with patch.object(arrivals, "_dead_arrived", revived):
        yield


@_rule("9: what stalls while it is undone is given up", Orders("losses beyond patience, undone"))
def _undoing_is_never_given_up() -> Generator[None]:
    next_fact = rules.next_fact

    def patient(plan: Plan, state: SagaState, now: float) -> ev.Fact | None:
        fact = next_fact(plan, state, now)
        return None if isinstance(fact, ev.SagaRecoveryExhausted) and state.undoing else fact

    with _in_place("next_fact", patient):
        yield


@_rule("9: only a queue that has handled what was sent later shows a loss", Life("a_function_that_cannot_run, chained"))
def _silence_is_a_stall() -> Generator[None]:
    backlog = StepQueues.backlog

    def lost(self: StepQueues, state: SagaState) -> Backlog:
        said = backlog(self, state)
        return said if said is Backlog.WAITING else Backlog.LOST

    with patch.object(StepQueues, "backlog", lost):
        yield


@_rule(
    "9: what was given up and then undone is COMPENSATED",
    Life("messages_of_an_undo_lost_beyond_patience", Point(13, Fault.DIES_BEFORE)),
    Orders("losses beyond patience"),
)
def _given_up_is_failed() -> Generator[None]:
    next_undo = rules.next_undo

    def failed(plan: Plan, state: SagaState, below: int) -> SagaState:
        after = next_undo(plan, state, below)
        given_up = after.ended and state.recovery.exhausted and state.undoing
        return structs.replace(after, status=SagaStatus.COMPENSATION_FAILED) if given_up else after

    with _in_place("next_undo", failed):
        yield


@_rule("11: what was lost is remembered", Life("short_lease, chained", Point(11, Fault.PAUSES, 3)))
def _losses_are_forgotten() -> Generator[None]:
    with_step = SagaState.with_step

    def forgetful(state: SagaState, index: int, step: StepState) -> SagaState:
        return with_step(state, index, structs.replace(step, outcome_unknown=False))

    with patch.object(SagaState, "with_step", forgetful):
        yield


@_rule("what completed is undone", Life("rejected"))
def _nothing_is_undone() -> Generator[None]:
    with _in_place("undoable", _no):
        yield


@_rule("13: what was purged never runs again", Life("purged_by_an_operator, chained"))
def _starts_ignore_tombstones() -> Generator[None]:
    found = cast("Any", Starter)._found

    def ignoring(self: Any, saga_type: Any, entry: Entry) -> Any:
        return found(self, saga_type, replace(entry, tombstone=None, details=saga_type.first_entry_details))

    # DynamoDB refuses a name that no expression has.
    anything = "attribute_exists(seq) OR attribute_exists(#purge)"
    with patch.object(Starter, "_found", ignoring), patch.object(Journal, "unpurged", anything):
        yield


@_rule("13: what has a second entry does not start again", Life("purged_by_an_operator, chained"))
def _starts_ignore_the_journal() -> Generator[None]:
    def nothing(self: Any, saga_id: str) -> None:
        return None

    with patch.object(Remains, "of", nothing):
        yield


@_rule("13: the control item goes last", Life("purged_by_an_operator, chained", Point(21, Fault.DIES_BEFORE)))
def _the_control_item_goes_first() -> Generator[None]:
    def end(self: Any, claimed: SagaState, purge: Any) -> None:
        self.control.delete(claimed)
        self._clear(claimed, purge)

    with patch.object(Purger, "_end", end):
        yield


@_rule("13: the tombstone comes first", Life("purged_by_an_operator, chained", Point(20, Fault.NO_ANSWER)))
def _entries_go_before_the_tombstone() -> Generator[None]:
    clear = Tombstones.clear

    def put(self: Any, saga_id: str, tombstone: Any) -> None:
        clear(self, saga_id, [action.seq for action in tombstone.actions[1:]], aside=tombstone.aside)
        _put(self, saga_id, tombstone)

    _put = Tombstones.put
    with patch.object(Tombstones, "put", put):
        yield


@_rule("13: a purge takes the lease for good", Life("failed_settled_and_purged"))
def _purges_take_no_lease() -> Generator[None]:
    def unclaimed(self: Any, state: SagaState, purge: Any) -> SagaState:
        return state

    def delete(self: Any, state: SagaState) -> bool:
        request = {"TableName": self._settings.sagas_table, "Key": {"saga_id": {"S": state.saga_id}}}
        self._tables.connection.dispatch("DeleteItem", request)
        return True

    with patch.object(Purger, "_claim", unclaimed), patch.object(ControlItems, "delete", delete):
        yield


@_rule(
    "16: only the nonce proves a claim", Life("cancel_during_a_step_in_the_middle, chained", Point(20, Fault.NO_ANSWER))
)
def _claims_not_checked_by_nonce() -> Generator[None]:
    commit_and_claim = _control.commit_and_claim

    def hopeful(self: Any, before: SagaState, after: SagaState, stale_after: float) -> bool:
        commit_and_claim(self, before, after, stale_after)
        return True  # the entry is committed, so the claim will have been made

    with patch.object(ControlItems, "commit_and_claim", hopeful):
        yield


@_rule("16: no chain goes on after a cancel", Orders("chained: a cancel"))
def _chains_ignore_the_cancel() -> Generator[None]:
    def unminding(self: Any, before: SagaState, after: SagaState) -> str:
        return "#token = :seen_token AND #seq = :seen_seq"

    with within((ControlItems, "commit_and_claim"), (ControlItems, "_mine"), unminding):
        yield


@_rule("16: a chain goes on while there is time", Life("steps_take_their_time, chained"))
def _chains_ignore_the_time() -> Generator[None]:
    onward = cast("Any", Attempt)._next_lease

    def endless(self: Any, state: SagaState, send: Send) -> Any:
        invocation = self._invocation
        self._invocation = replace(invocation, deadline=invocation.deadline + 1_000)
        try:
            lease = onward(self, state, send)
        finally:
            self._invocation = invocation
        return lease and structs.replace(lease, act_until=min(lease.act_until, round(invocation.deadline + SKEW, 3)))

    with patch.object(Attempt, "_next_lease", endless):
        yield


@_rule(
    "16: a chain's attempts are counted at the claim",
    Life("type_changed_and_back, chained", Point(19, Fault.PAUSES, 3)),
)
def _chained_attempts_not_counted() -> Generator[None]:
    def uncounted(before: SagaState, decision: Decision, lease: Any) -> Decision:
        claimed = arrivals.claimed_next(before, decision, lease)
        index = claimed.state.cursor
        counted, fresh = claimed.state.steps[index], decision.state.steps[index]
        step = structs.replace(counted, attempts=fresh.attempts, undo_attempts=fresh.undo_attempts)
        return structs.replace(claimed, state=claimed.state.with_step(index, step))

    with patch.object(committer, "claimed_next", uncounted):
        yield


@_rule("18: code that does not fit does not run", Life("code_gone_between_two_looks_and_back"))
def _misfits_run() -> Generator[None]:
    def fits(plan: Plan, state: SagaState, now: float) -> None:
        return None

    with _in_place("misfit", fits):
        yield


@_rule("18: what does not fit is owed once no release is awaited", Life("code_gone_between_two_looks_and_back"))
def _misfits_are_not_owed() -> Generator[None]:
    def nothing(plan: Plan, state: SagaState, now: float) -> None:
        return None

    with _in_place("_fact_of_misfit", nothing):
        yield


@_rule("18: what does not fit waits for a release first", Life("a_release_comes_and_goes"))
def _no_release_is_awaited() -> Generator[None]:
    with _in_place("settles", _no):
        yield


@_rule("18: a blueprint is stored before the first saga that names it", Life("happy", Point(3, Fault.NOT_SENT)))
def _blueprints_are_hoped_for() -> Generator[None]:
    put = BlueprintItems.put

    def hopeful(self: BlueprintItems, *given: Any) -> None:
        with suppress(SagaError):
            put(self, *given)

    with patch.object(BlueprintItems, "put", hopeful):
        yield


@_rule("19: who was not called is not counted", Life("inputs_out_of_reach"), Life("inputs_of_an_undo_out_of_reach"))
def _unread_inputs_are_a_failure() -> Generator[None]:
    fail = Attempt.fail

    def counted(self: Attempt, held: SagaState, error: Exception) -> Any:
        return fail(self, held, getattr(error, "cause", error))

    with patch.object(Attempt, "fail", counted):
        yield


@_rule(
    "20: no step begins after the saga's deadline",
    Life("a_step_outlasts_the_deadline"),
    Life("a_step_outlasts_the_deadline, chained"),
)
def _steps_begin_after_the_deadline() -> Generator[None]:
    with patch.object(SagaState, "out_of_time", _no), patch.object(control, "AHEAD", "attribute_exists(#token)"):
        yield


@_rule("11: what was postponed and never completed is undone", Life("stopped_a_job, chained"))
def _postponed_steps_are_not_undone() -> Generator[None]:
    undoable = rules.undoable

    def completed(plan: Plan, index: int, step: StepState) -> bool:
        return undoable(plan, index, structs.replace(step, postponed=False))

    with _in_place("undoable", completed):
        yield
