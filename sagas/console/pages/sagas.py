"""The pages for the list of sagas and for the search."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sagas.client.operate.selection import Selection, has_text, there_since
from sagas.client.read.next_action import reason_of
from sagas.client.transport import pages
from sagas.console.desk import Desk
from sagas.core.text import so_long_ago
from sagas.errors import InvalidRequest, Problem

STATUSES = (
    *("PENDING", "RUNNING", "WAITING", "COMPENSATING", "DEAD_LETTERED"),
    *("COMPLETED", "COMPENSATED", "CANCELLED", "FAILED", "COMPENSATION_FAILED"),
)
_PAGE = 50
_MOST_PAGES = 20
"""A list reads at most this many pages of the service, because the text may match no saga on a page."""
_LOOKED_THROUGH = 500
_AT_ONCE = 100
MANY = 100
"""To act on more sagas than this, the operator must type their number."""


@dataclass(frozen=True, slots=True)
class Filter:
    """The filter of a list of sagas; an empty type or status stands for all. ``text`` is a part of the error, the id or
    the type. ``more`` has the service's other filters: ``since``, ``until``, ``parent``, ``find``. ``now``, in epoch
    seconds, is for relative times."""

    name: str
    status: str
    more: Mapping[str, str]
    text: str
    now: float = field(compare=False)

    @property
    def asked(self) -> dict[str, Any]:
        given: dict[str, Any] = {side: text for side, text in self.more.items() if text}
        given |= {
            side: so_long_ago(given[side], self.now) or given[side] for side in ("since", "until") if side in given
        }
        if "find" in given:
            given["find"] = values_in(given["find"])
        return {"type": self.name or None, "status": self.status or None, **given}

    @property
    def selection(self) -> Selection:
        """The sagas of the list, for a job."""
        given: dict[str, Any] = {**self.asked, "type": self.name, "text": self.text}
        status = given.pop("status")
        return Selection(statuses=(status,) if status else (), **given)

    def __bool__(self) -> bool:
        return bool(self.selection)


def filter_of(desk: Desk, given: Mapping[str, str]) -> Filter:
    status = given.get("status", "").upper()
    more = {side: given.get(side, "").strip() for side in ("since", "until", "parent", "find")}
    status = status if status in STATUSES else ""
    return Filter(given.get("type", ""), status, more, given.get("text", ""), desk.clock())


def values_in(text: str) -> dict[str, str]:
    """Parse ``customer=c-17 tour="the long one"`` into values by name."""
    problem = Problem("find", 'must be like customer=c-17, or customer="c 17" other=value')
    try:
        words = [word.partition("=") for word in shlex.split(text)]
    except ValueError as error:
        raise InvalidRequest("invalid search values", [problem]) from error
    if not all(name and given for name, given, _ in words):
        raise InvalidRequest("invalid search values", [problem])
    return {name: value for name, _, value in words}


def show(desk: Desk, request: Request) -> Response:
    """Return a page of the list. The filter is in the URL."""
    given = request.query_params
    filter_ = filter_of(desk, given)
    blocks = desk.blocks()
    source = desk.source
    nothing: tuple[list[Any], str | None] = [], None
    found, cursor = blocks.read("the sagas", lambda: _page_of(desk, filter_, given.get("cursor") or None), nothing)
    ended = ("COMPENSATED", "CANCELLED", "WAITING")
    full = desk.source.in_full([match for match in found if _failed(match) or match["status"] in ended])
    rows = list[dict[str, Any]]()
    for saga in found:
        details = full.get(saga["saga_id"])
        waits = next((step["name"] for step in details["steps"] if step.get("waiting_for")), "") if details else ""
        rows.append({**_row(desk, saga, details), "waits": waits})
    return desk.page(
        request,
        "sagas.html",
        rows=[row for saga, row in zip(found, rows, strict=True) if has_text(filter_.text, saga, row["error"])],
        names=[saga_type["type"] for saga_type in blocks.read("the types", source.types, [])],
        statuses=STATUSES,
        filter=filter_,
        cursor=cursor,
        counts=_counts(
            blocks.read("the counts", lambda: source.stats(filter_.name), None)
            if filter_.name
            else source.stats_of_all()
        ),
        blocks=blocks,
    )


def _page_of(desk: Desk, filter_: Filter, cursor: str | None) -> tuple[list[Any], str | None]:
    """Return a page of the list, and the cursor of the next."""
    found = list[Any]()
    for _ in range(_MOST_PAGES):
        page = desk.source.list(limit=_PAGE - len(found), cursor=cursor, **filter_.asked)
        found += page["sagas"]
        cursor = page["cursor"]
        if cursor is None or len(found) >= _PAGE:
            break
    return found, cursor


def _counts(stats: Any) -> dict[str, str]:
    """Return the number of sagas per status, both in flight and ended within a day."""
    types: list[Any] = stats["types"] if stats else []
    short = {status for saga_type in types for status in saga_type["at_least"]}
    return {
        status: f"{count:,}{'+' if status in short else ''}"
        for status in STATUSES
        if (count := sum(each["statuses"].get(status, 0) for each in types))
    }


def everything(desk: Desk, request: Request) -> Response:
    """Return the page for actions on all sagas that match a filter, or that an incident has. It counts them."""
    given = request.query_params
    filter_ = filter_of(desk, given)
    selection = filter_.selection
    if "code" in given:
        incident: dict[str, Any] = {part: given.get(part, "") for part in ("step", "code", "error")}
        selection = replace(selection, **incident)
    if not selection:
        raise InvalidRequest(
            "the filter is empty", [Problem("type", "choose a type, a status, a time or a text first")]
        )
    first = list[Any]()
    count = 0
    as_of = ""
    for saga in selection.sagas(desk.source.client):
        count += 1
        as_of = max(as_of, there_since(saga))
        if count <= _PAGE:
            first.append(saga)
    full = desk.source.in_full([each for each in first if _failed(each)])
    return desk.page(
        request,
        "all.html",
        filter=filter_,
        selection=replace(selection, as_of=as_of),
        count=count,
        first=[_row(desk, match, full.get(match["saga_id"])) for match in first],
        many=MANY,
        chosen=given.get("do", ""),
    )


def _failed(saga: Mapping[str, Any]) -> bool:
    return bool(saga["attention"] or saga["error"])


def _row(desk: Desk, saga: Mapping[str, Any], full: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a listed saga with its ``error`` redacted."""
    return {**saga, "error": desk.error(saga, full) or reason_of(saga)}


def search(desk: Desk, request: Request) -> Response:
    """Redirect to the saga with an id, the start of an id, or a key. Otherwise list sagas that may be meant."""
    text = request.query_params.get("q", "").strip()
    saga = desk.source.look_up(text)
    if saga is not None:
        return RedirectResponse(desk.saga_path(saga["type"], saga["saga_id"]), 303)
    if "=" in text.strip("="):
        return RedirectResponse(f"/sagas?find={quote(text, safe='')}", 303)
    found = list[Any]()
    listed = pages(lambda cursor: desk.source.list(limit=_AT_ONCE, cursor=cursor))
    for page in islice(listed, _LOOKED_THROUGH // _AT_ONCE if text else 0):
        found += [
            saga
            for saga in page["sagas"]
            if saga["saga_id"].startswith(text.lower()) or text in (saga.get("correlation_id"), saga["type"])
        ]
        if found and len(text) >= 36:
            break
    if len(found) == 1:
        return RedirectResponse(desk.saga_path(found[0]["type"], found[0]["saga_id"]), 303)
    return desk.page(request, "search.html", text=text, found=found[:_PAGE], through=_LOOKED_THROUGH)
