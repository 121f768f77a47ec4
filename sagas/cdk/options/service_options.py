"""What a user of :class:`SagaService` may choose."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, Literal, Required, TypedDict, cast, get_args

from aws_cdk import RemovalPolicy, Token
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns

from sagas.authoring.policies import AutoDisable
from sagas.cdk.options.archive import Archive
from sagas.cdk.options.capacity import TableOptions
from sagas.cdk.options.checks import fits, of_kind, one_of, variables, within
from sagas.cdk.options.deployment import Deployment
from sagas.cdk.options.existing import AnyResource, AnyTable
from sagas.cdk.options.function_options import LOG_LEVELS, FunctionOptions, Network
from sagas.cdk.options.told import AnyBus, SagaEvents
from sagas.errors import DefinitionError

METRICS_NAMESPACE = "Sagas"
RUNBOOK = "docs/operations/runbook.md"
_LEAST_NOW = 15
"""Seconds for the function that ends waits: it also starts children, up to 25 at a time."""
_OWN_FUNCTIONS = {
    "api": ("batch_size", "maximum_concurrency", "timeout", "weight"),
    "supervisor": ("batch_size", "maximum_concurrency", "weight"),
    "bulk": ("batch_size", "weight"),
    "now": ("batch_size", "weight"),
    "commands": ("batch_size", "timeout", "weight"),
}
"""The functions that a service has besides those of steps, and the options that make no sense there."""
_SERVICE = "[A-Za-z0-9_./-]{1,100}"
_ALIAS = "(?![0-9]+$)[A-Za-z0-9_-]{1,128}"
_BASE_URL = re.compile(r"https://[^\s?#]+[^\s?#/]")

Isolation = Literal["step", "saga"]
AccessLog = Literal["off", "account", "role"]
Endpoint = Literal["regional", "edge"]
TABLES = ("sagas", "audit", "joins")
AnyAuthorizer = apigateway.IAuthorizer | apigateway.Authorizer
AnyKey = kms.IKey | kms.Key
AnyTopic = sns.ITopic | sns.TopicBase


@dataclass(frozen=True, slots=True)
class PrivateEndpoint:
    """An API that can be reached through endpoints of a VPC only.

    Args:
        vpc_endpoints: interface endpoints for ``execute-api``, at least one.

    Raises:
        DefinitionError: none is given.
    """

    vpc_endpoints: Sequence[ec2.IVpcEndpoint | ec2.InterfaceVpcEndpoint]

    def __post_init__(self) -> None:
        if not self.vpc_endpoints:
            raise DefinitionError("PrivateEndpoint: vpc_endpoints must name at least one")


@dataclass(frozen=True, slots=True)
class Throttling:
    """What the API's stage lets through: ``rate`` calls a second, ``burst`` at once."""

    rate: float = 500
    burst: int = 1000

    def __post_init__(self) -> None:
        within("Throttling", "rate", self.rate, 1, 1_000_000)
        within("Throttling", "burst", self.burst, 1, 1_000_000)


