"""Every way to declare a saga wrongly ends in a DefinitionError that says where and why."""

from __future__ import annotations

import textwrap
from typing import Any, cast

import pytest

from sagas import DefinitionError
from sagas.authoring.definition.definition import definition_of

PRELUDE = """
from __future__ import annotations
import functools, typing
from abc import ABC, abstractmethod
from dataclasses import dataclass, InitVar
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar
from sagas import *
T = TypeVar("T")
if TYPE_CHECKING:
    from decimal import Decimal
@dataclass
class Req:
    x: int
"""

FUTURE = "from __future__ import annotations\n"


def create(source: str, *, postponed: bool = True) -> dict[str, object]:
    prelude = PRELUDE if postponed else PRELUDE.replace(FUTURE, "")
    names: dict[str, object] = {"__name__": __name__}
    exec(prelude + textwrap.dedent(source), names)  # noqa: S102 -- the sources are below
    return names


def saga(body: str, head: str = "Saga[Req]") -> str:
    return f"class Ship({head}):\n" + textwrap.indent(textwrap.dedent(body), "    ")


GOOD = """
@step
def book(self, request: Req, ctx: Context) -> int: ...
"""

LOUD = """
def loud(f):
    def called(*given): return f(*given)
    return called
"""

BODIES: dict[str, tuple[str, list[str]]] = {
    "no steps": ("pass", ["no steps"]),
    "only retired": ("@step(retired=True)\ndef a(self) -> int: ...", ["no steps"]),
    "duplicate step": (GOOD + GOOD, ['"book"', "twice"]),
    "helper replaced by a step": ("def book(self) -> int: ...\n" + GOOD, ['"book"', "twice"]),
    "step replaced by an attribute": (GOOD + "book = 1", ['"book"', "twice"]),
    "undo named like a step": (
        GOOD + "@book.compensate\ndef book(self) -> None: ...",
        ['"book"', "twice"],
    ),
    "one step under two names": (GOOD + "other = book", ['"other"', '"book"']),
    "unknown name": (
        "@step\ndef book(self, flight: int) -> int: ...",
        ['step "book"', 'parameter "flight"', "unknown", "request, ctx"],
    ),
    "own result": ("@step\ndef book(self, book: int) -> int: ...", ['parameter "book"', "not an earlier step"]),
    "later name": (
        "@step\ndef a(self, b: int) -> int: ...\n@step\ndef b(self) -> int: ...",
        ['step "a"', 'parameter "b"', "not an earlier step"],
    ),
    "later name in an undo": (
        GOOD + "@book.compensate\ndef undo(self, b: int) -> None: ...\n@step\ndef b(self) -> int: ...",
        ['step "book"', 'compensation "undo"', 'parameter "b"', "not an earlier step"],
    ),
    "renamed result": (
        "@step(result='seat')\ndef a(self) -> int: ...\n@step\ndef b(self, a: int) -> int: ...",
        ['parameter "a"', '"seat"'],
    ),
    "called request": ("@step\ndef request(self) -> int: ...", ['step "request"', "reserved"]),
    "called ctx": ("@step\ndef ctx(self) -> int: ...", ['step "ctx"', "reserved"]),
    "called like a member": ("@step\ndef create(self) -> int: ...", ['step "create"', "member of Saga"]),
    "called like a special method": ("@step\ndef __call__(self) -> int: ...", ["member of Saga"]),
    "called like a later member": ("@step\ndef on_orphans(self) -> int: ...", ["member of Saga"]),
    "undo called like a member": (GOOD + "@book.compensate\ndef create(self) -> None: ...", ['"create"', "member"]),
    "name too long": (f"@step\ndef {'a' * 41}(self) -> int: ...", ["at most 40"]),
    "name not ASCII": ("@step\ndef größe(self) -> int: ...", ["größe", "ASCII"]),
    "unannotated": ("@step\ndef book(self, request) -> int: ...", ['parameter "request"', "add a type annotation"]),
    "positional-only": ("@step\ndef book(self, request: Req, /) -> int: ...", ["positional-only", '"request"']),
    "starred": ("@step\ndef book(self, *request: Req) -> int: ...", ["*args", '"request"']),
    "double starred": ("@step\ndef book(self, **request: Req) -> int: ...", ["*args", '"request"']),
    "default": ("@step\ndef book(self, request: Req = None) -> int: ...", ["default", '"request"']),
    "no self": ("@step\ndef book() -> int: ...", ['step "book"', "missing 'self'"]),
    "generator": ("@step\ndef book(self) -> int:\n    yield 1", ['step "book"', "generator"]),
    "no return annotation": ("@step\ndef book(self): ...", ['step "book"', "return annotation"]),
    "unresolved": ("@step\ndef book(self, request: Nowhere) -> int: ...", ['parameter "request"', "Nowhere"]),
    "type checking only": ("@step\ndef book(self) -> Decimal: ...", ["return value", "Decimal", "TYPE_CHECKING"]),
    "not an expression": ("@step\ndef book(self, request: 'list[') -> int: ...", ["cannot be resolved"]),
    "request of another type": (
        "@step\ndef book(self, request: str) -> int: ...",
        ["cannot hold the request of type Req"],
    ),
    "ctx of another type": ("@step\ndef book(self, ctx: str) -> int: ...", ['"ctx"', "Context"]),
    "result of another type": (
        GOOD + "@step\ndef pay(self, book: str) -> int: ...",
        ['step "pay"', 'parameter "book"', "cannot hold", "int"],
    ),
    "unsupported result": ("@step\ndef book(self) -> complex: ...", ['step "book"', "unsupported", "complex"]),
    "unsupported within": ("@step\ndef book(self) -> list[set[list[int]]]: ...", ["unsupported", "hashable"]),
    "ambiguous union": ("@step\ndef book(self) -> str | date: ...", ["unsupported", "be distinguished"]),
    "two undos": (
        GOOD + "@book.compensate\ndef a(self) -> None: ...\n@book.compensate\ndef b(self) -> None: ...",
        ['step "book"', "two compensations", '"a"', '"b"'],
    ),
    "undo returns": (GOOD + "@book.compensate\ndef a(self) -> int: ...", ['compensation "a"', "returns int"]),
    "same result": (
        "@step(result='r')\ndef a(self) -> int: ...\n@step(result='r')\ndef b(self) -> int: ...",
        ['"r"', 'step "b"', 'step "a"'],
    ),
    "result named like a step": (GOOD + "@step(result='book')\ndef b(self) -> int: ...", ['"book"', 'step "b"']),
    "result named ctx": ("@step(result='ctx')\ndef b(self) -> int: ...", ['"ctx"', 'step "b"']),
    "result no identifier": ("@step(result='a b')\ndef b(self) -> int: ...", ["identifier", 'step "b"']),
    "timeout too long": ("@step(timeout=891)\ndef b(self) -> int: ...", ['step "b"', "timeout", "890"]),
    "timeout of zero": ("@step(timeout=0)\ndef b(self) -> int: ...", ['step "b"', "timeout"]),
    "timeout no number": ("@step(timeout='9')\ndef b(self) -> int: ...", ['step "b"', "timeout"]),
    "timeout NaN": ("@step(timeout=float('nan'))\ndef b(self) -> int: ...", ['step "b"', "timeout"]),
    "timeout over a timedelta": (
        "@step(timeout=timedelta(minutes=15))\ndef b(self) -> int: ...",
        ['step "b"', "timeout", "890 seconds"],
    ),
    "an __init__ without its arguments": (
        GOOD + "def __init__(self, table: str, *, region: str, retries: int = 3) -> None: ...",
        ["__init__ needs table, region;", "override the classmethod create()"],
    ),
    "undo timeout of zero": (
        GOOD + "@book.compensate(timeout=0)\ndef u(self) -> None: ...",
        ['compensation "u"', "timeout"],
    ),
    "retries too long": (
        "@step(retry=Retry.constant(max_retries=15, delay=86400))\ndef b(self) -> int: ...",
        ['step "b"', "14 days"],
    ),
    "exponential too long": (
        "@step(retry=Retry.exponential(max_retries=1000))\ndef b(self) -> int: ...",
        ['step "b"', "14 days"],
    ),
    "on_exhausted of an undo": (
        GOOD
        + "@book.compensate(retry=Retry.constant(on_exhausted=Exhausted.DEAD_LETTER))\n"
        + "def undo(self) -> None: ...",
        ['step "book"', 'compensation "undo"', "on_exhausted", "operator"],
    ),
    "a second pivot": (
        "@step(pivot=True)\ndef a(self) -> int: ...\n@step(pivot=True)\ndef b(self) -> int: ...",
        ['step "b"', "only one pivot", '"a"'],
    ),
    "a pivot with an undo": (
        "@step(pivot=True)\ndef a(self) -> int: ...\n@a.compensate\ndef u(self) -> None: ...",
        ['step "a"', 'compensation "u"', "point of no return"],
    ),
    "a pivot that may be passed": (
        "@step(pivot=True, within=timedelta(days=1), retry=Retry.constant(on_exhausted=Exhausted.CONTINUE))\n"
        + "def a(self) -> int | None: ...",
        ['step "a"', "Exhausted.CONTINUE", "cannot continue without it"],
    ),
    "a pivot that may time out": (
        "@step(pivot=True, within=timedelta(days=1), on_timeout=Exhausted.CONTINUE)\ndef a(self) -> int | None: ...",
        ['step "a"', "Exhausted.CONTINUE", "cannot continue without it"],
    ),
    "on_timeout without within": (
        "@step(on_timeout=Exhausted.FAIL)\ndef a(self) -> int: ...",
        ['step "a": on_timeout= needs within='],
    ),
    "on_timeout is no policy": (
        "@step(within=timedelta(days=1), on_timeout='FAIL')\ndef a(self) -> int: ...",
        ["step \"a\": on_timeout must be a member of Exhausted, not 'FAIL'"],
    ),
    "on_timeout that goes on without a result": (
        "@step(within=timedelta(days=1), on_timeout=Exhausted.CONTINUE)\ndef a(self) -> int: ...",
        ['step "a"', 'its result must be annotated "... | None"'],
    ),
    "a poll that fails after a pivot": (
        "@step(pivot=True)\ndef a(self) -> int: ...\n"
        + "@step(within=timedelta(days=1), on_timeout=Exhausted.FAIL)\ndef b(self) -> int: ...",
        ['step "b"', "on_timeout", 'after the pivot "a"', "not FAIL"],
    ),
    "pivot is no bool": ("@step(pivot='yes')\ndef a(self) -> int: ...", ['step "a"', "pivot", "True or False"]),
    "an undo after a pivot": (
        "@step(pivot=True)\ndef a(self) -> int: ...\n@step\ndef b(self) -> int: ...\n"
        + "@b.compensate\ndef u(self) -> None: ...",
        ['step "b"', 'compensation "u"', 'after the pivot "a"'],
    ),
    "COMPENSATE after a pivot": (
        "@step(pivot=True)\ndef a(self) -> int: ...\n"
        + "@step(retry=Retry.constant(on_exhausted=Exhausted.COMPENSATE))\ndef b(self) -> int: ...",
        ['step "b"', "on_exhausted", 'after the pivot "a"', "DEAD_LETTER or CONTINUE", "not COMPENSATE"],
    ),
    "FAIL after a pivot": (
        "@step(pivot=True)\ndef a(self) -> int: ...\n"
        + "@step(retry=Retry.constant(on_exhausted=Exhausted.FAIL))\ndef b(self) -> int: ...",
        ['step "b"', "on_exhausted", 'after the pivot "a"', "not FAIL"],
    ),
    "a wait that fails after a pivot": (
        "@step(pivot=True)\ndef a(self) -> int: ...\n"
        + "b = wait_for(int, timeout=timedelta(days=1), on_timeout=Exhausted.COMPENSATE)",
        ['step "b"', "on_timeout", 'after the pivot "a"', "not COMPENSATE"],
    ),
    "retry no Retry": ("@step(retry=3)\ndef b(self) -> int: ...", ['step "b"', "retry"]),
    "breaker no CircuitBreaker": ("@step(circuit_breaker=3)\ndef b(self) -> int: ...", ['step "b"', "circuit_breaker"]),
    "undo_when": ("@step(undo_when='never')\ndef b(self) -> int: ...", ['step "b"', "undo_when"]),
    "undo_when without optional": (
        "@step(undo_when='started')\ndef b(self) -> int: ...\n@b.compensate\ndef u(self, b: int) -> None: ...",
        ['compensation "u"', 'parameter "b"', "| None"],
    ),
    "within without optional": (
        "@step(within=timedelta(1))\ndef b(self) -> int: ...\n@b.compensate\ndef u(self, b: int) -> None: ...",
        ['compensation "u"', 'parameter "b"', "| None", "within=", "never completed"],
    ),
    "result of a retired step": (
        "@step(retired=True)\ndef a(self) -> int: ...\n@step\ndef b(self, a: int) -> int: ...",
        ['parameter "a"', "retired"],
    ),
    "decorated twice": ("@step\n@step\ndef a(self) -> int: ...", ["decorate a method"]),
    "annotated with a value": (
        "@step\ndef book(self, request: 3) -> int: ...",
        ['parameter "request"', "3, which is not a type"],
    ),
    "annotated with a list": ("@step\ndef book(self) -> [int]: ...", ['step "book"', "which is not a type"]),
    "a step under another decorator": (
        GOOD + "@functools.cache\n@step\ndef pay(self) -> int: ...",
        ['"pay"', "a decorator above it hides the step"],
    ),
    "a step under a decorator that wraps": (
        "def loud(f):\n    @functools.wraps(f)\n    def called(*given): return f(*given)\n    return called\n"
        + GOOD
        + "@loud\n@step\ndef pay(self) -> int: ...",
        ['"pay"', "hides the step"],
    ),
    "a static step": (GOOD + "@staticmethod\n@step\ndef pay() -> int: ...", ['"pay"', "hides the step"]),
    "a property over a wait": (
        GOOD + "@property\n@wait_for(int, timeout=timedelta(1))\ndef ask(self) -> None: ...",
        ['"ask"', "hides the step"],
    ),
    "an undo under another decorator": (
        GOOD + "@functools.cached_property\n@book.compensate\ndef undo(self) -> None: ...",
        ['"undo"', "hides the compensation"],
    ),
    "a class method as an undo": (
        GOOD + "@classmethod\n@book.compensate\ndef undo(self) -> None: ...",
        ['"undo"', "hides the compensation"],
    ),
    "a step under a decorator that leaves no trace": (
        LOUD + GOOD + "@loud\n@step\ndef pay(self) -> int: ...",
        ['"pay"', "hides the step"],
    ),
    "an undo under one": (
        LOUD + GOOD + "@loud\n@book.compensate\ndef undo(self) -> None: ...",
        ['"undo"', "hides the compensation"],
    ),
    "a step with options under one": (
        LOUD + GOOD + "@loud\n@step(timeout=3)\ndef pay(self) -> int: ...",
        ['"pay"', "hides the step"],
    ),
    "a wait under one": (
        LOUD + GOOD + "@loud\n@wait_for(int, timeout=timedelta(1))\ndef ask(self) -> None: ...",
        ['"ask"', "hides the step"],
    ),
    "children under one": (
        LOUD + GOOD + "@loud\n@children(Saga)\ndef parts(self) -> list[int]: ...",
        ['"parts"', "hides the step"],
    ),
    "a step under a class that calls it": (
        "class Timed:\n    def __init__(self, f): self.f = f\n    def __call__(self, *given): return self.f(*given)\n"
        + GOOD
        + "@Timed\n@step\ndef pay(self) -> int: ...",
        ['"pay"', "hides the step"],
    ),
    "a step that a function of the author makes, and nothing keeps": (
        "def declared(f):\n    step(f)\n    return f\n" + GOOD + "@declared\ndef pay(self) -> int: ...",
        ['"pay"', "hides the step"],
    ),
    "a step in a list": (GOOD + "steps = [step(lambda self: 1)]", ["hides the step"]),
    "a decorator under one that drops it": (
        LOUD + GOOD + "pay = loud(step(timeout=3))",
        ["step(...) must decorate a method"],
    ),
    "a wait without a name": (GOOD + "wait_for(int, timeout=timedelta(1))", ["a wait has no name; assign it"]),
    "a sleep without a name": (GOOD + "sleep(timedelta(1))", ["a sleep has no name; assign it"]),
    "decorated static": ("@step\n@staticmethod\ndef a() -> int: ...", ["decorate a method"]),
}


