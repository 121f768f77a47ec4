"""``python -m benchmarks``: measures this library next to other designs, and prints a table for each isolation."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.durable import INSTALLED
from benchmarks.emulator import Emulator
from benchmarks.experiment import Experiment, Plan
from benchmarks.report import document, figures_of, text
from benchmarks.stage import Stage
from benchmarks.variables import ISOLATION
from benchmarks.variants import CHAINED, DURABLE, OURS, VARIANTS, Variant

_OURS = {"step": OURS, "saga": CHAINED}
"""This library, by the isolation of its steps."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--sagas", type=int, default=40, help="of each variant, one at a time and in each round")
    parser.add_argument("--rounds", type=int, default=3, help="of ten at a time")
    parser.add_argument("--processes", type=int, default=8, help="fresh ones of each variant, for cold starts")
    parser.add_argument("--only", nargs="+", choices=[variant.name for variant in VARIANTS], help="these variants")
    parser.add_argument("--isolation", choices=_OURS, help="a function a step, or steps chained in one; else both")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    options = parser.parse_args()
    isolations = [options.isolation] if options.isolation else list(_OURS)
    documents = {isolation: _measured(options, isolation) for isolation in isolations}
    if options.json:
        options.json.write_text(json.dumps(documents, indent=2) + "\n")


def _measured(options: argparse.Namespace, isolation: str) -> dict[str, Any]:
    """Run once, with one isolation of our steps; print the table, and return all figures."""
    os.environ[ISOLATION] = isolation  # the app reads it, in a process of its own
    ours: Variant = _OURS[isolation]
    variants = [ours if variant is OURS else variant for variant in VARIANTS]
    chosen = [variant for variant in variants if not options.only or variant.name in options.only]
    plan = Plan(
        [variant for variant in chosen if variant is not DURABLE or INSTALLED],
        options.sagas,
        options.rounds,
        options.processes,
    )
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        directory = Path(name)
        with Emulator(directory) as emulator:
            experiment = Experiment(
                plan,
                Stage(directory, emulator.endpoint_url, durable=DURABLE in plan.variants),
                directory,
                emulator.process,
            )
            experiment.run()
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    results = experiment.results
    figures = {variant.name: figures_of(variant, results[variant.name], experiment.bare) for variant in plan.variants}
    print(text(figures, variants), flush=True)
    return document(plan, results, figures, experiment.bare)


if __name__ == "__main__":
    main()
