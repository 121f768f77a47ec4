"""Every order in which the requests of a few processes can land, over the real code."""

from __future__ import annotations

import pytest

from tests.interleavings.explorer import explore
from tests.interleavings.family_stories import FAMILIES
from tests.interleavings.stories import SHORT

_GATE = SHORT | FAMILIES


@pytest.mark.parametrize("name", _GATE)
def test_no_order_breaks_anything(name: str) -> None:
    found = explore(_GATE[name])
    assert found.complete
    assert not found.violations, "\n".join(str(violation) for violation in found.violations[:3])
