"""Many at once, on engines whose conditional writes hold: whatever is raced for, one gets it."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from sagas.core.states import Cancel, SagaState, SagaStatus, StepState, StepStatus
from sagas.engine.attempt.attempt import Invocation
from sagas.engine.clock import SystemClock
from sagas.engine.registry import Registry
from sagas.engine.start.starter import Started
from sagas.errors import SagaError
from sagas.messaging.message import Message
from sagas.messaging.queues import Queues
from sagas.messaging.routes import Routes
from sagas.store.connection import Fenced
from sagas.store.journal.entries import Entry
from tests.store.conftest import CONCURRENT, STALE_AFTER, Store, connect
from tests.store.states import NOW, lease, new_id, saga
from tests.support.aws import LambdaContext, client
from tests.support.databases import Database, database, emulator, lead_nowhere
from tests.support.engine import Engine
from tests.support.sagas import LOG, Trip

pytestmark = pytest.mark.slow

THREADS = 16
ROUNDS = 5


@pytest.fixture(params=CONCURRENT, scope="module")
def where(request: pytest.FixtureRequest) -> Database:
    """Each database in turn, with the emulator's S3."""
    return dataclasses.replace(database(request.param), s3_url=emulator().s3_url)


@pytest.fixture(scope="module")
def store(where: Database) -> Store:
    """The store on it."""
    with pytest.MonkeyPatch.context() as patch:
        lead_nowhere(patch)
        return connect(where, f"races-{os.getpid()}")


@pytest.fixture(autouse=True)
def _account(monkeypatch: pytest.MonkeyPatch) -> None:
    lead_nowhere(monkeypatch)


def _at_once(action: Callable[[int], Any]) -> list[Any]:
    """Have all threads act at the same moment; return what each got, its error included."""
    gate = threading.Barrier(THREADS)

    def act(number: int) -> Any:
        gate.wait()
        try:
            return action(number)
        except SagaError as error:
            return error

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(act, range(THREADS)))


def _created(store: Store, state: SagaState) -> SagaState:
    assert store.control.create(state, STALE_AFTER)
    return state


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_one_claim_wins(store: Store, round_: int) -> None:
    state = _created(store, saga())
    got = _at_once(lambda _: store.control.claim_step(state.saga_id, 0, 1, lease(), NOW))
    [winner] = [claimed for claimed in got if claimed is not None]
    assert winner.token == state.token + 1
    assert winner.steps[0].attempts.made == 1
    assert store.control.get(state.saga_id) == winner


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_one_undo_wins(store: Store, round_: int) -> None:
    undone = (StepState("book", StepStatus.COMPLETED), StepState("pay"))
    state = _created(store, saga(SagaStatus.COMPENSATING, steps=undone))
    got = _at_once(lambda _: store.control.claim_undo(state.saga_id, 0, 1, lease(), NOW))
    [winner] = [claimed for claimed in got if claimed is not None]
    assert winner.steps[0].undo_attempts.made == 1
    assert store.control.get(state.saga_id) == winner


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_one_entry_gets_the_slot(store: Store, round_: int) -> None:
    """The others adopt it, or are fenced if it is a successor's."""
    saga_id = new_id()
    mine = [Entry(saga_id, 2, NOW, "trip", "StepLost", "RUNNING", token, "book", 1) for token in range(THREADS)]
    got = _at_once(lambda number: store.journal.put(mine[number]))
    found = store.journal.entries(saga_id, [2])[2]
    assert [entry for number, entry in enumerate(got) if entry is mine[number]] == [found]
    for number, entry in enumerate(got):
        assert entry == found if number >= found.token else isinstance(entry, Fenced)


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_one_takeover_wins(store: Store, round_: int) -> None:
    seen = _created(store, saga(SagaStatus.RUNNING, lease=lease(), token=4))
    after = [structs.replace(seen, token=5, lease=lease()) for _ in range(THREADS)]
    got = _at_once(lambda number: store.control.claim(seen, after[number], STALE_AFTER))
    assert Counter(got) == {True: 1, False: THREADS - 1}
    assert store.control.get(seen.saga_id) == after[got.index(True)]


