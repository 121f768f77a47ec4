"""How tables answer: late, or in part."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from unittest.mock import patch

from tests.faults.world import CrashWorld

AT_ONCE = ("paused_and_cancelled",)
"""Scenarios that have a pause seen at once, which functions do not promise where reads are behind."""


@contextmanager
def behind(world: CrashWorld) -> Generator[None]:
    """Indexes always are, and items unless asked otherwise: by longer here than from one visit of the supervisor to the
    next, by less than a second mostly on AWS."""
    with patch.object(world.tables, "now", lambda: world.clock.now()), patch.object(world.tables, "lag", 90.0):
        yield


@contextmanager
def scarce(world: CrashWorld) -> Generator[None]:
    """Short pages and half batches: as DynamoDB answers where items are large, or asked for faster than the table has
    capacity."""
    with patch.object(world.tables, "scarce", True):
        yield
