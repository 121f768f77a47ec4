"""The policies that authors declare. They are checked on creation, and compute without clock or randomness."""

from __future__ import annotations

import functools
import inspect
import json
import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, cast, get_args

from sagas.errors import DefinitionError, PermanentError, TimedOut, leaves

Jitter = Literal["none", "full"]
RetryKind = Literal["exponential", "linear", "constant"]
WhenOpen = Literal["wait", "fail"]
_ErrorTypes = tuple[type[BaseException], ...]
_T = TypeVar("_T")
P = ParamSpec("P")
R = TypeVar("R")

MAX_RETRIES = 1_000
"""An SQS queue's own limit on receives."""

MAX_SECONDS = 14 * 24 * 3600
"""14 days, the longest time that SQS keeps a message."""

_LARGEST_FACTOR = 100

LONGEST_WAIT = timedelta(days=365)
"""A year."""

MAX_TIMEOUT = 890
"""In seconds. Lambda ends a function after 900 seconds, and the last ten are reserved for the commit."""

MOST_CHILDREN = 10_000
"""Children per step."""

SETTLE = 900.0
"""By default, a saga waits this many seconds for a release if its next step does not fit the deployed code."""


def checked_call(call: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator. For arguments that the function does not take, it raises a DefinitionError that lists the
    valid ones."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        parameters = signature.parameters.values()
        named = [parameter.name for parameter in parameters if parameter.kind is not parameter.POSITIONAL_ONLY]
        names = ", ".join(name for name in named if name not in ("self", "cls"))
        advice = f"; it takes {names} by keyword" if names else ""

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise DefinitionError(f"{call}: {error}{advice}") from None
            return function(*args, **kwargs)

        return checked

    return decorate


class Exhausted(StrEnum):
    """What happens when a step has used up its attempts."""

    COMPENSATE = "COMPENSATE"
    FAIL = "FAIL"
    DEAD_LETTER = "DEAD_LETTER"
    CONTINUE = "CONTINUE"
    """Continue without a result. For waits, and for steps with ``within``."""


def attempt_seconds(timeout: object) -> float | None:
    """Return the time that an attempt can take, in seconds; ``None`` if it is not a number or timedelta in range."""
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds <= MAX_TIMEOUT:
        return None
    return float(seconds)


def _require(ok: bool, message: str) -> None:
    if not ok:
        raise DefinitionError(message)


def _check_number(owner: str, name: str, value: object, *, least: float) -> None:
    valid = isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= MAX_SECONDS
    _require(valid, f"{owner}: {name} must be a number of seconds from {least:g} to {MAX_SECONDS}, not {value!r}")


def _check_count(owner: str, name: str, value: object, *, least: int, most: int) -> None:
    valid = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
    _require(valid, f"{owner}: {name} must be a whole number from {least} to {most}, not {value!r}")


def _check_duration(owner: str, name: str, value: object) -> None:
    valid = isinstance(value, timedelta) and value > timedelta(0)
    _require(valid, f"{owner}: {name} must be a positive timedelta, not {value!r}")


def _error_types(name: str, types: object) -> _ErrorTypes:
    members = tuple(cast("Iterable[object]", types)) if isinstance(types, Iterable) else (types,)
    valid = isinstance(types, Iterable) and all(isinstance(t, type) and issubclass(t, BaseException) for t in members)
    _require(valid, f"Retry: {name} must be exception types, as in {name}=[KeyError], not {types!r}")
    return cast("_ErrorTypes", members)


_HOW = (
    "write Retry.exponential(max_retries=5, base_delay=2.0), Retry.linear(max_retries=3, base_delay=1.0) "
    "or Retry.constant(max_retries=3, delay=1.0)"
)


def _checked_constructor(policy: type[_T]) -> type[_T]:
    """Decorate a policy: wrong arguments to its constructor raise a DefinitionError."""
    policy.__init__ = checked_call(policy.__name__)(policy.__init__)
    return policy


if TYPE_CHECKING:
    # If type checkers saw the metaclass, they would no longer check the arguments.
    _RetryMeta = type
else:

    class _RetryMeta(type):
        """Explains how to write a Retry if its constructor is called with wrong arguments."""

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            try:
                return super().__call__(*args, **kwargs)
            except TypeError:
                raise DefinitionError(f"Retry: {_HOW}") from None


@dataclass(frozen=True, slots=True)
class Retry(metaclass=_RetryMeta):
    """How often a failed attempt is retried, and after what delay.

    Create one with :meth:`exponential`, :meth:`linear` or :meth:`constant`. ``max_retries=5`` means at most six
    executions. Errors that are not in ``retry_on`` exhaust the step at once. ``TimedOut`` is always retried, unless it
    is in ``give_up_on``. ``on_exhausted`` is ``Exhausted.COMPENSATE`` by default, and ``Exhausted.DEAD_LETTER`` after a
    pivot.
    """

    kind: RetryKind
    max_retries: int
    base_delay: float
    max_delay: float | None = None
    jitter: Jitter = "none"
    retry_on: _ErrorTypes = (Exception,)
    give_up_on: _ErrorTypes = ()
    on_exhausted: Exhausted | None = None
    factor: float = 2.0

    def __post_init__(self) -> None:
        valid = self.kind in get_args(RetryKind)
        _require(valid, f"Retry: unknown kind {self.kind!r}; {_HOW}")
        _check_count("Retry", "max_retries", self.max_retries, least=0, most=MAX_RETRIES)
        _check_number("Retry", "delay" if self.kind == "constant" else "base_delay", self.base_delay, least=0)
        if self.max_delay is not None:
            _check_number("Retry", "max_delay", self.max_delay, least=0)
        _require(self.jitter in ("none", "full"), f'Retry: jitter must be "none" or "full", not {self.jitter!r}')
        growing = isinstance(cast("object", self.factor), int | float) and not isinstance(self.factor, bool)
        valid = growing and 1 <= self.factor <= _LARGEST_FACTOR
        _require(valid, f"Retry: factor must be a number from 1 to {_LARGEST_FACTOR}, not {self.factor!r}")
        object.__setattr__(self, "retry_on", _error_types("retry_on", self.retry_on))
        object.__setattr__(self, "give_up_on", _error_types("give_up_on", self.give_up_on))
        valid = any(self.on_exhausted is member for member in (*Exhausted, None))
        _require(valid, f"Retry: on_exhausted must be a member of Exhausted, not {self.on_exhausted!r}")

    @classmethod
    @checked_call("Retry.exponential")
    def exponential(
        cls,
        *,
        max_retries: int = 5,
        base_delay: float = 2.0,
        factor: float = 2.0,
        max_delay: float | None = None,
        jitter: Jitter = "full",
        retry_on: Iterable[type[BaseException]] = (Exception,),
        give_up_on: Iterable[type[BaseException]] = (),
        on_exhausted: Exhausted | None = None,
    ) -> Retry:
        """Delay ``base_delay * factor**(n-1)`` seconds before retry n, at most ``max_delay``."""
        on = _error_types("retry_on", retry_on)
        off = _error_types("give_up_on", give_up_on)
        return cls("exponential", max_retries, base_delay, max_delay, jitter, on, off, on_exhausted, factor)

    @classmethod
    @checked_call("Retry.linear")
    def linear(
        cls,
        *,
        max_retries: int = 3,
        base_delay: float = 1.0,
        max_delay: float | None = None,
        jitter: Jitter = "none",
        retry_on: Iterable[type[BaseException]] = (Exception,),
        give_up_on: Iterable[type[BaseException]] = (),
        on_exhausted: Exhausted | None = None,
    ) -> Retry:
        """Delay ``base_delay * n`` seconds before retry n, at most ``max_delay``."""
        on = _error_types("retry_on", retry_on)
        off = _error_types("give_up_on", give_up_on)
        return cls("linear", max_retries, base_delay, max_delay, jitter, on, off, on_exhausted)

    @classmethod
    @checked_call("Retry.constant")
    def constant(
        cls,
        *,
        max_retries: int = 3,
        delay: float = 1.0,
        max_delay: float | None = None,
        jitter: Jitter = "none",
        retry_on: Iterable[type[BaseException]] = (Exception,),
        give_up_on: Iterable[type[BaseException]] = (),
        on_exhausted: Exhausted | None = None,
    ) -> Retry:
        """Delay ``delay`` seconds before every retry, at most ``max_delay``."""
        on = _error_types("retry_on", retry_on)
        off = _error_types("give_up_on", give_up_on)
        return cls("constant", max_retries, delay, max_delay, jitter, on, off, on_exhausted)

    @property
    def executions(self) -> int:
        """The maximum number of times that the step can run."""
        return self.max_retries + 1

    def delay(self, retry: int, chance: float = 1.0) -> float:
        """Seconds to wait before retry ``retry`` (from 1).

        Args:
            retry: the number of the retry, from 1.
            chance: a random number in [0, 1); full jitter multiplies the delay by it (Brooker, "Exponential Backoff
                And Jitter", AWS Architecture Blog, 2015).

        Returns:
            Seconds, rounded up to whole seconds if more than one, because SQS has no smaller unit.
        """
        if self.kind == "exponential":
            try:
                growth = float(self.factor) ** (retry - 1)
            except OverflowError:
                growth = sys.float_info.max
            seconds = self.base_delay * growth
        else:
            seconds = self.base_delay * retry if self.kind == "linear" else self.base_delay
        seconds = min(seconds, MAX_SECONDS if self.max_delay is None else self.max_delay)
        if self.jitter == "full":
            seconds *= chance
        return float(math.ceil(seconds)) if seconds >= 1 else seconds

    @property
    def longest_wait(self) -> float:
        """The longest total delay of all retries, in seconds."""
        worst = (self.delay(n) for n in range(1, self.max_retries + 1))
        return sum(worst)

    def gives_up(self, error: BaseException) -> bool:
        """Whether ``error`` exhausts the step at once."""
        late = error.__cause__ if isinstance(error, TimedOut) else None
        raised = [] if late is None else [late, *leaves(late)]
        permanent = isinstance(error, (PermanentError, *self.give_up_on))
        permanent = permanent or any(isinstance(each, self.give_up_on) for each in raised)
        return permanent or not isinstance(error, (TimedOut, *self.retry_on))

    def names_group(self, error: BaseException) -> bool:
        """Whether the policy names the class of an exception group, so that it judges the group and not its parts."""
        named = (*self.retry_on, *self.give_up_on)
        return any(issubclass(type_, BaseExceptionGroup) and isinstance(error, type_) for type_ in named)


DEFAULT_RETRY = Retry.exponential()
"""The policy of a step without ``retry``."""


@_checked_constructor
@dataclass(frozen=True, slots=True)
class CircuitBreaker:
    """Stop calling a dependency that keeps failing. All workers of a step share a breaker.

    Only failures of the dependency count. Permanent errors (``PermanentError``, ``Rejected``, ``give_up_on``) do not
    count. Neither do attempts that were cancelled, could not read their inputs, or lost their worker. Undos always
    pass.

    Args:
        failure_threshold: consecutive failures that open the circuit.
        open_for: seconds that the circuit stays open before one attempt can try.
        when_open: what happens to a saga while the circuit is open. ``"wait"``: the saga waits, however long, and uses
            up no attempt. ``"fail"``: the step fails for good with ``BreakerOpen``, and its code does not run. That
            counts as its last attempt: ``on_exhausted`` applies at once.
    """

    failure_threshold: int = 5
    open_for: float = 30.0
    when_open: WhenOpen = "wait"

    def __post_init__(self) -> None:
        _check_count("CircuitBreaker", "failure_threshold", self.failure_threshold, least=1, most=10_000)
        _check_number("CircuitBreaker", "open_for", self.open_for, least=0.001)
        valid = self.when_open in ("wait", "fail")
        _require(valid, f'CircuitBreaker: when_open must be "wait" or "fail", not {self.when_open!r}')


@_checked_constructor
@dataclass(frozen=True, slots=True)
class AutoDisable:
    """Refuse new starts of a saga type that keeps failing.

    Args:
        threshold: consecutive failed sagas that disable the type.
        window: the time within which they must fail.
        cooldown: how long starts are refused; with ``None``, until an operator resumes the type.
    """

    threshold: int = 5
    window: timedelta = timedelta(hours=1)
    cooldown: timedelta | None = timedelta(minutes=30)

    def __post_init__(self) -> None:
        _check_count("AutoDisable", "threshold", self.threshold, least=1, most=1_000)
        _check_duration("AutoDisable", "window", self.window)
        if self.cooldown is not None:
            _check_duration("AutoDisable", "cooldown", self.cooldown)

    @property
    def text(self) -> str:
        """The policy as text, for an environment variable of a function."""
        cooldown = None if self.cooldown is None else self.cooldown.total_seconds()
        return json.dumps([self.threshold, self.window.total_seconds(), cooldown], separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> AutoDisable:
        """Return the policy that :attr:`text` describes."""
        threshold, window, cooldown = json.loads(text)
        return cls(threshold, timedelta(seconds=window), None if cooldown is None else timedelta(seconds=cooldown))


@_checked_constructor
@dataclass(frozen=True, slots=True)
class OrphanSweep:
    """Remove S3 objects that sagas left behind.

    Args:
        bucket_env: the environment variable that holds the bucket's name.
        prefix: the prefix of the saga's objects; ends in a slash.
        min_age: sweeps never touch objects that are younger than this.
        every: how often the prefix is swept. At least an hour, because the supervisor checks once per hour.
        action: what happens to an orphan.
        unreferenced: what happens to an object of a COMPLETED saga that is neither in its request nor in its results.
            ``"keep"`` does not search for such objects, ``"report"`` counts them, ``"delete"`` applies ``action`` to
            them.
        archive_bucket_env: for ``action="archive"``, the environment variable that holds the name of the archive's
            bucket. Default: the swept bucket.
    """

    bucket_env: str
    prefix: str
    min_age: timedelta = timedelta(hours=48)
    every: timedelta = timedelta(hours=6)
    action: Literal["delete", "archive", "report"] = "delete"
    unreferenced: Literal["keep", "report", "delete"] = "report"
    archive_bucket_env: str | None = None

    def __post_init__(self) -> None:
        prefix = str(self.prefix)
        archive = self.archive_bucket_env
        _check_variable("bucket_env", self.bucket_env)
        valid = prefix.endswith("/") and not prefix.startswith("/") and ".." not in prefix
        _require(valid, f"OrphanSweep: prefix must be a relative path ending in a slash, not {self.prefix!r}")
        _check_duration("OrphanSweep", "min_age", self.min_age)
        _check_duration("OrphanSweep", "every", self.every)
        _require(self.every >= timedelta(hours=1), f"OrphanSweep: every must be at least an hour, not {self.every!r}")
        valid = self.action in ("delete", "archive", "report")
        _require(valid, f'OrphanSweep: action must be "delete", "archive" or "report", not {self.action!r}')
        valid = self.unreferenced in ("keep", "report", "delete")
        problem = f'OrphanSweep: unreferenced must be "keep", "report" or "delete", not {self.unreferenced!r}'
        _require(valid, problem)
        idle = self.unreferenced == "delete" and self.action == "report"
        _require(not idle, 'OrphanSweep: unreferenced="delete" applies action, and action is "report"')
        if archive is not None:
            _check_variable("archive_bucket_env", archive)
            _require(self.action == "archive", 'OrphanSweep: archive_bucket_env needs action="archive"')


def _check_variable(name: str, value: object) -> None:
    text = str(value)
    _require(text.isidentifier() and text == value, f"OrphanSweep: {name} must name a variable, not {value!r}")
