"""The messages of a service's own work queues. With them, functions pass work to each other.

A message names a task and its details: sagas to recover or purge, a range to sweep, or a saga that can advance without
user code. A lost message does no harm, because the tables record the work and the supervisor finds it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from sagas.core.text import sendable
from sagas.errors import FORMAT, InvalidRequest, Problem, check_format

BULK = "bulk"
"""The queue for work that is not urgent: recovery, purges and sweeps."""
NOW = "now"
"""The queue for short, urgent work, such as ends of waits. A service has it if any of its sagas waits."""
LOOK = "look"
"""The task of the queue ``now`` that advances one saga."""
CHILDREN = "children"
"""The task of the queue ``now`` that advances parents and children."""
START = "start"
"""The task of the same queue that starts children."""
MOST_HOPS = 1_000
"""Maximum messages in a chain, in which each message sends the next. A longer chain is a loop: at up to five minutes
per message, this many take three days."""


class Work(msgspec.Struct, frozen=True):
    """A message of a work queue. New fields need a default; unknown fields are ignored.

    Args:
        task: the task's name.
        details: the task's parameters, as JSON builtins.
        hops: how many messages preceded this one in a chain.
        format: the version of the message format.
    """

    task: Annotated[str, Meta(min_length=1, max_length=64)]
    details: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    hops: Annotated[int, Meta(ge=0, le=10**9)] = 0
    format: Annotated[int, Meta(ge=1)] = FORMAT

    @property
    def body(self) -> str:
        """The message's body, as JSON."""
        return sendable(msgspec.json.encode(self).decode())


Details = TypeVar("Details", bound=msgspec.Struct)
_Time = Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")]
_Uuid = Annotated[str, Meta(pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")]


class DueSagas(msgspec.Struct, frozen=True):
    """The details of the tasks ``recover`` and ``purge``: sagas from the index of due work.

    Args:
        sagas: the time since which each saga is due, and its id.
        until: epoch seconds at which the message expires. Sagas that are then still due are found again.
    """

    sagas: Annotated[list[tuple[_Time, _Uuid]], Meta(min_length=1, max_length=100)]
    until: float

    def work(self, task: str) -> Work:
        """Return the message with these details."""
        return Work(task, msgspec.to_builtins(self))

    @classmethod
    def of(cls, work: Work) -> DueSagas:
        """Read the details from a message."""
        return details_of(work, cls)


class OneSaga(msgspec.Struct, frozen=True):
    """The details of the task ``look``: a saga to advance.

    Args:
        saga_id: the saga's id.
        dispatch: the number of the saga's message that this message replaces, and with which it becomes stale; 0 if
            there is none.
    """

    saga_id: _Uuid
    dispatch: Annotated[int, Meta(ge=0, le=10**9)] = 0

    def work(self) -> Work:
        """Return the message with these details."""
        return Work(LOOK, msgspec.to_builtins(self))

    @classmethod
    def of(cls, work: Work) -> OneSaga:
        """Read the details from a message."""
        return details_of(work, cls)


def details_of(work: Work, kind: type[Details]) -> Details:
    """Return a message's details."""
    try:
        return msgspec.convert(work.details, kind)
    except msgspec.ValidationError as error:
        raise InvalidRequest("the message's details do not fit", [Problem("$.details", str(error))]) from None


class SagasToAdvance(msgspec.Struct, frozen=True):
    """The details of the task ``children``: parents and children to advance.

    Args:
        sagas: their ids.
        thorough: whether to also complete work that an earlier task may not have finished.
    """

    sagas: Annotated[list[_Uuid], Meta(min_length=1, max_length=100)]
    thorough: bool = False

    def work(self) -> Work:
        """Return the message with these details."""
        return Work(CHILDREN, msgspec.to_builtins(self))

    @classmethod
    def of(cls, work: Work) -> SagasToAdvance:
        """Read the details from a message."""
        return details_of(work, cls)


class ChildrenToStart(msgspec.Struct, frozen=True):
    """The details of the task ``start``: children of one step, named by their positions.

    Args:
        saga_id: the parent's id.
        step: the parent's step.
        round: how often the step's failed children had been restarted before.
        first: the first position, from 0.
        count: how many.
    """

    saga_id: _Uuid
    step: Annotated[str, Meta(min_length=1, max_length=64)]
    round: Annotated[int, Meta(ge=0, le=10**6)]
    first: Annotated[int, Meta(ge=0, le=10**6)]
    count: Annotated[int, Meta(ge=1, le=100)]

    def work(self) -> Work:
        """Return the message with these details."""
        return Work(START, msgspec.to_builtins(self))

    @classmethod
    def of(cls, work: Work) -> ChildrenToStart:
        """Read the details from a message."""
        return details_of(work, cls)


class SweepRound(msgspec.Struct, frozen=True):
    """The details of the task ``sweep``: a round over the objects of a saga type.

    Args:
        saga: the saga type.
        round: the round's number, from 1.
    """

    saga: Annotated[str, Meta(min_length=1, max_length=64)]
    round: Annotated[int, Meta(ge=1, le=2**53)]

    def work(self) -> Work:
        """Return the message with these details."""
        return Work("sweep", msgspec.to_builtins(self))

    @classmethod
    def of(cls, work: Work) -> SweepRound:
        """Read the details from a message."""
        return details_of(work, cls)


class _Format(msgspec.Struct, frozen=True):
    """The part of a message that is read first, because all other fields may differ in a newer format."""

    format: Any = None


def parse_work(record: Mapping[str, Any]) -> Work:
    """Read the message from a record of an SQS event."""
    text: Any = record.get("body", "")
    try:
        check_format(msgspec.json.decode(text, type=_Format).format, "a message of a work queue")
        work = msgspec.json.decode(text, type=Work)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest("the message does not belong to a work queue", [Problem("$", str(error))]) from None
    if work.hops > MOST_HOPS:
        problem = Problem("$.hops", f"must be at most {MOST_HOPS}")
        raise InvalidRequest(f"the message is the last in a chain of {work.hops}: it is in a loop", [problem])
    return work
