"""One construct that turns saga classes into running infrastructure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack, cast

from aws_cdk import Annotations
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IConstruct

from sagas.authoring.definition.definition import SagaDefinition
from sagas.authoring.steps import Undoable
from sagas.cdk.access.api import ApiFunction, Mount, SagaApi
from sagas.cdk.access.permissions import allow_sweeping
from sagas.cdk.compute.bulk import BULK, NOW, WorkFunction, WorkQueue
from sagas.cdk.compute.code import CodeAssets, requirements_of
from sagas.cdk.compute.functions import SagaFunction, SharedAssets, StepGroupFunction
from sagas.cdk.compute.layer import Layers
from sagas.cdk.compute.releases import Releases
from sagas.cdk.compute.supervisor import Supervisor
from sagas.cdk.data.audit_archive import AuditArchive
from sagas.cdk.data.encryption import let_logs_use
from sagas.cdk.data.existing import AnyTable, mounted_api
from sagas.cdk.data.stateful import watch_layout
from sagas.cdk.data.tables import Tables
from sagas.cdk.environment import service_environment, types_file
from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.layout.counting import MOST_AT_ONCE, MOST_OF_ONE_STACK, MOST_RESOURCES, Part
from sagas.cdk.layout.nested_stacks import Layout, Placement, layout_of, service_token
from sagas.cdk.layout.parts import default_name
from sagas.cdk.messages.callbacks import Callbacks, base_of, has_public_waits, makes_urls
from sagas.cdk.messages.inout import InOut
from sagas.cdk.messages.queues import SagaQueues
from sagas.cdk.options import SagaServiceProps, service_options
from sagas.cdk.watch.alarms import SagaAlarms, ServiceAlarms, StepGroupAlarms, Waking
from sagas.cdk.watch.dashboard import MOST_SHOWN, ServiceDashboard
from sagas.cdk.watch.telemetry import needed_extras
from sagas.errors import DefinitionError

AnyStep = Undoable
_UNDOING = ("RecordFailed", "CompensationFailed", "NeedsAttention")
"""Alarms of a saga type that undo a deployment which is under way."""

_KEPT_FOR_GOOD = (
    "keeps all sagas for good, as it has no retention. Each million sagas of five steps adds about 2 USD to every "
    "month's bill from then on (4 KB each, with backups): see docs/operations/deploying.md#keeping"
)


class SagaService(InOut):
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
        options = self._options = service_options(default_name(self), props)
        self._catalogue = Catalogue(id, options)
        self._senders = []
        sagas = self._catalogue.sagas
        let_logs_use(self, options.encryption_key)
        self.tables = Tables(self, "Tables", options=options, families=self._catalogue.families)
        mount = None
        if options.mount is not None:
            mount = Mount(mounted_api(options.service, self, options.mount), options.mount)
        layouts = self._layouts()
        self._queues = {layout.saga.name: SagaQueues(self, layout, options.encryption_key) for layout in layouts}
        # What variables have no room for is in a file beside the code, for the functions of all sagas and of each.
        owners: list[tuple[type | None, list[SagaDefinition]]] = [(None, sagas)]
        owners += [(saga.saga_class, [saga]) for saga in sagas]
        texts = {owner: types_file(own, self._queues) for owner, own in owners}
        types = {owner: text for owner, text in texts.items() if text is not None}
        code = CodeAssets([saga.saga_class for saga in sagas], types)
        layers = Layers(
            self,
            options.architecture,
            options.runtime,
            requirements_of(code.packages),
            bundle_sdk=options.bundle_sdk,
            extras=(*needed_extras(options.environment or {}), *(("encryption",) if options.payload_key else ())),
        )
        bulk_options, now_options = BULK.options_in(options), NOW.options_in(options)
        work = WorkQueue(self, "BulkQueue", kind=BULK, options=bulk_options, encryption_key=options.encryption_key)
        soon = None
        if self._catalogue.works_now:
            soon = WorkQueue(self, "NowQueue", kind=NOW, options=now_options, encryption_key=options.encryption_key)
        self._work = [one for one in (work, soon) if one is not None]
        shared = self._shared = SharedAssets(self, code, layers, options, self.tables, soon and soon.queue)
        self._functions: dict[tuple[str, str], StepGroupFunction] = {}
        placements = [placement for layout in layouts for placement in layout.placements]
        for placement in placements:
            functions, queues = Construct(placement.scope, placement.functions_id), self._queues[placement.saga.name]
            for group in placement.groups:
                made = StepGroupFunction(functions, group.id, shared=shared, group=group, queues=queues)
                self._functions[group.saga.name, group.id] = made
        queues = self._queues.values()
        ending = {} if soon is None else {soon.name: soon.queue}
        environment = self._environment = service_environment(self, self.tables, options, self._queues, sagas, ending)
        handing = {work.name: work.queue, **ending}
        working = service_environment(self, self.tables, options, self._queues, sagas, handing)
        supervisor = self._supervisor = Supervisor(
            self,
            "Supervisor",
            shared=shared,
            queues=queues,
            work=handing,
            environment=working,
            recover_every=options.recover_every,
            verify_sample=options.verify_sample,
        )
        self.supervisor = supervisor.function
        bulk = WorkFunction(
            self,
            "Bulk",
            shared=shared,
            kind=BULK,
            options=bulk_options,
            work=work,
            queues=queues,
            environment=working,
            also=list(ending.values()),
        )
        self.bulk = bulk.function
        now = None
        if soon is not None:
            now = WorkFunction(
                self,
                "Now",
                shared=shared,
                kind=NOW,
                options=now_options,
                work=soon,
                queues=queues,
                environment=environment,
                listing=any(saga.auto_disable is not None for saga in sagas),
            )
        self.now = None if now is None else now.function
        """The function that ends waits; ``None`` where no saga waits."""
        if mount is not None:
            environment = {**environment, **mount.environment}
        api = ApiFunction(self, "ApiFunction", shared=shared, queues=queues, environment=environment)
        public = has_public_waits(sagas)
        self.api = SagaApi(self, "Api", function=api, options=options, mount=mount, callbacks=public).rest_api
        self._callbacks = None
        if public:
            self._callbacks = self._add_callbacks(placements, api, mount.path if mount else "")
        archive = options.archive
        self._archive = archive and AuditArchive(self, "Archive", shared=shared, archive=archive)
        self._add_alarms(placements, supervisor, api, bulk, now)
        if options.events is not None:
            _ = self.events
        self._add_notes(placements)
        if options.dashboard:
            self._add_dashboard(mount.path if mount else "")
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

    def _layouts(self) -> list[Layout]:
        """The places of all sagas: by what was asked for, else by how much room there is."""
        options = self._options
        service, nested, gradual = options.service, options.nested_stacks, options.deployment is not None
        asked: dict[Part, bool] = {
            "callbacks": has_public_waits(self._catalogue.sagas),
            "archive": options.archive is not None,
            "events": options.events is not None,
            "access_log": options.access_log != "off",
            "network": options.network is not None,
            "web_acl": options.web_acl_arn is not None,
        }
        together, alone = self._catalogue.count([part for part, there in asked.items() if there], gradual=gradual)
        if nested is None and alone > MOST_RESOURCES:
            raise DefinitionError(
                f"{service}: a stack has no room for all its queues: say nested_stacks=True if it is not deployed yet; "
                "see docs/how-to/change-code-in-flight.md if it is"
            )
        if together > MOST_AT_ONCE and nested is not False:
            told = f"it takes about {together:,} resources, and CloudFormation makes {MOST_AT_ONCE:,} in one operation"
            Annotations.of(self).add_info(f"{service}: {told}; add some of its sagas in a second deployment")
        token = service_token(self)
        return [
            layout_of(
                self,
                saga,
                self._catalogue.groups(saga),
                token,
                nested=together > MOST_OF_ONE_STACK if nested is None else nested,
                nested_queues=nested is True,
                gradual=gradual,
            )
            for saga in self._catalogue.sagas
        ]

    def _held(self) -> dict[str, object]:
        """What holds sagas, messages, payloads or keys, by what it is."""
        held: dict[str, object] = {
            "sagas table": self.tables.sagas,
            "audit table": self.tables.audit,
            "payloads": self.tables.payloads,
        }
        if self.tables.joins is not None:
            held["joins table"] = self.tables.joins
        for own in self._queues.values():
            held[f"dead-letter queue of {own.saga}"] = own.dead_letters
            held |= {f"queue of {own.saga}.{group}": queue for group, queue in own.by_group.items()}
        for work in self._work:
            held |= {f"work queue {work.name}": work.queue, f"dead-letter queue of work {work.name}": work.dead_letters}
        if self._options.payload_key is not None:
            held["payload key"] = self._options.payload_key
        if self._callbacks is not None:
            held["callback secret"] = self._callbacks.secret
        if self._archive is not None:
            held |= {"archive": self._archive.bucket, "entries not archived": self._archive.missed}
        return held | self._held_of_events()

    def _add_callbacks(self, placements: Sequence[Placement], api: ApiFunction, path: str) -> Callbacks:
        """The secret of public waits, for the functions of those that may ask for a URL, and the API's."""
        base = self._options.callback_base_url or base_of(self._options.service, self.api, path)
        callbacks = Callbacks(self, "Callbacks", options=self._options, base=base)
        callbacks.let_check(api)
        for group in (group for placement in placements for group in placement.groups):
            if makes_urls(group.steps):
                callbacks.let_sign(self._functions[group.saga.name, group.id])
        return callbacks

    def _add_notes(self, placements: Sequence[Placement]) -> None:
        """Note how ``max_concurrency`` is divided, or that nothing limits the functions of steps; and what keeping
        everything costs."""
        options = self._options
        if options.retention is None:
            Annotations.of(self).add_info(f"{options.service}: {_KEPT_FOR_GOOD}")
        lanes = [group.options for placement in placements for group in placement.groups]
        if shares := self._catalogue.shares:
            told = ", ".join(f"{lane} {share}" for lane, share in shares.items())
            Annotations.of(self).add_info(
                f"{options.service}: max_concurrency={options.max_concurrency} is divided: {told}"
            )
        if not any(lane.maximum_concurrency or lane.reserved_concurrency for lane in lanes):
            told = (
                f"{options.service}: nothing limits its functions, so a burst may take all executions of the account, "
                "those of the API and the supervisor too; set maximum_concurrency, or a reserved_concurrency of "
                'functions={"api": ..., "supervisor": ...}'
            )
            Annotations.of(self).add_info(told)

    def _add_alarms(
        self,
        placements: Sequence[Placement],
        supervisor: SagaFunction,
        api: SagaFunction,
        bulk: WorkFunction,
        now: WorkFunction | None,
    ) -> None:
        """Alarms, and what lets new code take over by and by as long as none of them is on."""
        service = self._options.service
        waking = Waking(self._options.alarm_topic, self._options.runbook_url)
        deployment = self._options.deployment
        releases = None if deployment is None else Releases(self, "Releases", service=service, deployment=deployment)

        def release(function: SagaFunction, *alarms: IConstruct) -> None:
            if releases is not None:
                releases.add(function, function.alias, [cast("cloudwatch.Alarm", alarm) for alarm in alarms])

        if waking.topic is None:
            told = f"{service}: nobody is told when an alarm goes on; give SagaService an alarm_topic"
            Annotations.of(self).add_warning_v2("sagas:NoAlarmTopic", told)
        parts = {"supervisor": supervisor.function, "api": api.function}
        every = self._options.recover_every
        shared = ServiceAlarms(self, "Alarms", service=service, **parts, rest_api=self.api, waking=waking, every=every)
        self._alarms, self._release = shared, release
        letters = "Recovery, purges or sweeps were given up.", "bulk-dead-letters"
        shared.add_work(
            "Bulk", bulk.work.dead_letters, bulk.function, *letters, "The function that recovers, purges and sweeps"
        )
        if self._archive is not None:
            shared.add_archive(self._archive.lag(), self._archive.missed)
        release(supervisor, shared.node.find_child("SupervisorErrors"))
        release(api, shared.node.find_child("ApiErrors"), shared.node.find_child("ApiServerErrors"))
        release(bulk, shared.node.find_child("BulkErrors"))
        if now is not None:
            letters = "Ends of waits were given up, and are left to the supervisor.", "now-dead-letters"
            shared.add_work("Now", now.work.dead_letters, now.function, *letters, "The function that ends waits")
            release(now, shared.node.find_child("NowErrors"))
        saga_wide: dict[str, list[IConstruct]] = {}
        for placement in placements:
            saga, queues = placement.saga, self._queues[placement.saga.name]
            scope, id = placement.scope, placement.id_of("alarms")
            if placement.saga_wide:
                alarms = SagaAlarms(scope, id, saga=saga, service=service, queues=queues, waking=waking)
                # Not those on dead letters: one that waits for an operator would hold back every deployment.
                saga_wide[saga.name] = [alarms.node.find_child(one) for one in _UNDOING]
            else:
                alarms = StepGroupAlarms(scope, id, queues=queues, waking=waking)
            for group in placement.groups:
                function = self._functions[saga.name, group.id]
                alarms.add_group(group, function.function)
                release(function, alarms.node.find_child(f"{group.id}-Errors"), *saga_wide[saga.name])

    def _add_dashboard(self, base_path: str) -> None:
        dashboard = ServiceDashboard(
            self,
            "Dashboard",
            service=self._options.service,
            api=self.api,
            base_path=base_path,
            supervisor=self.supervisor,
            tables=self.tables,
            runbook=self._options.runbook_url,
        )
        for saga in self._catalogue.sagas:
            groups = self._catalogue.groups(saga)
            functions = [(group.names, self._functions[saga.name, group.id].function) for group in groups]
            by_step = len(self._functions) <= MOST_SHOWN
            dashboard.add_saga(saga.name, functions, self._queues[saga.name], by_step=by_step)
