"""The figures of a run: as a table for people, as JSON for machines."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from statistics import median
from typing import Any

from benchmarks.durable import INSTALLED
from benchmarks.experiment import Measured, Plan
from benchmarks.prices import Counts, durable_usd, lambda_usd, step_functions_usd
from benchmarks.variants import AT_A_TIME, DURABLE, NAIVE, OURS, VARIANTS, Variant

Figures = dict[str, float]
"""Of a variant, by the keys of :data:`ROWS`. What it has not is left out."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table.

    Args:
        key: of the figure.
        label: what it is.
        digits: after the point.
        at_most: what the ratio to naive should be, or the figure where naive has none; not said if it is 0.
    """

    key: str
    label: str
    digits: int = 0
    at_most: float = 0


ROWS = (
    Row("cpu", "CPU of the step functions, ms a saga", 1, 0.72),
    Row("over_bare", "... over bare botocore doing the same requests", 2, 1.25),
    Row("latency", "latency p50, one at a time, ms"),
    Row("rate", f"sagas a second, {AT_A_TIME} at a time", 1),
    Row("running", "... invocations that run", 1),
    Row("emulator_cpu", "... CPU of the emulator, ms a saga", 1),
    Row("driver_cpu", "... CPU of the driver, ms a saga", 1),
    Row("dynamodb", "requests to DynamoDB, start included"),
    Row("sqs", "requests to SQS, start included"),
    Row("lambda", "requests to Lambda, start included"),
    Row("write_units", "write units, start included"),
    Row("read_units", "read units of the steps"),
    Row("usd", "USD a million, start counted", 2),
    Row("usd_undone", "USD a million, undone by three undos", 2),
    Row("usd_post", "USD a million, and the function behind POST", 2),
    Row("start_cpu", "CPU of the function behind POST, ms a start", 1, 2.0),
    Row("start_requests", "requests a start"),
    Row("start_reads", "read units a start"),
    Row("cold", "cold: CPU of import and two invocations, ms", 0, 1.0),
    Row("loading", "... import", 0, 1.05),
    Row("own", "... of it our own modules, over the floor", 0, 70),
    Row("first", "... the first invocation", 1),
    Row("second", "... the second", 1),
    Row("help", "CPU of `sagas --help` over bare Python, ms", 0, 150),
    Row("completion", "... of completion", 0, 150),
    Row("list", "... of `sagas list`, local stack", 0, 350),
    Row("show", "... of `sagas show`, local stack", 0, 350),
    Row("import_sagas", "... of `import sagas`", 0, 40),
)


def figures_of(variant: Variant, measured: Measured, bare: Sequence[float]) -> Figures:
    """Return the figures of a variant.

    Args:
        variant: which.
        measured: of it.
        bare: processor time of bare botocore for the requests of ours, saga by saga.
    """
    counts = measured.noted.counts
    figures: Figures = {
        "cpu": 1000 * median(measured.cpu),
        "latency": 1000 * median(measured.latency),
        "rate": median(measured.rates),
        "running": median(measured.running),
        "emulator_cpu": 1000 * median(measured.emulator_cpu),
        "driver_cpu": 1000 * median(measured.driver_cpu),
        "start_cpu": 1000 * median(measured.start_cpu),
        "start_requests": len(measured.noted.start),
        "lambda": counts.requests.get("lambda", 0),
    }
    if variant.name == OURS.name:
        figures["over_bare"] = median(measured.cpu) / median(bare)
    if variant is not DURABLE:
        figures |= {service: counts.requests.get(service, 0) for service in ("dynamodb", "sqs")}
        reads = sum(request.read_units for request in measured.noted.start)
        figures |= {"write_units": counts.write_units, "read_units": counts.read_units - reads, "start_reads": reads}
        figures |= {"usd": counts.usd, "usd_post": counts.usd + lambda_usd(1)}
    if measured.undone is not None:
        figures["usd_undone"] = measured.undone.usd
    if measured.cold:
        for key in ("loading", "first", "second"):
            figures[key] = 1000 * median(getattr(cold, key) for cold in measured.cold)
        figures["cold"] = 1000 * median(cold.loading + cold.first + cold.second for cold in measured.cold)
    if measured.floor:
        figures["own"] = figures["loading"] - 1000 * median(measured.floor)
    for key in measured.terminal[0] if measured.terminal else ():
        figures[key] = 1000 * median(taken[key] for taken in measured.terminal)
    return figures


def listed() -> dict[str, tuple[float, float]]:
    """Return what others cost by their price lists: a saga that completes, and one that three undos undo."""
    happy, undone = OURS.invocations, OURS.undoing or 0
    return {
        "Step Functions Standard": (step_functions_usd(happy), step_functions_usd(undone, more_states=1)),
        "Lambda durable functions": (durable_usd(happy), durable_usd(undone)),
    }


def machine() -> str:
    """Return what this runs on, in one line."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {platform.system()} {platform.machine()}, {os.cpu_count()} CPUs "
        f"(load {load:.1f}), Python {platform.python_version()}, botocore {version('botocore')}, "
        f"ministack {version('ministack')}"
    )


