"""A signal that was sent to a step."""

from __future__ import annotations

from msgspec import Struct

from sagas.paths import Place


class SentSignal(Struct, frozen=True):
    """A value sent to a step.

    Args:
        payload: the value, as JSON text.
        content: the hash of the value as its type encodes it, by which a repeated signal is recognized.
        actor: the sender.
        at: epoch seconds.
        hidden: the paths to the hidden parts of the value.
    """

    payload: str
    content: str
    actor: str
    at: float
    hidden: tuple[Place, ...] = ()
