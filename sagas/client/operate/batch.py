"""One operation on many sagas. Each saga has its own call and audit entry, and a call can be repeated safely.

A job writes the chosen sagas to a file, and then the outcome of each. So you can stop and resume a job: it skips sagas
that are done or refused, and retries those that failed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from sagas.client.client import SagaClient
from sagas.client.operate.outcomes import CallOutcome, Report, outcome_of
from sagas.client.operate.pacing import job_reason, new_job, paced
from sagas.client.read.next_action import error_of
from sagas.client.transport import pages
from sagas.core.events import CONTINUES_BY_ITSELF
from sagas.core.ids import LONGEST_CANCEL_REASON
from sagas.core.states import ENDED, SagaStatus
from sagas.core.text import end_of
from sagas.engine.read.answers import Page, Summary
from sagas.errors import SagaError
from sagas.operations import VERBS

_FOR_MANY = {name: operation for name, operation in VERBS.items() if operation.bulk_statuses}
_USUAL: Mapping[str, Sequence[SagaStatus]] = {
    name: operation.bulk_statuses for name, operation in _FOR_MANY.items()
} | {"rerun": (SagaStatus.FAILED, SagaStatus.COMPENSATED)}
"""By default, each operation applies to sagas with these statuses."""
ACTIONS = (*_USUAL,)
"""The operations that can be applied to many sagas."""
_AT_REST = (*ENDED, SagaStatus.DEAD_LETTERED)
_PAGE = 100
LONGEST_REASON = 3_000
"""The maximum length of a reason, without the job's id that precedes it."""


def options_of(action: str) -> tuple[str, ...]:
    """Return the names of the options of an operation on many sagas, without the reason."""
    return _FOR_MANY[action].bulk_options if action in _FOR_MANY else ()


def needs_reason(action: str) -> bool:
    """Whether an operation on many sagas needs a reason. Undoing many always does."""
    return action == "compensate" or (action in _FOR_MANY and "reason" in _FOR_MANY[action].needed)


def choose(
    client: SagaClient,
    action: str,
    name: str,
    *,
    status: str | None = None,
    error: str | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    find: Mapping[str, object] | None = None,
) -> list[Summary]:
    """Return the sagas that an operation applies to, from lists of the API."""
    statuses = (status,) if status is not None else _USUAL[action]
    needing = _all(lambda cursor: client.attention(name, limit=_PAGE, cursor=cursor))
    attention = (saga for saga in needing if _needs_operator(saga) and _is_between(since, saga, until))
    if action == "resolve" and status is None and not find:
        sagas = attention
    elif find:
        # The index of a search key contains sagas of all statuses.
        matching = _list(client, name, since=since, until=until, find=find)
        sagas = (saga for saga in matching if saga["status"] in statuses)
    else:
        sagas = chain.from_iterable(_list(client, name, each, since=since, until=until) for each in statuses)
        if action == "retry" and status is None:
            sagas = chain(sagas, (saga for saga in attention if saga["status"] not in _AT_REST))
    chosen = dict[str, Summary]()
    for saga in sagas:
        if _has_error(saga, error) and (action != "resolve" or _needs_operator(saga)):
            chosen.setdefault(saga["saga_id"], saga)
    return [*chosen.values()]


def _needs_operator(saga: Summary) -> bool:
    """Whether a saga needs an operator. Others on the attention list continue by themselves."""
    attention = saga["attention"]
    return attention is not None and attention["code"] not in CONTINUES_BY_ITSELF


def _has_error(saga: Summary, error: str | None) -> bool:
    """Whether the saga's error has the type ``error``, or this text in its message; always true for ``None``."""
    _, kind, message = error_of(saga)
    return error is None or error == kind or error in message


def _list(client: SagaClient, name: str, status: str | None = None, **filters: Any) -> Iterator[Summary]:
    return _all(lambda cursor: client.list(name, status, limit=_PAGE, cursor=cursor, **filters))


def _all(ask: Callable[[str | None], Page]) -> Iterator[Summary]:
    return chain.from_iterable(page["sagas"] for page in pages(ask))


def _is_between(since: datetime | str | None, saga: Summary, until: datetime | str | None) -> bool:
    """Whether a saga's end, or its start if it has not ended, is between two times. Times without a zone are UTC."""

    def moment(time: datetime | str) -> datetime:
        parsed = datetime.fromisoformat(time) if isinstance(time, str) else time
        return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)

    if since is None and until is None:
        return True
    at = moment(end_of(saga) if saga["status"] in ENDED else saga["created_at"])
    return (since is None or at >= moment(since)) and (until is None or at < moment(until))


