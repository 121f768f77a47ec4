"""AWS clients that share a session per execution environment, have timeouts, and raise this library's errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, cast
from urllib.parse import urlsplit

import boto3
from botocore import exceptions as botocore
from botocore import session as sessions
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.loaders import Loader

from sagas.errors import Denied, SagaError, Unavailable


def _config(connect: float, read: float, attempts: int, mode: str = "standard", **more: Any) -> Config:
    """Timeouts are in seconds. The defaults of botocore are 60 each, which is longer than most steps can take."""
    retries: Any = {"total_max_attempts": attempts, "mode": mode}
    return Config(connect_timeout=connect, read_timeout=read, retries=retries, **more)


VALIDATE = "SAGAS_VALIDATE_REQUESTS"
"""If this variable is set, every request is validated against botocore's models. Tests set it."""
_HOT: Any = {"parameter_validation": VALIDATE in os.environ, "user_agent": "lambda-sagas"}
"""Validating a request, or building its user agent, would take longer than sending it."""
HOT = _config(2, 5, 4, max_pool_connections=16, **_HOT)
"""For DynamoDB and SQS, for which steps wait. Lists query 16 shards at a time.

A repeated conditional write can fail because the first write succeeded. The store recognises that."""
BEST_EFFORT = _config(1, 1, 1, **_HOT)
"""For requests that only help other sagas, such as reports to a circuit breaker."""
PATIENT = _config(5, 30, 10, "adaptive", parameter_validation=False, max_pool_connections=32)
"""For reading whole tables. The client slows down when DynamoDB throttles it."""
PAYLOADS = _config(2, 10, 4)
"""For S3, with payloads that are too large for DynamoDB."""
STEPS = _config(5, 30, 4)
"""For ``ctx.client`` in steps, and for S3 in a sweep."""
CALLER = _config(5, 15, 3)
"""For commands in a shell, where a person waits."""
INVOCATION = _config(5, 310, 1, tcp_keepalive=True)
"""For a call to Lambda, with a timeout slightly longer than that of the supervisor."""
EMULATOR = _config(2, 30, 2, s3={"addressing_style": "path"})
"""For calls to all services of an emulator."""

_SESSION_VARIABLES = (
    "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL",
)  # fmt: skip
"""Sessions and clients read these environment variables only once. A change of the variables creates new clients."""

_NOT_NOW = (
    "DependencyTimeoutException", "KMS.ThrottlingException", "KeyUnavailableException", "KmsThrottled",
    "ProvisionedThroughputExceededException", "RequestLimitExceeded", "RequestThrottled", "RequestThrottledException",
    "ServiceUnavailable", "SlowDown", "Throttling", "ThrottlingException", "TooManyRequestsException",
    "TransactionConflictException",
)  # fmt: skip
"""The request had no effect, and a later one can succeed."""
_UNCERTAIN = (
    "InternalError", "InternalException", "InternalFailure", "InternalServerError", "InternalServiceError",
    "KMSInternalException", "RequestTimeout", "ServiceException", "TransactionInProgressException",
    "500", "502", "503", "504",
)  # fmt: skip
"""The request may or may not have taken effect, or an earlier try still runs. Each service has its own codes for
this."""
_NEVER = (
    "400", "404", "413", "EntityTooLarge", "InvalidArgument", "InvalidCiphertextException", "InvalidRequest",
    "NoSuchKey", "SerializationException", "ValidationError", "ValidationException",
)  # fmt: skip
"""The request itself is at fault, or what it names does not exist. It will fail again."""
_NO_RIGHT = ("403", "AccessDenied", "AccessDeniedException", "KMS.AccessDeniedException")
"""The caller lacks the right to make the request."""
_UNREACHED = (
    botocore.ConnectionError,
    botocore.HTTPClientError,
    botocore.IncompleteReadError,
    botocore.MetadataRetrievalError,
)

_one_at_a_time = Lock()


def open_session(region: str | None, profile: str | None) -> boto3.Session:
    """Return a session with the profile and region; ``None`` uses the environment's."""
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
        variables = tuple(map(os.environ.get, _SESSION_VARIABLES))
        with _one_at_a_time:  # botocore cannot create two clients of a session at the same time
            return _client(service, config, region, endpoint_url, variables)


@lru_cache(maxsize=64)
def _client(
    service: str, config: Config, region: str | None, endpoint_url: str | None, variables: tuple[str | None, ...]
) -> Any:
    session = _session(variables)
    client = session.client(service, region_name=region, endpoint_url=endpoint_url, config=config)
    if config in (HOT, BEST_EFFORT):
        client.meta.events.register("before-sign", _name_host)
    return client


def _name_host(request: Any, **others: Any) -> None:
    """Set the header ``Host``. Without it, botocore would parse the URL twice per signature."""
    request.headers["Host"] = _host_of(request.url)


@lru_cache(maxsize=64)
def _host_of(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


@lru_cache(maxsize=8)
def _session(variables: tuple[str | None, ...]) -> Any:
    session = cast("Any", sessions).get_session()
    paths = session.get_component("data_loader").search_paths
    session.register_component("data_loader", _Loader(paths, include_default_search_paths=False))
    return cast("Any", boto3).Session(botocore_session=session)


class _Loader(cast("type[Any]", Loader)):
    """Finds the model of a service without looking into the folders of the four hundred others, as botocore does once
    per kind of model."""

    def list_available_services(self, type_name: str) -> list[str]:
        return sorted(f.name for path in map(Path, self.search_paths) if path.is_dir() for f in path.iterdir())


S3_NO_SUCH_KEY = frozenset({"NoSuchKey", "404"})
"""S3's codes for a missing object, for callers that may list the bucket. Functions of this library may not."""
S3_DENIED = frozenset({"AccessDenied", "403"})
"""S3's codes for a missing object, for callers that may not list the bucket."""


def code_of(error: ClientError) -> str:
    """Return the code of an error from AWS."""
    return _details_of(error).get("Code", "")


def _details_of(error: ClientError) -> dict[str, str]:
    answer: dict[str, dict[str, str]] = getattr(error, "response", {})
    return answer.get("Error", {})


@contextmanager
def translated(
    service: str,
    lost: type[Unavailable] = Unavailable,
    *,
    quoted: bool = False,
    resource: Callable[[], str] | None = None,
) -> Generator[None]:
    """Raise errors of this library in place of boto3's errors. ``resource``: returns what the request is about. With
    it, a refusal that may end is :class:`Denied`, and not a plain ``SagaError``."""
    try:
        yield
    except ClientError as error:
        code = code_of(error)
        operation = cast("Any", error).operation_name
        message = _details_of(error).get("Message") if quoted else None
        text = f"{service} {operation}: {code}" + (f": {message}" if message else "")
        if code in _NOT_NOW:
            raise Unavailable(text) from error
        if code in _UNCERTAIN:
            raise lost(text) from error
        if resource is None or code in _NEVER:
            raise SagaError(text) from error
        raise Denied(text, f"{service.lower()}:{operation} on {resource()}" if code in _NO_RIGHT else "") from error
    except _UNREACHED as error:
        raise lost(f"{service} is out of reach: {error if quoted else type(error).__name__}") from error
    except BotoCoreError as error:
        # Credentials can expire or be out of reach. A request that botocore finds invalid stays so.
        lasting = resource is None or isinstance(error, botocore.ParamValidationError)
        kind = SagaError if lasting else Denied
        raise kind(f"{service}: {error if quoted else type(error).__name__}") from error
