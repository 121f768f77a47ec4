"""What a call that was refused, or failed, tells an operator."""

from __future__ import annotations

from collections.abc import Sequence

from sagas.errors import (
    Ambiguous,
    Conflict,
    InvalidRequest,
    NotFound,
    Problem,
    SagaError,
    TooLarge,
    Unavailable,
)

_STATUS: tuple[tuple[type[SagaError], int], ...] = (
    (NotFound, 404),
    (Conflict, 409),
    (InvalidRequest, 422),
    (TooLarge, 413),
    (Ambiguous, 502),
    (Unavailable, 503),
)


def told_of(error: SagaError) -> tuple[int, str, Sequence[Problem]]:
    """Return the status to answer with, what is the matter, and what is wrong where."""
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 502)
    text = str(error)
    if isinstance(error, Ambiguous):
        text = f"{error}. It may have happened: look before you do it again."
    elif isinstance(error, Unavailable):
        text = f"{error}; try again in {error.retry_after:.0f} s"
    return status, text, error.problems if isinstance(error, InvalidRequest) else ()
