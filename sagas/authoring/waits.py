"""``wait_for`` and ``sleep``: steps that wait for a signal, or for a point in time. Nothing is locked in that time."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Coroutine
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, cast, overload

from sagas.authoring.policies import LONGEST_WAIT, Exhausted, Retry, checked_call
from sagas.authoring.steps import Member, Step, StepOptions, Undoable, WaitOptions, When, maker
from sagas.errors import DefinitionError

P = ParamSpec("P")
T = TypeVar("T")
Asking = TypeVar("Asking", bound="Coroutine[Any, Any, None] | None")
T_co = TypeVar("T_co", covariant=True)


class Wait(Undoable, Generic[T_co]):
    """A wait for a signal, made by :func:`wait_for`. As a decorator, it adds a method that asks for the signal."""

    def __init__(self, options: StepOptions) -> None:
        super().__init__(None, options)

    @checked_call("wait_for, as a decorator")
    def __call__(self, fn: Callable[Concatenate[Any, P], Asking], /) -> Step[P, Asking]:
        """Declare the method that asks for the signal: an ordinary step, after which the wait begins."""
        self.used = True
        return Step(fn, self.options)


class Sleep(Undoable):
    """A wait for a time, made by :func:`sleep`. If it has an undo, that runs only if the wait had ended."""

    def __init__(self, options: StepOptions) -> None:
        super().__init__(None, options)

    if not TYPE_CHECKING:  # a type checker refuses the call

        def __call__(self, *arguments, **options):
            raise DefinitionError("sleep is a value, not a decorator: write 'pause = sleep(timedelta(days=1))'")


def _length(call: str, name: str, value: object) -> timedelta:
    if not isinstance(value, timedelta) or not timedelta(0) < value <= LONGEST_WAIT:
        raise DefinitionError(f"{call}: {name} must be a positive timedelta of at most 365 days, not {value!r}")
    return value


def _refuse_others(call: str, extra: tuple[object, ...], options: dict[str, Any], names: tuple[str, ...]) -> None:
    if extra:
        raise DefinitionError(f"{call}: unexpected argument {extra[0]!r}; pass {', '.join(names)} by keyword")
    for name in options:
        if name not in names:
            raise DefinitionError(f'{call}: unknown option "{name}"; expected one of {", ".join(names)}')


@overload
def wait_for(
    value: type[T],
    /,
    *,
    timeout: timedelta,
    on_timeout: Exhausted | None = None,
    public: bool = False,
    retry: Retry | None = None,
    step_timeout: float | timedelta | None = None,
    undo_when: Literal["completed", "started"] = "completed",
    name: str | None = None,
    retired: bool = False,
    in_doubt_on: Collection[type[BaseException]] | None = (),
    when: When | None = None,
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
    step_timeout: float | timedelta | None = None,
    undo_when: Literal["completed", "started"] = "completed",
    name: str | None = None,
    retired: bool = False,
    in_doubt_on: Collection[type[BaseException]] | None = (),
    when: When | None = None,
) -> Wait[Any]: ...


@maker
def wait_for(*arguments: Any, **options: Any) -> Any:
    """Wait for a signal: a value that a person or a system sends.

    As a value (``documents = wait_for(Documents, timeout=timedelta(days=7))``) it only waits. It can decorate a method
    that first asks for the signal: an ordinary step with retries. The wait begins when it returns. While the saga
    waits, no function runs and nothing is locked. For later steps, the signal's value is the step's result.

    Args:
        value: the type of the signal.
        timeout: how long the saga waits, at most 365 days.
        on_timeout: what happens when no signal arrives in time: ``Exhausted.COMPENSATE`` by default,
            ``Exhausted.DEAD_LETTER`` after a pivot. With ``Exhausted.CONTINUE`` the result is ``value | None``.
        public: whether ``ctx.callback_url`` accepts a signal without AWS credentials.
        retry: the retry policy of the method.
        step_timeout: how long an attempt of the method can take: seconds or a timedelta.
        undo_when: ``"completed"`` undoes the wait if a signal arrived; ``"started"`` also if no signal arrived.
        name: the stored name, as for ``@step``.
        retired: whether new sagas skip the step, as for ``@step``.
        in_doubt_on: exception types that leave the outcome of the method in doubt, as for ``@step``.
        when: whether the saga waits, as for ``@step``. If the condition is false, the method is not called either.

    Raises:
        DefinitionError: an option is missing, unknown or out of range.
    """
    if (
        not arguments or inspect.isroutine(arguments[0]) or isinstance(arguments[0], Member)
    ):  # list[T] and a NewType are callable, too
        raise DefinitionError("wait_for: pass the type of the signal first, as in wait_for(Approval, timeout=...)")
    names = (
        *("timeout", "on_timeout", "public", "retry", "step_timeout", "undo_when", "name", "retired", "in_doubt_on"),
        "when",
    )
    _refuse_others("wait_for", arguments[1:], options, names)
    if "timeout" not in options:
        raise DefinitionError("wait_for: timeout is required (at most 365 days)")
    on_timeout = options.get("on_timeout")
    public = options.get("public", False)
    if not isinstance(on_timeout, Exhausted | None):
        raise DefinitionError(f"wait_for: on_timeout must be a member of Exhausted, not {on_timeout!r}")
    if not isinstance(public, bool):
        raise DefinitionError(f"wait_for: public must be True or False, not {public!r}")
    length = _length("wait_for", "timeout", options["timeout"])
    step_options = StepOptions(
        options.get("retry"),
        options.get("step_timeout"),
        undo_when=options.get("undo_when", "completed"),
        retired=options.get("retired", False),
        wait=WaitOptions("signal", arguments[0], length, on_timeout, public),
        name=options.get("name"),
        in_doubt_on=options.get("in_doubt_on", ()),
        when=options.get("when"),
    )
    waits: Wait[Any] = Wait(step_options)
    return waits


@overload
def sleep(
    length: timedelta, /, *, name: str | None = None, retired: bool = False, when: When | None = None
) -> Sleep: ...
@overload
def sleep(
    *, until: Callable[..., datetime], name: str | None = None, retired: bool = False, when: When | None = None
) -> Sleep: ...
@maker
def sleep(*arguments: Any, **options: Any) -> Any:
    """Wait for a time. Until then, no function runs and nothing is locked.

    Args:
        length: how long the saga waits, at most 365 days.
        until: a function that returns an aware ``datetime``, at most 365 days ahead. Its parameters are filled by name
            like a step's. The function runs once. A time in the past ends the wait at once.
        name: the stored name, as for ``@step``.
        retired: whether new sagas skip the step, as for ``@step``.
        when: whether the saga waits, as for ``@step``. If the condition is false, ``until`` is not called either.

    Raises:
        DefinitionError: neither or both of ``length`` and ``until`` are passed, or an argument has the wrong type.
    """
    _refuse_others("sleep", arguments[1:], options, ("until", "name", "retired", "when"))
    name = options.get("name")
    retired = options.get("retired", False)
    when = options.get("when")
    if bool(arguments) == ("until" in options):
        raise DefinitionError("sleep: pass either a length, as in sleep(timedelta(days=1)), or until=")
    if arguments:
        wait = WaitOptions("time", length=_length("sleep", "the length", arguments[0]))
        return Sleep(StepOptions(retired=retired, wait=wait, name=name, when=when))
    until = options["until"]
    if not callable(until) or isinstance(until, type | Member):
        raise DefinitionError(f"sleep: until must be a function that returns a datetime, not {until!r}")
    if getattr(until, "__name__", "") == "<lambda>" and not until.__annotations__:
        example = "write a function, as in def when(ready: datetime) -> datetime: return ready"
        raise DefinitionError(f"sleep: until is a lambda, which cannot have type annotations; {example}")
    wait = WaitOptions("time", until=cast("Callable[..., datetime]", until))
    return Sleep(StepOptions(retired=retired, wait=wait, name=name, when=when))
