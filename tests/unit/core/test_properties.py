"""What holds from any state, odd ones included, whatever events come, repeated and in any order."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from sagas.core import events as ev
from sagas.core.automaton import ROWS, TABLE, decide
from sagas.core.commands import (
    Backlog,
    CancelArrived,
    ChildrenSeen,
    CompensateArrived,
    Decision,
    Event,
    MessageArrived,
    Refuse,
    ResolveArrived,
    RetryArrived,
    Run,
    SignalArrived,
    Visited,
    Write,
)
from sagas.core.rules import ForwardPlan, Plan, StepPlan, UndoPlan, needs_attention, next_fact
from sagas.core.states import (
    ENDED,
    Attempts,
    Cancel,
    DeadMessage,
    FanOut,
    Lease,
    Order,
    Polling,
    Recovery,
    SagaState,
    SagaStatus,
    StepState,
    StepStatus,
)
from tests.unit.core.making import BOOM, NOW, S, T, commands

OPERATORS = (ev.SagaRetried, ev.SagaResolved, RetryArrived, CompensateArrived, ResolveArrived, ev.CompensationStarted)
FORWARD = (ev.StepCompleted, ev.StepSkipped, ev.StepFailed, ev.StepLost, ev.StepPostponed)
IN_ONE_WRITE = (ev.SagaFailed, ev.WaitTimedOut)
"""Journaled and committed at once, on conditions of their own."""
BACKWARD = (ev.StepCompensated, ev.CompensationAttemptFailed, ev.CompensationFailed, ev.CompensationPostponed)
FAILURES = (ev.StepFailed, ev.CompensationAttemptFailed, ev.CompensationFailed)

times = st.sampled_from([0.0, NOW - 50, NOW, NOW + 50])
counts = st.integers(0, 3)
leases = st.builds(
    Lease, st.sampled_from(["mine", "theirs"]), st.sampled_from([NOW - 5, NOW + 5]), st.sampled_from([NOW - 5, NOW + 9])
)
policies = st.sampled_from(["COMPENSATE", "FAIL", "DEAD_LETTER", "CONTINUE"])
GONE = ev.Failure("CodeGone", "the code is gone")
step_plans: Any = st.builds(
    StepPlan,
    st.just(GONE) | st.builds(ForwardPlan, st.integers(1, 3), policies, asks=st.booleans(), on_timeout=policies),
    st.just(GONE) | st.builds(UndoPlan, st.integers(1, 3), st.booleans(), st.booleans()),
    st.booleans(),
)

BEHIND = [T.COMPLETED, T.SKIPPED]
AHEAD = [T.PENDING]
UNDOING = [T.COMPLETED, T.SKIPPED, T.COMPENSATED, T.COMPENSATION_FAILED, T.FAILED, T.RETRYING, T.PENDING]
AT_CURSOR: dict[SagaStatus, list[StepStatus]] = {
    S.PENDING: [T.PENDING],
    S.RUNNING: [T.PENDING, T.RUNNING, T.RETRYING, T.FAILED],
    S.WAITING: [T.WAITING],
    S.DEAD_LETTERED: [T.FAILED, T.COMPENSATED],
    S.FAILED: [T.FAILED, T.COMPENSATED],
    S.COMPLETED: [T.COMPLETED],
    S.COMPENSATING: [T.COMPLETED, T.FAILED, T.COMPENSATING],
}
STATUSES = list(SagaStatus)


@st.composite
def steps(draw: st.DrawFn, status: SagaStatus, cursor: int, index: int) -> StepState:
    if status in (S.COMPENSATED, S.CANCELLED, S.COMPENSATION_FAILED) or (status is S.COMPENSATING and index != cursor):
        known = UNDOING
    elif index == cursor:
        known = AT_CURSOR[status]
    else:
        known = BEHIND if index < cursor or status is S.COMPLETED else AHEAD
    chosen = draw(st.sampled_from(known))
    kind = draw(st.sampled_from(["", "signal", "time", "children"]))
    if kind == "children" and status is S.COMPENSATING and index == cursor:
        chosen = T.WAITING  # for its children to be undone
    asked = kind == "children" and chosen not in (T.PENDING, T.RUNNING, T.RETRYING)
    attempts = 0 if chosen in (T.PENDING, T.SKIPPED) else draw(st.integers(1, 4))
    undo_attempts = draw(st.integers(1, 4)) if chosen is T.COMPENSATING else draw(counts)
    done = chosen in (T.COMPLETED, T.COMPENSATED) or draw(st.booleans())
    return StepState(
        f"step{index}",
        chosen,
        Attempts(attempts, draw(st.integers(0, max(0, attempts - 1)))),
        Attempts(undo_attempts, draw(st.integers(0, max(0, undo_attempts - 1)))),
        2 + index if done and attempts else 0,
        draw(st.booleans()) and attempts > 0,
        draw(st.booleans()),
        kind,
        draw(counts),
        kind == "signal" and draw(st.booleans()),
        kind in ("signal", "children") and chosen is T.FAILED and draw(st.booleans()),
        fan_out=FanOut(3, draw(counts), requests_seq=2) if asked else FanOut(),
        postponed=draw(st.booleans()) and attempts > 0,
        pivot=not kind and draw(st.integers(0, 3)) == 0,
    )


@st.composite
def sagas(draw: st.DrawFn) -> tuple[Plan, SagaState]:
    """A plan and a saga in any state it could be written down in, reachable or not."""
    plans = draw(st.lists(step_plans, min_size=1, max_size=3))
    status = draw(st.sampled_from(STATUSES))
    cursor = 0 if status is S.PENDING else draw(st.integers(0, len(plans) - 1))
    held = draw(st.none() | leases)
    made = tuple(draw(steps(status, cursor, index)) for index in range(len(plans)))
    plans = [_fitting(plan, step) for plan, step in zip(plans, made, strict=True)]
    if status is S.RUNNING and draw(st.booleans()):
        plans[cursor] = _skipping(plans[cursor])
    settles = status in (S.PENDING, S.RUNNING, S.WAITING, S.COMPENSATING)
    busy = made[cursor].status in (T.RUNNING, T.COMPENSATING)
    polling = draw(st.none() | st.just(Polling(NOW - 60))) if made[cursor].status in (T.RUNNING, T.RETRYING) else None
    if status is S.WAITING and (not made[cursor].waits_for or draw(st.booleans())):
        polling = Polling(NOW - 60)
    dead = DeadMessage(draw(counts), 0, draw(st.sampled_from("mn"))) if status is S.DEAD_LETTERED else None
    cancelled = 0.0 if status in (S.COMPLETED, S.FAILED) else draw(st.sampled_from([0.0, NOW - 9]))
    state = SagaState(
        "id",
        "saga",
        "1",
        made,
        status=status,
        cursor=cursor,
        seq=draw(st.integers(1, 9)),
        token=draw(counts),
        dispatch=draw(st.integers(1, 3)),
        lease=draw(leases) if busy else held,
        not_before=draw(times),
        lost_until=draw(times),
        cancel=Cancel(
            cancelled,
            draw(st.sampled_from(["", "someone", ev.DEADLINE])),
            journaled=bool(cancelled) and not busy and draw(st.booleans()),
        ),
        rejected=draw(st.booleans()),
        cause=draw(st.sampled_from(["failure", "cancel", "recovery", "operator"])),
        recovery=Recovery(draw(counts), draw(st.booleans()) and made[cursor].status is not T.RUNNING),
        unanswered=draw(counts),
        dead=dead,
        updated_at=draw(st.sampled_from([NOW - 500, NOW])),
        polling=polling,
        order=draw(st.none() | st.builds(Order, st.integers(1, 2), st.booleans())) if status in ENDED else None,
        settling_since=draw(st.sampled_from([0.0, NOW - 100, NOW - 900])) if settles else 0.0,
        retrying_undos=status is S.COMPENSATING and draw(st.booleans()),
    )
    state = structs.replace(state, attention=NOW - 30 if needs_attention(state) else 0.0)
    return Plan(tuple(plans), draw(st.integers(0, 2)), 60.0, draw(st.sampled_from([0.0, 900.0]))), state


def _fitting(plan: StepPlan, step: StepState) -> StepPlan:
    """A plan as it can be for a step: only waits for signals and times go without code, and children need no undo."""
    forward = plan.forward
    if isinstance(forward, ForwardPlan) and step.waits_for not in ("signal", "time"):
        forward = replace(forward, asks=True)
    return replace(plan, forward=forward, undo=None if step.waits_for == "children" else plan.undo)


def _skipping(plan: StepPlan) -> StepPlan:
    """A plan as a commit has it whose attempt asked whether the step runs."""
    forward = plan.forward
    return replace(plan, forward=replace(forward, skip="no") if isinstance(forward, ForwardPlan) else forward)


CHANGED = ev.Failure("TypeChanged", "the request does not fit")
failures = st.sampled_from([BOOM, GONE, CHANGED])
indices, booleans = st.integers(0, 2), st.booleans()
EVENTS: dict[type[Any], st.SearchStrategy[Any]] = {
    ev.StepCompleted: st.builds(ev.StepCompleted, indices, counts),
    ev.StepFailed: st.builds(ev.StepFailed, indices, counts, failures, booleans, booleans, times, booleans, booleans),
    ev.StepLost: st.builds(ev.StepLost, indices, counts),
    ev.StepSkipped: st.builds(ev.StepSkipped, indices, counts, st.just("large() is false")),
    ev.StepDeadLettered: st.builds(
        ev.StepDeadLettered, indices, st.just(ev.DeadLetterCause.EXHAUSTED), st.just(DeadMessage(1, 0, "m"))
    )
    | st.sampled_from(
        [
            ev.StepDeadLettered(index, cause, failure=failure)
            for index in range(3)
            for cause, failure in (
                (ev.DeadLetterCause.CODE_MISSING, GONE),
                (ev.DeadLetterCause.TYPE_CHANGED, CHANGED),
                (ev.DeadLetterCause.STALLED, None),
                (ev.DeadLetterCause.WAIT_TIMED_OUT, None),
                (ev.DeadLetterCause.PIVOT_HOLDS, None),
            )
        ]
    ),
    ev.CompensationStarted: st.builds(
        ev.CompensationStarted, st.sampled_from(["failure", "cancel", "recovery", "operator", "parent"])
    ),
    ev.StepCompensated: st.builds(ev.StepCompensated, indices, counts),
    ev.CompensationAttemptFailed: st.builds(ev.CompensationAttemptFailed, indices, counts, failures, times),
    ev.CompensationFailed: st.builds(ev.CompensationFailed, indices, counts, failures),
    ev.WaitStarted: st.builds(ev.WaitStarted, indices, counts, times),
    ev.SignalReceived: st.builds(ev.SignalReceived, indices),
    ev.WaitTimedOut: st.builds(ev.WaitTimedOut, indices),
    ev.WaitEnded: st.builds(ev.WaitEnded, indices),
    ev.StepPostponed: st.builds(
        ev.StepPostponed,
        *(indices, counts, st.just("not yet"), st.just(20.0), times, times, st.integers(1, 3)),
        booleans,
    ),
    ev.CompensationPostponed: st.builds(
        ev.CompensationPostponed, indices, counts, st.just("not yet"), st.just(20.0), times, times, st.integers(1, 3)
    ),
    ev.ChildrenStarted: st.builds(ev.ChildrenStarted, indices, counts, st.integers(0, 3)),
    ev.ChildrenEnded: st.builds(ev.ChildrenEnded, indices, counts, counts, st.none() | failures),
    ev.SagaTimedOut: st.just(ev.SagaTimedOut()),
    ev.CancelRequested: st.just(ev.CancelRequested()),
    ev.SagaFailed: st.just(ev.SagaFailed()),
    ev.MessageResent: st.builds(ev.MessageResent, unanswered=counts, attention=booleans),
    ev.SagaRecovered: st.just(ev.SagaRecovered()),
    ev.SagaRecoveryExhausted: st.just(ev.SagaRecoveryExhausted()),
    ev.SagaRetried: st.just(ev.SagaRetried()),
    ev.SagaResolved: st.builds(ev.SagaResolved, st.just("seen"), st.just("none"), st.sampled_from([(), ("step0",)])),
    MessageArrived: st.builds(
        MessageArrived, indices, booleans, st.integers(1, 4), st.just(0), st.sampled_from("mn"), leases, times
    ),
    Visited: st.builds(Visited, leases, backlog=st.sampled_from(Backlog)),
    CancelArrived: st.just(CancelArrived("somebody")),
    SignalArrived: st.just(SignalArrived(0)),
    RetryArrived: st.builds(RetryArrived, leases),
    CompensateArrived: st.builds(CompensateArrived, leases, booleans, st.sampled_from(["", "it was not paid"])),
    ChildrenSeen: st.builds(
        ChildrenSeen,
        leases,
        st.builds(ev.ChildrenEnded, indices, counts, counts, st.none() | failures)
        | st.builds(ev.StepCompensated, indices, counts)
        | st.builds(ev.CompensationFailed, indices, counts, failures)
        | st.builds(ev.MessageResent, unanswered=counts, attention=booleans)
        | st.builds(ev.StepDeadLettered, indices, st.just(ev.DeadLetterCause.CODE_MISSING), failure=st.just(GONE)),
        counts,
    ),
    ResolveArrived: st.builds(ResolveArrived, leases, st.just("seen"), st.just("none"), st.just(())),
}
anything: st.SearchStrategy[Any] = st.one_of(*EVENTS.values())
sequences = st.lists(st.tuples(anything, st.sampled_from([0.0, 20.0, 100.0])), max_size=12)


def seen(state: SagaState, lease: Lease, *, failed: bool) -> ChildrenSeen:
    """That the children of a saga which waits for them are over, or undone."""
    step, failure = state.steps[state.cursor], ev.Failure("ChildrenFailed", "one did")
    fact: Any = ev.ChildrenEnded(state.cursor, 3, 0, failure if failed else None)
    if state.undoing:
        number = step.undo_attempts.made
        undone = ev.StepCompensated(state.cursor, number)
        fact = ev.CompensationFailed(state.cursor, number, failure) if failed else undone
    return ChildrenSeen(lease, fact, step.round)


def likely(state: SagaState, plan: Plan) -> list[Event]:
    """Events that fit the state: generated ones seldom do."""
    step = state.current
    lease = Lease("new", NOW + 900, NOW + 900)
    found: list[Event] = [MessageArrived(state.cursor, state.undoing, state.dispatch, 0, "x", lease)]
    if step is not None and step.status is T.RUNNING:
        found += [
            ev.StepCompleted(state.cursor, step.attempts.made),
            ev.StepFailed(state.cursor, step.attempts.made, BOOM),
        ]
        found += [ev.StepSkipped(state.cursor, step.attempts.made, "large() is false")]
        found += [ev.ChildrenStarted(state.cursor, step.attempts.made, 3)]
        found += [ev.WaitStarted(state.cursor, step.attempts.made, NOW + 50)]
        postponed = ev.StepPostponed(state.cursor, step.attempts.made, "not yet", 50.0, NOW + 50, NOW)
        found += [structs.replace(postponed, because=because) for because in ("", ev.RELEASE, ev.INPUTS)]
    if step is not None and state.joins:
        found += [seen(state, lease, failed=False), seen(state, lease, failed=True)]
    if step is not None and step.status is T.COMPENSATING:
        found += [ev.StepCompensated(state.cursor, step.undo_attempts.made)]
        found += [ev.CompensationAttemptFailed(state.cursor, step.undo_attempts.made, BOOM)]
        postponed = ev.CompensationPostponed(state.cursor, step.undo_attempts.made, "not yet", 50.0, NOW + 50, NOW)
        found += [structs.replace(postponed, because=because) for because in ("", ev.NOT_OWED, ev.INPUTS)]
    fact = next_fact(plan, state, NOW) if state.cursor < len(state.steps) else None
    return [*found, *([fact] if fact else [])]


def check(plan: Plan, state: SagaState, event: Event, now: float) -> Decision:
    """Decide, and check everything that one decision must hold to."""
    decision = decide(plan, state, event, now)
    after = decision.state
    row = TABLE.get((state.status, type(event)))
    if row is None:
        assert decision == Decision(state)
        return decision
    assert after.status is state.status or after.status in row.targets
    _check_numbers(state, after, event)
    if isinstance(event, ev.Fact) and after is state:
        assert not commands(decision)
    if any(isinstance(command, Refuse) for command in commands(decision)):
        assert after is state
    if state.ended and after is not state and not (isinstance(event, Visited) and state.order):
        assert isinstance(event, OPERATORS), "what an operator does to a saga that has ended is listed in OPERATORS"
    _check_backward(state, decision, event)
    return decision


def _check_numbers(state: SagaState, after: SagaState, event: Event) -> None:
    changed = isinstance(event, ev.Fact) and after is not state
    assert after.seq == state.seq + changed
    assert after.dispatch >= state.dispatch
    assert after.lost_until >= state.lost_until
    marked = structs.replace(state, settling_since=after.settling_since) == after  # it waits for a release
    claims = not marked and not isinstance(event, ev.Fact | CancelArrived | SignalArrived)
    assert after.token == state.token + claims


def _check_backward(state: SagaState, decision: Decision, event: Event) -> None:
    back = state.undoing or state.ended
    runs = [command for command in commands(decision) if isinstance(command, Run)]
    assert not (back and any(not run.undo for run in runs))
    assert not (back and decision.state.status in (S.PENDING, S.RUNNING, S.WAITING))
    for command in commands(decision):
        if back and isinstance(command, Write):
            assert not isinstance(command.fact, ev.StepLost | ev.StepDeadLettered | ev.SagaFailed)
    for was, is_ in zip(state.steps, decision.state.steps, strict=True):
        assert is_.attempts.made >= was.attempts.made - _spared(event)
        if was.status is T.COMPLETED and is_.status is T.RUNNING:
            raise AssertionError("a completed step runs again")


def _spared(event: Event) -> int:
    """An attempt whose code could not be called is given back: one, and by these events alone."""
    match event:
        case ev.StepDeadLettered(cause=ev.DeadLetterCause.TYPE_CHANGED):
            return 1
        case ev.StepPostponed(because=ev.RELEASE | ev.INPUTS) | ev.StepSkipped():
            return 1
        case _:
            return 0


@given(sagas(), anything, times, st.data())
def test_one_event_from_any_state(
    given_: tuple[Plan, SagaState], event: Event, now: float, data: st.DataObject
) -> None:
    plan, state = given_
    check(plan, state, event, now)
    check(plan, state, data.draw(st.sampled_from(likely(state, plan))), now)


@settings(max_examples=500)
@given(sagas(), sequences, st.data())
def test_any_events_in_any_order_and_number(
    given_: tuple[Plan, SagaState], sequence: list[tuple[Event, float]], data: st.DataObject
) -> None:
    plan, state = given_
    turned, now, completed = False, NOW, set[tuple[int, int]]()
    for event, later in sequence:
        now += later
        chosen = event if data.draw(booleans) else data.draw(st.sampled_from(likely(state, plan)))
        for _ in range(data.draw(st.integers(1, 2))):
            before, decision = state, check(plan, state, chosen, now)
            state = decision.state
            turned = turned or before.undoing or before.ended
            assert not turned or not any(isinstance(c, Run) and not c.undo for c in commands(decision))
            if isinstance(chosen, ev.StepCompleted) and state is not before:
                assert (chosen.index, chosen.attempt) not in completed, "a step is committed twice"
                completed.add((chosen.index, chosen.attempt))


@st.composite
def executions(draw: st.DrawFn) -> tuple[Plan, SagaState, Any]:
    """A saga on its way and a fact about an execution: the one under way, an earlier or later one, another step's."""
    plan, state = draw(sagas().filter(lambda drawn: drawn[1].status in (S.RUNNING, S.COMPENSATING)))
    kind: Any = draw(st.sampled_from(FORWARD if state.status is S.RUNNING or draw(booleans) else BACKWARD))
    step = state.steps[state.cursor]
    number = step.attempts.made if kind in FORWARD else step.undo_attempts.made
    index, attempt = draw(st.sampled_from([state.cursor, 0])), number + draw(st.sampled_from([0, 0, -1, 1]))
    more: list[Any] = [BOOM] if kind in FAILURES else []
    more = ["not yet", 50.0, NOW + 50, NOW] if issubclass(kind, ev.Postponed) else more
    more = ["large() is false"] if kind is ev.StepSkipped else more
    return plan, state, kind(index, attempt, *more)


