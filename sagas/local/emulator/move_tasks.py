"""Adds tasks to the emulator's SQS that move dead letters back to their source queues.

In an account, *Start DLQ redrive* in the SQS console and ``sagas dlq redrive`` start such a task. In the emulator, a
task has ended when the call that starts it returns. As in SQS, a task moves only visible messages. It fails at a
message that was sent directly to the dead-letter queue, because such a message has no source queue.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from typing import Any

_MOST_LISTED = 10
_NO_SOURCE = "CouldNotDetermineMessageSource"


def add_move_tasks(sqs: Any, iam_actions: Any) -> None:
    """Add handlers for StartMessageMoveTask, ListMessageMoveTasks and CancelMessageMoveTask."""
    tasks = _Tasks(sqs)
    sqs._HANDLERS |= {
        "StartMessageMoveTask": tasks.start,
        "ListMessageMoveTasks": tasks.recent,
        "CancelMessageMoveTask": tasks.cancel,
    }
    resource_of = iam_actions.extract_resource_arn

    def extract_resource_arn(service: str, method: str, path: str, headers: Any, body: bytes, *others: Any) -> str:
        resource = str(resource_of(service, method, path, headers, body, *others))
        # Only calls on tasks name their queue by ARN.
        arn = str(iam_actions._safe_json_field(body, "SourceArn")) if (service, resource) == ("sqs", "*") else ""
        return arn or resource

    iam_actions.extract_resource_arn = extract_resource_arn


class _Tasks:
    """The finished tasks. Tasks are not stored, so they are lost when the emulator ends."""

    def __init__(self, sqs: Any) -> None:
        self._sqs = sqs
        self._done: list[dict[str, Any]] = []

    def start(self, data: dict[str, Any], _url: str) -> dict[str, Any]:
        """Move the messages of a dead-letter queue to a destination, or back to their source queues."""
        arn = str(data.get("SourceArn", ""))
        to = data.get("DestinationArn")
        source = self._queue("SourceArn", arn)
        policies = (
            json.loads(queue["attributes"].get("RedrivePolicy") or "{}") for queue in self._sqs._queues.values()
        )
        if not any(policy.get("deadLetterTargetArn") == arn for policy in policies):
            text = "Source queue must be configured as a Dead Letter Queue."
            raise self._sqs._Err("InvalidParameterValue", f"Value {arn} for parameter SourceArn is invalid. {text}")
        if to is not None:
            self._queue("DestinationArn", str(to))
        self._sqs._refresh_counts(source)
        waiting = int(source["attributes"]["ApproximateNumberOfMessages"])
        now = self._sqs.time.time()
        moved, failure = self._move(
            source, [message for message in source["messages"] if message["visible_at"] <= now], to
        )
        task: dict[str, Any] = {
            "TaskHandle": uuid.uuid5(uuid.NAMESPACE_URL, f"{arn}#{len(self._done)}").hex,
            "Status": "FAILED" if failure else "COMPLETED",
            "SourceArn": arn,
            "ApproximateNumberOfMessagesMoved": moved,
            "ApproximateNumberOfMessagesToMove": waiting,
            "StartedTimestamp": int(now * 1000),
        }
        task |= {name: data[name] for name in ("DestinationArn", "MaxNumberOfMessagesPerSecond") if name in data}
        task |= {"FailureReason": failure} if failure else {}
        self._done.append(task)
        return {"TaskHandle": task["TaskHandle"]}

    def recent(self, data: dict[str, Any], _url: str) -> dict[str, Any]:
        """Return the last tasks of a queue, newest first. None has a handle, because only running tasks have one."""
        arn = str(data.get("SourceArn", ""))
        most = min(int(data.get("MaxResults") or 1), _MOST_LISTED)
        self._queue("SourceArn", arn)
        tasks = [task for task in reversed(self._done) if task["SourceArn"] == arn][:most]
        return {"Results": [{name: task[name] for name in task if name != "TaskHandle"} for task in tasks]}

    def cancel(self, data: dict[str, Any], _url: str) -> dict[str, Any]:
        """Refuse, because no task is ever running."""
        text = f"The task {data.get('TaskHandle', '')} does not exist or is not running."
        raise self._sqs._Err("ResourceNotFoundException", text, 404)

    def _queue(self, name: str, arn: str) -> dict[str, Any]:
        queue = self._sqs._queue_by_arn(arn)
        if queue is None:
            text = f"The resource that you specified for the {name} parameter doesn't exist."
            raise self._sqs._Err("ResourceNotFoundException", text, 404)
        return queue

    def _move(self, source: dict[str, Any], messages: Iterable[dict[str, Any]], to: str | None) -> tuple[int, str]:
        """Move the messages. Returns the number of moved messages, and the reason for an early stop; empty if all
        messages were moved."""
        moved = 0
        with self._sqs._queues_lock:  # another thread polls the queues
            for message in messages:
                target = self._sqs._queue_by_arn(to or message["sys"].get("DeadLetterQueueSourceArn", ""))
                if target is None:
                    return moved, _NO_SOURCE
                # As in SQS, this is a new message: it has a new id, no receives, and the full retention period.
                copy = {"MessageBody": message["body"], "MessageAttributes": message["message_attributes"]}
                if trace := message["sys"].get("AWSTraceHeader"):
                    header = {"DataType": "String", "StringValue": trace}
                    copy["MessageSystemAttributes"] = {"AWSTraceHeader": header}
                if message["group_id"]:
                    copy |= {"MessageGroupId": message["group_id"], "MessageDeduplicationId": message["id"]}
                self._sqs._act_send_message({"QueueUrl": target["url"], **copy}, "")
                source["messages"].remove(message)
                moved += 1
        return moved, ""
