"""What becomes of a message after it was handled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Done:
    """Delete it."""


@dataclass(frozen=True, slots=True)
class Later:
    """Have it come back at ``until`` (epoch seconds); ``itself``: no copy of it may take its place."""

    until: float
    itself: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """Report it failed; its queue's redrive policy will move it to the dead-letter queue in the end."""


Outcome = Done | Later | Failed
