"""All exceptions of the library, in one tree.

    SagaError
    ├── DefinitionError           the saga class is wrong; raised when the class is created
    ├── PermanentError            raise it in a step: retrying is pointless, the step is exhausted at once
    │   ├── Rejected              raise it in a step: the business said no; undo at once
    │   ├── BreakerOpen           a step did not run because its circuit breaker is open and does not wait
    │   ├── ChildrenFailed        the error of a step with more failed children than it tolerates
    │   └── WrongResult           a step or undo returned a value that it does not declare, or that is too large
    ├── TypeChanged               a stored request or result does not fit the deployed code; an operator must act
    ├── Cancelled                 raised by ``ctx.raise_if_cancelled()``
    ├── NotYet                    raise it in a step or undo to be called again later, when it may be ready
    ├── TimedOut                  an attempt ended after its deadline, so its result is refused
    ├── InvalidRequest            the caller's input is not valid; ``problems`` lists the paths
    ├── NotFound                  the saga type or saga does not exist
    ├── Conflict                  the saga's state does not allow the call
    │   └── StateChanged          the saga has left the state that the call names; ``saga`` is the saga as it is now
    ├── TooLarge                  a payload is larger than can be stored
    └── Unavailable               a store or queue is out of reach, or the type is paused: try later
        ├── Ambiguous             the request may or may not have taken effect
        ├── Denied                AWS refuses the request until a right, a key or a table changes
        ├── WrongTables           the tables belong to another service, so this one does nothing with them
        └── NewerFormat           a newer version of the library wrote the data; the saga waits for that version

Each branch corresponds to what the caller should do. ``sagas.aws`` translates errors of boto3 and botocore to errors of
this tree, so they appear nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast


class SagaError(Exception):
    """The base class of this library's errors."""


class DefinitionError(SagaError):
    """A saga class has a mistake in its declaration. Raised when the class is created, never later."""


class PermanentError(SagaError):
    """Raised by a step: another attempt would fail the same way, so there is none."""


class Rejected(PermanentError):
    """Raised by a step for a business reason, such as a declined card. The saga is undone at once, whatever the step's
    ``on_exhausted`` is. After its pivot, it waits for an operator. The circuit breaker and auto-disable do not count
    this error."""


class BreakerOpen(PermanentError):
    """A step with ``CircuitBreaker(when_open="fail")`` did not run because its circuit breaker is open."""


class ChildrenFailed(PermanentError):
    """The error of a step with more failed children than it tolerates. The error is not raised, but recorded in the
    saga's journal. Another attempt would fail the same way, because the ids of the children are fixed."""


_YEAR = 365 * 86_400.0


class NotYet(SagaError):
    """Raised by a step or its undo to be called again later, because something that it needs is not ready. This is not
    a failure and uses up no attempt. The step's ``within`` limits how long the step can do so, from the first
    time. Time in which it could not run, such as a pause, does not count.

    A subclass that does not call ``super().__init__`` is called again after a minute.

    Args:
        after: seconds until the next call, at least 1; from the hundredth call on, at least 60.
        message: the reason for waiting, which is shown with the saga.
        steady: whether ``after`` applies unchanged even from the hundredth call on.

    Raises:
        ValueError: ``after`` is less than 1 or not a number.
    """

    after: float = 60.0
    message: str = ""
    steady: bool = False

    def __init__(self, after: float, message: str = "", *, steady: bool = False) -> None:
        if isinstance(after, bool) or not isinstance(after, int | float) or not 1 <= after < math.inf:  # pyright: ignore[reportUnnecessaryIsInstance] -- errors of steps have unchecked arguments
            raise ValueError(f"NotYet: after must be a number of seconds, at least 1, not {after!r}")
        super().__init__(message)
        # ``within`` cannot be longer than this, and the stored number must have a limit.
        self.after = float(min(after, _YEAR))
        self.message = str(message)
        self.steady = bool(steady)


class WrongResult(PermanentError):
    """A step returned a value that does not have its declared type or is too large to store. Another attempt would do
    the same.

    The step's code has run and may have taken effect. With ``undo_when="started"``, the step is undone. Otherwise it is
    listed as in doubt.

    An attempt also fails with this error if its class's ``around`` swallows an exception.

    An undo fails with this error if it declares ``None`` but returns a value, or if it returns code that has not run,
    such as a generator or a list of coroutines.
    """


class TypeChanged(SagaError):
    """A stored request or result does not fit the deployed code: it has another type, the saga does not have it, or it
    is not the value that was written. No code has run with it.

    The saga waits for an operator and uses up no attempt. After you deploy code that fits, retry the saga.
    """


class Cancelled(SagaError):
    """Raised by ``ctx.raise_if_cancelled()`` if a cancel was accepted or the attempt's deadline has passed."""


