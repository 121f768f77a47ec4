"""Powertools' idempotency over the control item and the journal.

Powertools asks a persistence layer for four things. Here they are: in progress = claim, completed = journal and commit,
failed = the same with the error, which the stock layer does not record. What Powertools keeps in a record of its own,
updated without condition, is here the saga itself, and the completion is fenced.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

from aws_lambda_powertools.utilities.idempotency import BasePersistenceLayer
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyItemAlreadyExistsError,
    IdempotencyItemNotFoundError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord


class Claimant(Protocol):
    """One attempt, as the persistence layer sees it."""

    def claim(self) -> bool:
        """Lock the saga and count the attempt; ``False`` if its state does not allow that."""
        ...

    def complete(self, payload: str | None) -> None:
        """Journal and commit the result (JSON text)."""
        ...

    def fail(self, error: Exception) -> None:
        """Journal and commit the error."""
        ...


class ClaimRecord(BasePersistenceLayer):
    """The idempotency record of one attempt."""

    def __init__(self, claimant: Claimant) -> None:
        super().__init__()
        self._claimant = claimant

    def _put_record(self, data_record: DataRecord) -> None:
        if not self._claimant.claim():
            busy = DataRecord(idempotency_key=data_record.idempotency_key, status="INPROGRESS")
            raise IdempotencyItemAlreadyExistsError(old_data_record=busy)

    def _get_record(self, idempotency_key: str) -> DataRecord:
        raise IdempotencyItemNotFoundError

    def _update_record(self, data_record: DataRecord) -> None:
        self._claimant.complete(json.loads(data_record.response_data))

    def _delete_record(self, data_record: DataRecord) -> None:
        raise NotImplementedError("a failed attempt is recorded with its error, by delete_record")

    def delete_record(self, data: dict[str, Any], exception: Exception) -> None:
        """Record the failed attempt."""
        self._claimant.fail(exception)
