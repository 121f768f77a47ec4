"""The sagas that a job acts on: those of an incident, or those that the filter of a list matches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from typing import Any, NamedTuple

from msgspec import Struct

from sagas.client.read.next_action import error_of, reason_of
from sagas.client.transport import pages
from sagas.core.events import CONTINUES_BY_ITSELF
from sagas.core.states import ENDED
from sagas.core.text import end_of
from sagas.engine.read.answers import Page, Summary

_PAGE = 100


class Chosen(NamedTuple):
    """A saga of a job, as it was chosen: ``seq`` is the number of its last audit entry."""

    type: str
    saga_id: str
    seq: int


class Selection(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The sagas that all of these describe. An empty field describes all.

    Args:
        type: the saga type.
        step, code, error: the incident: the step in trouble, the ``code`` of ``attention``, and the type of the error.
            Without a code, ``error`` is a type of error or a part of its message.
        statuses: the statuses that the sagas may have.
        needing: whether the sagas need an operator. Sagas of an incident always do.
        stalled: whether the lease of the sagas has expired.
        since, until: times, as lists take them.
        find: values of search keys.
        parent: the id of their parent.
        text: a part of the error, the id or the type, in any case.
        as_of: only sagas that were there at this time (ISO 8601, UTC). Sagas that fail later, or fail again, are not.
    """

    type: str = ""
    step: str = ""
    code: str = ""
    error: str | None = None
    statuses: tuple[str, ...] = ()
    needing: bool = False
    stalled: bool = False
    since: str = ""
    until: str = ""
    find: dict[str, str] = {}
    parent: str = ""
    text: str = ""
    as_of: str = ""

    def sagas(self, client: Any) -> Iterator[Summary]:
        """Yield summaries of the sagas, each once, from lists of the API."""
        seen = set[str]()
        for saga in self._listed(client):
            if saga["saga_id"] not in seen and self._fits(saga):
                seen.add(saga["saga_id"])
                yield saga

    def _listed(self, client: Any) -> Iterator[Summary]:
        name = self.type or None
        times = {"since": self.since or None, "until": self.until or None}
        if self.parent:
            return _all(lambda cursor: client.list(parent=self.parent, limit=_PAGE, cursor=cursor))
        if self.find:  # the index of a search key has sagas of all statuses
            return _all(lambda cursor: client.list(name, limit=_PAGE, cursor=cursor, find=self.find, **times))
        if self._needing:
            incident = {"step": self.step or None} | ({"code": self.code, "error": self.error} if self.code else {})
            return _all(lambda cursor: client.attention(name, **incident, limit=_PAGE, cursor=cursor))

        def of_status(status: str | None) -> Iterator[Summary]:
            return _all(lambda cursor: client.list(name, status, limit=_PAGE, cursor=cursor, **times))

        return chain.from_iterable(map(of_status, self.statuses or (None,)))

    @property
    def _needing(self) -> bool:
        return self.needing or bool(self.step)

    def _fits(self, saga: Summary) -> bool:
        return (
            (not self.statuses or saga["status"] in self.statuses)
            and (not self._needing or self._is_needing(saga))
            and (not self.stalled or "lease" in saga)
            and (not self.as_of or there_since(saga, stalled=self.stalled) <= self.as_of)
            # Lists of sagas that need an operator take no times.
            and (not self._needing or bool(self.find) or self._in_time(saga))
            and (self.error is None or bool(self.code) or self._has_error(saga, self.error))
            and (not self.text or has_text(self.text, saga))
        )

    def _in_time(self, saga: Summary) -> bool:
        """Whether a saga's end, or its start if it has not ended, is between the times. Times without a zone are
        UTC."""
        at = _time(end_of(saga) if saga["status"] in ENDED else saga["created_at"])
        after = not self.since or at >= _time(self.since)
        return after and (not self.until or at < _time(self.until))

    def _is_needing(self, saga: Summary) -> bool:
        """Whether a saga needs an operator. Others on the attention list continue by themselves, and belong to a job
        only if it is for their incident."""
        attention = saga["attention"]
        return attention is not None and (bool(self.code) or attention["code"] not in CONTINUES_BY_ITSELF)

    @staticmethod
    def _has_error(saga: Summary, error: str) -> bool:
        _, kind, message = error_of(saga)
        return error == kind or error in message

    def __bool__(self) -> bool:
        """Whether it describes anything, apart from the time."""
        narrow = self.type, self.step, self.error, self.statuses, self.since, self.until, self.find, self.parent
        return any((*narrow, self.text, self.needing, self.stalled))


def has_text(text: str, saga: Mapping[str, Any], error: str = "") -> bool:
    """Whether a listed saga contains a text, in any case. ``error`` is the full error, if known."""
    words = " ".join([error or reason_of(saga), *error_of(saga), saga["saga_id"], saga["type"]])
    return text.lower() in words.lower()


def there_since(saga: Mapping[str, Any], *, stalled: bool = False) -> str:
    """Return since when a saga can be acted on as it is: since it needs an operator, has ended or, in flight, was
    started. ``stalled``: since its lease expired."""
    if stalled and saga.get("lease"):
        return str(saga["lease"]["expires_at"])
    return str(saga["attention"]["since"] if saga["attention"] else saga["ended_at"] or saga["created_at"])


def _time(text: str) -> datetime:
    parsed = datetime.fromisoformat(text)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _all(ask: Callable[[str | None], Page]) -> Iterator[Summary]:
    return chain.from_iterable(page["sagas"] for page in pages(ask))
