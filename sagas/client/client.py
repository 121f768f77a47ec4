"""The client: each method is one call of the API or of the supervisor, or one look at a dead-letter queue."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Self, TypeVar, overload

import boto3

from sagas.authoring.codec import encode
from sagas.authoring.definition.definition import definition_of
from sagas.authoring.saga import Saga
from sagas.aws import open_session
from sagas.client.endpoints import ServiceEndpoints, endpoints_from_file, endpoints_from_stack
from sagas.client.operate.dead_letter_calls import DeadLetterCalls
from sagas.client.operate.operator_calls import OperatorCalls
from sagas.client.operate.supervisor_calls import SupervisorCalls
from sagas.client.read.logs import LogCalls
from sagas.client.transport import Transport
from sagas.client.waiting import Wait
from sagas.core.ids import KEY_PATTERN, LONGEST_CORRELATION_ID, LONGEST_KEY
from sagas.engine.read.answers import AuditEntry, Page, SagaView, VerificationView
from sagas.errors import Conflict, InvalidRequest, Problem
from sagas.operations import ATTENTION, AUDIT, LIST, LOOK_UP, SHOW, START, VERIFY

RequestT = TypeVar("RequestT")

_AUDIT_PAGE = 100


class SagaClient(DeadLetterCalls, SupervisorCalls, OperatorCalls, LogCalls):
    """Starts, reads, cancels and repairs sagas over the HTTP API.

    Calls are signed with the caller's AWS credentials, so that the audit trail names who acted. What is answered are
    the API's JSON objects, as typed dictionaries. A client may be used by several threads.

    Every method raises ``Unavailable`` when the API or AWS is out of reach (``retry_after`` tells when to try again),
    its subclass ``Ambiguous`` when an answer was lost and the call may have taken effect, and ``SagaError`` when the
    caller is refused or has no credentials.

    Args:
        api_url: of the API with its stage, like ``https://abc123.execute-api.eu-central-1.amazonaws.com/v1``.
        region: of the API; read from the URL, or taken from the session, if it is not given.
        session: whose credentials are used; a new one, which takes the environment's, by default.
        endpoints: where queues and supervisor are, for :meth:`dead_letters`, :meth:`redrive`, :meth:`recover` and
            :meth:`sweep`; :meth:`from_stack` and :meth:`local` find them.

    Raises:
        SagaError: the region is not known.
    """

    def __init__(
        self,
        api_url: str,
        *,
        region: str | None = None,
        session: boto3.Session | None = None,
        endpoints: ServiceEndpoints | None = None,
    ) -> None:
        self._session = session or open_session(region, None)
        super().__init__(Transport(api_url, region, self._session))
        self._endpoints = endpoints or ServiceEndpoints(api_url)

    @classmethod
    def local(cls, directory: str | Path = ".") -> Self:
        """Return a client of the local stack that runs for a project.

        Args:
            directory: the project's, which holds ``.sagas/local.json``.

        Raises:
            SagaError: no local stack is running there.
        """
        endpoints = endpoints_from_file(Path(directory))
        anyone = boto3.Session(
            aws_access_key_id="test",  # which is root where IAM is enforced
            aws_secret_access_key="test",  # noqa: S106 - the emulator takes any
            region_name=endpoints.region,
        )
        return cls(endpoints.api_url, region=endpoints.region, session=anyone, endpoints=endpoints)

    @classmethod
    def from_stack(cls, stack_name: str, region: str | None = None, profile: str | None = None) -> Self:
        """Return a client of a service that is deployed as, or in, a CloudFormation stack.

        Args:
            stack_name: name or id of the stack.
            region: of the stack; ``None`` takes the environment's.
            profile: of the AWS configuration; ``None`` takes the environment's.

        Raises:
            SagaError: there is no such stack, it holds no service, or the caller may not read it.
        """
        session = open_session(region, profile)
        endpoints = endpoints_from_stack(session, stack_name)
        return cls(endpoints.api_url, region=endpoints.region, session=session, endpoints=endpoints)

    @property
    def api_url(self) -> str:
        """The API's URL with its stage."""
        return self._transport.url

    @property
    def region(self) -> str:
        """The region that calls are signed for."""
        return self._transport.region

    @overload
    def start(
        self,
        saga: type[Saga[RequestT]],
        request: RequestT,
        *,
        key: str | None = None,
        correlation_id: str | None = None,
    ) -> SagaView: ...

    @overload
    def start(
        self, saga: str, request: object, *, key: str | None = None, correlation_id: str | None = None
    ) -> SagaView: ...

    def start(
        self,
        saga: type[Any] | str,
        request: object,
        *,
        key: str | None = None,
        correlation_id: str | None = None,
    ) -> SagaView:
        """Start a saga.

        Args:
            saga: the saga class, or the name of the type.
            request: an instance of the class's request type; for the name of a type, its JSON form (``dict``,
                ``list``, ...).
            key: an idempotency key of 1 to 256 printable ASCII characters. The same key and request start one saga,
                however often they are sent: after ``Ambiguous``, send them again. A key answers as long as its saga is
                stored, and for the service's ``key_retention`` (30 days by default) after it was purged.
            correlation_id: your own, of 1 to 128 printable ASCII characters, kept in the audit trail, in messages and
                in every log line; the saga's id by default.

        Returns:
            The saga; with a key that was used before, the saga it started.

        Raises:
            InvalidRequest: request or key do not fit, or the key was used for another request; ``problems`` has the
                paths.
            NotFound: there is no such type.
            TooLarge: the request has more than 256 KB.
            Unavailable: or starts of this type are paused.
        """
        headers: dict[str, str] = {}
        if key is not None:
            if len(key) > LONGEST_KEY or not re.fullmatch(KEY_PATTERN, key):
                problem = Problem("header.Idempotency-Key", f"must be 1 to {LONGEST_KEY} printable ASCII characters")
                raise InvalidRequest("the idempotency key is not usable", [problem])
            headers["Idempotency-Key"] = key
        if correlation_id is not None:
            if len(correlation_id) > LONGEST_CORRELATION_ID or not re.fullmatch(KEY_PATTERN, correlation_id):
                text = f"must be 1 to {LONGEST_CORRELATION_ID} printable ASCII characters"
                raise InvalidRequest("the correlation id is not usable", [Problem("header.X-Correlation-Id", text)])
            headers["X-Correlation-Id"] = correlation_id
        if isinstance(saga, str):
            return self._transport.ask(START, saga, body=request, headers=headers)
        definition = definition_of(saga)
        body = encode(request, definition.request_type)
        return self._transport.ask(START, definition.name, body=body, headers=headers)

    def rerun(self, type: str, saga_id: str, key: str | None = None) -> SagaView:
        """Start a new saga with the request of an old one, which stays as it is, whatever its status.

        The new one has the old one's correlation id, so that logs of both are found together.

        Args:
            type: the saga type.
            saga_id: the old saga.
            key: an idempotency key for the new one. It must not be that of the old one, which is answered with the old
                saga.

        Returns:
            The new saga.

        Raises:
            NotFound: there is no such saga.
            Conflict: its request was purged, is too large to be answered, or is not shown in full.
            InvalidRequest: the request does not fit the type as it is deployed now, or the key was used before.
            Unavailable: or starts of this type are paused.
        """
        old = self.show(type, saga_id)
        purged_at = old.get("purged_at")
        if purged_at:
            raise Conflict(f"the saga's request was purged at {purged_at}: start a new one with it in hand")
        if any(one["path"] == "$.request" for one in old.get("left_out", ())):
            raise Conflict("the saga's request is too large to be answered: start a new one with it in hand")
        if any(place == "$.request" for place in old.get("redacted", ())):
            raise Conflict("the saga's request is not shown in full: start a new one with it in hand")
        return self.start(type, old["request"], key=key, correlation_id=old["correlation_id"])

    def show(self, type: str, saga_id: str) -> SagaView:
        """Return a saga with its steps.

        Raises:
            NotFound: there is none.
        """
        return self._transport.ask(SHOW, type, saga_id)

    def look_up(self, saga_id: str) -> SagaView:
        """Return a saga by its id alone.

        Args:
            saga_id: or how it begins, four characters at least: among the newest five hundred sagas, and those of the
                time that the beginning of most ids tells.

        Raises:
            NotFound: there is none.
            Conflict: several sagas' ids begin so.
            InvalidRequest: it is too short.
        """
        return self._transport.ask(LOOK_UP, saga_id)

    def list(
        self,
        type: str | None = None,
        status: str | None = None,
        *,
        parent: str | None = None,
        limit: int = 20,
        cursor: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        idempotency_key: str | None = None,
        find: Mapping[str, object] | None = None,
    ) -> Page:
        """Return summaries of sagas, newest first; or of one saga's children, by their positions. A page may be short,
        even empty, although ``cursor`` leads on.

        Args:
            type: the saga type; ``None`` lists all types.
            parent: only children of the saga with this id; goes with no other filter.
            status: only sagas of this status. Of those that are over, the last to end comes first.
            limit: how many to look at, 1 to 100.
            cursor: that of the page before.
            since: only sagas that were started at this time or later; that ended then, where ``status`` is an end and
                nothing is in ``find``. Text is ISO 8601, in UTC without an offset.
            until: likewise, before this time.
            idempotency_key: only those that it started, one of each type at most; goes with ``type`` alone.
            find: only sagas with these values in their requests, by names of what the type is found by
                (``find_by`` of its class).

        Raises:
            NotFound: there is no such type.
            InvalidRequest: an argument does not fit, or the type is not found by one of the values.
        """
        times = {"since": _text_of_time(since), "until": _text_of_time(until)}
        paging = {"limit": limit, "cursor": cursor} if idempotency_key is None else {}
        query = {"type": type, "status": status, "parent": parent, **times, **paging}
        query["idempotency_key"] = idempotency_key
        found_by = (find or {}).items()
        values = {one: str(value).lower() if isinstance(value, bool) else str(value) for one, value in found_by}
        return self._transport.ask(LIST, query={**values, **query})

    def attention(self, type: str | None = None, *, limit: int = 20, cursor: str | None = None) -> Page:
        """Return summaries of the sagas that need a person, the longest waiting first; each with ``attention``.

        Args:
            type: the saga type; ``None`` lists all types. The page is full if there are enough, up to two thousand
                sagas of other types between them.
            limit: how many to return, 1 to 100.
            cursor: that of the page before.

        Raises:
            NotFound: there is no such type.
            InvalidRequest: an argument does not fit.
        """
        return self._transport.ask(ATTENTION, query={"type": type, "limit": limit, "cursor": cursor})

    def audit(self, type: str, saga_id: str) -> Iterator[AuditEntry]:
        """Yield the whole audit trail of a saga, oldest entry first, reading page after page.

        Raises:
            NotFound: there is no such saga; raised with the first entry asked for.
        """
        cursor = None
        while True:
            page = self._transport.ask(AUDIT, type, saga_id, query={"limit": _AUDIT_PAGE, "cursor": cursor})
            yield from page["entries"]
            cursor = page["cursor"]
            if cursor is None:
                return

    def verify(self, type: str, saga_id: str) -> VerificationView:
        """Verify the audit trail of a saga by its hashes: whether an entry was changed, or one is missing.

        Args:
            type: the saga type.
            saga_id: which.

        Returns:
            What was found; the first entry that is not what was written, if there is one.

        Raises:
            NotFound: there is no such saga.
            Unavailable: try again later.
        """
        return self._transport.ask(VERIFY, type, saga_id)

    def result(self, type: str, saga_id: str, timeout: float | None = None) -> Any:
        """Wait for a saga's end and return its result: its last step's, or of the one that its class names.

        Args:
            type: the saga type.
            saga_id: the saga.
            timeout: seconds to wait; without it, as long as it takes.

        Raises:
            NotFound: there is no such saga.
            Conflict: it did not end COMPLETED, or was purged; the message says how, or when.
            TimeoutError: it was not over in time.
        """
        saga = self.wait(type, saga_id, timeout)
        if saga["status"] != "COMPLETED":
            raise Conflict(f"the saga is {saga['status']}: it has no result")
        if "purged_at" in saga:
            raise Conflict(f"the saga was purged at {saga['purged_at']}: its result is gone")
        return saga["result"]

    def wait(
        self,
        type: str,
        saga_id: str,
        timeout: float | None = None,
        on_change: Callable[[SagaView], None] | None = None,
        *,
        after: str | None = None,
    ) -> SagaView:
        """Wait until a saga is over, or DEAD_LETTERED and so waits for a person; return it.

        It is read ten times a second while it changes, and down to every two seconds while it does not.

        Args:
            type: the saga type.
            saga_id: the saga.
            timeout: seconds; ``None`` waits for ever.
            on_change: called with the saga as it is first read, and whenever it has changed.
            after: the ``updated_at`` of a saga that is at rest now and about to go on, after :meth:`redrive` say: it
                must have changed since.

        Raises:
            NotFound: there is no such saga.
            TimeoutError: it is still under way.
        """
        return Wait(timeout).until_rest(lambda: self.show(type, saga_id), on_change, after)


def _text_of_time(moment: datetime | str | None) -> str | None:
    return moment.isoformat() if isinstance(moment, datetime) else moment
