"""The list of sagas, and looking one up."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sagas.client.read.next_action import fault_of
from sagas.console.desk import Desk
from sagas.core.text import so_long_ago
from sagas.errors import InvalidRequest, Problem

STATUSES = (
    *("PENDING", "RUNNING", "WAITING", "COMPENSATING", "DEAD_LETTERED"),
    *("COMPLETED", "COMPENSATED", "CANCELLED", "FAILED", "COMPENSATION_FAILED"),
)
_PAGE = 50
_MOST_PAGES = 20
"""A filter may leave the service's pages short; so many are asked for before the list is shown as it is."""
_LOOKED_THROUGH, _AT_ONCE = 500, 100
MOST = 10_000
"""Sagas that are acted on together."""
MANY = 100
"""From more sagas than this on, their number is to be typed."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which sagas a list is of.

    Args:
        name: of their type; empty for all.
        status: theirs; empty for all.
        more: ``since``, ``until``, ``parent``, ``find``, as far as the service lists by them.
        text: what their errors, ids or types must have in them.
        now: epoch seconds, for times that are so long ago.
    """

    name: str
    status: str
    more: Mapping[str, str]
    text: str
    now: float = field(compare=False)

    @property
    def asked(self) -> dict[str, Any]:
        """What the service is asked for."""
        given: dict[str, Any] = {side: text for side, text in self.more.items() if text}
        given |= {
            side: so_long_ago(given[side], self.now) or given[side] for side in ("since", "until") if side in given
        }
        if "find" in given:
            given["find"] = values_in(given["find"])
        return {"type": self.name or None, "status": self.status or None, **given}

    def fits(self, saga: Mapping[str, Any], error: str = "") -> bool:
        """Whether a saga of a list has the text; ``error`` is its error as far as more is known than the list tells."""
        words = " ".join([error or saga.get("why", ""), *fault_of(saga), saga["saga_id"], saga["type"]])
        return not self.text or self.text.lower() in words.lower()

    def __bool__(self) -> bool:
        return bool(self.name or self.status or self.text or any(self.more.values()))


def filter_of(desk: Desk, given: Mapping[str, str]) -> Filter:
    """Return the filter that a URL's parameters, or a form's fields, say."""
    status = given.get("status", "").upper()
    more = {side: given.get(side, "").strip() for side in ("since", "until", "parent", "find")}
    known = status if status in STATUSES else ""
    return Filter(given.get("type", ""), known, more, given.get("text", ""), desk.clock())


def values_in(text: str) -> dict[str, str]:
    """Return the values by their names of ``customer=c-17 tour="the long one"``."""
    problem = Problem("find", 'must be like customer=c-17, or customer="c 17" other=value')
    try:
        words = [word.partition("=") for word in shlex.split(text)]
    except ValueError as error:
        raise InvalidRequest("what to find does not fit", [problem]) from error
    if not all(name and given for name, given, _ in words):
        raise InvalidRequest("what to find does not fit", [problem])
    return {name: value for name, _, value in words}


def show(desk: Desk, request: Request) -> Response:
    """Return a page of the list, as the URL's filters say."""
    given = request.query_params
    wanted = filter_of(desk, given)
    cursor, found = given.get("cursor") or None, list[Any]()
    for _ in range(_MOST_PAGES):
        page = desk.source.list(limit=_PAGE - len(found), cursor=cursor, **wanted.asked)
        found += page["sagas"]
        cursor = page["cursor"]
        if cursor is None or len(found) >= _PAGE:
            break
    ended = ("COMPENSATED", "CANCELLED", "WAITING")
    full = desk.source.in_full([one for one in found if _failed(one) or one["status"] in ended])
    rows = list[dict[str, Any]]()
    for saga in found:
        known = full.get(saga["saga_id"])
        waits = next((one["name"] for one in known["steps"] if one.get("waiting_for")), "") if known else ""
        rows.append({**_row(desk, saga, known), "waits": waits})
    return desk.page(
        request,
        "sagas.html",
        rows=[row for saga, row in zip(found, rows, strict=True) if wanted.fits(saga, row["error"])],
        names=[one["type"] for one in desk.source.types()],
        statuses=STATUSES,
        filter=wanted,
        cursor=cursor,
        counts=_counts(desk.source.stats(wanted.name) if wanted.name else desk.source.stats_of_all()),
    )


def _counts(stats: Any) -> dict[str, str]:
    """How many sagas of a type there are by status: those in flight, and those that ended in a day."""
    types: list[Any] = stats["types"] if stats else []
    short = {status for one in types for status in one["at_least"]}
    return {
        status: f"{count:,}{'+' if status in short else ''}"
        for status in STATUSES
        if (count := sum(one["statuses"].get(status, 0) for one in types))
    }


def everything(desk: Desk, request: Request) -> Response:
    """Return how many sagas a filter has, and what can be done to all of them."""
    wanted = filter_of(desk, request.query_params)
    found = matching(desk, wanted)
    full = desk.source.in_full([one for one in found[:_PAGE] if _failed(one)])
    first = [_row(desk, one, full.get(one["saga_id"])) for one in found[:_PAGE]]
    return desk.page(request, "all.html", filter=wanted, count=len(found), most=MOST, first=first, many=MANY)


def matching(desk: Desk, wanted: Filter) -> list[Any]:
    """Return all sagas that a filter has, :data:`MOST` at most, as lists tell of them."""
    if not wanted:
        raise InvalidRequest("there is no filter", [Problem("type", "choose a type, a status, a time or a text first")])
    found, cursor = list[Any](), None
    while len(found) < MOST:
        page = desk.source.list(limit=_AT_ONCE, cursor=cursor, **wanted.asked)
        found += [saga for saga in page["sagas"] if wanted.fits(saga)]
        cursor = page["cursor"]
        if cursor is None:
            break
    return found[:MOST]


def _failed(saga: Mapping[str, Any]) -> bool:
    return "why" in saga or bool(saga.get("fault"))


def _row(desk: Desk, saga: Mapping[str, Any], full: Mapping[str, Any] | None) -> dict[str, Any]:
    """A saga of a list with its ``error``, without what is not to be shown."""
    return {**saga, "error": desk.error(saga, full) or saga.get("why", "")}


def search(desk: Desk, request: Request) -> Response:
    """Go to the saga that is looked for: by its id or how that begins; else show what may be meant."""
    wanted = request.query_params.get("q", "").strip()
    known = desk.source.look_up(wanted)
    if known is not None:
        return RedirectResponse(desk.saga_path(known["type"], known["saga_id"]), 303)
    if "=" in wanted.strip("="):
        return RedirectResponse(f"/sagas?find={quote(wanted, safe='')}", 303)
    found, cursor = list[Any](), None
    for _ in range(_LOOKED_THROUGH // _AT_ONCE if wanted else 0):
        page = desk.source.list(limit=_AT_ONCE, cursor=cursor)
        found += [
            saga
            for saga in page["sagas"]
            if saga["saga_id"].startswith(wanted.lower()) or wanted in (saga.get("correlation_id"), saga["type"])
        ]
        cursor = page["cursor"]
        if cursor is None or (found and len(wanted) >= 36):
            break
    if len(found) == 1:
        return RedirectResponse(desk.saga_path(found[0]["type"], found[0]["saga_id"]), 303)
    return desk.page(request, "search.html", wanted=wanted, found=found[:_PAGE], through=_LOOKED_THROUGH)
