"""Prepares a function in Lambda's init phase, in which it has a whole CPU, whatever its memory size."""

from __future__ import annotations

import os
from collections.abc import Callable

from sagas.handlers.observability.telemetry import frames, telemetry

_IN_LAMBDA = "AWS_LAMBDA_INITIALIZATION_TYPE"
"""Lambda sets this variable. If it is missing, this module was imported elsewhere."""


def warm(*parts: Callable[[], object]) -> None:
    """Create what the first invocation needs, if this is Lambda's init phase. No request is sent.

    Errors are only logged: a function that fails to initialise cannot respond. The first invocation meets them again.
    """
    if _IN_LAMBDA not in os.environ:
        return
    try:
        for make in parts:
            make()
    except Exception as error:  # noqa: BLE001 - the first invocation reports it again
        telemetry().logger.error("preparation failed in the init phase", error=type(error).__name__, at=frames(error))
