"""One construct that turns saga classes into running infrastructure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from sagas.authoring.steps import Undoable
from sagas.cdk.access.api import ApiFunction, Mount, SagaApi
from sagas.cdk.access.grants import Access, Grantee
from sagas.cdk.compute.audit_archive import AuditArchive
from sagas.cdk.compute.bulk import BULK, NOW, WorkFunction, WorkQueue
from sagas.cdk.compute.environment import service_environment
from sagas.cdk.compute.functions import shared_assets, step_functions
from sagas.cdk.compute.permissions import allow_sweeping
from sagas.cdk.compute.supervisor import Supervisor
from sagas.cdk.data.encryption import let_logs_use
from sagas.cdk.data.queues import SagaQueues
from sagas.cdk.data.stateful import watch_layout
from sagas.cdk.data.tables import Tables
from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.layout.nested_stacks import Placement, layouts_of
from sagas.cdk.layout.tags import default_name
from sagas.cdk.messages.callbacks import Callbacks, base_of, has_public_waits
from sagas.cdk.messages.commands import CommandFunction
from sagas.cdk.messages.events import Outbox
from sagas.cdk.messages.integration import Integration
from sagas.cdk.messages.sources import Source
from sagas.cdk.options.existing import AnyTable
from sagas.cdk.options.service_options import SagaServiceProps, ServiceOptions, service_options
from sagas.cdk.parts.alarms import Alarms, Waking
from sagas.cdk.parts.part import Part, resources
from sagas.cdk.parts.releases import Releases
from sagas.cdk.watch.dashboard import add_dashboard
from sagas.cdk.watch.notes import note
from sagas.cdk.watch.saga_alarms import watch_sagas, watch_service
from sagas.errors import DefinitionError

AnyStep = Undoable

PARTS: tuple[type[Part], ...] = (Tables, WorkFunction, SagaApi, Callbacks, AuditArchive, Outbox, CommandFunction)
"""What a service counts, before it makes some of them."""


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
        options = service_options(default_name(self), props)
        catalogue = self._catalogue = Catalogue(id, options)
        sagas = catalogue.sagas
        let_logs_use(self, options.encryption_key)
        self.tables = Tables(self, "Tables", options=options, families=catalogue.families)
        mount = Mount.of(options, self)
        layouts = layouts_of(self, catalogue, resources(PARTS, catalogue))
        placements = [placement for layout in layouts for placement in layout.placements]
        queues = {layout.saga.name: SagaQueues(self, layout, options.encryption_key) for layout in layouts}
        own_queues = queues.values()
        bulk_queue = WorkQueue(self, "BulkQueue", kind=BULK, options=options)
        now_queue = WorkQueue(self, "NowQueue", kind=NOW, options=options) if catalogue.works_now else None
        shared = shared_assets(self, catalogue, self.tables, queues, now_queue and now_queue.queue)
        functions = step_functions(placements, shared, queues)
        self._queues, self._functions = queues, functions

        ending = {} if now_queue is None else {now_queue.name: now_queue.queue}
        handing = {bulk_queue.name: bulk_queue.queue, **ending}
        environment = service_environment(self, self.tables, options, queues, sagas, ending)
        working = service_environment(self, self.tables, options, queues, sagas, handing)
        supervisor = Supervisor(self, "Supervisor", shared=shared, queues=own_queues, work=handing, environment=working)
        self.supervisor = supervisor.function
        bulk = WorkFunction(
            self,
            "Bulk",
            shared=shared,
            work=bulk_queue,
            queues=own_queues,
            environment=working,
            also=[*ending.values()],
        )
        self.bulk = bulk.function
        self._parts: list[Part] = [self.tables, *own_queues, supervisor, bulk]
        self.now: lambda_.Function | None = None
        """The function that ends waits; ``None`` where no saga waits."""
        if now_queue is not None:
            now = WorkFunction(
                self,
                "Now",
                shared=shared,
                work=now_queue,
                queues=own_queues,
                environment=environment,
                listing=any(saga.auto_disable is not None for saga in sagas),
            )
            self.now = now.function
            self._parts.append(now)

        mounted = environment if mount is None else {**environment, **mount.environment}
        answering = ApiFunction(self, "ApiFunction", shared=shared, queues=own_queues, environment=mounted)
        public = has_public_waits(sagas)
        api = SagaApi(self, "Api", function=answering, options=options, mount=mount, callbacks=public)
        self.api = api.rest_api
        self._parts.append(api)
        path = mount.path if mount else ""
        if public:
            base = options.callback_base_url or base_of(options.service, self.api, path)
            callbacks = Callbacks(self, "Callbacks", options=options, base=base)
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
            queues=own_queues,
            supervisor=supervisor,
            environment=environment,
            add=self._add,
        )
        self._access = Access(
            self,
            catalogue=catalogue,
            queues=queues,
            api=self.api,
            supervisor=self.supervisor,
            let_send=self._integration.let_send,
        )
        if options.events is not None:
            self._integration.outbox()
        note(self, catalogue, placements)
        if options.dashboard:
            add_dashboard(self, catalogue, self.tables, queues, functions, self.supervisor, self.api, path)
        watch_layout(self, self._held)

    def function(self, step: AnyStep) -> lambda_.Function:
        """Return the function that runs a step and its undo, to grant it what the step needs.

        With ``isolation="saga"`` it is the same for all steps of a saga.
        """
        return self._functions[self._catalogue.group_of(step)].function

    def alias(self, step: AnyStep) -> lambda_.Alias:
        """Return the alias of that function, for the version that handles messages."""
        return self._functions[self._catalogue.group_of(step)].alias

    def queue(self, step: AnyStep) -> sqs.Queue:
        """Return the queue of a step."""
        saga, name = self._catalogue.locate(step)
        return self._queues[saga.name].by_step[name]

    def dead_letter_queue(self, saga_class: type[Any]) -> sqs.Queue:
        """Return the queue where the messages of a saga's steps end that cannot be processed."""
        return self._queues[self._catalogue.definition(saga_class).name].dead_letters

    def allow_sweep(
        self,
        saga_class: type[Any],
        bucket: s3.IBucket | s3.BucketBase,
        *,
        archive_to: s3.IBucket | s3.BucketBase | None = None,
    ) -> None:
        """Let sweeps list, read and delete objects of ``bucket`` under the saga's prefix, and only there.

        With ``action="report"`` it may but list them; with ``"archive"`` it may also write under ``archive/`` before
        that prefix. A class with an ``on_orphans`` of its own has what its action stands for; grant the rest to
        :attr:`supervisor` and :attr:`bulk`.

        Args:
            saga_class: declares ``orphans``.
            bucket: the one whose name is in the variable ``bucket_env``.
            archive_to: the one whose name is in the variable ``archive_bucket_env``, where the class declares that.

        Raises:
            DefinitionError: it is none of the sagas here, or declares no ``orphans``; or ``archive_to`` does not fit
                what it declares.
        """
        definition = self._catalogue.definition(saga_class)
        if definition.orphans is None:
            raise DefinitionError(f"{self.node.id}: saga {definition.name} declares no orphans to sweep")
        declared = definition.orphans.archive_bucket_env
        if (declared is None) is not (archive_to is None):
            told = "declares no archive_bucket_env" if declared is None else f"archives to the bucket of {declared}"
            raise DefinitionError(f"{self.node.id}: saga {definition.name} {told}: see archive_to")
        for function in (self.supervisor, self.bulk):
            allow_sweeping(function, bucket, definition.prefix, definition.orphans.action, archive_to or bucket)

    def grant_start(self, grantee: Grantee, *saga_classes: type[Any]) -> iam.Grant:
        """Let a principal start sagas, and neither read nor change them; a start is answered with the saga.

        Where all types are meant it may also send to the command queue, if the service has one or is given one later.
        IAM sees a queue, not what a command says: who may send there may signal and cancel, too.

        Args:
            grantee: a role, user, group or managed policy.
            saga_classes: types that may be started; all when absent.

        Raises:
            DefinitionError: a class is not one of the service, or its API is authorized by other means than IAM.
        """
        return self._access.start(grantee, saga_classes)

    def grant_read(self, grantee: Grantee, *saga_classes: type[Any]) -> iam.Grant:
        """Let a principal read sagas and their audit trails, requests and results included.

        Without classes also the lists, the circuit breakers and the OpenAPI description, which show all types: IAM
        cannot tell one list from another.

        Args, raises: as :meth:`grant_start`.
        """
        return self._access.grant("read", grantee, saga_classes)

    def grant_signal(self, grantee: Grantee, *saga_classes: type[Any]) -> iam.Grant:
        """Let a principal send signals to steps that wait for them; a signal is answered with the saga.

        Args, raises: as :meth:`grant_start`.
        """
        return self._access.grant("signal", grantee, saga_classes)

    def grant_cancel(self, grantee: Grantee, *saga_classes: type[Any]) -> iam.Grant:
        """Let a principal cancel sagas; a cancel is answered with the saga.

        Args, raises: as :meth:`grant_start`; also when a class is declared with ``cancellable=False``.
        """
        return self._access.cancel(grantee, saga_classes)

    def grant_operate(self, grantee: Grantee, *saga_classes: type[Any]) -> iam.Grant:
        """Let a principal retry, compensate and resolve sagas, set how patient the supervisor is with them, pause and
        resume them, close their circuit breakers, and look into, redrive and prune their dead letters.

        Without classes also call the supervisor, which looks for stalled sagas, sweeps orphans and publishes events
        once more, of all types. With or without, read the templates of the service's stacks: the command line finds
        queues and functions by them.

        It includes neither reading, which most operators need besides, nor cancelling nor purging.

        Args, raises: as :meth:`grant_start`.
        """
        return self._access.operate(grantee, saga_classes)

    def grant_purge(self, grantee: Grantee, *saga_classes: type[Any]) -> iam.Grant:
        """Let a principal delete what is stored of sagas that are over. It cannot be undone, so no other right has it.

        Args, raises: as :meth:`grant_start`.
        """
        return self._access.grant("purge", grantee, saga_classes)

    def command_queue(self) -> sqs.Queue:
        """Return the queue that takes commands as JSON messages: to start, signal and cancel sagas:
        ``docs/how-to/events.md``.

        The first call deploys it, with its dead letters and its function. So do :meth:`start_on` and :meth:`signal_on`.
        """
        return self._integration.commands().commands.queue

    def command_dead_letter_queue(self) -> sqs.Queue:
        """Return the queue where commands end that cannot be carried out, each with the reason in its attributes.

        The first call deploys it, as that of :meth:`command_queue` does.
        """
        return self._integration.commands().commands.dead_letters

    def event_bus(self) -> events.IEventBus:
        """Return the bus of EventBridge on which the service publishes events of its sagas, as
        ``docs/how-to/events.md`` lists them.

        The first call turns that on: the control table gets a stream, and a function publishes what is committed. The
        bus is the one given as ``events=``, or one of the service's own.
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
        """Start a saga for each event of a source: exactly one for each key.

        An event has the form of EventBridge's: a notification of SNS has its message as ``detail``, and a message of a
        queue its body; as JSON, if it is that.

        Args:
            source: a rule of EventBridge; a schedule (an ``events.Schedule``, for which a rule is made, or a
                ``ScheduleExpression`` of EventBridge Scheduler; of a ``Schedule`` the target is replaced); a bucket,
                for the objects that are created in it; a topic; or a queue, whose messages must be hidden for 30
                seconds at least.
            saga_class: what is started.
            request: a path into the event, such as ``$.detail``; or JSON that contains such paths.
            key: a path to what identifies the event; or several paths and texts, to be joined by slashes. When
                absent, what the source tells events apart by: EventBridge's id, the id of Scheduler's execution, key
                and sequencer of an object, and the id of a notification or a message.

        Raises:
            DefinitionError: the saga is not among those of the service; something is not a path; the request has none
                and does not fit the saga's; or the source is none of these, or cannot be connected.
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
            step: that takes the signal, such as ``Loan.approval``.
            saga_id: the path to the id of the saga.
            value: a path into the event, or JSON that contains such paths.

        Raises:
            DefinitionError: the step takes no signal; otherwise as :meth:`start_on`.
        """
        self._integration.signal_on(source, step, saga_id=saga_id, value=value)

    @property
    def archive_bucket(self) -> s3.IBucket | None:
        """Where the audit trail is archived; ``None`` where it is not."""
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
        """Add the alarms of all parts, and let them undo a gradual deployment."""
        releases = None
        if options.deployment is not None:
            releases = Releases(self, "Releases", service=options.service, deployment=options.deployment)
        waking = Waking(options.service, options.alarm_topic, options.runbook_url, releases)
        alarms = Alarms(self, "Alarms", waking=waking)
        watch_service(alarms)
        for part in self._parts:
            part.watch(alarms)
        watch_sagas(placements, self._queues, self._functions, waking)
        return alarms

    def _add(self, part: Part) -> None:
        """Take in a part that is made when it is asked for."""
        self._parts.append(part)
        part.watch(self._alarms)

    def _held(self) -> Mapping[str, object]:
        """What holds sagas, messages, payloads or keys, by what it is."""
        return {what: one for part in self._parts for what, one in part.held().items()}
