"""What was sent to a step that waits for a signal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Signal:
    """A value that was sent.

    Args:
        payload: the value, as JSON text.
        content: the hash of its canonical JSON as its type writes it, by which a repeated signal is known again.
        actor: who sent it.
        at: epoch seconds.
    """

    payload: str
    content: str
    actor: str
    at: float
