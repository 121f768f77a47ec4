"""Postpones messages without using up their receives. SQS counts each delivery as a receive."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from sagas.core.rules import SHORT_WAIT
from sagas.messaging.limits import LONGEST_DELAY, backoff
from sagas.messaging.message.message import Message
from sagas.messaging.queues import Queues

_SPARE_RECEIVES = 3
"""Receives in reserve, so that a postponement never moves a message to the dead-letter queue."""
_MOST_HOPS = 2_000
"""Maximum copies of one message before it is given up. A copy is delayed by at least one second per hop, up to 15
minutes. So this many copies take more than 16 days. The retries of a step take 14 days at most, and SQS keeps messages
for 14 days. Such a message is in a loop, or its circuit breaker never closes."""
_RECEIVES_PER_COPY = 3
"""Each copy counts as this many tries, so the backoff of a copy continues where that of the original stopped."""


class Postponing:
    """Postpones messages. For a short wait, the message is hidden. For a long wait, a delayed copy is sent.

    A hidden message counts towards the 120,000 messages in flight that SQS allows, and its next delivery costs a
    receive. A delayed copy does neither.

    Args:
        queues: the queues of the messages.
        environment: the function's environment. ``SAGAS_MAX_RECEIVES`` is the number of receives after which the queue
            gives a message up.
        logger: logs messages that are given up.
        chance: returns a random number from 0 to 1, so messages that failed together do not return together.
    """

    def __init__(
        self, queues: Queues, environment: Mapping[str, str], logger: logging.Logger, chance: Callable[[], float]
    ) -> None:
        self._queues = queues
        self._chance = chance
        self._most_receives = int(environment.get("SAGAS_MAX_RECEIVES", "1000"))
        self._logger = logger

    def postpone(self, message: Message, seconds: float, *, copies: bool = True) -> bool:
        """Have ``message`` or a copy return in ``seconds``. A copy waits at least one second per earlier copy. Returns
        whether a copy was sent: the original can then be deleted."""
        if not copies or (seconds <= SHORT_WAIT and message.receives + _SPARE_RECEIVES < self._most_receives):
            self._queues.delay(message, seconds)
            return False
        if message.hops >= _MOST_HOPS:
            details = {"hops": message.hops, "message_id": message.message_id}
            self._logger.error("message given up", extra=details)
            self._queues.delay(message, 0)  # uses up the receives, so SQS dead-letters it
            return False
        delay = min(max(seconds, message.hops), LONGEST_DELAY)
        self._queues.send(replace(message, hops=message.hops + 1), delay)
        return True

    def after_failure(self, message: Message, *, copies: bool) -> bool:
        """Have a message that could not be handled return after a backoff of up to a minute. Returns whether a copy was
        sent: the original can then be deleted."""
        tries = message.receives + _RECEIVES_PER_COPY * message.hops
        return self.postpone(message, backoff(tries, self._chance()), copies=copies)
