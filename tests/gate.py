"""``python -m tests.gate NAME``: run a tier, or ``test`` or ``check``, and say where the time went.

Tiers run one after the other within a lane, and lanes beside each other. The first tier that fails stops the run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import durations

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "build/gate"
GRACE = 30.0
"""Seconds a tier has to end what it started, before it is killed."""

_ELSEWHERE = any(os.environ.get(name) for name in ("SAGAS_E2E_ENDPOINT", "SAGAS_E2E_PROFILE"))

BREADTH = (
    *("tests/unit/core/test_properties.py", "tests/unit/authoring/test_schema_agrees.py"),
    *("tests/unit/authoring/test_codec_properties.py", "tests/unit/functions/test_balance.py"),
    *("tests/unit/testing/test_parity.py", "tests/unit/cli/test_init.py", "tests/handlers/test_hostile_events.py"),
)
"""Files with generated inputs, too slow for the tier of their folder."""


@dataclass(frozen=True, slots=True)
class Tier:
    """Tests that run together, or other checks.

    Args:
        paths: what pytest runs.
        without: files of them that another tier runs.
        commands: make's targets that run instead of pytest.
        processes: of pytest.
        yields: give way to tests that wait for real processes.
    """

    paths: Sequence[str] = ()
    without: Sequence[str] = ()
    commands: Sequence[str] = ()
    processes: int = 2
    yields: bool = False

    def command(self, name: str) -> list[str]:
        """The command line of the tier called ``name``."""
        nice = ["nice"] if self.yields else []
        if self.commands:
            return [*nice, "make", "--no-print-directory", *self.commands]
        return [
            *nice,
            *(sys.executable, "-m", "pytest", "-q", "-n", str(self.processes), "--dist", "loadfile"),
            *("--no-loadscope-reorder", "-p", "no:schemathesis"),  # a plugin that no test needs, in every process
            *(f"--junitxml={RESULTS / name}.xml", "-o", "junit_family=xunit1"),
            *(["--timeout", "300"] if self.yields else []),
            *self.paths,
            *(f"--ignore={path}" for path in self.without),
        ]


TIERS = {
    "lint": Tier(commands=("style", "imports")),
    "unit": Tier(("tests/unit", "tests/typing", "docs"), BREADTH),
    "aws": Tier(("tests/handlers", "tests/store", "tests/engine", "tests/attacks"), BREADTH, yields=True),
    "model": Tier((*BREADTH, "tests/model", "tests/faults", "tests/interleavings", "tests/load"), yields=True),
    "cdk": Tier(("tests/cdk",), yields=True),
    "e2e": Tier(("tests/e2e",) if _ELSEWHERE else ("tests/soak", "tests/e2e"), processes=0 if _ELSEWHERE else 3),
    "static": Tier(commands=("types", "docs", "app"), yields=True),
}
"""A folder of ``tests`` that has tests is in one of them."""

Stage = Sequence[Sequence[str]]
"""Lanes of tiers."""

_TEST: Sequence[Stage] = ([["unit"]], [["e2e"], ["aws"], ["model", "cdk"]])
RUNS: dict[str, Sequence[Stage]] = {
    "test": _TEST,
    "check": ([["lint"]], _TEST[0], [*_TEST[1], ["static"]]),
    **{name: ([[name]],) for name in TIERS},
}


@dataclass(slots=True)
class Figures:
    """What a tier took."""

    tests: int = 0
    skipped: int = 0
    wall: float = 0.0
    cpu: float = 0.0
    slowest: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])


class Running:
    """A tier that runs, in a process group of its own.

    Args:
        lane: the names of the tiers to run, this one first.
    """

    def __init__(self, lane: Sequence[str]) -> None:
        self.name, self.rest = lane[0], lane[1:]
        self.began = time.monotonic()
        (RESULTS / f"{self.name}.xml").unlink(missing_ok=True)
        self.output = RESULTS / f"{self.name}.log"
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                TIERS[self.name].command(self.name), cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, process_group=0
            )
        self.pid = self._process.pid
        self.exit: int | None = None

    def ended(self, status: int, cpu: float) -> Figures:
        """Take the exit status, and return what it took."""
        self.exit = self._process.returncode = os.waitstatus_to_exitcode(status)
        figures = _measured(self.name)
        figures.wall, figures.cpu = time.monotonic() - self.began, cpu
        return figures

    def stop(self) -> None:
        """End it."""
        end(self._process)


def end(leader: subprocess.Popen[Any]) -> None:
    """Interrupt a process group as Ctrl-C does, and kill what is still there after the grace."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            leader.wait(GRACE)
        os.killpg(leader.pid, signal.SIGKILL)
    leader.wait()


