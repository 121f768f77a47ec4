"""AWS: one session for all clients of an execution environment, their timeouts, and its errors as this library's."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any, cast
from urllib.parse import urlsplit

import boto3
from botocore import exceptions as botocore
from botocore import session as sessions
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from sagas.errors import SagaError, Unavailable


def _config(connect: float, read: float, attempts: int, mode: str = "standard", **more: Any) -> Config:
    """Timeouts in seconds: botocore's own are 60 each, longer than most steps may take."""
    retries: Any = {"total_max_attempts": attempts, "mode": mode}
    return Config(connect_timeout=connect, read_timeout=read, retries=retries, **more)


VALIDATE = "SAGAS_VALIDATE_REQUESTS"
"""The variable that has every request validated against botocore's models. Tests set it."""
_HOT: Any = {"parameter_validation": VALIDATE in os.environ, "user_agent": "lambda-sagas"}
"""Validation takes longer than sending the request, and so does building a user agent for each."""
HOT = _config(2, 5, 4, max_pool_connections=16, **_HOT)
"""What a step waits for: DynamoDB and SQS. Lists ask 16 shards at a time.

A conditional write that is repeated may meet its own first success; the store recognises it."""
IMPATIENT = _config(1, 1, 1, **_HOT)
"""What helps others, and is not worth waiting for: reporting to a circuit breaker."""
PATIENT = _config(5, 30, 10, "adaptive", parameter_validation=False, max_pool_connections=32)
"""What reads whole tables: it slows down when DynamoDB throttles."""
PAYLOADS = _config(2, 10, 4)
"""S3, for what is too large for DynamoDB."""
STEPS = _config(5, 30, 4)
"""What steps ask for by ``ctx.client``, and S3 in a sweep."""
CALLER = _config(5, 15, 3)
"""What a person waits for, at a shell."""
INVOCATION = _config(5, 310, 1, tcp_keepalive=True)
"""Lambda, called once and waited for a little longer than the supervisor may take."""
EMULATOR = _config(2, 30, 2, s3={"addressing_style": "path"})
"""Whatever an emulator has."""

_SURROUNDINGS = (
    "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL",
)  # fmt: skip
"""The variables that a session or a client reads once. A process in which they change gets others."""

_NOT_NOW = (
    "DependencyTimeoutException", "KMS.ThrottlingException", "KeyUnavailableException", "KmsThrottled",
    "ProvisionedThroughputExceededException", "RequestLimitExceeded", "RequestThrottled", "RequestThrottledException",
    "ServiceUnavailable", "SlowDown", "Throttling", "ThrottlingException", "TooManyRequestsException",
    "TransactionConflictException",
)  # fmt: skip
"""Nothing happened, and later it may."""
_NOT_KNOWN = (
    "InternalError", "InternalException", "InternalFailure", "InternalServerError", "InternalServiceError",
    "KMSInternalException", "RequestTimeout", "ServiceException", "TransactionInProgressException",
    "500", "502", "503", "504",
)  # fmt: skip
"""AWS itself cannot tell what happened, which each service says by a code of its own; or an earlier try still runs."""
_UNREACHED = (
    botocore.ConnectionError,
    botocore.HTTPClientError,
    botocore.IncompleteReadError,
    botocore.MetadataRetrievalError,
)

_one_at_a_time = Lock()


def open_session(region: str | None, profile: str | None) -> boto3.Session:
    """Return a session of the named profile and region; ``None`` takes the environment's."""
    with translated("AWS", quoted=True):
        return boto3.Session(region_name=region, profile_name=profile)


def connect(
    service: str,
    config: Config,
    *,
    region: str | None = None,
    endpoint_url: str | None = None,
    session: boto3.Session | None = None,
) -> Any:
    """Return a boto3 client."""
    with translated(service, quoted=True):
        if session is not None:
            return cast("Any", session).client(service, region_name=region, endpoint_url=endpoint_url, config=config)
        surroundings = tuple(map(os.environ.get, _SURROUNDINGS))
        with _one_at_a_time:  # botocore cannot make two clients of one session at once
            return _client(service, config, region, endpoint_url, surroundings)


@lru_cache(maxsize=64)
def _client(
    service: str, config: Config, region: str | None, endpoint_url: str | None, surroundings: tuple[str | None, ...]
) -> Any:
    session = _session(surroundings)
    client = session.client(service, region_name=region, endpoint_url=endpoint_url, config=config)
    if config in (HOT, IMPATIENT):
        client.meta.events.register("before-sign", _name_host)
    return client


def _name_host(request: Any, **told: Any) -> None:
    """Say whom a request is for, which botocore reads in its URL otherwise, twice for each signature."""
    request.headers["Host"] = _host_of(request.url)


@lru_cache(maxsize=64)
def _host_of(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


@lru_cache(maxsize=8)
def _session(surroundings: tuple[str | None, ...]) -> Any:
    return cast("Any", boto3).Session(botocore_session=cast("Any", sessions).get_session())


S3_NO_SUCH_KEY = frozenset({"NoSuchKey", "404"})
"""What S3 answers for an object that is not there, to who may list the whole bucket, as no function of ours may."""
S3_DENIED = frozenset({"AccessDenied", "403"})
"""What it answers to everyone else."""


def code_of(error: ClientError) -> str:
    """Return AWS's code of an error."""
    return _told(error).get("Code", "")


def _told(error: ClientError) -> dict[str, str]:
    answer: dict[str, dict[str, str]] = getattr(error, "response", {})
    return answer.get("Error", {})


@contextmanager
def translated(service: str, lost: type[Unavailable] = Unavailable, *, quoted: bool = False) -> Generator[None]:
    """Raise this library's errors for those of boto3."""
    try:
        yield
    except ClientError as error:
        code, operation = code_of(error), cast("Any", error).operation_name
        message = _told(error).get("Message") if quoted else None
        text = f"{service} {operation}: {code}" + (f": {message}" if message else "")
        if code in _NOT_NOW:
            raise Unavailable(text) from error
        raise (lost if code in _NOT_KNOWN else SagaError)(text) from error
    except _UNREACHED as error:
        raise lost(f"{service} is out of reach: {type(error).__name__}") from error
    except BotoCoreError as error:
        raise SagaError(f"{service}: {error if quoted else type(error).__name__}") from error
