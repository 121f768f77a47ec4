"""Hostile data, and how much of it: a short cut in the gate, more with ``SAGAS_PROOF=full``."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

FULL = os.environ.get("SAGAS_PROOF") == "full"
"""Whether there is time."""

_SLOW = (
    HealthCheck.too_slow,
    HealthCheck.function_scoped_fixture,
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
)


def examples(gate: int, full: int) -> settings:
    """Return settings: in the gate always the same ``gate`` examples, with ``SAGAS_PROOF=full`` others every time.

    Args:
        gate: examples in the gate.
        full: examples when there is time.
    """
    return settings(
        max_examples=full if FULL else gate,
        derandomize=not FULL,
        database=None,
        deadline=None,
        suppress_health_check=_SLOW,
        print_blob=True,
    )


texts: st.SearchStrategy[str] = st.one_of(
    st.text(max_size=20),
    st.text(st.characters(), max_size=20),  # lone surrogates too
    st.sampled_from(
        ["", " ", "\x00", "\ud800", "\udcff", "é", "\U0001f4a9", "a" * 5_000, "../..", "%00", "NaN", "null"]
    ),
)
"""Text of every kind, what UTF-8 cannot carry included."""

_scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    texts,
    st.sampled_from([10**50, -(10**400), 2**4096, 1e308, -0.0, 1.0, 2.0**53]),
)

anything: st.SearchStrategy[Any] = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)
"""What ``json.loads`` may return, NaN and lone surrogates included."""
