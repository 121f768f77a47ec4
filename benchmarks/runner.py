"""Running sagas of a variant, and what each took."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from benchmarks.marks import Eye, Mark
from benchmarks.recorder import Request
from benchmarks.stage import Stage
from benchmarks.variants import BARE

_CALLERS = 2
"""Starts at a time, so that few processes of the functions behind POST do."""
_LOOK = 0.001
"""Seconds between two looks at the marks: a read of a file, which none but the driver notices."""
_DEADLINE = 120.0


@dataclass(slots=True)
class Ran:
    """A saga that was run to its end.

    Args:
        saga_id: its id.
        begun: monotonic seconds just before the call that started it.
        marks: of its steps and undos.
    """

    saga_id: str
    begun: float
    marks: list[Mark] = field(default_factory=list[Mark])

    @property
    def ended(self) -> float:
        """Monotonic seconds at which the function of its last step or undo returned."""
        return max(mark.ended for mark in self.marks)

    @property
    def latency(self) -> float:
        """Seconds from the call to its end."""
        return self.ended - self.begun

    @property
    def cpu(self) -> float:
        """Seconds of processor time of the functions of its steps and undos."""
        return sum(mark.cpu for mark in self.marks)


class Sink:
    """A queue whose messages start nothing. One of them is received for good, and can be hidden again and again.

    Args:
        stage: on which it is made.
    """

    def __init__(self, stage: Stage) -> None:
        self.url: str = stage.sqs.create_queue(QueueName="sink")["QueueUrl"]
        stage.sqs.send_message(QueueUrl=self.url, MessageBody="hidden")
        [message] = stage.sqs.receive_message(QueueUrl=self.url, VisibilityTimeout=43_200)["Messages"]
        self.receipt: str = message["ReceiptHandle"]


class Runner:
    """Runs sagas, and sees by their marks alone when they end.

    Args:
        stage: on which.
        eye: that sees the marks.
    """

    def __init__(self, stage: Stage, eye: Eye) -> None:
        self._stage = stage
        self._eye = eye
        self._callers = ThreadPoolExecutor(_CALLERS)
        self._steps: dict[str, list[Mark]] = {}
        self._others: dict[tuple[str, str], list[float]] = {}

    def run(
        self, variant: str, order: dict[str, Any], invocations: int, *, many: int = 1, at_a_time: int = 1
    ) -> list[Ran]:
        """Run sagas to their end.

        Args:
            variant: the design.
            order: the request of each.
            invocations: of its steps' functions that each takes.
            many: how many sagas.
            at_a_time: how many are under way at a time.

        Raises:
            RuntimeError: one cannot be started, or does not end in time.
        """
        starting: list[Future[Ran]] = []
        running: list[Ran] = []
        over: list[Ran] = []
        deadline = time.monotonic() + _DEADLINE
        while len(over) < many:
            under_way = len(starting) + len(running)
            more = min(at_a_time - under_way, many - len(over) - under_way)
            starting += [self._callers.submit(self._start, variant, order) for _ in range(more)]
            started = [future for future in starting if future.done()]
            starting = [future for future in starting if future not in started]
            running += [future.result() for future in started]
            self._look()
            ended = [ran for ran in running if len(self._steps.get(ran.saga_id, ())) >= invocations]
            for ran in ended:
                ran.marks = self._steps.pop(ran.saga_id)
            over += ended
            running = [ran for ran in running if not ran.marks]
            if time.monotonic() > deadline:
                raise RuntimeError(f"{len(running)} sagas of {variant} did not end within {_DEADLINE:g} s")
            time.sleep(_LOOK)  # a poll with a deadline
        return over

    def bare(self, steps: Sequence[Sequence[Request]], functions: Sequence[str], sink: Sink) -> float:
        """Have bare botocore do the requests of a saga's steps again; return the seconds of processor time it took.

        Args:
            steps: the requests of each.
            functions: names of those that make them, one a step.
            sink: the queue that messages go to.
        """
        for requests, function in zip(steps, functions, strict=True):
            self._stage.restore(before for request in reversed(requests) for before in request.before)
            event = {"requests": [_again(request, sink) for request in requests]}
            answer = self._stage.lambda_.invoke(FunctionName=function, Payload=json.dumps(event))
            assert "FunctionError" not in answer, answer["Payload"].read()
        return sum(self.others(BARE, BARE)[-len(steps) :])

    def others(self, variant: str, role: str) -> list[float]:
        """Return the processor time, in seconds, of a variant's invocations so far that run no step."""
        self._look()
        return self._others.get((variant, role), [])

    def _start(self, variant: str, order: dict[str, Any]) -> Ran:
        begun = time.monotonic()
        return Ran(self._stage.start(variant, order), begun)

    def _look(self) -> None:
        for mark in self._eye.new():
            if mark.role != "step":
                self._others.setdefault((mark.variant, mark.role), []).append(mark.cpu)
            else:
                for saga_id in mark.saga_ids:
                    self._steps.setdefault(saga_id, []).append(mark)


def _again(request: Request, sink: Sink) -> dict[str, Any]:
    """What bare botocore is told of a request: all of it but what would have it start something, or do nothing."""
    others = {"QueueUrl": sink.url, "ReceiptHandle": sink.receipt, "ClientRequestToken": str(uuid.uuid4())}
    parameters = request.parameters | {name: others[name] for name in others.keys() & request.parameters}
    return {"service": request.service, "operation": request.operation, "parameters": parameters}
