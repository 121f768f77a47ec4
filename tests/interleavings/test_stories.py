"""Every order in which the requests of a few processes can land, over the real code: of the short stories. ``make
proof`` has the larger ones."""

from __future__ import annotations

import pytest

from tests.faults.catching import CATCHERS
from tests.faults.rules import Orders
from tests.interleavings import processes
from tests.interleavings.explorer import explore
from tests.interleavings.stories import SHORT
from tests.support.ids import node_id


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if Orders(name) in CATCHERS else pytest.mark.slow) for name in SHORT],
    ids=node_id,
)
def test_no_order_breaks_anything(name: str) -> None:
    """``python -m tests.interleavings NAME`` repeats it."""
    found = explore(SHORT[name])
    assert found.complete
    assert not found.violations, f"{name}: {found.wrong}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two workers, undone", "two children"], ids=node_id)
def test_a_process_that_waits_does_what_one_does_that_is_run_anew(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many wait at once, in one process of Python's: what one leaves there would be found by another."""
    waited = explore(SHORT[name])
    monkeypatch.setattr(processes, "WAITING", 0)
    anew = explore(SHORT[name])
    assert (waited.moments, waited.moves, waited.ends) == (anew.moments, anew.moves, anew.ends)
    assert waited.histories == anew.histories == anew.runs
    assert waited.runs < anew.runs / 2