def table(figures: Mapping[str, Figures], variants: Sequence[Variant] = VARIANTS) -> str:
    """Return the table, in Markdown."""
    head = ["", *(variant.title for variant in variants), "ours / naive", "at most"]
    rows = [
        [
            row.label,
            *(_cell(figures, variant, row) for variant in variants),
            _ratio(figures, row),
            f"{row.at_most:g}" if row.at_most else "",
        ]
        for row in ROWS
    ]
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in [head, *rows]]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(figures: Mapping[str, Figures], variant: Variant, row: Row) -> str:
    if variant.name not in figures:
        return "not installed" if variant is DURABLE and not INSTALLED else "not run"
    figure = figures[variant.name].get(row.key)
    return "" if figure is None else f"{figure:.{row.digits}f}"


def _ratio(figures: Mapping[str, Figures], row: Row) -> str:
    ours, naive = (figures.get(variant.name, {}).get(row.key) for variant in (OURS, NAIVE))
    return f"{ours / naive:.2f}" if ours and naive else ""


def text(figures: Mapping[str, Figures], variants: Sequence[Variant] = VARIANTS) -> str:
    """Return all that is printed."""
    prices = [
        f"- {name}: {happy:.2f}; undone by three undos: {undone:.2f}" for name, (happy, undone) in listed().items()
    ]
    return "\n".join(
        [
            machine(),
            "",
            table(figures, variants),
            "",
            "USD a million from the price lists, computed and not measured:",
            *prices,
            "",
            "benchmarks/README.md says what the rows are and how they are measured.",
        ]
    )


def document(
    plan: Plan, results: Mapping[str, Measured], figures: Mapping[str, Figures], bare: Sequence[float]
) -> dict[str, Any]:
    """Return the run as JSON builtins: figures, and the series they come from."""
    series = {
        name: {
            "cpu": measured.cpu,
            "start_cpu": measured.start_cpu,
            "latency": measured.latency,
            "rates": measured.rates,
            "running": measured.running,
            "emulator_cpu": measured.emulator_cpu,
            "driver_cpu": measured.driver_cpu,
            "cold": [asdict(cold) for cold in measured.cold],
            "floor": measured.floor,
            "terminal": measured.terminal,
            "counts": asdict(measured.noted.counts),
            "undone": _counts(measured.undone),
        }
        for name, measured in results.items()
    }
    return {
        "machine": machine(),
        "sagas": plan.sagas,
        "rounds": plan.rounds,
        "figures": dict(figures),
        "listed": listed(),
        "series": series,
        "bare": list(bare),
    }


def _counts(counts: Counts | None) -> dict[str, Any] | None:
    return None if counts is None else asdict(counts)
