"""The clock of a local stack, which can be moved: three days of a saga that waits then take seconds."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from sagas.core.text import epoch
from sagas.engine.clock import SystemClock, skipped
from sagas.errors import InvalidRequest, Problem
from sagas.local.deploy.description import Description
from sagas.local.emulator.clients import Clients
from sagas.local.errors import LocalStackError
from sagas.local.files import Files

CLOCK_READ_EVERY = 0.02
"""Seconds for which the emulator goes by what it has read of the clock."""

_LENGTH = re.compile(r"([1-9][0-9]{0,8})([dhms])")
_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_LONGEST = timedelta(days=3_660)
_HOPS = 100
"""In how many hops time is moved at most: each to the next moment at which something is due, or beyond it."""
_PAST = 0.05
"""Seconds by which a hop goes beyond that moment, so that it has surely come."""
_SETTLED_WITHIN = 20.0
"""Seconds that what became due gets to run, before time moves on."""
_POLL = 0.05
_QUIET = 2
"""Looks in a row that must find nothing under way: a message is taken a moment before it counts."""


def length_of(text: str) -> float:
    """Return the seconds that ``3d``, ``2h``, ``70m`` or ``90s`` stands for."""
    found = _LENGTH.fullmatch(text)
    if found is None or int(found[1]) * _UNITS[found[2]] > _LONGEST.total_seconds():
        told = f"must be a whole number of days, hours, minutes or seconds, as in 3d, 2h, 70m or 90s, not {text!r}"
        raise InvalidRequest("the time to skip does not fit", [Problem("--advance", told)])
    return float(int(found[1]) * _UNITS[found[2]])


class StackClock:
    """The clock of the local stack of a project.

    Args:
        files: of the project.

    Raises:
        LocalStackError: there is no stack, or its clock cannot be moved: it is at an endpoint that was there before it.
    """

    def __init__(self, files: Files) -> None:
        description = Description.read(files.description)
        if description.pid is None:
            told = "time can be skipped in the emulator that `sagas local up` starts itself, and nowhere else"
            raise LocalStackError(f"{told}: this stack is at {description.endpoint_url}")
        self._description, self._file = description, files.clock.resolve()
        clients = Clients(description.endpoint_url, description.region)
        self._dynamodb, self._sqs = clients.client("dynamodb"), clients.client("sqs")
        self._lambda = clients.client("lambda")

    @property
    def ahead(self) -> float:
        """Seconds by which it is ahead of this machine's."""
        return skipped(str(self._file))

    def now(self) -> float:
        """Epoch seconds."""
        return SystemClock().now() + self.ahead

    def advance(self, seconds: float) -> dict[str, Any]:
        """Let time pass, from one moment at which something is due to the next, so that all happens in its order.
        Returns what the supervisor did meanwhile, added up: see :class:`sagas.engine.read.answers.RecoveryView`."""
        did: dict[str, Any] = {"recovered": 0, "untouched": 0, "failed": 0, "left": 0, "saga_ids": []}
        left = seconds
        try:
            while left > 0:
                self._settle()
                hop = min(left, max(self._next_due() - self.now() + _PAST, seconds / _HOPS))
                # Functions read it at any moment, so it is replaced whole; the emulator does so every so often.
                draft = self._file.with_suffix(".draft")
                draft.write_text(f"{self.ahead + hop:.3f}\n")
                draft.replace(self._file)
                time.sleep(2 * CLOCK_READ_EVERY)
                left -= hop
                report = self._supervise("recover")
                did = {name: did[name] + report[name] for name in did}
                self._supervise("purge")
            self._settle()
        except (BotoCoreError, ClientError) as error:
            raise LocalStackError(f"{self._description.endpoint_url}: {error}") from error
        return did

    def _next_due(self) -> float:
        """The next moment at which the supervisor is to look at a saga; infinite if there is none."""
        scan = {"TableName": self._description.tables["sagas"], "ProjectionExpression": "due", "ConsistentRead": True}
        pages = self._dynamodb.get_paginator("scan").paginate(**scan)
        now = self.now()
        moments = (epoch(item["due"]["S"]) for page in pages for item in page["Items"] if "due" in item)
        return min((moment for moment in moments if moment > now), default=float("inf"))

    def _settle(self) -> None:
        """Wait until no message is on its way and none is worked on; for a while only, as some step may hang."""
        description = self._description
        queues = {url for steps in description.queues.values() for url in steps.values()}
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        end, quiet = time.monotonic() + _SETTLED_WITHIN, 0
        while quiet < _QUIET and time.monotonic() < end:
            found = (
                self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
                for url in (*queues, *description.work_queues.values())
            )
            quiet = 0 if any(int(one[name]) for one in found for name in names) else quiet + 1
            time.sleep(_POLL)

    def _supervise(self, task: str) -> Mapping[str, Any]:
        called = self._lambda.invoke(
            FunctionName=self._description.supervisor, Payload=json.dumps({"task": task}).encode()
        )
        answer: dict[str, Any] = json.loads(called["Payload"].read())
        if "FunctionError" in called:
            raise LocalStackError(f"the supervisor failed: {answer.get('errorMessage')}")
        return answer
