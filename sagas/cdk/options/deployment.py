"""How new code takes over: the option ``deployment``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from aws_cdk import aws_cloudwatch as cloudwatch

from sagas.cdk.options.checks import within
from sagas.errors import DefinitionError

AnyAlarm = cloudwatch.IAlarm | cloudwatch.Alarm
_MOST_ALARMS = 6
"""CodeDeploy takes ten for a function, of which the service has four."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """How the alias of each function moves to new code; by :meth:`canary`, :meth:`linear` or :meth:`all_at_once`.

    Args:
        kind: which of them.
        percent: of the invocations that go to the new code at first, or with each step.
        minutes: until the rest follows, or between steps.
        alarms: further ones that undo a deployment, at most six. The service's own are those of a function's errors,
            and of records that fail, failed undos and sagas that need attention of its saga. None of these goes on for
            a step that raises: it is retried, and undone.

    Raises:
        DefinitionError: a value that CodeDeploy would refuse.
    """

    kind: Literal["canary", "linear", "all_at_once"]
    percent: int = 100
    minutes: int = 0
    alarms: Sequence[AnyAlarm] = ()

    def __post_init__(self) -> None:
        if self.kind != "all_at_once":
            within(f"Deployment.{self.kind}", "percent", self.percent, 1, 99)
            # Two days, CodeDeploy's longest, for the whole of it.
            steps = 1 if self.kind == "canary" else -(-100 // self.percent)
            within(f"Deployment.{self.kind}", "minutes", self.minutes, 1, 2_880 // steps)
        if len(self.alarms) > _MOST_ALARMS:
            raise DefinitionError(f"Deployment: alarms must be {_MOST_ALARMS} at most, not {len(self.alarms)}")

    @classmethod
    def canary(cls, *, percent: int, minutes: int, alarms: Sequence[AnyAlarm] = ()) -> Deployment:
        """Return a deployment that gives a part of the invocations to the new code, and the rest some minutes later."""
        return cls("canary", percent, minutes, alarms)

    @classmethod
    def linear(cls, *, percent: int, minutes: int, alarms: Sequence[AnyAlarm] = ()) -> Deployment:
        """Return a deployment that gives the new code so much more of the invocations every so many minutes."""
        return cls("linear", percent, minutes, alarms)

    @classmethod
    def all_at_once(cls, *, alarms: Sequence[AnyAlarm] = ()) -> Deployment:
        """Return a deployment that moves all at once, by CodeDeploy, so that an alarm which is on stops it."""
        return cls("all_at_once", alarms=alarms)
