"""The files of the local stack, in ``.sagas/`` under the project's directory."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path


class Files:
    """The paths of a project's local stack."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self.root = project / ".sagas"
        self.description = self.root / "local.json"
        self.lock = self.root / "local.lock"
        self.emulator_log = self.root / "emulator.log"
        self.synth_log = self.root / "synth.log"
        self.assembly = self.root / "cdk.out"
        self.scratch = self.root / "tmp"
        self.clock = self.root / "clock"
        self.schedules = self.root / "schedules"

    def running_pid(self) -> int | None:
        """Return the process id of this project's running emulator, or None. A running emulator holds a lock that ends
        with its process. So a stale file never names an unrelated process."""
        with suppress(FileNotFoundError), self.lock.open() as file:
            if not _try_lock(file.fileno()):
                return int(file.read().strip() or 0) or None
        return None


def still_running(lock: Path) -> Path:
    """The file in which a stopping emulator names the functions that it still waits for."""
    return lock.with_name("still-running")


def hold_lock(path: Path) -> bool:
    """Lock ``path`` until this process ends, and write the process id into it. Returns false if another process
    holds the lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    if not _try_lock(descriptor):
        os.close(descriptor)
        return False
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return True


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
