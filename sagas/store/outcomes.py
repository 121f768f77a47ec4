"""What may become of a write, besides success and the errors that everything has."""

from __future__ import annotations

from sagas.core.states import SagaState
from sagas.errors import SagaError


class Refused(SagaError):
    """A conditional write met another state than the caller had seen."""


class Fenced(SagaError):
    """A worker with a higher fencing token is at work: stop, keep the message, write nothing more."""


class CancelWon(SagaError):
    """A cancel was accepted between reading and writing; ``state`` is the saga as it is now."""

    def __init__(self, state: SagaState) -> None:
        super().__init__("a cancel was accepted meanwhile")
        self.state = state
