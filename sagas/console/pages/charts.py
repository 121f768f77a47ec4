"""The charts of a saga type: starts and ends over time, durations of steps, and waiting messages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sagas.console.desk import Desk
from sagas.console.drawing.bars import bars
from sagas.console.pages.others import type_named
from sagas.core.text import end_of, epoch, iso

SPANS = {"1h": 3_600.0, "24h": 86_400.0, "7d": 7 * 86_400.0}
ENDS = ("COMPLETED", "COMPENSATED", "CANCELLED", "FAILED", "COMPENSATION_FAILED")
MOST = 1_000
"""A row is made from at most this many sagas, ten pages of the list."""
_STEPPED = 60.0
"""The end of the span is rounded to this many seconds, so the page stays the same in between."""


def show(desk: Desk, request: Request, name: str) -> Response:
    type_named(desk, name)
    blocks = desk.blocks(rest=True)
    span = request.query_params.get("span", "1h")
    span = span if span in SPANS else "1h"
    end = (desk.clock() // _STEPPED + 1) * _STEPPED
    begin = end - SPANS[span]
    happened = dict[str, list[float]]()
    short = list[str]()
    ended = list[Any]()
    for kind in ("started", *ENDS):
        status = None if kind == "started" else kind
        since = partial(desk.source.since, name, status, iso(begin), MOST)
        found = blocks.read(f"sagas that are {kind.lower().replace('_', ' ')}", since, [])
        if len(found) == MOST:
            short.append(kind)
        if found or status is None:
            happened[kind] = [epoch(end_of(match) if status else match["created_at"]) for match in found]
        ended += found if status else []
    latest = sorted(ended, key=end_of, reverse=True)
    sample = [*desk.source.in_full(latest[:24]).values()]
    took = dict[str, list[float]]()
    for saga in sample:
        for step in saga.get("steps", ()):
            if step["took"] is not None:
                took.setdefault(step["name"], []).append(step["took"])
    return desk.page(
        request,
        "charts.html",
        name=name,
        span=span,
        spans=[*SPANS],
        drawing=bars(happened, begin, end),
        short=short,
        most=MOST,
        sampled=len(sample),
        # the median and the 95th percentile of the seconds that last attempts took, and their number
        steps=[(step, _share(all_, 0.5), _share(all_, 0.95), len(all_)) for step, all_ in took.items()],
        stats=blocks.read("the counts", lambda: desk.source.stats(name), None),
        needing=blocks.read("the sagas that need an operator", partial(_needing, desk, name), None),
        metrics=desk.links.metrics,
        blocks=blocks,
    )


def _needing(desk: Desk, name: str) -> Any:
    """Return how many sagas of a type need an operator; ``None`` if none was counted."""
    counted = desk.source.overview()["attention"]["types"]
    return next((each for each in counted if each["type"] == name), None)


def _share(values: Sequence[float], share: float) -> float:
    """Return a percentile by the nearest-rank method. ``share`` is 0 to 1."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]