@pytest.mark.parametrize(("body", "fragments"), BODIES.values(), ids=BODIES.keys())
def test_a_wrong_body_is_refused(body: str, fragments: list[str]) -> None:
    with pytest.raises(DefinitionError) as caught:
        create(saga(body))
    text = str(caught.value)
    assert all(fragment in text for fragment in fragments), text
    assert "decorate a method" in text or ("Ship" in text and '"ship"' in text)


def test_a_step_that_a_mixin_hides_is_refused() -> None:
    source = "class Paid:\n" + textwrap.indent(LOUD + "@loud\n@step\ndef pay(self) -> int: ...", "    ")
    with pytest.raises(DefinitionError, match='"pay": a decorator above it hides the step'):
        create(source + "\n" + saga(GOOD, "Paid, Saga[Req]"))


def test_members_that_functions_make_have_names() -> None:
    """A decorator of the author's own, a loop, and one decorator for several methods."""
    body = """
def declared(f):
    return step(f)

@declared
def book(self, request: Req) -> int: ...

quick = step(timeout=3)

@quick
def pay(self) -> int: ...

@quick
def ship(self) -> int: ...

for place in range(2):
    def more(self) -> int: ...
    locals()[f"more_{place}"] = step(more)
del more
"""
    ship = create(saga(body))["Ship"]
    assert [one.name for one in definition_of(cast("type[Any]", ship)).steps] == [
        "book",
        "pay",
        "ship",
        "more_0",
        "more_1",
    ]