@pytest.mark.parametrize("ending", [False, True])
@pytest.mark.parametrize("round_", range(ROUNDS))
def test_takeover_or_late_commit(store: Store, round_: int, ending: bool) -> None:
    """Half try to take over, half to commit as the old holder: one side gets through, and the entry agrees with it."""
    seen = _created(store, saga(SagaStatus.RUNNING, lease=lease(), token=1))
    taken = [structs.replace(seen, token=2, lease=lease()) for _ in range(THREADS)]
    status = SagaStatus.COMPLETED if ending else SagaStatus.RUNNING
    done = structs.replace(seen, seq=2, status=status, lease=None, dispatch=2)
    entry = Entry(seen.saga_id, 2, NOW, "trip", "StepCompleted", status.value, 1, "pay", 1)

    def act(number: int) -> str | None:
        if number % 2:
            return "taken" if store.control.claim(seen, taken[number], STALE_AFTER) else None
        if ending:
            store.control.finish(entry, seen, done, STALE_AFTER, store.journal)
        else:
            store.control.commit(seen, done, STALE_AFTER)
        return "committed"

    got = _at_once(act)
    found = store.control.get(seen.saga_id)
    written = bool(store.journal.entries(seen.saga_id, [2]))
    if found == done:
        assert "taken" not in got
        assert written is ending
    else:
        assert got.count("taken") == 1
        assert found == taken[got.index("taken")]
        assert "committed" not in got
        assert not written


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_cancel_or_end(store: Store, round_: int) -> None:
    """A cancel that was accepted never ends COMPLETED, and no entry says so."""
    seen = _created(store, saga(SagaStatus.RUNNING, lease=lease(), token=1))
    done = structs.replace(seen, seq=2, status=SagaStatus.COMPLETED, lease=None)
    entry = Entry(seen.saga_id, 2, NOW, "trip", "StepCompleted", "COMPLETED", 1, "pay", 1)
    asked = structs.replace(seen, cancel=Cancel(NOW, "ann"))

    def act(number: int) -> bool | None:
        if number:
            return store.control.request_cancel(seen, asked)
        return store.control.finish(entry, seen, done, STALE_AFTER, store.journal)

    got = _at_once(act)
    found = store.control.get(seen.saga_id)
    assert found is not None
    assert (found.status is SagaStatus.COMPLETED) is (not found.cancel.at)
    assert bool(store.journal.entries(seen.saga_id, [2])) is (found.status is SagaStatus.COMPLETED)
    assert got[1:].count(True) == (1 if found.cancel.at else 0)


# Whole starts and messages.


@pytest.fixture
def routes() -> Routes:
    """Queues of the emulator."""
    sqs = client("sqs", emulator().endpoint_url)
    names = {name: f"{new_id()}-{name}" for name in ("book", "pay", "tell")}
    urls = [sqs.create_queue(QueueName=name)["QueueUrl"] for name in names.values()]
    return Routes(urls[0].rsplit("/", 1)[0], {"trip": names})


class _OnEmulator(Engine):
    """An engine whose queues are on the emulator, wherever its tables are."""

    @cached_property
    def queues(self) -> Queues:
        """The queues."""
        return Queues(self.routes, self.settings.region, emulator().endpoint_url)


@pytest.fixture
def engine(store: Store, routes: Routes) -> Engine:
    """The engine on this store."""
    parts = _OnEmulator(Registry([Trip]), replace(store.settings, payload_bucket=""), routes)
    parts.starter.start("trip", {"item": "first"})  # boto3 makes clients one at a time only
    return parts


def _messages(routes: Routes, saga_id: str) -> list[dict[str, Any]]:
    """The saga's messages to its first step."""
    sqs = client("sqs", emulator().endpoint_url)
    found: list[dict[str, Any]] = []
    while more := sqs.receive_message(QueueUrl=routes.queue("trip", "book"), MaxNumberOfMessages=10).get("Messages"):
        found += [json.loads(message["Body"]) for message in more]
    return [message for message in found if message["saga_id"] == saga_id]


def _message(saga_id: str) -> Message:
    return Message(saga_id, "trip", "book", 0, False, 1, message_id=new_id(), correlation_id=saga_id)


def test_one_key_starts_one_saga(engine: Engine, routes: Routes, store: Store) -> None:
    key, request = new_id(), {"item": "train", "count": 3}
    got = _at_once(lambda _: engine.starter.start("trip", request, key=key))
    started = [outcome for outcome in got if isinstance(outcome, Started)]
    assert len(started) == THREADS
    [saga_id] = {outcome.state.saga_id for outcome in started}
    assert len(store.journal.history(saga_id, up_to=9)) == 1
    assert sum(outcome.created for outcome in started) <= 1
    sent = _messages(routes, saga_id)
    assert {(message["step"], message["dispatch"]) for message in sent} == {("book", 1)}


def test_the_messages_of_one_saga_run_a_step_once(engine: Engine) -> None:
    """However many there are, and delivered at once."""
    LOG.clear()
    started = engine.starter.start("trip", {"item": "train"})
    invocation = Invocation(SystemClock().now() + 60, lambda_context=LambdaContext())
    _at_once(lambda _: engine.worker.handle(_message(started.state.saga_id), invocation))
    assert LOG == ["book:1"]
    found = engine.control.get(started.state.saga_id)
    assert found is not None
    assert (found.seq, found.cursor, found.lease) == (2, 1, None)
    assert [entry.seq for entry in engine.journal.history(found.saga_id, up_to=9)] == [1, 2]
