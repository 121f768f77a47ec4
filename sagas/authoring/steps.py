"""Steps and their undos, as the author writes them: decorated methods that stay plain Python when called."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Protocol, Self, TypeVar, cast, overload

from sagas.authoring.calls import told
from sagas.authoring.policies import CircuitBreaker, Exhausted, Retry
from sagas.errors import DefinitionError

DEFAULT_TIMEOUT = 30.0
"""Seconds an attempt of a step may take when it names no timeout."""

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Undo = TypeVar("Undo", bound="Coroutine[Any, Any, None] | None")
Undo_co = TypeVar("Undo_co", bound="Coroutine[Any, Any, None] | None", covariant=True)
Maker = TypeVar("Maker", bound=Callable[..., Any])

MAKERS: list[Callable[..., Any]] = []
"""The functions that declare a member when they are called. One that stands in a class body uncalled declares nothing,
and is refused there."""


def maker(function: Maker) -> Maker:
    """Register a function in ``MAKERS``."""
    MAKERS.append(function)
    return function


@dataclass(frozen=True, slots=True)
class WaitOptions:
    """What a wait was given.

    Args:
        kind: what it waits for.
        value: the type of the signal.
        length: how long it waits at most, or for how long it sleeps; ``None``: until what ``until`` says.
        on_timeout: what happens when no signal comes.
        public: whether a signal may come without AWS credentials.
        until: says until when it sleeps.
        types: the saga classes of its children.
        concurrency: how many of them are under way at a time, at most.
        tolerate: how many of them may fail.
        in_reverse: they are undone one by one, the last that completed first.
    """

    kind: Literal["signal", "time", "children"]
    value: Any = None
    length: timedelta | None = None
    on_timeout: Exhausted | None = None
    public: bool = False
    until: Callable[..., datetime] | None = None
    types: tuple[type[Any], ...] = ()
    concurrency: int = 0
    tolerate: int = 0
    in_reverse: bool = False


@dataclass(frozen=True, slots=True)
class StepOptions:
    """What ``@step`` was given. Unchecked: the class that holds the step checks it, since it can name itself."""

    retry: Retry | None = None
    timeout: float | timedelta = DEFAULT_TIMEOUT
    circuit_breaker: CircuitBreaker | None = None
    result: str | None = None
    undo_when: Literal["completed", "started"] = "completed"
    retired: bool = False
    patience: timedelta | None = None
    wait: WaitOptions | None = None
    pivot: bool = False


@dataclass(frozen=True, slots=True)
class UndoOptions:
    """What ``@<step>.compensate`` was given; None means the step's."""

    retry: Retry | None = None
    timeout: float | timedelta | None = None


class Member:
    """What a saga's class body declares. Equal, once it has an owner, by owner and name."""

    __wrapped__: Callable[..., Any]

    def __init__(self, function: Callable[..., Any] | None) -> None:
        self.name: str = getattr(function, "__name__", "")
        self.owner: type[Any] | None = None
        if function is None:  # a wait that asks nobody
            return
        if not callable(function) or isinstance(function, type | staticmethod | classmethod | Member):
            told = "@step, @wait_for, @children and @<step>.compensate decorate a method"
            raise DefinitionError(f"{told}, not {function!r}")
        functools.update_wrapper(cast("Callable[..., Any]", self), function)

    @property
    def function(self) -> Callable[..., Any]:
        """The undecorated function; its first parameter is the saga's instance."""
        return self.__wrapped__

    def __set_name__(self, owner: type[Any], name: str) -> None:
        if self.owner is None:  # else it belongs to another class, which a second name must not change
            self.owner, self.name = owner, name

    def of(self, owner: type[Any]) -> Self:
        """Return the member as one of ``owner``, which may have inherited it."""
        if owner is self.owner:
            return self
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.owner = owner
        return copy

    def _key(self) -> tuple[object, str]:
        return (id(self), "") if self.owner is None else (self.owner, self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Member) and type(other) is type(self) and other._key() == self._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        owner = "" if self.owner is None else f"{self.owner.__qualname__}."
        return f"<{type(self).__name__.lower()} {owner}{self.name}>"


class Decorator:
    """What ``step(...)`` and its like return. Without a method under it, it would silently declare nothing.

    Args:
        call: what returned it, for messages.
        declare: makes the member.
    """

    def __init__(self, call: str, declare: Callable[[Callable[..., Any]], Member]) -> None:
        self.call = call
        self.used = False
        self._declare = declare

    def __call__(self, *given: Any, **options: Any) -> Any:
        if len(given) != 1 or options:
            raise DefinitionError(f"{self.call}: with its options given it decorates one method")
        self.used = True
        return self._declare(given[0])


class Compensation(Member, Generic[Q, Undo_co]):
    """The undo of a step, made by ``@<step>.compensate``. On an instance it is a plain method.

    Args:
        function: the undecorated method.
        step: the step it undoes.
        options: its own policies.
    """

    def __init__(self, function: Callable[Concatenate[Any, Q], Undo_co], step: Undoable, options: UndoOptions) -> None:
        super().__init__(function)
        self.step = step
        self.options = options

    @overload
    def __get__(self, instance: None, owner: type[Any], /) -> Compensation[Q, Undo_co]: ...
    @overload
    def __get__(self, instance: object, owner: type[Any], /) -> Callable[Q, Undo_co]: ...
    def __get__(self, instance: object, owner: type[Any], /) -> Callable[..., Any]:
        return self.of(owner) if instance is None else self.function.__get__(instance, owner)

    def __call__(self, instance: Any, /, *args: Q.args, **kwargs: Q.kwargs) -> Undo_co:
        """Call the undo as a plain function of an instance."""
        return self.function(instance, *args, **kwargs)


