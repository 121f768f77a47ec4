"""The page *Attention*: everything that needs an operator, grouped by problem, the worst problems first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sagas.client.endpoints import COMMANDS
from sagas.client.operate.selection import Selection
from sagas.client.read.next_action import Do, breaker_error, incident_arguments, needed
from sagas.console.blocks import Blocks
from sagas.console.desk import LABELS, Desk
from sagas.console.source import counted_short
from sagas.core.events import AttentionCode
from sagas.core.text import epoch

_LISTED = 50
"""The page lists at most this many sagas per group."""
_WORST = (*(code.replace("_", " ") for code in AttentionCode), "worker gone")
_NEXT = (
    "messages without a saga",
    "breaker open",
    "paused",
    "sweep stopped",
    "orphans",
    "waits for you",
)
KINDS = (*_WORST, *_NEXT)
"""The kinds of problems, the worst first."""
_RUNNING = ("RUNNING", "COMPENSATING")
_LEVELS = {
    "undo failed": "bad",
    "undo not called": "info",
    "failed": "bad",
    "code missing": "info",
    "type changed": "info",
    "does not fit": "info",
    "breaker open": "info",
    "waits for you": "info",
    "orphans": "info",
}


@dataclass(slots=True)
class Group:
    """A group of sagas with the same problem, or a problem of something else, such as a queue or a breaker. ``kind`` is
    one of :data:`KINDS`; ``runbook`` is an anchor in the runbook. ``label`` is that of the primary button, whose action
    is ``do``, or which is a link to ``link``. Each of ``sagas`` has a remark, and ``more`` is the number of further
    sagas or messages; with ``at_least``, there may be more than these. ``selection`` has the sagas of the group up to
    the time of the page, for a job. ``anchor`` identifies the group after a refresh, so ticked sagas stay ticked."""

    kind: str
    name: str
    title: str
    error: str = ""
    means: str = ""
    runbook: str = ""
    do: str = ""
    label: str = ""
    others: tuple[str, ...] = ()
    link: str = ""
    since: str | None = None
    sagas: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    more: int = 0
    at_least: bool = False
    selection: Selection | None = None
    anchor: str = field(init=False)

    @property
    def count(self) -> int:
        return len(self.sagas) + self.more

    def __post_init__(self) -> None:
        self.anchor = f"g{sha256(repr((self.kind, self.name, self.title, self.error)).encode()).hexdigest()[:12]}"

    @property
    def level(self) -> str:
        return _LEVELS.get(self.kind, "warn")


def show(desk: Desk, request: Request) -> Response:
    blocks = desk.blocks()
    groups, cut, crowded = groups_of(desk, blocks)
    kind = request.query_params.get("kind", "")
    counts = {each: sum(max(group.count, 1) for group in groups if group.kind == each) for each in KINDS}
    return desk.page(
        request,
        "attention.html",
        groups=[group for group in groups if kind in ("", group.kind)],
        counts={each: count for each, count in counts.items() if count},
        kind=kind,
        listed=_LISTED,
        cut=cut,
        crowded=crowded,
        blocks=blocks,
    )


def groups_of(desk: Desk, blocks: Blocks) -> tuple[list[Group], int, bool]:
    """Return all groups, sorted by severity and then by age. Also return the number of sagas in them if there may be
    further sagas that need an operator, else 0; and whether too many sagas are in flight to find those that wait."""
    source = desk.source
    nothing = list[Any]()
    # Any number of sagas may need an operator if it is not known which do.
    unknown: Mapping[str, Any] = {"incidents": nothing, "at_least": True}
    uncounted: Mapping[str, Any] = {"overdue": {"sagas": nothing}, "breakers": nothing, "pauses": nothing}
    overview = blocks.read("overdue sagas, breakers and pauses", source.overview, uncounted)
    letters = blocks.read("dead letters", lambda: _known(source.letters_of_all()), None) or {}
    incidents, waiting = source.together(
        lambda: blocks.read("the sagas that need an operator", source.incidents, unknown),
        lambda: blocks.read("sagas that wait for a signal", source.waiting, nothing),
    )
    if any(_spare(letters, incidents).values()):  # they may belong to sagas that have failed since
        incidents = blocks.read("the sagas that need an operator", lambda: source.incidents(letters), unknown)
    groups = [
        *_of_sagas(desk, blocks, incidents["incidents"]),
        *_overdue(overview["overdue"]["sagas"], desk.clock()),
        *_letters(_spare(letters, incidents)),
        *_breakers(overview["breakers"]),
        *_pauses(overview["pauses"]),
        *_sweeps(desk),
        *_waiting(desk, waiting or []),
    ]
    groups.sort(key=lambda group: (KINDS.index(group.kind) if group.kind in KINDS else 0, group.since or ""))
    cut = sum(each["count"] for each in incidents["incidents"]) if counted_short(incidents) else 0
    return groups, cut, waiting is None


def _of_sagas(desk: Desk, blocks: Blocks, incidents: Sequence[Mapping[str, Any]]) -> list[Group]:
    """Return a group for each incident, with those of its sagas that were read."""
    groups = list[Group]()
    heads = dict[str, Mapping[str, Any]]()
    for incident, matching in zip(incidents, desk.source.of_incidents(incidents, blocks), strict=True):
        name = incident["type"]
        action = needed(incident["code"], incident["step"], incident_arguments(incident))
        title = f"{name} · {action.problem[:1].lower()}{action.problem[1:]}"
        group = Group(incident["code"].replace("_", " "), name, title, incident["error_type"] or "", action.means)
        group.runbook = action.runbook
        group.do = "" if action.do is Do.NOTHING else str(action.do)
        group.label = action.title
        group.others = tuple(str(do) for do in action.others if do in LABELS)
        group.since = incident["first_seen"]
        group.more = max(incident["count"] - len(matching), 0)
        group.at_least = incident["at_least"]
        group.selection = Selection(
            type=name,
            step=incident["step"],
            code=incident["code"],
            error=incident["error_type"] or "",
            as_of=incident["last_seen"],
        )
        group.sagas = [_item(saga, _until(saga["attention"].get("until"))) for saga in matching]
        groups.append(group)
        if matching:
            heads[group.anchor] = matching[0]
    # An error may contain values that the request hides. One full saga per group shows which ones.
    full = desk.source.in_full([*heads.values()])
    for group in groups:
        if (head := heads.get(group.anchor)) is not None:
            reason = head["attention"]["reason"]
            # What a saga that waits for a release has failed before does not matter to that wait.
            error = "" if "until" in head["attention"] else desk.error(head, full.get(head["saga_id"]))
            group.error = error or reason
    return groups


def _until(text: str | None) -> str:
    return f"until {text[:16].replace('T', ' ')} UTC" if text else ""


def _item(saga: Mapping[str, Any], remark: str) -> dict[str, Any]:
    return {
        **{part: saga[part] for part in ("type", "saga_id", "seq", "label")},
        "since": saga["updated_at"],
        "remark": remark,
    }


def _overdue(sagas: Iterable[Mapping[str, Any]], now: float) -> Iterable[Group]:
    """Group the sagas that should have been recovered by type, and by whether a worker held them."""
    found = dict[str, Group]()
    for saga in sagas:
        lease = saga["lease_expires_at"]
        if lease is not None and epoch(lease) > now:  # the supervisor has been faster than its overview
            continue
        kind = "overdue" if lease is None else "worker gone"
        problem = "is overdue" if lease is None else "its worker is gone"
        means = "The supervisor has not recovered them for two minutes. Recovering them now does no harm."
        new = Group(kind, saga["type"], f"{saga['type']} · {problem}", "", means, "oldest-due-saga", str(Do.RECOVER))
        group = found.setdefault(new.anchor, new)
        group.label = LABELS[Do.RECOVER]
        group.others = (str(Do.CANCEL),)
        group.since = min(group.since or saga["due_since"], saga["due_since"])
        remark = "due, and no worker has it" if lease is None else "its lease expired"
        group.sagas.append(_item({"label": None, **saga, "updated_at": lease or saga["due_since"]}, remark))
        if lease is not None:
            as_of = max(lease, group.selection.as_of) if group.selection else lease
            group.selection = Selection(type=saga["type"], statuses=_RUNNING, stalled=True, as_of=as_of)
    return found.values()


def _known(letters: dict[str, int | None]) -> dict[str, int | None] | None:
    """Return the numbers of dead letters; ``None`` if none is known, for example because every call is refused."""
    return letters if any(count is not None for count in letters.values()) else None


def _spare(letters: Mapping[str, int | None], incidents: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of messages in each dead-letter queue for which no saga waits. If not all sagas of a type were
    counted, any message may belong to one of them."""
    waiting = Counter[str]()
    uncounted = set[str]()
    for incident in incidents["incidents"]:
        if incident["code"] == AttentionCode.EXHAUSTED:
            waiting[incident["type"]] += incident["count"]
        if incident["at_least"]:
            uncounted.add(incident["type"])
    return {
        name: max((count or 0) - waiting[name], 0)
        for name, count in letters.items()
        if name not in uncounted and (name == COMMANDS or not incidents["at_least"])
    }


