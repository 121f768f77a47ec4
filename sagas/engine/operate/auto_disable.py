"""Pauses starts of a saga type after several failed sagas in a row.

Only failures are stored. Successes are looked up only when the failures reach the threshold, or when a caller requests
the number of failures. So a healthy type costs nothing.
"""

from __future__ import annotations

import logging

from msgspec import Struct

from sagas.authoring.policies import AutoDisable
from sagas.core.events import Fact
from sagas.core.states import SagaState, SagaStatus
from sagas.core.text import iso
from sagas.engine.ports import EngineObserver
from sagas.engine.registry import Registry
from sagas.errors import SagaError
from sagas.store.control.control import ControlItems
from sagas.store.index.listing import Listing
from sagas.store.types.streaks import FOREVER, FailedSaga, Streak, Streaks

_PAGE = 100
_PAGES = 10
"""Maximum pages to search for a success. They cover the last 1,000 sagas that were started."""


class AutoDisabler(Struct, frozen=True):
    """For each type that declares ``auto_disable``, counts the sagas that failed in a row.

    Each failure counts once, because the worker or supervisor that commits it counts it.

    Args:
        registry: the saga types and their policies.
        streaks: the counts, shared by all execution environments.
        control: the sagas.
        listing: the sagas of a type.
        logger, observer: they are notified of each type whose starts are paused.
    """

    registry: Registry
    streaks: Streaks
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
            streak = self.streaks.count(name, failed)
            if streak is None:
                return
            recent = _recent(policy, streak, failed.at)
            if len(recent) >= policy.threshold:
                recent = [*self._unbroken(name, [other for other in recent if other != failed]), failed]
            self.streaks.forget_failures(name, set(streak.failures) - set(recent))
            cooldown = FOREVER if policy.cooldown is None else policy.cooldown.total_seconds()
            until = min(round(failed.at + cooldown, 3), FOREVER)
            if len(recent) >= policy.threshold and self.streaks.pause(name, until, failed):
                fields = {
                    "saga": name,
                    "failures": len(recent),
                    "paused_until": iso(until) if until < FOREVER else "an operator resumes it",
                }
                self.logger.warning("paused starts of the saga type because its sagas keep failing", extra=fields)
                self.observer.paused(name)
        except SagaError as error:
            # The failure itself has already been committed.
            fields = {"saga": name, "saga_id": after.saga_id, "error": type(error).__name__}
            self.logger.warning("a failed saga was not counted", extra=fields)

    def paused_until(self, name: str) -> float:
        """Return the time (epoch seconds) until which failures have paused starts of a type; 0 if they never have.

        Each call reads the store, so no saga starts after the failure that reaches the threshold.
        """
        return self.streaks.get(name).paused_until if self._policy(name) else 0.0

    def streak(self, name: str, now: float) -> Streak:
        """Return the failures of a type that count now, and the time until which starts are paused. ``now``: epoch
        seconds."""
        policy = self._policy(name)
        if policy is None:
            return Streak()
        streak = self.streaks.get(name)
        if streak.paused_until > now:
            return streak
        return Streak(tuple(self._unbroken(name, _recent(policy, streak, now))))

    def forget(self, name: str) -> None:
        """Forget the failures of a type, and accept starts again."""
        if self._policy(name):
            self.streaks.forget(name)

    def _policy(self, name: str) -> AutoDisable | None:
        return self.registry.get(name).definition.auto_disable if name in self.registry else None

    def _unbroken(self, name: str, failures: list[FailedSaga]) -> list[FailedSaga]:
        """Return the failures, oldest first, after which no saga of the type completed."""
        cursor: str | None = None
        for _ in range(_PAGES if failures else 0):
            page = self.listing.by_name([name], _PAGE, cursor)
            states = self.control.readable(page.saga_ids)
            success = max((s.updated_at for s in states if s.status is SagaStatus.COMPLETED), default=0.0)
            if success >= failures[0].at:
                return [failed for failed in failures if failed.at > success]
            if page.cursor is None:
                break
            cursor = page.cursor
        return failures


def _recent(policy: AutoDisable, streak: Streak, now: float) -> list[FailedSaga]:
    """Return the failures within the window and after the last pause of starts, oldest first."""
    begin = max(now - policy.window.total_seconds(), streak.paused_until)
    return [failed for failed in streak.failures if failed.at > begin]
