"""Where the soaked functions begin: the product's own handlers, each invocation told apart for the faults.

All is imported before the first invocation, whose time is short.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache

from tests.soak.faults import Injector, Settings

__all__ = ["invocation"]


@lru_cache(maxsize=1)
def _injector() -> Injector:
    injector = Injector(Settings.parse(os.environ["SOAK_FAULTS"]))
    injector.install()
    return injector


@contextmanager
def invocation(where: str) -> Generator[None]:
    """Disturb what happens inside. ``where``: what tells this invocation from others, the same in every run."""
    with _injector().invocation(where):
        yield
    # The emulator waits for what a function writes, 50 ms long if it is nothing.
    sys.stderr.write(".\n")
