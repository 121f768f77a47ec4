"""The function behind a step's queue, in the naive design. Its undo runs here too."""

from __future__ import annotations

import json
import os
from typing import Any, cast

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities import idempotency

from benchmarks.naive import audit, lock, state
from benchmarks.naive.aws import SQS

STEP = os.environ["STEP"]
NEXT: dict[str, str] = json.loads(os.environ["NEXT_QUEUE_URLS"])
"""Where it goes on: ``forward`` from a step, ``refused`` when it says no, ``undo`` from an undo. The last has none."""

logger = Logger()
_idempotency = cast("Any", idempotency)
store = _idempotency.DynamoDBPersistenceLayer(table_name=os.environ["IDEMPOTENCY_TABLE"])
config = _idempotency.IdempotencyConfig(event_key_jmespath="[saga_id, step, undo]")


def handler(event: dict[str, Any], context: Any) -> None:
    """Handle an SQS event."""
    config.register_lambda_context(context)
    for record in event["Records"]:
        message = json.loads(record["body"]) | {"step": STEP}
        with lock.held(message["saga_id"], context.aws_request_id):
            way = run(message=message)
        if way in NEXT:  # after the lock is free: the next step takes it
            onward = message | {"undo": way != "forward"}
            SQS.send_message(QueueUrl=NEXT[way], MessageBody=json.dumps(onward))


@_idempotency.idempotent_function(data_keyword_argument="message", persistence_store=store, config=config)
def run(message: dict[str, Any]) -> str:
    """Run the step or its undo, once for each message, and return which way the saga goes on."""
    return undo(message) if message["undo"] else advance(message)


def advance(message: dict[str, Any]) -> str:
    """Run the step."""
    saga_id, request, results = message["saga_id"], message["request"], message["results"]
    if state.status_of(saga_id) not in ("STARTED", "RUNNING"):
        return "nowhere"
    if STEP == "notify" and request["refused"]:
        note(message, "UNDOING", "StepFailed", {"error": "refused"})
        return "refused"
    results[STEP] = {"what": STEP, "number": request["order_id"]}
    note(message, "RUNNING" if "forward" in NEXT else "COMPLETED", "StepCompleted", results[STEP])
    return "forward"


def undo(message: dict[str, Any]) -> str:
    """Run the undo."""
    result = message["results"].pop(STEP)
    note(message, "UNDOING" if "undo" in NEXT else "COMPENSATED", "StepUndone", result)
    return "undo"


def note(message: dict[str, Any], status: str, action: str, details: dict[str, Any]) -> None:
    """Write down where the saga is now, and what happened."""
    saga_id = message["saga_id"]
    state.update(saga_id, status, STEP, message["results"])
    audit.write(saga_id, action, STEP, details)
    logger.info(action, saga_id=saga_id, step=STEP, status=status)
