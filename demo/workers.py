"""``python -m demo.workers [FUNCTION]``: process ids of the functions of this directory's stack."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from demo.stack import DESCRIPTION

_CODE = re.compile(r"/ministack-lambda-(.+)-[^-/]+/code")
"""Where the emulator has a worker's code, and the worker itself is."""


def _function_of(pid: int) -> str | None:
    """The name of the function a process runs; empty where the system does not tell, ``None`` if it runs none."""
    try:
        found = _CODE.search(str(Path(f"/proc/{pid}/cwd").readlink()))
    except OSError:
        return "" if not Path("/proc/self").exists() else None
    return found[1] if found else None


def workers(group: int) -> list[tuple[int, str]]:
    """Return process id and function of each worker in an emulator's process group.

    On Linux all are forked from one process, and are called as that is; elsewhere each is called as its script.
    """
    listed = subprocess.run(
        ["ps", "-e", "-ww", "-o", "pid=,pgid=,args="],  # noqa: S607 - from the PATH, as a shell would
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
    found = [(int(pid), _function_of(int(pid)), args) for pid, owner, args in rows if int(owner) == group]
    return [(pid, function) for pid, function, args in found if function or (function == "" and "_worker" in args)]


def main(arguments: list[str]) -> int:
    """Print them; with a word, only those whose function's name has it, and nothing but their ids."""
    group = json.loads(DESCRIPTION.read_text())["pid"]
    word = arguments[0].lower() if arguments else ""
    for pid, function in workers(group):
        if word in function.lower():
            print(pid if word else f"{pid} {function}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
