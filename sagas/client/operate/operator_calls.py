"""What operators ask of the API: about single sagas, saga types and circuit breakers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

from sagas.authoring.codec import encode
from sagas.authoring.shapes.base import UnsupportedType
from sagas.client.transport import Transport
from sagas.engine.read.answers import IncidentList, SagaView
from sagas.engine.read.overviews import BreakerView, StatsView, TypeView
from sagas.errors import InvalidRequest, Problem
from sagas.operations import (
    ATTENTION,
    BREAKERS,
    CANCEL,
    CHANGE,
    CLOSE_BREAKER,
    COMPENSATE,
    PURGE,
    RESOLVE,
    RETRY,
    SET_RECOVERY_ATTEMPTS,
    SIGNAL,
    STATS,
    TYPES,
)


class OperatorCalls:
    """The calls of :class:`sagas.client.SagaClient` that change sagas, saga types and circuit breakers.

    Args:
        transport: of the client.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def cancel(self, type: str, saga_id: str, reason: str = "", *, force: bool = False) -> SagaView:
        """Ask for a saga to be cancelled. It is CANCELLED once a running step has stopped and all is undone.

        Args:
            type: the saga type.
            saga_id: the saga.
            reason: why, in 500 characters at most; the audit trail keeps that of the cancel which is accepted first.
            force: also a child whose parent is not over: it counts as failed.

        Raises:
            NotFound: there is no such saga.
            Conflict: it is over, or a child of one that is not.
            InvalidRequest: the reason is too long.
        """
        query = {"force": "true" if force else None, "reason": reason or None}
        return self._transport.ask(CANCEL, type, saga_id, query=query)

    def signal(self, type: str, saga_id: str, step: str, value: Any) -> SagaView:
        """Send a value to a step that waits for it, or will. The same value again is the same signal.

        Args:
            type: the saga type.
            saga_id: the saga.
            step: the step's name.
            value: an instance of the type that the step takes, or its JSON form (``dict``, ``list``, ...).

        Raises:
            NotFound: there is no such saga, or the step takes no signal.
            InvalidRequest: the value does not fit, or has no JSON form.
            Conflict: another value was sent before, or the saga takes none any more.
        """
        return self._transport.ask(SIGNAL, type, saga_id, step, body=_json_form(value), null=True)

    def retry(self, type: str, saga_id: str, reason: str = "") -> SagaView:
        """Grant what failed a new budget: the step of a DEAD_LETTERED saga, the failed undos of a COMPENSATION_FAILED.
        Have the message of one sent anew at once whose function handled none.

        Raises:
            NotFound: there is no such saga.
            Conflict: nothing of it can be retried.
        """
        return self._transport.ask(RETRY, type, saga_id, body={"reason": reason})

    def compensate(self, type: str, saga_id: str, reason: str = "", *, force: bool = False) -> SagaView:
        """Give up on a saga that is DEAD_LETTERED or FAILED, and have it undone; with ``force`` also one that is
        COMPLETED.

        Raises:
            NotFound: there is no such saga.
            Conflict: it is neither.
        """
        body = {"reason": reason, "force": True} if force else {"reason": reason}
        return self._transport.ask(COMPENSATE, type, saga_id, body=body)

    def resolve(self, type: str, saga_id: str, reason: str, action: str = "", steps: Sequence[str] = ()) -> SagaView:
        """Take a saga off the attention list: a person has settled it.

        Args:
            type: the saga type.
            saga_id: the saga.
            reason: why it is settled.
            action: what was done.
            steps: whose undo was done by hand; a later retry skips them.

        Raises:
            NotFound: there is no such saga.
            Conflict: it needs no attention.
            InvalidRequest: the reason is empty, or a step is unknown.
        """
        body = {"reason": reason, "action": action, "steps": [*steps]}
        return self._transport.ask(RESOLVE, type, saga_id, body=body)

    def purge(self, type: str, saga_id: str, reason: str = "") -> SagaView:
        """Delete what is stored of a saga that is over, at once; one that is purged already stays as it is.

        What is left has states, times and actions, but no request, result or error, and goes after the service's
        ``key_retention``. Until then its idempotency key starts no other saga.

        Args:
            type: the saga type.
            saga_id: the saga.
            reason: why; kept with what is left.

        Returns:
            What is left. ``objects`` names up to 100 objects in S3 that its results named, which stay for the sweep of
            its type; ``more_objects`` is how many more they named.

        Raises:
            NotFound: there is no such saga.
            Conflict: it is not over, needs a person, or something may still be at work on it.
        """
        return self._transport.ask(PURGE, type, saga_id, body={"reason": reason})

    def incidents(self, type: str | None = None) -> IncidentList:
        """Return for what sagas need an operator: how many there are of each type, step and error type, and since when,
        the longest waiting first. For the sagas themselves see :meth:`sagas.client.SagaClient.attention`.

        Args:
            type: the saga type; ``None`` groups all types.

        Raises:
            NotFound: there is no such type.
        """
        return self._transport.ask(ATTENTION, query={"type": type, "group": "incident"})

    def types(self) -> list[TypeView]:
        """Return the saga types that are deployed."""
        return self._transport.ask(TYPES)["types"]

    def pause(
        self,
        type: str,
        reason: str = "",
        *,
        step: str | None = None,
        saga_id: str | None = None,
        starts_only: bool = False,
        starts: bool = False,
        undos: bool = False,
    ) -> TypeView:
        """Have the sagas of a type stop before their next step, until :meth:`resume`; within five seconds all do.

        Steps that run go on to their end, waits end and signals are taken. No attempt is used.

        Args:
            type: the saga type.
            reason: why; shown to operators.
            step: only before this step.
            saga_id: only this saga.
            starts_only: refuse new sagas, and have those in flight go on.
            starts: accept new sagas, which wait before their first step; refused otherwise.
            undos: have undos wait, too.

        Raises:
            NotFound: there is no such type or saga.
            Conflict: the saga has ended, or 100 sagas are paused one by one.
            InvalidRequest: the step is unknown, or the options contradict each other.
        """
        body = {"step": step, "saga_id": saga_id, "starts": starts, "undos": undos, "reason": reason}
        body |= {"active": False} if starts_only else {"paused": True}
        return self._transport.ask(CHANGE, type, body=body)

    def resume(self, type: str, reason: str = "", *, step: str | None = None, saga_id: str | None = None) -> TypeView:
        """End a pause: sagas go on, spread over time, and new ones are accepted. What is not paused stays as it is.

        Args:
            type: the saga type.
            reason: why.
            step: the pause of this step.
            saga_id: the pause of this saga.

        Raises:
            NotFound: there is no such type.
            InvalidRequest: the step is unknown.
        """
        body = {"paused": False, "step": step, "saga_id": saga_id, "reason": reason}
        return self._transport.ask(CHANGE, type, body=body)

    def breakers(self) -> list[BreakerView]:
        """Return the circuit breakers of all steps that declare one: their state, and how many sagas wait."""
        return self._transport.ask(BREAKERS)["breakers"]

    def stats(self, type: str | None = None, *, since: datetime | str | None = None) -> StatsView:
        """Return how many sagas there are, by type and status, how many start and end a minute, and what waits.

        Counted in indexes, to a thousand in each of their parts: ``at_least`` and ``approximate`` tell which figures
        are not exact. The service keeps an answer for half a minute.

        Args:
            type: the saga type; ``None`` counts all.
            since: from when on those that ended are counted; a day ago by default. Text is ISO 8601.

        Raises:
            NotFound: there is no such type.
            InvalidRequest: the time does not fit.
        """
        text = since.isoformat() if isinstance(since, datetime) else since
        return self._transport.ask(STATS, query={"type": type, "since": text})

    def close_breaker(self, type: str, step: str) -> BreakerView:
        """Close a step's circuit breaker. Sagas that wait behind it are sent anew, spread over time.

        Args:
            type: the saga type.
            step: the name of the step.

        Returns:
            The breaker; ``waiting`` counts those that were sent anew.

        Raises:
            NotFound: there is no such type or step, or the step has no breaker.
        """
        return self._transport.ask(CLOSE_BREAKER, type, step)

    def set_recovery_attempts(self, type: str, saga_id: str, attempts: int) -> SagaView:
        """Set how often a saga counts as having stalled since its last progress.

        At the stall after ``max_recovery_attempts`` of its type the supervisor gives it up and has it undone. 0 gives
        it all its recovery attempts back.

        Args:
            type: the saga type.
            saga_id: the saga.
            attempts: 0 to 1,000.

        Raises:
            NotFound: there is no such saga.
            Conflict: it is over.
            InvalidRequest: the number does not fit.
        """
        return self._transport.ask(SET_RECOVERY_ATTEMPTS, type, saga_id, body={"attempts": attempts})


def _json_form(value: Any) -> Any:
    """A signal's value as JSON builtins: what is one already is for the service to judge."""
    kind = cast("type[Any]", type(value))
    if kind is list:
        return [_json_form(item) for item in value]
    if value is None or issubclass(kind, str | int | float | dict):
        return value
    try:
        return encode(value, kind)
    except UnsupportedType as error:
        raise InvalidRequest("the signal is not JSON", [Problem("$", str(error))]) from error
