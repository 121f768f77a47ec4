"""The jobs of a user: what each was for and how far it came, in a file per job. A job can so be run again."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sagas.client.operate.selection import Selection
from sagas.errors import NotFound, SagaError

_NAME = re.compile(r"[0-9A-Za-z-]{1,40}")
_KEPT = 200
"""So many files are kept; the oldest go."""
_LEFT_OUT: dict[str, Any] = {"find": {}, "parent": ""}
"""What the file of a job never has, since it says which sagas are meant. Nor has it ids of sagas."""


class JobRecord(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A job, as its file has it: an action on the sagas of a selection, and not which these are.

    Args:
        job: the unique name of the job, which audit trails have.
        service: the service, see :func:`service_of`.
        action: the operation.
        selection: the sagas, without values that say which sagas are meant; their names are in ``left_out``.
        reason: the reason, for audit trails.
        options: further options of the operation.
        rate: calls per second.
        left_out: the parts of the selection that the file lacks; ``picked`` if the sagas were picked one by one.
        began_at, written_at: when it began, and when the file was written last (ISO 8601).
        ended: whether the job has ended. A job that was killed has not.
        stopped: why it stopped early; empty if it did not.
        counts: how many sagas were chosen, and what became of the calls for them.
    """

    job: str
    service: str
    action: str
    selection: Selection
    reason: str
    began_at: str
    written_at: str
    options: dict[str, Any] = {}
    rate: float = 20.0
    left_out: tuple[str, ...] = ()
    ended: bool = False
    stopped: str = ""
    counts: dict[str, int] = {}

    @property
    def unfinished(self) -> bool:
        """Whether running it again may do more."""
        count = self.counts.get
        rest = count("chosen", 0) - sum(count(kind, 0) for kind in ("done", "already", "refused"))
        return not self.ended or bool(self.stopped) or rest > 0

    @property
    def state(self) -> str:
        """How the job ended, in a few words; a job that was killed did not."""
        if not self.ended:
            return "not ended"
        return f"stopped: {self.stopped}" if self.stopped else "unfinished" if self.unfinished else "ended"

    @property
    def what(self) -> str:
        """The sagas of the job, in a line."""
        chosen = self.selection
        incident = (chosen.type or "all types", chosen.step, chosen.code.replace("_", " "), chosen.error or "")
        others = chosen.text, *chosen.statuses, *(f"by {part}" for part in self.left_out)
        return " ".join(filter(None, (*incident, *others)))

    @property
    def view(self) -> dict[str, Any]:
        """The job as JSON."""
        return msgspec.to_builtins(self)


def service_of(stack: str | None, region: str) -> str:
    """Return the name of a service: its stack and region or, for the local stack, this directory."""
    return f"{stack} in {region}" if stack is not None else str(Path.cwd())


class JobFolder:
    """The files of a user's jobs. Nobody else can read them.

    Args:
        path: the folder. Default: ``~/.sagas/jobs``.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or Path.home() / ".sagas" / "jobs"

    def write(self, record: JobRecord) -> None:
        """Write a job's file, all of it or nothing. Raises ``SagaError`` if it cannot be written."""
        stored = replace(record, selection=replace(record.selection, **_LEFT_OUT))
        path = self._path / f"{record.job}.json"
        unfinished = path.with_suffix(f".{os.getpid()}")
        try:
            for folder in (self._path.parent, self._path):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.chmod(0o700)
            unfinished.touch(mode=0o600)
            unfinished.write_bytes(msgspec.json.encode(stored))
            unfinished.replace(path)
            with suppress(FileNotFoundError):  # another job may delete the same ones
                for old in sorted(self._path.glob("*.json"), key=lambda each: each.stat().st_mtime)[:-_KEPT]:
                    old.unlink()
        except OSError as error:
            todo = "set HOME to a folder that you can write"
            raise SagaError(f"the job's file {path} cannot be written ({error.strerror}); {todo}") from error

    def read(self, job: str) -> JobRecord:
        """Return a job. Raises ``NotFound`` if there is no such job, and ``SagaError`` if its file cannot be read."""
        path = self._path / f"{job}.json"
        if not _NAME.fullmatch(job) or not path.exists():
            raise NotFound(f"no job {job!r} in {self._path}; `sagas jobs` lists the jobs")
        try:
            return msgspec.json.decode(path.read_bytes(), type=JobRecord)
        except OSError as error:
            raise SagaError(f"the job's file {path} cannot be read ({error.strerror})") from error
        except (ValueError, msgspec.MsgspecError) as error:
            # A field of a newer version may narrow the selection, so it is refused, too.
            raise SagaError(f"{path} is not the file of a job; delete it ({error})") from error

    def has(self, job: str) -> bool:
        return bool(_NAME.fullmatch(job)) and (self._path / f"{job}.json").exists()

    def all(self) -> tuple[list[JobRecord], list[str]]:
        """Return all jobs, the newest first, and why files cannot be read."""
        records = list[JobRecord]()
        problems = list[str]()
        for path in self._path.glob("*.json"):
            try:
                records.append(self.read(path.stem))
            except SagaError as error:
                problems.append(str(error))
        return sorted(records, key=lambda record: record.began_at, reverse=True), problems


def left_out(selection: Selection, *, picked: bool) -> tuple[str, ...]:
    """Return the parts of a selection that the file of its job lacks."""
    return (*(name for name in _LEFT_OUT if getattr(selection, name)), *["picked"] * picked)


def check_name(job: str) -> None:
    """Raise ``ValueError`` for a name that cannot be that of a job."""
    if not _NAME.fullmatch(job):
        raise ValueError(f"job: {job!r} is not a name of 1 to 40 letters, digits and hyphens")
