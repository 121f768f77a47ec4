"""The calls that look into dead-letter queues, which no API knows: SQS is asked, as the caller."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, cast

import boto3

from sagas.aws import CALLER, connect, translated
from sagas.client.endpoints import ServiceEndpoints
from sagas.client.operate.dead_letters import DeadLetter, DeadLetterQueue, Pruned, Redrive, why_needed
from sagas.client.transport import Transport
from sagas.errors import NotFound, SagaError
from sagas.messaging.message.redriving import check_reason

if TYPE_CHECKING:  # the client is one of these
    from sagas.client.client import SagaClient


class DeadLetterCalls:
    """The calls of :class:`sagas.client.SagaClient` that are about dead letters; and as whom they act, which the audit
    trails of sagas name whose messages are moved one by one."""

    _transport: Transport
    _session: boto3.Session
    _endpoints: ServiceEndpoints
    _arn = ""

    def caller(self) -> str:
        """Return the ARN that calls are signed as, and that audit trails name; empty while STS does not tell."""
        if not self._arn:
            endpoint = self._endpoints.endpoint_url
            with suppress(SagaError), translated("STS"):
                sts = connect(
                    "sts", CALLER, region=self._transport.region, endpoint_url=endpoint, session=self._session
                )
                self._arn = str(sts.get_caller_identity()["Arn"])
        return self._arn

    def dead_letters(self, type: str, limit: int = 100) -> list[DeadLetter]:
        """Return messages in the dead-letter queue of a type; they stay there.

        For the moment of looking they are hidden from others.

        Raises:
            NotFound: there is no such type.
            SagaError: this client does not know the queues.
        """
        return self._dead_letter_queue(type).peek(limit)

    def count_letters(self, type: str) -> int:
        """Return about how many messages are in the dead-letter queue of a type. Unlike looking, it hides none.

        Raises:
            NotFound: there is no such type.
            SagaError: this client does not know the queues, or may not read their attributes.
        """
        return self._dead_letter_queue(type).count()

    def delete_letter(self, type: str, message_id: str) -> DeadLetter:
        """Delete one message from the dead-letter queue of a type: one that no saga can need.

        The queue is gone through until it is found; what was looked at is hidden from others for that moment.

        Args:
            type: the saga type.
            message_id: SQS's id of the message.

        Returns:
            The message that was deleted.

        Raises:
            NotFound: there is no such type, or no such message, or another reader has it just now.
            SagaError: this client does not know the queues, or may not read or delete.
        """
        letter = self._dead_letter_queue(type).take(message_id)
        if letter is None:
            raise NotFound(f"the dead-letter queue of {type} holds no message {message_id}, or hides it for a moment")
        return letter

    def redrive(
        self,
        type: str,
        saga_id: str | None = None,
        on_progress: Callable[[int], None] | None = None,
        *,
        reason: str = "",
    ) -> Redrive:
        """Move dead-lettered messages back to the queues they came from; their sagas go on at the failed step.

        All messages of a type are moved by SQS itself, which goes on after this call has returned. Those of one saga,
        all with a reason, and all at an endpoint that has no such task, are moved here, one by one: the whole queue is
        gone through, page by page, for the moment hidden from others. Only then the audit trails of the sagas name the
        caller, by the ARN that STS knows.

        Args:
            type: the saga type.
            saga_id: only this saga's.
            on_progress: told how many messages were looked at, after each page.
            reason: why, in 4,000 characters at most; the audit trails keep it.

        Raises:
            InvalidRequest: the reason is too long, or has a control character.
            NotFound: there is no such type.
            SagaError: this client does not know the queues, or the redrive was refused.
        """
        check_reason(reason)
        queue = self._dead_letter_queue(type)
        if saga_id is None and not reason:
            return queue.redrive(on_progress)
        return queue.move(saga_id, on_progress, reason)

    def prune(
        self,
        type: str,
        saga_id: str | None = None,
        *,
        dry_run: bool = False,
        on_progress: Callable[[int], None] | None = None,
    ) -> Pruned:
        """Delete those messages from the dead-letter queue of a type that nobody needs any more.

        These are messages of sagas that are over, that went on by other means than this message (:meth:`retry`, say),
        or that an operator resolved: received again, they would do nothing, or what nobody wants. All others stay:
        those of sagas that wait for you, that may still need them, or that do not exist here.

        The queue is gone through page by page, whatever its length, and each message deleted as soon as it is known
        to be of no use; meanwhile those that were looked at are hidden from others.

        Args:
            type: the saga type.
            saga_id: only this saga's.
            dry_run: look, and delete nothing.
            on_progress: told how many messages were looked at, after each page.

        Raises:
            NotFound: there is no such type.
            SagaError: this client does not know the queues, or may not read them.
        """
        queue, why = self._dead_letter_queue(type), partial(why_needed, cast("SagaClient", self))
        return queue.prune(why, saga_id, dry_run=dry_run, on_progress=on_progress)

    def _dead_letter_queue(self, type: str) -> DeadLetterQueue:
        endpoints = self._endpoints
        if not endpoints.dead_letter_queues:
            raise SagaError("this client does not know the queues; SagaClient.from_stack and SagaClient.local do")
        if type not in endpoints.dead_letter_queues:
            raise NotFound(f"there is no saga named {type!r} here")
        sqs = connect(
            "sqs", CALLER, region=self._transport.region, endpoint_url=endpoints.endpoint_url, session=self._session
        )
        return DeadLetterQueue(sqs, endpoints.dead_letter_queues[type], endpoints.queues.get(type, {}), self.caller)
