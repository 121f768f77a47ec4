"""The outcomes of a job's sagas, as Python, the CLI and the console use them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

from sagas.client.operate.selection import Chosen
from sagas.core.text import iso
from sagas.engine.clock import SystemClock
from sagas.errors import Ambiguous, Conflict, InvalidRequest, NotFound, SagaError, StateChanged, Unavailable

_TRIES = 3
"""A call is tried this many times if it does not reach the API."""
_LONGEST_PAUSE = 10.0
Kind = Literal["done", "already", "refused", "failed"]


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The outcome for one saga of a job: ``done``; ``already`` if the saga has changed since it was chosen, for example
    because another job was faster; ``refused`` if the saga's state does not allow the call, or the saga
    is missing; ``failed`` if the service was out of reach or denied access, or its response was lost. The message has
    the reason. ``new`` is the id of the new saga of a ``rerun``."""

    saga_id: str
    outcome: Kind
    message: str = ""
    new: str = ""
    at: str = field(default_factory=lambda: iso(SystemClock().now()))


@dataclass(slots=True)
class Report:
    """The outcomes of a job so far: the latest of each saga. ``chosen`` has its sagas by id, in order. ``stopped`` is
    the reason for an early stop; empty if there is none. ``notes`` say what is left to do."""

    job: str
    chosen: dict[str, Chosen] = field(default_factory=dict[str, Chosen])
    outcomes: dict[str, CallOutcome] = field(default_factory=dict[str, CallOutcome])
    stopped: str = ""
    notes: list[str] = field(default_factory=list[str])

    def settle(self, outcome: CallOutcome) -> bool:
        """Add an outcome, and return whether it is a failure."""
        self.outcomes[outcome.saga_id] = outcome
        return outcome.outcome == "failed"

    def note(self, text: str) -> None:
        """Add a note, once; nothing if it is empty."""
        if text and text not in self.notes:
            self.notes.append(text)

    @property
    def cause(self) -> str:
        """The last failure, if the job stopped because of failures; else empty."""
        failures = (outcome for outcome in reversed(self.outcomes.copy().values()) if outcome.outcome == "failed")
        return next((outcome.message for outcome in failures), "") if "failures" in self.stopped else ""

    @property
    def counts(self) -> dict[str, int]:
        """How many sagas were chosen, and how many calls for them had each outcome."""
        return {"chosen": len(self.chosen), **{kind: self.count(kind) for kind in get_args(Kind)}}

    def count(self, kind: str) -> int:
        # Count in a copy: the console counts while outcomes are added.
        return sum(outcome.outcome == kind for outcome in self.outcomes.copy().values())

    @property
    def done(self) -> list[Chosen]:
        """The sagas for which the operation succeeded."""
        outcomes = self.outcomes.copy()
        return [self.chosen[saga_id] for saga_id, outcome in outcomes.items() if outcome.outcome == "done"]

    @property
    def remaining(self) -> list[str]:
        """The ids in ``chosen`` that have no outcome."""
        return [saga_id for saga_id in [*self.chosen] if saga_id not in self.outcomes]

    @property
    def unfinished(self) -> list[str]:
        """The ids in ``chosen`` that have no outcome, or whose call failed."""
        outcomes = self.outcomes
        return [
            saga_id for saga_id in [*self.chosen] if saga_id not in outcomes or outcomes[saga_id].outcome == "failed"
        ]


def outcome_of(saga_id: str, call: Callable[[str], str], sleep: Callable[[float], object] = time.sleep) -> CallOutcome:
    """Make a call for a saga, and return the outcome. ``call`` returns the saga's id, or the id of a new saga."""
    try:
        new_id = _retried(saga_id, call, sleep)
    except StateChanged as error:
        return CallOutcome(saga_id, "already", str(error))
    except (Conflict, NotFound, InvalidRequest) as error:
        return CallOutcome(saga_id, "refused", str(error))
    except SagaError as error:
        return CallOutcome(saga_id, "failed", str(error))
    except Exception as error:  # noqa: BLE001 - the job must go on with its other sagas
        return CallOutcome(
            saga_id, "failed", f"{type(error).__name__}: {error}; the request may or may not have taken effect"
        )
    return CallOutcome(saga_id, "done", new=new_id if new_id != saga_id else "")


def _retried(saga_id: str, call: Callable[[str], str], sleep: Callable[[float], object]) -> str:
    """Repeat a call if it does not reach the API. Do not repeat a call whose response was lost."""
    for _ in range(_TRIES - 1):
        try:
            return call(saga_id)
        except Ambiguous:
            raise
        except Unavailable as error:
            sleep(min(error.retry_after, _LONGEST_PAUSE))
    return call(saga_id)
