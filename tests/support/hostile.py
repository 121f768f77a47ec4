"""Hostile data. ``SAGAS_PROOF=full``: there is time for much of it."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import strategies as st

FULL = os.environ.get("SAGAS_PROOF") == "full"
"""Whether there is time."""

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