class SagaServiceProps(TypedDict, total=False):
    """The keywords of :class:`sagas.cdk.SagaService`, for those too who pass them on from a construct of their own.

    Args:
        sagas: the saga classes, at least one; their names must differ.
        functions: options of functions, by step (``CreateZip.upload``), or by saga class for all its steps. Steps that
            follow each other share a queue, a function and a role where they are named together:
            ``(CreateZip.check, CreateZip.upload)``. Of such a step's own options only ``memory_size`` counts: the
            largest. The service's own functions have names: ``"api"`` (512 MB), ``"supervisor"`` (256 MB, 300
            seconds), ``"bulk"`` (recovers, purges and sweeps; 1,024 MB, 300 seconds, a ``maximum_concurrency`` of 10),
            ``"now"`` (ends waits, where some saga waits; 512 MB, 30 seconds, 15 at least, 20 at a time) and
            ``"commands"`` (works the command queue off, where there is one; 512 MB, 10 at a time).
        function_options: of all functions of steps that ``functions`` does not name.
        environment: variables that reach every function, the supervisor included.
        tables: by name (``sagas``, ``audit``, and ``joins`` where sagas have children), a table that is there already,
            of this service alone; or :class:`TableOptions` of the one that the service makes.
        mount: the resource of an API of this stack, such as ``api.root.add_resource("orders")``, below which the
            service's own go; an API of its own when absent. Its stage, and what it answers itself, stay as they are.
        isolation: ``step`` gives each step a queue, a function and a role of its own, but for those that ``functions``
            names together; ``saga`` gives all steps of a saga one of each, for cost, latency and cold starts. One
            invocation runs as many of the steps that share a function as its time covers.
        alias: of every function, for the version that is in use; queues, API and rules call it.
        keep_versions: whether versions of functions stay when newer ones take over, so that an alias can be moved back
            at once. Nothing deletes them.
        deployment: how the aliases move to new code: ``Deployment.canary(percent=10, minutes=15)``, for one. When
            absent, all at once, with the stack.
        nested_stacks: whether the functions, alarms and queues of each saga are in stacks of their own, nested in this
            one. When absent, queues are in this stack, and so are functions and alarms while there is room; when there
            is none left, they leave it without harm. To go to or from True makes new queues.
        service_name: in metrics, alarms, logs and on the dashboard: up to 100 letters, digits and ``-_./``. The stack's
            name and the construct's path in it when absent, so that no two stacks of an account share metrics.
        alarm_topic: told when an alarm goes on. An alarm cannot publish to a topic under ``aws/sns``.
        runbook_url: where you publish the runbook's page; each alarm names its section there. By default its path here.
        dashboard: whether the service has one in CloudWatch. It costs 3 USD a month beyond the account's first three.
        removal_policy: what becomes of tables, bucket and logs when they leave the stack. They stay unless said; only a
            first deployment that fails takes along what it made.
        deletion_protection: whether the tables refuse to be deleted. Unless said, only with RETAIN: a first deployment
            that fails could not take them back. Switch it on once the stack stands.
        encryption_key: of KMS, for tables, queues, bucket, logs, variables and the service's own event bus; AWS's own
            keys when absent. It must leave access to IAM, as those made by the CDK do. The policy of an imported key
            stays as it is: it must let CloudWatch Logs use it, EventBridge for events and rules, and SNS for topics.
        network: the VPC all functions run in, the supervisor's and the API's included.
        authorizer: decides who may call the API, in place of IAM.
        endpoint: of the API: ``regional``; ``edge``, by way of CloudFront, which aws-cn lacks; or a
            :class:`PrivateEndpoint`.
        access_log: whether the API logs its calls: ``off``; ``account``, by the role that API Gateway has for logs in
            this account and region; ``role`` makes that role, and replaces the one that all other APIs there use.
        tracing: whether functions and API send traces to X-Ray.
        bundle_sdk: whether the layer holds boto3 and botocore as installed here, instead of relying on those of the
            runtime, which AWS updates by itself: True for all of botocore, some 60 MB; or the services that steps call,
            as in ``["sns", "kms"]``, to leave out the descriptions of all others.
        payload_versions: how long overwritten and deleted payloads can be had back from the bucket, in whole days; not
            at all when absent. A purge leaves them for as long.
        throttling: what the API lets through.
        callback_base_url: what callback URLs begin with, where the API is behind a domain of yours, as in
            ``https://hooks.example.com``; the API's own address when absent.
        callback_throttling: what the route of public waits lets through, besides; 50 a second and 100 at once when
            absent.
        web_acl_arn: a web ACL of AWS WAF that the API's stage is put behind.
        architecture: of the functions, unless their options name another.
        runtime: of the functions, a Python from 3.11 on, unless their options name another.
        log_level: DEBUG, INFO, WARNING, ERROR or CRITICAL.
        log_retention: of all log groups.
        retention: how long sagas are kept after their end, for good when absent; then the supervisor purges them, audit
            entries and payloads included. Those of types that own objects stay, and those that need a person until they
            are settled.
        key_retention: how long what is left of a purged saga is kept, without payloads, and its idempotency key starts
            no other; 30 days when absent.
        payload_limit: bytes above which requests and results go to the bucket, 16 KB unless said.
        carry_inputs: whether small requests and results travel in the messages too, so that a step reads nothing. If
            not, no payload is in any queue, dead-letter queues included; steps read theirs, and an outcome that cannot
            be committed is not kept: its step runs again, under the same idempotency key.
        payload_key: of KMS: functions encrypt requests, results and signals before they store them, and need it to read
            them. It implies ``carry_inputs=False``; what is stored already stays as it is.
        auto_disable: of saga types that declare none; none when absent.
        max_concurrency: executions that all functions of steps may take at once. It is divided over them by the
            ``weight`` of their options, 2 at least for each; one with a ``maximum_concurrency`` of its own counts with
            that.
        events: a bus of EventBridge on which the service tells of its sagas, or a :class:`sagas.cdk.SagaEvents`, which
            says what it tells. When absent nothing is told, unless :meth:`SagaService.event_bus` is called.
        recover_every: how often the supervisor looks for stalled sagas: 1 to 5 whole minutes.
        verify_sample: of how many sagas, taken at random, the supervisor verifies the audit trail each day; 0 for none.
        archive: of the audit trail, in S3; none when absent.
        shards: over how many keys the indexes of the control table are spread. It may be raised, never lowered.
    """

    sagas: Required[Sequence[type[Any]]]
    functions: Mapping[Any, FunctionOptions] | None
    function_options: FunctionOptions | None
    environment: Mapping[str, str] | None
    tables: Mapping[str, AnyTable | TableOptions] | None
    mount: AnyResource | None
    isolation: Isolation
    alias: str
    keep_versions: bool
    deployment: Deployment | None
    nested_stacks: bool | None
    service_name: str | None
    alarm_topic: AnyTopic | None
    runbook_url: str
    dashboard: bool
    removal_policy: RemovalPolicy
    deletion_protection: bool | None
    encryption_key: AnyKey | None
    network: Network | None
    authorizer: AnyAuthorizer | None
    endpoint: Endpoint | PrivateEndpoint
    access_log: AccessLog
    tracing: bool
    bundle_sdk: bool | Sequence[str]
    payload_versions: timedelta | None
    throttling: Throttling | None
    callback_base_url: str | None
    callback_throttling: Throttling | None
    web_acl_arn: str | None
    architecture: lambda_.Architecture
    runtime: lambda_.Runtime
    log_level: str
    log_retention: logs.RetentionDays
    retention: timedelta | None
    key_retention: timedelta | None
    payload_limit: int | None
    carry_inputs: bool
    payload_key: AnyKey | None
    auto_disable: AutoDisable | None
    max_concurrency: int | None
    events: SagaEvents | AnyBus | None
    recover_every: timedelta
    verify_sample: int
    archive: Archive | None
    shards: int


