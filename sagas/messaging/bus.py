"""The bus of EventBridge that a service tells its events on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from sagas.aws import HOT, connect, translated
from sagas.errors import Unavailable

_MOST = 10
"""Events that one request takes."""
LARGEST = 240 * 1024
"""Bytes of the events of one request: EventBridge takes 256 KB, names and all."""
_TRIES = 3


class EventBus:
    """A bus.

    Args:
        name: of the bus, or its ARN.
        source: of all events.
    """

    def __init__(self, name: str, source: str) -> None:
        self._name = name
        self._source = source

    @cached_property
    def _client(self) -> Any:
        return connect("events", HOT)

    def connect(self) -> None:
        """Make the client, which the first request does otherwise."""
        _ = self._client

    def put(self, events: Iterable[tuple[str, Mapping[str, Any]]]) -> int:
        """Put events on the bus, ten in a request; return how many."""
        count = 0
        for entries in self._batches(events):
            left = entries
            for _ in range(_TRIES):
                with translated("EventBridge"):
                    answer = self._client.put_events(Entries=left)
                results = answer.get("Entries", [])
                left = [one for one, result in zip(left, results, strict=True) if "ErrorCode" in result]
                if not left:
                    break
            else:
                raise Unavailable(f"EventBridge PutEvents: {len(left)} of {len(entries)} were not taken")
            count += len(entries)
        return count

    def _batches(self, events: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[list[dict[str, str]]]:
        batch: list[dict[str, str]] = []
        size = 0
        for name, detail in events:
            text = json.dumps(detail, separators=(",", ":"), ensure_ascii=False)
            added = len(text.encode())
            if batch and (len(batch) == _MOST or size + added > LARGEST):
                yield batch
                batch, size = [], 0
            told = {"EventBusName": self._name, "Source": self._source, "DetailType": name, "Detail": text}
            batch.append(told)
            size += added
        if batch:
            yield batch
