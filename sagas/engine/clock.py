"""Time, chance and ids. Only this module takes them from the machine, so tests can replace them."""

from __future__ import annotations

import os
import random
import secrets
import time
import uuid
from pathlib import Path
from typing import Protocol

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
