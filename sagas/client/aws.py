"""boto3's clients with explicit timeouts, and their errors as this library's."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError, ProfileNotFound

from sagas.errors import SagaError, Unavailable

_TRANSIENT = (
    "InternalFailure", "RequestThrottled", "ServiceException", "ServiceUnavailable", "Throttling",
    "ThrottlingException", "TooManyRequestsException",
)  # fmt: skip


def open_session(region: str | None, profile: str | None) -> boto3.Session:
    """Return a session of the named profile and region; ``None`` takes the environment's.

    Raises:
        SagaError: there is no such profile.
    """
    with translated("AWS"):
        return boto3.Session(region_name=region, profile_name=profile)


def connect(session: boto3.Session, service: str, region: str | None = None, endpoint_url: str | None = None) -> Any:
    """Return a boto3 client of ``service`` that waits 5 s to connect and 15 s for an answer, and tries thrice.

    Raises:
        SagaError: the region is not known.
    """
    config = Config(connect_timeout=5, read_timeout=15, retries={"total_max_attempts": 3, "mode": "standard"})
    with translated(service):
        return cast("Any", session).client(service, region_name=region, endpoint_url=endpoint_url, config=config)


def code_of(error: ClientError) -> str:
    """Return AWS's code of an error."""
    answer: dict[str, Any] = getattr(error, "response", {})
    return str(answer.get("Error", {}).get("Code", ""))


@contextmanager
def translated(service: str) -> Generator[None]:
    """Raise this library's errors for those of boto3.

    Raises:
        Unavailable: try again later.
        SagaError: anything else; the text is AWS's.
    """
    try:
        yield
    except ClientError as error:
        if code_of(error) in _TRANSIENT:
            raise Unavailable(f"{service} answered {code_of(error)}") from error
        raise SagaError(f"{service}: {_text(error)}") from error
    except (NoCredentialsError, NoRegionError, ProfileNotFound) as error:
        raise SagaError(f"{service}: {error}") from error
    except BotoCoreError as error:
        raise Unavailable(f"{service} is out of reach: {type(error).__name__}") from error


def _text(error: ClientError) -> str:
    answer: dict[str, Any] = getattr(error, "response", {})
    return f"{code_of(error)}: {answer.get('Error', {}).get('Message', '')}"
