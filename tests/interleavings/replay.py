"""One process of the real code, as a function from the answers it got so far to its next request.

Whatever a process does follows from what it was started for, the answers it got and the time at which each came. So it
can be put where it was by running it anew on those answers, and it is run once for each such history, not once for
each order of everybody's requests that leads there. It waits where its history ends, so that the first answer it gets
there is one step further; only for another answer it is run anew. Many wait at once, so nothing that all of Python's
process has may be changed for the time of a request: what a thread or a context has to itself is each one's own.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast
from unittest.mock import patch

from botocore.client import BaseClient
from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError
from greenlet import getcurrent, greenlet
from msgspec.structs import replace

from sagas.authoring.context import Context
from sagas.engine.attempt.course import Chain
from sagas.engine.clock import uuid7
from sagas.engine.registry import Registry
from sagas.errors import Conflict, Rejected, SagaError
from sagas.handlers import bulk as bulk_handler
from sagas.handlers import now as now_handler
from sagas.handlers import step as step_handler
from sagas.messaging.routes import Routes
from sagas.messaging.work import BULK, NOW
from sagas.store.tables import StoreSettings
from tests.faults.mailbox import Letter
from tests.faults.sagas import STAGE
from tests.interleavings.texts import text_of, value_of
from tests.support.aws import REGION, LambdaContext
from tests.support.engine import Engine
from tests.support.tables import StrictTables

WORKING = {BULK: bulk_handler, NOW: now_handler}
"""The functions behind the service's own queues."""
NAMED = "as of "
"""The reason of an operator who names a state begins so, followed by its number."""
LIFETIME = 40.0
"""Seconds a function may act."""
_LONG = 86_400.0
"""Seconds that no story takes."""
_BASE = "https://sqs.eu-central-1.amazonaws.com/123456789012"


@dataclass(frozen=True, slots=True)
class Process:
    """What a process was started for, and when (epoch seconds).

    Args:
        kind: ``worker``, ``supervisor``, or an operation of the API.
        at: when it was started.
        letter: the message a worker was given.
        number: tells processes of one kind and time apart.
        version: which of the deployed versions it runs: 0, or 1 for the other one.
    """

    kind: str
    at: float
    letter: Letter | None = None
    number: int = 0
    version: int = 0

    @property
    def deadline(self) -> float:
        """When it is stopped, whatever it is at."""
        return self.at + LIFETIME

    def __str__(self) -> str:
        if self.letter is None:
            return self.kind
        body = json.loads(self.letter.body)
        if self.letter.queue in WORKING:
            return f"{self.letter.queue} {self.letter.message_id}/{self.letter.receives} ({body['task']})"
        undo = "undo of " if body["undo"] else ""
        return f"worker {self.letter.message_id}/{self.letter.receives} ({undo}{body['step']}, {body['dispatch']})"


