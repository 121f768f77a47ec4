"""The emulator of a run: ministack, as the local stack embeds it, in a process of its own on 127.0.0.1.

``python -m benchmarks.emulator`` is that process. It ends with its standard input.
"""

from __future__ import annotations

import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from benchmarks.variables import DIRECTORY

_ROOT = Path(__file__).resolve().parents[1]
_DEADLINE = 30.0
_GAP = 0.001


class Emulator:
    """A running emulator, in which functions import this checkout. To be used in a ``with`` statement.

    Args:
        directory: for its files, and for what functions leave.
    """

    def __init__(self, directory: Path) -> None:
        port = _free_port()
        self.endpoint_url = f"http://127.0.0.1:{port}"
        with (directory / "emulator.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.emulator"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=_environment(directory, port),
                cwd=directory,
                start_new_session=True,
            )

    @property
    def process(self) -> int:
        """The id of its process."""
        return self._process.pid

    def __enter__(self) -> Self:
        deadline = time.monotonic() + _DEADLINE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._end()
                raise RuntimeError("the emulator does not answer")
            time.sleep(0.05)  # a poll with a deadline
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _answers(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(f"{self.endpoint_url}/_ministack/health", timeout=2):  # noqa: S310
            return True
        return False

    def _end(self) -> None:
        """End the process, and what is left of its group: the functions' processes."""
        self._process.terminate()
        try:
            self._process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


def cpu_of(process: int) -> float:
    """Return the seconds of processor time that a process has used; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _environment(directory: Path, port: int) -> dict[str, str]:
    """The whole environment, which functions inherit: nothing of the user's but where Python finds packages."""
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.defpath]),
        "PYTHONPATH": os.pathsep.join(paths),
        "HOME": str(directory),
        "TMPDIR": str(directory),
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "LOG_LEVEL": "WARNING",
        "MINISTACK_HOST": "127.0.0.1",
        "MINISTACK_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_EC2_METADATA_DISABLED": "true",
        "LAMBDA_EXECUTOR": "local",
        "DOCKER_HOST": "unix:///nonexistent",
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        DIRECTORY: str(directory),
    }


def main() -> None:
    """Serve until standard input ends."""
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    # After a wake that found nothing it waits 50 ms before it looks into queues again, which is longer than many a
    # step takes: latency would be that of the emulator, and in steps of 50 ms.
    functions: Any = import_module("ministack.services.lambda_svc")
    functions._ESM_IDLE_WAKE_GAP_SECONDS = _GAP
    runpy.run_module("ministack", run_name="__main__")


if __name__ == "__main__":
    main()
