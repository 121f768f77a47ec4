"""Failed sagas in a row: a type that keeps failing takes no new sagas for a while.

Only a failure is written down. A success is not: whether there was one is looked up once that matters, which is when
the failures reach the threshold, or when a caller asks for their number. So a healthy type costs nothing.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from sagas.authoring.policies import AutoDisable
from sagas.core.events import Fact
from sagas.core.states import SagaState, SagaStatus
from sagas.core.times import iso
from sagas.engine.ports import EngineObserver
from sagas.engine.reader import readable
from sagas.engine.registry import Registry
from sagas.errors import SagaError
from sagas.store.activities import FOREVER, Activities, Activity, FailedSaga
from sagas.store.control import ControlItems
from sagas.store.listing import Listing

_PAGE = 100
_PAGES = 10
"""How far back a success is looked for: among the thousand sagas that were started last."""


@dataclass(frozen=True, slots=True)
class AutoDisabler:
    """The failed sagas in a row of each type that declares ``auto_disable``.

    They observe: a saga counts when its failure is committed, once, by the worker or supervisor that commits it.

    Args:
        registry: tells which types declare it.
        activities: the counts, shared by all execution environments.
        control: the sagas.
        listing: the sagas of a type.
        logger, observer: told when a type is disabled.
    """

    registry: Registry
    activities: Activities
    control: ControlItems
    listing: Listing
    logger: logging.Logger
    observer: EngineObserver

    def committed(self, before: SagaState, after: SagaState, fact: Fact) -> None:
        """Count a saga that failed."""
        policy = self._policy(after.saga) if after.failed and not before.failed else None
        if policy is None:
            return
        name, failed = after.saga, FailedSaga(after.updated_at, after.saga_id)
        try:
            activity = self.activities.count_failure(name, failed)
            if activity is None:
                return
            streak = _recent(policy, activity, failed.at)
            if len(streak) >= policy.threshold:
                streak = [*self._unbroken(name, [other for other in streak if other != failed]), failed]
            self.activities.forget_failures(name, set(activity.failures) - set(streak))
            rest = FOREVER if policy.cooldown is None else policy.cooldown.total_seconds()
            until = min(round(failed.at + rest, 3), FOREVER)
            if len(streak) >= policy.threshold and self.activities.disable(name, until, failed):
                fields = {
                    "saga": name,
                    "failures": len(streak),
                    "disabled_until": iso(until) if until < FOREVER else "an operator enables it",
                }
                self.logger.warning("the saga type is disabled: its sagas keep failing", extra=fields)
                self.observer.disabled(name)
        except SagaError as error:
            # The failure itself is committed.
            fields = {"saga": name, "saga_id": after.saga_id, "error": type(error).__name__}
            self.logger.warning("a failed saga was not counted", extra=fields)

    def failures_in_a_row(self, name: str, activity: Activity, now: float) -> int:
        """Return how many sagas of a type failed in a row.

        Args:
            name: the saga type.
            activity: what is stored of it.
            now: epoch seconds.

        Raises:
            Unavailable: the store is out of reach.
        """
        policy = self._policy(name)
        if policy is None:
            return 0
        if activity.disabled_until > now:
            return len(activity.failures)
        recent = _recent(policy, activity, now)
        return len(self._unbroken(name, recent)) if recent else 0

    def _policy(self, name: str) -> AutoDisable | None:
        return self.registry.get(name).definition.auto_disable if name in self.registry else None

    def _unbroken(self, name: str, failures: list[FailedSaga]) -> list[FailedSaga]:
        """Return those failures, oldest first, after which no saga of the type completed."""
        cursor: str | None = None
        for _ in range(_PAGES if failures else 0):
            page = self.listing.by_name([name], _PAGE, cursor)
            done = [s.updated_at for s in readable(self.control, page.saga_ids) if s.status is SagaStatus.COMPLETED]
            success = max(done, default=0.0)
            if success >= failures[0].at:
                return [failed for failed in failures if failed.at > success]
            if page.cursor is None:
                break
            cursor = page.cursor
        return failures


def _recent(policy: AutoDisable, activity: Activity, now: float) -> list[FailedSaga]:
    """The failures within the window, and since starts were refused last, oldest first."""
    begin = max(now - policy.window.total_seconds(), activity.disabled_until)
    return [failed for failed in activity.failures if failed.at > begin]
