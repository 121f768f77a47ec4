"""What sagas need an operator for, as the index of the attention list has it."""

from __future__ import annotations

from dataclasses import dataclass

from sagas.core.rules import step_in_trouble
from sagas.core.states import SagaState
from sagas.core.text import iso

_SECONDS = 19
"""Characters of a time up to its seconds: every byte of an item is paid for."""
_LARGEST = 1024
"""Bytes of a sort key."""


@dataclass(frozen=True, slots=True)
class Incident:
    """What a saga needs an operator for, and since when: the sort key of the attention list, from which it can be
    grouped without a look at any saga.

    Args:
        at: when it began, to the second, as it is stored.
        saga: the saga type's name.
        step: which is in trouble.
        error_type: of the error; empty where there is none.
    """

    at: str
    saga: str
    step: str
    error_type: str

    @classmethod
    def of(cls, state: SagaState) -> Incident:
        """Return what a state says."""
        return cls(f"{iso(state.attention)[:_SECONDS]}Z", state.saga, step_in_trouble(state), state.error_type)

    @classmethod
    def parse(cls, key: str) -> Incident:
        """Read what :attr:`key` wrote."""
        return cls(*key.split("#", 3))

    @property
    def key(self) -> str:
        """How it is stored: what sorts by time, within what DynamoDB takes as a key."""
        text = f"{self.at}#{self.saga}#{self.step}#{self.error_type}"
        return text.encode()[:_LARGEST].decode(errors="ignore")
