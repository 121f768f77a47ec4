"""The client: each method calls the API or the supervisor, or reads a dead-letter queue or logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast, overload

from sagas.client.endpoints import LocalSession, ServiceEndpoints, endpoints_from_file, endpoints_from_stack
from sagas.client.operate.dead_letter_calls import DeadLetterCalls
from sagas.client.operate.operator_calls import OperatorCalls
from sagas.client.operate.supervisor_calls import SupervisorCalls
from sagas.client.read.logs import LogCalls
from sagas.client.transport import Transport
from sagas.client.waiting import Waiting
from sagas.core.ids import KEY_PATTERN, LONGEST_CORRELATION_ID, LONGEST_KEY
from sagas.errors import Conflict, InvalidRequest, Problem
from sagas.operations import ATTENTION, AUDIT, LIST, LOOK_UP, SHOW, START, VERIFY

if TYPE_CHECKING:
    import boto3

    from sagas.authoring.saga import Saga
    from sagas.engine.read.answers import AuditEntry, Page, SagaView, VerificationView

RequestT = TypeVar("RequestT")

_AUDIT_PAGE = 100


class SagaClient(DeadLetterCalls, SupervisorCalls, OperatorCalls, LogCalls):
    """Starts, reads, cancels and repairs sagas over the HTTP API.

    Calls are signed with the caller's AWS credentials, so that the audit trail has the caller's name. The methods
    return the API's JSON objects as typed dictionaries. Several threads can share a client.

    Every method raises ``Unavailable`` if the API or AWS is out of reach; ``retry_after`` is the time until the next
    try. It raises the subclass ``Ambiguous`` if the response was lost and the call may have taken effect. It raises
    ``SagaError`` if access is denied or there are no credentials.

    Args:
        api_url: the API's URL with its stage, like ``https://abc123.execute-api.eu-central-1.amazonaws.com/v1``.
        region: the API's region; by default from the URL, or else from the session.
        session: the session with the credentials; by default a new one from the environment.
        endpoints: the queues and the supervisor, for :meth:`dead_letters`, :meth:`redrive`, :meth:`recover` and
            :meth:`sweep`; :meth:`from_stack` and :meth:`local` find them.

    Raises:
        SagaError: the region is unknown.
    """

    def __init__(
        self,
        api_url: str,
        *,
        region: str | None = None,
        session: boto3.Session | None = None,
        endpoints: ServiceEndpoints | None = None,
    ) -> None:
        if session is None:
            from sagas.aws import open_session

            session = open_session(region, None)
        self._session = session
        super().__init__(Transport(api_url, region, self._session))
        self._endpoints = endpoints or ServiceEndpoints(api_url)

    @classmethod
    def local(cls, directory: str | Path = ".") -> Self:
        """Return a client of a project's running local stack.

        Args:
            directory: the project's directory, with ``.sagas/local.json``.

        Raises:
            SagaError: no local stack is running for the project.
        """
        endpoints = endpoints_from_file(Path(directory))
        session = cast("boto3.Session", LocalSession(endpoints.region))
        return cls(endpoints.api_url, region=endpoints.region, session=session, endpoints=endpoints)

    @classmethod
    def from_stack(cls, stack_name: str, region: str | None = None, profile: str | None = None) -> Self:
        """Return a client of a service that is deployed in a CloudFormation stack.

        Args:
            stack_name: the name or id of the stack.
            region: the stack's region; by default the environment's.
            profile: the profile of the AWS configuration; by default the environment's.

        Raises:
            SagaError: the stack does not exist or has no service, or the caller may not read it.
        """
        from sagas.aws import open_session

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
            request: an instance of the class's request type; with the name of a type, its JSON form (``dict``,
                ``list``, ...).
            key: an idempotency key of 1 to 256 printable ASCII characters. The same key and request start one saga,
                however often they are sent: after ``Ambiguous``, send them again. The key starts no other saga as long
                as that saga is stored, and after its purge for the service's ``key_retention``, 30 days by default.
            correlation_id: your own id of 1 to 128 printable ASCII characters, for the audit trail, messages and log
                lines; by default the saga's id.

        Returns:
            The saga; for a key that was used before, the saga that it started.

        Raises:
            InvalidRequest: the request or key is not valid, or the key was used with another request; ``problems``
                lists the paths.
            NotFound: the type does not exist.
            TooLarge: the request is larger than 256 KB.
            Unavailable: starts of this type are paused, or the API is out of reach.
        """
        headers: dict[str, str] = {}
        if key is not None:
            if len(key) > LONGEST_KEY or not re.fullmatch(KEY_PATTERN, key):
                text = f"must be 1 to {LONGEST_KEY} printable ASCII characters, with no space at either end"
                problem = Problem("header.Idempotency-Key", text)
                raise InvalidRequest(f"invalid idempotency key: {text}", [problem])
            headers["Idempotency-Key"] = key
        if correlation_id is not None:
            if len(correlation_id) > LONGEST_CORRELATION_ID or not re.fullmatch(KEY_PATTERN, correlation_id):
                text = f"must be 1 to {LONGEST_CORRELATION_ID} printable ASCII characters, with no space at either end"
                problem = Problem("header.X-Correlation-Id", text)
                raise InvalidRequest(f"invalid correlation id: {text}", [problem])
            headers["X-Correlation-Id"] = correlation_id
        if isinstance(saga, str):
            return self._transport.ask(START, saga, body=request, headers=headers)
        from sagas.authoring.codec import encode
        from sagas.authoring.definition.definition import definition_of

        definition = definition_of(saga)
        body = encode(request, definition.request_type)
        return self._transport.ask(START, definition.name, body=body, headers=headers)

    def rerun(self, type: str, saga_id: str, key: str | None = None) -> SagaView:
        """Start a new saga with the request of an old one, which does not change. The old one can have any status.

        The new saga has the old one's correlation id, so that you can find the logs of both together.

        Args:
            type: the saga type.
            saga_id: the old saga.
            key: an idempotency key for the new saga. The old saga's own key would return the old saga.

        Returns:
            The new saga.

        Raises:
            NotFound: the saga does not exist.
            Conflict: its request was purged, is too large for an answer, or is redacted.
            InvalidRequest: the request is not valid for the deployed type, or the key was used before.
            Unavailable: starts of this type are paused, or the API is out of reach.
        """
        old = self.show(type, saga_id)
        purged_at = old.get("purged_at")
        if purged_at:
            raise Conflict(f"the saga's request was purged at {purged_at}; start a new saga with your own copy")
        if any(part["path"] == "$.request" for part in old.get("left_out", ())):
            raise Conflict("the saga's request is too large for an answer; start a new saga with your own copy")
        if any(path == "$.request" for path in old.get("redacted", ())):
            raise Conflict("the saga's request is redacted; start a new saga with your own copy")
        return self.start(type, old["request"], key=key, correlation_id=old["correlation_id"])

    def show(self, type: str, saga_id: str) -> SagaView:
        """Return a saga with its steps.

        Raises:
            NotFound: the saga does not exist.
        """
        return self._transport.ask(SHOW, type, saga_id)

    def look_up(self, saga_id: str) -> SagaView:
        """Return a saga by its id.

        Args:
            saga_id: the id, or its first four or more characters. With these, it searches the newest five hundred
                sagas. Most ids start with a timestamp, so it also searches the sagas of that time.

        Raises:
            NotFound: no saga matches.
            Conflict: several saga ids start with these characters.
            InvalidRequest: there are fewer than four characters.
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
        """Return summaries of sagas, newest first; with ``parent``, of its children, in the order of their positions. A
        page with a ``cursor`` can be short, even empty.

        Args:
            type: the saga type; ``None`` lists all types.
            parent: only children of the saga with this id; not allowed with other filters.
            status: only sagas with this status. With a final status, the last saga to end comes first.
            limit: how many sagas to look at, 1 to 100.
            cursor: the cursor of the previous page.
            since: only sagas that were started at this time or later. With a final ``status`` and no ``find``, only
                sagas that ended then. Text is ISO 8601, and without an offset in UTC.
            until: only sagas before this time, like ``since``.
            idempotency_key: only sagas that it started, at most one per type; allowed only with ``type``.
            find: only sagas with these values in their requests, by the search keys of the type (``find_by`` of its
                class).

        Raises:
            NotFound: the type does not exist.
            InvalidRequest: an argument is not valid, or the type does not have one of the search keys.
        """
        times = {"since": _text_of_time(since), "until": _text_of_time(until)}
        paging = {"limit": limit, "cursor": cursor} if idempotency_key is None else {}
        query = {"type": type, "status": status, "parent": parent, **times, **paging}
        query["idempotency_key"] = idempotency_key
        keys = (find or {}).items()
        values = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in keys}
        return self._transport.ask(LIST, query={**values, **query})

    def attention(self, type: str | None = None, *, limit: int = 20, cursor: str | None = None) -> Page:
        """Return summaries of the sagas that need an operator, the longest waiting first; each with ``attention``.

        Args:
            type: the saga type; ``None`` lists all types. A page with a ``cursor`` is short only if two thousand sagas
                of other types come in between.
            limit: how many sagas to return at most, 1 to 100.
            cursor: the cursor of the previous page.

        Raises:
            NotFound: the type does not exist.
            InvalidRequest: an argument is not valid.
        """
        return self._transport.ask(ATTENTION, query={"type": type, "limit": limit, "cursor": cursor})

    def audit(self, type: str, saga_id: str) -> Iterator[AuditEntry]:
        """Yield the whole audit trail of a saga, oldest entry first. It is read page by page.

        Raises:
            NotFound: the saga does not exist. Raised when you request the first entry.
        """
        cursor = None
        while True:
            page = self._transport.ask(AUDIT, type, saga_id, query={"limit": _AUDIT_PAGE, "cursor": cursor})
            yield from page["entries"]
            cursor = page["cursor"]
            if cursor is None:
                return

    def verify(self, type: str, saga_id: str) -> VerificationView:
        """Verify the hashes of a saga's audit trail. They show whether an entry was changed or is missing.

        Args:
            type: the saga type.
            saga_id: the saga.

        Returns:
            The outcome, with the first entry that differs from the written one, if any.

        Raises:
            NotFound: the saga does not exist.
            Unavailable: try again later.
        """
        return self._transport.ask(VERIFY, type, saga_id)

    def result(self, type: str, saga_id: str, timeout: float | None = None) -> Any:
        """Wait for a saga's end and return its result: that of its last step, or of the step that its class names.

        Args:
            type: the saga type.
            saga_id: the saga.
            timeout: seconds to wait; by default without a limit.

        Raises:
            NotFound: the saga does not exist.
            Conflict: the saga has another status than COMPLETED, or was purged. The message has the status, or the
                time of the purge.
            TimeoutError: it did not end in time.
        """
        saga = self.wait(type, saga_id, timeout)
        if saga["status"] != "COMPLETED":
            raise Conflict(f"the saga is {saga['status']}; only COMPLETED sagas have a result")
        if "purged_at" in saga:
            raise Conflict(f"the saga was purged at {saga['purged_at']}; its result is deleted")
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
        """Wait until a saga has ended, or is DEAD_LETTERED and waits for an operator. Return it.

        It is read ten times a second while it changes, and less often, down to every two seconds, while it does not.

        Args:
            type: the saga type.
            saga_id: the saga.
            timeout: seconds to wait; by default without a limit.
            on_change: called with the saga when it is first read, and after each change.
            after: the ``updated_at`` of a stopped saga that is about to continue, for example after :meth:`redrive`.
                The wait goes on until the saga has changed since.

        Raises:
            NotFound: the saga does not exist.
            TimeoutError: it is still in flight.
        """
        return Waiting(timeout).until_rest(lambda: self.show(type, saga_id), on_change, after)


def _text_of_time(moment: datetime | str | None) -> str | None:
    return moment.isoformat() if isinstance(moment, datetime) else moment
