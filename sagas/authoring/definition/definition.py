"""The frozen result of declaring a saga class. Plain data: the engine and the CDK constructs read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal

from sagas.authoring.find_by import FindBy
from sagas.authoring.policies import AutoDisable, CircuitBreaker, Exhausted, OrphanSweep, Retry
from sagas.authoring.redaction import Redaction
from sagas.paths import EACH, Place

KINDS = {"": "a step", "signal": "a wait for a signal", "time": "a wait for a time", "children": "a step of children"}
"""What a step is, by what it waits for."""


class Source(StrEnum):
    """Where the value of a parameter comes from."""

    REQUEST = "request"
    CONTEXT = "context"
    RESULT = "result"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a step or an undo, as it is filled by name.

    Args:
        name: the parameter's name.
        source: what fills it.
        type: its resolved annotation.
        step: for ``Source.RESULT``, the name of the step whose result it is.
        optional: the result may be absent: that of the undo's own step, if the annotation allows it, or that of a step
            without which the saga goes on (``Exhausted.CONTINUE``).
    """

    name: str
    source: Source
    type: Any
    step: str | None = None
    optional: bool = False


@dataclass(frozen=True, slots=True)
class UndoDefinition:
    """The compensation of a step. ``retry`` and ``timeout`` (seconds) are already the step's where it named none.
    ``declares_none``: its annotation says that it returns ``None``."""

    name: str
    function: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    retry: Retry
    timeout: float
    declares_none: bool = False


@dataclass(frozen=True, slots=True)
class ChildrenDefinition:
    """The children that a step starts.

    Args:
        sagas: the types: of all children, or of each.
        requests: the type of what its code returns: their requests.
        several: each child has a type of its own.
        concurrency: how many are under way at a time, at most.
        tolerate: how many may fail.
        in_reverse: they are undone one by one, the last that completed first.
    """

    sagas: tuple[SagaDefinition, ...]
    requests: Any
    several: bool
    concurrency: int
    tolerate: int
    in_reverse: bool

    @property
    def hidden(self) -> list[Place]:
        """What of the step's result is not shown, as the children's own types say of theirs."""
        items = [f"[{number}]" if self.several else EACH for number in range(len(self.sagas))]
        return [
            (item, *place)
            for item, saga in zip(items, self.sagas, strict=True)
            for place in saga.redaction.places.get(saga.result_step.name, ())
        ]


@dataclass(frozen=True, slots=True)
class StepDefinition:
    """One step: its code, its inputs by name, its policies. ``timeout`` in seconds.

    Of a wait: ``waits_for`` says for what, ``asks`` whether it has code at all (then ``function`` is it), ``wait`` how
    many seconds it waits, ``signal_type`` what it takes, ``children`` which sagas it starts (then ``on_timeout`` is
    what happens when they fail). ``patience``: seconds for which a step may say that it is not yet time. ``pivot``:
    behind it nothing is undone.
    """

    name: str
    function: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    result: str
    result_type: Any
    retry: Retry
    timeout: float
    on_exhausted: Exhausted = Exhausted.COMPENSATE
    circuit_breaker: CircuitBreaker | None = None
    undo: UndoDefinition | None = None
    undo_when: Literal["completed", "started"] = "completed"
    retired: bool = False
    waits_for: Literal["", "signal", "time", "children"] = ""
    asks: bool = True
    wait: float = 0.0
    on_timeout: Exhausted = Exhausted.COMPENSATE
    public: bool = False
    signal_type: Any = None
    patience: float = 86_400.0
    children: ChildrenDefinition | None = None
    pivot: bool = False

    @property
    def has_lane(self) -> bool:
        """Whether any code belongs to it, which takes a queue and a function."""
        return self.asks or self.undo is not None

    @property
    def returned_type(self) -> Any:
        """What its code returns: its result, but of a wait the moment until which it waits, or nothing, or requests."""
        if self.children is not None:
            return self.children.requests
        return {"": self.result_type, "signal": type(None), "time": datetime}[self.waits_for]

    def code(self, *, undo: bool) -> StepDefinition | UndoDefinition:
        """Return what runs: the step itself, or its undo."""
        if undo and self.undo is None:
            raise LookupError(f"the step {self.name!r} has no undo")
        return self.undo if undo and self.undo else self


DEFINITION = "__saga_definition__"
"""The attribute of a saga class that has its definition."""


@dataclass(frozen=True, slots=True)
class SagaDefinition:
    """A saga type. ``steps`` are in execution order."""

    name: str
    version: str
    saga_class: type[Any]
    request_type: Any
    steps: tuple[StepDefinition, ...]
    lock_expiry: timedelta
    stale_after: timedelta
    max_recovery_attempts: int
    auto_disable: AutoDisable | None
    orphans: OrphanSweep | None
    description: str
    cancellable: bool = True
    redaction: Redaction = field(default_factory=Redaction)
    timeout: timedelta | None = None
    result: str | None = None
    find_by: tuple[FindBy, ...] = ()

    @property
    def children(self) -> tuple[SagaDefinition, ...]:
        """The types that its steps start."""
        return tuple(child for step in self.steps if step.children is not None for child in step.children.sagas)

    @property
    def family(self) -> tuple[SagaDefinition, ...]:
        """All types that are started by it, or by what it starts, each once."""
        found: dict[str, SagaDefinition] = {}
        for child in self.children:
            found |= {one.name: one for one in (child, *child.family)}
        return tuple(found.values())

    @property
    def depth(self) -> int:
        """How many sagas deep it is: 1 without children."""
        return 1 + max((child.depth for child in self.children), default=0)

    @property
    def result_step(self) -> StepDefinition:
        """The step whose result is the saga's."""
        current = [step for step in self.steps if not step.retired]
        return next((step for step in current if self.result in (step.result, step.name)), current[-1])

    @property
    def works_now(self) -> bool:
        """Whether some of what its sagas do takes no code, but the service's own queue ``now``: they wait."""
        return any(step.waits_for for step in self.steps)

    def step(self, name: str) -> StepDefinition:
        """Return the step of that name."""
        for step in self.steps:
            if step.name == name:
                return step
        raise KeyError(name)

    def with_default(self, auto_disable: AutoDisable | None) -> SagaDefinition:
        """Return it with the service's ``auto_disable``, if it declares none."""
        return self if self.auto_disable is not None else replace(self, auto_disable=auto_disable)

    @property
    def prefix(self) -> str:
        """The S3 prefix of the saga's objects, ending in a slash."""
        return self.orphans.prefix if self.orphans is not None else f"{self.name}/"
