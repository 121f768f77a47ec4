"""What the engine calls: the clock, gates, queues and observers.

Only this module takes time, chance and ids from the machine, so tests can replace them. Gates can refuse the claim of a
step or undo. Pauses and circuit breakers are gates. ``AttemptServices.gates`` has them in order: pauses come first, and
circuit breakers last, because a message that a breaker admits may be its probe.
"""

from __future__ import annotations

import os
import random
import secrets
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from sagas.core.commands import Discard, Postpone
from sagas.core.events import Fact
from sagas.core.states import SagaState
from sagas.errors import PermanentError
from sagas.messaging.message import Message
from sagas.messaging.work import Work
from sagas.store.control.control import ControlItems
from sagas.store.pauses import Pauses


class MessageSender(Protocol):
    """The queues; see ``sagas.messaging.queues.Queues``."""

    def send(self, message: Message, delay: float = 0.0) -> None: ...
    def send_all(self, messages: Sequence[Message]) -> None: ...


class WorkSender(Protocol):
    """The service's own work queues; see ``sagas.messaging.queues.Queues``."""

    def send_work(self, queue: str, work: Sequence[Work], delay: float = 0.0) -> None: ...
    def has_work(self, queue: str) -> bool: ...
    def work_waiting(self, queue: str) -> int: ...


class CommitObserver(Protocol):
    """Called with every fact once it is committed."""

    def committed(self, before: SagaState, after: SagaState, fact: Fact) -> None: ...


class EngineObserver(CommitObserver, Protocol):
    """An observer for metrics and logs. The observer is also called for saga types and steps that keep failing."""

    def paused(self, saga: str) -> None:
        """The library has paused starts of a saga type."""
        ...

    def breaker_opened(self, saga: str) -> None:
        """A circuit breaker of a saga type has opened."""
        ...

    def breaker_closed(self, saga: str) -> None:
        """A circuit breaker of a saga type has closed."""
        ...


class NullObserver:
    """An observer that does nothing."""

    def committed(self, before: SagaState, after: SagaState, fact: Fact) -> None:
        """Do nothing."""

    def paused(self, saga: str) -> None:
        """Do nothing."""

    def breaker_opened(self, saga: str) -> None:
        """Do nothing."""

    def breaker_closed(self, saga: str) -> None:
        """Do nothing."""


_OWNER_TIME_DIGITS = 11
_RANDOM = random.SystemRandom()


class Clock(Protocol):
    """Time, chance and ids for the engine."""

    def now(self) -> float:
        """Epoch seconds, to the millisecond."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def chance(self) -> float:
        """A number in [0, 1)."""
        ...

    def new_id(self) -> str:
        """A new time-ordered UUID."""
        ...

    def new_owner(self) -> str:
        """A fresh nonce for a claim. It begins with the time."""
        ...

    def new_salt(self) -> str:
        """A fresh salt for an entry's hashes: 22 characters of base64url."""
        ...


def skipped(file: str) -> float:
    """Return the seconds by which a clock is ahead, from a file; 0 if the file is missing or empty."""
    try:
        return float(Path(file).read_text())
    except (OSError, ValueError):
        return 0.0


class SystemClock:
    """The machine's own clock and randomness.

    The local stack can skip time: ``SAGAS_CLOCK`` names the file with the skipped seconds. The variable has an effect
    only with an emulator's endpoint.
    """

    def __init__(self) -> None:
        self._file = os.environ.get("SAGAS_CLOCK", "") if os.environ.get("AWS_ENDPOINT_URL") else ""

    def now(self) -> float:
        """Epoch seconds, to the millisecond."""
        return round(time.time() + (skipped(self._file) if self._file else 0.0), 3)

    def sleep(self, seconds: float) -> None:
        """Block for a number of seconds."""
        time.sleep(seconds)

    def chance(self) -> float:
        """A number in [0, 1)."""
        # Not random.random(): environments that are restored from one snapshot would draw the same numbers.
        return _RANDOM.random()

    def new_id(self) -> str:
        """A new UUID of version 7."""
        return uuid7(self.now(), secrets.token_bytes(10))

    def new_owner(self) -> str:
        """Eleven hexadecimal digits of epoch milliseconds, then eight random digits."""
        return f"{round(self.now() * 1000):0{_OWNER_TIME_DIGITS}x}{secrets.token_hex(4)}"

    def new_salt(self) -> str:
        """128 random bits in base64url, without padding."""
        return secrets.token_urlsafe(16)


def uuid7(now: float, entropy: bytes) -> str:
    """Return a UUID of version 7 (RFC 9562, section 5.7): 48 bits of epoch milliseconds, then ``entropy``. ``now``:
    epoch seconds. ``entropy``: ten random bytes."""
    raw = bytearray(round(now * 1000).to_bytes(6, "big") + entropy[:10])
    raw[6] = 0x70 | (raw[6] & 0x0F)
    raw[8] = 0x80 | (raw[8] & 0x3F)
    return str(uuid.UUID(bytes=bytes(raw)))


def claimed_at(owner: str) -> float:
    """Return the epoch seconds at which a claim was made, from its nonce; 0 if the nonce contains no time."""
    try:
        return int(owner[:_OWNER_TIME_DIGITS], 16) / 1000
    except ValueError:
        return 0.0


class Gate(Protocol):
    """A gate can block a message before its claim. All methods but ``cached_until`` may raise ``Unavailable``."""

    def cached_until(self, message: Message) -> float:
        """Return the time (epoch seconds) at which a message should return if it is blocked according to the cache; 0
        otherwise."""
        ...

    def is_open(self, message: Message) -> bool:
        """Whether the message's step may be claimed now, as far as this environment knows."""
        ...

    def admit(self, message: Message, state: SagaState, act_until: float) -> Discard | Postpone | PermanentError | None:
        """Decide about a message whose claim this gate refused although its step is due.

        Args:
            message: the message whose claim was refused.
            state: the message's saga, by a consistent read. This is the saga's current message.
            act_until: epoch seconds after which the function that handles the message can no longer act.

        Returns:
            ``Discard`` if the saga was marked as paused, ``Postpone`` to handle the message later, an error to fail the
            attempt, or ``None`` to try the claim again.
        """
        ...

    def silent_until(self, state: SagaState) -> float:
        """Return the time (epoch seconds) until which this gate may hold back a saga; 0 if it does not."""
        ...


class PauseGate(Struct, frozen=True):
    """The gate for pauses; see :class:`Gate`."""

    pauses: Pauses
    control: ControlItems

    def cached_until(self, message: Message) -> float:
        """Return 0: the message must be handled, because that marks the saga as paused."""
        return 0.0

    def is_open(self, message: Message) -> bool:
        """Whether the message's step or undo may start."""
        return self.pauses.holding(message.saga, message.step, message.saga_id, undo=message.undo) is None

    def admit(self, message: Message, state: SagaState, act_until: float) -> Discard | None:
        """Mark the saga as paused. It stays so until it is resumed."""
        if not self.control.mark_paused(state):
            return None
        if self.pauses.holding_back(state, fresh=True):
            return Discard()
        # The pause has ended in the meantime, maybe before the saga was marked.
        self.control.mark_resumed(state, state.updated_at)
        return None

    def silent_until(self, state: SagaState) -> float:
        """Return 0: the supervisor does not visit paused sagas."""
        return 0.0


Gates = Sequence[Gate]


def shut_gate(gates: Gates, message: Message) -> Gate | None:
    """Return the first gate that blocks a message; ``None`` if all are open."""
    return next((gate for gate in gates if not gate.is_open(message)), None)
