"""How policies are written, and what wrong ways to write one are told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, cast

import pytest

from sagas import DefinitionError, Retry, Saga, step, wait_for
from sagas.authoring.definition.definition import definition_of

ANY_RETRY = cast("Any", Retry)


@dataclass(frozen=True)
class Order:
    number: int


@pytest.mark.parametrize("types", [[KeyError, OSError], {KeyError, OSError}, iter((KeyError, OSError))])
def test_error_types_come_in_any_iterable(types: Any) -> None:
    retry = Retry.constant(give_up_on=types, retry_on=[Exception])
    assert set(retry.give_up_on) == {KeyError, OSError}
    assert retry.gives_up(KeyError("x"))
    assert not retry.gives_up(ValueError("x"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ANY_RETRY(max_retries=3),
        lambda: ANY_RETRY(3),
        lambda: ANY_RETRY(),
        lambda: ANY_RETRY(retries=3),
        lambda: ANY_RETRY("exponentially", 3, 1.0),
    ],
)
def test_a_retry_made_wrongly_says_how_it_is_made(make: Callable[[], object]) -> None:
    with pytest.raises(DefinitionError, match=r"Retry\.exponential\(max_retries=3.*Retry\.constant\("):
        make()


def test_an_unknown_option_of_a_retry_names_those_there_are() -> None:
    with pytest.raises(DefinitionError, match=r"Retry\.constant: .*'retries'; it takes max_retries, delay, "):
        ANY_RETRY.constant(retries=3)


def test_a_retry_can_be_made_from_another() -> None:
    assert replace(Retry.constant(max_retries=1), max_retries=5) == Retry.constant(max_retries=5)


def test_a_timeout_may_be_a_timedelta() -> None:
    class Ship(Saga[Order]):
        @step(timeout=timedelta(minutes=2))
        def load(self) -> int:
            return 1

        @load.compensate(timeout=timedelta(seconds=7))
        def unload(self) -> None: ...

        @wait_for(str, timeout=timedelta(days=1), step_timeout=timedelta(seconds=3))
        def ask(self) -> None: ...

    load, ask = definition_of(Ship).steps
    assert load.undo is not None
    assert (load.timeout, load.undo.timeout, ask.timeout) == (120.0, 7.0, 3.0)
