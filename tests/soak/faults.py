"""Faults inside the deployed functions, drawn from a seed.

Each request that boto3 or PynamoDB makes passes here. Whether it is disturbed, and how, is a function of the seed and
of the request's coordinate: which function, saga, step, message, delivery and how many requests came before it. So the
same seed plans the same faults, although no two runs schedule alike. A coordinate is disturbed once in a run: a
client that repeats what failed gets through, as it would after an outage.

Every fault that strikes leaves a file in a directory of the run, before it strikes: its kind and coordinate. They are
what the figures count. While a file ``calm`` is in that directory, nothing strikes.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

from botocore.client import BaseClient
from botocore.exceptions import ClientError, ConnectTimeoutError, ReadTimeoutError


class Kind(StrEnum):
    """What goes wrong at a request."""

    KILLED_BEFORE = "process killed before a request"
    KILLED_AFTER = "process killed after a request took effect"
    THROTTLED = "request throttled"
    NOT_SENT = "no connection"
    NO_ANSWER = "answer lost"
    REPEATED = "request repeated by its client"
    DROPPED = "message dropped, called sent"
    DOUBLED = "message sent twice"


CALM = "calm"
"""The file that holds all faults back."""

_ANY = (
    (Kind.KILLED_BEFORE, 10),
    (Kind.KILLED_AFTER, 14),
    (Kind.THROTTLED, 30),
    (Kind.NOT_SENT, 12),
    (Kind.NO_ANSWER, 18),
    (Kind.REPEATED, 16),
)
_SENDING = (
    (Kind.DROPPED, 50),
    (Kind.DOUBLED, 50),
    (Kind.KILLED_BEFORE, 15),
    (Kind.KILLED_AFTER, 15),
    (Kind.THROTTLED, 20),
)
_SENDING_OFTENER = 3
"""A message is one request of a dozen: it is disturbed that much more often."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run's faults depend on.

    Args:
        seed: of the run.
        rate: the share of requests that are disturbed.
        spent: the directory that keeps what struck.
    """

    seed: int
    rate: float
    spent: str

    @property
    def text(self) -> str:
        """As a function's environment holds it."""
        return json.dumps({"seed": self.seed, "rate": self.rate, "spent": self.spent})

    @classmethod
    def parse(cls, text: str) -> Settings:
        """Read what :attr:`text` wrote."""
        return cls(**json.loads(text))


def drawn(settings: Settings, operation: str, coordinate: str) -> Kind | None:
    """The fault that is planned at a coordinate: a pure function."""
    digest = hashlib.sha256(f"{settings.seed}|{coordinate}".encode()).digest()
    sending = operation == "SendMessage"
    rate = settings.rate * (_SENDING_OFTENER if sending else 1)
    if int.from_bytes(digest[:8]) / 2**64 >= rate:
        return None
    kinds = _SENDING if sending else _ANY
    at = int.from_bytes(digest[8:16]) % sum(weight for _, weight in kinds)
    for kind, weight in kinds:
        at -= weight
        if at < 0:
            return kind
    raise AssertionError("unreachable")


@dataclass(frozen=True, slots=True)
class Struck:
    """A fault that struck, ``at`` epoch seconds."""

    at: float
    kind: str
    coordinate: str


def struck(directory: Path) -> list[Struck]:
    """Return what struck, in the order of time."""
    marks = (path for path in directory.iterdir() if path.name != CALM)
    found = [Struck(path.stat().st_mtime, *path.read_text().split("\n", 1)) for path in marks]
    return sorted(found, key=lambda one: one.at)


def saga_of(parameters: Mapping[str, Any]) -> str:
    """The saga that a request is about, as far as it tells; the same for every run."""
    for place in ("Key", "Item"):
        values: dict[str, dict[str, str]] = parameters.get(place) or {}
        if "saga_id" in values:
            return values["saga_id"]["S"]
    if "MessageBody" in parameters:
        return str(json.loads(parameters["MessageBody"])["saga_id"])
    for write in parameters.get("TransactItems", ()):
        return saga_of(next(iter(write.values())))
    return ""


@dataclass(slots=True)
class Injector:
    """Disturbs the requests of one function.

    Args:
        settings: of the run.
    """

    settings: Settings
    _where: str = ""
    _counts: Counter[str] = field(default_factory=Counter[str])

    def install(self) -> None:
        """Listen to every client of this process, until it ends."""
        client = cast("Any", BaseClient)
        send = client._make_api_call

        def listening(this: Any, operation: str, parameters: dict[str, Any]) -> Any:
            # A copy each time: botocore puts a body that is read once in the place of the bytes.
            return self.request(operation, parameters, lambda: send(this, operation, dict(parameters)))

        client._make_api_call = listening

    @contextmanager
    def invocation(self, where: str) -> Generator[None]:
        """What happens inside is one invocation's doing. ``where``: the part of the coordinate that tells which."""
        self._where = where
        self._counts.clear()
        try:
            yield
        finally:
            self._where = ""

    def request(self, operation: str, parameters: dict[str, Any], send: Callable[[], Any]) -> Any:
        """Send a request, disturbed if that is planned."""
        if not self._where or (Path(self.settings.spent) / CALM).exists():
            return send()
        about = f"{self._where}|{threading.current_thread().name}|{operation}|{saga_of(parameters)}"
        self._counts[about] += 1
        coordinate = f"{about}|{self._counts[about]}"
        kind = drawn(self.settings, operation, coordinate)
        if kind is None or not self._spend(coordinate, kind):
            return send()
        return _strike(kind, operation, parameters, send)

    def _spend(self, coordinate: str, kind: Kind) -> bool:
        """Leave the mark; ``False`` if it is there already."""
        name = hashlib.sha256(coordinate.encode()).hexdigest()[:24]
        try:
            with (Path(self.settings.spent) / name).open("x") as mark:
                mark.write(f"{kind.value}\n{coordinate}")
        except FileExistsError:
            return False
        return True


def _strike(kind: Kind, operation: str, parameters: dict[str, Any], send: Callable[[], Any]) -> Any:
    if kind in (Kind.KILLED_AFTER, Kind.NO_ANSWER, Kind.REPEATED, Kind.DOUBLED):
        with suppress(Exception):  # whatever the answer was, it is lost
            send()
    match kind:
        case Kind.KILLED_BEFORE | Kind.KILLED_AFTER:
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError("unreachable")
        case Kind.REPEATED | Kind.DOUBLED:
            return send()
        case Kind.DROPPED:
            digest = hashlib.md5(parameters["MessageBody"].encode(), usedforsecurity=False).hexdigest()
            return {"MessageId": "00000000-0000-0000-0000-000000000000", "MD5OfMessageBody": digest}
        case Kind.THROTTLED:
            raise _throttled(operation)
        case Kind.NOT_SENT:
            raise ConnectTimeoutError(endpoint_url="https://aws.invalid")
        case Kind.NO_ANSWER:
            raise ReadTimeoutError(endpoint_url="https://aws.invalid")


def _throttled(operation: str) -> ClientError:
    code = "ThrottlingException" if operation != "UpdateItem" else "ProvisionedThroughputExceededException"
    answer: Any = {
        "Error": {"Code": code, "Message": "Rate exceeded"},
        "ResponseMetadata": {"RequestId": "soak", "HTTPStatusCode": 400},
    }
    if operation == "TransactWriteItems":
        answer["CancellationReasons"] = []
    return ClientError(answer, operation)
