"""``python -m demo.workers [FUNCTION]``: process ids of the functions of this directory's stack."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from demo.stack import DESCRIPTION


def _function_of(pid: int) -> str:
    """The name of the function a process runs, as its environment has it; empty where that cannot be read."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    name = b"AWS_LAMBDA_FUNCTION_NAME="
    return next((one.removeprefix(name).decode() for one in variables if one.startswith(name)), "")


def workers(group: int) -> list[tuple[int, str]]:
    """Return process id and function of each worker in an emulator's process group."""
    listed = subprocess.run(
        ["ps", "-e", "-ww", "-o", "pid=,pgid=,args="],  # noqa: S607 - from the PATH, as a shell would
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
    found = [int(pid) for pid, owner, args in rows if int(owner) == group and "_worker" in args]
    return [(pid, _function_of(pid)) for pid in found]


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
