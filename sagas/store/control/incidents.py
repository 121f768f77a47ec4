"""Incidents: why sagas need an operator, as stored in the index of the attention list."""

from __future__ import annotations

from msgspec import Struct

from sagas.core.rules import attention_code, step_in_trouble
from sagas.core.states import SagaState
from sagas.core.text import iso

_SECONDS = 19
"""The characters of a time up to its seconds. More are not stored, because every byte costs money."""
_LARGEST = 1024
"""Maximum bytes of a sort key."""


class Incident(Struct, frozen=True):
    """Why a saga needs an operator, and since when. It is the sort key of the attention list, so incidents can be
    grouped without a read of the sagas.

    Args:
        at: when it began, in the stored form, without fractions of seconds.
        saga: the saga type's name.
        step: the failed step.
        code: why it needs one.
        error_type: the type of the error; empty if there is none.
    """

    at: str
    saga: str
    step: str
    code: str
    error_type: str

    @classmethod
    def of(cls, state: SagaState) -> Incident:
        """Return the incident of a state."""
        at = f"{iso(state.attention)[:_SECONDS]}Z"
        return cls(at, state.saga, step_in_trouble(state), attention_code(state).value, state.error_type)

    @classmethod
    def parse(cls, key: str) -> Incident:
        """Parse the format of :attr:`key`."""
        return cls(*key.split("#", 4))

    @property
    def key(self) -> str:
        """The stored form. The incident as a sort key, which sorts by time and fits into a key of DynamoDB."""
        text = f"{self.at}#{self.saga}#{self.step}#{self.code}#{self.error_type}"
        return text.encode()[:_LARGEST].decode(errors="ignore")
