"""A job: one operation on many sagas. Each saga has its own call and audit entry.

A job is a selection of sagas as of a time before its first call, an action, a reason and a name. To resume it is to run
it again: what is done has left the selection, and what failed again did so later. The command line and the console run
jobs in this way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import Any

from msgspec.structs import replace

from sagas.client.operate.jobs import JobFolder, JobRecord, check_name, left_out
from sagas.client.operate.outcomes import CallOutcome, Report, outcome_of
from sagas.client.operate.pacing import job_reason, new_job, paced
from sagas.client.operate.selection import Chosen, Selection, there_since
from sagas.core.ids import LONGEST_CANCEL_REASON
from sagas.core.states import ENDED, SagaStatus
from sagas.core.text import iso
from sagas.engine.clock import SystemClock
from sagas.engine.read.answers import Summary
from sagas.errors import SagaError
from sagas.operations import VERBS

_FOR_MANY = {name: operation for name, operation in VERBS.items() if operation.bulk_statuses}
_RERUN = (SagaStatus.FAILED, SagaStatus.COMPENSATED)
ACTIONS = (*_FOR_MANY, "rerun", "recover")
"""The operations that can be applied to many sagas."""
LONGEST_REASON = 3_000
"""The maximum length of a reason, without the job's name that precedes it."""
_WRITTEN_EVERY = 1.0
"""Seconds between two writes of a job's file."""


def options_of(action: str) -> tuple[str, ...]:
    """Return the names of the options of an operation on many sagas, without the reason."""
    return _FOR_MANY[action].bulk_options if action in _FOR_MANY else ()


def needs_reason(action: str) -> bool:
    """Whether an operation on many sagas needs a reason. Undoing many always does."""
    return action == "compensate" or (action in _FOR_MANY and "reason" in _FOR_MANY[action].needed)


def usual(action: str, selection: Selection) -> Selection:
    """Return the sagas of a selection that an operation is for: all of them, if it names statuses or an incident."""
    if action == "resolve":
        return replace(selection, needing=True)
    if selection.statuses or selection.step:
        return selection
    statuses = _FOR_MANY[action].bulk_statuses if action in _FOR_MANY else _RERUN
    if action != "retry":
        return replace(selection, statuses=tuple(status.value for status in statuses))
    # A saga in flight can need an operator, too, and one that was settled by hand does not.
    retried = tuple(status.value for status in SagaStatus if status in statuses or status not in ENDED)
    return replace(selection, needing=True, statuses=retried)


