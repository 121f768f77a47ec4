"""Pauses starts of a saga type after several failed sagas in a row.

Only failures are stored. The last success is looked up only when the failures reach the threshold, or when a caller
requests the number of failures. So a healthy type costs nothing.
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
from sagas.store.index.listing import Listing
from sagas.store.types.streaks import FOREVER, FailedSaga, Streak, Streaks

_INDEX_LAG = 1.0
"""Seconds for which a success may be missing in the index. A type that has succeeded within these seconds may have
succeeded again since, so it is not paused. If it keeps failing, a later failure pauses it."""


class AutoDisabler(Struct, frozen=True):
    """For each type that declares ``auto_disable``, counts the sagas that failed in a row.

    Each failure counts once, because the worker or supervisor that commits it counts it.

    Args:
        registry: the saga types and their policies.
        streaks: the counts, shared by all execution environments.
        listing: the ended sagas of a type.
        logger, observer: they are notified of each type whose starts are paused.
    """

    registry: Registry
    streaks: Streaks
    listing: Listing
    logger: logging.Logger
    observer: EngineObserver

    def committed(self, before: SagaState, after: SagaState, fact: Fact) -> None:
        """Count a saga that failed."""
        policy = self._policy(after.saga) if after.failed and not before.failed else None
        if policy is None:
            return
        name = after.saga
        failed = FailedSaga(after.updated_at, after.saga_id)
        try:
            streak = self.streaks.count(name, failed)
            if streak is None:
                return
            recent = _recent(policy, streak, failed.at)
            success = 0.0
            if len(recent) >= policy.threshold > 1:
                success = self._last_success(name)
                recent = [other for other in recent if other.at > success or other == failed]
            self.streaks.forget_failures(name, set(streak.failures) - set(recent))
            if len(recent) < policy.threshold or failed.at - success < _INDEX_LAG:
                return
            cooldown = FOREVER if policy.cooldown is None else policy.cooldown.total_seconds()
            until = min(round(failed.at + cooldown, 3), FOREVER)
            if self.streaks.pause(name, until, failed):
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
        recent = _recent(policy, streak, now)
        success = self._last_success(name) if recent else 0.0
        return Streak(tuple(failed for failed in recent if failed.at > success))

    def forget(self, name: str) -> None:
        """Forget the failures of a type, and accept starts again."""
        if self._policy(name):
            self.streaks.forget(name)

    def _policy(self, name: str) -> AutoDisable | None:
        return self.registry.get(name).definition.auto_disable if name in self.registry else None

    def _last_success(self, name: str) -> float:
        return self.listing.last_end(name, SagaStatus.COMPLETED)


def _recent(policy: AutoDisable, streak: Streak, now: float) -> list[FailedSaga]:
    """Return the failures within the window and after the last pause of starts, oldest first."""
    begin = max(now - policy.window.total_seconds(), streak.paused_until)
    return [failed for failed in streak.failures if failed.at > begin]
