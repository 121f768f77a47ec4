"""List prices, and what a million sagas cost by them.

USD in us-east-1, on demand, without free tiers, as on AWS's pricing pages in November 2026: DynamoDB (standard tables),
SQS (standard queues), Lambda (x86 and arm64), API Gateway (REST), Step Functions (Standard), Lambda durable functions.
"""

from __future__ import annotations

from dataclasses import dataclass

# A million of each.
WRITE_UNIT = 0.625
READ_UNIT = 0.125
SQS_REQUEST = 0.40
INVOCATION = 0.20
REST_CALL = 3.50
TRANSITION = 25.00
DURABLE_OPERATION = 8.00

GIGABYTE_SECOND_X86 = 16.6667
"""A million GB-seconds, as below."""
GIGABYTE_SECOND_ARM = 13.3334
DURABLE_GIGABYTE_WRITTEN = 0.25
"""One GB of checkpoints."""

MEMORY = 0.125
"""GB that every function is taken to have."""
DURATION = 0.05
"""Seconds that every step, undo and start is taken to last."""
CHECKPOINT = 1e-6
"""GB that a durable operation is taken to write: a kilobyte."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What one saga takes.

    Args:
        requests: that its functions made, by service. What Lambda itself asks of SQS is not among them.
        write_units: of DynamoDB, indexes included.
        read_units: of DynamoDB.
        messages: that were sent. Each is sent, received and deleted: three requests to pay.
        invocations: of functions that run steps and undos.
        works: steps and undos that they run; as many as there are invocations unless said.
        hidden: requests that set how long a message stays hidden.
    """

    requests: dict[str, int]
    write_units: float
    read_units: float
    messages: int
    invocations: int
    works: int = 0
    hidden: int = 0

    @property
    def usd(self) -> float:
        """A million of them."""
        stored = self.write_units * WRITE_UNIT + self.read_units * READ_UNIT
        asked = 3 * self.messages + self.hidden
        return stored + asked * SQS_REQUEST + lambda_usd(self.invocations, (self.works or self.invocations) * DURATION)


def lambda_usd(invocations: int, seconds: float | None = None) -> float:
    """Return what a million times so many invocations cost.

    Args:
        invocations: how many.
        seconds: that they last together; each its :data:`DURATION` unless said.
    """
    lasting = invocations * DURATION if seconds is None else seconds
    return invocations * INVOCATION + lasting * MEMORY * GIGABYTE_SECOND_X86


def step_functions_usd(works: int, more_states: int = 0) -> float:
    """Return what a million executions of Step Functions Standard cost, from the list.

    Args:
        works: steps and undos, each a state with a function behind it.
        more_states: entered without a function, as the Fail state is.
    """
    return (works + more_states) * TRANSITION + lambda_usd(works)


def durable_usd(works: int) -> float:
    """Return what a million executions of Lambda durable functions cost, from the list: an operation for the execution
    and one a step or undo, all in one invocation."""
    operations = works + 1
    written = operations * 1e6 * CHECKPOINT * DURABLE_GIGABYTE_WRITTEN
    return operations * DURABLE_OPERATION + written + lambda_usd(1, works * DURATION)
