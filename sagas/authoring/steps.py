"""``@step`` and ``@<step>.compensate``: decorated methods that are still plain Python when called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Coroutine
from datetime import datetime, timedelta
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Protocol, Self, TypeVar, cast, overload

from msgspec import Struct

from sagas.authoring.policies import CircuitBreaker, Exhausted, Retry, checked_call
from sagas.errors import DefinitionError

DEFAULT_TIMEOUT = 30.0
"""Seconds that an attempt of a step can take by default."""

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Undo = TypeVar("Undo", bound="Coroutine[Any, Any, None] | None")
Undo_co = TypeVar("Undo_co", bound="Coroutine[Any, Any, None] | None", covariant=True)
Maker = TypeVar("Maker", bound=Callable[..., Any])

MAKERS: list[Callable[..., Any]] = []
"""The functions that declare a member when they are called. A class that assigns one without a call is refused."""


def maker(function: Maker) -> Maker:
    """Register a function in ``MAKERS``."""
    MAKERS.append(function)
    return function


class WaitOptions(Struct, frozen=True):
    """The options of a wait.

    Args:
        kind: what the step waits for.
        value: the type of the signal.
        length: how long the step sleeps, or waits at most; ``None`` if ``until`` decides.
        on_timeout: what happens when no signal comes.
        public: whether signals are accepted without AWS credentials.
        until: the function that returns the end of the sleep.
        types: the saga classes of the children.
        concurrency: the maximum number of children that run at a time.
        tolerate: the number of children that can fail.
        in_reverse: whether children are undone one at a time, the last to complete first.
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


class StepOptions(Struct, frozen=True):
    """The options of ``@step``, not yet checked. The saga class checks them, because errors name the class."""

    retry: Retry | None = None
    timeout: float | timedelta | None = None
    circuit_breaker: CircuitBreaker | None = None
    result: str | None = None
    undo_when: Literal["completed", "started"] = "completed"
    retired: bool = False
    within: timedelta | None = None
    wait: WaitOptions | None = None
    pivot: bool = False
    name: str | None = None
    in_doubt_on: Collection[type[BaseException]] | None = ()
    on_timeout: Exhausted | None = None
    when: When | None = None


class UndoOptions(Struct, frozen=True):
    """The options of ``@<step>.compensate``. ``None``: the class's ``undo_retry``, if any, or the step's option."""

    retry: Retry | None = None
    timeout: float | timedelta | None = None


MADE = "__saga_members__"
"""The attribute of a class that lists the members and decorators that its body has made, with a name or without."""


def _note(made: Member | Decorator) -> None:
    """Add ``made`` to the list in the class whose body is running, if there is one."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        frame = frame.f_back
    if frame is not None and "__qualname__" in frame.f_locals:
        frame.f_locals.setdefault(MADE, []).append(made)


class Member:
    """A member that the body of a saga class declares. Members with an owner are equal by owner and name."""

    __wrapped__: Callable[..., Any]

    def __init__(self, function: Callable[..., Any] | None) -> None:
        self.name: str = getattr(function, "__name__", "")
        self.owner: type[Any] | None = None
        self.used = False
        """Whether this is only the decorator of another member."""
        _note(self)
        if function is None:  # a wait without a method
            return
        if not callable(function) or isinstance(function, type | staticmethod | classmethod | Member):
            decorators = "@step, @wait_for, @children and @<step>.compensate"
            raise DefinitionError(f"{decorators} must decorate a method, not {function!r}")
        functools.update_wrapper(cast("Callable[..., Any]", self), function)

    @property
    def function(self) -> Callable[..., Any]:
        """The undecorated function; its first parameter is the saga's instance."""
        return self.__wrapped__

    def __set_name__(self, owner: type[Any], name: str) -> None:
        if self.owner is None:  # a second name in another class must not change the owner
            self.owner = owner
            self.name = name

    def of(self, owner: type[Any]) -> Self:
        """Return the member as a member of ``owner``, which may have inherited it."""
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
    """The decorator that calls such as ``step(...)`` return. It records that it was used, so unused ones are reported.

    Args:
        call: the call that returned the decorator, for error messages.
        declare: the function that creates the member.
    """

    def __init__(self, call: str, declare: Callable[[Callable[..., Any]], Member]) -> None:
        self.call = call
        self.used = False
        self._declare = declare
        _note(self)

    def __call__(self, *functions: Any, **options: Any) -> Any:
        if len(functions) != 1 or options:
            raise DefinitionError(f"{self.call}: when called with options it must decorate exactly one method")
        self.used = True
        return self._declare(functions[0])


class Compensation(Member, Generic[Q, Undo_co]):
    """The undo of a step, made by ``@<step>.compensate``. On an instance it is a plain method.

    Args:
        function: the undecorated method.
        step: the step that it undoes.
        options: the policies of the undo.
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
    """A member that can have an undo: a step or a wait.

    Args:
        function: the undecorated method, if there is one.
        options: its policies.
    """

    def __init__(self, function: Callable[..., Any] | None, options: StepOptions) -> None:
        super().__init__(function)
        self.options = options

    @property
    def stored_name(self) -> str:
        """The step's name in the store, the queue and the function: ``name=`` or else the name of the member."""
        return self.name if self.options.name is None else self.options.name

    @overload
    def compensate(self, fn: Callable[Concatenate[Any, Q], Undo], /) -> Compensation[Q, Undo]: ...
    @overload
    def compensate(
        self, /, *, retry: Retry | None = None, timeout: float | timedelta | None = None
    ) -> _CompensateDecorator: ...
    @maker
    @checked_call("compensate")
    def compensate(
        self,
        fn: Callable[..., Any] | None = None,
        /,
        *,
        retry: Retry | None = None,
        timeout: float | timedelta | None = None,
    ) -> Any:
        """Declare the undo of this step.

        Args:
            fn: the method, if the decorator is used without parentheses.
            retry: the retry policy of the undo. Default: the class's ``undo_retry``, or else the step's policy.
            timeout: how long an attempt of the undo can take: seconds or a timedelta. Default: the step's timeout. An
                attempt that takes longer fails with ``TimedOut`` and is retried.
        """
        options = UndoOptions(retry, timeout)
        if fn is not None:
            return Compensation(fn, self, options)

        return Decorator("compensate", lambda function: Compensation(function, self, options))


