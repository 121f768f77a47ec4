"""Calls on dead-letter queues. They use SQS with the caller's credentials, because the API has no such calls."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, cast

from sagas.client.endpoints import COMMANDS
from sagas.client.transport import Calls
from sagas.core.states import SagaStatus
from sagas.errors import NotFound, SagaError
from sagas.operations import Operation

if TYPE_CHECKING:
    from sagas.client.client import SagaClient
    from sagas.client.operate.dead_letters import DeadLetter, DeadLetterQueue, Pruned


_ONE_WALK = Lock()
"""Only one thread reads dead-letter queues, because reading hides the messages from others for a while."""


class DeadLetterCalls(Calls):
    """The calls of :class:`sagas.client.SagaClient` on dead letters, and the caller's ARN."""

    _arn = ""

    def caller(self) -> str:
        """Return the ARN of the caller; empty if STS does not return it."""
        from sagas.aws import translated

        if not self._arn:
            with suppress(SagaError), translated("STS"):
                self._arn = str(self._connect("sts").get_caller_identity()["Arn"])
        return self._arn

    def dead_letters(self, type: str, limit: int = 100) -> list[DeadLetter]:
        """Return messages in the dead-letter queue of a type. They stay there, but are hidden from other readers for a
        moment.

        Raises:
            SagaError: this client has no URLs of queues.
        """
        return self._dead_letter_queue(type).peek(limit)

    def count_letters(self, type: str) -> int:
        """Return the approximate number of messages in the dead-letter queue of a type, without hiding any.

        Raises:
            SagaError: this client has no URLs of queues, or may not read their attributes.
        """
        return self._dead_letter_queue(type).count()

    def delete_letter(self, type: str, message_id: str) -> DeadLetter:
        """Delete one message that no saga needs from the dead-letter queue of a type.

        The queue is read until the message is found. Messages that were read are hidden from other readers for a
        moment.

        Args:
            message_id: SQS's id of the message.

        Returns:
            The deleted message.

        Raises:
            NotFound: the type or the message does not exist, or another reader has the message at the moment.
            SagaError: this client has no URLs of queues, or may not read or delete.
        """
        letter = self._dead_letter_queue(type).take(message_id)
        if letter is None:
            where = f"the dead-letter queue of {type}"
            raise NotFound(f"{where} has no visible message {message_id}; another reader may have it, so try again")
        return letter

    def redrive(self, type: str) -> str:
        """Have SQS move all dead-lettered messages of a type back to their queues, so their sagas continue at the
        failed step.

        SQS may still be moving some when this call returns. The audit trails name no operator and no reason;
        :meth:`retry` records both.

        Returns:
            The handle of SQS's task.

        Raises:
            SagaError: this client has no URLs of queues, or SQS refused the redrive.
        """
        return self._dead_letter_queue(type).redrive()

    def prune(
        self,
        type: str,
        saga_id: str | Collection[str] | None = None,
        *,
        dry_run: bool = False,
        on_progress: Callable[[int], None] | None = None,
    ) -> Pruned:
        """Delete stale messages from the dead-letter queue of a type.

        A message is stale if its saga has ended, was resolved by an operator, or has continued without the message (for
        example after :meth:`retry`). A step that received it again would do nothing, or something unwanted. Messages
        stay in the queue if their saga waits for an operator, may need them, or does not exist.

        The whole queue is read page by page, and each stale message is deleted at once. The others are hidden in this
        time.

        Args:
            saga_id: one saga or several, to delete only their messages.
            dry_run: delete nothing.
            on_progress: called after each page with the number of messages read.

        Raises:
            SagaError: this client has no URLs of queues, or may not read them.
        """
        from sagas.client.operate.dead_letters import why_needed

        queue = self._dead_letter_queue(type)
        why = partial(why_needed, cast("SagaClient", self))
        saga_ids = [saga_id] if isinstance(saga_id, str) else saga_id
        return queue.prune(why, saga_ids, dry_run=dry_run, on_progress=on_progress)

    def take_letters(self, operation: Operation, type: str, saga_ids: Collection[str]) -> str:
        """Delete the dead letters that an operation on sagas has made stale. Some operations make none stale.

        Args:
            operation: the operation, which has succeeded.
            saga_ids: the sagas.

        Returns:
            Why messages may be left in the queue, and what to do; empty if none are.
        """
        leaves = operation.right == "operate" and SagaStatus.DEAD_LETTERED in operation.bulk_statuses
        if leaves and saga_ids and type in self._endpoints.dead_letter_queues:
            try:
                with _ONE_WALK:
                    self.prune(type, saga_ids)
            except SagaError as error:
                return f"dead letters may stay ({error}); `sagas dlq delete {type} --stale` deletes them"
        return ""

    def _dead_letter_queue(self, type: str) -> DeadLetterQueue:
        endpoints = self._endpoints
        if not endpoints.dead_letter_queues:
            raise SagaError("this client has no URLs of queues; use SagaClient.from_stack or SagaClient.local")
        if type not in endpoints.dead_letter_queues:
            types = ", ".join(endpoints.dead_letter_queues)
            raise NotFound(f"this service has no dead-letter queue for saga type {type!r}; it has them for {types}")
        # Imported late: this loads boto3, which `sagas attention` needs only if the service takes commands.
        from sagas.client.operate.dead_letters import DeadLetterQueue

        destination = endpoints.command_queue if type == COMMANDS else ""
        return DeadLetterQueue(self._connect("sqs"), endpoints.dead_letter_queues[type], destination)
