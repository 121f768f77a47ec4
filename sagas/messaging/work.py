"""The messages of a service's own work queues, by which its functions hand work to each other.

A message names a task and what the task needs: many sagas to look after or to purge, a stretch to sweep, or one saga
that has something to do which takes no code of its own. Losing one loses nothing: what is to be done stands in the
tables, and is found again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from sagas.core.text import sendable
from sagas.errors import InvalidRequest, Problem
from sagas.formats import FORMAT, check_format

BULK = "bulk"
"""The queue of what may take its time: recovery, purges and sweeps."""
NOW = "now"
"""The queue of what is to happen soon and takes little time: ends of waits. A service has it where some saga waits."""
LOOK = "look"
"""The task of the queue ``now`` that looks after one saga."""
CHILDREN, START = "children", "start"
"""Its tasks that look after parents and children, and that start children."""
MOST_HOPS = 1_000
"""How often in a row a message may lead to another. What gets there is caught in a loop: at the five minutes that a
message may take, so many are three days."""


class Work(msgspec.Struct, frozen=True):
    """A message of a work queue. What is added to it needs a default; what is unknown in it is passed over.

    Args:
        task: what is to be done.
        details: what that needs, as the task has it; JSON only.
        hops: how many messages, each sent by the one before, led to this one.
        format: of the message.
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
    """The details of the tasks ``recover`` and ``purge``: where the index of what is due had some sagas.

    Args:
        sagas: since when each was due, and its id.
        until: epoch seconds from which on the message is void: what is still due then is found again.
    """

    sagas: Annotated[list[tuple[_Time, _Uuid]], Meta(min_length=1, max_length=100)]
    until: float

    def work(self, task: str) -> Work:
        """Return the message that asks for this."""
        return Work(task, msgspec.to_builtins(self))

    @classmethod
    def of(cls, work: Work) -> DueSagas:
        """Read them from a message."""
        return details_of(work, cls)


class OneSaga(msgspec.Struct, frozen=True):
    """The details of the task ``look``: a saga that is to be looked after.

    Args:
        saga_id: which.
        dispatch: the number of the saga's message that this one stands for, and with which it becomes stale; 0 where it
            stands for none.
    """

    saga_id: _Uuid
    dispatch: Annotated[int, Meta(ge=0, le=10**9)] = 0

    def work(self) -> Work:
        """Return the message that asks for this."""
        return Work(LOOK, msgspec.to_builtins(self))

    @classmethod
    def of(cls, work: Work) -> OneSaga:
        """Read them from a message; likewise."""
        return details_of(work, cls)


def details_of(work: Work, kind: type[Details]) -> Details:
    """Return a message's details."""
    try:
        return msgspec.convert(work.details, kind)
    except msgspec.ValidationError as error:
        raise InvalidRequest("the message's details do not fit", [Problem("$.details", str(error))]) from None


class SagasToLookAfter(msgspec.Struct, frozen=True):
    """The details of the task ``children``: parents and children that are to be looked after.

    Args:
        sagas: their ids.
        thorough: whether to see to what an earlier look may have left half done.
    """

    sagas: Annotated[list[_Uuid], Meta(min_length=1, max_length=100)]
    thorough: bool = False

    def work(self) -> Work:
        """Return the message that asks for this."""
        return Work(CHILDREN, msgspec.to_builtins(self))

    @classmethod
    def of(cls, work: Work) -> SagasToLookAfter:
        """Read them from a message; likewise."""
        return details_of(work, cls)


class ChildrenToStart(msgspec.Struct, frozen=True):
    """The details of the task ``start``: children of one step, by their positions.

    Args:
        saga_id: their parent.
        step: its step.
        round: how often the step's failed children had been started anew.
        first: the first position, from 0.
        count: how many.
    """

    saga_id: _Uuid
    step: Annotated[str, Meta(min_length=1, max_length=64)]
    round: Annotated[int, Meta(ge=0, le=10**6)]
    first: Annotated[int, Meta(ge=0, le=10**6)]
    count: Annotated[int, Meta(ge=1, le=100)]

    def work(self) -> Work:
        """Return the message that asks for this."""
        return Work(START, msgspec.to_builtins(self))

    @classmethod
    def of(cls, work: Work) -> ChildrenToStart:
        """Read them from a message; likewise."""
        return details_of(work, cls)


class _Format(msgspec.Struct, frozen=True):
    """What is read first of a message: a newer one may be otherwise unlike ours."""

    format: Any = None


def parse_work(record: Mapping[str, Any]) -> Work:
    """Read the message from a record of an SQS event."""
    text: Any = record.get("body", "")
    try:
        check_format(msgspec.json.decode(text, type=_Format).format, "a message of a work queue")
        work = msgspec.json.decode(text, type=Work)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest("the message is none of a work queue", [Problem("$", str(error))]) from None
    if work.hops > MOST_HOPS:
        problem = Problem("$.hops", f"must be at most {MOST_HOPS}")
        raise InvalidRequest(f"the message is the last of {work.hops} in a row: it is caught in a loop", [problem])
    return work
