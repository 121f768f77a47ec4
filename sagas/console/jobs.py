"""The jobs that a console runs: actions on many sagas. Their files survive it."""

from __future__ import annotations

import logging
import threading
from typing import Any, NamedTuple

from sagas import threads
from sagas.client.operate.batch import Batch
from sagas.client.operate.jobs import JobFolder, JobRecord
from sagas.errors import InvalidRequest, NotFound, Problem, SagaError

_LOG = logging.getLogger(__name__)
_REMEMBERED = 50


class _Begun(NamedTuple):
    """A job that this console has begun, and the thread that runs it."""

    batch: Batch
    thread: threading.Thread


class Jobs:
    """The jobs of a user on a service. Those that this console has begun are in its memory, too.

    Args:
        client: the client that makes the calls.
        rate: sagas per second.
        service: the name of the service in the files of jobs.
        folder: the files.
    """

    def __init__(self, client: Any, rate: float, service: str, folder: JobFolder) -> None:
        self._client = client
        self._rate = rate
        self._service = service
        self.folder = folder
        self._jobs = dict[str, _Begun]()
        self._lock = threading.Lock()

    def begin(self, action: str, reason: str, rate: float | None = None, **chosen: Any) -> Batch:
        """Return a new job, which :meth:`run` runs. Raises ``InvalidRequest`` if the reason is too long."""
        named = {"service": self._service, "folder": self.folder}
        try:
            return Batch(self._client, action, reason=reason, rate=rate or self._rate, **named, **chosen)
        except ValueError as error:
            field, _, problem = str(error).partition(": ")
            raise InvalidRequest("invalid job", [Problem(field, problem)]) from error

    def again(self, name: str) -> Batch:
        """Return a job that is to be run again. Raises ``NotFound`` if this user has no such job, and
        ``InvalidRequest`` if it is for another service, or its file does not say for which sagas it was."""
        begun = self._jobs.get(name)
        if begun is not None:
            return begun.batch
        record = self.folder.read(name)
        if record.service != self._service:
            raise InvalidRequest(f"job {name} is for another service", [Problem("job", f"is for {record.service}")])
        if record.left_out:
            problem = f"the file does not keep {', '.join(record.left_out)}"
            raise InvalidRequest(f"job {name} cannot continue here; choose its sagas again", [Problem("job", problem)])
        chosen = {"selection": record.selection, "job": name, "options": record.options}
        return self.begin(record.action, record.reason, record.rate, **chosen)

    def run(self, batch: Batch, *, most: int | None = None) -> None:
        """Have a thread choose the sagas and make the calls, at most ``most``. A running job goes on as it is."""

        def run() -> None:
            try:
                batch.choose()
                batch.run(most=most)
            except (SagaError, ValueError) as error:
                batch.report.stopped = str(error)

        with self._lock:
            running = self.running()
            if batch.job not in running:
                self._jobs[batch.job] = _Begun(batch, threads.start(f"sagas-job-{batch.job}", run, _LOG))
            for old in [name for name in self._jobs if name not in running | {batch.job}][:-_REMEMBERED]:
                del self._jobs[old]

    def running(self) -> set[str]:
        """Return the names of the jobs that this console runs."""
        return {name for name, begun in self._jobs.copy().items() if begun.thread.is_alive()}

    def get(self, name: str) -> tuple[JobRecord, Batch | None]:
        """Return a job as its file has it and, if this console has begun it, the job itself; its record says whether
        it had ended before its counts were read. Raises ``NotFound`` if this user has no such job."""
        begun = self._jobs.get(name)
        if begun is None:
            return self.folder.read(name), None
        ended = not begun.thread.is_alive()
        return begun.batch.record(ended=ended), begun.batch

    def all(self) -> tuple[list[JobRecord], list[str]]:
        """Return the user's jobs on this service, the newest first, and why files cannot be read."""
        records, problems = self.folder.all()
        return [record for record in records if record.service == self._service], problems

    def stop(self, name: str) -> None:
        """Have a job stop before its next call."""
        begun = self._jobs.get(name)
        if begun is None:
            raise NotFound(f"this console runs no job {name!r}")
        begun.batch.stop()