@dataclass(slots=True)
class Batch:
    """A job: one operation on several sagas of a type, with the same options for each, at most ``rate`` calls per
    second. ``seqs`` has the number of each saga's last audit entry, by id. A saga that has a later one is
    refused if the operation names a state. Each audit entry has the reason as ``bulk JOB: reason``. ``path`` is
    the file of outcomes, which must belong to this job if it exists; ``None`` writes no file. The ``report`` has
    the outcomes. ``clock`` is a monotonic clock in seconds, and ``sleep`` blocks for a number of seconds."""

    client: SagaClient
    action: str
    type: str
    seqs: Mapping[str, int]
    reason: str = ""
    job: str = field(default_factory=new_job)
    rate: float = 20.0
    path: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    report: Report = field(init=False)

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise ValueError(f"action: unknown value {self.action!r}; expected one of {', '.join(ACTIONS)}")
        if not 0 < self.rate <= 1_000:
            raise ValueError(f"rate: must be above 0 and at most 1000 calls per second, not {self.rate:g}")
        most = LONGEST_REASON if self.action != "cancel" else LONGEST_CANCEL_REASON - len(job_reason(self.job, ""))
        if len(self.reason) > most:
            raise ValueError(f"reason: longer than {most} characters")
        if needs_reason(self.action) and not self.reason.strip():
            raise ValueError(f"reason: {self.action} requires a reason")
        for option in self.options:
            if option not in options_of(self.action):
                raise ValueError(f"{option}: not an option of {self.action}")
        self.report = Report(self.job, (*self.seqs,))

    @classmethod
    def resumed(cls, client: SagaClient, path: Path, rate: float = 20.0) -> Batch:
        """Return the job that a file of outcomes belongs to, so it can continue."""
        try:
            first, *lines = path.read_text(encoding="utf-8").splitlines()
            head: dict[str, Any] = json.loads(first)
            try:
                json.loads(lines[-1]) if lines else None
            except ValueError:
                lines.pop()  # a kill cut the last line off
            outcomes = [CallOutcome(**fields) for fields in map(json.loads, filter(str.strip, lines))]
            seqs = dict(head["chosen"])
            arguments = client, head["action"], head["type"], seqs, head["reason"], head["job"], rate, path
            batch = cls(*arguments, head.get("options", {}))
            batch.report.outcomes |= {outcome.saga_id: outcome for outcome in outcomes}
            return batch
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SagaError(f"{path} is not a file of outcomes: {error}") from None

    def run(
        self, on_outcome: Callable[[CallOutcome], None] = lambda outcome: None, *, most: int | None = None
    ) -> Report:
        """Run the remaining calls in order, several at a time; stop after five failures in a row."""
        report = self.report
        try:
            resumed = self.path is not None and _prepare(self.path)
            outcomes = self.path.open("a", encoding="utf-8") if self.path is not None else nullcontext()
        except OSError as error:
            raise SagaError(f"{self.path} cannot be written ({error.strerror}); no call was made") from error
        with outcomes as file:

            def write(line: dict[str, Any]) -> None:
                if file is not None:
                    file.write(json.dumps(line) + "\n")
                    file.flush()

            def settle(outcome: CallOutcome) -> bool:
                failed = report.settle(outcome)
                write(asdict(outcome))
                on_outcome(outcome)
                return failed

            if not resumed:
                head = {"job": self.job, "action": self.action, "type": self.type, "reason": self.reason}
                write({**head, "options": {**self.options}, "chosen": {**self.seqs}})
            report.stopped = paced(
                *(report.unfinished[:most], partial(outcome_of, call=self._call, sleep=self.sleep), settle),
                rate=self.rate,
                clock=self.clock,
                sleep=self.sleep,
            )
        if (operation := _FOR_MANY.get(self.action)) is not None:
            report.letters = self.client.take_letters(operation, self.type, report.done)
        return report

    def _call(self, saga_id: str) -> str:
        """Make the client's call for one saga. Return the saga's id, or the new saga's id after a rerun."""
        if self.action == "rerun":
            # The key starts only one new saga per old saga, however often the job runs.
            return self.client.rerun(self.type, saga_id, f"bulk {self.job} {saga_id}")["saga_id"]
        reason = job_reason(self.job, self.reason).strip().rstrip(":")
        options: dict[str, Any] = {"action": "bulk"} if self.action == "resolve" else {}
        if VERBS[self.action].takes_seq:
            options["seq"] = self.seqs[saga_id]
        return getattr(self.client, self.action)(self.type, saga_id, reason, **{**options, **self.options})["saga_id"]


def _prepare(path: Path) -> bool:
    """Return whether a file of outcomes exists. If so, prepare it for further lines: remove an incomplete line, which a
    kill can leave, and end the last line."""
    if not path.exists():
        return False
    content = path.read_bytes()
    last = content.rpartition(b"\n")[2]
    with path.open("r+b") as file:
        try:
            json.loads(last or b"null")
        except ValueError:
            file.truncate(len(content) - len(last))
        else:
            file.seek(0, os.SEEK_END)
            file.write(b"\n" if last else b"")
    return True
