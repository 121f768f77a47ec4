"""One construct that turns saga classes into running infrastructure."""

from __future__ import annotations

from typing import Any, Unpack

from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
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
from sagas.cdk.existing import AnyTable, mounted_api
from sagas.cdk.functions import SharedAssets, StepGroupFunction
from sagas.cdk.layer import Layers
from sagas.cdk.nested_stacks import Placement, placements_of
from sagas.cdk.options import AnyTopic, SagaServiceProps, service_options
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
        props: options, by keyword; :class:`SagaServiceProps` says what each is for. Only ``sagas`` must be given.

    Raises:
        DefinitionError: no saga, two of one name, options for a step of no saga here, an option out of range or not
            known, or a limit of AWS exceeded.
        PackagingError: a dependency cannot be fetched for the functions' platform.
    """

    def __init__(self, scope: Construct, id: str, **props: Unpack[SagaServiceProps]) -> None:
        super().__init__(scope, id)
        options = self._options = service_options(self.node.path.replace("/", "-"), props)
        self._catalogue = Catalogue(id, options)
        let_logs_use(self, options.encryption_key)
        self.tables = Tables(self, "Tables", options=options)
        self._mount = self._mount_point()
        nested = self._catalogue.too_many if options.nested_stacks is None else options.nested_stacks
        self._placements = {saga.name: self._saga_placements(saga, nested) for saga in self._catalogue.sagas}
        self._queues = {
            name: SagaQueues(self, placements, options.encryption_key) for name, placements in self._placements.items()
        }
        self._shared = self._shared_assets()
        self._functions = self._group_functions()
        self.supervisor = self._supervisor().function
        self._api_function = self._answering()
        self.api = SagaApi(self, "Api", function=self._api_function, options=options, mount=self._mount).rest_api
        self._add_alarms(options.alarm_topic)
        if options.dashboard:
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

    def _mount_point(self) -> Mount | None:
        mount = self._options.mount
        return None if mount is None else Mount(mounted_api(self._options.service, self, mount), mount)

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

    def _add_alarms(self, topic: AnyTopic | None) -> None:
        api = self._api_function.function
        service = self._options.service
        ServiceAlarms(self, "Alarms", service=service, supervisor=self.supervisor, api=api, topic=topic)
        for placement in (placement for placements in self._placements.values() for placement in placements):
            alarms = self._alarms_at(placement, topic)
            for group in placement.groups:
                alarms.add_group(group, self._functions[placement.saga.name, group.id].function)

    def _alarms_at(self, placement: Placement, topic: AnyTopic | None) -> StepGroupAlarms:
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
