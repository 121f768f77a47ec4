"""Lambda functions with their own role and log group: one for each step, the API's and the supervisor's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from aws_cdk import CfnResource, Duration, Validations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as event_sources
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from sagas.authoring.definition import SagaDefinition, StepDefinition
from sagas.cdk.acknowledge import acknowledge
from sagas.cdk.environment import check_size, step_environment
from sagas.cdk.options import FunctionOptions, ServiceOptions
from sagas.cdk.permissions import allow_one_saga, allow_sending
from sagas.cdk.queues import SagaQueues, function_timeout
from sagas.cdk.tables import Tables
from sagas.cdk.topology import mark

__all__ = ["Deployable", "SagaFunction", "StepFunction"]

# Casts to an interface, here and elsewhere: jsii's classes name private parameters otherwise than their interfaces do.
_LAMBDA = cast("iam.IPrincipal", iam.ServicePrincipal("lambda.amazonaws.com"))

_FINDINGS = {
    "AwsSolutions-IAM5[Resource::*]": "X-Ray's write actions have no narrower form.",
    "AwsSolutions-L1": "The runtime is the one the layer was fetched for; whoever uses the construct chooses it.",
}


@dataclass(frozen=True, slots=True)
class Deployable:
    """What all functions of a service share: code, layer and options."""

    code: lambda_.AssetCode
    layer: lambda_.LayerVersion
    options: ServiceOptions


class SagaFunction(Construct):
    """A function, its log group, and a role that may write that log and traces; the rest is granted by the caller.

    Args:
        scope: parent construct.
        id: construct id.
        shared: code, layer and options.
        handler: the entry point, ``package.module.function``.
        timeout: seconds.
        environment: its variables.
        function: memory, storage and further variables.
        description: shown in the console.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        shared: Deployable,
        handler: str,
        timeout: int,
        environment: Mapping[str, str],
        function: FunctionOptions,
        description: str,
        recursive_loop: lambda_.RecursiveLoop | None = None,
    ) -> None:
        super().__init__(scope, id)
        options = shared.options
        variables = {**environment, **function.environment}
        check_size(self, variables)
        log_group = logs.LogGroup(self, "Log", retention=options.log_retention, removal_policy=options.removal_policy)
        self.role = iam.Role(self, "Role", assumed_by=_LAMBDA)
        self.role.add_to_policy(
            iam.PolicyStatement(
                actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[log_group.log_group_arn]
            )
        )
        self.function = lambda_.Function(
            self,
            "Function",
            code=shared.code,
            layers=[shared.layer],
            handler=handler,
            runtime=options.runtime,
            architecture=options.architecture,
            role=cast("iam.IRole", self.role),
            log_group=log_group,
            memory_size=function.memory_size,
            ephemeral_storage_size=function.ephemeral_storage,
            timeout=Duration.seconds(timeout),
            tracing=lambda_.Tracing.ACTIVE,
            environment=variables,
            description=description,
            recursive_loop=recursive_loop,
        )
        acknowledge(Validations.of(self), _FINDINGS)
        _accept_cdk_dependency(self.function)


def _accept_cdk_dependency(function: lambda_.Function) -> None:
    resource = function.node.default_child
    if isinstance(resource, CfnResource):
        # The CDK itself writes a DependsOn beside the reference to the role; cfn-lint calls it redundant.
        resource.add_metadata("cfn-lint", {"config": {"ignore_checks": ["W3005"]}})


class StepFunction(SagaFunction):
    """The function of one step: it consumes the step's queue, and sends to the queues of its saga."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        shared: Deployable,
        saga: SagaDefinition,
        step: StepDefinition,
        queues: SagaQueues,
        tables: Tables,
        environment: Mapping[str, str],
        function: FunctionOptions,
    ) -> None:
        super().__init__(
            scope,
            id,
            shared=shared,
            handler="sagas.handlers.step.handler",
            timeout=function_timeout(step, function.batch_size),
            environment={**environment, **step_environment(saga, step, function.batch_size)},
            function=function,
            description=f"Step {step.name} of saga {saga.name}",
            # A saga goes from queue to function to queue by design; Lambda would cut the chain at 16 hops.
            recursive_loop=lambda_.RecursiveLoop.ALLOW,
        )
        mark(self.function, "function", saga=saga.name, step=step.name)
        allow_one_saga(self.role, tables)
        allow_sending(self.role, _all_queues(queues))
        self.function.add_event_source(
            event_sources.SqsEventSource(
                queues.steps[step.name],
                batch_size=function.batch_size,
                max_concurrency=function.maximum_concurrency,
                report_batch_item_failures=True,
            )
        )


def _all_queues(queues: SagaQueues) -> Sequence[sqs.Queue]:
    return [*queues.steps.values(), queues.dead_letters]
