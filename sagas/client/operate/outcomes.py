"""What becomes of each saga of a job: one set of outcomes for Python, the command line and the console."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sagas.core.text import iso
from sagas.engine.clock import SystemClock
from sagas.errors import Ambiguous, Conflict, InvalidRequest, NotFound, SagaError, Unavailable

_TRIES = 3
"""Of a call that reached nobody."""
_LONGEST_PAUSE = 10.0
_IN_DOUBT = "it may have taken effect"
Kind = Literal["done", "refused", "failed"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one saga of a job.

    Args:
        saga_id: which.
        outcome: ``done``; ``refused``: its state does not allow it, or it is gone; ``failed``: the service could not be
            reached, denied the call, or did not say what became of it.
        message: why it was refused or failed.
        new: for ``rerun``, the id of the new saga.
        at: when, ISO 8601.
    """

    saga_id: str
    outcome: Kind
    message: str = ""
    new: str = ""
    at: str = field(default_factory=lambda: iso(SystemClock().now()))


@dataclass(slots=True)
class Report:
    """What a job has done so far.

    Args:
        job: its name.
        chosen: the ids of its sagas, in order.
        outcomes: of each saga, the latest.
        stopped: why it was stopped early; empty when it was not.
    """

    job: str
    chosen: Sequence[str]
    outcomes: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    stopped: str = ""

    def settle(self, outcome: Outcome) -> bool:
        """Keep an outcome, and return whether the saga failed."""
        self.outcomes[outcome.saga_id] = outcome
        return outcome.outcome == "failed"

    def count(self, kind: str) -> int:
        """Return how many sagas had an outcome of this kind."""
        # A copy: the console counts while further outcomes come.
        return sum(one.outcome == kind for one in self.outcomes.copy().values())

    @property
    def left(self) -> list[str]:
        """The ids of the sagas that it did not come to. These and the outcomes make up ``chosen``."""
        return [saga_id for saga_id in self.chosen if saga_id not in self.outcomes]

    @property
    def unfinished(self) -> list[str]:
        """The ids of the sagas that it did not come to, and of those that failed."""
        outcomes = self.outcomes
        return [one for one in self.chosen if one not in outcomes or outcomes[one].outcome == "failed"]


def outcome_of(saga_id: str, call: Callable[[str], str], sleep: Callable[[float], object] = time.sleep) -> Outcome:
    """Make a call for a saga, which returns the id of the saga to look at next; say what became of it."""
    try:
        shown = _tried(saga_id, call, sleep)
    except (Conflict, NotFound, InvalidRequest) as error:
        return Outcome(saga_id, "refused", str(error))
    except Ambiguous as error:
        return Outcome(saga_id, "failed", f"{error}; {_IN_DOUBT}")
    except SagaError as error:
        return Outcome(saga_id, "failed", str(error))
    except Exception as error:  # noqa: BLE001 - the other sagas of the job have their turn all the same
        return Outcome(saga_id, "failed", f"{type(error).__name__}: {error}; {_IN_DOUBT}")
    return Outcome(saga_id, "done", new=shown if shown != saga_id else "")


def _tried(saga_id: str, call: Callable[[str], str], sleep: Callable[[float], object]) -> str:
    """Make the call again while it reaches nobody. A call whose answer was lost is not repeated."""
    for _ in range(_TRIES - 1):
        try:
            return call(saga_id)
        except Ambiguous:
            raise
        except Unavailable as error:
            sleep(min(error.retry_after, _LONGEST_PAUSE))
    return call(saga_id)
