"""Tools for tests of your sagas."""

from __future__ import annotations

from sagas.testing.fake_context import FakeContext
from sagas.testing.release import assert_fits_release
from sagas.testing.run import Outcome, run

__all__ = ["FakeContext", "Outcome", "assert_fits_release", "run"]
