"""Having a message come back later without wearing it out: every delivery is a receive, and SQS counts them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from sagas.core.rules import SHORT_WAIT
from sagas.messaging.limits import LONGEST_DELAY, backoff
from sagas.messaging.message.message import Message
from sagas.messaging.queues import Queues

_SPARE_RECEIVES = 3
"""Receives kept back so that postponing a message never pushes it into the dead-letter queue."""
_MOST_HOPS = 2_000
"""Copies of one message, after which it is given up. A copy is delayed by at least as many seconds as it has hops, up
to 15 minutes, so this many take more than 16 days: longer than all retries of a step may wait (14 days) and than SQS
keeps any message. What gets there is caught in a loop, or its circuit breaker will not close by itself."""
_RECEIVES_PER_COPY = 3
"""Tries of a failing message before its wait is too long to hide it, so that its copies go on where it stopped."""


class Postponing:
    """Postpones messages: for seconds by their visibility, for longer by copies.

    A hidden message is one of the 120,000 that SQS allows to be in flight, and its next delivery one of the receives
    that it is given up after; a delayed copy is neither.

    Args:
        queues: where the messages are.
        environment: the function's; ``SAGAS_MAX_RECEIVES`` is after how many receives its queue gives a message up.
        logger: told when a message is given up.
        chance: a random number from 0 to 1, so that what failed together does not come back together.
    """

    def __init__(
        self, queues: Queues, environment: Mapping[str, str], logger: logging.Logger, chance: Callable[[], float]
    ) -> None:
        self._queues = queues
        self._chance = chance
        self._most_receives = int(environment.get("SAGAS_MAX_RECEIVES", "1000"))
        self._logger = logger

    def postpone(self, message: Message, seconds: float, *, copies: bool = True) -> bool:
        """Have ``message`` come back in ``seconds``, or a copy in its stead, the later the more copies there were.
        Returns whether a copy was sent, so that the message at hand may be deleted."""
        if not copies or (seconds <= SHORT_WAIT and message.receives + _SPARE_RECEIVES < self._most_receives):
            self._queues.delay(message, seconds)
            return False
        if message.hops >= _MOST_HOPS:
            known = {"hops": message.hops, "message_id": message.message_id}
            self._logger.error("message given up", extra=known)
            self._queues.delay(message, 0)  # its receives are used up soon: it goes to the dead-letter queue
            return False
        delay = min(max(seconds, message.hops), LONGEST_DELAY)
        self._queues.send(replace(message, hops=message.hops + 1), delay)
        return True

    def after_failure(self, message: Message, *, copies: bool) -> bool:
        """Have a message come back that could not be handled: in about a second, then in twice as long, up to a minute.
        Returns whether a copy was sent, so that the message at hand may be deleted."""
        tries = message.receives + _RECEIVES_PER_COPY * message.hops
        return self.postpone(message, backoff(tries, self._chance()), copies=copies)
