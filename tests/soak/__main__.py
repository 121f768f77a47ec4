"""``python -m tests.soak``: a long run, and its figures."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.soak.run import Settings, soak


def _settings() -> Settings:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="Soak sagas on the local stack.")
    parser.add_argument("--sagas", type=int, default=2_000, help="how many at most")
    parser.add_argument("--calm", type=int, default=100, help="how many are run before them that nothing disturbs")
    parser.add_argument("--seed", type=int, default=1, help="decides requests, moods, deeds and faults")
    parser.add_argument("--minutes", type=float, default=8.0, help="after which no more are started")
    parser.add_argument("--rate", type=float, default=Settings.rate, help="the share of requests that are disturbed")
    parser.add_argument("--window", type=int, default=Settings.window, help="how many are under way at most")
    parser.add_argument("--isolation", choices=("step", "saga"), default="step", help="a function a step, or a saga")
    given = parser.parse_args()
    seconds = given.minutes * 60
    return Settings(given.sagas, given.calm, given.seed, seconds, given.rate, given.window, given.isolation)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="soak-") as directory:
        figures = soak(Path(directory), _settings())
    print(figures, flush=True)
    sys.exit(1 if figures.found.violations else 0)
