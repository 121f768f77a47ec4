"""A fresh process of a function: ``python -m benchmarks.fresh`` with a list of events on standard input.

It imports next to nothing itself, so that what the function imports counts as the function's.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from itertools import pairwise
from time import process_time

from benchmarks.variables import HANDLER


class LambdaContext:
    """What handlers use of Lambda's context."""

    function_name = "fresh"
    memory_limit_in_mb = 128
    invoked_function_arn = "arn:aws:lambda:us-east-1:000000000000:function:fresh"
    aws_request_id = "request"

    def get_remaining_time_in_millis(self) -> int:
        """Return the time that is left."""
        return 30_000


def main() -> None:
    """Import the handler and hand it the events; print the seconds of processor time of each."""
    events = json.load(sys.stdin)
    module, name = os.environ[HANDLER].rsplit(".", 1)
    times = [process_time()]
    handle = getattr(import_module(module), name)
    times.append(process_time())
    for event in events:
        handle(event, LambdaContext())
        times.append(process_time())
    print(json.dumps([after - before for before, after in pairwise(times)]))


if __name__ == "__main__":
    main()
