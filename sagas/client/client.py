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
from sagas.client.transport import Transport, pages
from sagas.client.waiting import Until, Waiting
from sagas.core.ids import KEY_PATTERN, LONGEST_CORRELATION_ID, LONGEST_KEY
from sagas.errors import Conflict, InvalidRequest, Problem, listed
from sagas.operations import ATTENTION, AUDIT, LIST, LOOK_UP, SHOW, START, VERIFY

if TYPE_CHECKING:
    import boto3

    from sagas.authoring.saga import Saga
    from sagas.engine.read.answers import AuditEntry, Page, SagaView, VerificationView

RequestT = TypeVar("RequestT")

_AUDIT_PAGE = 100


class SagaClient(DeadLetterCalls, SupervisorCalls, OperatorCalls, LogCalls):
    """Starts, reads, cancels and repairs sagas over the HTTP API.

    Calls are signed with the caller's AWS credentials, so audit trails have the caller's name. The methods return the
    API's JSON objects as typed dictionaries. In all methods, ``type`` is a saga type, and ``saga_id`` the id of a saga.
    Several threads can share a client.

    Every method raises ``Unavailable`` if the API or AWS is out of reach; ``retry_after`` is the time until the next
    try. If the response was lost and the call may have taken effect, it raises the subclass ``Ambiguous``. It raises
    ``NotFound`` if the type or the saga does not exist, ``InvalidRequest`` if an argument is not valid, and
    ``SagaError`` if access is denied or there are no credentials.

    Args:
        api_url: the API's URL with its stage, like ``https://abc123.execute-api.eu-central-1.amazonaws.com/v1``.
        region: the API's region. Default: the region in the URL, or else the session's.
        session: the session with the credentials. Default: a new session from the environment.
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
        super().__init__(Transport(api_url, region, session), session, endpoints or ServiceEndpoints(api_url))

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
            region: the stack's region. Default: the environment's region.
            profile: the profile of the AWS configuration. Default: the environment's profile.

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
        """The region for which calls are signed."""
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
                however often they are sent: after ``Ambiguous``, send them again. The key starts no other saga while
                that saga is stored, and for the service's ``key_retention`` after its purge, 30 days by default.
            correlation_id: your own id of 1 to 128 printable ASCII characters, for the audit trail, messages and log
                lines. Default: the saga's id.

        Returns:
            The saga; for a key that was used before, the saga that it started, without request and results.

        Raises:
            InvalidRequest: the request or key is not valid, or the key was used with another request; ``problems``
                lists the paths.
            TooLarge: the request is larger than 256 KB.
            Unavailable: starts of this type are paused, or the API is out of reach.
        """
        headers: dict[str, str] = {}
        for header, what, value, longest in (
            ("Idempotency-Key", "idempotency key", key, LONGEST_KEY),
            ("X-Correlation-Id", "correlation id", correlation_id, LONGEST_CORRELATION_ID),
        ):
            if value is not None:
                if len(value) > longest or not re.fullmatch(KEY_PATTERN, value):
                    text = f"must be 1 to {longest} printable ASCII characters, with no space at either end"
                    raise InvalidRequest(f"invalid {what}: {text}", [Problem(f"header.{header}", text)])
                headers[header] = value
        if isinstance(saga, str):
            return self._transport.ask(START, saga, body=request, headers=headers)
        from sagas.authoring.codec import encode
        from sagas.authoring.definition.definition import definition_of

        definition = definition_of(saga)
        try:
            body = encode(request, definition.request_type)
        except InvalidRequest as error:
            raise InvalidRequest(f"{error}: {listed(error.problems)}", error.problems) from None
        return self._transport.ask(START, definition.name, body=body, headers=headers)

    def rerun(self, type: str, saga_id: str, key: str | None = None) -> SagaView:
        """Start a new saga with the request of an old one, which does not change. The old saga can have any status.

        The new saga has the correlation id of the old saga, so you can find the logs of both together.

        Args:
            saga_id: the old saga.
            key: an idempotency key for the new saga. The old saga's own key would return the old saga.

        Returns:
            The new saga.

        Raises:
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
        """Return a saga with its steps."""
        return self._transport.ask(SHOW, type, saga_id)

    def look_up(self, saga_id: str) -> SagaView:
        """Return a saga by its id.

        Args:
            saga_id: the id, or its first four or more characters. If you pass only these, the newest 500 sagas are
                searched. Most ids start with a timestamp, so sagas of that time are searched, too.

        Raises:
            NotFound: no saga matches.
            Conflict: several saga ids start with these characters.
            InvalidRequest: ``saga_id`` has fewer than four characters.
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
        """Return summaries of sagas, newest first. With ``parent``, return its children in the order of their
        positions. A page that has a ``cursor`` can be short or even empty.

        Args:
            type: the saga type; ``None`` lists all types.
            parent: only children of the saga with this id; not allowed with other filters.
            status: only sagas with this status. With a final status, the last saga to end comes first.
            limit: the number of sagas to look at, 1 to 100.
            cursor: the cursor of the previous page.
            since: only sagas that started at this time or later. With a final ``status`` and no ``find``, the time of
                the end counts instead. A text is ISO 8601, in UTC if it has no offset.
            until: only sagas before this time; see ``since``.
            idempotency_key: only the saga that this key started, at most one per type; allowed only with ``type``.
            find: only sagas whose requests have these values, by the type's search keys (``find_by`` of its class).

        Raises:
            InvalidRequest: an argument is not valid, or the type does not have one of the search keys.
        """
        times = {"since": _text_of_time(since), "until": _text_of_time(until)}
        paging = {"limit": limit, "cursor": cursor} if idempotency_key is None else {}
        query = {"type": type, "status": status, "parent": parent, **times, **paging}
        query["idempotency_key"] = idempotency_key
        keys = (find or {}).items()
        values = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in keys}
        return self._transport.ask(LIST, query={**values, **query})

    def attention(
        self,
        type: str | None = None,
        *,
        step: str | None = None,
        code: str | None = None,
        error: str | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page:
        """Return summaries of the sagas that need an operator, in the order of type, step, code, error type and time.
        Each has ``attention``.

        Args:
            type: the saga type; ``None`` lists all types.
            step: only sagas with trouble at this step of the type.
            code: only sagas with this reason, the ``code`` of ``attention``; requires a step.
            error: only sagas with this type of error, ``""`` for those without an error; requires a code.
            limit: the maximum number of sagas to return, 1 to 100.
            cursor: the cursor of the previous page.
        """
        query = {"type": type, "step": step, "code": code, "error": error, "limit": limit, "cursor": cursor}
        return self._transport.ask(ATTENTION, query=query)

    def audit(self, type: str, saga_id: str) -> Iterator[AuditEntry]:
        """Yield the whole audit trail of a saga, oldest entry first. The client reads it page by page.

        Raises:
            NotFound: the saga does not exist. Raised when you request the first entry.
        """

        def ask(cursor: str | None) -> Any:
            return self._transport.ask(AUDIT, type, saga_id, query={"limit": _AUDIT_PAGE, "cursor": cursor})

        for page in pages(ask):
            yield from page["entries"]

    def verify(self, type: str, saga_id: str) -> VerificationView:
        """Verify the hashes of a saga's audit trail, which show whether an entry was changed or is missing.

        Returns:
            The outcome, with the first entry that differs from what was written, if any.
        """
        return self._transport.ask(VERIFY, type, saga_id)

    def result(self, type: str, saga_id: str, timeout: float | None = None) -> Any:
        """Wait for a saga's end and return its result: the result of its last step, or of the step that its class
        names.

        Args:
            timeout: seconds to wait. Default: no limit.

        Raises:
            Conflict: the saga is not COMPLETED, or was purged. The message has the status, or the time of the purge.
            TimeoutError: the saga did not end in time.
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
        until: Until = "end",
    ) -> SagaView:
        """Wait until a saga has ended, or is DEAD_LETTERED and waits for an operator. Return the saga.

        The client reads the saga ten times per second while it changes, and less and less often while it does not, at
        least every two seconds.

        Args:
            timeout: seconds to wait. Default: no limit.
            on_change: called with the saga when it is first read, and after each change.
            after: the ``updated_at`` of a stopped saga that is about to continue, for example after :meth:`redrive`.
                The wait lasts at least until the saga has changed.
            until: with ``"waiting"``, wait until the saga waits for a signal, or is DEAD_LETTERED. Other waits, such as
                for a time, a retry or children, do not count.

        Raises:
            TimeoutError: the saga is still in flight, or does not wait for a signal.
            Conflict: with ``until="waiting"``, the saga has ended.
            ValueError: ``until`` has another value.
        """
        return Waiting(timeout).until_rest(lambda: self.show(type, saga_id), on_change, after, until)


def _text_of_time(moment: datetime | str | None) -> str | None:
    return moment.isoformat() if isinstance(moment, datetime) else moment
