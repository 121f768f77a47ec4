"""Which queue belongs to which step."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from sagas.errors import NotFound

_ROOM = 64
"""Characters of a derived name before its token. SQS takes 80 in all."""
TYPES_FILE = "sagas-types.json"
"""Beside the code of functions that deal with more saga types than their variables have room to name."""
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")


def derived_name(saga: str, queue: str, token: str) -> str:
    """Return the name of a queue that is derived rather than written down. ``token``: tells the services of an account
    and region apart; at most 15 characters."""
    plain = _UNFIT.sub("_", f"{saga}-{queue}")
    if plain != f"{saga}-{queue}" or len(plain) > _ROOM:
        digest = hashlib.sha256(f"{saga}-{queue}".encode()).hexdigest()[:8]
        plain = f"{plain[: _ROOM - 9]}-{digest}"
    return f"{plain}-{token}"


@dataclass(frozen=True, slots=True)
class Routes:
    """Queues by saga and step.

    Args:
        base: what every queue's URL begins with, without a slash at the end.
        queues: queue names by saga and step.
        lanes: by saga, of a step without a queue the one whose queue it uses.
        work: names of the service's own work queues, as far as the function may send to them.
    """

    base: str
    queues: dict[str, dict[str, str]]
    work: dict[str, str] = field(default_factory=dict[str, str])
    lanes: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])

    @classmethod
    def parse(
        cls,
        text: str,
        steps: Mapping[str, Collection[str]],
        groups: Mapping[str, Mapping[str, str]] | None = None,
    ) -> Routes:
        """Read the routes from the JSON in a function's environment.

        Lambda allows 4 KB for all variables of a function. So queues are not listed: their names are derived from a
        token. A queue that all steps of a saga have is ``shared``, and ``groups`` has those that some steps share, here
        or in a file where the variables have no room.
        """
        data: dict[str, Any] = json.loads(text)
        token, shared, grouped = data["token"], data.get("shared"), data.get("groups", groups or {})
        queues = {
            saga: {step: derived_name(saga, shared or grouped.get(saga, {}).get(step, step), token) for step in names}
            for saga, names in steps.items()
        }
        return cls(data["base"], queues, data.get("work", {}))

    def queue(self, saga: str, step: str) -> str:
        """Return the URL of a step's queue."""
        name = self.queues.get(saga, {}).get(self.lanes.get(saga, {}).get(step, step))
        if name is None:
            raise NotFound(f"no queue for step {step!r} of saga {saga!r} is deployed")
        return f"{self.base}/{name}"

    def lane(self, saga: str, step: str) -> str:
        """Return the first of the steps that share a step's queue: it stands for the line in front of them all."""
        queues = self.queues.get(saga, {})
        return next((other for other, name in queues.items() if name == queues.get(step)), step)

    def work_queue(self, name: str) -> str:
        """Return the URL of a work queue."""
        if name not in self.work:
            raise NotFound(f"no work queue {name!r} is deployed for this function")
        return f"{self.base}/{self.work[name]}"

    def by_arn(self, arn: str) -> str:
        """Return the URL of the queue with that ARN."""
        return f"{self.base}/{arn.rsplit(':', 1)[-1]}"
