"""Postpone a message without using up its receives: SQS counts every delivery as one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from sagas.core.rules import SHORT_WAIT
from sagas.messaging.limits import LONGEST_DELAY, backoff
from sagas.messaging.message.message import Message
from sagas.messaging.queues import Queues

_SPARE_RECEIVES = 3
"""Receives in reserve, so that postponing never moves a message to the dead-letter queue."""
_MOST_HOPS = 2_000
"""The most copies of one message before it is given up. A copy is delayed by at least one second per hop, up to 15
minutes. So this many copies take more than 16 days: longer than all retries of a step can take, and longer than SQS
keeps a message (both 14 days). Such a message is in a loop, or its circuit breaker never closes."""
_RECEIVES_PER_COPY = 3
"""The tries that each copy stands for, so that the backoff of a copy continues where the original stopped."""


class Postponing:
    """Postpones messages: short waits by hiding the message, long waits by sending a delayed copy.

    A hidden message counts toward the 120,000 messages in flight that SQS allows, and its next delivery counts as a
    receive. A delayed copy does neither.

    Args:
        queues: the queues of the messages.
        environment: the function's environment; after ``SAGAS_MAX_RECEIVES`` receives its queue gives a message up.
        logger: logs messages that are given up.
        chance: returns a random number from 0 to 1, so that messages that failed together do not come back together.
    """

    def __init__(
        self, queues: Queues, environment: Mapping[str, str], logger: logging.Logger, chance: Callable[[], float]
    ) -> None:
        self._queues = queues
        self._chance = chance
        self._most_receives = int(environment.get("SAGAS_MAX_RECEIVES", "1000"))
        self._logger = logger

    def postpone(self, message: Message, seconds: float, *, copies: bool = True) -> bool:
        """Have ``message``, or a copy of it, come back in ``seconds``; a copy takes at least a second per earlier copy.
        Returns whether a copy was sent, so that the original can be deleted."""
        if not copies or (seconds <= SHORT_WAIT and message.receives + _SPARE_RECEIVES < self._most_receives):
            self._queues.delay(message, seconds)
            return False
        if message.hops >= _MOST_HOPS:
            details = {"hops": message.hops, "message_id": message.message_id}
            self._logger.error("message given up", extra=details)
            self._queues.delay(message, 0)  # this uses up its receives, and it goes to the dead-letter queue
            return False
        delay = min(max(seconds, message.hops), LONGEST_DELAY)
        self._queues.send(replace(message, hops=message.hops + 1), delay)
        return True

    def after_failure(self, message: Message, *, copies: bool) -> bool:
        """Have a message that could not be handled come back after a backoff of up to a minute.
        Returns whether a copy was sent, so that the original can be deleted."""
        tries = message.receives + _RECEIVES_PER_COPY * message.hops
        return self.postpone(message, backoff(tries, self._chance()), copies=copies)
