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
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Put it where the CDK is told to put it. Returns the exit code of the app, if that fails."""
    directory, module = sys.argv[1:]
    kept = Path(directory) / module
    if not kept.exists():
        # Another process may do the same, so it is there at once or not at all.
        making = Path(f"{kept}.{os.getpid()}")
        with TemporaryDirectory(prefix="sources-", dir=directory) as sources:
            _copy_package(module, Path(sources))
            path = os.pathsep.join([sources, str(ROOT)])
            environment = {**os.environ, "CDK_OUTDIR": str(making), "PYTHONPATH": path}
            code = subprocess.run([sys.executable, "-m", module], env=environment, check=False).returncode
        if code:
            return code
        with suppress(OSError):
            making.rename(kept)
    shutil.copytree(kept, os.environ["CDK_OUTDIR"])
    return 0


def _copy_package(module: str, target: Path) -> None:
    """Copy the app's own package, if it is one of the tests'.

    A function holds all of the top-level package that its saga lives in. Of ``tests`` that is four hundred files, which
    each worker would unpack.
    """
    *parents, package, _ = module.split(".")
    if parents:
        for depth in range(1, len(parents) + 1):
            file = Path(*parents[:depth], "__init__.py")
            (target / file).parent.mkdir()
            shutil.copy(ROOT / file, target / file)
        shutil.copytree(ROOT.joinpath(*parents, package), target.joinpath(*parents, package))


if __name__ == "__main__":
    sys.exit(main())