class _CompensateDecorator(Protocol):
    def __call__(self, fn: Callable[Concatenate[Any, Q], Undo], /) -> Compensation[Q, Undo]: ...


class Undoable(Member):
    """What may have an undo: a step, or a wait.

    Args:
        function: the undecorated method, if there is one.
        options: its policies.
    """

    def __init__(self, function: Callable[..., Any] | None, options: StepOptions) -> None:
        super().__init__(function)
        self.options = options

    @overload
    def compensate(self, fn: Callable[Concatenate[Any, Q], Undo], /) -> Compensation[Q, Undo]: ...
    @overload
    def compensate(
        self, /, *, retry: Retry | None = None, timeout: float | timedelta | None = None
    ) -> _CompensateDecorator: ...
    @maker
    @told("compensate")
    def compensate(
        self,
        fn: Callable[..., Any] | None = None,
        /,
        *,
        retry: Retry | None = None,
        timeout: float | timedelta | None = None,
    ) -> Any:
        """Declare the decorated method the undo of this step.

        Args:
            fn: the method, when used bare.
            retry: the undo's own policy; the step's if None.
            timeout: seconds, or a timedelta, that an attempt of the undo may take; the step's if None. One that takes
                longer has failed with ``TimedOut``, and is repeated.
        """
        options = UndoOptions(retry, timeout)
        if fn is not None:
            return Compensation(fn, self, options)

        return Decorator("compensate", lambda function: Compensation(function, self, options))


class Step(Undoable, Generic[P, R_co]):
    """A step of a saga, made by ``@step``. On an instance it is a plain method.

    On a class it is a value that names the step: hashable, equal to another that has the same ``owner`` and ``name``.
    A step that a class inherits belongs, when read from that class, to that class.

    Args:
        function: the undecorated method.
        options: its policies.
    """

    def __init__(self, function: Callable[Concatenate[Any, P], R_co], options: StepOptions) -> None:
        super().__init__(function, options)

    @overload
    def __get__(self, instance: None, owner: type[Any], /) -> Step[P, R_co]: ...
    @overload
    def __get__(self, instance: object, owner: type[Any], /) -> Callable[P, R_co]: ...
    def __get__(self, instance: object, owner: type[Any], /) -> Callable[..., Any]:
        return self.of(owner) if instance is None else self.function.__get__(instance, owner)

    def __call__(self, instance: Any, /, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the step as a plain function of an instance: an override may call the one it replaces."""
        return self.function(instance, *args, **kwargs)


class _StepDecorator(Protocol):
    def __call__(self, fn: Callable[Concatenate[Any, P], R], /) -> Step[P, R]: ...


@overload
def step(fn: Callable[Concatenate[Any, P], R], /) -> Step[P, R]: ...
@overload
def step(
    *,
    retry: Retry | None = None,
    timeout: float | timedelta = DEFAULT_TIMEOUT,
    circuit_breaker: CircuitBreaker | None = None,
    result: str | None = None,
    undo_when: Literal["completed", "started"] = "completed",
    retired: bool = False,
    patience: timedelta | None = None,
    pivot: bool = False,
) -> _StepDecorator: ...
@maker
@told("step")
def step(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    retry: Retry | None = None,
    timeout: float | timedelta = DEFAULT_TIMEOUT,
    circuit_breaker: CircuitBreaker | None = None,
    result: str | None = None,
    undo_when: Literal["completed", "started"] = "completed",
    retired: bool = False,
    patience: timedelta | None = None,
    pivot: bool = False,
) -> Any:
    """Declare a method a step of its saga. Parameters are filled by name: see :class:`sagas.Saga`.

    Args:
        fn: the method, when used bare.
        retry: what happens after a failed attempt; by default three retries, exponential from 1 s, full jitter.
        timeout: seconds, or a timedelta, that an attempt may take, from when its code begins; at most 890 seconds. What
            it returns or raises later is refused: the attempt has failed with ``TimedOut``, and whether it took effect
            is not known. An ``async`` method is cancelled then, and when its saga is; a plain one can look at
            ``ctx.cancelled``.
        circuit_breaker: stop calling a dependency that keeps failing; none by default.
        result: the name under which later steps take the result; the step's name by default.
        undo_when: ``"completed"`` undoes the step if it completed, or raised ``NotYet`` and never completed;
            ``"started"`` also if it failed or its outcome is unknown, and then the undo's parameter for the step's own
            result is annotated ``T | None``.
        retired: new sagas skip the step; its code and undo stay for the sagas that have it.
        patience: how long the step may go on raising ``NotYet``, from the first time on; a day by default, at most a
            year (365 days). Time for which it could not look, as in a pause, does not count. Then it has failed for
            good. The same holds for its undo. With it ``Exhausted.CONTINUE`` may be the policy, and the result is
            annotated ``T | None``; so is the undo's parameter for the step's own result.
        pivot: the point of no return, at most one in a class: once the step has completed, or may have taken effect,
            the saga only goes forward. It has no undo, nor have the steps behind it.
    """
    options = StepOptions(retry, timeout, circuit_breaker, result, undo_when, retired, patience, pivot=pivot)
    if fn is not None:
        return Step(fn, options)

    return Decorator("step", lambda function: Step(function, options))
