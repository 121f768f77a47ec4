"""The durable function."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from benchmarks.variants import STEPS

SDK: Any = import_module("aws_durable_execution_sdk_python")


def step(what: str, number: str) -> Callable[[Any], dict[str, str]]:
    """Return what a step does."""
    return lambda _: {"what": what, "number": number}


@SDK.durable_execution
def handler(request: dict[str, Any], context: Any) -> dict[str, Any]:
    """Run the five steps."""
    number = request["request"]["order_id"]
    for name in STEPS:
        context.step(step(name, number), name=name)
    return {"number": number}