@given(executions())
def test_a_fact_about_no_execution_under_way_changes_nothing(drawn: tuple[Plan, SagaState, Any]) -> None:
    plan, state, fact = drawn
    step, forward = state.steps[state.cursor], isinstance(fact, FORWARD)
    number = step.attempts.made if forward else step.undo_attempts.made
    doing = step.status is (T.RUNNING if forward else T.COMPENSATING)
    if isinstance(fact, ev.ChildrenStarted):
        doing = doing and step.waits_for == "children"
    # Of children it is their parent that undoes them.
    doing = doing or (state.joins and isinstance(fact, BACKWARD) and not isinstance(fact, ev.Postponed))
    busy = doing and state.lease is not None
    decision = decide(plan, state, fact, NOW)
    if busy and (state.cursor, number) == (fact.index, fact.attempt):
        assert decision.state is not state
    else:
        assert decision == Decision(state)


@given(sagas(), st.one_of(*(strategy for kind, strategy in EVENTS.items() if issubclass(kind, ev.Fact))))
def test_nobody_journals_without_the_lease(given_: tuple[Plan, SagaState], fact: ev.Fact) -> None:
    plan, state = given_
    free = structs.replace(state, lease=None)
    assert decide(plan, free, fact, NOW) == Decision(free)


@given(sagas())
def test_a_journaled_fact_stays_valid_when_a_signal_is_accepted(given_: tuple[Plan, SagaState]) -> None:
    plan, state = given_
    signalled = decide(plan, state, SignalArrived(state.cursor), NOW).state
    if signalled is state:
        return
    for fact in likely(state, plan):
        valid = isinstance(fact, ev.Fact) and decide(plan, state, fact, NOW).state is not state
        if valid and not isinstance(fact, IN_ONE_WRITE):
            assert decide(plan, signalled, fact, NOW).state is not signalled