HEADS: dict[str, tuple[str, list[str]]] = {
    "unknown keyword": ("Saga[Req], retires=3", ["retires", "unknown class keyword", "lock_expiry"]),
    "name with capitals": ("Saga[Req], name='Ship'", ["name", "Ship"]),
    "name too long": (f"Saga[Req], name='{'a' * 41}'", ["name", "40"]),
    "name empty": ("Saga[Req], name=''", ["name"]),
    "name from a digit": ("Saga[Req], name='1a'", ["name"]),
    "name no string": ("Saga[Req], name=3", ["name"]),
    "name of the command queue": ("Saga[Req], name='commands'", ["name", "command queue"]),
    "version": ("Saga[Req], version=1", ["version"]),
    "lock_expiry": ("Saga[Req], lock_expiry=30", ["lock_expiry", "timedelta"]),
    "lock_expiry of zero": ("Saga[Req], lock_expiry=timedelta(0)", ["lock_expiry"]),
    "retry": ("Saga[Req], retry=3", ["class keyword retry", "Retry"]),
    "undo_retry": ("Saga[Req], undo_retry=3", ["class keyword undo_retry", "Retry"]),
    "undo_retry that undoes": (
        "Saga[Req], undo_retry=Retry.linear(on_exhausted=Exhausted.FAIL)",
        ["class keyword undo_retry", "without on_exhausted"],
    ),
    "step_timeout": ("Saga[Req], step_timeout=891", ["class keyword step_timeout", "890 seconds"]),
    "stale_after": ("Saga[Req], stale_after=None", ["stale_after"]),
    "max_recovery_attempts": ("Saga[Req], max_recovery_attempts=True", ["max_recovery_attempts"]),
    "auto_disable": ("Saga[Req], auto_disable=True", ["auto_disable"]),
    "cancellable": ("Saga[Req], cancellable=0", ["cancellable", "True or False"]),
    "orphans": ("Saga[Req], orphans='x/'", ["orphans"]),
    "no request": ("Saga", ["request", "missing", "Saga["]),
    "unsupported request": ("Saga[complex]", ["request", "unsupported"]),
    "unresolved request": ("Saga['Nowhere']", ["request", "Nowhere"]),
}


