"""The queues of the steps: their names and URLs, and SQS's limits."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct, field

from sagas.errors import NotFound

LONGEST_DELAY = 900
"""SQS's limit for ``DelaySeconds``."""
LONGEST_BACKOFF = 60.0
"""Maximum seconds between two tries of a message that could not be handled."""
LONGEST_HIDING = 41_000
"""Maximum seconds for which a message is hidden. SQS's limit is 12 hours from the receive; this leaves a margin."""


def backoff(tries: int, chance: float, longest: float = LONGEST_BACKOFF) -> float:
    """Return the seconds until the next try: about one at first, doubled with each try, at most ``longest``."""
    return min(2.0 ** min(tries - 1, 10), longest) * (1 + chance) / 2


_ROOM = 64
"""Maximum characters of a derived name before its token. SQS allows 80 in all."""
DEAD_LETTERS = "dead-letters"
"""This cannot be the name of a step, because it is not an identifier."""
TYPES_FILE = "sagas-types.json"
"""A file next to a function's code, with the saga types that do not fit into its environment variables."""
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")


def derived_name(saga: str, queue: str, token: str) -> str:
    """Return the derived name of a queue. ``token``: up to 15 characters that distinguish services."""
    plain = _UNFIT.sub("_", f"{saga}-{queue}")
    if plain != f"{saga}-{queue}" or len(plain) > _ROOM:
        digest = hashlib.sha256(f"{saga}-{queue}".encode()).hexdigest()[:8]
        plain = f"{plain[: _ROOM - 9]}-{digest}"
    return f"{plain}-{token}"


class Routes(Struct, frozen=True):
    """Queues by saga and step.

    Args:
        base: the start of all queues' URLs, without a slash at the end.
        queues: queue names by saga and step.
        lanes: by saga, the steps without their own queue, each with the step whose queue it uses.
        work: the names of the service's own work queues that the function can send to.
        letters: the names of the dead-letter queues by saga.
    """

    base: str
    queues: dict[str, dict[str, str]]
    work: dict[str, str] = field(default_factory=dict[str, str])
    lanes: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    letters: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def parse(
        cls,
        text: str,
        steps: Mapping[str, Collection[str]],
        groups: Mapping[str, Mapping[str, str]] | None = None,
    ) -> Routes:
        """Read the routes from the JSON in a function's environment.

        Lambda allows 4 KB for all environment variables of a function, so queues are not listed: their names are
        derived from a token. ``shared`` is a queue for all steps of a saga. ``groups`` has queues that some steps
        share. If the variables have no room for ``groups``, a file contains it.
        """
        data: dict[str, Any] = json.loads(text)
        token = data["token"]
        shared = data.get("shared")
        grouped = data.get("groups", groups or {})
        queues = {
            saga: {step: derived_name(saga, shared or grouped.get(saga, {}).get(step, step), token) for step in names}
            for saga, names in steps.items()
        }
        letters = {saga: derived_name(saga, DEAD_LETTERS, token) for saga in steps}
        return cls(data["base"], queues, data.get("work", {}), letters=letters)

    def queue(self, saga: str, step: str) -> str:
        """Return the URL of a step's queue."""
        name = self.queues.get(saga, {}).get(self.lanes.get(saga, {}).get(step, step))
        if name is None:
            raise NotFound(f"no queue is deployed for step {step!r} of saga {saga!r}")
        return f"{self.base}/{name}"

    def representative(self, saga: str, step: str) -> str:
        """Return the first of the steps that share this step's queue. It stands for all of them."""
        queues = self.queues.get(saga, {})
        return next((other for other, name in queues.items() if name == queues.get(step)), step)

    def work_queue(self, name: str) -> str:
        """Return the URL of a work queue."""
        if name not in self.work:
            raise NotFound(f"this function has no work queue {name!r}")
        return f"{self.base}/{self.work[name]}"

    def dead_letters(self, saga: str) -> str:
        """Return the URL of a saga's dead-letter queue."""
        if saga not in self.letters:
            raise NotFound(f"no dead-letter queue is deployed for saga {saga!r}")
        return f"{self.base}/{self.letters[saga]}"

    def by_arn(self, arn: str) -> str:
        """Return the URL of the queue with an ARN."""
        return f"{self.base}/{arn.rsplit(':', 1)[-1]}"
