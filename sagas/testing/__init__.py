"""Tools for tests of your sagas."""

from __future__ import annotations

from sagas.testing.fake_context import FakeContext
from sagas.testing.outcome import Outcome
from sagas.testing.release import assert_fits_release
from sagas.testing.run import run
from sagas.testing.undoing import assert_undoes
from sagas.testing.world import Handle, World, die

__all__ = ["FakeContext", "Handle", "Outcome", "World", "assert_fits_release", "assert_undoes", "die", "run"]