When = Callable[..., bool] | Undoable
"""What ``when=`` takes: a function, or an earlier step whose result is a ``bool``."""


class Step(Undoable, Generic[P, R_co]):
    """A step of a saga, made by ``@step``. On an instance it is a plain method.

    On a class it is a value that names the step. Steps are hashable, and equal if ``owner`` and ``name`` are. The owner
    of an inherited step is the class through which you access the step.

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
        """Call the step as a plain function of an instance, so that an override can call the step that it replaces."""
        return self.function(instance, *args, **kwargs)


class _StepDecorator(Protocol):
    def __call__(self, fn: Callable[Concatenate[Any, P], R], /) -> Step[P, R]: ...


@overload
def step(fn: Callable[Concatenate[Any, P], R], /) -> Step[P, R]: ...
@overload
def step(
    *,
    retry: Retry | None = None,
    timeout: float | timedelta | None = None,
    circuit_breaker: CircuitBreaker | None = None,
    result: str | None = None,
    undo_when: Literal["completed", "started"] = "completed",
    retired: bool = False,
    within: timedelta | None = None,
    on_timeout: Exhausted | None = None,
    pivot: bool = False,
    name: str | None = None,
    in_doubt_on: Collection[type[BaseException]] | None = (),
    when: When | None = None,
) -> _StepDecorator: ...
@maker
@checked_call("step")
def step(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    retry: Retry | None = None,
    timeout: float | timedelta | None = None,
    circuit_breaker: CircuitBreaker | None = None,
    result: str | None = None,
    undo_when: Literal["completed", "started"] = "completed",
    retired: bool = False,
    within: timedelta | None = None,
    on_timeout: Exhausted | None = None,
    pivot: bool = False,
    name: str | None = None,
    in_doubt_on: Collection[type[BaseException]] | None = (),
    when: When | None = None,
) -> Any:
    """Declare a step of a saga. Parameters are filled by name: see :class:`sagas.Saga`.

    Args:
        fn: the method, if the decorator is used without parentheses.
        retry: what happens after a failed attempt. Default: the class's ``retry``, or else five retries, exponential
            from 2 s, full jitter.
        timeout: how long an attempt can take from the start of its code: seconds or a timedelta, at most 890 seconds.
            Default: the class's ``step_timeout``, or else 30 seconds. A later result or error is refused: the attempt
            fails with ``TimedOut``, and its outcome is in doubt. An ``async`` method is cancelled at that time, or when
            its saga is cancelled; a plain method can check ``ctx.cancelled``.
        circuit_breaker: stop calling a dependency that keeps failing; none by default.
        result: the name under which later steps take the result; the method's name by default.
        undo_when: ``"completed"`` undoes the step if it completed, or raised ``NotYet`` and never completed.
            ``"started"`` also undoes it if it failed or its outcome is in doubt. The undo's parameter for the step's
            own result must then be annotated ``T | None``.
        retired: whether new sagas skip the step. Its code and undo stay for earlier sagas.
        within: how long the step can keep raising ``NotYet``, counted from the first time; a day by default, at most
            365 days. Then the step fails for good. Time in which it could not run, such as a pause, does not count. The
            same limit applies to its undo. The undo's parameter for the step's own result is then annotated
            ``T | None``. Only a step with ``within`` can have ``Exhausted.CONTINUE``; its result is then annotated
            ``T | None``, too.
        on_timeout: what the last ``NotYet`` leads to, at the end of ``within``. Default: ``on_exhausted`` of the retry
            policy, which applies to other failures. It does not apply to the undo, whose last ``NotYet`` needs an
            operator.
        pivot: the point of no return, at most one per class. Once the step has completed, or may have taken effect, the
            saga only goes forward. Neither the pivot nor the steps after it have an undo.
        name: the step's stored name, if it is not the method's: 1 to 40 characters of a-z, 0-9 and ``_``, starting with
            a letter. Sagas in flight, the queue, the function, the idempotency key and the API use this name. Give a
            renamed method its old name.
        in_doubt_on: exception types that say nothing about the effect, in addition to those of the class and of the
            usual clients. After one, the outcome is in doubt. With ``None``, no exception of the step leaves doubt,
            because it only reads; lost and late attempts still do.
        when: whether the step runs: a function at module level that returns ``bool``, with the request and earlier
            results as its parameters, filled by name. Or an earlier step whose result is a ``bool``. If it is false,
            the step is SKIPPED: no attempt, no undo, no result. Parameters that take its result allow ``None``. The
            function must be pure and quick, since it can be called several times. Not for a pivot.
    """
    options = StepOptions(
        retry,
        timeout,
        circuit_breaker,
        result,
        undo_when,
        retired,
        within,
        pivot=pivot,
        name=name,
        in_doubt_on=in_doubt_on,
        on_timeout=on_timeout,
        when=when,
    )
    if fn is not None:
        return Step(fn, options)

    return Decorator("step", lambda function: Step(function, options))
