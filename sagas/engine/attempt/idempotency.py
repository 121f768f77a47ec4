"""An attempt under Powertools' idempotency, whose record is the saga itself.

This module is the persistence layer for Powertools. The claim marks an execution as in progress, and journal and commit
mark it as completed or failed. The layers that Powertools ships do not record errors, and update their record without
conditions. Here the record is the control item and the journal, the error is recorded, and the update is fenced.
"""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.idempotency import (
    BasePersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyItemAlreadyExistsError,
    IdempotencyItemNotFoundError,
    IdempotencyPersistenceLayerError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord

from sagas.core.states import SagaState
from sagas.engine.attempt.attempt import Attempt, AttemptServices, Invocation
from sagas.engine.attempt.course import Course
from sagas.engine.committer import Committed
from sagas.engine.registry import SagaType
from sagas.errors import SagaError
from sagas.messaging.message import Message


class IdempotentAttempt(Attempt, BasePersistenceLayer):
    """An attempt that is its own persistence layer: Powertools calls claim, code and commit."""

    def __init__(
        self,
        services: AttemptServices,
        saga_type: SagaType,
        message: Message,
        invocation: Invocation,
        course: Course,
    ) -> None:
        Attempt.__init__(self, services, saga_type, message, invocation, course)
        BasePersistenceLayer.__init__(self)
        self._held: SagaState | None = None
        self._payload: str | None = None
        self._committed: Committed | None = None

    def run(self) -> Committed | None:
        """Claim, run, journal, commit: see :meth:`Attempt.run`."""
        guarded = idempotent_function(
            self._execute,
            data_keyword_argument="key",
            persistence_store=self,
            config=IdempotencyConfig(lambda_context=self._invocation.lambda_context),
            key_prefix="sagas",
        )
        message = self._message
        try:
            # A string, because Powertools copies a structured argument and walks through it twice.
            guarded(key=f"{message.saga_id}/{message.index}/{message.undo}")
        except IdempotencyAlreadyInProgressError:
            return None
        except IdempotencyPersistenceLayerError as error:
            raise error.__cause__ or error from error
        except Exception:
            if self._committed is None:
                raise
            # The code's error is in the journal already.
        return self._committed

    def _execute(self, key: str) -> None:
        if self._held is None:
            raise SagaError("POWERTOOLS_IDEMPOTENCY_DISABLED is set; unset it: steps cannot run without idempotency")
        self._payload = self.execute(self._held)  # not returned, because Powertools would encode it again

    def _put_record(self, data_record: DataRecord) -> None:
        self._held = self.claim()
        if self._held is None:
            busy = DataRecord(idempotency_key=data_record.idempotency_key, status="INPROGRESS")
            raise IdempotencyItemAlreadyExistsError(old_data_record=busy)

    def _get_record(self, idempotency_key: str) -> DataRecord:
        raise IdempotencyItemNotFoundError

    def _update_record(self, data_record: DataRecord) -> None:
        if self._held is not None:
            self._committed = self.complete(self._held, self._payload)

    def _delete_record(self, data_record: DataRecord) -> None:
        raise NotImplementedError("a failed attempt is recorded with its error, by delete_record")

    def delete_record(self, data: dict[str, Any], exception: Exception) -> None:
        """Record the failed attempt with its error."""
        if self._held is not None:
            self._committed = self.fail(self._held, exception)
