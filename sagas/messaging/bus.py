"""The EventBridge bus to which a service publishes its events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from sagas.aws import HOT, connect, translated
from sagas.errors import Unavailable

_MOST = 10
"""Maximum events in one request."""
LARGEST = 240 * 1024
"""Maximum bytes of events in one request. EventBridge's limit is 256 KB, including names."""
_TRIES = 3


def size_of(detail: Mapping[str, Any]) -> int:
    """Return the bytes of an event's detail in a request."""
    return len(_text_of(detail).encode())


def _text_of(detail: Mapping[str, Any]) -> str:
    return json.dumps(detail, separators=(",", ":"), ensure_ascii=False)


class EventBus:
    """An EventBridge bus.

    Args:
        name: the name or ARN of the bus.
        source: the source of all events.
    """

    def __init__(self, name: str, source: str) -> None:
        self._name = name
        self._source = source

    @cached_property
    def _client(self) -> Any:
        return connect("events", HOT)

    def connect(self) -> None:
        """Create the client now instead of with the first request."""
        _ = self._client

    def put(self, events: Iterable[tuple[str, Mapping[str, Any]]]) -> int:
        """Publish events, up to ten per request. Return their number."""
        count = 0
        for entries in self._batches(events):
            remaining = entries
            for _ in range(_TRIES):
                with translated("EventBridge"):
                    answer = self._client.put_events(Entries=remaining)
                results = answer.get("Entries", [])
                remaining = [entry for entry, result in zip(remaining, results, strict=True) if "ErrorCode" in result]
                if not remaining:
                    break
            else:
                raise Unavailable(f"EventBridge PutEvents: {len(remaining)} of {len(entries)} events were not accepted")
            count += len(entries)
        return count

    def _batches(self, events: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[list[dict[str, str]]]:
        batch: list[dict[str, str]] = []
        size = 0
        for name, detail in events:
            text = _text_of(detail)
            added = len(text.encode())
            if batch and (len(batch) == _MOST or size + added > LARGEST):
                yield batch
                batch = []
                size = 0
            entry = {"EventBusName": self._name, "Source": self._source, "DetailType": name, "Detail": text}
            batch.append(entry)
            size += added
        if batch:
            yield batch
