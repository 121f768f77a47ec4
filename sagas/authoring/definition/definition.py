"""The frozen definition of a saga class, and its class keywords: plain data for the engine and the CDK constructs."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import Struct, field
from msgspec.structs import replace

from sagas.authoring.codec import decode, encode
from sagas.authoring.policies import (
    LONGEST_WAIT,
    MAX_TIMEOUT,
    AutoDisable,
    CircuitBreaker,
    Exhausted,
    OrphanSweep,
    Retry,
    attempt_seconds,
)
from sagas.authoring.redaction import REQUEST, Redaction
from sagas.authoring.shapes.compiler import type_name
from sagas.errors import DefinitionError, InvalidRequest, TypeChanged, listed
from sagas.paths import EACH, Place

if TYPE_CHECKING:
    from sagas.authoring.search_keys import SearchKey


class StepSource(StrEnum):
    """The source of a parameter's value."""

    REQUEST = "request"
    CONTEXT = "context"
    RESULT = "result"


class Parameter(Struct, frozen=True):
    """A parameter of a step or an undo, filled by name.

    Args:
        name: the parameter's name.
        source: where the parameter's value comes from.
        type: its resolved annotation.
        step: for ``StepSource.RESULT``, the name of the step whose result is passed.
        optional: whether the parameter is ``None`` if the saga has no such result. So it is if the annotation says
            ``None``, if the step has ``Exhausted.CONTINUE``, and for the step that an undo undoes, if the annotation
            allows ``None``.
    """

    name: str
    source: StepSource
    type: Any
    step: str | None = None
    optional: bool = False


class UndoDefinition(Struct, frozen=True):
    """The compensation of a step. The default of ``timeout`` (seconds) is the step's. ``follows_step`` says that
    ``retry`` is the step's, because neither the undo nor its class sets one. ``declares_none`` says that the return
    annotation is ``None``."""

    name: str
    function: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    retry: Retry
    timeout: float
    follows_step: bool = False
    declares_none: bool = False


class ChildrenDefinition(Struct, frozen=True):
    """The children that a step starts.

    Args:
        sagas: the type of all children, or one type per child.
        requests: the return type of the step's code: the requests of the children.
        several: whether each child has its own type.
        concurrency: the maximum number of children that run at a time.
        tolerate: the number of children that can fail.
        in_reverse: whether children are undone one at a time, the last to complete first.
    """

    sagas: tuple[SagaDefinition, ...]
    requests: Any
    several: bool
    concurrency: int
    tolerate: int
    in_reverse: bool

    @property
    def hidden(self) -> list[Place]:
        """The redacted places in the step's result, as declared by the types of the children."""
        items = [f"[{number}]" if self.several else EACH for number in range(len(self.sagas))]
        return [
            (item, *place)
            for item, saga in zip(items, self.sagas, strict=True)
            for place in saga.redaction.places.get(saga.result_step.name, ())
        ]


class Condition(Struct, frozen=True):
    """Whether a step runs: its ``when=`` (rule 21).

    Args:
        name: the condition in texts: ``large()``, or the name of the step whose result it is.
        function: called with the parameters, by name; returns a bool.
        parameters: the request and earlier results that it takes.
    """

    name: str
    function: Callable[..., bool]
    parameters: tuple[Parameter, ...]


class StepDefinition(Struct, frozen=True):
    """One step: its code, its inputs by name, and its policies. ``timeout`` in seconds.

    For a wait, ``waits_for`` is its kind, ``wait`` its length in seconds, and ``signal_type`` the type of the signal.
    ``asks`` says whether the wait has code of its own, which is in ``function``. If ``when`` is false, the step is
    skipped. ``children`` are the sagas that a step starts. For these steps, ``on_timeout`` is the policy for failed
    children. Another step can raise ``NotYet`` for ``within`` seconds; after that, ``on_timeout`` is its policy.
    Nothing is undone after the ``pivot``. ``in_doubt_on`` are the exception types that leave its outcome in doubt, in
    addition to those of the usual clients; with ``None``, no exception does.
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
    within: float = 86_400.0
    children: ChildrenDefinition | None = None
    pivot: bool = False
    in_doubt_on: tuple[type[BaseException], ...] | None = ()
    when: Condition | None = None

    @property
    def inputs(self) -> tuple[Parameter, ...]:
        """What the step takes: the parameters of its code, and of the condition on which it runs."""
        return self.parameters if self.when is None else (*self.parameters, *self.when.parameters)

    @property
    def has_attempts(self) -> bool:
        """Whether the step begins with an attempt: it has code of its own, or a condition. Other waits begin on their
        own."""
        return self.asks or self.when is not None

    @property
    def has_lane(self) -> bool:
        """Whether the step has code, and so needs a queue and a function."""
        return self.has_attempts or self.undo is not None

    @property
    def returned_type(self) -> Any:
        """The return type of the step's code: the result of a step, the end of a sleep, or the requests of children."""
        if self.children is not None:
            return self.children.requests
        return {"": self.result_type, "signal": type(None), "time": datetime}[self.waits_for]

    @property
    def longest_timeout(self) -> float:
        """The longer of the timeouts of the step and its undo, in seconds."""
        return max(self.timeout, self.undo.timeout if self.undo else 0.0)

    def code(self, *, undo: bool) -> StepDefinition | UndoDefinition:
        """Return the step itself or its undo."""
        if undo and self.undo is None:
            raise LookupError(f"step {self.name!r} has no compensation")
        return self.undo if undo and self.undo else self


