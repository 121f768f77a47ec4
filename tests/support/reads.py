"""What is read from the tables and written to them, in DynamoDB's units, whoever asks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from botocore.client import BaseClient

from benchmarks.units import item_size

READ = 0.125e-6
WRITE = 0.625e-6
CALL = 0.4e-6
"""USD per unit of DynamoDB, on demand, and per request to SQS, in us-east-1, November 2026."""
_READ_UNIT = 4_096
_WRITE_UNIT = 1_024


@dataclass
class Reads:
    """The requests to DynamoDB since the last :meth:`clear`, their units, and the number of requests to SQS. An item of
    an index is as large as its projection."""

    requests: list[str] = field(default_factory=list[str])
    read: float = 0.0
    written: int = 0
    calls: int = 0

    def clear(self) -> None:
        """Begin again."""
        self.requests.clear()
        self.read = 0.0
        self.written = 0
        self.calls = 0

    @property
    def reading(self) -> list[str]:
        """The requests that read."""
        return [name for name in self.requests if name in ("GetItem", "BatchGetItem", "Query", "Scan")]

    @property
    def usd(self) -> float:
        """What they cost."""
        return self.read * READ + self.written * WRITE + self.calls * CALL

    def seen(self, operation: str, request: dict[str, Any], answer: dict[str, Any]) -> None:
        """Note a request and its answer."""
        self.requests.append(operation)
        if operation == "GetItem":
            self.read += _units([answer.get("Item", {})], consistent=request.get("ConsistentRead", False))
        elif operation == "BatchGetItem":
            for table, asked in request["RequestItems"].items():
                found: list[dict[str, Any]] = answer["Responses"].get(table, [])
                each = asked.get("ConsistentRead", False)
                missing = len(asked["Keys"]) - len(found)
                self.read += sum(_units([item], consistent=each) for item in [*found, *([{}] * missing)])
        elif operation in ("Query", "Scan"):
            self.read += _units(answer.get("Items", []), consistent=request.get("ConsistentRead", False))
        elif operation == "PutItem":
            self.written += max(1, math.ceil(item_size(request["Item"]) / _WRITE_UNIT))
        else:
            self.written += 1


def _units(items: Iterable[dict[str, Any]], *, consistent: bool) -> float:
    """Return what a request reads: of a query, all items together, rounded up."""
    return max(1, math.ceil(sum(map(item_size, items)) / _READ_UNIT)) * (1.0 if consistent else 0.5)


def counted(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Count from now on."""
    seen, send = Reads(), cast("Any", BaseClient)._make_api_call

    def counting(self: Any, operation: str, parameters: dict[str, Any]) -> Any:
        answer = send(self, operation, parameters)
        service: str = self.meta.service_model.service_name
        if service == "dynamodb":
            seen.seen(operation, parameters, answer)
        seen.calls += service == "sqs"
        return answer

    monkeypatch.setattr(BaseClient, "_make_api_call", counting)
    return seen
