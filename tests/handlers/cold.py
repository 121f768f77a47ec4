"""A cold start in a process of its own: which clients are made in the init phase, and which by the first invocation,
and which modules of the library that invocation loads.

``python -m tests.handlers.cold step|api|supervisor|now|bulk|commands``; a second argument is a variable that is missing
until the first invocation.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from botocore import session as sessions
from moto import mock_aws

from sagas.engine.clock import SystemClock
from tests.support.aws import REGION, HandmadeStack, LambdaContext
from tests.support.engine import engine_of
from tests.support.sagas import Trip

MADE: list[str] = []
"""The services of the clients that were made."""
EVENT = Path(__file__).parents[2] / "events" / "api_get_saga.json"


UNKNOWN = "01a21fa0-7533-7000-8000-000000000001"
MESSAGES = {
    "now": {"format": 1, "task": "look", "details": {"saga_id": UNKNOWN, "dispatch": 1}},
    "bulk": {"format": 1, "task": "purge", "details": {"sagas": [["2026-11-01T00:00:00.000Z", UNKNOWN]], "until": 9e9}},
    "commands": {"command": "start", "type": "trip", "request": {"item": "train"}, "key": "k"},
}
"""A saga that does not exist, twice, and one to start."""


def _record(body: str) -> dict[str, Any]:
    return {
        "messageId": "m",
        "receiptHandle": "r",
        "body": body,
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:{REGION}:123456789012:queue",
        "attributes": {
            "ApproximateReceiveCount": "1",
            "SenderId": "AIDA:ann",
            "SentTimestamp": f"{SystemClock().now() * 1000:.0f}",
        },
        "messageAttributes": {},
    }


def _count_clients() -> None:
    kind: Any = sessions.Session
    make = kind.create_client

    def counted(session: Any, service: str, *arguments: Any, **keywords: Any) -> Any:
        MADE.append(service)
        return make(session, service, *arguments, **keywords)

    kind.create_client = counted


def _forget_modules() -> None:
    """Have the function load the library and its saga types as in a process of its own."""
    for name in [*sys.modules]:
        if name.partition(".")[0] == "sagas" or name == "tests.support.sagas":
            del sys.modules[name]


def _taken() -> list[str]:
    made = sorted(MADE)
    MADE.clear()
    return made


def main(function: str, missing: str = "") -> None:
    os.environ |= {"AWS_ACCESS_KEY_ID": "setup", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": REGION}
    stack = HandmadeStack(Trip)
    # Another key and other settings than the function's: it finds no client that was made for this.
    before = engine_of(stack.environment | {"SAGAS_RETENTION": "1"})
    before.starter.start("trip", {"item": "train"})
    event: dict[str, Any] = {"Records": stack.receive("trip", "book")}
    if function == "api":
        start = {"resource": "/sagas/{type}", "pathParameters": {"type": "trip"}, "path": "/sagas/trip"}
        start |= {"httpMethod": "POST", "body": '{"item":"train"}'}
        event = json.loads(EVENT.read_text()) | start
    if function == "supervisor":
        event = {"task": "recover", "queue": True}
    if function in MESSAGES:
        event = {"Records": [_record(json.dumps(MESSAGES[function]))]}
    os.environ |= stack.environment | {"AWS_ACCESS_KEY_ID": "function"}
    held = os.environ.pop(missing, "")
    _forget_modules()
    _count_clients()
    module: Any = importlib.import_module(f"sagas.handlers.{function}")
    init = _taken()
    loaded = {*sys.modules}
    if missing:
        os.environ[missing] = held
    answer: dict[str, Any] = module.handler(event, LambdaContext())
    late = sorted(name for name in {*sys.modules} - loaded if name.partition(".")[0] == "sagas")
    told = {
        "init": init,
        "first": _taken(),
        "late": late,
        "ran": sys.modules["tests.support.sagas"].LOG,
        "status": answer.get("statusCode"),
    }
    sys.stderr.write(json.dumps(told | {"failed": answer.get("batchItemFailures")}))


if __name__ == "__main__":
    with mock_aws():
        main(*sys.argv[1:])
