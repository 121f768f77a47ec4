"""The API calls for operators: on sagas, saga types and circuit breakers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from sagas.client.transport import Calls, pages
from sagas.errors import InvalidRequest, Problem
from sagas.operations import (
    ATTENTION,
    BREAKERS,
    CANCEL,
    CHANGE,
    CLOSE_BREAKER,
    COMPENSATE,
    IN_FLIGHT,
    PURGE,
    RESOLVE,
    RETRY,
    SET_RECOVERY_ATTEMPTS,
    SIGNAL,
    STATS,
    TYPES,
)

if TYPE_CHECKING:
    from sagas.engine.read.answers import IncidentList, SagaView
    from sagas.engine.read.overviews import BreakerView, InFlightGroup, InFlightView, StatsView, TypeView


class OperatorCalls(Calls):
    """The calls of :class:`sagas.client.SagaClient` that change sagas, saga types and circuit breakers."""

    def cancel(self, type: str, saga_id: str, reason: str = "", *, force: bool = False) -> SagaView:
        """Request a cancellation. The saga becomes CANCELLED when no step runs and all completed steps are undone.

        Args:
            reason: the reason, at most 500 characters. The audit trail keeps the reason of the first accepted cancel.
            force: whether to cancel even a child whose parent has not ended. The child then counts as failed.

        Raises:
            Conflict: the saga has ended, or is a child of a saga in flight.
            InvalidRequest: the reason is too long.
        """
        query = {"force": "true" if force else None, "reason": reason or None}
        return self._transport.ask(CANCEL, type, saga_id, query=query)

    def signal(self, type: str, saga_id: str, step: str, value: Any) -> SagaView:
        """Send a value to a step that waits or will wait for it. You can send the same value again.

        Args:
            value: an instance of the step's signal type, or its JSON form (``dict``, ``list``, ...).

        Raises:
            NotFound: the saga does not exist, or the step accepts no signals.
            InvalidRequest: the value is not valid for the type, or has no JSON form.
            Conflict: another value was sent before, or the saga no longer accepts a value.
        """
        return self._transport.ask(SIGNAL, type, saga_id, step, body=_json_form(value))

    def retry(self, type: str, saga_id: str, reason: str = "", *, seq: int | None = None) -> SagaView:
        """Retry a stopped saga: the failed step of a DEAD_LETTERED saga, or the failed undos of a COMPENSATION_FAILED
        saga, get new attempts. If a step's function handled no message, the message is sent again at once.

        Args:
            reason: the reason, for the audit trail.
            seq: the number of the last audit entry of the state that you mean, from a view. You can repeat a call with
                it: if the first answer was lost, the saga is not retried twice.

        Raises:
            StateChanged: the saga has left that state.
            Conflict: the saga has nothing to retry.
        """
        return self._transport.ask(RETRY, type, saga_id, body={"reason": reason, **_named(seq)})

    def compensate(
        self, type: str, saga_id: str, reason: str = "", *, force: bool = False, seq: int | None = None
    ) -> SagaView:
        """Give up on a DEAD_LETTERED or FAILED saga, and undo its completed steps.

        Args:
            reason: the reason, for the audit trail.
            force: whether to also undo a saga that is COMPLETED or past its pivot. This takes a reason.
            seq: the number of the last audit entry of the state that you mean, from a view.

        Raises:
            StateChanged: the saga has left that state.
            Conflict: the saga's status does not allow this.
        """
        body = {"reason": reason, "force": True} if force else {"reason": reason}
        return self._transport.ask(COMPENSATE, type, saga_id, body={**body, **_named(seq)})

    def resolve(
        self,
        type: str,
        saga_id: str,
        reason: str,
        action: str = "",
        steps: Sequence[str] = (),
        *,
        seq: int | None = None,
    ) -> SagaView:
        """Mark a saga as settled by hand, so it leaves the attention list. A second call corrects the first, and the
        audit trail keeps both.

        Args:
            reason: why the saga is settled.
            action: what you did.
            steps: the steps that you undid by hand. A later retry skips them.
            seq: the number of the last audit entry of the state that you mean, from a view.

        Raises:
            StateChanged: the saga has left that state.
            Conflict: the saga is not on the attention list, and was not resolved before.
            InvalidRequest: the reason is blank, or a step is unknown.
        """
        body = {"reason": reason, "action": action, "steps": [*steps], **_named(seq)}
        return self._transport.ask(RESOLVE, type, saga_id, body=body)

    def purge(self, type: str, saga_id: str, reason: str = "") -> SagaView:
        """Delete the stored data of a saga that has ended. This happens at once, and a second purge changes nothing.

        A tombstone remains, with statuses, times and actions, but without request, results and errors. The tombstone is
        deleted after the service's ``key_retention``. Until then, the saga's idempotency key starts no other saga.

        Args:
            reason: the reason, which the tombstone keeps.

        Returns:
            The tombstone. ``objects`` names up to 100 S3 objects in its results, which are left to the sweep of its
            type. ``more_objects`` is the number of further objects.

        Raises:
            Conflict: the saga has not ended or needs an operator, or a worker may still be running for it.
        """
        return self._transport.ask(PURGE, type, saga_id, body={"reason": reason})

    def incidents(
        self, type: str | None = None, *, step: str | None = None, code: str | None = None, error: str | None = None
    ) -> IncidentList:
        """Return the sagas that need an operator, counted by type, step, code and error type. Those that have waited
        longest come first. For the sagas themselves, see :meth:`sagas.client.SagaClient.attention`.

        Args:
            type: the saga type; ``None`` groups all types.
            step: only sagas with trouble at this step of the type.
            code: only sagas with this reason; requires a step.
            error: only sagas with this type of error, ``""`` for those without an error; requires a code.
        """
        query = {"type": type, "step": step, "code": code, "error": error, "group": "incident"}
        return self._transport.ask(ATTENTION, query=query)

    def types(self) -> list[TypeView]:
        """Return the deployed saga types."""
        return self._transport.ask(TYPES)["types"]

    def in_flight(self, type: str) -> InFlightView:
        """Return the sagas of a type that are in flight or need an operator, grouped by the blueprint of their start
        and by position. ``sagas check`` compares them with code to deploy.

        Raises:
            NotFound: the type is not deployed, and never had a saga.
        """
        groups: dict[tuple[object, ...], InFlightGroup] = {}
        blueprints = dict[str, dict[str, Any]]()
        undeployed = set[str]()
        last = cast("InFlightView", {})
        for page in pages(lambda cursor: self._transport.ask(IN_FLIGHT, type, query={"cursor": cursor})):
            last = cast("InFlightView", page)
            blueprints |= last["blueprints"]
            undeployed |= {*last.get("undeployed", ())}
            for group in last["groups"]:
                key = group["blueprint"], group["status"], group["cursor"], group["steps"]
                other = groups.get(key, group)
                early, late = sorted((other, group), key=lambda each: each["oldest"])
                examples = list(dict.fromkeys([*early["examples"], *late["examples"]]))[:3]
                count = group["count"] + (0 if other is group else other["count"])
                groups[key] = {**early, "count": count, "examples": examples}
        return {**last, "blueprints": blueprints, "groups": [*groups.values()], "undeployed": sorted(undeployed)}

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
        """Pause the sagas of a type before their next step, until :meth:`resume`. This takes up to five seconds.

        Running steps continue to their end, waits may end, and signals are accepted. A pause uses up no attempt.

        Args:
            reason: the reason, for operators.
            step: pause sagas only before this step.
            saga_id: pause only this saga.
            starts_only: only refuse new sagas. Sagas in flight continue.
            starts: accept new sagas, which then wait before their first step. By default, new sagas are refused.
            undos: pause undos, too.

        Raises:
            Conflict: the saga has ended, or 100 sagas are already paused individually.
            InvalidRequest: the step is unknown, or the options exclude each other.
        """
        body = {"step": step, "saga_id": saga_id, "starts": starts, "undos": undos, "reason": reason}
        body |= {"active": False} if starts_only else {"paused": True}
        return self._transport.ask(CHANGE, type, body=body)

    def resume(self, type: str, reason: str = "", *, step: str | None = None, saga_id: str | None = None) -> TypeView:
        """End a pause, if there is one: sagas continue, spread over time, and new sagas are accepted.

        Args:
            step: end the pause of this step. A release may have removed the step.
            saga_id: end the pause of this saga.

        Raises:
            InvalidRequest: the step is unknown, and was never paused.
        """
        body = {"paused": False, "step": step, "saga_id": saga_id, "reason": reason}
        return self._transport.ask(CHANGE, type, body=body)

    def breakers(self) -> list[BreakerView]:
        """Return all circuit breakers that steps declare, with their state and the number of waiting sagas."""
        return self._transport.ask(BREAKERS)["breakers"]

    def stats(self, type: str | None = None, *, since: datetime | str | None = None) -> StatsView:
        """Return the number of sagas by type and status, of starts and ends per minute, and of waiting messages.

        Each shard of an index is counted up to a thousand sagas. ``at_least`` and ``approximate`` list inexact figures.
        The service caches an answer for half a minute.

        Args:
            type: the saga type; ``None`` counts all types.
            since: count sagas that ended at this time or later. Default: a day ago. A text is ISO 8601.

        Raises:
            InvalidRequest: the time is not valid.
        """
        text = since.isoformat() if isinstance(since, datetime) else since
        return self._transport.ask(STATS, query={"type": type, "since": text})

    def close_breaker(self, type: str, step: str) -> BreakerView:
        """Close a step's circuit breaker. The sagas that wait for it continue, spread over time.

        Returns:
            The breaker. ``waiting`` is the number of sagas that continue.

        Raises:
            NotFound: the type or step does not exist, or the step has no breaker.
        """
        return self._transport.ask(CLOSE_BREAKER, type, step)

    def set_recovery_attempts(self, type: str, saga_id: str, attempts: int) -> SagaView:
        """Set how often a saga has stalled since its last progress.

        If it stalls more often than the ``max_recovery_attempts`` of its type, the supervisor gives it up and undoes
        it. 0 restores all recovery attempts. To keep a saga as it is, :meth:`pause` it.

        Args:
            attempts: the number of stalls, 0 to 1,000.

        Raises:
            Conflict: the saga has ended.
            InvalidRequest: the number is not valid.
        """
        return self._transport.ask(SET_RECOVERY_ATTEMPTS, type, saga_id, body={"attempts": attempts})


def _named(seq: int | None) -> dict[str, int]:
    """Return the field of a body that names a state; nothing if the call names none."""
    return {} if seq is None else {"seq": seq}


def _json_form(value: Any) -> Any:
    """A signal's value as JSON builtins. Values that are already builtins are left to the service to check."""
    kind = cast("type[Any]", type(value))
    if kind is list:
        return [_json_form(item) for item in value]
    if value is None or issubclass(kind, str | int | float | dict):
        return value
    from sagas.authoring.codec import encode
    from sagas.authoring.shapes.base import UnsupportedType

    try:
        return encode(value, kind)
    except UnsupportedType as error:
        raise InvalidRequest(f"invalid signal: {error}", [Problem("$", str(error))]) from error
