"""Releases of new code: every function has a version and an alias, and CodeDeploy moves the alias gradually."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, cast

from aws_cdk import Duration, Validations
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from sagas.cdk.layout.acknowledge import acknowledge
from sagas.cdk.options.values import AnyAlarm, Deployment

_POLICY = "service-role/AWSCodeDeployRoleForLambdaLimited"
_FINDING = f"AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{_POLICY}]"
_MOST_NAME = 90


class Releases(Construct):
    """The application, role and configuration that a service has in CodeDeploy."""

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
        acknowledge(Validations.of(role), {_FINDING: "CodeDeploy needs it to move aliases; AWS keeps it up to date."})
        # Without this, each deployment group would attach the policy again.
        self._role = role.without_policy_updates()
        self._configuration: Any = codedeploy.LambdaDeploymentConfig.ALL_AT_ONCE
        if deployment.kind != "all_at_once":
            routing: Any = {
                "canary": codedeploy.TimeBasedCanaryTrafficRouting,
                "linear": codedeploy.TimeBasedLinearTrafficRouting,
            }[deployment.kind](interval=Duration.minutes(deployment.minutes), percentage=deployment.percent)
            # The CDK would derive the name from the construct's path, and another stack may have the same path. The
            # name contains the settings, because a configuration in use cannot be changed.
            name = f"{service.replace('/', '-')}-{deployment.kind}-{deployment.percent}-{deployment.minutes}"
            if len(name) > _MOST_NAME:
                name = f"{name[-_MOST_NAME:]}-{hashlib.sha256(service.encode()).hexdigest()[:8]}"
            self._configuration = codedeploy.LambdaDeploymentConfig(
                self, "Configuration", deployment_config_name=name, traffic_routing=routing
            )

    def add(self, scope: Construct, alias: lambda_.Alias, alarms: Sequence[AnyAlarm]) -> None:
        codedeploy.LambdaDeploymentGroup(
            scope,
            "Release",
            alias=alias,
            application=self._application,
            deployment_config=self._configuration,
            role=self._role,
            alarms=[cast("cloudwatch.IAlarm", alarm) for alarm in (*alarms, *self._alarms)],
        )
