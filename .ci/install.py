"""``python .ci/install.py PIP_ARGUMENTS``: pip install, with a line for each package that it fetches.

For the virtual environment's Python, which has nothing but pip yet. Without byte-compiling: Python compiles what is
imported, which is a sixth of the CDK.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Iterator


def progress(lines: Iterable[str]) -> Iterator[str]:
    """Say in short what pip's lines say: which files it fetches, that it unpacks them, and what it warns of."""
    fetched = 0
    for line in lines:
        words = line.split()
        if words[:1] == ["Downloading"] or words[:2] == ["Using", "cached"]:
            size = words[-2:] if words[-1].endswith(")") else []
            file = words[-1 - len(size)].rpartition("/")[2]
            if not file.endswith(".metadata"):
                fetched += 1
                yield " ".join([f"{fetched:3} ", file, *size])
        elif words[:2] == ["Installing", "collected"]:
            yield f"unpacking {len(words) - 3} packages ..."
        elif line.startswith(("ERROR", "WARNING", "Successfully installed")):
            yield f"{len(words) - 2} packages installed" if words[0] == "Successfully" else line.rstrip()


def main(arguments: list[str]) -> int:
    """Run pip and show its progress; return its exit code."""
    begin = time.monotonic()
    command = [sys.executable, "-m", "pip", "install", "--no-compile", "--disable-pip-version-check"]
    pip = subprocess.Popen(  # noqa: S603 - what the Makefile says
        [*command, "--progress-bar", "off", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    for line in progress(pip.stdout or ()):
        print(f"{time.monotonic() - begin:5.0f} s  {line}", file=sys.stderr, flush=True)
    return pip.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
