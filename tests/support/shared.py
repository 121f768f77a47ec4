"""What the processes of a test run share: one folder, which ends with the run."""

from __future__ import annotations

import os
from pathlib import Path

RUN = "SAGAS_TESTS_RUN"
"""The variable that names the folder. ``tests/conftest.py`` makes it, in the process that others are started by."""


def shared(name: str) -> Path:
    """Return a folder of that name in the folder of the run."""
    folder = Path(os.environ[RUN], name)
    folder.mkdir(exist_ok=True)
    return folder
