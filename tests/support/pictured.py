"""What the pictures of the console in the documentation were made of."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from sagas.console.desk import LABELS

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "images"
MADE_OF = "console.sha256"
"""Beside the pictures, what :func:`made_of` returned when they were made."""
_CONSOLE = ROOT / "sagas" / "console"
_SHOWN = ("base", "macros", "attention", "saga", "sagas")


def made_of() -> str:
    """Return the digest of the templates, style, drawings and buttons that are seen in the pictures."""
    files = [_CONSOLE / "templates" / f"{name}.html" for name in _SHOWN]
    files += [_CONSOLE / "static" / "console.css", *sorted((_CONSOLE / "drawing").glob("*.py"))]
    return sha256(b"".join(file.read_bytes() for file in files) + repr(sorted(LABELS.items())).encode()).hexdigest()
