"""How new code takes over: a version and an alias for every function, and CodeDeploy to move the alias by and by."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from aws_cdk import Duration, Validations
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from sagas.cdk.access.acknowledge import acknowledge
from sagas.cdk.checks import within
from sagas.errors import DefinitionError

AnyAlarm = cloudwatch.IAlarm | cloudwatch.Alarm
_MOST_ALARMS = 6
"""CodeDeploy takes ten for a function, of which the service has four."""
_POLICY = "service-role/AWSCodeDeployRoleForLambdaLimited"
_FINDING = f"AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{_POLICY}]"
_MOST_NAME = 90


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


class Releases(Construct):
    """CodeDeploy's application, role and configuration of a service.

    Args:
        scope: parent construct.
        id: construct id.
        service: the service's name, which no other of the account and region has.
        deployment: how aliases move.
    """

    def __init__(self, scope: Construct, id: str, *, service: str, deployment: Deployment) -> None:
        super().__init__(scope, id)
        self._alarms = deployment.alarms
        self._application: Any = codedeploy.LambdaApplication(self, "Application")
        codedeploys = cast("iam.IPrincipal", iam.ServicePrincipal("codedeploy.amazonaws.com"))
        role = iam.Role(
            self,
            "Role",
            assumed_by=codedeploys,
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(_POLICY)],
        )
        acknowledge(Validations.of(role), {_FINDING: "What CodeDeploy needs to move aliases; AWS keeps it up to date."})
        # Each group would attach the policy anew.
        self._role = role.without_policy_updates()
        self._configuration: Any = codedeploy.LambdaDeploymentConfig.ALL_AT_ONCE
        if deployment.kind != "all_at_once":
            routing: Any = {
                "canary": codedeploy.TimeBasedCanaryTrafficRouting,
                "linear": codedeploy.TimeBasedLinearTrafficRouting,
            }[deployment.kind](interval=Duration.minutes(deployment.minutes), percentage=deployment.percent)
            # The CDK would make the name from the construct's path, which another stack may have. It changes with the
            # configuration, as one that is in use cannot be changed.
            name = f"{service.replace('/', '-')}-{deployment.kind}-{deployment.percent}-{deployment.minutes}"
            if len(name) > _MOST_NAME:
                name = f"{name[-_MOST_NAME:]}-{hashlib.sha256(service.encode()).hexdigest()[:8]}"
            self._configuration = codedeploy.LambdaDeploymentConfig(
                self, "Configuration", deployment_config_name=name, traffic_routing=routing
            )

    def add(self, scope: Construct, alias: lambda_.Alias, alarms: Sequence[AnyAlarm]) -> None:
        """Let CodeDeploy move an alias."""
        codedeploy.LambdaDeploymentGroup(
            scope,
            "Release",
            alias=alias,
            application=self._application,
            deployment_config=self._configuration,
            role=self._role,
            alarms=[cast("cloudwatch.IAlarm", alarm) for alarm in (*alarms, *self._alarms)],
        )
