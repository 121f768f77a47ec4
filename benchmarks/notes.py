"""What functions note of their requests while they are told to."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

from benchmarks.prices import Counts
from benchmarks.recorder import Recorder, Request, counts_of

_NAME = "requests.jsonl"
_BYTES = "base64"


@dataclass(frozen=True, slots=True)
class Noted:
    """The requests of one saga.

    Args:
        start: of the function behind POST.
        steps: of each invocation of a step or undo.
        works: steps and undos, where one invocation runs several.
    """

    start: list[Request]
    steps: list[list[Request]]
    works: int = 0

    @property
    def counts(self) -> Counts:
        """All of them, added up."""
        return counts_of(chain(self.start, *self.steps), len(self.steps), self.works)


class Notes:
    """Notes the requests of this process from now on.

    Args:
        directory: of the file.
        variant: whose function this is.
        role: what it is for.
    """

    def __init__(self, directory: Path, variant: str, role: str) -> None:
        self._file = directory / _NAME
        self._about = {"variant": variant, "role": role}
        self._recorder = Recorder()
        self._recorder.install()

    def add(self, saga_ids: Sequence[str], begun: float) -> None:
        """Note the requests of an invocation that ends, and began at so many monotonic seconds."""
        requests = [asdict(request) for request in self._recorder.taken()]
        note = {**self._about, "saga_ids": saga_ids, "begun": begun, "requests": requests}
        with self._file.open("a") as file:
            file.write(json.dumps(note, default=_text) + "\n")


def noted(directory: Path, variant: str, saga_ids: Iterable[str], since: float, works: int = 0) -> Noted:
    """Return the notes of the cheapest saga and of the cheapest start. All sagas have ended. Starts count from the
    monotonic time ``since``, because the function behind POST may have had other calls before.

    Sagas of one kind differ by chance, in what a clock decides: whether a saga lasts into the next of the slots that
    its due time is rounded to, and whether its start also asks if its type is disabled.
    """
    starts: list[list[Request]] = []
    steps: dict[str, list[list[Request]]] = {saga_id: [] for saga_id in saga_ids}
    lines = (directory / _NAME).read_text().splitlines()
    notes = (json.loads(line, object_hook=_bytes) for line in lines)
    for note in sorted(notes, key=itemgetter("begun")):
        requests = [Request(**one) for one in note["requests"]]
        if note["variant"] == variant and note["role"] == "start" and note["begun"] >= since:
            starts.append(requests)
        for saga_id in steps.keys() & note["saga_ids"] if note["role"] == "step" else ():
            steps[saga_id].append(requests)
    start = min(starts, key=len)
    return min((Noted(start, found, works) for found in steps.values()), key=lambda one: one.counts.usd)


def _text(found: bytes) -> dict[str, str]:
    """Bytes of an item, which JSON does not know."""
    return {_BYTES: b64encode(found).decode()}


def _bytes(found: dict[str, Any]) -> Any:
    return b64decode(found[_BYTES]) if found.keys() == {_BYTES} else found
