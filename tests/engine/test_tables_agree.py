"""The explorers' DynamoDB in memory, against moto's: requests of whole lives of sagas have the same answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError

from tests.engine.test_children import Basketful, Shipment
from tests.faults.tables import MemoryTables
from tests.support.bench import Bench
from tests.support.sagas import FAIL, Fatal, Trip

Make = Callable[..., Bench]
Compared = Callable[[], AbstractContextManager[Counter[str]]]
_NOT_TOLD = ("ResponseMetadata", "ConsumedCapacity", "Count", "ScannedCount")


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Compared:
    """Have both answer while it lasts; what was asked, by operation."""

    @contextmanager
    def comparing() -> Generator[Counter[str]]:
        seen, tables, send = Counter[str](), MemoryTables(), cast("Any", BaseClient)._make_api_call

        def both(self: Any, operation: str, parameters: dict[str, Any]) -> Any:
            asked = self.meta.service_model.service_name == "dynamodb" and operation != "DescribeTable"
            if not asked or not isinstance(parameters.get("KeyConditionExpression", ""), str):  # a test looks itself
                return send(self, operation, parameters)
            seen[operation] += 1
            mine = _told(lambda: tables.answer(operation, parameters))
            try:
                answer = send(self, operation, parameters)
            except ClientError as error:
                _same(mine, _refused(error), parameters)
                raise
            _same(mine, _read(answer), parameters)
            return answer

        with monkeypatch.context() as patched:
            patched.setattr(BaseClient, "_make_api_call", both)
            yield seen

    return comparing


def _same(mine: Any, theirs: Any, parameters: dict[str, Any]) -> None:
    assert mine == theirs, parameters


def _told(ask: Callable[[], dict[str, Any]]) -> Any:
    try:
        return _read(ask())
    except ClientError as error:
        return _refused(error)


def _read(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without what nobody reads."""
    return {name: value for name, value in answer.items() if name not in _NOT_TOLD and value}


def _refused(error: ClientError) -> tuple[str, list[str]]:
    """An error by its code, and by what refused each write of a transaction."""
    answer: Any = error.response
    return answer["Error"]["Code"], [one["Code"] for one in answer.get("CancellationReasons", ())]


def test_of_a_saga_that_succeeds_and_is_purged(bench: Make, compared: Compared) -> None:
    b = bench(Trip)
    with compared() as seen:
        saga_id = b.start("trip", key="k-1")
        b.run()
        assert b.status(saga_id) == "COMPLETED"
        b.clock.advance(3600)
        b.engine.purger.purge("trip", saga_id, "asked for", "ada")
        assert b.start("trip", key="k-1") == saga_id
        assert b.engine.reader.list(["trip"], None, 10, None)["sagas"] == []
    assert {"GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "BatchGetItem"} <= seen.keys()


def test_of_sagas_that_fail_are_undone_and_cancelled(bench: Make, compared: Compared) -> None:
    b = bench(Trip, Fatal)
    with compared():
        FAIL["tell"] = 99
        failed = b.start("trip")
        b.run()
        FAIL.clear()
        FAIL["second"] = 1
        fatal = b.start("fatal")
        b.run()
        cancelled = b.start("trip")
        b.engine.operations.cancel("trip", cancelled, "ann")
        b.run()
        b.clock.advance(7200)
        b.recover()
        ends = [b.status(one) for one in (failed, fatal, cancelled)]
        assert [one["saga_id"] for one in b.engine.reader.attention(None, 10, None)["sagas"]] == [fatal]
    assert ends == ["COMPENSATED", "FAILED", "CANCELLED"]


def test_of_children_one_of_which_fails(bench: Make, compared: Compared) -> None:
    b = bench(Basketful, Shipment)
    with compared() as seen:
        FAIL["send 1"] = RuntimeError("no van")
        saga_id = b.start("basketful", {"parcels": 3})
        b.run()
        assert b.status(saga_id) == "COMPENSATED"
    assert seen["TransactWriteItems"] > 3