DEFINITION = "__saga_definition__"
"""The attribute of a saga class that holds its definition."""


class SagaDefinition(Struct, frozen=True):
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
    find_by: tuple[SearchKey, ...] = ()
    upcast: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict[str, Callable[[Any], Any]])

    @property
    def children(self) -> tuple[SagaDefinition, ...]:
        """The types that steps of this type start."""
        return tuple(child for step in self.steps if step.children is not None for child in step.children.sagas)

    @property
    def family(self) -> tuple[SagaDefinition, ...]:
        """All types that this type starts, directly or through its children, each once."""
        types: dict[str, SagaDefinition] = {}
        for child in self.children:
            types |= {saga.name: saga for saga in (child, *child.family)}
        return tuple(types.values())

    @property
    def depth(self) -> int:
        """The number of levels of sagas: 1 without children."""
        return 1 + max((child.depth for child in self.children), default=0)

    @property
    def result_step(self) -> StepDefinition:
        """The step whose result is the saga's result."""
        current = [step for step in self.steps if not step.retired]
        return next((step for step in current if self.result in (step.result, step.name)), current[-1])

    @property
    def works_now(self) -> bool:
        """Whether sagas of this type wait. Waits end without the author's code, through the service's queue ``now``."""
        return any(step.waits_for for step in self.steps)

    @property
    def has_code(self) -> bool:
        """Whether a step has code or an undo. If not, the type needs no function, and its class no instance."""
        return any(step.has_lane for step in self.steps)

    def step(self, name: str) -> StepDefinition:
        """Return the step with this name."""
        for step in self.steps:
            if step.name == name:
                return step
        raise KeyError(name)

    def stored(self, source: str, data: Any, misfit: str = "") -> Any:
        """Return a stored value as a value of the deployed type, and apply ``upcast`` if it does not fit. ``source`` is
        ``"request"`` or the step that returned the value. A ``misfit`` is a reason why it does not fit, whatever its
        type. Raises TypeChanged for a value that cannot be read."""
        type_ = self.request_type if source == REQUEST else self.step(source).result_type
        whose = "the request" if source == REQUEST else f"the result of step {source!r}"
        try:
            if not misfit:
                return decode(data, type_)
        except InvalidRequest as error:
            misfit = listed(error.problems)
        mismatch = f"{whose} no longer matches {type_name(type_)}: {misfit}"
        if source not in self.upcast:
            raise TypeChanged(mismatch)
        try:
            return decode(encode(self.upcast[source](data), type_), type_)
        except InvalidRequest as error:
            fault = f"{whose} does not match {type_name(type_)} after its upcast: {listed(error.problems)}"
            raise TypeChanged(fault) from None
        except (Exception, SystemExit) as error:
            # Report only the type: the text could quote the value. The stack trace has it, redacted.
            raise TypeChanged(f"{mismatch}; its upcast raised {type(error).__name__}") from error

    def with_default(self, auto_disable: AutoDisable | None) -> SagaDefinition:
        """Return the definition with the service's ``auto_disable``, unless the class declares its own."""
        return self if self.auto_disable is not None else replace(self, auto_disable=auto_disable)

    @property
    def prefix(self) -> str:
        """The S3 prefix of the saga's objects, ending in a slash."""
        return self.orphans.prefix if self.orphans is not None else f"{self.name}/"


def definition_of(cls: type[Any]) -> SagaDefinition:
    """Return what a saga class declares."""
    definition = vars(cls).get(DEFINITION) if isinstance(cls, type) else None  # pyright: ignore[reportUnnecessaryIsInstance] -- callers hand over what an app module holds
    if not isinstance(definition, SagaDefinition):
        name = getattr(cls, "__name__", repr(cls))
        raise DefinitionError(
            f"{name} is not a saga class: it does not derive from Saga[...], or serves only as a base"
        )
    return definition