def _measured(name: str) -> Figures:
    """Read a tier's results, and keep the durations of its files for the order of the next run."""
    figures, files = Figures(), defaultdict[str, float](float)
    results = RESULTS / f"{name}.xml"
    if not results.exists():
        return figures
    for case in ET.parse(results).iter("testcase"):  # noqa: S314 - pytest has just written it
        seconds, file = float(case.get("time", "0")), case.get("file", "")
        figures.tests += 1
        figures.skipped += case.find("skipped") is not None
        figures.slowest.append((seconds, f"{file}::{case.get('name')}"))
        files[file] += seconds
    durations.write(name, files)
    return figures


def _report(taken: dict[str, Figures], wall: float) -> None:
    print(f"\n{'tier':<8}{'tests':>7}{'skipped':>9}{'wall s':>9}{'CPU s':>9}")
    for name, figures in taken.items():
        print(f"{name:<8}{figures.tests:>7}{figures.skipped:>9}{figures.wall:>9.1f}{figures.cpu:>9.1f}")
    tests, skipped = sum(one.tests for one in taken.values()), sum(one.skipped for one in taken.values())
    print(f"{'all':<8}{tests:>7}{skipped:>9}{wall:>9.1f}{sum(one.cpu for one in taken.values()):>9.1f}")
    if slowest := sorted((pair for one in taken.values() for pair in one.slowest), reverse=True)[:10]:
        print("\nThe slowest tests:")
        for seconds, test in slowest:
            print(f"{seconds:>7.1f} s  {test}")
    print(flush=True)


def _run(stage: Stage, taken: dict[str, Figures]) -> str | None:
    """Run the lanes of a stage beside each other; return the first tier that fails."""
    running = {one.pid: one for one in [Running(lane) for lane in stage]}
    try:
        while running:
            pid, status, usage = os.wait4(-1, 0)
            if pid not in running:
                continue
            tier = running.pop(pid)
            taken[tier.name] = tier.ended(status, usage.ru_utime + usage.ru_stime)
            print(f"== {tier.name}\n{tier.output.read_text(errors='replace').rstrip()}", flush=True)
            if tier.exit:
                return tier.name
            if tier.rest:
                following = Running(tier.rest)
                running[following.pid] = following
    finally:
        for tier in running.values():
            tier.stop()
    return None


def interruptible() -> None:
    """Have SIGTERM end a run as Ctrl-C does, and Ctrl-C even where the shell has it ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def main(names: Iterable[str]) -> int:
    """Run what is called so; return 1 if a tier fails, 130 if the run is interrupted, 2 if there is no such name."""
    chosen = [*names]
    if len(chosen) != 1 or chosen[0] not in RUNS:
        print(f"name one of {', '.join(RUNS)}", file=sys.stderr)
        return 2
    RESULTS.mkdir(parents=True, exist_ok=True)
    interruptible()
    began, taken = time.monotonic(), dict[str, Figures]()
    failed: str | None = None
    try:
        for stage in RUNS[chosen[0]]:
            if failed := _run(stage, taken):
                break
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    _report(taken, time.monotonic() - began)
    if failed:
        print(f"{failed} failed. Repeat it: make {failed}", flush=True)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
