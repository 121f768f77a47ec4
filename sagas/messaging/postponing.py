"""Having a message come back later without wearing it out: every delivery is a receive, and SQS counts them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from sagas.messaging.limits import LONGEST_DELAY, LONGEST_HIDING
from sagas.messaging.message import Message
from sagas.messaging.queues import Queues

_SPARE_RECEIVES = 3
"""Receives kept back so that postponing a message never pushes it into the dead-letter queue."""
_MOST_HOPS = 2_000
"""Copies of one message, after which it is given up. A copy is delayed by at least as many seconds as it has hops, up
to 15 minutes, so this many take more than 16 days: longer than all retries of a step may wait (14 days) and than SQS
keeps any message. What gets there is caught in a loop, or its circuit breaker will not close by itself."""


class Postponing:
    """Postpones messages: by their visibility, or by copies when that would wear them out.

    Args:
        queues: where the messages are.
        environment: the function's; ``SAGAS_MAX_RECEIVES`` is after how many receives its queue gives a message up.
        logger: told when a message is given up.
    """

    def __init__(self, queues: Queues, environment: Mapping[str, str], logger: logging.Logger) -> None:
        self._queues = queues
        self._most_receives = int(environment.get("SAGAS_MAX_RECEIVES", "1000"))
        self._logger = logger

    def postpone(self, message: Message, seconds: float) -> bool:
        """Have ``message`` come back in ``seconds``, or a copy in its stead, the later the more copies there were.

        Returns:
            Whether a copy was sent, so that the message at hand may be deleted.

        Raises:
            NotFound: no queue for its step is deployed.
            Unavailable: SQS is out of reach.
        """
        if seconds <= LONGEST_HIDING and message.receives + _SPARE_RECEIVES < self._most_receives:
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
