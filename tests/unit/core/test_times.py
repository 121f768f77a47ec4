from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagas.core.text import epoch, iso


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000Z"),
        (1_790_000_000.9994, "2026-09-21T14:13:20.999Z"),
        (1_790_000_000.9996, "2026-09-21T14:13:21.000Z"),
        (253_370_764_800.0, "9999-01-01T00:00:00.000Z"),
        (-0.001, "1969-12-31T23:59:59.999Z"),
    ],
)
def test_a_time(seconds: float, text: str) -> None:
    assert iso(seconds) == text
    assert iso(epoch(text)) == text


@given(st.integers(min_value=0, max_value=8 * 10**12))
def test_there_and_back(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert epoch(iso(seconds)) == seconds
    whole = datetime.fromtimestamp(milliseconds // 1000, UTC)
    assert iso(seconds) == f"{whole:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"
