"""One run: all variants deployed to one emulator, and measured in turns."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.cold_start import COLD, ColdStart, Queue, cold_start, floor
from benchmarks.emulator import cpu_of
from benchmarks.layout import Layout
from benchmarks.marks import Eye
from benchmarks.notes import Noted, noted
from benchmarks.prices import Counts
from benchmarks.runner import Ran, Runner, Sink
from benchmarks.stage import Stage
from benchmarks.terminal import terminal
from benchmarks.variables import STEP
from benchmarks.variants import AT_A_TIME, BARE, CHAINED, DURABLE, ORDER, OURS, REFUSED, STEPS, Variant

_TOGETHER = 4
_COUNTED = 2
"""Sagas that run at a time while their requests are counted. With more, some would run in processes that are new, and
read what a process keeps for a few seconds."""
_WARM_UP = 3
"""Sagas of each variant before those that are measured."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured.

    Args:
        variants: which.
        sagas: of each, one at a time; and in each round, ten at a time.
        rounds: of ten at a time.
        processes: fresh ones of each, for cold starts and commands.
    """

    variants: Sequence[Variant]
    sagas: int
    rounds: int
    processes: int


@dataclass(slots=True)
class Measured:
    """What was measured of a variant. Times are in seconds.

    Args:
        noted: the requests of a saga that completes.
        undone: what one takes that is undone.
        cpu: processor time of its steps' functions, saga by saga.
        start_cpu: that of the function behind POST.
        latency: saga by saga.
        rates: sagas a second, ten at a time, round by round.
        running: its steps' invocations that ran at a time in these rounds, on average.
        emulator_cpu: processor time of the emulator in these rounds, a saga.
        driver_cpu: that of the driver.
        cold: process by process.
        floor: processor time of the import of what every function needs, process by process.
        terminal: processor time of commands, by the keys of their rows, turn by turn.
    """

    noted: Noted
    undone: Counts | None = None
    cpu: list[float] = field(default_factory=list[float])
    start_cpu: list[float] = field(default_factory=list[float])
    latency: list[float] = field(default_factory=list[float])
    rates: list[float] = field(default_factory=list[float])
    running: list[float] = field(default_factory=list[float])
    emulator_cpu: list[float] = field(default_factory=list[float])
    driver_cpu: list[float] = field(default_factory=list[float])
    cold: list[ColdStart] = field(default_factory=list[ColdStart])
    floor: list[float] = field(default_factory=list[float])
    terminal: list[dict[str, float]] = field(default_factory=list[dict[str, float]])


class Experiment:
    """A run.

    Args:
        plan: how much is measured.
        stage: on which.
        directory: where functions leave their marks and notes.
        emulator: the id of its process.
    """

    def __init__(self, plan: Plan, stage: Stage, directory: Path, emulator: int) -> None:
        self._plan = plan
        self._emulator = emulator
        self._stage = stage
        self._directory = directory
        self._runner = Runner(stage, Eye(directory))
        self._over: list[tuple[Variant, Ran]] = []
        self.results: dict[str, Measured] = {}
        self.bare: list[float] = []
        """Processor time of bare botocore for the requests of ours, saga by saga."""

    def run(self) -> None:
        """Measure everything; fail if any saga did not end as it should."""
        for variant in self._plan.variants:
            _say(f"{variant.title}: requests")
            self.results[variant.name] = self._counted(variant)
        self._stage.end_recording()
        self._one_at_a_time()
        self._ten_at_a_time()
        if sys.platform == "linux":  # the layer is for Linux
            self._cold_starts()
        self._commands()
        for variant, ran in self._over:
            self._stage.require(variant.name, ran.saga_id, "COMPLETED")

    def _counted(self, variant: Variant) -> Measured:
        """Count the requests of a few sagas. Others came before them, so that what is asked only once is not among
        them, and they start together, so that what is kept for a few seconds is kept."""
        self._sagas(variant, _TOGETHER, _COUNTED)
        happy = self._sagas(variant, _TOGETHER, _COUNTED)
        chained = variant is CHAINED
        ids = [ran.saga_id for ran in happy]
        since, works = min(ran.begun for ran in happy), OURS.invocations if chained else 0
        measured = Measured(noted(self._directory, variant.name, ids, since, works))
        if variant.undoing is not None:
            undone = self._runner.run(variant.name, REFUSED, variant.undoing, many=_TOGETHER, at_a_time=_COUNTED)
            for ran in undone:
                self._stage.require(variant.name, ran.saga_id, "COMPENSATED")
            ids, works = [ran.saga_id for ran in undone], (OURS.undoing or 0) if chained else 0
            measured.undone = noted(self._directory, variant.name, ids, since, works).counts
        return measured

    def _one_at_a_time(self) -> None:
        """The variants in turn, saga by saga; after ours, bare botocore with the requests of one of ours."""
        functions = {one.environment[STEP]: one.name for one in self._stage.functions() if one.role == BARE}
        sink = Sink(self._stage)
        replays = [functions[step] for step in STEPS]
        for number in range(_WARM_UP + self._plan.sagas):
            _say(f"one at a time: {number + 1} of {_WARM_UP + self._plan.sagas}")
            for variant in self._plan.variants:
                results = self.results[variant.name]
                [ran] = self._sagas(variant)
                results.cpu.append(ran.cpu)
                results.latency.append(ran.latency)
                results.start_cpu.append(self._runner.others(variant.name, "start")[-1])
            if OURS.name in self.results:
                steps = self.results[OURS.name].noted.steps
                self.bare.append(self._runner.bare(steps, replays[: len(steps)], sink))
        for results in self.results.values():
            for series in (results.cpu, results.latency, results.start_cpu):
                del series[:_WARM_UP]
        del self.bare[:_WARM_UP]

    def _ten_at_a_time(self) -> None:
        """The variants in turn, round by round. The first round starts processes, and does not count."""
        for number in range(1 + self._plan.rounds):
            many = self._plan.sagas if number else 2 * AT_A_TIME
            for variant in self._plan.variants:
                _say(f"{AT_A_TIME} at a time: {variant.title}, round {number} of {self._plan.rounds}")
                emulator = cpu_of(self._emulator)
                driver = time.process_time()
                sagas = self._sagas(variant, many, AT_A_TIME)
                took = max(ran.ended for ran in sagas) - min(ran.begun for ran in sagas)
                if number:
                    results = self.results[variant.name]
                    results.rates.append(len(sagas) / took)
                    results.running.append(sum(mark.ended - mark.begun for ran in sagas for mark in ran.marks) / took)
                    results.emulator_cpu.append((cpu_of(self._emulator) - emulator) / len(sagas))
                    results.driver_cpu.append((time.process_time() - driver) / len(sagas))

    def _cold_starts(self) -> None:
        """The variants in turn, process by process. The first reads files that are not in memory yet, and does not
        count."""
        layout = Layout(self._directory)
        variants = [variant for variant in self._plan.variants if variant is not DURABLE]
        steps = [one for one in self._stage.functions() if one.role == "step"]
        functions = {one.variant: one for one in sorted(steps, key=lambda one: COLD in one.name)}
        queues = {variant.name: Queue(self._stage, functions[variant.name]) for variant in variants}
        for number in range(1 + self._plan.processes):
            _say(f"fresh processes: {number} of {self._plan.processes}")
            for variant in variants:
                for _ in range(2):
                    self._stage.start(variant.name, ORDER)
                events = [queues[variant.name].event() for _ in range(2)]
                self.results[variant.name].cold.append(
                    cold_start(self._stage, functions[variant.name], layout.of(variant.name), events)
                )
            if OURS.name in self.results:
                self.results[OURS.name].floor.append(floor(self._stage, layout.of(OURS.name)))
        for results in self.results.values():
            for series in (results.cold, results.floor):
                del series[:1]

    def _commands(self) -> None:
        """The commands in turn. The first turn may compile what it imports, and does not count."""
        if OURS.name not in self.results:
            return
        saga_id = next(ran.saga_id for variant, ran in self._over if variant.name == OURS.name)
        for number in range(1 + self._plan.processes):
            _say(f"commands: {number} of {self._plan.processes}")
            taken = terminal(self._directory, saga_id)
            if number:
                self.results[OURS.name].terminal.append(taken)

    def _sagas(self, variant: Variant, many: int = 1, at_a_time: int = 1) -> list[Ran]:
        ran = self._runner.run(variant.name, ORDER, variant.invocations, many=many, at_a_time=at_a_time)
        self._over += [(variant, one) for one in ran]
        return ran


def _say(what: str) -> None:
    """Tell how far the run is, on one line of a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{what}")
        sys.stderr.flush()
