"""Children, as the author writes them: a step that starts other sagas and waits for all of them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from sagas.authoring.policies import MOST_CHILDREN, Exhausted, Retry
from sagas.authoring.steps import DEFAULT_TIMEOUT, Decorator, Step, StepOptions, WaitOptions, maker
from sagas.errors import DefinitionError

if TYPE_CHECKING:
    from sagas.authoring.saga import Saga

P = ParamSpec("P")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
Requests = TypeVar("Requests")

CONCURRENCY = 40
"""Children of one step that are under way at a time, where it does not say."""
MOST_BRANCHES = 20
"""Different types of one step: there is one child of each."""


class _Children(Protocol[Requests]):
    @overload
    def __call__(self, fn: Callable[Concatenate[Any, P], Coroutine[Any, Any, Requests]], /) -> Step[P, Requests]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Any, P], Requests], /) -> Step[P, Requests]: ...


class _AnyChildren(Protocol):
    def __call__(self, fn: Callable[Concatenate[Any, P], tuple[Any, ...]], /) -> Step[P, Any]: ...


class ChildrenOptions(TypedDict, total=False):
    """What ``@children`` takes beside the saga classes; it says there what each is for."""

    concurrency: int
    tolerate: int
    on_failed: Exhausted | None
    undo: Literal["parallel", "reverse"]
    retry: Retry | None
    step_timeout: float | timedelta


@overload
def children(child: type[Saga[A]], /, **options: Unpack[ChildrenOptions]) -> _Children[list[A]]: ...
@overload
def children(
    first: type[Saga[A]], second: type[Saga[B]], /, **options: Unpack[ChildrenOptions]
) -> _Children[tuple[A, B]]: ...
@overload
def children(
    first: type[Saga[A]], second: type[Saga[B]], third: type[Saga[C]], /, **options: Unpack[ChildrenOptions]
) -> _Children[tuple[A, B, C]]: ...
@overload
def children(
    first: type[Saga[A]],
    second: type[Saga[B]],
    third: type[Saga[C]],
    fourth: type[Saga[D]],
    /,
    **options: Unpack[ChildrenOptions],
) -> _Children[tuple[A, B, C, D]]: ...
@overload
def children(
    first: type[Saga[A]],
    second: type[Saga[B]],
    third: type[Saga[C]],
    fourth: type[Saga[D]],
    fifth: type[Saga[E]],
    /,
    **options: Unpack[ChildrenOptions],
) -> _Children[tuple[A, B, C, D, E]]: ...
@overload
def children(
    first: type[Saga[Any]],
    second: type[Saga[Any]],
    third: type[Saga[Any]],
    fourth: type[Saga[Any]],
    fifth: type[Saga[Any]],
    sixth: type[Saga[Any]],
    /,
    *more: type[Saga[Any]],
    **options: Unpack[ChildrenOptions],
) -> _AnyChildren: ...
@maker
def children(*types: Any, **options: Any) -> Any:
    """Declare the decorated method a step that starts other sagas, its children, and waits for all of them.

    With one saga class the method returns a list of requests: one child is started for each, and the step's result
    is the list of their results, in the same order. With several classes it returns a tuple with one request for
    each of them, and the result is the tuple of their results. The method is an ordinary step with retries; nothing
    runs and nothing is held while the children do.

    The step has failed when more of them than ``tolerate`` end otherwise than COMPLETED: those that run are
    cancelled, and ``on_failed`` decides. When it is undone, children that run are cancelled, and those that are
    COMPLETED are compensated, by their own undos.

    Args:
        types: the saga classes.
        concurrency: how many children of the step are under way at a time, at most.
        tolerate: how many may fail. With more than 0 the result has ``None`` in the place of each that did.
        on_failed: what happens when more fail: ``Exhausted.COMPENSATE`` by default, ``Exhausted.DEAD_LETTER`` behind a
            pivot. With ``Exhausted.CONTINUE`` the saga goes on, with ``None`` in the places of those that failed.
        undo: ``"parallel"`` compensates the children that are COMPLETED at the same time, for they do not know of
            each other; ``"reverse"`` one by one, the last that completed first.
        retry: the method's policy.
        step_timeout: seconds, or a timedelta, that an attempt of the method may take.

    Raises:
        DefinitionError: an option is unknown or out of range, or what is given is no saga class.
    """
    known = ChildrenOptions.__annotations__
    for name in options:
        if name not in known:
            raise DefinitionError(f'children: unknown option "{name}"; known are {", ".join(known)}')
    if not types or not all(isinstance(one, type) for one in types):
        raise DefinitionError("children: the saga classes come first, as in @children(Payout, concurrency=40)")
    if len(types) > MOST_BRANCHES:
        raise DefinitionError(f"children: {len(types)} saga classes are given, {MOST_BRANCHES} are the most")
    concurrency = _whole("concurrency", options.get("concurrency", CONCURRENCY), 1)
    tolerate = _whole("tolerate", options.get("tolerate", 0), 0)
    on_failed, undo = options.get("on_failed"), options.get("undo", "parallel")
    if not isinstance(on_failed, Exhausted | None):
        raise DefinitionError(f"children: on_failed must be a member of Exhausted, not {on_failed!r}")
    if undo not in ("parallel", "reverse"):
        raise DefinitionError(f'children: undo must be "parallel" or "reverse", not {undo!r}')
    wait = WaitOptions(
        "children",
        on_timeout=on_failed,
        types=types,
        concurrency=concurrency,
        tolerate=tolerate,
        in_reverse=undo == "reverse",
    )
    given = StepOptions(options.get("retry"), options.get("step_timeout", DEFAULT_TIMEOUT), wait=wait)
    return Decorator("children", lambda function: Step(function, given))


def _whole(name: str, value: object, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MOST_CHILDREN:
        raise DefinitionError(f"children: {name} must be a whole number from {least} to {MOST_CHILDREN}, not {value!r}")
    return value