@dataclass(slots=True)
class Batch:
    """A job, at most ``rate`` calls per second, with the same ``options`` for each saga. Each audit entry has the
    reason as ``bulk JOB: reason``. A saga that has changed since it was chosen is left alone, if the operation names a
    state. The ``report`` has the outcomes.

    ``picked`` are sagas that were picked one by one, in place of a selection. ``service`` names the service in the
    job's file, which is in ``folder``; ``None`` writes no file. ``clock`` is a monotonic clock in seconds, and
    ``sleep`` blocks for a number of seconds. Default: until :meth:`stop`."""

    client: Any
    action: str
    selection: Selection
    reason: str = ""
    job: str = field(default_factory=new_job)
    rate: float = 20.0
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    picked: Sequence[Chosen] = ()
    service: str = ""
    folder: JobFolder | None = None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] | None = None
    report: Report = field(init=False)
    _began_at: str = ""
    _stop: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise ValueError(f"action: unknown value {self.action!r}; expected one of {', '.join(ACTIONS)}")
        check_name(self.job)
        if not 0 < self.rate <= 1_000:
            raise ValueError(f"rate: must be above 0 and at most 1000 calls per second, not {self.rate:g}")
        most = LONGEST_REASON if self.action != "cancel" else LONGEST_CANCEL_REASON - len(job_reason(self.job, ""))
        if len(self.reason) > most:
            raise ValueError(f"reason: longer than {most} characters")
        for option in self.options:
            if option not in options_of(self.action):
                raise ValueError(f"{option}: not an option of {self.action}")
        self.report = Report(self.job)

    def stop(self) -> None:
        """Have the job stop before its next call."""
        self._stop.set()

    def choose(self) -> list[Summary]:
        """Read which sagas the job is for, and add them to the report. Return them as lists show them, unless they were
        picked."""
        self._stop.clear()
        sagas = list[Summary]()
        chosen = self.report.chosen
        chosen |= {saga.saga_id: saga for saga in self.picked}
        if self.picked:
            return sagas
        for saga in self.selection.sagas(self.client):
            # A saga that is being cancelled is only waiting for its worker.
            if self.action != "cancel" or not saga["cancel_requested_at"]:
                sagas.append(saga)
                chosen[saga["saga_id"]] = Chosen(saga["type"], saga["saga_id"], saga["seq"])
            if self._stop.is_set():
                break
        if sagas and not self.selection.as_of:
            # The newest of them is a time of the service, whatever this machine's clock says.
            stalled = self.selection.stalled
            self.selection = replace(self.selection, as_of=max(there_since(saga, stalled=stalled) for saga in sagas))
        return sagas

    def run(
        self, on_outcome: Callable[[CallOutcome], None] = lambda outcome: None, *, most: int | None = None
    ) -> Report:
        """Make the calls that are left for the sagas that :meth:`choose` has read, in order, several at a time; stop
        after five failures in a row. ``most``: at most so many calls. Raises ``ValueError`` if the operation requires a
        reason, and ``SagaError`` if the job's file cannot be written; then no call is made."""
        if needs_reason(self.action) and not self.reason.strip():
            raise ValueError(f"reason: {self.action} requires a reason")
        report = self.report
        written = self.clock()
        report.stopped = ""
        if self.folder is not None:
            self.folder.write(self.record())

        def settle(outcome: CallOutcome) -> bool:
            nonlocal written
            failed = report.settle(outcome)
            if self.clock() - written >= _WRITTEN_EVERY:
                written = self.clock()
                self._write()
            on_outcome(outcome)
            return failed

        sleep = self.sleep or self._stop.wait
        report.stopped = paced(
            report.unfinished[:most],
            partial(outcome_of, call=self._call, sleep=sleep),
            settle,
            rate=self.rate,
            clock=self.clock,
            sleep=sleep,
            stopped=lambda: "you stopped it" if self._stop.is_set() else "",
        )
        self._take_letters()
        self._write(ended=True)
        return report

    def record(self, *, ended: bool = False) -> JobRecord:
        """Return the job as its file has it."""
        now = iso(SystemClock().now())
        report = self.report
        self._began_at = self._began_at or now
        return JobRecord(
            job=self.job,
            service=self.service,
            action=self.action,
            selection=self.selection,
            reason=self.reason,
            began_at=self._began_at,
            written_at=now,
            options={**self.options},
            rate=self.rate,
            left_out=left_out(self.selection, picked=bool(self.picked)),
            ended=ended,
            stopped=report.stopped,
            counts=report.counts,
        )

    def _write(self, *, ended: bool = False) -> None:
        """Write the job's file. The job goes on even if the disk is full by now."""
        if self.folder is not None:
            try:
                self.folder.write(self.record(ended=ended))
            except SagaError as error:
                self.report.note(str(error))

    def _take_letters(self) -> None:
        if self.action not in _FOR_MANY:
            return
        by_type = dict[str, list[str]]()
        for saga in self.report.done:
            by_type.setdefault(saga.type, []).append(saga.saga_id)
        for name, saga_ids in by_type.items():
            self.report.note(self.client.take_letters(_FOR_MANY[self.action], name, saga_ids))

    def _call(self, saga_id: str) -> str:
        """Make the client's call for one saga. Return the saga's id, or the new saga's id after a rerun."""
        saga = self.report.chosen[saga_id]
        if self.action == "rerun":
            # The key starts only one new saga per old saga, however often the job runs.
            return self.client.rerun(saga.type, saga_id, f"bulk {self.job} {saga_id}")["saga_id"]
        if self.action == "recover":
            self.client.recover(type=saga.type, saga_id=saga_id)
            return saga_id
        reason = job_reason(self.job, self.reason).strip().rstrip(":")
        options: dict[str, Any] = {"action": "bulk"} if self.action == "resolve" else {}
        if VERBS[self.action].takes_seq:
            options["seq"] = saga.seq
        getattr(self.client, self.action)(saga.type, saga_id, reason, **{**options, **self.options})
        return saga_id
