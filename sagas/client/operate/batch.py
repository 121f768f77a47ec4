"""One operation on many sagas: each its own call, audited singly and safe to make again.

A job writes down what it chose, and what became of each saga as soon as it is known, so that one that was stopped goes
on where it was: what was done or refused is left alone, what failed is tried again.
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
from sagas.client.operate.outcomes import Outcome, Report, outcome_of
from sagas.client.operate.pacing import job_reason, new_job, paced
from sagas.core.ids import LONGEST_CANCEL_REASON
from sagas.core.states import OVER, SagaStatus
from sagas.core.text import end_of
from sagas.engine.read.answers import Page, Summary
from sagas.errors import SagaError
from sagas.operations import VERBS

_FOR_MANY = {name: operation for name, operation in VERBS.items() if operation.many}
_USUAL: Mapping[str, Sequence[SagaStatus]] = {name: operation.many for name, operation in _FOR_MANY.items()} | {
    "rerun": (SagaStatus.FAILED, SagaStatus.COMPENSATED)
}
"""Which sagas an operation is for, where nothing else is said."""
ACTIONS = (*_USUAL,)
"""What can be done to many sagas."""
_AT_REST = (*OVER, SagaStatus.DEAD_LETTERED)
_PAGE = 100
LONGEST_REASON = 3_000
"""Characters of a reason. The job's id precedes it."""


def options_of(action: str) -> tuple[str, ...]:
    """Return the names of what an operation on many sagas takes besides a reason."""
    options = _FOR_MANY[action].options if action in _FOR_MANY else ()
    return tuple(option.name for option in options if option.name != "reason")


def needs_reason(action: str) -> bool:
    """Whether an operation on many sagas needs a reason: one that undoes them does, too."""
    return action == "compensate" or (action in _FOR_MANY and _FOR_MANY[action].reason_required)


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
    """Return the sagas that an operation is for, by lists of the API."""
    statuses = (status,) if status is not None else _USUAL[action]
    in_need = _walked(lambda cursor: client.attention(name, limit=_PAGE, cursor=cursor))
    needing = (one for one in in_need if _is_between(since, one, until))
    if action == "resolve" and status is None and not find:
        listed = needing
    elif find:
        # The index of a value has all statuses.
        matching = _listed(client, name, since=since, until=until, find=find)
        listed = (saga for saga in matching if saga["status"] in statuses)
    else:
        listed = chain.from_iterable(_listed(client, name, each, since=since, until=until) for each in statuses)
        if action == "retry" and status is None:
            listed = chain(listed, (one for one in needing if one["status"] not in _AT_REST))
    found = dict[str, Summary]()
    for one in listed:
        if _failed_with(one, error) and (action != "resolve" or "why" in one):
            found.setdefault(one["saga_id"], one)
    return [*found.values()]


def _failed_with(saga: Summary, error: str | None) -> bool:
    """Whether an error has this type, or this in its message; ``None`` is any, and none."""
    fault = saga.get("fault")
    return error is None or (fault is not None and (error == fault["type"] or error in fault["message"]))


def _listed(client: SagaClient, name: str, status: str | None = None, **filters: Any) -> Iterator[Summary]:
    return _walked(lambda cursor: client.list(name, status, limit=_PAGE, cursor=cursor, **filters))


def _walked(page_after: Callable[[str | None], Page]) -> Iterator[Summary]:
    """What is on all pages."""
    cursor: str | None = None
    while True:
        page = page_after(cursor)
        yield from page["sagas"]
        cursor = page["cursor"]
        if cursor is None:
            return


def _is_between(since: datetime | str | None, saga: Summary, until: datetime | str | None) -> bool:
    """Whether a saga ended, or started if it has not ended, between two times. They are UTC unless they have a zone."""

    def moment(time: datetime | str) -> datetime:
        parsed = datetime.fromisoformat(time) if isinstance(time, str) else time
        return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)

    if since is None and until is None:
        return True
    at = moment(end_of(saga) if saga["status"] in OVER else saga["created_at"])
    return (since is None or at >= moment(since)) and (until is None or at < moment(until))


