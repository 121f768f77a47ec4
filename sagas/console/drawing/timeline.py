"""The geometry of a saga's timeline: from the audit trail, a lane per step with its attempts, waits and undos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sagas.core.text import end_of, epoch, span

NAMES = 150
WIDTH = 1000
LANE = 34
TOP = 26
"""In units of the drawing: the width of the names, the whole width, the height of a lane, and that of the scale."""
_THINNEST = 3.0
_TICKS = 7
_SIZES = (
    *(size * unit for unit in (0.001, 0.01, 0.1, 1) for size in (1, 2, 5)),
    *(10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800),
    *(86400 * days for days in (0.5, 1, 2, 5, 10, 20, 50, 100, 200)),
)
"""Round numbers of seconds between two ticks."""
_KINDS = {
    "StepCompleted": "done",
    "StepSkipped": "skipped",
    "StepFailed": "failed",
    "StepLost": "lost",
    "StepCompensated": "undo",
    "CompensationAttemptFailed": "undo-failed",
    "CompensationFailed": "undo-failed",
}
_WAIT_ENDS = {"SignalReceived": "wait", "WaitEnded": "wait", "WaitTimedOut": "wait"}
WORDS = {
    "done": "done",
    "skipped": "skipped: its condition was false",
    "failed": "failed",
    "lost": "lost: the worker died, and its lease expired",
    "wait": "waited",
    "undo": "undone",
    "undo-failed": "the undo failed",
    "running": "runs",
}
"""The legend, with a text per kind of bar."""


@dataclass(frozen=True, slots=True)
class Bar:
    """The bar of an attempt, a wait or an undo. ``kind`` is a key of :data:`WORDS`, and ``title`` a sentence that says
    what happened."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class Row:
    """A bar described in words, for screen readers."""

    step: str
    what: str
    begin: str
    took: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """The whole drawing: lanes with name and height, ticks with position and label, and the start of undoing."""

    height: float
    lanes: tuple[tuple[float, str], ...]
    bars: tuple[Bar, ...]
    ticks: tuple[tuple[float, str], ...]
    turn: float | None
    rows: tuple[Row, ...]
    length: str


@dataclass(frozen=True, slots=True)
class _Stretch:
    step: str
    begin: float
    end: float
    kind: str
    attempt: int


def timeline(saga: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], now: float) -> Timeline:
    """Return the drawing of a saga's life up to now. ``now``: epoch seconds."""
    names = [step["name"] for step in saga["steps"]]
    stretches = [*_stretches(entries, set(names)), *_now(saga, entries, now)]
    begin = epoch(saga["created_at"])
    end = max([epoch(end_of(saga)), *(each.end for each in stretches), begin + 0.001])
    begin = min([begin, *(each.begin for each in stretches)])
    scale = (WIDTH - NAMES - 10) / (end - begin)
    bars = list[Bar]()
    rows = list[Row]()
    for stretch in sorted(stretches, key=lambda each: (each.begin, each.end)):
        undo = stretch.kind.startswith("undo")
        x = NAMES + (stretch.begin - begin) * scale
        width = min(max((stretch.end - stretch.begin) * scale, _THINNEST), WIDTH - x)
        y = TOP + names.index(stretch.step) * LANE + (17 if undo else 4)
        what = f"attempt {stretch.attempt}: {WORDS[stretch.kind]}" if stretch.attempt else WORDS[stretch.kind]
        took = span(stretch.end - stretch.begin)
        height = 10 if undo else 13
        bars.append(Bar(round(x, 1), y, round(width, 1), height, stretch.kind, f"{stretch.step}, {what}, {took}"))
        rows.append(Row(stretch.step, what, span(stretch.begin - begin), took))
    size = next((each for each in _SIZES if (end - begin) / each <= _TICKS), (end - begin) / _TICKS)
    ticks = tuple(
        (round(NAMES + number * size * scale, 1), span(number * size) if number else "0")
        for number in range(int((end - begin) / size) + 1)
    )
    turned = next((epoch(entry["at"]) for entry in entries if entry["action"] == "CompensationStarted"), None)
    return Timeline(
        TOP + len(names) * LANE + 4,
        tuple((TOP + index * LANE, name if len(name) <= 18 else name[:17] + "…") for index, name in enumerate(names)),
        tuple(bars),
        ticks,
        None if turned is None else round(NAMES + (turned - begin) * scale, 1),
        tuple(rows),
        span(end - begin),
    )


def _stretches(entries: Sequence[Mapping[str, Any]], names: set[str]) -> list[_Stretch]:
    stretches = list[_Stretch]()
    waits = dict[str, float]()
    due = dict[str, float]()
    for entry in entries:
        step = entry["step"]
        action = entry["action"]
        at = epoch(entry["at"])
        if step not in names:
            continue
        details: dict[str, Any] = entry.get("details") or {}
        began = epoch(details["started_at"]) if details.get("started_at") else at
        if action in _KINDS:
            if step in due and began > due[step]:
                stretches.append(_Stretch(step, due.pop(step), began, "wait", 0))
            stretches.append(_Stretch(step, min(began, at), at, _KINDS[action], entry.get("attempt") or 0))
        if action in ("WaitStarted", "StepPostponed", "CompensationPostponed"):
            waits.setdefault(step, at)
        elif step in waits and (action in _WAIT_ENDS or action in _KINDS):
            stretches.append(_Stretch(step, waits.pop(step), at if action in _WAIT_ENDS else began, "wait", 0))
        due.pop(step, None)
        if details.get("next_attempt_at") and action in _KINDS:
            due[step] = at
    return [stretch for stretch in stretches if stretch.end >= stretch.begin]


def _now(saga: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], now: float) -> list[_Stretch]:
    stretches = list[_Stretch]()
    lease: dict[str, Any] = saga.get("lease") or {}
    for step in saga["steps"]:
        last = next((entry for entry in reversed(entries) if entry["step"] == step["name"]), None)
        since = epoch(last["at"]) if last is not None else epoch(saga["updated_at"])
        if lease.get("claimed_at") and step["status"] in ("RUNNING", "COMPENSATING"):
            attempt = step["attempts"] if step["status"] == "RUNNING" else step["undo_attempts"]
            stretches.append(_Stretch(step["name"], min(epoch(lease["claimed_at"]), now), now, "running", attempt))
        elif (step.get("waiting_for") or step["status"] == "WAITING" or step["next_attempt_at"]) and since < now:
            stretches.append(_Stretch(step["name"], since, now, "wait", 0))
    return stretches