def _letters(spare: Mapping[str, int]) -> Iterable[Group]:
    """Return the leftover messages in dead-letter queues."""
    for name, count in spare.items():
        if not count:
            continue
        title = f"{name} · {count} leftover dead letter{'s' * (count > 1)}"
        means = "Their sagas continued without them, or do not exist. Read them before you delete them."
        if name == COMMANDS:
            title = f"{count} rejected command{'s' * (count > 1)} or event{'s' * (count > 1)}"
            means = "No saga was started or changed by them. Each has the reason; find who sent it."
        group = Group("messages without a saga", name, title, "", means, "dead-letters", more=count)
        group.link = f"/letters/{name}"
        group.label = "Read"
        yield group


def _breakers(breakers: Iterable[Mapping[str, Any]]) -> Iterable[Group]:
    for breaker in breakers:
        title = f"{breaker['type']} · the breaker of {breaker['step']} is {breaker['state']}"
        error = f"{breaker['failures']} failures in a row"
        if last := breaker_error(breaker["last_error"]):
            error += f"; {last}"
        means = "Sagas wait while one attempt after the other probes the dependency. Fix what the step calls."
        group = Group("breaker open", breaker["type"], title, error, means, "breaker-opened")
        group.link = "/breakers"
        group.label = "Show"
        yield group


