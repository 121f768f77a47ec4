"""Outcomes of a write, other than success and general errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sagas.core.states import SagaState
from sagas.errors import SagaError, Unavailable


class Refused(SagaError):
    """A conditional write failed, because the stored state is no longer the state that the caller had read.

    Args:
        message: one line of text.
        items: the existing item for each failed condition, by the number of its write in the transaction, or 0 without
            a transaction. ``None`` if there is no item, or the write did not request it.
    """

    def __init__(self, message: str, items: Mapping[int, dict[str, Any] | None]) -> None:
        super().__init__(message)
        self.items = items


class Contended(Unavailable):
    """Another write touched the same item, or capacity ran out. Try again soon. Nothing was written."""


class Unwritable(SagaError):
    """DynamoDB refused a write of a transaction for good, for a reason other than a condition. Nothing was written."""


class Changed(SagaError):
    """A stored payload is missing, is unreadable, was changed, or belongs to another saga."""

    def __init__(self, saga_id: str) -> None:
        super().__init__(f"a payload of saga {saga_id} is missing, was changed, or belongs to another saga")


class Fenced(SagaError):
    """A worker with a higher fencing token has taken over: stop, keep the message, and write nothing more."""


class FlagWon(SagaError):
    """A cancel or a signal for the current step was accepted between read and write. Neither takes a lease. ``state``
    is the saga as it is now."""

    def __init__(self, state: SagaState, what: str) -> None:
        super().__init__(f"a {what} was accepted in the meantime")
        self.state = state