@given(sagas(), st.one_of(*(EVENTS[kind] for kind in EVENTS if issubclass(kind, ev.Fact) and kind not in IN_ONE_WRITE)))
def test_a_journaled_fact_stays_valid_when_a_cancel_is_accepted(given_: tuple[Plan, SagaState], fact: ev.Fact) -> None:
    """Those in one write are committed on condition that there is no cancel."""
    plan, state = given_
    able = state.status in (S.PENDING, S.RUNNING, S.WAITING, S.DEAD_LETTERED) and not state.cancel.at
    if able and decide(plan, state, fact, NOW).state is not state:
        cancelled = structs.replace(state, cancel=Cancel(NOW))
        assert decide(plan, cancelled, fact, NOW).state is not cancelled


@given(sagas())
def test_what_an_arrival_is_to_write_fits(given_: tuple[Plan, SagaState]) -> None:
    plan, state = given_
    mine = Lease("new", NOW + 9, NOW + 9)
    message = MessageArrived(state.cursor, state.undoing, state.dispatch, 0, "x", mine)
    asked = (RetryArrived(mine), CompensateArrived(mine), ResolveArrived(mine, "seen", "none"))
    for event in (message, Visited(mine), *asked):
        decision = decide(plan, state, event, NOW)
        for command in commands(decision):
            if isinstance(command, Write):
                written = decide(plan, decision.state, command.fact, NOW)
                assert written.state is not decision.state, f"{event} has {command.fact} written, which does not fit"


