"""What a command takes in a terminal: processor time over bare Python, on the local stack of a directory."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_BARE: tuple[str, ...] = (sys.executable, "-c", "pass")
_SAGAS = str(Path(sys.executable).parent / "sagas")


def terminal(directory: Path, saga_id: str) -> dict[str, float]:
    """Return the seconds of each command, by the keys of the table's rows: each is run once, in a process of its own.

    Args:
        directory: of the local stack.
        saga_id: of a purchase there.
    """
    words = {"_SAGAS_COMPLETE": "complete_bash", "COMP_WORDS": "sagas show ", "COMP_CWORD": "2"}
    commands: dict[str, tuple[str, ...]] = {
        "import_sagas": (sys.executable, "-c", "import sagas"),
        "help": (_SAGAS, "--help"),
        "list": (_SAGAS, "list"),
        "show": (_SAGAS, "show", "purchase", saga_id),
        "completion": (_SAGAS,),
    }
    bare = _seconds(directory, _BARE)
    return {
        key: _seconds(directory, command, words if key == "completion" else {}) - bare
        for key, command in commands.items()
    }


def _seconds(directory: Path, command: tuple[str, ...], variables: Mapping[str, str] | None = None) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(  # noqa: S603 - own argv
        command,
        cwd=directory,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(_ROOT), "HOME": str(directory), **(variables or {})},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
