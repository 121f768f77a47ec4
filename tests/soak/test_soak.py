"""A cut of the soak: seventy sagas, disturbed at random; ``python -m tests.soak`` takes thousands."""

from __future__ import annotations

import pytest

from tests.soak.run import Figures, Settings, soak

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900), pytest.mark.slow]

_CUT = Settings(sagas=70, calm=12, seed=2, seconds=300)


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Figures:
    return soak(tmp_path_factory.mktemp("soak"), _CUT)


def test_whatever_strikes_all_end_and_the_books_balance(figures: Figures) -> None:
    assert not figures.found.violations, str(figures)
    assert figures.started == _CUT.sagas, str(figures)


def test_enough_was_disturbed_to_tell(figures: Figures) -> None:
    assert sum(figures.faults.values()) >= 40, str(figures)
    assert len(figures.faults) >= 6, str(figures)
    assert sum(figures.found.calm_ends.values()) == _CUT.calm, str(figures)
    assert len(figures.found.ends) >= 5, str(figures)
    assert all(figures.found.actions[name] for name in ("SignalReceived", "WaitTimedOut", "ChildrenEnded")), str(
        figures
    )
