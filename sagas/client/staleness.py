"""Which dead letters nobody needs any more. Whatever is in doubt is needed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from sagas.client.dead_letters import DeadLetter
from sagas.engine.answers import AuditEntry, SagaView
from sagas.errors import NotFound

_OVER = ("COMPLETED", "COMPENSATED", "CANCELLED", "FAILED", "COMPENSATION_FAILED")
_DEAD = "DEAD_LETTERED"


class _Reader(Protocol):
    def show(self, name: str, saga_id: str) -> SagaView: ...
    def audit(self, name: str, saga_id: str) -> Iterable[AuditEntry]: ...


class Judge:
    """Judges dead letters by the state of their sagas.

    A saga numbers its messages upwards and notes the number of the one that dies. Going on, by whatever means, it takes
    a higher one: from then on a message of that number or a lower one does nothing when it is received.

    Args:
        sagas: reads sagas and their audit trails.
    """

    def __init__(self, sagas: _Reader) -> None:
        self._sagas = sagas

    def why_needed(self, letter: DeadLetter) -> str:
        """Return why a dead letter must stay; empty if nobody needs it any more.

        Raises:
            SagaError: the API is out of reach, or refuses the caller.
        """
        if not letter.saga or not letter.saga_id or letter.number is None:
            return "it is no message of a saga"
        try:
            if self._sagas.show(letter.saga, letter.saga_id)["status"] in _OVER:
                return ""
            # The trail first: a message that it knows as dead is of the past if the saga is not DEAD_LETTERED later.
            died = self._last_death(letter)
            saga = self._sagas.show(letter.saga, letter.saga_id)
        except NotFound:
            return "there is no such saga"
        return _why_needed(saga, letter.number, died)

    def _last_death(self, letter: DeadLetter) -> tuple[int, int] | None:
        """The number of the saga's message that died last, as far as it is known."""
        last: tuple[int, int] | None = None
        for entry in self._sagas.audit(letter.saga, letter.saga_id):
            if entry["action"] == "StepDeadLettered":
                last = _number(entry["details"])
        return last


def _why_needed(saga: SagaView, number: tuple[int, int], died: tuple[int, int] | None) -> str:
    status = saga["status"]
    if status in _OVER:
        return ""
    if status != _DEAD:
        return "" if died is not None and number <= died else f"the saga is {status}, and may need it"
    if saga["resolution"] is not None:
        return ""
    return "" if died is not None and number < died else "the saga waits for you"


def _number(details: dict[str, Any]) -> tuple[int, int] | None:
    """A step whose code was gone died without a message."""
    return (int(details["dispatch"]), int(details["hops"])) if "dispatch" in details else None
