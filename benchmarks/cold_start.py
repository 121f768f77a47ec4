"""What a step's function takes in a fresh process: its import, its first and its second invocation.

The process is :mod:`benchmarks.fresh` and not the emulator's, which loads botocore before the function. It sees the
modules of the function as Lambda lays them out, and nothing else that is installed, and it writes no bytecode.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.stage import REGION, Function, Stage
from benchmarks.variables import HANDLER

_DEADLINE = 60.0
COLD = "charge"
"""The step whose function is begun: it takes inputs, and another follows."""


@dataclass(frozen=True, slots=True)
class ColdStart:
    """Seconds of processor time: of the import, over bare Python, and of the first two invocations."""

    loading: float
    first: float
    second: float


class Queue:
    """The messages of a step whose function no longer takes them.

    Args:
        stage: on which it is.
        function: of the step.
    """

    def __init__(self, stage: Stage, function: Function) -> None:
        [mapping] = stage.lambda_.list_event_source_mappings(FunctionName=function.name)["EventSourceMappings"]
        stage.lambda_.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
        self._arn: str = mapping["EventSourceArn"]
        self._url: str = stage.sqs.get_queue_url(QueueName=self._arn.rsplit(":", 1)[1])["QueueUrl"]
        self._sqs = stage.sqs

    def event(self) -> dict[str, Any]:
        """Take a message, as the event by which Lambda hands it over; fail if none comes in time."""
        deadline = time.monotonic() + _DEADLINE
        while time.monotonic() < deadline:
            answer = self._sqs.receive_message(
                QueueUrl=self._url, AttributeNames=["All"], MessageAttributeNames=["All"]
            )
            for message in answer.get("Messages", ()):
                return {"Records": [self._record(message)]}
            time.sleep(0.01)  # a poll with a deadline
        raise RuntimeError(f"no message came to {self._url}")

    def _record(self, message: dict[str, Any]) -> dict[str, Any]:
        attributes = message.get("MessageAttributes", {})
        return {
            "messageId": message["MessageId"],
            "receiptHandle": message["ReceiptHandle"],
            "body": message["Body"],
            "attributes": message["Attributes"],
            "messageAttributes": {
                name: {"stringValue": value["StringValue"], "dataType": "String"} for name, value in attributes.items()
            },
            "md5OfBody": message["MD5OfBody"],
            "eventSource": "aws:sqs",
            "eventSourceARN": self._arn,
            "awsRegion": REGION,
        }


def cold_start(stage: Stage, function: Function, places: Sequence[Path], events: list[dict[str, Any]]) -> ColdStart:
    """Run a function in a fresh process with two events, on the emulator.

    Args:
        stage: with the emulator.
        function: of a step.
        places: where it looks for modules, in order.
        events: the events.
    """
    return ColdStart(*_seconds(stage, function.environment, places, events))


def floor(stage: Stage, places: Sequence[Path]) -> float:
    """Return the seconds of processor time of what :mod:`benchmarks.floor` imports, in a fresh process."""
    [loading] = _seconds(stage, {HANDLER: "benchmarks.floor.handler"}, places, [])
    return loading


def _seconds(
    stage: Stage, variables: dict[str, str], places: Sequence[Path], events: list[dict[str, Any]]
) -> list[float]:
    environment = {
        **variables,
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(map(str, places)),
        "PYTHONDONTWRITEBYTECODE": "1",  # what Lambda's file system does, also for root
        "AWS_ENDPOINT_URL": stage.endpoint_url,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "000000000000",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_LAMBDA_FUNCTION_NAME": "fresh",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",  # Lambda says so while it imports: what can be made then is
    }
    done = subprocess.run(
        [sys.executable, "-S", "-m", "benchmarks.fresh"],
        input=json.dumps(events),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])