@dataclass(slots=True)
class Batch:
    """A job: one operation on some sagas of a type. Its ``report`` says what has become of them.

    Args:
        client: of the service.
        action: the operation.
        name: of the saga type.
        saga_ids: of the sagas, in order.
        reason: why; each audit entry has ``bulk JOB: reason``.
        job: its name; a new one by default.
        rate: calls a second, at most.
        path: of the file of outcomes; none is written without. One that is there must be of this job.
        options: what the client's call for one saga takes besides the reason, the same for each.
        clock, sleep: seconds that only go up, and a way to let them pass.
    """

    client: SagaClient
    action: str
    name: str
    saga_ids: Sequence[str]
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
            raise ValueError(f"action: there is no {self.action!r}; known are {', '.join(ACTIONS)}")
        if not 0 < self.rate <= 1_000:
            raise ValueError("rate: must be above 0, and 1000 calls a second at most")
        most = LONGEST_REASON if self.action != "cancel" else LONGEST_CANCEL_REASON - len(job_reason(self.job, ""))
        if len(self.reason) > most:
            raise ValueError(f"reason: longer than {most} characters")
        if needs_reason(self.action) and not self.reason.strip():
            raise ValueError("reason: required")
        for option in self.options:
            if option not in options_of(self.action):
                raise ValueError(f"{option}: {self.action} does not take it")
        self.report = Report(self.job, self.saga_ids)

    @classmethod
    def resumed(cls, client: SagaClient, path: Path, rate: float = 20.0) -> Batch:
        """Return the job that a file of outcomes is of, to go on with it."""
        try:
            first, *rest = path.read_text(encoding="utf-8").splitlines()
            told: dict[str, Any] = json.loads(first)
            try:
                json.loads(rest[-1]) if rest else None
            except ValueError:
                rest.pop()  # it was cut off while it was written
            outcomes = [Outcome(**one) for one in map(json.loads, filter(str.strip, rest))]
            given = client, told["action"], told["type"], told["chosen"], told["reason"], told["job"], rate, path
            batch = cls(*given, told.get("options", {}))
            batch.report.outcomes |= {one.saga_id: one for one in outcomes}
            return batch
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SagaError(f"{path} is no file of outcomes: {error}") from None

    def run(self, on_outcome: Callable[[Outcome], None] = lambda one: None, *, most: int | None = None) -> Report:
        """Do what is left to do, in order, several calls at a time; stop after five failures in a row."""
        report = self.report
        try:
            begun = self.path is not None and _goes_on(self.path)
            outcomes = self.path.open("a", encoding="utf-8") if self.path is not None else nullcontext()
        except OSError as error:
            raise SagaError(f"{self.path} cannot be written: {error.strerror}; nothing was done") from error
        with outcomes as file:

            def note(line: dict[str, Any]) -> None:
                if file is not None:
                    file.write(json.dumps(line) + "\n")
                    file.flush()

            def settle(one: Outcome) -> bool:
                failed = report.settle(one)
                note(asdict(one))
                on_outcome(one)
                return failed

            if not begun:
                head = {"job": self.job, "action": self.action, "type": self.name, "reason": self.reason}
                note({**head, "options": {**self.options}, "chosen": [*self.saga_ids]})
            report.stopped = paced(
                *(report.unfinished[:most], partial(outcome_of, call=self._call, sleep=self.sleep), settle),
                rate=self.rate,
                clock=self.clock,
                sleep=self.sleep,
            )
        return report

    def _call(self, saga_id: str) -> str:
        """Make the client's call for one saga; return the id of the saga to look at next."""
        if self.action == "rerun":
            # The same job starts one new saga of each, however often it is run.
            return self.client.rerun(self.name, saga_id, f"bulk {self.job} {saga_id}")["saga_id"]
        reason = job_reason(self.job, self.reason).strip().rstrip(":")
        options = {"action": "bulk"} if self.action == "resolve" else {}
        return getattr(self.client, self.action)(self.name, saga_id, reason, **{**options, **self.options})["saga_id"]


def _goes_on(path: Path) -> bool:
    """Whether a file of outcomes is there to be gone on with; what is added begins a line of its own.

    Of a job that was killed while it wrote there may be half a line, which is taken back.
    """
    if not path.exists():
        return False
    written = path.read_bytes()
    last = written.rpartition(b"\n")[2]
    with path.open("r+b") as file:
        try:
            json.loads(last or b"null")
        except ValueError:
            file.truncate(len(written) - len(last))
        else:
            file.seek(0, os.SEEK_END)
            file.write(b"\n" if last else b"")
    return True
