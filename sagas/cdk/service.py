"""One construct that turns saga classes into running infrastructure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from aws_cdk import RemovalPolicy
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from sagas.authoring.definition import SagaDefinition
from sagas.authoring.steps import Step
from sagas.cdk.alarms import SagaAlarms, ServiceAlarms, StepGroupAlarms
from sagas.cdk.api import ApiFunction, Mount, SagaApi
from sagas.cdk.catalogue import Catalogue
from sagas.cdk.code import CodeAssets, packages_of, requirements_of
from sagas.cdk.dashboard import ServiceDashboard
from sagas.cdk.encryption import let_logs_use
from sagas.cdk.environment import service_environment
from sagas.cdk.existing import AnyResource, AnyTable, mounted_api
from sagas.cdk.functions import SharedAssets, StepGroupFunction
from sagas.cdk.layer import Layers
from sagas.cdk.nested_stacks import Placement, placements_of
from sagas.cdk.options import FunctionOptions, Isolation, Network, ServiceOptions, Throttling
from sagas.cdk.permissions import allow_sweeping
from sagas.cdk.queues import SagaQueues
from sagas.cdk.step_groups import StepGroup
from sagas.cdk.supervisor import Supervisor
from sagas.cdk.tables import Tables
from sagas.errors import DefinitionError

AnyStep = Step[..., Any]


class SagaService(Construct):
    """Functions, queues, tables, API and supervisor for a set of sagas.

    Args:
        scope: parent construct.
        id: construct id.
        sagas: the saga classes, at least one; their names must differ.
        functions: options of functions, by step (``CreateZip.upload``), or by saga class for all its steps.
        function_options: of all functions of steps that ``functions`` does not name.
        environment: variables that reach every function, the supervisor included.
        sagas_table: the control table, when there is one already: of this service alone.
        audit_table: the audit table, when there is one already: of this service alone.
        mount: the resource of an API of this stack, such as ``api.root.add_resource("orders")``, below which the
            service's own go; an API of its own when absent. Its stage, and what it answers itself, stay as they are.
        isolation: ``step`` gives each step a queue, a function and a role of its own; ``saga`` gives all steps of a
            saga one of each, for cost and cold starts. The longest timeout and the most attempts hold for all then.
        nested_stacks: whether each saga has a stack of its own, nested in this one. When absent, beyond 40 functions of
            steps: a stack takes 500 resources. Going from one to the other makes new queues and functions.
        alarm_topic: told when an alarm goes on. An alarm cannot publish to a topic under ``aws/sns``.
        dashboard: whether the service has one in CloudWatch. It costs 3 USD a month beyond the account's first three.
        removal_policy: what becomes of tables, bucket and logs when they leave the stack.
        deletion_protection: whether the tables refuse to be deleted; unless said, they do except with DESTROY.
        encryption_key: of KMS, for tables, queues, bucket and logs; AWS's own keys when absent. Its policy must leave
            access to IAM, as those made by the CDK do, and let CloudWatch Logs use it when it is an imported one.
        network: the VPC all functions run in, the supervisor's and the API's included.
        authorizer: decides who may call the API, in place of IAM.
        throttling: what the API lets through.
        architecture: of the functions, unless their options name another.
        runtime: of the functions, a Python from 3.11 on, unless their options name another.
        log_level: DEBUG, INFO, WARNING, ERROR or CRITICAL.
        log_retention: of all log groups.
        retention: how long sagas are kept after their end, for good when absent. Those that own objects stay, and so do
            audit entries.
        payload_limit: bytes above which requests and results go to the bucket, 16 KB unless said.
        shards: over how many keys the indexes of the control table are spread. Fixed once sagas exist.

    Raises:
        DefinitionError: no saga, two of one name, options for a step of no saga here, an option out of range, or
            a limit of AWS exceeded.
        PackagingError: a dependency cannot be fetched for the functions' platform.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        sagas: Sequence[type[Any]],
        functions: Mapping[Any, FunctionOptions] | None = None,
        function_options: FunctionOptions | None = None,
        environment: Mapping[str, str] | None = None,
        sagas_table: AnyTable | None = None,
        audit_table: AnyTable | None = None,
        mount: AnyResource | None = None,
        isolation: Isolation = "step",
        nested_stacks: bool | None = None,
        alarm_topic: sns.ITopic | sns.TopicBase | None = None,
        dashboard: bool = True,
        removal_policy: RemovalPolicy = RemovalPolicy.RETAIN,
        deletion_protection: bool | None = None,
        encryption_key: kms.IKey | kms.Key | None = None,
        network: Network | None = None,
        authorizer: apigateway.IAuthorizer | apigateway.Authorizer | None = None,
        throttling: Throttling | None = None,
        architecture: lambda_.Architecture = lambda_.Architecture.ARM_64,
        runtime: lambda_.Runtime = lambda_.Runtime.PYTHON_3_13,
        log_level: str = "INFO",
        log_retention: logs.RetentionDays = logs.RetentionDays.THREE_MONTHS,
        retention: timedelta | None = None,
        payload_limit: int | None = None,
        shards: int = 8,
    ) -> None:
        super().__init__(scope, id)
        self._options = ServiceOptions(
            service=self.node.path.replace("/", "-"),
            architecture=architecture,
            runtime=runtime,
            log_level=log_level,
            log_retention=log_retention,
            removal_policy=removal_policy,
            deletion_protection=deletion_protection,
            shards=shards,
            retention=retention,
            payload_limit=payload_limit,
            environment=dict(environment or {}),
            encryption_key=encryption_key,
            network=network,
            authorizer=authorizer,
            throttling=throttling or Throttling(),
            isolation=isolation,
        )
        self._catalogue = Catalogue(id, sagas, functions or {}, isolation, function_options)
        let_logs_use(self, encryption_key)
        self.tables = Tables(self, "Tables", options=self._options, sagas=sagas_table, audit=audit_table)
        self._mount = self._mount_point(mount, throttling)
        nested = self._catalogue.too_many if nested_stacks is None else nested_stacks
        self._placements = {saga.name: self._saga_placements(saga, nested) for saga in self._catalogue.sagas}
        self._queues = {
            name: SagaQueues(self, placements, encryption_key) for name, placements in self._placements.items()
        }
        self._shared = self._shared_assets()
        self._functions = self._group_functions()
        self.supervisor = self._supervisor().function
        self._api_function = self._answering()
        self.api = SagaApi(self, "Api", function=self._api_function, options=self._options, mount=self._mount).rest_api
        self._add_alarms(alarm_topic)
        if dashboard:
            self._add_dashboard()

    def function(self, step: AnyStep) -> lambda_.Function:
        """Return the function that runs a step and its undo, to grant it what the step needs.

        With ``isolation="saga"`` it is the same for all steps of a saga.
        """
        return self._functions[self._catalogue.group_of(step)].function

    def queue(self, step: AnyStep) -> sqs.Queue:
        """Return the queue of a step."""
        saga, name = self._catalogue.locate(step)
        return self._queues[saga.name].by_step[name]

    def dead_letter_queue(self, saga_class: type[Any]) -> sqs.Queue:
        """Return the queue where the messages of a saga's steps end that cannot be processed."""
        return self._queues[self._catalogue.definition(saga_class).name].dead_letters

    def allow_sweep(self, saga_class: type[Any], bucket: s3.IBucket | s3.BucketBase) -> None:
        """Let the supervisor list, read and delete objects of ``bucket`` under the saga's prefix, and only there.

        With ``action="report"`` it may but list them; with ``"archive"`` it may also write under ``archive/`` before
        that prefix. A class with an ``on_orphans`` of its own has what its action stands for; grant the rest to
        :attr:`supervisor`.

        Args:
            saga_class: declares ``orphans``.
            bucket: the one whose name is in the variable ``bucket_env``.

        Raises:
            DefinitionError: it is none of the sagas here, or declares no ``orphans``.
        """
        definition = self._catalogue.definition(saga_class)
        if definition.orphans is None:
            raise DefinitionError(f"{self.node.id}: saga {definition.name} declares no orphans to sweep")
        allow_sweeping(self.supervisor, bucket, definition.prefix, definition.orphans.action)

    @property
    def sagas_table(self) -> AnyTable:
        """The control table."""
        return self.tables.sagas

    @property
    def audit_table(self) -> AnyTable:
        """The audit table."""
        return self.tables.audit

    def _mount_point(self, mount: AnyResource | None, throttling: Throttling | None) -> Mount | None:
        if mount is None:
            return None
        if throttling is not None:
            raise DefinitionError(f"{self._options.service}: throttling is that of the stage of the API you mount on")
        return Mount(mounted_api(self._options.service, self, mount), mount)

    def _saga_placements(self, saga: SagaDefinition, nested: bool) -> list[Placement]:
        return placements_of(self, saga, self._catalogue.groups(saga), nested=nested)

    def _shared_assets(self) -> SharedAssets:
        packages = packages_of(saga.saga_class for saga in self._catalogue.sagas)
        layers = Layers(
            self,
            architecture=self._options.architecture,
            runtime=self._options.runtime,
            requirements=requirements_of(packages),
        )
        return SharedAssets(CodeAssets(packages), layers, self._options)

    def _group_functions(self) -> dict[tuple[str, str], StepGroupFunction]:
        return {
            (saga, group.id): self._group_function(scope, group)
            for saga, placements in self._placements.items()
            for placement in placements
            for scope in [Construct(placement.scope, placement.functions_id)]
            for group in placement.groups
        }

    def _group_function(self, scope: Construct, group: StepGroup) -> StepGroupFunction:
        queues = self._queues[group.saga.name]
        return StepGroupFunction(
            scope,
            group.id,
            shared=self._shared,
            group=group,
            queues=queues,
            tables=self.tables,
            environment=service_environment(scope, self.tables, self._options, {group.saga.name: queues}, [group.saga]),
        )

    def _supervisor(self) -> Supervisor:
        return Supervisor(
            self,
            "Supervisor",
            shared=self._shared,
            tables=self.tables,
            queues=self._queues.values(),
            environment=self._environment_of_all(),
        )

    def _answering(self) -> ApiFunction:
        return ApiFunction(
            self,
            "ApiFunction",
            shared=self._shared,
            tables=self.tables,
            queues=self._queues.values(),
            environment={**self._environment_of_all(), **(self._mount.environment if self._mount else {})},
        )

    def _environment_of_all(self) -> dict[str, str]:
        return service_environment(self, self.tables, self._options, self._queues, self._catalogue.sagas)

    def _add_alarms(self, topic: sns.ITopic | sns.TopicBase | None) -> None:
        api = self._api_function.function
        service = self._options.service
        ServiceAlarms(self, "Alarms", service=service, supervisor=self.supervisor, api=api, topic=topic)
        for placement in (placement for placements in self._placements.values() for placement in placements):
            alarms = self._alarms_at(placement, topic)
            for group in placement.groups:
                alarms.add_group(group, self._functions[placement.saga.name, group.id].function)

    def _alarms_at(self, placement: Placement, topic: sns.ITopic | sns.TopicBase | None) -> StepGroupAlarms:
        id, saga, queues = placement.id_of("alarms"), placement.saga, self._queues[placement.saga.name]
        if not placement.saga_wide:
            return StepGroupAlarms(placement.scope, id, queues=queues, topic=topic)
        return SagaAlarms(placement.scope, id, saga=saga, service=self._options.service, queues=queues, topic=topic)

    def _add_dashboard(self) -> None:
        service, supervisor = self._options.service, self.supervisor
        dashboard = ServiceDashboard(
            self,
            "Dashboard",
            service=service,
            api=self.api,
            base_path=self._mount.path if self._mount else "",
            supervisor=supervisor,
            tables=self.tables,
        )
        for saga in self._catalogue.sagas:
            groups = self._catalogue.groups(saga)
            functions = [(group.names, self._functions[saga.name, group.id].function) for group in groups]
            dashboard.add_saga(saga.name, functions, self._queues[saga.name])
