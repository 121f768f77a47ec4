"""The probe's function: says when it starts, works for as long as the message says, says when it is done."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

__all__ = ["handler"]


def handler(event: dict[str, Any], _context: object) -> None:
    """Write ``started`` and, after ``seconds``, ``finished`` into the directory that the message names."""
    for record in event["Records"]:
        work = json.loads(record["body"])
        directory = Path(work["directory"])
        (directory / "environment").write_text(json.dumps(dict(os.environ)))
        (directory / "started").write_text(str(os.getpid()))
        threading.Event().wait(work["seconds"])
        (directory / "finished").touch()
