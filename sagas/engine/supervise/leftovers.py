"""Once a week, deletes what nothing else finds: starts that died between their two writes and were never repeated, and
payloads in S3 of sagas that were purged or never began.

Everything that it deletes is older than an hour, so no writer can be between its two writes any more. The search is
spread over the supervisor's runs: each reads as many pages as the last search makes it expect, and stores its position.
Two concurrent runs do no harm, because each deletion has its own condition or names an object that no saga has.
"""

from __future__ import annotations

import logging
import math

from msgspec import Struct
from msgspec.structs import replace

from sagas.engine.clock import Clock
from sagas.store.journal.leftovers import Leftovers
from sagas.store.schedule.leftover_scans import LeftoverScan, LeftoverScans

_WEEK = 7 * 86_400.0
_OLD = 3_600.0
"""Seconds after which no writer can still write. A function runs for 15 minutes at most."""
_VISITS = 2_016
"""How often the supervisor purges in a week."""
_LEAST_PAGES = 10
"""Pages per visit at least. A page is a megabyte of the audit table, or a thousand objects."""
_FEW = 20
"""On a page with at least as many objects, those without a first entry are the minority."""


class LeftoverReport(Struct):
    """Result of one visit.

    Args:
        pages: the number of pages that were read.
        starts: the number of dead starts that were deleted.
        objects: the number of payloads that were deleted from S3.
        strange: the number of payloads that were kept, because most payloads on their page belong to no saga.
    """

    pages: int = 0
    starts: int = 0
    objects: int = 0
    strange: int = 0


class LeftoverFinder(Struct, frozen=True):
    """Finds and deletes leftovers."""

    leftovers: Leftovers
    scans: LeftoverScans
    clock: Clock
    logger: logging.Logger

    def run(self, budget: float) -> LeftoverReport:
        """Continue this week's search, or begin the next. ``budget``: seconds the run may take."""
        report = LeftoverReport()
        scan = self.scans.get()
        now = self.clock.now()
        end = now + budget
        if scan.phase == "done":
            if scan.began_at and now < scan.began_at + _WEEK:
                return report
            scan = LeftoverScan(now, expected=scan.pages, phase="entries", revision=scan.revision)
        most = max(_LEAST_PAGES, math.ceil(max(scan.expected, scan.pages) / _VISITS))
        while report.pages < most and scan.phase != "done" and self.clock.now() < end:
            report.pages += 1
            after = self._entries(scan, report) if scan.phase == "entries" else self._objects(scan, report)
            after = replace(after, pages=scan.pages + 1, revision=self.clock.new_owner())
            if not self.scans.move(scan, after):
                break  # another run was faster
            scan = after
        return report

    def _entries(self, scan: LeftoverScan, report: LeftoverReport) -> LeftoverScan:
        page = self.leftovers.starts(scan.entry, self.clock.now() - _OLD)
        for start in self.leftovers.without_saga(page.starts):
            report.starts += self.leftovers.forget(start)
        return replace(scan, entry=page.after, phase="entries" if page.after else "objects")

    def _objects(self, scan: LeftoverScan, report: LeftoverReport) -> LeftoverScan:
        page = self.leftovers.objects(scan.key)
        before = self.clock.now() - _OLD
        old = [item.key for item in page.objects if item.modified_at < before]
        purged, unknown = self.leftovers.gone(old)
        if len(page.objects) >= _FEW and 2 * len(unknown) > len(page.objects):
            text = "most payloads on a page belong to no saga, so they were kept; is this the right audit table?"
            self.logger.error(text, extra={"objects": len(page.objects), "kept": len(unknown)})
            report.strange += len(unknown)
            unknown = []
        self.leftovers.delete([*purged, *unknown])
        report.objects += len(purged) + len(unknown)
        last = page.objects[-1].key if page.objects else scan.key
        return replace(scan, key=last, phase="done" if page.last else "objects")
