"""What is accepted while somebody takes a wait over is acted on soon, whoever dies. Here its sender always does,
so only the supervisor can act on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any, cast

import pytest
from botocore.client import BaseClient
from msgspec.structs import replace

from sagas import Context, NotYet, Saga, step, wait_for
from sagas.core import events as ev
from sagas.core.automaton import TABLE
from sagas.core.commands import Decision
from sagas.core.rules import Plan
from sagas.core.states import SagaState, SagaStatus
from sagas.engine.operate.operations import Operations
from sagas.engine.operate.signals import Signals
from sagas.store.control import control
from tests.support.bench import Bench, Death
from tests.support.sagas import Order, act

Make = Callable[..., Bench]
Act = Callable[[Bench, str], object]


class Asking(Saga[Order], name="asking-for-days"):
    """Waits for days."""

    answer = wait_for(str, timeout=timedelta(days=3))

    @step
    def end(self, answer: str, ctx: Context) -> str:
        return answer


class Overdue(Saga[Order], name="overdue-wait", timeout=timedelta(hours=1)):
    """Waits past its pivot, so its deadline only marks it as overdue."""

    @step(pivot=True)
    def pay(self, ctx: Context) -> None:
        act("pay", ctx)

    answer = wait_for(str, timeout=timedelta(days=3))


class Polling(Saga[Order], name="polling-for-days"):
    """Looks again after a day."""

    @step(within=timedelta(days=3))
    def look(self, ctx: Context) -> None:
        raise NotYet(after=86_400)


def abandoned(b: Bench, name: str = "asking-for-days") -> str:
    """A waiting saga whose lease has expired under a dead holder who owed nothing."""
    saga_id = b.start(name)
    b.run()
    state = b.state(saga_id)
    assert b.engine.control.claim(state, replace(state, lease=b.engine.advancer.lease(), token=state.token + 1), 120.0)
    b.clock.advance(240)
    return saga_id


def overdue(b: Bench) -> str:
    """A waiting saga whose deadline has just passed."""
    saga_id = b.start("overdue-wait")
    b.run()
    b.clock.advance(3600)
    return saga_id


def signal(b: Bench, saga_id: str) -> object:
    return b.engine.signals.send(b.state(saga_id).saga, saga_id, "answer", "yes", "ada")


def cancel(b: Bench, saga_id: str) -> object:
    return b.engine.operations.cancel(b.state(saga_id).saga, saga_id, "ada")


class Race:
    """Counts the supervisor's requests. Another process acts before one of them, and dies before it does anything about
    what was accepted. The supervisor dies at a later one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        send = cast("Any", BaseClient)._make_api_call
        self.plan: dict[int, Callable[[], object]] = {}
        self.requests: count[int] | None = None

        def counting(client: Any, operation: str, parameters: dict[str, Any]) -> Any:
            if self.requests is not None and (act := self.plan.pop(next(self.requests), None)):
                act()
            return send(client, operation, parameters)

        monkeypatch.setattr(BaseClient, "_make_api_call", counting)
        monkeypatch.setattr(Signals, "_take", self.die)
        monkeypatch.setattr(Operations, "_begin_undoing", self.die)

    @staticmethod
    def die(*_: object) -> None:
        raise Death

    def meet(self, b: Bench, act: Callable[[], object], before: int, death: int | None) -> None:
        """Have the supervisor come. ``act`` happens before request ``before``; the supervisor dies at ``death``."""

        def interrupting() -> None:
            requests, self.requests = self.requests, None
            with pytest.raises(Death):
                act()
            self.requests = requests

        self.plan = {before: interrupting}
        if death is not None:
            self.plan[death] = self.die
        self.requests = count()
        try:
            b.recover()
        except Death:
            pass
        finally:
            self.requests = None


def overlooked(
    b: Bench, race: Race, prepare: Callable[[Bench], str], accept: Act, deaths: int = 0
) -> Iterator[tuple[int, int | None]]:
    """Yield each pair of requests, before which ``accept`` comes and at which the supervisor dies, after which the saga
    still waits a quarter of an hour later. ``deaths``: at how many of the next requests it dies, in turn."""
    for before in count():
        for death in (None, *range(before + 1, before + 1 + deaths)):
            saga_id = prepare(b)
            race.meet(b, partial(accept, b, saga_id), before, death)
            if before in race.plan:
                return
            visits = 0
            while b.state(saga_id).status is SagaStatus.WAITING and visits < 15:
                visits += 1
                b.clock.advance(60)
                b.recover()
                b.run()
            if b.state(saga_id).status is SagaStatus.WAITING:
                yield before, death
            if death in race.plan:
                break


CASES: dict[str, tuple[Callable[[Bench], str], Act]] = {
    "a signal, a dead holder": (abandoned, signal),
    "a cancel, a dead holder": (abandoned, cancel),
    "a cancel between two polls, a dead holder": (partial(abandoned, name="polling-for-days"), cancel),
    "a signal, a deadline": (overdue, signal),
}


@pytest.mark.parametrize("case", CASES)
def test_what_was_accepted_is_acted_on_soon(bench: Make, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    b = bench(Asking, Polling, Overdue)
    assert list(overlooked(b, Race(monkeypatch), *CASES[case])) == []


@pytest.mark.slow  # the test above fails first
@pytest.mark.parametrize("case", CASES)
def test_so_it_is_if_the_supervisor_dies_too(bench: Make, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    b = bench(Asking, Polling, Overdue)
    assert list(overlooked(b, Race(monkeypatch), *CASES[case], deaths=8)) == []


def _commits_ask_only_where_the_step_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(state: SagaState) -> bool:
        return False

    monkeypatch.setattr(control, "in_wait", never)


def _a_takeover_does_not_follow_with_what_is_owed(monkeypatch: pytest.MonkeyPatch) -> None:
    key = SagaStatus.WAITING, ev.MessageResent
    row = TABLE[key]

    def released(plan: Plan, state: SagaState, fact: ev.MessageResent, now: float) -> Decision:
        after = row.apply(plan, state, fact, now).state
        return Decision(replace(after, lease=None))

    monkeypatch.setitem(TABLE, key, replace(row, apply=released))


@pytest.mark.parametrize(
    "mistake", [_commits_ask_only_where_the_step_changes, _a_takeover_does_not_follow_with_what_is_owed]
)
def test_a_mistake_is_noticed(
    bench: Make, monkeypatch: pytest.MonkeyPatch, mistake: Callable[[pytest.MonkeyPatch], None]
) -> None:
    mistake(monkeypatch)
    b = bench(Asking, Polling, Overdue)
    assert next(overlooked(b, Race(monkeypatch), abandoned, signal), None) is not None
