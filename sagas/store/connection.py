"""The one connection to DynamoDB that all models share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from botocore.config import Config
from botocore.exceptions import ClientError
from pynamodb.connection import Connection

from sagas.aws import HOT, code_of, connect, translated
from sagas.errors import Ambiguous, SagaError, Unavailable
from sagas.store.outcomes import Contended, Refused, Unwritable

_PAGE = 100
"""Items that one BatchGetItem asks for at most."""
_BATCH = 25
"""Items that one BatchWriteItem deletes at most."""


_AGAIN = frozenset({"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded", "RequestLimitExceeded"})
"""Reasons of a canceled transaction that pass."""


def _canceled(reasons: Sequence[Any]) -> SagaError:
    """Return the error for a canceled transaction, by the reasons at the places of its writes."""
    codes = {place: reason.code for place, reason in enumerate(reasons) if reason is not None}
    failed = {place: reasons[place].raw_item for place, code in codes.items() if code == "ConditionalCheckFailed"}
    if failed:
        return Refused("the transaction's condition failed", failed)
    text = "DynamoDB TransactWriteItems: " + ", ".join(f"{code} at write {place}" for place, code in codes.items())
    return Contended(text) if _AGAIN.issuperset(codes.values()) else Unwritable(text)


class SharedConnection(Connection):
    """PynamoDB's connection, on the execution environment's one session. Whatever asks, errors are this library's."""

    config: Config = HOT
    """Timeouts and retries of its client; to be set before the first request."""

    @property
    def client(self) -> Any:
        """The client of DynamoDB."""
        if self._client is None:
            self._client = connect("dynamodb", self.config, region=self.region, endpoint_url=self.host)
        return self._client

    def serve(self, model: Any) -> None:
        """Have a model ask over this connection instead of one of its own."""
        own = model._get_connection()
        if own.table_name not in self._tables:
            self.add_meta_table(own.get_meta_table())
        own.connection = self

    def get_consumed_capacity_map(self, return_consumed_capacity: str) -> dict[str, str]:
        """Ask for no units: PynamoDB would in every request, and nobody reads them."""
        return {}

    def dispatch(self, operation_name: str, operation_kwargs: dict[str, Any]) -> dict[str, Any]:
        """Make a request and return the answer."""
        with translated("DynamoDB", lost=Ambiguous):
            try:
                return cast("Any", super()).dispatch(operation_name, operation_kwargs)
            except ClientError as error:
                code = code_of(error)
                if code == "ConditionalCheckFailedException":
                    answer = cast("Any", error.__cause__).response  # PynamoDB's own error leaves the item out
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
        """Yield the items with these keys that exist, in any order, asking for up to 100 at a time.

        What DynamoDB leaves unprocessed is asked for again.
        """
        options: dict[str, Any] = {"ConsistentRead": True} if consistent else {}
        if attributes:
            options["ProjectionExpression"] = ", ".join(f"#{name}" for name in attributes)
            options["ExpressionAttributeNames"] = {f"#{name}": name for name in attributes}
        left = list(keys)
        while left:
            asked = {"Keys": left[:_PAGE]} | options
            answer = self.dispatch("BatchGetItem", {"RequestItems": {table: asked}})
            yield from answer["Responses"].get(table, ())
            left = answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", []) + left[_PAGE:]

    def delete_many(self, table: str, keys: Sequence[dict[str, Any]]) -> None:
        """Delete the items with these keys, up to 25 at a time. Those that are gone already count as deleted."""
        left = list(keys)
        while left:
            asked = [{"DeleteRequest": {"Key": key}} for key in left[:_BATCH]]
            answer = self.dispatch("BatchWriteItem", {"RequestItems": {table: asked}})
            undone = answer.get("UnprocessedItems", {}).get(table, [])
            if len(undone) == len(asked):
                raise Unavailable("DynamoDB BatchWriteItem: nothing was processed")
            left = [one["DeleteRequest"]["Key"] for one in undone] + left[_BATCH:]
