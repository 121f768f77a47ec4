"""Lambda functions, each with its role: one per step, the API's and the supervisor's. They share a log group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from aws_cdk import Duration, Names, RemovalPolicy, Stack, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from sagas.authoring.definition.definition import SagaDefinition
from sagas.cdk.compute.code import CodeAssets, requirements_of
from sagas.cdk.compute.environment import check_size, service_environment, types_file
from sagas.cdk.compute.layer import Layers
from sagas.cdk.compute.permissions import (
    allow_counting,
    allow_joining,
    allow_network,
    allow_one_saga,
    allow_sending,
    allow_working,
    is_large,
)
from sagas.cdk.data.encryption import allow_key
from sagas.cdk.data.queues import SagaQueues
from sagas.cdk.data.tables import Stores
from sagas.cdk.layout.acknowledge import acknowledge
from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.layout.nested_stacks import Placement
from sagas.cdk.layout.roles import OwnRole
from sagas.cdk.layout.step_groups import StepGroup
from sagas.cdk.layout.tags import tag_part
from sagas.cdk.options.function_options import FunctionOptions, Network
from sagas.cdk.options.service_options import ServiceOptions
from sagas.cdk.options.values import needed_extras
from sagas.errors import DefinitionError
from sagas.messaging.work import NOW
from sagas.topology import WITHOUT_RECURSION_CONFIG

_LAMBDA = iam.ServicePrincipal("lambda.amazonaws.com")

# Casts to interfaces are needed because jsii's classes and interfaces name private parameters differently.
# A failed deployment must not leave its version, which would block the next deployment of the same code.
_KEPT = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
_WITHOUT_SNAPSHOTS = ("python3.11",)
_FINDINGS = {
    "AwsSolutions-IAM5[Resource::*]": "Writing traces and managing network interfaces cannot be limited to resources.",
    "Serverless-LambdaStarPermissions": "AwsSolutions-IAM5 names each pattern that a role has, and its reason.",
    "AwsSolutions-L1": "The layer is built for this runtime; the app chooses it.",
    "Serverless-LambdaLatestVersion": "The layer is built for this runtime; the app chooses it.",
    "Serverless-LambdaDLQ": "Queues that call steps have a dead-letter queue; the API waits for its function.",
    "Serverless-LambdaEventSourceMappingDestination": "The source queue has a dead-letter queue.",
}
_FINDINGS_UNTRACED = {"Serverless-LambdaTracing": "The user of the construct switched traces off."}


@dataclass(frozen=True, slots=True)
class SharedAssets:
    """What all functions of a service share. ``queues`` has those of each saga, by its type. ``log`` is the log group:
    the name of each stream contains its function. ``now`` is the work queue of this name; ``None`` if no saga waits."""

    service: Construct
    code: CodeAssets
    layers: Layers
    options: ServiceOptions
    tables: Stores
    queues: Mapping[str, SagaQueues]
    log: logs.LogGroup
    now: sqs.Queue | None = None

    def work_of(self, saga: SagaDefinition) -> dict[str, sqs.Queue]:
        """Return the work queues, by name, that the step functions of a saga send to."""
        needed = saga.works_now or saga.name in self.tables.families
        return {NOW: self.now} if self.now is not None and needed else {}

    def group_of(self, network: Network) -> ec2.SecurityGroup:
        """Return the security group that the service's functions share in a VPC."""
        id = f"SecurityGroup-{network.vpc.node.addr[-8:]}"
        group = self.service.node.try_find_child(id)
        if group is None:
            vpc = cast("ec2.IVpc", network.vpc)
            what = f"Functions of {self.options.service}"
            group = ec2.SecurityGroup(self.service, id, vpc=vpc, description=what, allow_all_outbound=True)
        return cast("ec2.SecurityGroup", group)


