"""The list of sagas, and looking one up."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sagas.client.next_action import fault_of
from sagas.console.desk import Desk

STATUSES = (
    *("PENDING", "RUNNING", "WAITING", "COMPENSATING", "DEAD_LETTERED"),
    *("COMPLETED", "COMPENSATED", "CANCELLED", "FAILED", "COMPENSATION_FAILED"),
)
_PAGE = 50
_MOST_PAGES = 20
"""A filter may leave the service's pages short; so many are asked for before the list is shown as it is."""
_LOOKED_THROUGH, _AT_ONCE = 500, 100


def show(desk: Desk, request: Request) -> Response:
    """Return a page of the list, as the URL's filters say."""
    given, times = request.query_params, dict[str, str]()
    if desk.source.takes_times:
        times = {side: text for side in ("since", "until") if (text := given.get(side, "").strip())}
    name, status = given.get("name") or None, (given.get("status") or "").upper() or None
    status = status if status in STATUSES else None
    cursor, found = given.get("cursor") or None, list[Any]()
    for _ in range(_MOST_PAGES):
        page = desk.source.list(name=name, status=status, limit=_PAGE - len(found), cursor=cursor, **times)
        found += page["sagas"]
        cursor = page["cursor"]
        if cursor is None or len(found) >= _PAGE:
            break
    ended = ("COMPENSATED", "CANCELLED", "WAITING")
    wanting = [saga for saga in found if ("why" in saga and "fault" not in saga) or saga["status"] in ended]
    full = desk.source.in_full(wanting)
    rows = list[dict[str, Any]]()
    for saga in found:
        view = desk.shown(full[saga["saga_id"]])[0] if saga["saga_id"] in full else saga
        _, kind, message = fault_of(view)
        waits = next((one["name"] for one in view.get("steps", ()) if one.get("waiting_for")), "")
        error = f"{kind}: {message}" if message else kind
        rows.append({**saga, "error": error or saga.get("why", ""), "waits": waits})
    text = given.get("text", "").lower()
    if text:
        rows = [row for row in rows if text in f"{row['error']} {row['saga_id']} {row['name']}".lower()]
    return desk.page(
        request,
        "sagas.html",
        rows=rows,
        names=[one["name"] for one in desk.source.definitions()],
        statuses=STATUSES,
        name=name or "",
        status=status or "",
        text=given.get("text", ""),
        times={side: given.get(side, "") for side in ("since", "until")} if desk.source.takes_times else {},
        cursor=cursor,
    )


def search(desk: Desk, request: Request) -> Response:
    """Go to the saga that is looked for: by its id or how that begins; else show what may be meant."""
    wanted = request.query_params.get("q", "").strip()
    known = desk.source.look_up(wanted)
    if known is not None:
        return RedirectResponse(desk.saga_path(known["name"], known["saga_id"]), 303)
    found, cursor = list[Any](), None
    for _ in range(_LOOKED_THROUGH // _AT_ONCE if wanted else 0):
        page = desk.source.list(limit=_AT_ONCE, cursor=cursor)
        found += [
            saga
            for saga in page["sagas"]
            if saga["saga_id"].startswith(wanted.lower()) or wanted in (saga.get("correlation_id"), saga["name"])
        ]
        cursor = page["cursor"]
        if cursor is None or (found and len(wanted) >= 36):
            break
    if len(found) == 1:
        return RedirectResponse(desk.saga_path(found[0]["name"], found[0]["saga_id"]), 303)
    return desk.page(request, "search.html", wanted=wanted, found=found[:_PAGE], through=_LOOKED_THROUGH)
