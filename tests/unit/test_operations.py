"""The table of operations, and that all that is made from it agrees with it."""

from __future__ import annotations

from typing import Any

import pytest

from sagas.cdk.access.grants import RIGHTS
from sagas.cli.operate.bulk import MANY
from sagas.client.operate.batch import ACTIONS
from sagas.handlers import api
from sagas.operations import CANCEL, CLOSE_BREAKER, LIST, LOOK_UP, OPERATIONS, RETRY, SIGNAL, START, Operation


def test_each_has_a_function_of_its_name_and_none_is_left_over() -> None:
    app: Any = None
    engine: Any = _Anything()
    names = [function.__name__ for of in api.SERVED for function in of(app, engine)]
    assert sorted(names) == sorted(operation.name for operation in OPERATIONS)


class _Anything:
    """An engine of which nothing is asked yet."""

    def __getattr__(self, name: str) -> Any:
        return self


def test_no_two_are_called_alike() -> None:
    assert len({(operation.method, operation.path) for operation in OPERATIONS}) == len(OPERATIONS)
    assert len({operation.name for operation in OPERATIONS}) == len(OPERATIONS)


@pytest.mark.parametrize(
    ("operation", "parameters", "path"),
    [
        (LIST, [], "/sagas"),
        (RETRY, ["create-zip", "ID"], "/sagas/create-zip/ID/retry"),
        (CLOSE_BREAKER, ["a/b", "c d"], "/breakers/a%2Fb/c%20d/close"),
    ],
)
def test_a_path_is_filled_in_order_and_quoted(operation: Operation, parameters: list[str], path: str) -> None:
    assert operation.filled(parameters) == path


def test_an_iam_pattern_spans_what_is_not_known_beforehand() -> None:
    assert RETRY.pattern(of_type=True) == "POST/sagas/{name}/*/retry"
    assert RETRY.pattern() == "POST/sagas/*/retry"
    assert CLOSE_BREAKER.pattern(of_type=True) == "POST/breakers/{name}/*/close"
    assert LOOK_UP.pattern(of_type=True) == "GET/sagas/*"
    assert SIGNAL.pattern() == "POST/sagas/*/signals/*"


def test_a_right_lets_through_its_own_operations_alone() -> None:
    """``POST/sagas/*`` would be a right to all that is posted about a saga: a start is granted type by type."""
    assert (RIGHTS["start"].of_type, RIGHTS["start"].of_all) == ((START.pattern(of_type=True),), ())
    assert RIGHTS["cancel"].of_all == (CANCEL.pattern(),)
    assert RIGHTS.keys() == {operation.right for operation in OPERATIONS}


def test_what_is_for_many_is_so_everywhere() -> None:
    assert set(MANY) == set(ACTIONS)