class SagaOptions(Struct, frozen=True):
    """The class keywords of a saga, checked. ``saga_class`` is the class's name, for error messages."""

    saga_class: str
    name: str
    version: str = "1"
    lock_expiry: timedelta = timedelta(minutes=5)
    max_recovery_attempts: int = 5
    auto_disable: AutoDisable | None = None
    orphans: OrphanSweep | None = None
    stale_after: timedelta = timedelta(minutes=2)
    timeout: timedelta | None = None
    retry: Retry | None = None
    undo_retry: Retry | None = None
    step_timeout: float | timedelta | None = None
    result: str | None = None
    cancellable: bool = True
    in_doubt_on: Collection[type[BaseException]] = ()
    redact: Sequence[str] = ()
    find_by: Mapping[str, str] = field(default_factory=dict[str, str])
    upcast: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict[str, Callable[[Any], Any]])

    def __post_init__(self) -> None:
        for keyword, valid, what in _RULES:
            value: object = getattr(self, keyword)
            if not valid(value):
                raise DefinitionError(
                    f'{self.saga_class} (saga "{self.name}"): the class keyword {keyword} must be {what}, not {value!r}'
                )


def is_step_name(text: str) -> bool:
    """Whether a step of some release can have this name."""
    return text.isidentifier() and text.isascii() and len(text) <= 40


OPTION_NAMES = tuple(name for name in SagaOptions.__struct_fields__ if name != "saga_class")


def is_exception_types(value: object) -> bool:
    """Whether a value is a list, or another collection, of exception types."""
    types = cast("Collection[object]", value) if isinstance(value, Collection) else [None]
    return all(isinstance(type_, type) and issubclass(type_, BaseException) for type_ in types)


def _is_positive(value: object) -> bool:
    return isinstance(value, timedelta) and value > timedelta(0)


def _is_paths(value: object) -> bool:
    paths = cast("list[object]", value) if isinstance(value, list | tuple) else [None]
    return all(isinstance(path, str) for path in paths)


def _is_find_by(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    paths = cast("dict[object, object]", value)
    return all(isinstance(text, str) for text in (*paths, *paths.values()))


_RULES: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    (
        "name",
        lambda it: isinstance(it, str) and re.fullmatch("(?!commands$)[a-z][a-z0-9-]{0,39}", it) is not None,
        "1 to 40 characters of a-z, 0-9 and '-', starting with a letter, and not 'commands', the command queue",
    ),
    (
        "version",
        lambda it: isinstance(it, str) and 1 <= len(it) <= 100 and it.isprintable(),
        "a printable string of 1 to 100 characters",
    ),
    ("lock_expiry", _is_positive, "a positive timedelta"),
    ("stale_after", _is_positive, "a positive timedelta"),
    (
        "max_recovery_attempts",
        lambda it: isinstance(it, int) and not isinstance(it, bool) and 0 <= it <= 1_000,
        "a whole number from 0 to 1000",
    ),
    ("auto_disable", lambda it: isinstance(it, AutoDisable | None), "an AutoDisable or None"),
    (
        "timeout",
        lambda it: it is None or (_is_positive(it) and it <= LONGEST_WAIT),
        "a positive timedelta of at most 365 days, or None",
    ),
    ("retry", lambda it: isinstance(it, Retry | None), "a Retry or None"),
    (
        "undo_retry",
        lambda it: it is None or (isinstance(it, Retry) and it.on_exhausted is None),
        "a Retry without on_exhausted, or None",
    ),
    (
        "step_timeout",
        lambda it: it is None or attempt_seconds(it) is not None,
        f"seconds or a timedelta, more than 0 and at most {MAX_TIMEOUT} seconds, or None",
    ),
    ("result", lambda it: isinstance(it, str | None), "the name of a step's result, or None"),
    ("orphans", lambda it: isinstance(it, OrphanSweep | None), "an OrphanSweep or None"),
    ("cancellable", lambda it: isinstance(it, bool), "True or False"),
    ("in_doubt_on", is_exception_types, "a list of exception types, as in in_doubt_on=[BadGateway]"),
    ("redact", _is_paths, "a list of paths like $.request.card.number"),
    ("upcast", lambda it: isinstance(it, Mapping), 'a dict of functions like {"request": order_before_3}'),
    ("find_by", _is_find_by, 'a dict of names and paths like {"customer": "$.customer.id"}'),
)
"""For each keyword: a test for valid values, and their description for error messages."""


def kebab(class_name: str) -> str:
    """Return a class name in kebab-case: ``CreateZip`` -> ``create-zip``, ``HTTPProxy`` -> ``http-proxy``."""
    words = re.sub(r"([a-z0-9])([A-Z])|([A-Z])(?=[A-Z][a-z])", r"\1\3-\2", class_name)
    return words.strip("_").replace("_", "-").lower()