def shared_assets(
    service: Construct, catalogue: Catalogue, tables: Stores, queues: Mapping[str, SagaQueues], now: sqs.Queue | None
) -> SharedAssets:
    options = catalogue.service_options
    # Names that do not fit in the variables go to a file next to the code: one for all sagas, and one per saga.
    owners: list[tuple[type | None, list[SagaDefinition]]] = [(None, catalogue.sagas)]
    owners += [(saga.saga_class, [saga]) for saga in catalogue.sagas]
    texts = {owner: types_file(own, queues) for owner, own in owners}
    types = {owner: text for owner, text in texts.items() if text is not None}
    code = CodeAssets([saga.saga_class for saga in catalogue.sagas], types, options.runtime.name)
    layers = Layers(
        service,
        options.architecture,
        options.runtime,
        requirements_of(code.packages),
        bundle_sdk=options.bundle_sdk,
        extras=(*needed_extras(options.environment or {}), *(("encryption",) if options.payload_key else ())),
        provided=options.provided,
    )
    log = logs.LogGroup(
        service,
        "Log",
        retention=options.log_retention,
        removal_policy=options.removal_policy,
        encryption_key=cast("kms.IKey | None", options.encryption_key),
    )
    return SharedAssets(service, code, layers, options, tables, queues, log, now)


