"""What the emulator's SQS lacks: the tasks that move dead letters back to the queues they came from.

In an account, *Start DLQ redrive* in the console of SQS begins one, and so does ``sagas dlq redrive``. Here a task is
over by the time it is told of. Like those of SQS it moves what nobody has received and is hidden; and what was sent to
the dead-letter queue by hand came from nowhere: with that the task fails.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from typing import Any

_MOST_LISTED = 10
_NO_SOURCE = "CouldNotDetermineMessageSource"


def add_move_tasks(sqs: Any, iam_actions: Any) -> None:
    """Have it answer StartMessageMoveTask, ListMessageMoveTasks and CancelMessageMoveTask."""
    tasks = _Tasks(sqs)
    sqs._HANDLERS |= {
        "StartMessageMoveTask": tasks.start,
        "ListMessageMoveTasks": tasks.shown,
        "CancelMessageMoveTask": tasks.cancel,
    }
    resource_of = iam_actions.extract_resource_arn

    def extract_resource_arn(service: str, method: str, path: str, headers: Any, body: bytes, *others: Any) -> str:
        found = str(resource_of(service, method, path, headers, body, *others))
        # These calls alone name their queue by its ARN.
        named = str(iam_actions._safe_json_field(body, "SourceArn")) if (service, found) == ("sqs", "*") else ""
        return named or found

    iam_actions.extract_resource_arn = extract_resource_arn


class _Tasks:
    """The tasks that there were, which are forgotten when the emulator ends."""

    def __init__(self, sqs: Any) -> None:
        self._sqs = sqs
        self._done: list[dict[str, Any]] = []

    def start(self, data: dict[str, Any], _url: str) -> dict[str, Any]:
        """Move what a dead-letter queue holds to a destination, or back to where each message came from."""
        arn, to = str(data.get("SourceArn", "")), data.get("DestinationArn")
        source = self._queue("SourceArn", arn)
        if not any(_dead_letters_of(queue) == arn for queue in self._sqs._queues.values()):
            told = "Source queue must be configured as a Dead Letter Queue."
            raise self._sqs._Err("InvalidParameterValue", f"Value {arn} for parameter SourceArn is invalid. {told}")
        if to is not None:
            self._queue("DestinationArn", str(to))
        self._sqs._refresh_counts(source)
        waiting = int(source["attributes"]["ApproximateNumberOfMessages"])
        now = self._sqs.time.time()
        moved, failure = self._move(source, [one for one in source["messages"] if one["visible_at"] <= now], to)
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

    def shown(self, data: dict[str, Any], _url: str) -> dict[str, Any]:
        """Tell the last tasks of a queue, newest first. Only one that runs would have its handle told."""
        arn, most = str(data.get("SourceArn", "")), min(int(data.get("MaxResults") or 1), _MOST_LISTED)
        self._queue("SourceArn", arn)
        found = [one for one in reversed(self._done) if one["SourceArn"] == arn][:most]
        return {"Results": [{name: one[name] for name in one if name != "TaskHandle"} for one in found]}

    def cancel(self, data: dict[str, Any], _url: str) -> dict[str, Any]:
        """Refuse: none is ever under way."""
        told = f"The task {data.get('TaskHandle', '')} does not exist or is not running."
        raise self._sqs._Err("ResourceNotFoundException", told, 404)

    def _queue(self, name: str, arn: str) -> dict[str, Any]:
        queue = self._sqs._queue_by_arn(arn)
        if queue is None:
            told = f"The resource that you specified for the {name} parameter doesn't exist."
            raise self._sqs._Err("ResourceNotFoundException", told, 404)
        return queue

    def _move(self, source: dict[str, Any], messages: Iterable[dict[str, Any]], to: str | None) -> tuple[int, str]:
        """Move them; return how many were, and why no more are: nothing where all were."""
        moved = 0
        with self._sqs._queues_lock:  # queues are polled by a thread of their own
            for message in messages:
                target = self._sqs._queue_by_arn(to or message["sys"].get("DeadLetterQueueSourceArn", ""))
                if target is None:
                    return moved, _NO_SOURCE
                # A new message: with an id of its own, never received, and kept for as long as any other.
                anew = {"MessageBody": message["body"], "MessageAttributes": message["message_attributes"]}
                if trace := message["sys"].get("AWSTraceHeader"):
                    header = {"DataType": "String", "StringValue": trace}
                    anew["MessageSystemAttributes"] = {"AWSTraceHeader": header}
                if message["group_id"]:
                    anew |= {"MessageGroupId": message["group_id"], "MessageDeduplicationId": message["id"]}
                self._sqs._act_send_message({"QueueUrl": target["url"], **anew}, "")
                source["messages"].remove(message)
                moved += 1
        return moved, ""


def _dead_letters_of(queue: dict[str, Any]) -> str:
    """The ARN of a queue's dead-letter queue; empty if it has none."""
    return str(json.loads(queue["attributes"].get("RedrivePolicy") or "{}").get("deadLetterTargetArn", ""))
