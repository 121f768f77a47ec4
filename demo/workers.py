"""``python -m demo.workers [FUNCTION]``: prints the process ids of the functions of this directory's stack."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from demo.stack import DESCRIPTION

_CODE = re.compile(r"/ministack-lambda-(.+)-[^-/]+/code")
"""The directory of a worker's code, which is also the worker's working directory."""


def _function_of(pid: int) -> str | None:
    """Return the function that a process runs; empty if the system does not say, ``None`` if it runs no function."""
    try:
        found = _CODE.search(str(Path(f"/proc/{pid}/cwd").readlink()))
    except OSError:
        return "" if not Path("/proc/self").exists() else None
    return found[1] if found else None


def processes(group: int) -> list[tuple[int, str]]:
    """Return the process id and the command line of each running process in a process group."""
    found: list[tuple[int, str]] = []
    if Path("/proc/self").exists():  # slim images have no ps
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # the process has just ended
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if line and os.getpgid(int(entry.name)) == group:  # a zombie has no command line
                    found.append((int(entry.name), line))
        return found
    listed = subprocess.run(
        ["ps", "-e", "-ww", "-o", "pid=,pgid=,stat=,args="],  # noqa: S607 - from the PATH, as a shell would
        capture_output=True,
        text=True,
        check=True,
    )
    for row in listed.stdout.splitlines():
        pid, owner, state, line = row.split(None, 3)
        if int(owner) == group and not state.startswith("Z"):
            found.append((int(pid), line))
    return found


def workers(group: int) -> list[tuple[int, str]]:
    """Return the process id and the function of each worker in an emulator's process group.

    On Linux, all workers are forks of one process and have its command line. Elsewhere, each has its own command line,
    with the worker's script.
    """
    found = [(pid, _function_of(pid), line) for pid, line in processes(group)]
    return [(pid, function) for pid, function, line in found if function or (function == "" and "_worker" in line)]


def main(arguments: list[str]) -> int:
    """Print the workers. With an argument, print only the ids of workers whose function's name contains it."""
    group = json.loads(DESCRIPTION.read_text())["pid"]
    word = arguments[0].lower() if arguments else ""
    for pid, function in workers(group):
        if word in function.lower():
            print(pid if word else f"{pid} {function}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
