"""Outcomes of a write, other than success and general errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sagas.core.states import SagaState
from sagas.errors import SagaError, Unavailable


class Refused(SagaError):
    """A conditional write failed, because the stored state is no longer the one that the caller had read.

    Args:
        message: one line of text.
        items: the existing item by the number of the write whose condition failed, which is 0 outside a transaction.
            ``None`` if there is no item, or the write did not request it.
    """

    def __init__(self, message: str, items: Mapping[int, dict[str, Any] | None]) -> None:
        super().__init__(message)
        self.items = items


class Contended(Unavailable):
    """Another write touched the same item, or capacity ran out: try again soon. Nothing was written."""


class Unwritable(SagaError):
    """DynamoDB never accepts a write of the transaction, for a reason other than a condition. Nothing was written."""


class Changed(SagaError):
    """A stored payload is missing, unreadable, changed, or from another saga."""

    def __init__(self, saga_id: str) -> None:
        super().__init__(f"a payload of saga {saga_id} is missing, was changed, or belongs to another saga")


class Fenced(SagaError):
    """A worker with a higher fencing token is running: stop, keep the message, write nothing more."""


class FlagWon(SagaError):
    """A flag was set between read and write, without a lease: a cancel, or a signal for the current step. ``state`` is
    the saga as it is now."""

    def __init__(self, state: SagaState, what: str) -> None:
        super().__init__(f"a {what} was accepted in the meantime")
        self.state = state
