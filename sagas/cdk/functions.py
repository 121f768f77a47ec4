"""Lambda functions with their own role and log group: one for each step, the API's and the supervisor's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from aws_cdk import CfnResource, Duration, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as event_sources
from aws_cdk import aws_logs as logs
from constructs import Construct

from sagas.cdk.acknowledge import acknowledge
from sagas.cdk.code import CodeAssets
from sagas.cdk.encryption import allow_key
from sagas.cdk.environment import check_size
from sagas.cdk.layer import Layers
from sagas.cdk.options import FunctionOptions, Network, ServiceOptions
from sagas.cdk.parts import tag_part
from sagas.cdk.permissions import allow_listing, allow_network, allow_one_saga, allow_sending
from sagas.cdk.queues import SagaQueues
from sagas.cdk.step_groups import StepGroup
from sagas.cdk.tables import Tables

# Casts to an interface, here and elsewhere: jsii's classes name private parameters otherwise than their interfaces do.
_LAMBDA = cast("iam.IPrincipal", iam.ServicePrincipal("lambda.amazonaws.com"))

_FINDINGS = {
    "AwsSolutions-IAM5[Resource::*]": "X-Ray's write actions, and those for a VPC's interfaces, have no narrower form.",
    "AwsSolutions-L1": "The runtime is the one the layer was fetched for; whoever uses the construct chooses it.",
}


@dataclass(frozen=True, slots=True)
class SharedAssets:
    """What all functions of a service share.

    Args:
        code: of the sagas.
        layers: of dependencies.
        options: of the service.
    """

    code: CodeAssets
    layers: Layers
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
        shared: SharedAssets,
        handler: str,
        timeout: int,
        environment: Mapping[str, str],
        function: FunctionOptions,
        description: str,
        recursive_loop: lambda_.RecursiveLoop | None = None,
    ) -> None:
        super().__init__(scope, id)
        options = shared.options
        log_group = _log_group(self, options)
        network = function.network or options.network
        architecture, runtime = function.architecture or options.architecture, function.runtime or options.runtime
        self.role = _role(self, log_group, options, network)
        self.function = lambda_.Function(
            self,
            "Function",
            code=shared.code.of(self),
            layers=[shared.layers.of(architecture, runtime)],
            handler=handler,
            runtime=runtime,
            architecture=architecture,
            role=cast("iam.IRole", self.role),
            log_group=log_group,
            memory_size=function.memory_size,
            ephemeral_storage_size=function.ephemeral_storage,
            timeout=Duration.seconds(timeout),
            tracing=lambda_.Tracing.ACTIVE,
            environment=_variables(self, environment, function),
            reserved_concurrent_executions=function.reserved_concurrency,
            description=description,
            recursive_loop=recursive_loop,
            vpc=cast("ec2.IVpc | None", network and network.vpc),
            vpc_subnets=network and network.subnets,
            security_groups=_security_groups(network),
        )
        acknowledge(Validations.of(self), _FINDINGS)
        _accept_cdk_dependency(self.function)


def _log_group(scope: Construct, options: ServiceOptions) -> logs.LogGroup:
    return logs.LogGroup(
        scope,
        "Log",
        retention=options.log_retention,
        removal_policy=options.removal_policy,
        encryption_key=cast("kms.IKey | None", options.encryption_key),
    )


def _role(scope: Construct, log_group: logs.LogGroup, options: ServiceOptions, network: Network | None) -> iam.Role:
    role = iam.Role(scope, "Role", assumed_by=_LAMBDA)
    actions = ["logs:CreateLogStream", "logs:PutLogEvents"]
    role.add_to_policy(iam.PolicyStatement(actions=actions, resources=[log_group.log_group_arn]))
    allow_key(role, options.encryption_key)
    if network is not None:
        allow_network(role)
    return role


def _variables(scope: Construct, environment: Mapping[str, str], function: FunctionOptions) -> dict[str, str]:
    level = {} if function.log_level is None else {"POWERTOOLS_LOG_LEVEL": function.log_level}
    variables = {**environment, **level, **function.environment}
    check_size(scope, variables)
    return variables


def _security_groups(network: Network | None) -> list[ec2.ISecurityGroup] | None:
    if network is None or network.security_groups is None:
        return None
    return [cast("ec2.ISecurityGroup", group) for group in network.security_groups]


def _accept_cdk_dependency(function: lambda_.Function) -> None:
    resource = function.node.default_child
    if isinstance(resource, CfnResource):
        # The CDK itself writes a DependsOn beside the reference to the role; cfn-lint calls it redundant.
        resource.add_metadata("cfn-lint", {"config": {"ignore_checks": ["W3005"]}})


class StepGroupFunction(SagaFunction):
    """The function of a step group: it consumes the group's queue, and sends to the queues of its saga."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        shared: SharedAssets,
        group: StepGroup,
        queues: SagaQueues,
        tables: Tables,
        environment: Mapping[str, str],
    ) -> None:
        super().__init__(
            scope,
            id,
            shared=shared,
            handler="sagas.handlers.step.handler",
            timeout=group.timeout,
            environment={**environment, "SAGAS_MAX_RECEIVES": str(group.max_receives)},
            function=group.options,
            description=_description(group),
            # A saga goes from queue to function to queue by design; Lambda would cut the chain at 16 hops.
            recursive_loop=lambda_.RecursiveLoop.ALLOW,
        )
        tag_part(self.function, "function", saga=group.saga.name, step=group.names)
        allow_one_saga(self.role, tables)
        if group.saga.auto_disable is not None:
            allow_listing(self.role, tables)
        allow_sending(self.role, [queues])
        self.function.add_event_source(
            event_sources.SqsEventSource(
                queues.by_group[group.id],
                batch_size=group.options.batch_size,
                max_concurrency=group.options.maximum_concurrency,
                report_batch_item_failures=True,
            )
        )


def _description(group: StepGroup) -> str:
    """What the console shows; Lambda takes 256 characters."""
    what = "Step" if len(group.steps) == 1 else "Steps"
    return f"{what} {group.names.replace(',', ', ')} of saga {group.saga.name}"[:256]
