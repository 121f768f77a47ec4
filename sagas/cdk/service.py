"""The construct that turns saga classes into running infrastructure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from sagas.authoring.steps import Undoable
from sagas.cdk.access.api import ApiFunction, Mount, SagaApi, api_environment
from sagas.cdk.access.grants import Access, Grantee
from sagas.cdk.access.sizes import Fitting
from sagas.cdk.compute.audit_archive import AuditArchive
from sagas.cdk.compute.bulk import BULK, NOW, WorkFunction, WorkQueue
from sagas.cdk.compute.environment import service_environment
from sagas.cdk.compute.functions import shared_assets, step_functions
from sagas.cdk.compute.permissions import allow_sweeping
from sagas.cdk.compute.supervisor import SupervisorFunction
from sagas.cdk.data.encryption import let_logs_use
from sagas.cdk.data.queues import SagaQueues
from sagas.cdk.data.tables import Stores
from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.layout.nested_stacks import Placement, layouts_of
from sagas.cdk.layout.tags import default_name
from sagas.cdk.messages.callbacks import CallbackSecret, base_of, has_public_waits
from sagas.cdk.messages.commands import CommandFunction
from sagas.cdk.messages.events import Outbox
from sagas.cdk.messages.integration import Integration
from sagas.cdk.messages.sources import Source
from sagas.cdk.options.existing import AnyTable
from sagas.cdk.options.service_options import SagaServiceProps, ServiceOptions, service_options
from sagas.cdk.parts.alarms import Alarms, Waking, topic_of
from sagas.cdk.parts.part import Part, resources
from sagas.cdk.parts.releases import Releases
from sagas.cdk.watch.dashboard import ServiceDashboard
from sagas.cdk.watch.notes import note
from sagas.cdk.watch.saga_alarms import watch_background, watch_sagas, watch_service
from sagas.errors import DefinitionError

AnyStep = Undoable

PARTS: tuple[type[Part], ...] = (Stores, WorkFunction, SagaApi, CallbackSecret, AuditArchive, Outbox, CommandFunction)
"""The parts of a service. They count their resources before any part is created."""


class SagaService(Construct):
    """The functions, queues, tables, API and supervisor for a set of sagas.

    Args:
        scope: parent construct.
        id: construct id.
        props: options, by keyword; see :class:`SagaServiceProps`. Only ``sagas`` is required.

    Raises:
        DefinitionError: no saga, two sagas with one name, options for a step of another service, an unknown option, an
            option out of range, or a limit of AWS exceeded.
        PackagingError: a dependency cannot be fetched for the functions' platform.
    """

    def __init__(self, scope: Construct, id: str, **props: Unpack[SagaServiceProps]) -> None:
        super().__init__(scope, id)
        options = service_options(default_name(self), props)
        catalogue = self._catalogue = Catalogue(id, options)
        sagas = catalogue.sagas
        let_logs_use(self, options.encryption_key)
        self.tables = Stores(self, "Tables", options=options, families=catalogue.families)
        mount = Mount.of(options, self)
        layouts = layouts_of(self, catalogue, resources(PARTS, catalogue))
        placements = [placement for layout in layouts for placement in layout.placements]
        queues = {layout.saga.name: SagaQueues(self, layout, options.encryption_key) for layout in layouts}
        bulk_queue = WorkQueue(self, "BulkQueue", kind=BULK, options=options)
        now_queue = WorkQueue(self, "NowQueue", kind=NOW, options=options) if catalogue.works_now else None
        shared = shared_assets(self, catalogue, self.tables, queues, now_queue and now_queue.queue)
        functions = step_functions(placements, shared)
        self._queues = queues
        self._functions = functions

        ending = {} if now_queue is None else {now_queue.name: now_queue.queue}
        handing = {bulk_queue.name: bulk_queue.queue, **ending}
        environment = service_environment(self, self.tables, options, queues, sagas, ending)
        working = service_environment(self, self.tables, options, queues, sagas, handing)
        supervisor = SupervisorFunction(self, "Supervisor", shared=shared, work=handing, environment=working)
        self.supervisor = supervisor.function
        bulk = WorkFunction(
            self,
            "Bulk",
            shared=shared,
            work=bulk_queue,
            environment=working,
            also=[*ending.values()],
        )
        self.bulk = bulk.function
        self._sweeping = (supervisor.role, bulk.role)
        self._parts: list[Part] = [self.tables, *queues.values(), supervisor, bulk]
        self.now: lambda_.Function | None = None
        """The function that ends waits; ``None`` if no saga waits."""
        if now_queue is not None:
            now = WorkFunction(
                self,
                "Now",
                shared=shared,
                work=now_queue,
                environment=environment,
                counting=any(saga.auto_disable is not None for saga in sagas),
            )
            self.now = now.function
            self._parts.append(now)

        described = {**environment, **api_environment(options, mount)}
        answering = ApiFunction(self, "ApiFunction", shared=shared, environment=described)
        public = has_public_waits(sagas)
        api = SagaApi(self, "Api", function=answering, options=options, mount=mount, callbacks=public)
        self.api = api.rest_api
        self._parts.append(api)
        path = mount.path if mount else ""
        if public:
            base = options.callback_base_url or base_of(options.service, self.api, path)
            callbacks = CallbackSecret(self, "Callbacks", options=options, base=base)
            callbacks.let_check(answering)
            for group in (group for placement in placements for group in placement.groups):
                callbacks.let_sign(functions[group.saga.name, group.id], group.steps)
            self._parts.append(callbacks)
        self._archive = None
        if options.archive is not None:
            self._archive = AuditArchive(self, "Archive", shared=shared, archive=options.archive)
            self._parts.append(self._archive)

        self._alarms = self._watch(options, placements)
        self._integration = Integration(
            self,
            catalogue=catalogue,
            shared=shared,
            supervisor=supervisor,
            environment=environment,
            add=self._add,
        )
        fitting = Fitting(self, self.api.rest_api_id)
        for role in (supervisor.role, bulk.role, answering.role, *(function.role for function in functions.values())):
            fitting.watch(role)
        self._access = Access(
            self,
            catalogue=catalogue,
            queues=queues,
            api=self.api,
            supervisor=self.supervisor,
            let_send=self._integration.let_send,
            fitting=fitting,
        )
        if options.events is not None:
            self._integration.outbox()
        note(self, catalogue, placements)
        if options.dashboard:
            ServiceDashboard(
                self,
                "Dashboard",
                catalogue=catalogue,
                shared=shared,
                functions=functions,
                supervisor=self.supervisor,
                api=self.api,
                base_path=path,
            )

    def function(self, step: AnyStep) -> lambda_.Function:
        """Return the function that runs a step and its undo, so you can grant it the permissions that the step needs.

        With ``isolation="saga"`` all steps of a saga have the same function.
        """
        return self._functions[self._catalogue.group_of(step)].function

    def alias(self, step: AnyStep) -> lambda_.Alias:
        """Return the alias of a step's function. The alias points to the version that handles messages."""
        return self._functions[self._catalogue.group_of(step)].alias

    def queue(self, step: AnyStep) -> sqs.Queue:
        """Return the queue for messages of a step."""
        saga, name = self._catalogue.locate(step)
        return self._queues[saga.name].by_step[name]

    def dead_letter_queue(self, saga_class: type[Any]) -> sqs.Queue:
        """Return the dead-letter queue of a saga's steps."""
        saga = self._catalogue.definition(saga_class)
        if not saga.has_code:
            raise DefinitionError(f"{self.node.id}: saga {saga.name} only waits, so it has no dead-letter queue")
        return self._queues[saga.name].dead_letters

    def allow_sweep(
        self,
        saga_class: type[Any],
        bucket: s3.IBucket | s3.BucketBase,
        *,
        archive_to: s3.IBucket | s3.BucketBase | None = None,
    ) -> None:
        """Let sweeps list, read and delete objects of ``bucket`` under the saga's prefix, and nowhere else.

        With ``action="report"``, sweeps can only list objects. With ``"archive"``, they can also write under
        ``archive/`` followed by the prefix. The same applies if a class has its own ``on_orphans``. Grant further
        permissions to :attr:`supervisor` and :attr:`bulk`.

        Args:
            saga_class: a class that declares ``orphans``.
            bucket: the bucket whose name is in the variable ``bucket_env``.
            archive_to: the bucket whose name is in the variable ``archive_bucket_env``, if the class declares one.

        Raises:
            DefinitionError: the class is not one of the service or has no ``orphans``, or ``archive_to`` does not match
                its declaration.
        """
        definition = self._catalogue.definition(saga_class)
        if definition.orphans is None:
            fault = f"saga type {definition.name!r} has no orphans= policy, so there is nothing to sweep"
            raise DefinitionError(f"{self.node.id}: {fault}")
        declared = definition.orphans.archive_bucket_env
        if (declared is None) is not (archive_to is None):
            fault = "declares no archive_bucket_env" if declared is None else f"archives to the bucket of {declared}"
            raise DefinitionError(f"{self.node.id}: saga {definition.name} {fault}; see archive_to")
        for role in self._sweeping:
            allow_sweeping(role, bucket, definition.prefix, definition.orphans.action, archive_to or bucket)

    def grant_start(self, grantee: Grantee, *saga_classes: type[Any]) -> iam.Grant:
        """Let a principal start sagas, but not read or change them. The response to a start contains the saga.

        A grant for all types includes sending to the command queue, now or as soon as there is one. IAM cannot
        distinguish commands: a principal that can send commands can also signal and cancel.

        Args:
            grantee: a role, user, group or managed policy.
            saga_classes: types that may be started. Default: all.

        Raises:
            DefinitionError: a class is not one of the service, or its API is not authorized by IAM.
        """
        return self._access.start(grantee, saga_classes)

    def grant_read(self, grantee: Grantee, *saga_classes: type[Any]) -> iam.Grant:
        """Let a principal read sagas and their audit trails, including requests and results.

        A grant for all types includes lists, circuit breakers and the OpenAPI description. They show all types, and IAM
        cannot distinguish one list from another.

        Args, raises: as :meth:`grant_start`.
        """
        return self._access.grant("read", grantee, saga_classes)

    def grant_signal(self, grantee: Grantee, *saga_classes: type[Any]) -> iam.Grant:
        """Let a principal send signals to steps that wait for them. The response to a signal contains the saga.

        Args, raises: as :meth:`grant_start`.
        """
        return self._access.grant("signal", grantee, saga_classes)

    def grant_cancel(self, grantee: Grantee, *saga_classes: type[Any]) -> iam.Grant:
        """Let a principal cancel sagas. The response to a cancel contains the saga.

        Args, raises: as :meth:`grant_start`; also when a class is declared with ``cancellable=False``.
        """
        return self._access.cancel(grantee, saga_classes)

    def grant_operate(self, grantee: Grantee, *saga_classes: type[Any]) -> iam.Grant:
        """Let a principal retry, compensate, resolve, pause and resume sagas, set their recovery attempts, close their
        circuit breakers, and read, redrive and delete their dead letters.

        A grant for all types includes calling the supervisor, which recovers stalled sagas, sweeps orphans and replays
        events of all types. Every grant includes reading the templates of the service's stacks, in which the command
        line finds queues and functions.

        The grant does not include reading, which most operators also need, or cancelling or purging.

        Args, raises: as :meth:`grant_start`.
        """
        return self._access.operate(grantee, saga_classes)

    def grant_purge(self, grantee: Grantee, *saga_classes: type[Any]) -> iam.Grant:
        """Let a principal delete the data of ended sagas. A deletion is final, so no other right includes it.

        Args, raises: as :meth:`grant_start`.
        """
        return self._access.grant("purge", grantee, saga_classes)

    def command_queue(self) -> sqs.Queue:
        """Return the queue for commands that start, signal and cancel sagas, as JSON messages; see
        ``docs/build/events.md``.

        The first call of this, :meth:`start_on` or :meth:`signal_on` adds the queue to the stack, with its dead-letter
        queue and function.
        """
        return self._integration.commands().commands.queue

    def command_dead_letter_queue(self) -> sqs.Queue:
        """Return the dead-letter queue of rejected commands, each with the reason in its attributes.

        The first call adds the queue to the stack, as for :meth:`command_queue`.
        """
        return self._integration.commands().commands.dead_letters

    def event_bus(self) -> events.IEventBus:
        """Return the EventBridge bus on which the service publishes the events listed in ``docs/build/events.md``.

        The first call turns publishing on: the control table gets a stream, and a function publishes committed changes.
        The bus is the one passed as ``events=``, or else a new one.
        """
        return self._integration.outbox().bus

    def start_on(
        self,
        source: Source,
        saga_class: type[Any],
        *,
        request: object = "$.detail",
        key: str | Sequence[str] | None = None,
    ) -> None:
        """Start a saga for each event of a source, exactly one per key.

        All events have the form of EventBridge's events. The message of an SNS notification, or the body of a queue's
        message, becomes the ``detail``. JSON is parsed.

        Args:
            source: an EventBridge rule; a schedule: an ``events.Schedule`` (a rule is created for it), a
                ``ScheduleExpression`` of EventBridge Scheduler, or a ``Schedule`` (its target is replaced); a bucket,
                for the objects created in it; a topic; or a queue with a visibility timeout of at least 30 seconds.
            saga_class: the class of the sagas to start.
            request: a path into the event, such as ``$.detail``; or JSON that contains such paths.
            key: the path that identifies the event, or several paths and texts, which are joined by slashes. Default:
                EventBridge's id, the id of Scheduler's execution, key and sequencer of an object, or the id of a
                notification or message.

        Raises:
            DefinitionError: the saga is not one of the service; a path is invalid; the request has no paths and does
                not match the saga's type; or the source is not supported or cannot be connected.
        """
        self._integration.start_on(source, saga_class, request=request, key=key)

    def signal_on(
        self,
        source: Source,
        step: Undoable,
        *,
        saga_id: str = "$.detail.saga_id",
        value: object = "$.detail",
    ) -> None:
        """Send a signal for each event of a source.

        Args:
            source: as for :meth:`start_on`.
            step: the step that takes the signal, such as ``Loan.approval``.
            saga_id: the path to the saga's id.
            value: a path into the event, or JSON that contains such paths.

        Raises:
            DefinitionError: the step takes no signal; otherwise as for :meth:`start_on`.
        """
        self._integration.signal_on(source, step, saga_id=saga_id, value=value)

    @property
    def archive_bucket(self) -> s3.IBucket | None:
        """The bucket with the archive of the audit trail; ``None`` if ``archive=`` is not set."""
        return None if self._archive is None else self._archive.bucket

    @property
    def sagas_table(self) -> AnyTable:
        """The control table."""
        return self.tables.sagas

    @property
    def audit_table(self) -> AnyTable:
        """The audit table."""
        return self.tables.audit

    def _watch(self, options: ServiceOptions, placements: Sequence[Placement]) -> Alarms:
        """Add the alarms of all parts. If one fires during a gradual deployment, the deployment is rolled back."""
        releases = None
        if options.deployment is not None:
            releases = Releases(self, "Releases", service=options.service, deployment=options.deployment)
        topic = topic_of(self, options.alarm_topic, options.encryption_key)
        by_step = options.alarms_by_step
        waking = Waking(
            options.service,
            topic,
            options.runbook_url,
            releases,
            by_step=by_step,
            every=options.recover_every,
        )
        alarms = Alarms(self, "Alarms", waking=waking)
        watch_service(alarms)
        if not by_step:
            letters = [part.work.dead_letters for part in self._parts if isinstance(part, WorkFunction)]
            watch_background(alarms, self.supervisor, letters)
        for part in self._parts:
            part.watch(alarms)
        watch_sagas(placements, self._queues, self._functions, waking)
        return alarms

    def _add(self, part: Part) -> None:
        """Add a part that is created on request."""
        self._parts.append(part)
        part.watch(self._alarms)