class SagaFunction(Construct):
    """A function, and a role that may write the service's log and traces. Subclasses grant other permissions.
    Queues, rules and the API call the function's alias, which points to a version. ``timeout`` is in seconds.
    ``saga_class`` limits the code to that of one saga class. ``sends_to``: the queues of those sagas to whose steps the
    function sends. ``recursive``: whether the function may cause invocations of itself."""

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
        saga_class: type | None = None,
        sends_to: Iterable[SagaQueues] = (),
        recursive: bool = False,
    ) -> None:
        super().__init__(scope, id)
        options = shared.options
        network = function.network or options.network
        architecture = function.architecture or options.architecture
        runtime = function.runtime or options.runtime
        if function.snap_start and runtime.name in _WITHOUT_SNAPSHOTS:
            raise DefinitionError(f"{self.node.path}: snap_start requires Python 3.12 or newer, not {runtime.name}")
        self.role = OwnRole(self, "Role", principal=_LAMBDA, large=is_large(sends_to))
        write_log = ["logs:CreateLogStream", "logs:PutLogEvents"]
        self.role.allow(iam.PolicyStatement(actions=write_log, resources=[shared.log.log_group_arn]))
        if options.tracing:
            trace = ["xray:PutTraceSegments", "xray:PutTelemetryRecords"]
            self.role.allow(iam.PolicyStatement(actions=trace, resources=["*"]))
        allow_key(self.role, options.encryption_key)
        security_groups = None
        if network is not None:
            allow_network(self.role)
            groups = network.security_groups
            security_groups = [
                cast("ec2.ISecurityGroup", group)
                for group in ([shared.group_of(network)] if groups is None else groups)
            ]
        # Whether Lambda has the setting for loops in the stack's region. If the region is not known, assume so.
        can_recurse = not Stack.of(self).region.startswith(WITHOUT_RECURSION_CONFIG)
        level = {} if function.log_level is None else {"POWERTOOLS_LOG_LEVEL": function.log_level}
        variables = self._variables = {**environment, **level, **function.environment}
        check_size(self, variables)
        layer = shared.layers.of(architecture, runtime)
        shared.code.check_imports(saga_class, layer, options.provided)
        self.function = lambda_.Function(
            self,
            "Function",
            code=shared.code.of(self, saga_class),
            layers=[layer.version],
            handler=handler,
            runtime=runtime,
            architecture=architecture,
            role=cast("iam.IRole", self.role),
            log_group=cast("logs.ILogGroup", shared.log),
            memory_size=function.memory_size,
            ephemeral_storage_size=function.ephemeral_storage,
            timeout=Duration.seconds(timeout),
            environment=variables,
            environment_encryption=cast("kms.IKey | None", options.encryption_key),
            reserved_concurrent_executions=function.reserved_concurrency,
            description=description,
            recursive_loop=lambda_.RecursiveLoop.ALLOW if recursive and can_recurse else None,
            current_version_options=lambda_.VersionOptions(removal_policy=_KEPT) if options.keep_versions else None,
            snap_start=lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS if function.snap_start else None,
            vpc=cast("ec2.IVpc | None", network and network.vpc),
            vpc_subnets=network and network.subnets,
            security_groups=security_groups,
        )
        # Without this, new content of the layer would not create a new version.
        self.function.invalidate_version_based_on(layer.digest)
        self.alias = lambda_.Alias(
            self,
            "Alias",
            alias_name=options.alias,
            version=cast("lambda_.IVersion", self.function.current_version),
            provisioned_concurrent_executions=function.provisioned_concurrency,
        )
        acknowledge(Validations.of(self), _FINDINGS if options.tracing else _FINDINGS | _FINDINGS_UNTRACED)
        # The function refers to its role, and the CDK also adds a DependsOn. cfn-lint calls that redundant.
        resource = cast("lambda_.CfnFunction", self.function.node.default_child)
        if options.tracing:  # with the construct's own option, the CDK would add a policy
            resource.tracing_config = lambda_.CfnFunction.TracingConfigProperty(mode="Active")
        resource.add_metadata("cfn-lint", {"config": {"ignore_checks": ["W3005"]}})

    def consume(self, queue: sqs.IQueue, batch_size: int, maximum_concurrency: int | None) -> None:
        """Have Lambda call the alias with the messages of a queue. The function reports those that failed."""
        take = ["sqs:ReceiveMessage", "sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
        self.role.allow(iam.PolicyStatement(actions=take, resources=[queue.queue_arn]))
        # The CDK's own event source would also add a policy. The id is as there: a queue and a function have one
        # mapping, so an update cannot create it under another id.
        self.alias.add_event_source_mapping(
            f"SqsEventSource:{Names.node_unique_id(queue.node)}",
            event_source_arn=queue.queue_arn,
            batch_size=batch_size,
            max_concurrency=maximum_concurrency,
            report_batch_item_failures=True,
        )

    def add_variables(self, variables: Mapping[str, str]) -> None:
        """Add variables that name resources created after the function."""
        self._variables |= variables
        check_size(self, self._variables)
        for name, value in variables.items():
            self.function.add_environment(name, value)


class StepGroupFunction(SagaFunction):
    """The function of a step group. It consumes the group's queue and sends to all step queues of the saga."""

    def __init__(self, scope: Construct, id: str, *, shared: SharedAssets, group: StepGroup) -> None:
        saga = group.saga
        tables = shared.tables
        queues = shared.queues[group.saga.name]
        work = shared.work_of(saga)
        environment = service_environment(scope, tables, shared.options, {saga.name: queues}, [saga], work)
        what = "Step" if len(group.steps) == 1 else "Steps"
        super().__init__(
            scope,
            id,
            shared=shared,
            handler="sagas.handlers.step.handler",
            timeout=group.timeout,
            environment={
                **environment,
                "SAGAS_MAX_RECEIVES": str(group.max_receives),
                **({"SAGAS_CHAIN": group.chain} if group.chain else {}),
            },
            function=group.options,
            # Lambda's limit is 256 characters.
            description=f"{what} {group.names.replace(',', ', ')} of saga {saga.name}"[:256],
            saga_class=saga.saga_class,
            sends_to=[queues],
            # A saga moves from queue to function to queue by design. Lambda would stop this after 16 hops.
            recursive=True,
        )
        tag_part(self.function, "function", saga=saga.name, step=group.names)
        allow_one_saga(self.role, tables)
        if saga.name in tables.families:
            allow_joining(self.role, tables)
        if saga.auto_disable is not None:
            allow_counting(self.role, tables)
        allow_sending(self.role, [queues])
        for queue in work.values():
            allow_working(self.role, queue, counting=False)
        queue = queues.seen_from(self, group.id)
        self.consume(queue, group.batch_size, group.options.maximum_concurrency)


def step_functions(placements: Iterable[Placement], shared: SharedAssets) -> dict[tuple[str, str], StepGroupFunction]:
    """Create the functions of all step groups. Returns the functions by saga type and group id."""
    functions: dict[tuple[str, str], StepGroupFunction] = {}
    for placement in placements:
        scope = Construct(placement.scope, placement.functions_id)
        for group in placement.groups:
            functions[placement.saga.name, group.id] = StepGroupFunction(scope, group.id, shared=shared, group=group)
    return functions