@pytest.mark.parametrize(("head", "fragments"), HEADS.values(), ids=HEADS.keys())
def test_a_wrong_head_is_refused(head: str, fragments: list[str]) -> None:
    with pytest.raises(DefinitionError) as caught:
        create(saga("@step\ndef book(self) -> int: ...", head))
    text = str(caught.value)
    assert all(fragment in text for fragment in ["Ship", *fragments]), text


CLASSES: dict[str, tuple[str, list[str]]] = {
    "a step hidden by an attribute": (
        saga(GOOD) + "\nclass Child(Ship):\n    book = None",
        ["Child", '"book"', "replaces"],
    ),
    "a step hidden by a method": (
        saga(GOOD) + "\nclass Child(Ship):\n    def book(self) -> int: ...",
        ["Child", '"book"', "replaces"],
    ),
    "a foreign undo": (
        saga(GOOD)
        + "\nclass Other(Saga[Req]):\n    @step\n    def a(self) -> int: ...\n"
        + "    @Ship.book.compensate\n    def undo(self) -> None: ...",
        ["Other", '"undo"', '"book"'],
    ),
    "a generic base without its argument": (
        "class Base(Saga[T]):\n    pass\nclass Ship(Base):\n    @step\n    def a(self) -> int: ...",
        ["Ship", "request", "missing"],
    ),
    "an unknown keyword beside a mixin": (
        "class Mixin:\n    def __init_subclass__(cls): ...\n" + saga(GOOD, "Mixin, Saga[Req], retires=3"),
        ["Ship", "retires", "unknown class keyword"],
    ),
    "an InitVar": (
        "@dataclass\nclass R:\n    y: InitVar[int]\n" + saga("@step\ndef a(self) -> R: ..."),
        ["InitVar", 'step "a"'],
    ),
    "a type that does not resolve inside": (
        "@dataclass\nclass R:\n    y: Nowhere\n" + saga("@step\ndef a(self) -> R: ..."),
        ["Nowhere", 'step "a"'],
    ),
}


