"""The one connection to DynamoDB that all models share: its requests, their expressions, and the outcomes of writes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, cast

from botocore.config import Config
from botocore.exceptions import ClientError
from pynamodb.connection import Connection

from sagas.aws import HOT, code_of, connect, translated
from sagas.core.states import SagaState
from sagas.errors import Ambiguous, Denied, SagaError, Unavailable


class Refused(SagaError):
    """A conditional write failed, because the stored state is no longer the state that the caller had read.

    Args:
        message: one line of text.
        items: the existing item for each failed condition, by the number of its write in the transaction, or 0 without
            a transaction. ``None`` if there is no item, or the write did not request it.
    """

    def __init__(self, message: str, items: Mapping[int, dict[str, Any] | None]) -> None:
        super().__init__(message)
        self.items = items


class Contended(Unavailable):
    """Another write touched the same item, or capacity ran out. Try again soon. Nothing was written."""


class Unwritable(SagaError):
    """DynamoDB refused a write of a transaction for good, for a reason other than a condition. Nothing was written."""


class Changed(SagaError):
    """A stored payload is missing, is unreadable, was changed, or belongs to another saga."""

    def __init__(self, saga_id: str) -> None:
        super().__init__(f"a payload of saga {saga_id} is missing, was changed, or belongs to another saga")


class Withheld(Denied):
    """S3 denies a stored payload. Either the right to read it is missing, or the payload is, which only a caller that
    may list the bucket can find out. ``key``: the payload's key."""

    def __init__(self, denied: Denied, key: str) -> None:
        super().__init__(str(denied), denied.right)
        self.key = key


class Fenced(SagaError):
    """A worker with a higher fencing token has taken over: stop, keep the message, and write nothing more."""


class FlagWon(SagaError):
    """A cancel or a signal for the current step was accepted between read and write. Neither takes a lease. ``state``
    is the saga as it is now."""

    def __init__(self, state: SagaState, what: str) -> None:
        super().__init__(f"a {what} was accepted in the meantime")
        self.state = state


_PAGE = 100
"""Maximum items of a BatchGetItem."""
_BATCH = 25
"""Maximum items of a BatchWriteItem."""


_AGAIN = frozenset({"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded", "RequestLimitExceeded"})
"""Temporary reasons for a canceled transaction."""


def _canceled(reasons: Sequence[Any]) -> SagaError:
    """Return the error for a canceled transaction. ``reasons`` has a reason for each write, in order."""
    codes = {place: reason.code for place, reason in enumerate(reasons) if reason is not None}
    failed = {place: reasons[place].raw_item for place, code in codes.items() if code == "ConditionalCheckFailed"}
    if failed:
        return Refused("the transaction's condition failed", failed)
    text = "DynamoDB TransactWriteItems: " + ", ".join(f"{code} at write {place}" for place, code in codes.items())
    return Contended(text) if _AGAIN.issuperset(codes.values()) else Unwritable(text)


def _tables_in(request: Mapping[str, Any]) -> str:
    """Return the name of the request's table, or of its tables."""
    if "TableName" in request:
        return request["TableName"]
    written = (write["TableName"] for item in request.get("TransactItems", ()) for write in item.values())
    return ", ".join(dict.fromkeys((*request.get("RequestItems", ()), *written)))


class SharedConnection(Connection):
    """PynamoDB's connection, with the execution environment's only session. It raises only errors of this library."""

    config: Config = HOT
    """The client's timeouts and retries. They must be set before the first request."""

    @property
    def client(self) -> Any:
        """The client of DynamoDB."""
        if self._client is None:
            self._client = connect("dynamodb", self.config, region=self.region, endpoint_url=self.host)
        return self._client

    def serve(self, model: Any) -> None:
        """Let a model use this connection instead of its own."""
        own = model._get_connection()
        if own.table_name not in self._tables:
            self.add_meta_table(own.get_meta_table())
        own.connection = self

    def get_consumed_capacity_map(self, return_consumed_capacity: str) -> dict[str, str]:
        """Return nothing. So no request asks for the consumed capacity, which nobody reads."""
        return {}

    def dispatch(self, operation_name: str, operation_kwargs: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return the answer."""
        with translated("DynamoDB", lost=Ambiguous, resource=partial(_tables_in, operation_kwargs)):
            try:
                return cast("Any", super()).dispatch(operation_name, operation_kwargs)
            except ClientError as error:
                code = code_of(error)
                if code == "ConditionalCheckFailedException":
                    answer = cast("Any", error.__cause__).response  # PynamoDB's error does not have the item
                    raise Refused("the condition failed", {0: answer.get("Item")}) from error
                if code == "TransactionConflictException":
                    raise Contended(f"DynamoDB {operation_name}: conflict") from error
                if code == "TransactionCanceledException":
                    raise _canceled(cast("Any", error).cancellation_reasons) from error
                raise

    def get_many(
        self,
        table: str,
        keys: Sequence[dict[str, Any]],
        *,
        consistent: bool = False,
        attributes: Sequence[str] = (),
    ) -> Iterator[dict[str, Any]]:
        """Yield the existing items with these keys, in any order, up to 100 per request.

        Unprocessed keys are requested again.
        """
        options: dict[str, Any] = {"ConsistentRead": True} if consistent else {}
        if attributes:
            options["ProjectionExpression"] = ", ".join(f"#{name}" for name in attributes)
            options["ExpressionAttributeNames"] = {f"#{name}": name for name in attributes}
        remaining = list(keys)
        while remaining:
            request = {"Keys": remaining[:_PAGE]} | options
            answer = self.dispatch("BatchGetItem", {"RequestItems": {table: request}})
            yield from answer["Responses"].get(table, ())
            unprocessed = answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])
            remaining = unprocessed + remaining[_PAGE:]

    def delete_many(self, table: str, keys: Sequence[dict[str, Any]]) -> None:
        """Delete the items with these keys, up to 25 per request. Missing items count as deleted."""
        remaining = list(keys)
        while remaining:
            requests = [{"DeleteRequest": {"Key": key}} for key in remaining[:_BATCH]]
            answer = self.dispatch("BatchWriteItem", {"RequestItems": {table: requests}})
            unprocessed = answer.get("UnprocessedItems", {}).get(table, [])
            if len(unprocessed) == len(requests):
                raise Unavailable("DynamoDB BatchWriteItem: nothing was processed")
            remaining = [request["DeleteRequest"]["Key"] for request in unprocessed] + remaining[_BATCH:]


@lru_cache(maxsize=512)
def placeholders(expressions: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the attributes and the values that expressions use, by placeholder. DynamoDB refuses unused ones."""
    names = {f"#{name}": name for name in re.findall(r"#(\w+)", expressions)}
    return names, tuple(dict.fromkeys(re.findall(r":\w+", expressions)))


def update_of(
    table: str, key: Mapping[str, Any], condition: str, update: str, values: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the request of an update, with only the values that it uses."""
    names, used = placeholders(f"{condition} {update}")
    return {
        "TableName": table,
        "Key": key,
        "ConditionExpression": condition,
        "UpdateExpression": update,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": {name: values[name] for name in used},
    }