@given(sagas(), st.data())
def test_once_events_stop_it_is_over_or_waits_for_a_person(given_: tuple[Plan, SagaState], data: st.DataObject) -> None:
    """Deliver whatever is current, run what is to be run, let time pass when nothing else happens."""
    plan, state = given_
    now = NOW
    for _ in range(400):
        if state.ended or (state.status is S.DEAD_LETTERED and not state.cancel.at):
            return
        state, waiting = _live(plan, state, now, data)
        now += 2_000 * waiting
    raise AssertionError(f"it goes on for ever: {state}")


def _live(plan: Plan, state: SagaState, now: float, data: st.DataObject) -> tuple[SagaState, bool]:
    lease = Lease("new", now + 100, now + 100)
    index = min(state.cursor, len(state.steps) - 1)
    arrived: Event = MessageArrived(index, state.undoing, state.dispatch, 0, "x", lease)
    if state.lease is not None and data.draw(booleans):
        arrived = Visited(lease)
    elif state.joins and state.lease is None and next_fact(plan, state, now) is None:
        arrived = seen(state, lease, failed=data.draw(booleans))
    decision = decide(plan, state, arrived, now)
    if decision.state is state:
        return state, True
    return _followed(plan, decision, now, data), False


def _followed(plan: Plan, decision: Decision, now: float, data: st.DataObject) -> SagaState:
    """Write what is to be written, fail or complete what is to be run, until the lease is free."""
    while decision.state.lease is not None:
        state = decision.state
        command = next(c for c in commands(decision) if isinstance(c, Run | Write))
        fact = command.fact if isinstance(command, Write) else _outcome(command, data)
        decision = decide(plan, state, fact, now)
        assert decision.state is not state
    return decision.state


def _outcome(command: Run, data: st.DataObject) -> ev.Fact:
    good = data.draw(booleans)
    if good:
        return (ev.StepCompensated if command.undo else ev.StepCompleted)(command.index, command.attempt)
    kind = ev.CompensationAttemptFailed if command.undo else ev.StepFailed
    return kind(command.index, command.attempt, BOOM)


def test_every_pair_of_status_and_event_has_one_row_at_most() -> None:
    pairs = [(source, row.event) for row in ROWS for source in row.sources]
    assert len(pairs) == len(set(pairs)) == len(TABLE)
    assert {kind for _, kind in pairs} == set(EVENTS), "add how it is generated to EVENTS"


def test_no_row_leads_back() -> None:
    for row in ROWS:
        for source in row.sources:
            if source is S.COMPENSATING or source in ENDED:
                assert not {S.PENDING, S.RUNNING, S.WAITING} & set(row.targets), row
