"""Getting ready in Lambda's init phase, in which a function has a whole CPU however little memory it has."""

from __future__ import annotations

import os
from collections.abc import Callable

from sagas.handlers.observability.telemetry import frames, telemetry

_IN_LAMBDA = "AWS_LAMBDA_INITIALIZATION_TYPE"
"""Lambda's own variable; where it is missing, a module was imported for something else."""


def warm(*parts: Callable[[], object]) -> None:
    """Make what the first invocation needs, if this is Lambda's init phase. No request is sent.

    What goes wrong is logged and left to the first invocation: a function that cannot be initialised answers nothing.
    """
    if _IN_LAMBDA not in os.environ:
        return
    try:
        for make in parts:
            make()
    except Exception as error:  # noqa: BLE001 - the first invocation meets it again and reports it
        telemetry().logger.error("not ready after init", error=type(error).__name__, at=frames(error))
