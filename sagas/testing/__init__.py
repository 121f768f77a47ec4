"""What authors use to test their sagas."""

from __future__ import annotations

from sagas.testing.fake_context import FakeContext

__all__ = ["FakeContext"]