class TimedOut(SagaError):
    """The code of an attempt ended after its deadline. The result is refused, but the code may have taken effect.

    The outcome is in doubt, as after the crash of a worker. If no later attempt completes, a step with
    ``undo_when="started"`` is undone. Any other step is listed as in doubt. The step is always retried, unless
    ``give_up_on`` contains ``TimedOut``. A step can also raise this error if a service that it called did not answer.
    """


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with an input.

    Args:
        path: the place, as a JSONPath-like string (``$.keys[0]``).
        message: what is wrong, without the value.
        actual_type: the name of the Python type of the value, if known. Comparisons of problems ignore it.
    """

    path: str
    message: str
    actual_type: str = field(default="", compare=False)


def listed(problems: Sequence[Problem]) -> str:
    """Return the first three problems and the number of the others, in one line."""
    texts = [
        f"{problem.path} is {problem.actual_type}, {problem.message}"
        if problem.actual_type
        else f"{problem.path}: {problem.message}"
        for problem in problems
    ]
    more = f"; and {len(texts) - 3} more" if len(texts) > 3 else ""
    return "; ".join(texts[:3]) + more


def text_of(error: BaseException) -> str:
    """Return the text of an exception, even if its ``__str__`` raises."""
    try:
        return str(error)
    except Exception as own:  # noqa: BLE001 - it is the author's code, and the failure must be recorded in any case
        return f"no text: its __str__ raised {type(own).__name__}"


def leaves(error: BaseException) -> list[BaseException]:
    """Return the errors in an exception group, however deep, in their order; the error itself if it is not a group."""
    found = list[BaseException]()
    remaining = [error]
    while remaining:
        part = remaining.pop()
        if isinstance(part, BaseExceptionGroup):
            remaining += reversed(cast("BaseExceptionGroup[BaseException]", part).exceptions)
        else:
            found.append(part)
    return found


class InvalidRequest(SagaError):
    """An input is not valid for its declared type.

    Args:
        message: one line for people.
        problems: the problems, with their paths.
    """

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


def full_text(error: Exception) -> str:
    """Return the text of an error, including problems that its message does not name."""
    text = str(error)
    problems = error.problems if isinstance(error, InvalidRequest) else ()
    lines = (f"{problem.path}: {problem.message}" for problem in problems)
    return "; ".join([text, *(line for line in lines if line not in text)])


class NotFound(SagaError):
    """The saga type or saga does not exist."""


class Conflict(SagaError):
    """The saga's state does not allow this call. The message names the state."""


class StateChanged(Conflict):
    """The saga has left the state that the call names with ``seq``, so the call did not change it.

    Args:
        message: one line for people.
        saga: the saga as it is now, as the API shows it, without request and results.
    """

    def __init__(self, message: str, saga: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.saga = saga


class TooLarge(SagaError):
    """A payload is too large to store."""


class Unavailable(SagaError):
    """A store or queue is out of reach, or the saga type is paused.

    Args:
        message: one line for people.
        retry_after: seconds to wait before a retry.
    """

    def __init__(self, message: str, retry_after: float = 5.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Ambiguous(Unavailable):
    """The response was lost: the request may or may not have taken effect."""


class WrongTables(Unavailable):
    """The tables belong to another service, so this one does nothing with them.

    Args:
        table: the name of the table of sagas.
        owner: the id of the service that the tables belong to.
        service: the id of this service.
    """

    def __init__(self, table: str, owner: str, service: str) -> None:
        belong = f"the tables belong to service {owner!r}, not to this service, {service!r} (table {table})"
        advice = f"correct tables=, or take them over, with the ids that they have, by service_id={owner!r}"
        super().__init__(f"{belong}; {advice}", retry_after=60)
        self.owner = owner
        self.service = service


class Denied(Unavailable):
    """AWS refuses a request for a reason that is neither a condition nor the request itself. A right may be missing, a
    key may be disabled, or credentials may have expired. The same request succeeds once the reason is gone.

    Args:
        message: the service, the operation and AWS's code.
        right: the missing right, and the resource that it is for; empty if AWS gives another reason.
    """

    def __init__(self, message: str, right: str = "") -> None:
        super().__init__(message)
        self.right = right


FORMAT = 1
"""The highest format of stored data and messages that this version reads, and the format that it writes.

With it, two versions of this library can work on the same sagas. Control items, journal entries, signals and messages
contain this number. If it is missing, it is 1. Code that meets a higher number leaves the saga alone and tries again
later, because a newer version is or was deployed. A release that changes a format only reads the new format. The next
release writes it."""


class NewerFormat(Unavailable):
    """A newer version of the library wrote the data. The saga waits for that version, and uses up no attempt or
    receive.

    Args:
        what: the kind of data, for the log. It contains no payload.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} was written by a newer version of lambda-sagas", retry_after=60)


def check_format(version: object, what: str) -> None:
    """Raise :class:`NewerFormat` if this release cannot read a format version."""
    if isinstance(version, int | float) and not isinstance(version, bool) and version > FORMAT:
        raise NewerFormat(what)
