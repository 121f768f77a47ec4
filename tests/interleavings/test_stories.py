"""Every order in which the requests of a few processes can land, over the real code."""

from __future__ import annotations

import pytest

from tests.interleavings import processes
from tests.interleavings.explorer import explore
from tests.interleavings.family_stories import FAMILIES
from tests.interleavings.stories import SHORT

_GATE = SHORT | FAMILIES


@pytest.mark.parametrize("name", _GATE)
def test_no_order_breaks_anything(name: str) -> None:
    found = explore(_GATE[name])
    assert found.complete
    assert not found.violations, "\n".join(str(violation) for violation in found.violations[:3])


@pytest.mark.parametrize("name", ["two workers, undone", "two children, one fails"])
def test_a_process_that_waits_does_what_one_does_that_is_run_anew(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many wait at once, in one process of Python's: what one leaves there would be found by another."""
    waited = explore(_GATE[name])
    monkeypatch.setattr(processes, "WAITING", 0)
    anew = explore(_GATE[name])
    assert (waited.moments, waited.moves, waited.ends) == (anew.moments, anew.moves, anew.ends)
    assert waited.histories == anew.histories == anew.runs
    assert waited.runs < anew.runs / 2
