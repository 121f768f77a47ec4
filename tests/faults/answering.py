"""How tables answer: late, in part, or as moto's do."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast
from unittest.mock import patch

from botocore.exceptions import ClientError
from moto import mock_aws

from tests.faults.world import CrashWorld
from tests.support.aws import client, create_joins_table, create_tables

AT_ONCE = ("paused_and_cancelled",)
"""Scenarios that have a pause seen at once, which functions do not promise where reads are behind."""
LOSING = ("started_again_after_its_item_was_lost", "started_again_after_its_item_was_lost, chained")
"""Scenarios in which the tables themselves delete an item, and moto's do not."""
Ask = Callable[[str, dict[str, Any]], Any]


@dataclass(slots=True)
class Compared:
    """How often both were asked, and the requests that they answered differently."""

    requests: int = 0
    differing: list[str] = field(default_factory=list[str])


@contextmanager
def behind(world: CrashWorld) -> Generator[None]:
    """Indexes always are, and items unless asked otherwise: by longer here than from one visit of the supervisor to the
    next, by less than a second mostly on AWS."""
    with patch.object(world.tables, "now", lambda: world.clock.now()), patch.object(world.tables, "lag", 90.0):
        yield


@contextmanager
def scarce(world: CrashWorld) -> Generator[None]:
    """Short pages and half batches: as DynamoDB answers where items are large, or asked for faster than the table has
    capacity."""
    with patch.object(world.tables, "scarce", True):
        yield


@contextmanager
def beside_moto(world: CrashWorld) -> Generator[Compared]:
    """Put each request to moto, too, in the same order, and compare the answers. For one run: moto keeps its items."""
    compared = Compared()
    with mock_aws():
        dynamodb = client("dynamodb")
        create_tables(dynamodb, "faults")
        create_joins_table(dynamodb, "faults")
        send: Ask = dynamodb._make_api_call
        memory: Ask = world.tables.answer

        def both(operation: str, request: dict[str, Any]) -> Any:
            compared.requests += 1
            mine, real = _answer(memory, operation, request), _answer(send, operation, request)
            if _compared(operation, mine) != _compared(operation, real):
                compared.differing.append(f"{operation} {request}: {mine!r}, and moto: {real!r}")
            if isinstance(mine, ClientError):
                raise mine
            return mine

        with patch.dict(cast("dict[str, Any]", world.wire.answers), dynamodb=both):
            yield compared


def _answer(ask: Ask, operation: str, request: dict[str, Any]) -> Any:
    """The answer, or the error."""
    try:
        return ask(operation, request)
    except ClientError as error:
        return error


def _compared(operation: str, answer: Any) -> Any:
    """The answer without what is not compared; an error's code."""
    if isinstance(answer, ClientError):
        code: dict[str, Any] = getattr(answer, "response", {})
        return code["Error"]["Code"]
    kept = {key: answer[key] for key in ("Item", "Items", "Attributes", "Responses", "Count") if key in answer}
    also: dict[str, Any] = {"UnprocessedKeys": {}} if operation == "BatchGetItem" else {}
    return kept | also | ({"ScannedCount": kept["Count"]} if "Count" in kept else {})
