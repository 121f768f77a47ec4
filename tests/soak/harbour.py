"""A local stack on which sagas are soaked: its clients, what lies in its tables, what is left in its queues."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from sagas.aws import translated
from sagas.client import SagaClient
from sagas.client.operate.queue_walk import QueueWalk
from sagas.core.states import SagaState
from sagas.store.control.mapping import state_of
from tests.e2e.stack import REPOSITORY, Running, launch
from tests.faults.mailbox import Letter
from tests.soak.faults import CALM, Settings
from tests.soak.lives import INITIALLY

_AT_ONCE = 100
"""Items a batch may ask for."""
_COUNTS = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed")


@dataclass(slots=True)
class Harbour:
    """The running stack.

    Args:
        stack: what was launched.
        spent: where its functions leave the faults that struck.
    """

    stack: Running
    spent: Path
    client: SagaClient = field(init=False)
    description: dict[str, Any] = field(init=False)
    _dynamodb: Any = field(init=False)
    _sqs: Any = field(init=False)

    def __post_init__(self) -> None:
        self.description = self.stack.description
        self.client = SagaClient.local(self.stack.project)
        self._dynamodb, self._sqs = self.stack.client("dynamodb"), self.stack.client("sqs")

    def disturb(self) -> None:
        """From now on, faults strike."""
        (self.spent / CALM).unlink()

    def fill(self) -> None:
        """Put the goods in stock."""
        for sku, available in INITIALLY.items():
            item = {"sku": {"S": sku}, "available": {"N": str(available)}}
            self._dynamodb.put_item(TableName=self.description["outputs"]["StockTable"], Item=item)

    def states(self, saga_ids: Iterable[str]) -> dict[str, SagaState]:
        """Those sagas that exist."""
        keys, found = [{"saga_id": {"S": saga_id}} for saga_id in saga_ids], dict[str, SagaState]()
        table: str = self.description["tables"]["sagas"]
        while keys:
            asked, keys = keys[:_AT_ONCE], keys[_AT_ONCE:]
            answer = self._dynamodb.batch_get_item(RequestItems={table: {"Keys": asked, "ConsistentRead": True}})
            keys += answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])
            states = (state_of(item) for item in answer["Responses"][table])
            found |= {state.saga_id: state for state in states}
        return found

    def saga_ids(self) -> list[str]:
        """The ids of all sagas, whoever started them."""
        return [item["saga_id"]["S"] for item in self._items(self.description["tables"]["sagas"]) if "steps" in item]

    def journal(self) -> Iterator[dict[str, Any]]:
        """Every entry of the audit table, as it is stored."""
        return self._items(self.description["tables"]["audit"])

    def rows(self, output: str) -> list[dict[str, Any]]:
        """Every item of a table of the sagas' own, by the output that names it."""
        return list(self._items(self.description["outputs"][output]))

    def payloads(self) -> set[str]:
        """The keys of the payloads that are kept outside of the journal."""
        s3, found = self.stack.client("s3"), set[str]()
        for bucket in s3.list_buckets()["Buckets"]:
            pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket["Name"], Prefix="payloads/")
            found |= {entry["Key"] for page in pages for entry in page.get("Contents", ())}
        return found

    def _items(self, table: str) -> Iterator[dict[str, Any]]:
        for page in self._dynamodb.get_paginator("scan").paginate(TableName=table, ConsistentRead=True):
            yield from page["Items"]

    def left(self) -> dict[str, int]:
        """How many messages are left, by the steps' queues and what is done at once; those without any are left out."""
        urls = {url for queues in self.description["queues"].values() for url in queues.values()}
        urls.add(self.description["work_queues"]["now"])
        counts = {url.rpartition("/")[2]: self._count(url) for url in urls}
        return {name: count for name, count in counts.items() if count}

    def _count(self, url: str) -> int:
        found = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(_COUNTS))["Attributes"]
        return sum(int(found[name]) for name in _COUNTS)

    def letters(self) -> list[Letter]:
        """The messages in the dead-letter queues, by saga type. Reading takes them out of sight."""
        return [
            letter for saga, url in self.description["dead_letter_queues"].items() for letter in self._dead(saga, url)
        ]

    def move_letter(self, saga: str, saga_id: str) -> bool:
        """Move a saga's dead letter back to its step's queue, as by hand in SQS's console. False if there is none."""
        with QueueWalk(self._sqs, self.description["dead_letter_queues"][saga]) as walk:
            for message in walk.messages():
                place = json.loads(message["Body"])
                if place["saga_id"] == saga_id:
                    url = self.description["queues"][saga][place["step"]]
                    copy = {"MessageBody": message["Body"], "MessageAttributes": message.get("MessageAttributes", {})}
                    with translated("SQS"):
                        self._sqs.send_message(QueueUrl=url, **copy)
                    walk.delete(message)
                    return True
        return False

    def _dead(self, saga: str, url: str) -> Iterator[Letter]:
        while True:
            answer = self._sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=600)
            messages: list[dict[str, Any]] = answer.get("Messages", [])
            for message in messages:
                yield Letter(saga, message["Body"], message["MessageId"], visible_at=0.0, sent_at=0.0)
            if not messages:
                return


@contextmanager
def harbour(project: Path, *, seed: int, rate: float, isolation: str) -> Generator[Harbour]:
    """Start a stack in an empty directory, calm, with the goods in stock; stop it by its process id.

    Args:
        project: the directory.
        seed: of the faults.
        rate: the share of requests that are disturbed.
        isolation: of the service: ``step`` or ``saga``.
    """
    spent = project / "spent"
    shutil.rmtree(spent, ignore_errors=True)
    spent.mkdir(parents=True)
    (spent / CALM).touch()
    cache = REPOSITORY / ".sagas" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    (project / ".sagas").mkdir(exist_ok=True)
    (project / ".sagas" / "cache").symlink_to(cache)
    environment = {"SOAK_FAULTS": Settings(seed, rate, str(spent)).text, "SOAK_ISOLATION": isolation}
    with patch.dict(os.environ, environment):
        running = launch(project, "python -m tests.soak.app")
    try:
        made = Harbour(running, spent)
        made.fill()
        yield made
    finally:
        running.stop()
