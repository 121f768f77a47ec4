"""``python .ci/install.py PIP_ARGUMENTS``: pip install, by uv where that comes to the same.

For the virtual environment's Python, which has nothing but pip yet. uv takes a third of pip's time. Where pip is told
of an index of one's own, or uv cannot be had or fails, pip does it, with a line for each package that it fetches.
Neither compiles: Python compiles what is imported, which is a sixth of the CDK.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
_TOLD = frozenset({"cert", "default-timeout", "disable-pip-version-check", "find-links", "no-color", "timeout"})
"""What pip may be told in its configuration, and uv goes by as well, or need not know."""


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


def configured(lines: Iterable[str]) -> dict[str, str]:
    """Return what ``pip config list`` says, by the option's name, whoever it is for."""
    pairs = (line.partition("=") for line in lines)
    return {name.rpartition(".")[2]: str(ast.literal_eval(value)) for name, _, value in pairs if value}


def by_uv(arguments: list[str]) -> bool:
    """Have uv install; return whether it did. Where pip has more to go by than uv would know, it is not asked."""
    listed = subprocess.run([*_PIP, "config", "list"], capture_output=True, text=True, check=False)  # noqa: S603 - own argv
    told = configured(listed.stdout.splitlines())
    if listed.returncode or not told.keys() <= _TOLD:
        return False
    pins = Path(__file__).with_name("constraints.txt")
    had = subprocess.run(  # noqa: S603 - own argv
        [*_PIP, "install", "-q", "--no-compile", "--constraint", str(pins), "uv"], capture_output=True, check=False
    )
    if had.returncode:
        return False
    found = [part for directory in told.get("find-links", "").split() for part in ("--find-links", directory)]
    trusted = {"SSL_CERT_FILE": told["cert"]} if "cert" in told else {}
    command = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--python", sys.executable]
    return not subprocess.call([*command, *found, *arguments], env={**trusted, **os.environ})  # noqa: S603 - what the Makefile says


def main(arguments: list[str]) -> int:
    """Install; return pip's exit code if it had to be asked."""
    begin = time.monotonic()
    if by_uv(arguments):
        return 0
    command = [*_PIP, "install", "--no-compile", "--progress-bar", "off", *arguments]
    pip = subprocess.Popen(  # noqa: S603 - what the Makefile says
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    for line in progress(pip.stdout or ()):
        print(f"{time.monotonic() - begin:5.0f} s  {line}", file=sys.stderr, flush=True)
    return pip.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
