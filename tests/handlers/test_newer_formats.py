"""A saga that a newer version of the library wrote: no call about it fails for good, and none about others fails."""

from __future__ import annotations

from typing import Any

import pytest

from sagas import AutoDisable, Retry, Saga, step
from sagas.errors import FORMAT
from tests.handlers.conftest import Answer, Make, Site, begun
from tests.support.sagas import FAIL, LOG, Fatal, Order, Trip


class Watched(Saga[Order], name="watched", auto_disable=AutoDisable(threshold=3)):
    @step(retry=Retry.constant(max_retries=0, delay=0.0))
    def act(self, request: Order) -> None:
        raise ValueError(request.item)


def _newer(site: Site, table: str, **key: dict[str, str]) -> None:
    """Have a newer version write an item."""
    update: Any = {"UpdateExpression": "SET #format = :newer", "ExpressionAttributeNames": {"#format": "format"}}
    update["ExpressionAttributeValues"] = {":newer": {"N": str(FORMAT + 1)}}
    site.stack.dynamodb.update_item(TableName=table, Key=key, **update)


def _newer_saga(site: Site, saga_id: str) -> None:
    _newer(site, site.stack.sagas_table, saga_id={"S": saga_id})


def _later(answer: Answer) -> bool:
    return (answer.status, answer.code, answer.headers["retry-after"]) == (503, "unavailable", "60")


def _shown(site: Site, path: str, **query: str) -> list[str]:
    answer = site.call("GET", path, **query)
    assert answer.status == 200
    return [saga["saga_id"] for saga in answer.body["sagas"]]


CALLS: list[tuple[str, str, Any]] = [
    ("GET", "", None),
    ("GET", "/audit", None),
    ("GET", "/verification", None),
    ("DELETE", "", None),
    ("POST", "/retry", {}),
    ("POST", "/compensate", {}),
    ("POST", "/resolve", {"reason": "settled"}),
    ("POST", "/purge", {}),
    ("PUT", "/recovery-attempts", {"attempts": 0}),
]


@pytest.mark.parametrize(("method", "verb", "body"), CALLS)
def test_a_call_about_it_is_to_be_made_later(site: Make, method: str, verb: str, body: Any) -> None:
    s, saga_id = begun(site)
    _newer_saga(s, saga_id)
    before = s.tables()
    assert _later(s.call(method, f"/sagas/trip/{saga_id}{verb}", body))
    assert s.tables() == before
    assert LOG == []


def test_a_start_that_is_repeated_is_to_be_repeated_later(site: Make) -> None:
    s = site(Trip)
    saga_id = s.call("POST", "/sagas/trip", {"item": "train"}, key="order-1").body["saga_id"]
    _newer_saga(s, saga_id)
    assert _later(s.call("POST", "/sagas/trip", {"item": "train"}, key="order-1"))
    assert s.waiting() == 1


@pytest.mark.parametrize("verb", ["", "/audit", "/verification"])
def test_so_is_reading_a_trail_that_goes_on_in_a_newer_format(site: Make, verb: str) -> None:
    s, saga_id = begun(site)
    _newer(s, s.stack.audit_table, saga_id={"S": saga_id}, seq={"N": "1"})
    assert _later(s.call("GET", f"/sagas/trip/{saga_id}{verb}"))


def test_lists_leave_it_out(site: Make) -> None:
    FAIL["second"] = ValueError("no")
    s = site(Fatal)
    first, other, last = (s.begin("fatal") for _ in range(3))
    s.run()
    _newer_saga(s, other)
    assert _shown(s, "/sagas") == [last, first]
    assert _shown(s, "/sagas", type="fatal", status="FAILED") == [last, first]
    assert _shown(s, "/sagas", status="COMPLETED") == []
    assert _shown(s, "/attention") == [first, last]
    page = s.call("GET", "/sagas", limit="2")
    assert [saga["saga_id"] for saga in page.body["sagas"]] == [last]
    assert _shown(s, "/sagas", limit="2", cursor=page.body["cursor"]) == [first]


def test_failures_in_a_row_are_counted_without_it(site: Make) -> None:
    s = site(Watched)
    failed = s.begin("watched")
    s.run()
    _newer_saga(s, s.begin("watched"))
    shown = s.call("GET", "/types/watched")
    assert (shown.status, shown.body["failures"]) == (200, 1)
    assert _shown(s, "/sagas") == [failed]
