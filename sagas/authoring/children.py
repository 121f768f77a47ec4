"""``@children``: a step that starts other sagas and waits for all of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine
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
from sagas.authoring.steps import Decorator, Step, StepOptions, WaitOptions, When, maker
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
"""The default number of children of a step that run at a time."""
MOST_BRANCHES = 20
"""The maximum number of types in one step. With several types, one child of each is started."""


class _Children(Protocol[Requests]):
    @overload
    def __call__(self, fn: Callable[Concatenate[Any, P], Coroutine[Any, Any, Requests]], /) -> Step[P, Requests]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Any, P], Requests], /) -> Step[P, Requests]: ...


class _AnyChildren(Protocol):
    def __call__(self, fn: Callable[Concatenate[Any, P], tuple[Any, ...]], /) -> Step[P, Any]: ...


class ChildrenOptions(TypedDict, total=False):
    """The options of ``@children``; its docstring explains them."""

    concurrency: int
    tolerate: int
    on_failed: Exhausted | None
    undo: Literal["parallel", "reverse"]
    retry: Retry | None
    step_timeout: float | timedelta | None
    name: str | None
    retired: bool
    in_doubt_on: Collection[type[BaseException]] | None
    when: When | None


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
    """Declare a step that starts other sagas, its children, and waits for all of them.

    With one saga class the method returns a list of requests, and one child is started for each. The step's result is
    the list of the children's results, in the same order. With several classes the method returns a tuple with one
    request for each class, and the result is the tuple of their results. The method is an ordinary step with retries.
    While the children run, no function of this saga runs and nothing is locked.

    The step fails when more than ``tolerate`` children end in a status other than COMPLETED. Children that still run
    are then cancelled, and ``on_failed`` decides what happens next. When the step is undone, children that still run
    are cancelled, and COMPLETED children run their own undos.

    Args:
        types: the saga classes.
        concurrency: the maximum number of children that run at a time.
        tolerate: how many children can fail. If more than 0, the result has ``None`` in place of each failed child.
        on_failed: what happens when more children fail: ``Exhausted.COMPENSATE`` by default, ``Exhausted.DEAD_LETTER``
            after a pivot. With ``Exhausted.CONTINUE`` the saga continues, with ``None`` in place of each failed child.
        undo: ``"parallel"`` undoes the COMPLETED children at the same time; ``"reverse"`` undoes them one at a time,
            the last to complete first.
        retry: the retry policy of the method.
        step_timeout: how long an attempt of the method can take: seconds or a timedelta.
        name: the stored name, as for ``@step``.
        retired: whether new sagas skip the step, as for ``@step``.
        in_doubt_on: exception types that leave the outcome of the method in doubt, as for ``@step``.
        when: whether the step runs, as for ``@step``. If the condition is false, the method is not called either.

    Raises:
        DefinitionError: an option is unknown or out of range, or an argument is not a saga class.
    """
    names = ChildrenOptions.__annotations__
    for name in options:
        if name not in names:
            raise DefinitionError(f'children: unknown option "{name}"; expected one of {", ".join(names)}')
    if not types or not all(isinstance(child, type) for child in types):
        raise DefinitionError("children: pass the saga classes first, as in @children(Payout, concurrency=40)")
    if len(types) > MOST_BRANCHES:
        raise DefinitionError(f"children: {len(types)} saga classes; at most {MOST_BRANCHES} are allowed")
    concurrency = _whole("concurrency", options.get("concurrency", CONCURRENCY), 1)
    tolerate = _whole("tolerate", options.get("tolerate", 0), 0)
    on_failed = options.get("on_failed")
    undo = options.get("undo", "parallel")
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
    step_options = StepOptions(
        options.get("retry"),
        options.get("step_timeout"),
        retired=options.get("retired", False),
        wait=wait,
        name=options.get("name"),
        in_doubt_on=options.get("in_doubt_on", ()),
        when=options.get("when"),
    )
    return Decorator("children", lambda function: Step(function, step_options))


def _whole(name: str, value: object, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MOST_CHILDREN:
        raise DefinitionError(f"children: {name} must be a whole number from {least} to {MOST_CHILDREN}, not {value!r}")
    return value
