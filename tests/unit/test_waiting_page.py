"""The code of ``docs/how-to/waiting.md`` runs."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

_PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "waiting.md"


def payment_of(key: str) -> str:
    """Say that it was paid."""
    return "paid"


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", _PAGE.read_text(), re.DOTALL))
    head, _, rest = code.partition("\n\n")
    imports = f"from {__name__} import payment_of\n"
    (tmp_path / "waiting_page.py").write_text(f"{head}\n{imports}\n{rest}")
    monkeypatch.setenv("ASK_TOPIC", "a-topic")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    page: Any = importlib.import_module("waiting_page")
    assert page.outcome.status == "COMPLETED"
