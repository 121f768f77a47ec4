"""States for tests: any that can be written down, and any that a saga can get into."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable

from hypothesis import strategies as st
from msgspec.structs import replace

from sagas.core import events as ev
from sagas.core.automaton import decide
from sagas.core.commands import (
    Arrival,
    CancelArrived,
    CompensateArrived,
    Decision,
    MessageArrived,
    ResolveArrived,
    RetryArrived,
    Run,
    Visited,
    Write,
)
from sagas.core.rules import ForwardPlan, Plan, StepPlan, UndoPlan, out_of_budget, undo_out_of_budget
from sagas.core.states import (
    Attempts,
    Cancel,
    DeadMessage,
    FanOut,
    Lease,
    Order,
    Parent,
    Polling,
    Purge,
    Recovery,
    SagaState,
    SagaStatus,
    StepState,
    StepStatus,
    Unread,
)
from sagas.engine.clock import SystemClock

NOW = 1_795_250_000.0
_clock = SystemClock()


def new_id() -> str:
    """A saga id that no other test has."""
    return _clock.new_id()


def lease(expires_at: float = NOW + 60, act_until: float = NOW + 61) -> Lease:
    """A lease under a fresh nonce."""
    return Lease(_clock.new_owner(), expires_at, act_until)


def saga(status: SagaStatus = SagaStatus.PENDING, **changes: object) -> SagaState:
    """A saga of two steps."""
    state = SagaState(new_id(), "trip", "1", (StepState("book"), StepState("pay")), created_at=NOW, updated_at=NOW)
    state = replace(state, correlation_id=state.saga_id, status=status)
    return replace(state, **changes)  # pyright: ignore[reportArgumentType]


times = st.integers(1, 4_000_000_000_000).map(lambda ms: ms / 1000)
_whens = st.just(0.0) | times
_counts = st.integers(0, 10**6)
_attempts = st.builds(Attempts, _counts, _counts)
_names = st.text(min_size=1, max_size=20)


def _steps(*, families: bool) -> st.SearchStrategy[StepState]:
    own = st.builds(
        StepState,
        _names,
        st.sampled_from(StepStatus),
        _attempts,
        _attempts,
        _counts,
        st.booleans(),
        st.booleans(),
        st.sampled_from(["", "signal", "time"]),
        _counts,
        st.booleans(),
        st.booleans(),
        postponed=st.booleans(),
        pivot=st.booleans(),
        result=st.booleans(),
    )
    return (
        own
        | st.builds(
            _with_children, own, st.builds(FanOut, _counts, _counts, _counts, _counts, st.booleans(), _counts, _names)
        )
        if families
        else own
    )


def _with_children(step: StepState, fan_out: FanOut) -> StepState:
    return replace(step, waits_for="children", fan_out=fan_out)


_pollings = st.builds(Polling, times, _counts, st.text(max_size=20), st.floats(1, 366 * 86_400), times)
_codes = st.sampled_from(["no_right", "inputs_unreachable"])
_unreads = st.builds(Unread, times, _codes, st.text(max_size=20), st.booleans(), st.text(max_size=20))
_leases = st.builds(Lease, _names, times, times)
_purges = st.builds(Purge, times) | st.builds(Purge, times, st.text(max_size=20), st.text(max_size=20))
_hashes = st.binary(min_size=16, max_size=16).map(lambda raw: urlsafe_b64encode(raw).decode().rstrip("="))
_proofs = st.just(dict[str, object]()) | st.fixed_dictionaries(
    {"head": st.binary(min_size=32, max_size=32), "digest": st.just("") | _hashes}
)
"""The head of the journal and the digest of the results: none, or one or both."""
_parents = st.builds(Parent, _names, _names, _names, _counts, _counts)
_orders = st.builds(Order, st.integers(1, 10**6), st.booleans())
_dead = st.builds(DeadMessage, _counts, _counts, _names)


def contents(steps: int = 2, *, families: bool = False) -> st.SearchStrategy[Callable[[str], SagaState]]:
    """Anything that a control item can hold, as a function of the saga's id; with ``families`` that of a parent or
    child, too."""
    values: dict[str, st.SearchStrategy[object]] = {
        "version": _names,
        "correlation_id": _names,
        "steps": st.tuples(*[_steps(families=families) for _ in range(steps)]),
        "status": st.sampled_from(SagaStatus),
        "cursor": _counts,
        "seq": _counts,
        "token": _counts,
        "dispatch": _counts,
        "lease": st.none() | _leases,
        "not_before": _whens,
        "lost_until": _whens,
        "cancel": st.builds(Cancel, _whens, st.text(max_size=20), st.text(max_size=20), st.booleans()),
        "rejected": st.booleans(),
        "failed": st.booleans(),
        "cause": st.sampled_from(["", "failure", "cancel", "recovery", "operator"]),
        "recovery": st.builds(Recovery, _counts, st.booleans()),
        "unanswered": _counts,
        "overdue": st.booleans(),
        "dead": st.none() | _dead,
        "error_seq": _counts,
        "error_type": st.text(max_size=100),
        "resolution_seq": _counts,
        "unreadable": st.text(max_size=300),
        "settling_since": st.just(0.0) | st.integers(1, 10**10).map(float),
        "retrying_undos": st.booleans(),
        "attention": _whens,
        "created_at": times,
        "updated_at": times,
        "ended_at": _whens,
        "purge": st.none() | _purges,
        "polling": st.none() | _pollings,
        "unread": st.none() | _unreads,
        "deadline": _whens,
    }

    if families:
        values |= {"parent": st.none() | _parents, "order": st.none() | _orders}

    def build(given: dict[str, object]) -> Callable[[str], SagaState]:
        return lambda saga_id: SagaState(saga_id, "any", **given)  # pyright: ignore[reportArgumentType]

    return st.tuples(st.fixed_dictionaries(values), _proofs).map(lambda given: build(given[0] | given[1]))


PLAN = Plan(
    (
        StepPlan(ForwardPlan(executions=2), UndoPlan(executions=2), owes_undo=True),
        StepPlan(ForwardPlan(executions=3, exhausted="DEAD_LETTER"), UndoPlan(when_started=True), owes_undo=True),
        StepPlan(ForwardPlan(executions=1, exhausted="FAIL")),
    ),
    max_recovery_attempts=2,
)
"""Every policy once."""


class Walk:
    """A saga that lives through moves, keeping to the automaton's rules: the holder of the lease acts, or dies."""

    def __init__(self) -> None:
        steps = tuple(StepState(name) for name in ("book", "pay", "tell"))
        saga_id = new_id()
        self.now = NOW
        self.state = SagaState(saga_id, "trip", "1", steps, saga_id, created_at=NOW, updated_at=NOW)

    def live(self, moves: Iterable[str]) -> None:
        """Make the moves, in order."""
        for move in moves:
            kind, _, how = move.partition(":")
            {"wait": self._wait, "work": self._work, "arrive": self._arrive, "ask": self._ask}[kind](how)

    def message(self, dispatch: int) -> MessageArrived:
        """A message with that number; the current one is for the current step."""
        index = min(self.state.cursor, len(self.state.steps) - 1)
        expires = self.now + 60
        return MessageArrived(index, self.state.undoing, dispatch, 0, "m", lease(expires, expires + 1))

    def _wait(self, how: str) -> None:
        self.now += float(how)

    def _arrive(self, how: str) -> None:
        self._carry_out(decide(PLAN, self.state, self.message(self.state.dispatch), self.now), crash=how == "crash")

    def _ask(self, how: str) -> None:
        held = lease(self.now + 30, self.now + 30)
        asked: dict[str, Arrival] = {
            "cancel": CancelArrived("ann"),
            "retry": RetryArrived(held),
            "compensate": CompensateArrived(held),
            "resolve": ResolveArrived(held, "reason", "action"),
            "stall": Visited(held),
        }
        self._carry_out(decide(PLAN, self.state, asked[how], self.now))

    def _work(self, how: str) -> None:
        """The running attempt ends."""
        state, step = self.state, self.state.current
        if state.lease is None or step is None:
            return
        if step.status is StepStatus.RUNNING:
            self._carry_out(decide(PLAN, state, self._forward(how, step.attempts.made), self.now))
        elif step.status is StepStatus.COMPENSATING:
            self._carry_out(decide(PLAN, state, self._backward(how, step.undo_attempts.made), self.now))

    def _forward(self, how: str, attempt: int) -> ev.Fact:
        if how == "well":
            return ev.StepCompleted(self.state.cursor, attempt)
        final = how in ("permanent", "rejected")
        again = 0.0 if final or out_of_budget(PLAN, self.state) else self.now + 5
        return ev.StepFailed(self.state.cursor, attempt, ev.Failure("E"), final, how == "rejected", again)

    def _backward(self, how: str, attempt: int) -> ev.Fact:
        if how == "well":
            return ev.StepCompensated(self.state.cursor, attempt)
        if how == "permanent" or undo_out_of_budget(PLAN, self.state):
            return ev.CompensationFailed(self.state.cursor, attempt, ev.Failure("E"))
        return ev.CompensationAttemptFailed(self.state.cursor, attempt, ev.Failure("E"), self.now + 5)

    def _carry_out(self, decision: Decision, *, crash: bool = False) -> None:
        self.state = decision.state
        while not crash and isinstance(decision.then, Write):
            decision = decide(PLAN, self.state, decision.then.fact, self.now)
            self.state = decision.state


_MOVES = [
    *("wait:1", "wait:6", "wait:70", "wait:300", "arrive:", "arrive:", "arrive:", "arrive:crash"),
    *("work:well", "work:well", "work:badly", "work:badly", "work:permanent", "work:rejected"),
    *("ask:cancel", "ask:retry", "ask:compensate", "ask:resolve", "ask:stall"),
]


@st.composite
def walks(draw: st.DrawFn) -> Walk:
    """Sagas in the middle of their lives."""
    walk = Walk()
    walk.live(draw(st.lists(st.sampled_from(_MOVES), max_size=25)))
    return walk


def runs(decision: Decision) -> bool:
    """Whether the decision is to run user code."""
    return isinstance(decision.then, Run)
