"""What runs in process is what runs in the functions: the same sagas through both, the same trail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from sagas.authoring.codec import encode
from sagas.engine.engine import from_environment
from sagas.testing import run
from tests.support.aws import HandmadeStack
from tests.support.bench import Bench, deploy_functions
from tests.support.sagas import FAIL, LOG, REJECTED, Fatal, Order, Stubborn, Trip

_ITS_OWN = ("started_at", "next_attempt_at", "stack_trace", "trace_id", "message_id", "dispatch", "request_hash")
CASES: list[tuple[type[Any], dict[str, BaseException]]] = [
    (Trip, {}),
    (Trip, {"book": ValueError("no")}),
    (Trip, {"tell": ValueError("no")}),
    (Trip, {"pay": REJECTED}),
    (Trip, {"tell": ValueError("no"), "refund": KeyError("never")}),
    (Trip, {"tell": ValueError("no"), "refund": REJECTED, "unbook": OSError(5, "gone")}),
    (Stubborn, {"second": ValueError("no")}),
    (Stubborn, {"first": ValueError("no")}),
    (Fatal, {"second": ValueError("no")}),
]


@pytest.fixture(autouse=True)
def _aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    FAIL.clear()
    with mock_aws():
        yield
    FAIL.clear()
    LOG.clear()


def comparable(entry: Any) -> dict[str, Any]:
    kept = {name: entry[name] for name in ("seq", "action", "step", "attempt", "status")}
    return kept | {name: value for name, value in entry["details"].items() if name not in _ITS_OWN}


@pytest.mark.parametrize(("saga_class", "fail"), CASES)
def test_both_write_the_same_trail(
    saga_class: type[Any], fail: dict[str, BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Order("train", 2)
    rehearsed = run(saga_class, request, fail=fail)
    stack = HandmadeStack(saga_class)
    bench, name = deploy_functions(monkeypatch, stack, Bench), saga_class.__name__.lower()
    FAIL.update(fail)
    saga_id = bench.start(name, encode(request, Order))
    bench.run()
    shown = bench.show(saga_id)
    audit, _ = from_environment(stack.environment).reader.audit(name, saga_id, 100, 0)
    assert [comparable(entry) for entry in rehearsed.audit] == [comparable(entry) for entry in audit]
    assert (rehearsed.status, rehearsed.error) == (shown["status"], shown["error"])
