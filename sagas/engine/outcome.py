"""What becomes of a message after it was handled."""

from __future__ import annotations

from dataclasses import dataclass

from sagas.messaging.message import Message


@dataclass(frozen=True, slots=True)
class Done:
    """Delete it."""


@dataclass(frozen=True, slots=True)
class Later:
    """Have it come back at ``until`` (epoch seconds); ``itself``: no copy of it may take its place.

    ``message``: it as it stands now, naming the step that its saga has gone on to; ``None`` if it has not.
    """

    until: float
    itself: bool = False
    message: Message | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """Report it failed; its queue's redrive policy will move it to the dead-letter queue in the end."""


Outcome = Done | Later | Failed
