"""The saga as a Lambda durable function: one function, whose steps are checkpointed."""

from __future__ import annotations

from importlib.util import find_spec

INSTALLED = find_spec("aws_durable_execution_sdk_python") is not None
"""Whether the SDK is there. It is no dependency of this project."""
