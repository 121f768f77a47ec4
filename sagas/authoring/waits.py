"""Waits, as the author writes them: for a signal, or for a time. They hold nothing while they wait."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, cast, overload

from sagas.authoring.calls import told
from sagas.authoring.policies import LONGEST_WAIT, Exhausted, Retry
from sagas.authoring.steps import DEFAULT_TIMEOUT, Member, Step, StepOptions, Undoable, WaitOptions, maker
from sagas.errors import DefinitionError

P = ParamSpec("P")
T = TypeVar("T")
Asking = TypeVar("Asking", bound="Coroutine[Any, Any, None] | None")
T_co = TypeVar("T_co", covariant=True)


class Wait(Undoable, Generic[T_co]):
    """A wait for a signal that asks nobody, made by :func:`wait_for`. As a decorator it makes one that asks."""

    def __init__(self, options: StepOptions) -> None:
        super().__init__(None, options)

    @told("wait_for, over a method that asks")
    def __call__(self, fn: Callable[Concatenate[Any, P], Asking], /) -> Step[P, Asking]:
        """Declare the decorated method what asks for the signal: an ordinary step, after which the wait begins."""
        return Step(fn, self.options)


class Sleep(Undoable):
    """A wait for a time, made by :func:`sleep`. Its undo, if it has one, runs when the time had come."""

    def __init__(self, options: StepOptions) -> None:
        super().__init__(None, options)

    if not TYPE_CHECKING:  # a type checker refuses the call

        def __call__(self, *given, **options):
            told = "as in nap = sleep(timedelta(days=1)); a function that says until when is given as until="
            raise DefinitionError(f"sleep: it asks nobody, so it decorates nothing and is not called: {told}")


def _length(call: str, name: str, value: object) -> timedelta:
    if not isinstance(value, timedelta) or not timedelta(0) < value <= LONGEST_WAIT:
        raise DefinitionError(
            f"{call}: {name} must be a positive timedelta of at most a year (365 days), not {value!r}"
        )
    return value


def _refuse_others(call: str, given: tuple[object, ...], options: dict[str, Any], known: tuple[str, ...]) -> None:
    if given:
        raise DefinitionError(f"{call}: {given[0]!r} has no name; it takes {', '.join(known)} by keyword")
    for name in options:
        if name not in known:
            raise DefinitionError(f'{call}: unknown option "{name}"; known are {", ".join(known)}')


@overload
def wait_for(
    value: type[T],
    /,
    *,
    timeout: timedelta,
    on_timeout: Exhausted | None = None,
    public: bool = False,
    retry: Retry | None = None,
    step_timeout: float | timedelta = DEFAULT_TIMEOUT,
    undo_when: Literal["completed", "started"] = "completed",
) -> Wait[T]: ...
@overload
def wait_for(
    value: object,
    /,
    *,
    timeout: timedelta,
    on_timeout: Exhausted | None = None,
    public: bool = False,
    retry: Retry | None = None,
    step_timeout: float | timedelta = DEFAULT_TIMEOUT,
    undo_when: Literal["completed", "started"] = "completed",
) -> Wait[Any]: ...


@maker
def wait_for(*given: Any, **options: Any) -> Any:
    """Wait for a signal: a value that a person or a system sends.

    Bare (``documents = wait_for(Documents, timeout=timedelta(days=7))``) it just waits. As a decorator the method
    asks for the signal first: an ordinary step with retries, whose wait begins when it returns. Nothing runs and
    nothing is held while it waits. Its result for later steps is the value.

    Args:
        value: the type of the signal.
        timeout: how long it waits, at most a year (365 days).
        on_timeout: what happens when no signal comes: ``Exhausted.COMPENSATE`` by default, ``Exhausted.DEAD_LETTER``
            behind a pivot. With ``Exhausted.CONTINUE`` the result is ``value | None``.
        public: whether ``ctx.callback_url`` takes a signal without AWS credentials.
        retry: the asking code's policy.
        step_timeout: seconds, or a timedelta, that an attempt of the asking code may take.
        undo_when: ``"completed"`` undoes the wait if a signal came; ``"started"`` also if none did.

    Raises:
        DefinitionError: an option is missing, unknown or out of range.
    """
    if not given or inspect.isroutine(given[0]) or isinstance(given[0], Member):  # list[T] and a NewType are callable
        raise DefinitionError("wait_for: the type of the signal comes first, as in wait_for(Approval, timeout=...)")
    known = ("timeout", "on_timeout", "public", "retry", "step_timeout", "undo_when")
    _refuse_others("wait_for", given[1:], options, known)
    if "timeout" not in options:
        raise DefinitionError("wait_for: timeout is missing: say how long it waits, at most a year (365 days)")
    on_timeout, public = options.get("on_timeout"), options.get("public", False)
    if not isinstance(on_timeout, Exhausted | None):
        raise DefinitionError(f"wait_for: on_timeout must be a member of Exhausted, not {on_timeout!r}")
    if not isinstance(public, bool):
        raise DefinitionError(f"wait_for: public must be True or False, not {public!r}")
    length = _length("wait_for", "timeout", options["timeout"])
    asking = StepOptions(
        options.get("retry"),
        options.get("step_timeout", DEFAULT_TIMEOUT),
        undo_when=options.get("undo_when", "completed"),
        wait=WaitOptions("signal", given[0], length, on_timeout, public),
    )
    waits: Wait[Any] = Wait(asking)
    return waits


@overload
def sleep(length: timedelta, /) -> Sleep: ...
@overload
def sleep(*, until: Callable[..., datetime]) -> Sleep: ...
@maker
def sleep(*given: Any, **options: Any) -> Any:
    """Wait for a time: nothing runs and nothing is held until then.

    Args:
        length: how long, at most a year (365 days).
        until: a function whose parameters are filled by name like a step's, and which returns an aware
            ``datetime``, at most a year (365 days) ahead. It is run once; a moment that has passed is no wait.

    Raises:
        DefinitionError: it is given neither or both, or what is no length and no function.
    """
    _refuse_others("sleep", given[1:], options, ("until",))
    if bool(given) == ("until" in options):
        raise DefinitionError("sleep: say how long, as in sleep(timedelta(days=1)), or until=, and not both")
    if given:
        return Sleep(StepOptions(wait=WaitOptions("time", length=_length("sleep", "its length", given[0]))))
    until = options["until"]
    if not callable(until) or isinstance(until, type | Member):
        raise DefinitionError(f"sleep: until must be a function that returns a datetime, not {until!r}")
    if getattr(until, "__name__", "") == "<lambda>" and not until.__annotations__:
        instead = "write a function, as in def when(ready: datetime) -> datetime: return ready"
        raise DefinitionError(f"sleep: until is a lambda, which cannot have the annotations that it needs; {instead}")
    return Sleep(StepOptions(wait=WaitOptions("time", until=cast("Callable[..., datetime]", until))))
