"""Every exception the library raises, in one tree.

    SagaError
    ├── DefinitionError           the saga class is wrong; raised when the class is created
    ├── PermanentError            raise it in a step: retrying is pointless, the step is exhausted at once
    │   ├── Rejected              raise it in a step: the business said no; undo at once
    │   ├── BreakerOpen           a step was not tried: its circuit breaker is open, and it is not to wait
    │   ├── ChildrenFailed        the error of a step more of whose children failed than it tolerates
    │   └── WrongResult           what a step or undo returned is not what it declares, has not run, or is too large
    ├── TypeChanged               a stored request or result does not fit the deployed code: it waits for a person
    ├── Cancelled                 raised by ``ctx.raise_if_cancelled()``
    ├── NotYet                    raise it in a step or undo: what it needs is not there yet; it is called again later
    ├── TimedOut                  an attempt ended after its deadline: its result does not count
    ├── InvalidRequest            the caller's input does not fit; ``problems`` lists the paths
    ├── NotFound                  no such saga type or saga
    ├── Conflict                  the saga's state does not allow the call
    ├── TooLarge                  a payload beyond what can be stored
    └── Unavailable               a store or queue is out of reach, or the type is paused: try later
        └── Ambiguous             the request may or may not have taken effect

Branches follow what the caller should do about it. Errors of boto and botocore become these in
``sagas.aws``, and appear nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field


class SagaError(Exception):
    """Root of all errors of this library."""


class DefinitionError(SagaError):
    """A saga class is declared in a way that cannot work. Raised when the class is created, never later."""


class PermanentError(SagaError):
    """Raised by a step: another attempt would fail the same way, so none is made."""


class Rejected(PermanentError):
    """Raised by a step: the business said no (a declined card). The saga is undone at once, whatever the step's
    ``on_exhausted`` says; past its pivot it waits for an operator. Neither the circuit breaker nor auto-disable counts
    it."""


class BreakerOpen(PermanentError):
    """A step with ``CircuitBreaker(when_open="fail")`` was not tried, because its circuit breaker is open."""


class ChildrenFailed(PermanentError):
    """The error of a step more of whose children ended otherwise than COMPLETED than it tolerates. It is not raised: it
    stands in the saga's journal. Another attempt would fail the same way, for their ids are fixed."""


_YEAR = 365 * 86_400.0


class NotYet(SagaError):
    """Raised by a step or its undo: what it needs is not there yet. It is called again later; nothing failed, and no
    attempt of its retries is used up. How long it may go on so is the step's ``patience``, from the first time on; time
    for which it could not look, as in a pause, does not count.

    A subclass that does not call ``super().__init__`` is called again after a minute.

    Args:
        after: seconds until the next look, from 1. From the hundredth look on it is a minute at least.
        message: what it waits for, for people; shown with the saga.
        steady: keep to ``after`` also from the hundredth look on.

    Raises:
        ValueError: ``after`` is less than a second, or no number.
    """

    after: float = 60.0
    message: str = ""
    steady: bool = False

    def __init__(self, after: float, message: str = "", *, steady: bool = False) -> None:
        if isinstance(after, bool) or not isinstance(after, int | float) or not 1 <= after < math.inf:  # pyright: ignore[reportUnnecessaryIsInstance] -- what a step raises is not checked before
            raise ValueError(f"NotYet: after must be a number of seconds from 1 on, not {after!r}")
        super().__init__(message)
        # No patience is longer, and numbers of any size cannot be stored.
        self.after = float(min(after, _YEAR))
        self.message = str(message)
        self.steady = bool(steady)


class WrongResult(PermanentError):
    """A step returned what is not of the type it declares, or more than can be kept. Another attempt would do so again.

    Its code has run, and what it did stands: the step is undone with ``undo_when="started"``, or listed as in doubt.

    An undo fails with it when it returns a value though it declares ``None``, or anything that has not run, such as a
    generator or a list of coroutines.
    """


class TypeChanged(SagaError):
    """A request or result that is stored does not fit its type as it is deployed, or is not what was written. Nothing
    was called with it.

    The saga waits for an operator, without an attempt being used: once code that fits is deployed, a retry goes on.
    """


class Cancelled(SagaError):
    """Raised by ``ctx.raise_if_cancelled()`` once a cancel was accepted, or the attempt's time is over."""


class TimedOut(SagaError):
    """An attempt's code ended after its deadline. What it returned is refused; what it did may stand.

    Whether it took effect is not known, as with an attempt whose worker died: the step is undone with
    ``undo_when="started"``, or listed as in doubt, unless a later attempt completes. It is retried whatever
    ``retry_on`` says, unless ``give_up_on`` names it. A step may raise it, too, when what it called gave no answer.
    """


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with an input.

    Args:
        path: where, as a JSONPath-like string (``$.keys[0]``).
        message: what, without quoting the value.
        found: the name of the Python type that is there, if known; problems are not compared by it.
    """

    path: str
    message: str
    found: str = field(default="", compare=False)


def listed(problems: Sequence[Problem]) -> str:
    """Return problems as one line: the first three, and how many more there are."""
    told = [
        f"{one.path} is {one.found}, {one.message}" if one.found else f"{one.path}: {one.message}" for one in problems
    ]
    more = f"; and {len(told) - 3} more" if len(told) > 3 else ""
    return "; ".join(told[:3]) + more


def text_of(error: BaseException) -> str:
    """Return what an exception says; if its own ``__str__`` raises, that."""
    try:
        return str(error)
    except Exception as own:  # noqa: BLE001 - the code is not ours, and the failure must be recorded all the same
        return f"no text: its __str__ raised {type(own).__name__}"


class InvalidRequest(SagaError):
    """An input does not fit what was declared.

    Args:
        message: one line for people.
        problems: each failing path.
    """

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class NotFound(SagaError):
    """There is no such saga type, or no such saga."""


class Conflict(SagaError):
    """The saga's state does not allow this; the message says what the state is."""


class TooLarge(SagaError):
    """A payload is larger than can be accepted."""


class Unavailable(SagaError):
    """A store or a queue is out of reach, or the saga type is paused.

    Args:
        message: one line for people.
        retry_after: seconds after which a retry makes sense.
    """

    def __init__(self, message: str, retry_after: float = 5.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Ambiguous(Unavailable):
    """The answer was lost: the request may or may not have taken effect."""