_NOBODY = Process("nobody", 0.0)
"""Who looks at what is left."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a process asks for next. ``key``: the same for the same request."""

    service: str
    name: str
    key: str
    parameters: dict[str, Any] = field(compare=False, hash=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """What it got: JSON text, or the JSON text of botocore's error answer, or no answer at all."""

    text: str = "null"
    error: str = ""

    def give(self, name: str) -> Any:
        """Return it, or raise it, as botocore does."""
        if self == LOST:
            raise ReadTimeoutError(endpoint_url="https://aws.invalid")
        if self.error:
            raise ClientError(value_of(self.error), name)
        return value_of(self.text)


LOST = Answer(error="lost")
History = tuple[tuple[Answer, float], ...]


class _Reached(BaseException):
    """The process is where its history ends. Not an ``Exception``: nobody may catch it."""


class _Clock:
    """Stands at the time of the latest answer that a process got."""

    def __init__(self, process: Process) -> None:
        letter = process.letter
        self.time, self._count = process.at, 0
        self.seed = 100 * process.number if letter is None else int(letter.message_id[8:]) * 100 + letter.receives * 10

    def now(self) -> float:
        return round(self.time, 3)

    def sleep(self, seconds: float) -> None:
        """Time is passed by the explorer alone."""

    def chance(self) -> float:
        return 0.5

    def new_id(self) -> str:
        self._count += 1
        return uuid7(self.time, (self.seed + self._count).to_bytes(10, "big"))

    def new_owner(self) -> str:
        self._count += 1
        return f"{round(self.time * 1000):011x}{self.seed + self._count:012x}"

    def new_salt(self) -> str:
        """The same for all: which entry it is of makes no difference here, and would make states differ."""
        return "0" * 22


class Run:
    """A process that was run to where its history ends.

    Args:
        begin: what it does.
        engine: what it does it with.
        clock: what time it is for it.
        history: the answers it got.
    """

    def __init__(self, begin: Callable[[], None], engine: Engine, clock: _Clock, history: list[tuple[Answer, float]]):
        self.process = greenlet(begin)
        self.engine, self.clock, self.history = engine, clock, history
        self.asked: list[Request] = []

    @property
    def request(self) -> Request | None:
        """What it asks for next; ``None`` when it has ended."""
        return self.asked[len(self.history)] if len(self.asked) > len(self.history) else None

    @property
    def waits(self) -> bool:
        """Whether it takes an answer, or must be run anew for that."""
        return not self.process.dead


class Replay:
    """Runs processes of one service on given answers.

    Args:
        saga: the saga type of the one saga that is started.
        kin: the types of its children.
        fail: by step or undo: how many executions fail.
        reject: steps that are rejected.
        other: another version of that type, which processes may be of.
        purges: whether the supervisor purges, too.
        chained: whether all steps share a queue and a function, which goes on with what is next.
        queued: whether the supervisor only finds, and another recovers.
        settle: seconds for which what does not fit waits for a release.
        named: whether operators name the state that they have read, and repeat their calls.
    """

    def __init__(
        self,
        saga: type[Any],
        fail: Mapping[str, int] | None = None,
        reject: frozenset[str] = frozenset(),
        other: type[Any] | None = None,
        *,
        kin: tuple[type[Any], ...] = (),
        purges: bool = False,
        chained: bool = False,
        queued: bool = False,
        settle: float = 0.0,
        named: bool = False,
    ) -> None:
        self.chained, self.has_children = chained, bool(kin)
        self._named = named
        self._fail, self._reject = fail or {}, reject
        self._versions = [Registry((deployed, *kin), None, settle) for deployed in (saga, other) if deployed]
        self.registry = self._versions[0]
        definition = next(iter(self.registry)).definition
        self.name = definition.name
        self.max_recovery_attempts = definition.max_recovery_attempts
        # There is no bucket, because all payloads are small.
        self.settings = StoreSettings("one", "one-sagas", "one-audit", shards=1, region=REGION)
        self.settings = replace(self.settings, joins_table="one-joins" if kin else "")
        self._logger = logging.getLogger("tests.interleavings")
        self._logger.addHandler(logging.NullHandler())
        self._logger.propagate = False
        self.engine = self._deploy(_NOBODY, _Clock(_NOBODY))
        self._running: Run | None = None
        self._kinds: dict[str, Callable[[Process], Any]] = {
            "worker": self._work,
            "supervisor": self._find if queued else self._purge if purges else self._recover,
            "supervisor, impatient": lambda process: self.engine.recovery.run(60.0, stale_after=0.0),
            "supervisor, once more": self._find,
            "start": lambda process: self.engine.starter.start(self.name, {"item": "book"}, key="key"),
        }
        self.histories = self.runs = 0
        self._tables: StrictTables | None = None

    @contextmanager
    def installed(self) -> Generator[None]:
        """Have every client of this Python process ask here."""
        client = cast("Any", BaseClient)

        def listening(this: Any, operation: str, parameters: dict[str, Any]) -> Any:
            return self._request(this.meta.service_model.service_name, operation, parameters)

        STAGE.perform, STAGE.during = self._perform, lambda name, ctx: None
        STAGE.fail, STAGE.reject = {}, set()
        with (
            patch.object(client, "_make_api_call", listening),
            patch.object(step_handler, "_engine", lambda: self.engine),
            patch.object(bulk_handler, "_engine", lambda: self.engine),
            patch.object(now_handler, "_engine", lambda: self.engine),
        ):
            yield

    @contextmanager
    def asking(self, tables: StrictTables) -> Generator[None]:
        """Have requests answered by these tables: a look at them, no process's doing."""
        self._tables = tables
        try:
            yield
        finally:
            self._tables = None

    def pass_by(self, tables: StrictTables, now: float) -> None:
        """Have noted that all queues have handled what was sent long after ``now``."""
        queues, notes = self.engine.recovery.queues, self.engine.recovery.watermarks
        with self.asking(tables):
            for one in self.registry:
                for name in {queues.representative(one.definition.name, step.name) for step in one.definition.steps}:
                    notes.note(one.definition.name, name, now + _LONG, now + _LONG)

    def executions(self, step: str, *, undo: bool) -> int:
        """Return how often a step or its undo may be executed in one budget."""
        steps = (own for version in self._versions for one in version for own in one.definition.steps)
        found = next(own for own in steps if own.name == step and (own.undo is not None or not undo))
        return found.code(undo=undo).retry.executions

    def _deploy(self, process: Process, clock: _Clock) -> Engine:
        """An execution environment, which remembers nothing yet."""
        registry = self._versions[process.version]
        queue = "steps" if self.chained else ""
        lanes = {
            one.definition.name: {
                step.name: f"{one.definition.name}-{queue or step.name}" for step in one.definition.steps
            }
            for one in registry
        }
        routes = Routes(_BASE, lanes, {name: name for name in WORKING})
        chain = Chain.of("*" if self.chained else "")
        return Engine(registry, self.settings, routes, clock=clock, logger=self._logger, chain=chain)

    def run(self, process: Process, history: History, known: tuple[Request, ...]) -> Run:
        """Run a process to where its history ends.

        Args:
            process: which.
            history: the answers it got so far.
            known: the requests they answered: the process must make them again, or it depends on something else.
        """
        self.runs += 1
        clock = _Clock(process)
        run = Run(lambda: self._begin(process), self._deploy(process, clock), clock, [*history])
        self.go_on(run)
        if tuple(run.asked[: len(known)]) != known:
            raise AssertionError(f"{process} is not determined by its answers: {run.asked} instead of {known}")
        return run

    def go_on(self, run: Run) -> None:
        """Run it on, to where its history ends now."""
        self.histories += 1
        self._running, self.engine = run, run.engine
        run.process.switch()

    def _begin(self, process: Process) -> None:
        with suppress(SagaError, _Reached):
            self._kinds.get(process.kind, self._operate)(process)

    def _work(self, process: Process) -> None:
        """Lambda: invoke the handler, and delete the message unless it is reported failed."""
        letter = cast("Letter", process.letter)
        function: Any = WORKING.get(letter.queue, step_handler)
        answer = function.handler({"Records": [letter.record]}, LambdaContext(LIFETIME))
        if not answer["batchItemFailures"]:
            with suppress(BotoCoreError):
                self._request("lambda", "delete message", {"message_id": letter.message_id})

    def _recover(self, process: Process) -> None:
        self.engine.recovery.run(60.0)

    def _find(self, process: Process) -> None:
        self.engine.finder.run("recover", 60.0)

    def _purge(self, process: Process) -> None:
        self._recover(process)
        self.engine.purger.run(60.0)

    def _operate(self, process: Process) -> None:
        """An operation on a saga: ``cancel``, ``retry``, ``compensate``, ``resolve`` or ``purge``, its type and id, and
        further arguments."""
        operation, which, *arguments = process.kind.split()
        name, saga_id = which.split("/")
        if self._named and operation in ("retry", "compensate", "resolve"):
            self._operate_as_read(process, operation, name, saga_id)
        elif operation == "signal":
            value = "yes" if process.number % 2 else "no"
            self.engine.signals.send(name, saga_id, arguments[0], value, "ada")
        elif operation == "purge":
            self.engine.purger.purge(name, saga_id, arguments[0], "ada")
        elif operation == "resolve":
            self.engine.operations.resolve(name, saga_id, arguments[0], "", (), "ada")
        else:
            getattr(self.engine.operations, operation)(name, saga_id, *arguments, "ada")

    def _operate_as_read(self, process: Process, operation: str, name: str, saga_id: str) -> None:
        """An operator reads the saga, acts on it as it was read, and then repeats the call, as if its answer had been
        lost. The explorer hears what becomes of each."""
        seq = self.engine.reader.state(name, saga_id).seq
        reason, actor = f"{NAMED}{seq}", f"ada-{process.number}"
        settled = ("", ()) if operation == "resolve" else ()
        for _ in range(2):
            acted = True
            try:
                getattr(self.engine.operations, operation)(name, saga_id, reason, *settled, actor, seq=seq)
            except Conflict:
                acted = False
            told = {"saga_id": saga_id, "seq": seq, "actor": actor, "acted": acted}
            self._request("caller", "answer of a call", told)

    def _perform(self, name: str, ctx: Context) -> None:
        undo = ctx.idempotency_key.endswith(":undo")
        keys = {"key": ctx.idempotency_key, "attempt_key": ctx.attempt_key}
        self._request("code", "effect", {"name": ctx.step, "undo": undo, "attempt": ctx.attempt, **keys})
        if name in self._reject:
            raise Rejected(f"{name} is refused")
        if ctx.attempt <= self._fail.get(name, 0):
            raise RuntimeError(f"{name} fails")

    def _request(self, service: str, name: str, parameters: dict[str, Any]) -> Any:
        if self._tables is not None:
            return self._tables.answer(name, parameters)
        run, current = self._running, getcurrent()
        assert run is not None
        position = len(run.asked)
        forgotten = current is not run.process and current.parent is not None  # it waited, and nobody went on with it
        if forgotten or position > len(run.history):
            raise _Reached  # it is over, and cleans up
        key = text_of([name, parameters])
        run.asked.append(Request(service, name, key, parameters))
        if position == len(run.history):
            # Threads cannot wait so, nor user code, beside which a thread looks at the real time.
            if service == "code" or current.parent is None:
                raise _Reached
            current.parent.switch()
        answer, run.clock.time = run.history[position]
        return answer.give(name)
