"""What a CDK app wrote when it was first asked: ``python -m tests.e2e.assembled DIRECTORY MODULE``.

A test of what runs a stack need not wait for Node to make its templates again; those of synthesis have the app itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path


def main() -> int:
    """Put it where the CDK is told to put it. Returns the exit code of the app, if that fails."""
    directory, module = sys.argv[1:]
    kept = Path(directory) / module
    if not kept.exists():
        # Another process may do the same, so it is there at once or not at all.
        making = Path(f"{kept}.{os.getpid()}")
        environment = {**os.environ, "CDK_OUTDIR": str(making)}
        code = subprocess.run([sys.executable, "-m", module], env=environment, check=False).returncode
        if code:
            return code
        with suppress(OSError):
            making.rename(kept)
    shutil.copytree(kept, os.environ["CDK_OUTDIR"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
