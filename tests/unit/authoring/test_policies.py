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
        lambda: ANY_RETRY(max_retries=5),
        lambda: ANY_RETRY(3),
        lambda: ANY_RETRY(),
        lambda: ANY_RETRY(retries=3),
        lambda: ANY_RETRY("exponentially", 3, 1.0),
    ],
)
def test_a_retry_made_wrongly_says_how_it_is_made(make: Callable[[], object]) -> None:
    with pytest.raises(DefinitionError, match=r"Retry\.exponential\(max_retries=5.*Retry\.constant\("):
        make()


def test_an_unknown_option_of_a_retry_names_those_there_are() -> None:
    with pytest.raises(DefinitionError, match=r"Retry\.constant: .*'retries'; it takes max_retries, delay, "):
        ANY_RETRY.constant(retries=3)


@pytest.mark.parametrize(
    ("retry", "delays"),
    [
        (Retry.exponential(base_delay=1), [1, 2, 4, 8]),
        (Retry.exponential(base_delay=1, factor=3), [1, 3, 9, 27]),
        (Retry.exponential(base_delay=2, factor=3, max_delay=10), [2, 6, 10, 10]),
        (Retry.exponential(base_delay=0.25, factor=1), [0.25, 0.25, 0.25, 0.25]),
        (Retry.exponential(base_delay=0.5, factor=1.5), [0.5, 0.75, 2, 2]),
        (Retry.exponential(base_delay=0, factor=100), [0, 0, 0, 0]),
    ],
)
def test_each_delay_of_an_exponential_policy_is_a_multiple_of_the_last(retry: Retry, delays: list[float]) -> None:
    assert [retry.delay(n) for n in (1, 2, 3, 4)] == delays


@pytest.mark.parametrize("factor", [1, 1.01, 2, 100])
@pytest.mark.parametrize("base", [0.0, 0.001, 14 * 86_400])
def test_no_delay_exceeds_the_longest_of_sqs(base: float, factor: float) -> None:
    retry = Retry.exponential(max_retries=1_000, base_delay=base, factor=factor)
    longest = retry.delay(1_000)
    assert longest == min(14 * 86_400, longest)
    assert (longest == 0) == (base == 0)
    if factor >= 2 and base:
        assert longest == 14 * 86_400


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