_INSTEAD = {
    "chain": "steps that share a function are always chained",
    "queue_names": "names of queues are always derived from saga, step and service",
    "api_options": 'give functions={"api": FunctionOptions(...)}',
    "supervisor_options": 'give functions={"supervisor": FunctionOptions(...)}',
    "bulk_options": 'give functions={"bulk": FunctionOptions(...)}',
    "now_options": 'give functions={"now": FunctionOptions(...)}',
    "command_options": 'give functions={"commands": FunctionOptions(...)}',
    "sagas_table": 'give tables={"sagas": ...}',
    "audit_table": 'give tables={"audit": ...}',
    "joins_table": 'give tables={"joins": ...}',
    "table_options": "give tables={name: TableOptions(...)}",
}
"""What to do in place of options that are no longer there."""

_KINDS: dict[type, str] = {
    FunctionOptions: "function_options?",
    Throttling: "throttling? callback_throttling?",
    Network: "network?",
    Deployment: "deployment?",
    AutoDisable: "auto_disable?",
    Archive: "archive?",
    Mapping: "functions? environment? tables?",
    bool: "dashboard keep_versions tracing carry_inputs nested_stacks? deletion_protection?",
}
"""Options by what they must be; with a question mark those that may be None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """A service's name in metrics and messages, the options it was given, and the defaults of the rest.

    Raises:
        DefinitionError: a value that AWS or the library would refuse.
    """

    service: str
    sagas: Sequence[type[Any]]
    functions: Mapping[Any, FunctionOptions] | None = None
    function_options: FunctionOptions | None = None
    environment: Mapping[str, str] | None = None
    tables: Mapping[str, AnyTable | TableOptions] | None = None
    mount: AnyResource | None = None
    isolation: Isolation = "step"
    alias: str = "live"
    keep_versions: bool = False
    deployment: Deployment | None = None
    nested_stacks: bool | None = None
    alarm_topic: AnyTopic | None = None
    runbook_url: str = RUNBOOK
    dashboard: bool = True
    removal_policy: RemovalPolicy = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
    deletion_protection: bool | None = None
    encryption_key: AnyKey | None = None
    network: Network | None = None
    authorizer: AnyAuthorizer | None = None
    endpoint: Endpoint | PrivateEndpoint = "regional"
    access_log: AccessLog = "off"
    tracing: bool = True
    bundle_sdk: bool | Sequence[str] = False
    payload_versions: timedelta | None = None
    throttling: Throttling | None = None
    callback_base_url: str | None = None
    callback_throttling: Throttling | None = None
    web_acl_arn: str | None = None
    architecture: lambda_.Architecture = lambda_.Architecture.ARM_64
    runtime: lambda_.Runtime = lambda_.Runtime.PYTHON_3_13
    log_level: str = "INFO"
    log_retention: logs.RetentionDays = logs.RetentionDays.THREE_MONTHS
    retention: timedelta | None = None
    key_retention: timedelta | None = None
    payload_limit: int | None = None
    carry_inputs: bool = True
    payload_key: AnyKey | None = None
    auto_disable: AutoDisable | None = None
    max_concurrency: int | None = None
    events: SagaEvents | AnyBus | None = None
    recover_every: timedelta = timedelta(minutes=1)
    verify_sample: int = 100
    archive: Archive | None = None
    shards: int = 8

    def __post_init__(self) -> None:
        self._check_kinds()
        fits(self.service, self.architecture, self.runtime)
        one_of(self.service, "log_level", self.log_level, LOG_LEVELS)
        one_of(self.service, "isolation", self.isolation, ("step", "saga"))
        self._check_api()
        if isinstance(self.bundle_sdk, str):
            raise DefinitionError(f"{self.service}: bundle_sdk must be a list of services, not {self.bundle_sdk!r}")
        for option, named, form in (("service_name", self.service, _SERVICE), ("alias", self.alias, _ALIAS)):
            if re.fullmatch(form, named) is None:
                raise DefinitionError(f"{self.service}: {option} must match {form}, not {named!r}")
        within(self.service, "shards", self.shards, 1, 1_024)
        within(self.service, "verify_sample", self.verify_sample, 0, 10_000)
        self._check_times()
        within(self.service, "payload_limit (in bytes)", self.payload_limit, 1_024, 256 * 1024)
        within(self.service, "max_concurrency", self.max_concurrency, 2, 1_000_000)
        if self.max_concurrency is not None and int(self.max_concurrency) != self.max_concurrency:
            raise DefinitionError(f"{self.service}: max_concurrency must be a whole number")
        self._check_functions()
        self._check_tables()

    def _check_kinds(self) -> None:
        for kind, options in _KINDS.items():
            for option in options.split():
                of_kind(self.service, option.rstrip("?"), getattr(self, option.rstrip("?")), kind, none="?" in option)
        if isinstance(cast("object", self.sagas), type):
            raise DefinitionError(f"{self.service}: sagas must be a list of saga classes, not {self.sagas!r}")
        variables(self.service, self.environment or {})

    def own_function(self, name: str, memory_size: int) -> FunctionOptions:
        """Return what ``functions`` has for one of the service's own functions, else options with this memory."""
        return (self.functions or {}).get(name) or FunctionOptions(memory_size=memory_size)

    def existing_table(self, name: str) -> AnyTable | None:
        """Return the table that is there already; ``None`` where the service makes it."""
        table = (self.tables or {}).get(name)
        return None if isinstance(table, TableOptions) else table

    def table_options(self, name: str) -> TableOptions:
        """Return the options of a table that the service makes."""
        options = (self.tables or {}).get(name)
        return options if isinstance(options, TableOptions) else TableOptions()

    def _check_functions(self) -> None:
        """The service's own functions take the options that make sense there."""
        for key, options in (self.functions or {}).items():
            of_kind(self.service, "each of functions", options, FunctionOptions)
            if not isinstance(key, str):
                continue  # steps and saga classes are known to the catalogue
            if key not in _OWN_FUNCTIONS:
                raise DefinitionError(
                    f"{self.service}: functions: {key!r} is not a function of the service; name a step by its class, "
                    f"like CreateZip.upload, or one of {', '.join(_OWN_FUNCTIONS)}"
                )
            for name in _OWN_FUNCTIONS[key]:
                if getattr(options, name) != getattr(FunctionOptions(), name):
                    raise DefinitionError(f"{self.service}: functions: {key} takes no {name}")
            if key == "now":
                within(self.service, "functions: now: timeout", options.timeout, _LEAST_NOW, 900)

    def _check_tables(self) -> None:
        for name, table in (self.tables or {}).items():
            one_of(self.service, "a name in tables", name, TABLES)
            if not isinstance(table, TableOptions) and not hasattr(table, "table_arn"):
                raise DefinitionError(f"{self.service}: tables: {name} must be a table or TableOptions, not {table!r}")
        existing = [table for name in TABLES if (table := self.existing_table(name)) is not None]
        if len(set(map(id, existing))) < len(existing):
            raise DefinitionError(f"{self.service}: tables must be different tables")

    def _check_times(self) -> None:
        for option, kept, least in (
            ("retention", self.retention, 3600),
            ("key_retention", self.key_retention, 86_400),
            ("payload_versions", self.payload_versions, 86_400),
        ):
            if not isinstance(cast("object", kept), timedelta | None):
                raise DefinitionError(f"{self.service}: {option} must be a timedelta, not {kept!r}")
            seconds = None if kept is None else kept.total_seconds()
            within(self.service, f"{option} (in seconds)", seconds, least, 100 * 366 * 86_400)
        every: object = self.recover_every
        if every not in [timedelta(minutes=minutes) for minutes in range(1, 6)]:
            raise DefinitionError(f"{self.service}: recover_every must be 1 to 5 whole minutes, not {every!r}")

    def _check_api(self) -> None:
        one_of(self.service, "access_log", self.access_log, get_args(AccessLog))
        if not isinstance(self.endpoint, PrivateEndpoint):
            one_of(self.service, "endpoint", self.endpoint, get_args(Endpoint))
        url = self.callback_base_url
        if url is not None and not Token.is_unresolved(url) and _BASE_URL.fullmatch(url) is None:
            raise DefinitionError(
                f"{self.service}: callback_base_url must be a URL by https without a slash at the end, not {url!r}"
            )
        given = {
            "throttling": self.throttling is not None,
            "callback_throttling": self.callback_throttling is not None,
            "web_acl_arn": self.web_acl_arn is not None,
            "endpoint": self.endpoint != "regional",
            "access_log": self.access_log != "off",
        }
        for option in (name for name, one in given.items() if one and self.mount is not None):
            raise DefinitionError(f"{self.service}: {option} is that of the stage of the API you mount on")


def service_options(service: str, props: SagaServiceProps) -> ServiceOptions:
    """Return the options of a service."""
    known, given = SagaServiceProps.__annotations__, dict[str, Any](props)
    for name in props:
        if name not in known:
            meant = get_close_matches(name, known, 1) or known
            instead = _INSTEAD.get(name, f"is it {' or '.join(meant)}?")
            raise DefinitionError(f"{service}: SagaService has no option {name}; {instead}")
    return ServiceOptions(service=given.pop("service_name", None) or service, **given)
