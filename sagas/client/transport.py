"""Makes signed calls of the API. Only this module of the client uses HTTP."""

from __future__ import annotations

import json
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

from botocore import exceptions as aws
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.httpsession import URLLib3Session
from msgspec import UNSET

from sagas.client.answers import ambiguous, error_of, json_of
from sagas.client.endpoints import ServiceEndpoints
from sagas.errors import InvalidRequest, Problem, SagaError, Unavailable
from sagas.operations import Operation

if TYPE_CHECKING:
    import boto3
    from botocore.config import Config

_CONNECT_TIMEOUT = 5.0
_READ_TIMEOUT = 35.0
"""Seconds. API Gateway answers after 29 seconds at the latest."""
_TRIES = 2
"""A call is repeated once if it did not reach the API, or if it only reads."""
_MOST_CACHED = 64
_LARGEST_CACHED = 256 * 1024
"""The maximum number of answers in the cache, and the maximum size of one in bytes."""
_REGION = re.compile(r"\.execute-api\.([a-z0-9-]+)\.amazonaws\.")
_UNREACHED = (aws.EndpointConnectionError, aws.ConnectTimeoutError, aws.ProxyConnectionError, aws.SSLError)


class Transport:
    """Calls one API. Calls are signed (SigV4, ``execute-api``) with the caller's credentials. The latest answers with
    an ``ETag`` are cached, so an answer that has not changed is not transferred again."""

    def __init__(self, api_url: str, region: str | None, session: boto3.Session) -> None:
        self.url = api_url.rstrip("/")
        self._session: Any = session
        match = _REGION.search(self.url)
        chosen = region or (match and match[1]) or self._session.region_name
        if not chosen:
            raise SagaError(f"the region of {self.url} is unknown; pass region=")
        self.region: str = chosen
        self._http: Any = cast("Any", URLLib3Session)(
            verify=os.environ.get("AWS_CA_BUNDLE") or True,
            proxies={} if proxy_bypass(urlsplit(self.url).netloc) else getproxies(),
            timeout=(_CONNECT_TIMEOUT, _READ_TIMEOUT),
        )
        self._cache: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def ask(
        self,
        operation: Operation,
        *parameters: str,
        query: Mapping[str, object] | None = None,
        body: object = UNSET,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Call an operation with the parameters of its path, in order. Return the body of its answer. A ``body``
        of ``None`` is JSON's null."""
        method = operation.method
        path = operation.path_for(parameters)
        values = {name: str(value) for name, value in (query or {}).items() if value is not None}
        url = self.url + path + ("?" + urlencode(values, quote_via=quote) if values else "")
        data = b"" if body is UNSET else _encoded(body)
        extra = {"Content-Type": "application/json"} if data else {}
        tag, cached = self._cache.get(url, ("", b"")) if method == "GET" else ("", b"")
        extra |= {"If-None-Match": tag} if tag else {}
        answer = self._send(method, url, data, {**extra, **(headers or {})})
        if tag and answer.status_code == 304:
            return json.loads(cached)
        if answer.status_code >= 300:
            raise error_of(answer, writes=method != "GET", right=operation.right)
        if method == "GET":
            self._store(url, answer)
        return json_of(answer)

    def _store(self, url: str, answer: Any) -> None:
        tag = str(answer.headers.get("etag", ""))
        with self._lock:
            self._cache.pop(url, None)
            if tag and len(answer.content) <= _LARGEST_CACHED:
                self._cache[url] = tag, answer.content
                if len(self._cache) > _MOST_CACHED:
                    self._cache.popitem(last=False)

    def _send(self, method: str, url: str, data: bytes, headers: dict[str, str]) -> Any:
        for tries_left in reversed(range(_TRIES)):
            request = self._signed(method, url, data, headers)
            try:
                return self._http.send(request)
            except _UNREACHED as error:
                if not tries_left:
                    raise Unavailable(f"the API at {self.url} is out of reach ({type(error).__name__})") from error
            except (aws.HTTPClientError, aws.ConnectionError) as error:
                text = f"no response from {self.url} ({type(error).__name__})"
                if method != "GET":
                    raise ambiguous(text) from error
                if not tries_left:
                    raise Unavailable(text) from error
        raise AssertionError("unreachable")

    def _signed(self, method: str, url: str, data: bytes, headers: dict[str, str]) -> Any:
        try:
            chain = self._session.get_credentials()
            credentials = chain and chain.get_frozen_credentials()
        except (aws.BotoCoreError, aws.ClientError) as error:  # of STS, for example if a role cannot be assumed
            raise SagaError(f"the AWS credentials cannot be used: {error}") from error
        if not credentials:
            raise SagaError("no AWS credentials; the call must be signed")
        all_headers = {"User-Agent": "lambda-sagas", "Accept": "application/json", **headers}
        request: Any = cast("Any", AWSRequest)(method=method, url=url, data=data, headers=all_headers)
        cast("Any", SigV4Auth)(credentials, "execute-api", self.region).add_auth(request)
        return request.prepare()


class Calls:
    """The base of the classes that :class:`sagas.client.SagaClient` is made of."""

    def __init__(self, transport: Transport, session: boto3.Session, endpoints: ServiceEndpoints) -> None:
        self._transport = transport
        self._session = session
        self._endpoints = endpoints

    def _connect(self, service: str, config: Config | None = None) -> Any:
        """Return a boto3 client. boto3 is loaded here, because a client that calls only the API does not need it."""
        from sagas.aws import CALLER, connect

        region = self._transport.region
        endpoint_url = self._endpoints.endpoint_url
        return connect(service, config or CALLER, region=region, endpoint_url=endpoint_url, session=self._session)


def pages(ask: Callable[[str | None], Any]) -> Iterator[Any]:
    """Yield all pages of a list. ``ask`` returns the page that follows a cursor."""
    cursor: str | None = None
    while True:
        page = ask(cursor)
        yield page
        cursor = page["cursor"]
        if cursor is None:
            return


def _encoded(body: object) -> bytes:
    try:
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        problem = Problem("$", "not JSON; pass the saga class to have an object encoded")
        raise InvalidRequest(f"invalid request: {problem.message}", [problem]) from error
