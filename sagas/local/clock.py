"""The clock of a local stack. It can be moved forward, so a wait of three days takes seconds."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from sagas.core.text import epoch
from sagas.engine.clock import SystemClock, skipped
from sagas.local.deploy.description import Description
from sagas.local.emulator.clients import Clients
from sagas.local.errors import LocalStackError
from sagas.local.files import Files

CLOCK_READ_EVERY = 0.02
"""Seconds for which the emulator caches the clock."""

_HOPS = 100
"""Time is moved in at most this many hops. Each hop ends at the next moment at which something is due, or later."""
_PAST = 0.05
"""A hop ends this many seconds after that moment, so the work is certainly due."""
_SETTLED_WITHIN = 20.0
"""Due work has this many seconds to run before time moves on."""
_FIRED_WITHIN = 5.0
"""The emulator has this many seconds to fire the schedules that are due."""
_POLL = 0.05
_QUIET = 2
"""This many polls in a row must find nothing running: a message is received shortly before it counts as in flight."""


class StackClock:
    """The clock of a project's local stack. It raises LocalStackError if no stack is running, or if its endpoint is not
    the embedded emulator, so that its clock cannot be moved."""

    def __init__(self, files: Files) -> None:
        description = Description.read(files.description)
        if description.pid is None:
            problem = "time can be skipped only in the emulator that `sagas local up` starts itself"
            raise LocalStackError(f"{problem}; this stack is at {description.endpoint_url}")
        self._description = description
        self._file = files.clock.resolve()
        self._schedules = files.schedules
        clients = Clients(description.endpoint_url, description.region)
        self._dynamodb = clients.client("dynamodb")
        self._sqs = clients.client("sqs")
        self._lambda = clients.client("lambda")

    @property
    def ahead(self) -> float:
        """Seconds by which the clock is ahead of this machine's."""
        return skipped(str(self._file))

    def now(self) -> float:
        return SystemClock().now() + self.ahead

    def advance(self, seconds: float) -> dict[str, Any]:
        """Move time forward in hops. Each hop ends when the next work is due, so everything happens in order. Returns
        the totals of the supervisor's runs: see :class:`sagas.engine.read.reports.RecoveryView`."""
        totals: dict[str, Any] = {}
        remaining = seconds
        try:
            while remaining > 0 or not totals:
                self._settle()
                hop = min(remaining, max(self._next_due() - self.now() + _PAST, seconds / _HOPS))
                # Functions can read the file at any time, so replace it in one piece.
                draft = self._file.with_suffix(".draft")
                draft.write_text(f"{self.ahead + hop:.3f}\n")
                draft.replace(self._file)
                self._wait_for_schedules()
                remaining -= hop
                report = self._supervise("recover")
                # Counts are added, and lists of ids are joined.
                totals = {name: totals.get(name, type(value)()) + value for name, value in report.items()}
                self._supervise("purge")
            self._settle()
            self._supervise("overview")
        except (BotoCoreError, ClientError) as error:
            raise LocalStackError(f"{self._description.endpoint_url}: {error}") from error
        return totals

    def _next_due(self) -> float:
        """Return the next moment at which the supervisor must handle a saga or a schedule fires; infinite if there is
        none."""
        scan = {"TableName": self._description.tables["sagas"], "ProjectionExpression": "due", "ConsistentRead": True}
        pages = self._dynamodb.get_paginator("scan").paginate(**scan)
        now = self.now()
        moments = (epoch(item["due"]["S"]) for page in pages for item in page["Items"] if "due" in item)
        _, schedule = self._schedules_seen()
        return min((moment for moment in (*moments, schedule) if moment > now), default=math.inf)

    def _schedules_seen(self) -> tuple[float, float]:
        """Return how far the clock was ahead when the emulator last fired schedules, and when the next one is due."""
        with suppress(OSError, ValueError):
            ahead, due = map(float, self._schedules.read_text().split())
            return ahead, due
        return 0.0, math.inf

    def _wait_for_schedules(self) -> None:
        """Wait until the emulator has seen the clock and fired the schedules that are due."""
        time.sleep(2 * CLOCK_READ_EVERY)
        end = time.monotonic() + _FIRED_WITHIN
        while self._schedules_seen()[0] < self.ahead and time.monotonic() < end:
            time.sleep(CLOCK_READ_EVERY)

    def _settle(self) -> None:
        """Wait until no message is waiting or in flight, but at most 20 seconds, because a step can hang."""
        description = self._description
        queues = {url for steps in description.queues.values() for url in steps.values()}
        queues |= {*description.work_queues.values(), description.command_queue} - {""}
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        end = time.monotonic() + _SETTLED_WITHIN
        quiet = 0
        while quiet < _QUIET and time.monotonic() < end:
            attributes = (
                self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"] for url in queues
            )
            quiet = 0 if any(int(queue[name]) for queue in attributes for name in names) else quiet + 1
            time.sleep(_POLL)

    def _supervise(self, task: str) -> Mapping[str, Any]:
        response = self._lambda.invoke(
            FunctionName=self._description.supervisor, Payload=json.dumps({"task": task}).encode()
        )
        answer: dict[str, Any] = json.loads(response["Payload"].read())
        if "FunctionError" in response:
            raise LocalStackError(f"the supervisor failed: {answer.get('errorMessage')}")
        return answer
