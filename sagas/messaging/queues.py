"""Sending messages, and having one come back later."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, cast

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from sagas.errors import Unavailable
from sagas.messaging.limits import LONGEST_DELAY, LONGEST_HIDING
from sagas.messaging.message import Message
from sagas.messaging.routes import Routes


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise Unavailable(f"SQS: {type(error).__name__}") from error


class Queues:
    """The queues of the sagas.

    Args:
        routes: which queue belongs to which step.
        region: AWS region; ``None`` takes the environment's.
        endpoint_url: ``None`` takes the environment's.
    """

    def __init__(self, routes: Routes, region: str | None = None, endpoint_url: str | None = None) -> None:
        self._routes = routes
        self._where = {"region_name": region, "endpoint_url": endpoint_url}

    @cached_property
    def _client(self) -> Any:
        config = Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 4, "mode": "standard"})
        connect = cast("Any", boto3).client
        return connect("sqs", config=config, **self._where)

    def send(self, message: Message, delay: float = 0.0) -> None:
        """Send ``message`` to its step's queue.

        Args:
            message: what to send.
            delay: seconds before it may be delivered; what goes beyond SQS's 15 minutes is left to the receiver.

        Raises:
            NotFound: no queue for that step is deployed.
            Unavailable: SQS is out of reach.
        """
        url = self._routes.queue(message.saga, message.step)
        named = {"saga": message.saga, "saga_id": message.saga_id, "step": message.step}
        attributes = {key: {"DataType": "String", "StringValue": value} for key, value in named.items()}
        seconds = min(math.ceil(max(delay, 0.0)), LONGEST_DELAY)
        with _translated():
            self._client.send_message(
                QueueUrl=url, MessageBody=message.body, MessageAttributes=attributes, DelaySeconds=seconds
            )

    def delay(self, message: Message, seconds: float) -> None:
        """Have this same message come back in ``seconds``, at the earliest.

        Raises:
            NotFound, Unavailable: as :meth:`send`.
        """
        self._change_visibility(self._routes.queue(message.saga, message.step), message.receipt, seconds)

    def make_visible_now(self, source_arn: str, receipt: str) -> None:
        """Have a message that will never succeed come back at once, so that its redrive policy gets it soon.

        Args:
            source_arn: of its queue; the message itself may not tell.
            receipt: SQS's receipt handle.

        Raises:
            Unavailable: SQS is out of reach.
        """
        self._change_visibility(self._routes.by_arn(source_arn), receipt, 0)

    def _change_visibility(self, url: str, receipt: str, seconds: float) -> None:
        timeout = min(math.ceil(max(seconds, 0.0)), LONGEST_HIDING)
        with _translated():
            self._client.change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=timeout)
