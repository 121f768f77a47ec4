"""Which queue belongs to which step."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from sagas.errors import NotFound

__all__ = ["Routes"]


@dataclass(frozen=True, slots=True)
class Routes:
    """Queues by saga and step.

    Args:
        base: what every queue's URL begins with, without a slash at the end.
        queues: queue names by saga and step.
        dead_letter: names of the dead-letter queues by saga.
    """

    base: str
    queues: dict[str, dict[str, str]]
    dead_letter: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def parse(cls, text: str) -> Routes:
        """Read the routes from the JSON in a function's environment."""
        data: dict[str, Any] = json.loads(text)
        return cls(data["base"], data["queues"], data.get("dead_letter", {}))

    def queue(self, saga: str, step: str) -> str:
        """Return the URL of a step's queue.

        Raises:
            NotFound: no such saga or step is deployed.
        """
        name = self.queues.get(saga, {}).get(step)
        if name is None:
            raise NotFound(f"no queue for step {step!r} of saga {saga!r} is deployed")
        return f"{self.base}/{name}"

    def by_arn(self, arn: str) -> str:
        """Return the URL of the queue with that ARN."""
        return f"{self.base}/{arn.rsplit(':', 1)[-1]}"
