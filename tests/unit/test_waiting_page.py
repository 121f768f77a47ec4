"""The code of ``docs/waiting.md`` runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_PAGE = Path(__file__).parents[2] / "docs" / "waiting.md"


class Mail:
    """Forgets what it is to send."""

    def send_email(self, subject: str) -> None:
        """Forget it."""


class Bank:
    """Has paid."""

    def payment(self, key: str) -> str:
        """Say so."""
        return "paid"


def test_the_code_of_the_page_runs() -> None:
    names: dict[str, Any] = {"__name__": "waiting_page", "Mail": Mail, "Bank": Bank}
    code = "\n".join(re.findall(r"```python\n(.*?)```", _PAGE.read_text(), re.DOTALL))
    exec(compile(code, str(_PAGE), "exec"), names)
    assert names["outcome"].status == "COMPLETED"
