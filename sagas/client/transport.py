"""Signed calls of the API. The one place of the client that speaks HTTP."""

from __future__ import annotations

import json
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote, urlencode

import boto3
from botocore import exceptions as aws
from botocore import utils
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.httpsession import URLLib3Session

from sagas.client.answers import Answer, error_of
from sagas.errors import Ambiguous, InvalidRequest, Problem, SagaError, Unavailable
from sagas.operations import Operation

_CONNECT_TIMEOUT, _READ_TIMEOUT = 5.0, 35.0
"""Seconds. API Gateway itself answers after 29."""
_TRIES = 2
"""A call that reached nobody, or that only reads, is made again once."""
_MOST_KEPT, _LARGEST_KEPT = 64, 256 * 1024
"""Answers, and bytes of one."""
_REGION = re.compile(r"\.execute-api\.([a-z0-9-]+)\.amazonaws\.")
_UNREACHED = (aws.EndpointConnectionError, aws.ConnectTimeoutError, aws.ProxyConnectionError, aws.SSLError)


class Transport:
    """Calls one API, signed (SigV4, ``execute-api``) with the caller's credentials.

    What was answered with an ``ETag`` is kept, the latest few of it: asked for again, it need not be read again.

    Args:
        api_url: the API's URL with its stage.
        region: of the API; ``None`` reads it from the URL, or takes the session's.
        session: whose credentials sign.

    Raises:
        SagaError: the region is not known.
    """

    def __init__(self, api_url: str, region: str | None, session: boto3.Session) -> None:
        self.url = api_url.rstrip("/")
        self._session: Any = session
        named = _REGION.search(self.url)
        found = region or (named and named[1]) or self._session.region_name
        if not found:
            raise SagaError(f"the region of {self.url} is not known; name it")
        self.region: str = found
        self._http: Any = cast("Any", URLLib3Session)(
            verify=os.environ.get("AWS_CA_BUNDLE") or True,
            proxies=cast("Any", utils).get_environ_proxies(self.url),
            timeout=(_CONNECT_TIMEOUT, _READ_TIMEOUT),
        )
        self._kept: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._keeping = threading.Lock()

    def ask(
        self,
        operation: Operation,
        *parameters: str,
        query: Mapping[str, object] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        null: bool = False,
    ) -> Any:
        """Ask for an operation, with the parameters of its path in order. Otherwise as :meth:`call`."""
        path = operation.filled(parameters)
        return self.call(operation.method, path, query=query, body=body, headers=headers, null=null)

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        null: bool = False,
    ) -> Any:
        """Make a call and return the body of its answer."""
        given = {name: str(value) for name, value in (query or {}).items() if value is not None}
        url = self.url + path + ("?" + urlencode(given, quote_via=quote) if given else "")
        data = b"" if body is None and not null else _encoded(body)
        extra = {"Content-Type": "application/json"} if data else {}
        tag, kept = self._kept.get(url, ("", b"")) if method == "GET" else ("", b"")
        extra |= {"If-None-Match": tag} if tag else {}
        answer = self._send(method, url, data, {**extra, **(headers or {})})
        if tag and answer.status == 304:
            return json.loads(kept)
        if answer.status >= 300:
            raise error_of(answer, writes=method != "GET")
        if method == "GET":
            self._keep(url, answer)
        return answer.json()

    def _keep(self, url: str, answer: Answer) -> None:
        """Keep an answer that has a tag, to be asked for only if it has changed."""
        tag = next((value for name, value in answer.headers.items() if name.lower() == "etag"), "")
        with self._keeping:
            self._kept.pop(url, None)
            if tag and len(answer.content) <= _LARGEST_KEPT:
                self._kept[url] = tag, answer.content
                if len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)

    def _send(self, method: str, url: str, data: bytes, headers: dict[str, str]) -> Answer:
        for tries_left in reversed(range(_TRIES)):
            request = self._signed(method, url, data, headers)
            try:
                got: Any = self._http.send(request)
                return Answer(got.status_code, got.headers, got.content)
            except _UNREACHED as error:
                if not tries_left:
                    raise Unavailable(f"the API is out of reach at {self.url}: {type(error).__name__}") from error
            except (aws.HTTPClientError, aws.ConnectionError) as error:
                if method != "GET":
                    raise Ambiguous(f"no answer from {self.url}: {type(error).__name__}") from error
                if not tries_left:
                    raise Unavailable(f"no answer from {self.url}: {type(error).__name__}") from error
        raise AssertionError("unreachable")

    def _signed(self, method: str, url: str, data: bytes, headers: dict[str, str]) -> Any:
        try:
            found = self._session.get_credentials()
            credentials = found and found.get_frozen_credentials()
        except (aws.BotoCoreError, aws.ClientError) as error:  # of STS where a role is to be taken on
            raise SagaError(f"the AWS credentials cannot be used: {error}") from error
        if not credentials:
            raise SagaError("no AWS credentials were found to sign the call with")
        known = {"User-Agent": "lambda-sagas", "Accept": "application/json", **headers}
        request: Any = cast("Any", AWSRequest)(method=method, url=url, data=data, headers=known)
        cast("Any", SigV4Auth)(credentials, "execute-api", self.region).add_auth(request)
        return request.prepare()


def _encoded(body: object) -> bytes:
    try:
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        problem = Problem("$", "is not JSON; give the saga class to have a request object encoded")
        raise InvalidRequest("the request is not JSON", [problem]) from error