def _pauses(pauses: Iterable[Mapping[str, Any]]) -> Iterable[Group]:
    for pause in pauses:
        what = " ".join(part for part in (pause["type"], pause["step"], pause["saga_id"]) if part)
        title = f"starts of {what} · paused" if pause["starts_only"] else f"{what} · paused"
        group = Group("paused", pause["type"], title, pause["reason"] or "")
        group.means = "No step starts until it is resumed."
        group.since = pause["at"]
        if pause["starts_only"]:
            group.means = "New sagas are refused; sagas in flight continue. Fix the cause, then resume."
        if pause["by"] == "auto_disable":
            group.runbook = "type-paused"
        group.link = f"/types/{pause['type']}"
        group.label = "Show"
        yield group


def _sweeps(desk: Desk) -> Iterable[Group]:
    """Return stopped sweeps, and orphans that sweeps only report."""
    for sweep in desk.source.sweeps():
        counts = sweep["counts"]
        name = sweep["type"]
        if sweep["stopped"]:
            group = Group("sweep stopped", name, f"{name} · its sweep stopped", sweep["stopped"])
            group.means = "The sweep stays stopped. See what it would sweep, then sweep by hand or fix the cause."
        elif sweep["action"] == "report" and counts["orphans"]:
            number = counts["orphans"]
            group = Group(
                "orphans", name, f"{name} · {number} orphaned object{'s' * (number > 1)} under {sweep['prefix']}"
            )
            group.means = "Rolled-back sagas left them behind. The sweep of the type only reports them."
        else:
            continue
        group.runbook = "sweep"
        group.since = sweep["began_at"]
        group.link = f"/sweeps/{name}"
        group.label = "Look"
        yield group


def _waiting(desk: Desk, waiting: Sequence[Mapping[str, Any]]) -> Iterable[Group]:
    """Group the sagas that wait for a signal by type and step."""
    found = dict[tuple[str, str], Group]()
    full = desk.source.in_full(waiting)
    for summary in waiting:
        saga = {**summary, **full.get(summary["saga_id"], {})}
        steps: list[dict[str, Any]] = saga.get("steps", [])
        step = next((each for each in steps if each.get("waiting_for") == "signal"), None)
        if step is None:
            continue
        title = f"{saga['type']} · {step['name']} waits for a signal"
        means = "Each continues once it has its signal. Open one to send it."
        key = saga["type"], step["name"]
        group = found.setdefault(key, Group("waits for you", saga["type"], title, "", means))
        group.others = (str(Do.CANCEL),)
        group.since = min(group.since or saga["updated_at"], saga["updated_at"])
        group.sagas.append(_item(saga, _until(step.get("waits_until"))))
        if group.link == "":
            group.link = desk.saga_path(saga["type"], saga["saga_id"])
            group.label = "Review"
    return found.values()
