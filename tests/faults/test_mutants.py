"""Each rule, switched off, is missed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.mutants import EVERY_RULE, MUTANTS, missed
from tests.faults.world import CrashWorld, world


@pytest.fixture(scope="module")
def made() -> Iterator[CrashWorld]:
    with world() as one:
        yield one


@pytest.mark.parametrize("name", MUTANTS)
def test_a_rule_that_is_switched_off_is_missed(made: CrashWorld, name: str) -> None:
    assert missed(made, name).violations, f"nothing tells that this is off: {EVERY_RULE[name].text}"
