"""Bytecode next to the source files of an asset.

Lambda's file system cannot be written, so without it each cold start compiles what it imports. The bytecode is valid
without a look at its source file (PEP 552, unchecked hash): an asset never changes, and its hash covers its sources.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path


def compiler_for(runtime: str) -> str | None:
    """Return the interpreter that compiles for a runtime like ``python3.13``; ``None`` if this machine has none.
    Bytecode is valid for one minor version only."""
    if runtime == f"python{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    return shutil.which(runtime)


def add_bytecode(directory: Path, place: str, runtime: str) -> None:
    """Compile all modules below ``directory``, which functions see at ``place``. The same sources give the same bytes.
    The paths in the bytecode are those of ``place``, and the compiler writes sets in an order without a random seed. A
    file that is not valid Python gets no bytecode."""
    compiler = compiler_for(runtime)
    if compiler is None:
        return
    subprocess.run(  # noqa: S603 - own argv
        [
            *(compiler, "-m", "compileall", "-qq", "-f", "--invalidation-mode", "unchecked-hash"),
            *("-s", str(directory), "-p", place, str(directory)),
        ],
        env=os.environ | {"PYTHONHASHSEED": "0"},
        check=False,
        capture_output=True,
    )
