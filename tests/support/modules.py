"""Modules that a test writes and imports."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest


def forgotten(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Have these modules imported as they are now, and no later test find them."""
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))  # so that what is imported leaves with the test
        del sys.modules[name]
    importlib.invalidate_caches()
