"""How tests with parameters are named."""

from __future__ import annotations

import re


def node_id(parameter: object) -> str:
    """What stands for a parameter in the name of a test, which a shell takes without quotes."""
    return re.sub(r"\W+", "-", str(parameter)).strip("-")
