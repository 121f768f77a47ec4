"""The table of operations, and that all that is made from it agrees with it."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from typing import Any, get_args

import pytest
import typer
from typer.testing import CliRunner

from sagas.cdk.access.grants import RIGHTS
from sagas.cli.operate.operating import command_of
from sagas.client import SagaClient
from sagas.client.operate.selection import Chosen
from sagas.console.actions import act_on
from sagas.handlers import api
from sagas.messaging.commands import AnyCommand
from sagas.operations import (
    CANCEL,
    CLOSE_BREAKER,
    COMPENSATE,
    LIST,
    LOOK_UP,
    OPERATIONS,
    RETRY,
    SIGNAL,
    START,
    VERBS,
    Operation,
    Verb,
)
from tests.unit.client.stub import SAGA_ID, SEQ, a_saga


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
    assert operation.path_for(parameters) == path


def test_an_iam_pattern_spans_what_is_not_known_beforehand() -> None:
    assert RETRY.pattern(of_type=True) == "POST/sagas/{type}/*/retry"
    assert RETRY.pattern() == "POST/sagas/*/retry"
    assert CLOSE_BREAKER.pattern(of_type=True) == "POST/breakers/{type}/*/close"
    assert LOOK_UP.pattern(of_type=True) == "GET/sagas/*"
    assert SIGNAL.pattern() == "POST/sagas/*/signals/*"


def test_a_right_lets_through_its_own_operations_alone() -> None:
    """``POST/sagas/*`` would be a right to all that is posted about a saga: a start is granted type by type."""
    assert (RIGHTS["start"].of_type, RIGHTS["start"].of_all) == ((START.pattern(of_type=True),), ())
    assert RIGHTS["cancel"].of_all == (CANCEL.pattern(),)
    assert RIGHTS.keys() == {operation.right for operation in OPERATIONS}


def test_the_client_takes_what_operators_give() -> None:
    for operation in VERBS.values():
        call = signature(getattr(SagaClient, operation.name))
        assert [*call.parameters][:3] == ["self", "type", "saga_id"]
        assert {*call.parameters} - {"self", "type", "saga_id"} == {option.name for option in operation.options}


def test_a_new_row_is_a_command_and_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Route, right, client, command line, jobs and console: what is new of an operation is its row, its body, the
    function that serves it, the engine's part of it and the client's method."""
    hold = replace(
        COMPENSATE,
        name="hold",
        path="/sagas/{type}/{saga_id}/hold",
        verb=Verb("Hold a saga.", "Hold", "It stops.", "Held."),
    )
    assert (hold.pattern(of_type=True), hold.right) == ("POST/sagas/{type}/*/hold", "operate")
    asked = list[tuple[Any, ...]]()

    def call(
        _client: SagaClient, name: str, saga_id: str, reason: str = "", *, force: bool = False, seq: int | None = None
    ) -> Any:
        asked.append((name, saga_id, reason, force, seq))
        return a_saga("RUNNING")

    monkeypatch.setattr(SagaClient, "hold", call, raising=False)
    monkeypatch.setattr(
        SagaClient, "local", lambda: SagaClient("https://api.execute-api.eu-central-1.amazonaws.com/v1")
    )
    monkeypatch.setitem(VERBS, "hold", hold)
    app = typer.Typer()
    app.command()(command_of(hold))
    result = CliRunner().invoke(app, ["create-zip", SAGA_ID, "--reason", "a look", "--force", "--seq", "9", "--json"])
    assert result.exit_code == 0, result.output
    client: Any = SagaClient("https://api.execute-api.eu-central-1.amazonaws.com/v1")
    act_on(client, "hold", Chosen("create-zip", SAGA_ID, SEQ), {"reason": ["a look"], "force": ["yes"]})
    assert asked == [("create-zip", SAGA_ID, "a look", True, SEQ)] * 2


def test_a_message_of_the_command_queue_asks_for_a_row() -> None:
    plain = {
        kind.__struct_config__.tag: kind.__doc__ or "" for kind in get_args(AnyCommand) if not hasattr(kind, "event")
    }
    assert plain.keys() == {operation.name for operation in OPERATIONS if operation.queued}
    for operation in (one for one in OPERATIONS if one.queued):
        assert f"``{operation.method} {operation.path}``" in plain[operation.name]
