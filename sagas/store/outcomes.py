"""What may become of a write, besides success and the errors that everything has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sagas.core.states import SagaState
from sagas.errors import SagaError, Unavailable


class Refused(SagaError):
    """A conditional write met another state than the caller had seen.

    Args:
        message: one line for people.
        items: by the number of the write whose condition failed, which is 0 outside a transaction: the item that it
            met. ``None`` where there is no item, or the write did not ask for it.
    """

    def __init__(self, message: str, items: Mapping[int, dict[str, Any] | None]) -> None:
        super().__init__(message)
        self.items = items


class Contended(Unavailable):
    """Another write was at the same item at this moment, or capacity ran out: try again soon. Nothing was written."""


class Unwritable(SagaError):
    """DynamoDB never accepts a write of the transaction, for another reason than a condition. Nothing was written."""


class Changed(SagaError):
    """What is stored is gone or may not be read, is not what was written, or is of another saga."""

    def __init__(self, saga_id: str) -> None:
        super().__init__(f"a payload of saga {saga_id} is gone, was changed, or is of another saga")


class Fenced(SagaError):
    """A worker with a higher fencing token is at work: stop, keep the message, write nothing more."""


class FlagWon(SagaError):
    """A flag was set between reading and writing, by someone who needs no lease: a cancel, or a signal for the step at
    hand. ``state`` is the saga as it is now."""

    def __init__(self, state: SagaState, what: str) -> None:
        super().__init__(f"a {what} was accepted meanwhile")
        self.state = state
