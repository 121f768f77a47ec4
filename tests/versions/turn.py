"""One version at work: a process that does what it is told, a line of JSON each, and answers likewise.

The version is what its PYTHONPATH finds first. It is run as a script, so that of the tests it imports nothing but the
sagas beside it.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


class _LambdaContext:
    function_name = "test"
    memory_limit_in_mb = 128
    invoked_function_arn = "arn:aws:lambda:eu-central-1:123456789012:function:test"
    aws_request_id = "request"

    def get_remaining_time_in_millis(self) -> int:
        return int(float(os.environ["TURN_REMAINING"]) * 1000)


def main() -> None:
    """Serve until the standard input ends. Logs go to the standard error."""
    answers, sys.stdout = sys.stdout, sys.stderr
    from sagas.handlers import api, step, supervisor

    handlers: dict[str, Any] = {"step": step.handler, "api": api.handler, "supervisor": supervisor.handler}
    for line in sys.stdin:
        told = json.loads(line)
        answer = handlers[told["handler"]](told["event"], _LambdaContext())
        print(json.dumps(answer), file=answers, flush=True)


main()
