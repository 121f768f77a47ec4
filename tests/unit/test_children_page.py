"""The code of ``docs/how-to/children.md`` runs."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

_PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "children.md"


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", _PAGE.read_text(), re.DOTALL))
    (tmp_path / "children_page.py").write_text(code)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    page: Any = importlib.import_module("children_page")
    assert page.outcome.status == "COMPLETED"