@pytest.mark.parametrize(("source", "fragments"), CLASSES.values(), ids=CLASSES.keys())
def test_wrong_classes_are_refused(source: str, fragments: list[str]) -> None:
    with pytest.raises(DefinitionError) as caught:
        create(source)
    assert all(fragment in str(caught.value) for fragment in fragments), str(caught.value)


@pytest.mark.parametrize("name", ["later name", "result of another type", "unsupported result", "starred"])
def test_annotations_need_not_be_postponed(name: str) -> None:
    body, fragments = BODIES[name]
    with pytest.raises(DefinitionError) as caught:
        create(saga(body), postponed=False)
    assert all(fragment in str(caught.value) for fragment in fragments)


POLICIES = [
    "Retry.exponential(max_retries=-1)",
    "Retry.exponential(base_delay=float('nan'))",
    "Retry.exponential(factor=0.5)",
    "Retry.exponential(factor=101)",
    "Retry.exponential(factor=float('nan'))",
    "Retry.exponential(factor=True)",
    "Retry.exponential(factor='3')",
    "Retry.linear(factor=3)",
    "Retry.linear(max_delay=-1)",
    "Retry.constant(jitter='some')",
    "Retry.constant(retry_on=ValueError)",
    "Retry.constant(give_up_on=(int,))",
    "Retry.constant(give_up_on='KeyError')",
    "Retry.constant(give_up_on=[KeyError, 'x'])",
    "Retry.constant(on_exhausted='FAIL')",
    "CircuitBreaker(failure_threshold=0)",
    "CircuitBreaker(open_for=0)",
    "CircuitBreaker(when_open='explode')",
    "CircuitBreaker(when_open=None)",
    "CircuitBreaker(when_open=['wait'])",
    "AutoDisable(threshold=0)",
    "AutoDisable(window=3600)",
    "OrphanSweep(bucket_env='A B', prefix='x/')",
    "OrphanSweep(bucket_env='A', prefix='x')",
    "OrphanSweep(bucket_env='A', prefix='/x/')",
    "OrphanSweep(bucket_env='A', prefix='x/', action='burn')",
    "OrphanSweep(bucket_env=None, prefix=None)",
    "OrphanSweep(bucket_env='A', prefix='x/', every=timedelta(minutes=59))",
    "AutoDisable(cooldown=60)",
    "CircuitBreaker(threshold=3)",
    "CircuitBreaker(1, 2, 'wait', 4)",
    "AutoDisable(thresh=3)",
    "OrphanSweep()",
    "OrphanSweep(bucket_env='A')",
]


@pytest.mark.parametrize("source", POLICIES)
def test_a_wrong_policy_is_refused(source: str) -> None:
    with pytest.raises(DefinitionError, match=source.split("(")[0].split(".")[0]) as caught:
        create(source)
    assert "\n" not in str(caught.value)


def test_a_policy_names_what_it_takes() -> None:
    with pytest.raises(DefinitionError) as caught:
        create("CircuitBreaker(threshold=3)")
    takes = "it takes failure_threshold, open_for, when_open by keyword"
    assert str(caught.value) == f"CircuitBreaker: got an unexpected keyword argument 'threshold'; {takes}"
