"""How functions move to new code: the option ``deployment``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from aws_cdk import aws_cloudwatch as cloudwatch

from sagas.cdk.options.checks import within
from sagas.errors import DefinitionError

AnyAlarm = cloudwatch.IAlarm | cloudwatch.Alarm
_MOST_ALARMS = 6
"""CodeDeploy allows ten alarms per function, and the service needs four of them."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """How the alias of each function moves to new code. Use :meth:`canary`, :meth:`linear` or :meth:`all_at_once`.

    Args:
        kind: ``canary``, ``linear`` or ``all_at_once``.
        percent: percentage of invocations that move to the new code first, or with each increment.
        minutes: minutes before the other invocations move, or between increments.
        alarms: additional alarms that roll a deployment back, at most six. The service's own alarms watch the function
            for errors, and its saga for failing records, failed undos and sagas that need attention. None of them fires
            because a step raises: the step is retried, then the saga is undone.

    Raises:
        DefinitionError: CodeDeploy would refuse a value.
    """

    kind: Literal["canary", "linear", "all_at_once"]
    percent: int = 100
    minutes: int = 0
    alarms: Sequence[AnyAlarm] = ()

    def __post_init__(self) -> None:
        if self.kind != "all_at_once":
            within(f"Deployment.{self.kind}", "percent", self.percent, 1, 99)
            # CodeDeploy's limit: a deployment can last two days.
            within(f"Deployment.{self.kind}", "minutes", self.minutes, 1, 2_880 // self._increments)
        if len(self.alarms) > _MOST_ALARMS:
            raise DefinitionError(f"Deployment: alarms: at most {_MOST_ALARMS} are allowed, not {len(self.alarms)}")

    @property
    def _increments(self) -> int:
        return 1 if self.kind == "canary" else -(-100 // self.percent)

    @property
    def total_minutes(self) -> int:
        """Minutes until all invocations have moved."""
        return self.minutes * self._increments

    @classmethod
    def canary(cls, *, percent: int, minutes: int, alarms: Sequence[AnyAlarm] = ()) -> Deployment:
        """Return a deployment that moves ``percent`` of invocations first, and all others ``minutes`` later."""
        return cls("canary", percent, minutes, alarms)

    @classmethod
    def linear(cls, *, percent: int, minutes: int, alarms: Sequence[AnyAlarm] = ()) -> Deployment:
        """Return a deployment that moves another ``percent`` of invocations every ``minutes`` minutes."""
        return cls("linear", percent, minutes, alarms)

    @classmethod
    def all_at_once(cls, *, alarms: Sequence[AnyAlarm] = ()) -> Deployment:
        """Return a deployment in which CodeDeploy moves all invocations at once, unless an alarm has fired."""
        return cls("all_at_once", alarms=alarms)
