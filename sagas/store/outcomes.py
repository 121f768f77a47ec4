"""The store's own outcomes, and the one place where errors of DynamoDB and S3 become errors of this library."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.exceptions import PynamoDBException, TransactWriteError

from sagas.core.states import SagaState
from sagas.errors import Ambiguous, SagaError, Unavailable

_REFUSED = "ConditionalCheckFailedException"
_TRANSIENT = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "Throttling",
        "ThrottlingException",
        "TransactionConflictException",
        "TransactionInProgressException",
        "SlowDown",
        "ServiceUnavailable",
    }
)
_UNKNOWN = frozenset({"InternalServerError", "InternalError", "InternalFailure", "500", "503"})


class Refused(SagaError):
    """A conditional write met another state than the caller had seen."""


class Fenced(SagaError):
    """Somebody with a higher fencing token is at work: stop, keep the message, write nothing more."""


class CancelWon(SagaError):
    """A cancel was accepted between reading and writing; ``state`` is the saga as it is now."""

    def __init__(self, state: SagaState) -> None:
        super().__init__("a cancel was accepted meanwhile")
        self.state = state


def _cancelled_by_condition(error: TransactWriteError) -> bool:
    reasons = error.cancellation_reasons
    return any(reason is not None and reason.code == "ConditionalCheckFailed" for reason in reasons)


def _translate(error: PynamoDBException | ClientError | BotoCoreError) -> SagaError:
    code = _code(error)
    if isinstance(error, TransactWriteError) and code == "TransactionCanceledException":
        refused = _cancelled_by_condition(error)
        return Refused("the transaction's condition failed") if refused else Unavailable("DynamoDB: conflict")
    if code == _REFUSED:
        return Refused("the condition failed")
    if code is None or code in _UNKNOWN:
        return Ambiguous(f"no answer: {type(error).__name__}")
    return Unavailable(f"AWS answered {code}") if code in _TRANSIENT else SagaError(f"AWS answered {code}")


def _code(error: PynamoDBException | ClientError | BotoCoreError) -> str | None:
    if isinstance(error, ClientError):
        answer: dict[str, Any] = getattr(error, "response", {})
        return str(answer.get("Error", {}).get("Code", ""))
    # Not PynamoDB's own cause_response_code: it fails on a read timeout, whose answer is None.
    cause = error.cause if isinstance(error, PynamoDBException) else None
    return _code(cause) if isinstance(cause, ClientError) else None


@contextmanager
def translated() -> Generator[None]:
    """Raise this library's errors for those of PynamoDB and botocore.

    Raises:
        Refused: a condition failed.
        Ambiguous: no answer came, so the write may have happened.
        Unavailable: try again later.
        SagaError: anything else, by AWS's error code.
    """
    try:
        yield
    except (PynamoDBException, ClientError, BotoCoreError) as error:
        raise _translate(error) from error
