"""What the class refuses as its ``around``, and a step that was called so."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest

from sagas import Context, DefinitionError, Saga, step
from sagas.authoring.definition.definition import definition_of
from sagas.testing import run
from tests.unit.authoring.test_definition_errors import create, saga

STEP = "\n@step\ndef book(self) -> int: ..."
NOT_DECORATED = "around must be a context manager: put @contextmanager above it"
NOT_PLAIN = "around must be a context manager: a plain one, also for async steps"
OTHERWISE = "around takes (self, ctx)"
HOOK = '"around" is the hook of the class; name the step otherwise, with name="around"'
WRONG = {
    "a generator": ("def around(self, ctx):\n    yield", NOT_DECORATED),
    "a value": ("around = None", NOT_DECORATED),
    "a property": ("@property\ndef around(self): ...", NOT_DECORATED),
    "a coroutine": ("async def around(self, ctx): ...", NOT_PLAIN),
    "an asynchronous generator": ("async def around(self, ctx):\n    yield", NOT_PLAIN),
    "an asynchronous context manager": (
        "@contextlib.asynccontextmanager\nasync def around(self, ctx):\n    yield",
        NOT_PLAIN,
    ),
    "a coroutine above which @contextmanager stands": (
        "@contextlib.contextmanager\nasync def around(self, ctx): ...",
        NOT_PLAIN,
    ),
    "no ctx": ("@contextlib.contextmanager\ndef around(self):\n    yield", OTHERWISE),
    "the request": ("@contextlib.contextmanager\ndef around(self, request):\n    yield", OTHERWISE),
    "more than ctx": ("@contextlib.contextmanager\ndef around(self, ctx, book):\n    yield", OTHERWISE),
    "no self": ("@staticmethod\n@contextlib.contextmanager\ndef around(self, ctx):\n    yield", OTHERWISE),
    "of the class": ("@classmethod\n@contextlib.contextmanager\ndef around(cls, ctx):\n    yield", OTHERWISE),
    "a class": ("around = contextlib.nullcontext", OTHERWISE),
    "a step": ("@step\ndef around(self) -> int: ...", HOOK),
    "a step with another stored name": ("@step(name='other')\ndef around(self) -> int: ...", HOOK),
    "a sleep": ("around = sleep(timedelta(days=1))", HOOK),
}


@pytest.mark.parametrize("head", ["Saga[Req]", "Saga[T]"])
@pytest.mark.parametrize(("body", "text"), WRONG.values(), ids=WRONG)
def test_a_wrong_around_is_refused_also_in_a_base(body: str, text: str, head: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        create(f"import contextlib\n{saga(body + STEP, head)}")
    assert str(caught.value).startswith('Ship (saga "ship"): ')
    assert str(caught.value).endswith(text)


def test_an_undo_and_a_result_cannot_have_its_name() -> None:
    with pytest.raises(DefinitionError, match='compensation "around": the name "around" is reserved'):
        create(saga(f"{STEP}\n@book.compensate\ndef around(self) -> None: ..."))
    with pytest.raises(DefinitionError, match="result 'around': the name \"around\" is reserved"):
        create(saga("@step(result='around')\ndef book(self) -> int: ..."))


class Tour(Saga[str], name="tour"):
    """A step was called ``around``, and has kept its stored name."""

    places = 0

    @contextmanager
    def around(self, ctx: Context) -> Any:
        self.places += 1
        yield

    @step(name="around")
    def travel(self, request: str) -> int:
        return self.places


def test_a_stored_name_may_be_its_name() -> None:
    assert [each.name for each in definition_of(Tour).steps] == ["around"]
    assert run(Tour, "world").result == 1


class Plain(Saga[str], name="plain"):
    """Its ``around`` returns a context manager that it has not made itself."""

    entered: bool = False

    def around(self, ctx: Context) -> AbstractContextManager[object]:
        self.entered = True
        return nullcontext()

    @step
    def travel(self, request: str) -> bool:
        return self.entered


def test_it_may_return_any_context_manager() -> None:
    assert run(Plain, "world").result is True
