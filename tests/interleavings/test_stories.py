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

CATCHING = [name for name in SHORT if Orders(name) in CATCHERS]
OTHERS = [name for name in SHORT if name not in CATCHING]


@pytest.mark.parametrize("name", CATCHING, ids=node_id)
def test_no_order_breaks_anything(name: str) -> None:
    """``python -m tests.interleavings NAME`` repeats it."""
    found = explore(SHORT[name])
    assert found.complete
    assert not found.violations, f"{name}: {found.wrong}"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_no_order_of_the_other_stories_breaks_anything(part: int) -> None:
    """One by one most of them take less than a second."""
    for name in OTHERS[part::8]:
        test_no_order_breaks_anything(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two workers, undone", "two children"], ids=node_id)
def test_a_process_that_waits_does_what_one_does_that_is_run_anew(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many wait at once, in one process of Python's: what one leaves there would be found by another."""
    waited = explore(SHORT[name])
    monkeypatch.setattr(processes, "WAITING", 0)
    again = explore(SHORT[name])
    assert (waited.moments, waited.moves, waited.ends) == (again.moments, again.moves, again.ends)
    assert waited.histories == again.histories == again.runs
    assert waited.runs < again.runs / 2
