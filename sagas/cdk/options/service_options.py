"""The options of :class:`SagaService`, with their defaults and checks."""

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

from sagas.authoring.policies import SETTLE, AutoDisable
from sagas.cdk.options.checks import fits, of_kind, one_of, variables, within
from sagas.cdk.options.existing import AnyResource, AnyTable
from sagas.cdk.options.function_options import LOG_LEVELS, FunctionOptions, Network
from sagas.cdk.options.values import AccessLog, AccessLogs, AnyBus, Archive, Deployment, SagaEvents, TableOptions
from sagas.errors import DefinitionError

METRICS_NAMESPACE = "Sagas"
RUNBOOK = "docs/operations/runbook.md"
_LEAST_NOW = 15
"""The function that ends waits needs at least this many seconds: it also starts children, up to 25 at a time."""
_OWN_FUNCTIONS = {
    "api": ("batch_size", "maximum_concurrency", "timeout", "weight"),
    "supervisor": ("batch_size", "maximum_concurrency", "weight"),
    "bulk": ("batch_size", "weight"),
    "now": ("batch_size", "weight"),
    "commands": ("batch_size", "timeout", "weight"),
}
"""The service's own functions, which run no steps, and the options that do not apply to them."""
_SERVICE = "[A-Za-z0-9_./-]{1,100}"
_ID = "[A-Za-z0-9_-]{1,64}"
_ALIAS = "(?![0-9]+$)[A-Za-z0-9_-]{1,128}"
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_BASE_URL = re.compile(r"https://[^\s?#]+[^\s?#/]")

Isolation = Literal["step", "saga"]
AlarmScope = Literal["type", "step"]
Endpoint = Literal["regional", "edge"]
TABLES = ("sagas", "audit", "joins")
AnyAuthorizer = apigateway.IAuthorizer | apigateway.Authorizer
AnyKey = kms.IKey | kms.Key
AnyTopic = sns.ITopic | sns.TopicBase


@dataclass(frozen=True, slots=True)
class PrivateEndpoint:
    """An API that callers can reach only through VPC endpoints.

    Args:
        vpc_endpoints: interface endpoints for ``execute-api``, at least one.

    Raises:
        DefinitionError: ``vpc_endpoints`` is empty.
    """

    vpc_endpoints: Sequence[ec2.IVpcEndpoint | ec2.InterfaceVpcEndpoint]

    def __post_init__(self) -> None:
        if not self.vpc_endpoints:
            raise DefinitionError("PrivateEndpoint: vpc_endpoints must name at least one")


@dataclass(frozen=True, slots=True)
class Throttling:
    """Limits of the API's stage: ``rate`` calls per second, ``burst`` calls at once."""

    rate: float = 500
    burst: int = 1000

    def __post_init__(self) -> None:
        within("Throttling", "rate", self.rate, 1, 1_000_000)
        within("Throttling", "burst", self.burst, 1, 1_000_000)


class SagaServiceProps(TypedDict, total=False):
    """The keyword arguments of :class:`sagas.cdk.SagaService`. Your own constructs can use this type to pass them on.

    Args:
        sagas: saga classes, at least one. No two may have the same saga type.
        functions: function options by step (``CreateZip.upload``), or by saga class for all its steps. Consecutive
            steps that are named together share a queue, a function and a role:
            ``(CreateZip.check, CreateZip.upload)``. Each of these steps may still set its own ``memory_size``; the
            largest applies. The service's own functions have names: ``"api"`` (512 MB), ``"supervisor"`` (256 MB, 300
            seconds), ``"bulk"`` (recovers, purges and sweeps; 1,024 MB, 300 seconds, ``maximum_concurrency`` 10),
            ``"now"`` (ends waits, if a saga waits; 512 MB, 30 seconds, minimum 15, ``maximum_concurrency`` 20) and
            ``"commands"`` (processes the command queue, if there is one; 512 MB, ``maximum_concurrency`` 10).
        function_options: options of all step functions that ``functions`` does not name.
        environment: environment variables of all functions, including the service's own.
        tables: by name (``sagas``, ``audit``, and ``joins`` if sagas have children): an existing table that only this
            service uses, or :class:`TableOptions` for the table that the service creates.
        mount: a resource of an API in this stack, such as ``api.root.add_resource("orders")``; the service adds its
            resources below it. Default: a new API. Your API's stage and gateway responses do not change.
        isolation: ``step`` gives each step its own queue, function and role, except steps that ``functions`` names
            together. ``saga`` gives each saga one queue, function and role, for lower cost and latency and fewer cold
            starts. One invocation then runs as many steps in a row as its time allows.
        alias: the name of each function's alias. Callers use the alias, which points to the current version.
        keep_versions: whether old versions of functions are kept, so you can move an alias back at once. Nothing
            deletes them.
        deployment: how aliases move to new code, for example ``Deployment.canary(percent=10, minutes=15)``. Default:
            all at once, when the stack is deployed.
        nested_stacks: whether the functions, alarms and queues of each saga go to nested stacks. Default: queues stay
            in this stack. Functions and alarms move to nested stacks if there is no room, which is harmless. A change
            to or from True creates new queues.
        service_name: the name in metrics, alarms, logs and on the dashboard: up to 100 letters, digits and ``-_./``.
            Default: the stack's name and the construct's path, so that no two stacks of an account share metrics.
        service_id: the id of the service: up to 64 letters, digits and ``-_``. The tables store it, and ids of sagas
            are derived from it and the idempotency key. Default: derived from the construct's path and the stack's id.
            If another stack takes over tables, set it to the id that they have.
        alarm_topic: notified when an alarm fires: an e-mail address, for which the service creates a topic, or a topic
            whose policy lets CloudWatch publish. Alarms cannot publish to a topic that is encrypted with ``aws/sns``.
        runbook_url: the address where you publish the runbook. Each alarm links to its section. Default: its path here.
        alarms: ``"type"`` for few alarms, on metrics that the library counts for each saga type and the service; or
            ``"step"`` for alarms on each queue and function. ``deployment`` implies ``"step"``. Default: ``"type"``.
        dashboard: whether to create a CloudWatch dashboard. Three are free per account; each other costs 3 USD a month.
            Default: none.
        removal_policy: what happens to tables, bucket, logs and the secret of callback URLs when they leave the stack.
            Default: they are kept, except after a failed first deployment.
        deletion_protection: whether the tables refuse to be deleted. Default: only if ``removal_policy`` is ``RETAIN``.
            A failed first deployment could not delete protected tables. Turn protection on once the stack is deployed.
        encryption_key: a KMS key for tables, queues, bucket, logs, variables, secret, and the service's own event bus
            and alarm topic. Default: AWS's own keys. The key's policy must leave access to IAM, as the CDK's default
            does. The policy of an imported key does not change. It must allow CloudWatch Logs, EventBridge for events
            and rules, SNS for topics, and CloudWatch if ``alarm_topic`` is an address.
        network: the VPC of all functions, including the service's own.
        authorizer: the authorizer that authorizes calls of the API, instead of IAM.
        endpoint: the endpoint of the API: ``regional``; ``edge``, for CloudFront, which aws-cn does not have; or a
            :class:`PrivateEndpoint`.
        access_log: whether the API logs calls: ``off``; ``account``, with the role that API Gateway has for logs in
            this account and region; or ``role``, which creates this role and so replaces the one that other APIs use.
            :class:`AccessLogs` adds the API's execution log, and the access log of the service's buckets.
        tracing: whether functions and API send traces to X-Ray.
        bundle_sdk: whether the layer contains the installed boto3 and botocore. Otherwise functions use those of the
            runtime, which AWS updates. ``True`` adds all of botocore, about 60 MB. A list of the services that steps
            call, such as ``["sns", "kms"]``, leaves out all others.
        provided: modules that functions get by other means than ``requirements.txt``, such as a layer of your own:
            ``("weasyprint",)``. All other modules that the code imports must be in its package, in the layer or in the
            runtime. Otherwise the synthesis names the file, the line and the line to add.
        payload_versions: how long overwritten and deleted payloads can be recovered from the bucket, in whole days.
            Default: not at all. Purged payloads stay there for the same time.
        throttling: the limits of the API.
        callback_base_url: the start of callback URLs if the API is behind your own domain, such as
            ``https://hooks.example.com``. Default: the address of the API.
        callback_throttling: additional limits of the route of public waits. Default: 50 calls per second, 100 at once.
        web_acl_arn: a web ACL of AWS WAF for the API's stage.
        architecture: the architecture of functions that do not set their own.
        runtime: the runtime of functions that do not set their own: Python 3.11 or newer.
        log_level: DEBUG, INFO, WARNING, ERROR or CRITICAL.
        log_retention: the retention of the log group of all functions, and of the access log.
        retention: how long ended sagas are kept before the supervisor purges them, with audit entries and payloads.
            Default: for good. Sagas whose type owns objects are kept. Sagas that need an operator are kept until they
            are settled.
        key_retention: how long the service keeps a record of a purged saga, without payloads. In this time, its
            idempotency key cannot start another saga. Default: 30 days.
        payload_limit: the size in bytes above which requests and results go to the bucket. Default: 16 KB.
        carry_inputs: whether messages also carry small requests and results, so a step does not read any. If False,
            steps read their payloads, and no queue contains any. An outcome that cannot be committed is then lost: the
            step runs again with the same idempotency key.
        payload_key: a KMS key. Functions encrypt requests, results and signals with this key before they store them,
            and need the key to read them. It implies ``carry_inputs=False``. Payloads already stored do not change.
        auto_disable: the policy for saga types that do not declare one. Default: none.
        max_concurrency: the maximum number of concurrent executions of all step functions together. Each function gets
            a share by the ``weight`` in its options, at least 2. The share of a function with its own
            ``maximum_concurrency`` is that number.
        settle: how long a saga waits for a release if its next step does not fit the deployed code, 0 to 3 days. Then
            it needs an operator. Default: 15 minutes, plus the length of a canary or linear deployment.
        events: the EventBridge bus for events of sagas, or a :class:`sagas.cdk.SagaEvents`, which also chooses the
            events. Default: nothing is published, unless :meth:`SagaService.event_bus` is called.
        recover_every: how often the supervisor looks for stalled sagas: every 1 to 5 whole minutes.
        verify_sample: the number of randomly chosen sagas whose audit trail is verified each day; 0 for none.
        archive: the archive of the audit trail in S3. Default: none.
        shards: the number of keys that the indexes of the control table are spread over. It can never be lowered.
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
    service_id: str | None
    alarm_topic: AnyTopic | str | None
    runbook_url: str
    dashboard: bool
    alarms: AlarmScope
    removal_policy: RemovalPolicy
    deletion_protection: bool | None
    encryption_key: AnyKey | None
    network: Network | None
    authorizer: AnyAuthorizer | None
    endpoint: Endpoint | PrivateEndpoint
    access_log: AccessLog | AccessLogs
    tracing: bool
    bundle_sdk: bool | Sequence[str]
    provided: Sequence[str]
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
    settle: timedelta | None
    events: SagaEvents | AnyBus | None
    recover_every: timedelta
    verify_sample: int
    archive: Archive | None
    shards: int


_INSTEAD = {
    **dict.fromkeys(
        ("retry", "undo_retry", "step_timeout"),
        "give it to a base class of the sagas, as in class Ours(Saga[T], retry=...), so that it also applies in tests",
    ),
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
"""Options that do not exist, and what applies instead."""

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
"""Names of options by required type. A question mark means that ``None`` is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """The options of a service with their defaults, and its name in metrics and messages.

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
    service_id: str | None = None
    alarm_topic: AnyTopic | str | None = None
    runbook_url: str = RUNBOOK
    dashboard: bool = False
    alarms: AlarmScope = "type"
    removal_policy: RemovalPolicy = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
    deletion_protection: bool | None = None
    encryption_key: AnyKey | None = None
    network: Network | None = None
    authorizer: AnyAuthorizer | None = None
    endpoint: Endpoint | PrivateEndpoint = "regional"
    access_log: AccessLog | AccessLogs = "off"
    tracing: bool = True
    bundle_sdk: bool | Sequence[str] = False
    provided: Sequence[str] = ()
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
    settle: timedelta | None = None
    events: SagaEvents | AnyBus | None = None
    recover_every: timedelta = timedelta(minutes=1)
    verify_sample: int = 100
    archive: Archive | None = None
    shards: int = 8

    def __post_init__(self) -> None:
        self._check_kinds()
        fits(self.service, self.architecture, self.runtime)
        one_of(self.service, "log_level", self.log_level, LOG_LEVELS)
        one_of(self.service, "alarms", self.alarms, get_args(AlarmScope))
        one_of(self.service, "isolation", self.isolation, ("step", "saga"))
        self._check_api()
        if isinstance(self.bundle_sdk, str):
            raise DefinitionError(f"{self.service}: bundle_sdk must be a list of services, not {self.bundle_sdk!r}")
        if isinstance(self.provided, str) or not all(map(_MODULE.fullmatch, self.provided)):
            raise DefinitionError(f"{self.service}: provided must be a list of modules, not {self.provided!r}")
        for option, named, form in (
            ("service_name", self.service, _SERVICE),
            ("service_id", self.service_id, _ID),
            ("alias", self.alias, _ALIAS),
        ):
            if named is not None and re.fullmatch(form, named) is None:
                raise DefinitionError(f"{self.service}: {option} must match {form}, not {named!r}")
        within(self.service, "shards", self.shards, 1, 1_024)
        within(self.service, "verify_sample", self.verify_sample, 0, 10_000)
        self._check_times()
        within(self.service, "payload_limit (in bytes)", self.payload_limit, 1_024, 256 * 1024)
        within(self.service, "max_concurrency", self.max_concurrency, 2, 1_000_000)
        if self.max_concurrency is not None and int(self.max_concurrency) != self.max_concurrency:
            raise DefinitionError(f"{self.service}: max_concurrency must be a whole number")
        if isinstance(self.alarm_topic, str) and "@" not in self.alarm_topic:
            raise DefinitionError(
                f"{self.service}: alarm_topic must be a topic or an e-mail address, not {self.alarm_topic!r}"
            )
        self._check_functions()
        self._check_tables()

    def _check_kinds(self) -> None:
        for kind, options in _KINDS.items():
            for option in options.split():
                of_kind(self.service, option.rstrip("?"), getattr(self, option.rstrip("?")), kind, none="?" in option)
        if isinstance(cast("object", self.sagas), type):
            raise DefinitionError(f"{self.service}: sagas must be a list of saga classes, not {self.sagas!r}")
        variables(self.service, self.environment or {})

    @property
    def settle_seconds(self) -> float:
        """Seconds that a saga waits for a release if its next step does not fit the deployed code."""
        lasts = 60 * self.deployment.total_minutes if self.deployment else 0
        return SETTLE + lasts if self.settle is None else self.settle.total_seconds()

    def own_function(self, name: str, usual: FunctionOptions) -> FunctionOptions:
        """Return the options of one of the service's own functions, with the usual ones where none is given."""
        return (self.functions or {}).get(name, FunctionOptions()).over(usual)

    def existing_table(self, name: str) -> AnyTable | None:
        """Return the existing table for a name; ``None`` if the service creates this table."""
        table = (self.tables or {}).get(name)
        return None if isinstance(table, TableOptions) else table

    def table_options(self, name: str) -> TableOptions:
        options = (self.tables or {}).get(name)
        return options if isinstance(options, TableOptions) else TableOptions()

    def _check_functions(self) -> None:
        """Refuse options that do not apply to the service's own functions."""
        for key, options in (self.functions or {}).items():
            of_kind(self.service, "each value of functions", options, FunctionOptions)
            if not isinstance(key, str):
                continue  # the catalogue checks the keys that are steps or saga classes
            if key not in _OWN_FUNCTIONS:
                raise DefinitionError(
                    f"{self.service}: functions: {key!r} is not a function of the service; name a step by its class, "
                    f"like CreateZip.upload, or one of {', '.join(_OWN_FUNCTIONS)}"
                )
            for name in _OWN_FUNCTIONS[key]:
                if getattr(options, name) is not None:
                    raise DefinitionError(f"{self.service}: functions: {key} does not support {name}")
            if key == "now":
                within(self.service, "functions: now: timeout", options.timeout, _LEAST_NOW, 900)

    def _check_tables(self) -> None:
        for name, table in (self.tables or {}).items():
            one_of(self.service, "each key of tables", name, TABLES)
            if not isinstance(table, TableOptions) and not hasattr(table, "table_arn"):
                raise DefinitionError(f"{self.service}: tables: {name} must be a table or TableOptions, not {table!r}")
        existing = [table for name in TABLES if (table := self.existing_table(name)) is not None]
        if len(set(map(id, existing))) < len(existing):
            raise DefinitionError(f"{self.service}: tables must be different tables")

    def _check_times(self) -> None:
        century = 100 * 366 * 86_400
        for option, period, least, most in (
            ("retention", self.retention, 3600, century),
            ("key_retention", self.key_retention, 86_400, century),
            ("payload_versions", self.payload_versions, 86_400, century),
            ("settle", self.settle, 0, 3 * 86_400),
        ):
            if not isinstance(cast("object", period), timedelta | None):
                raise DefinitionError(f"{self.service}: {option} must be a timedelta, not {period!r}")
            seconds = None if period is None else period.total_seconds()
            within(self.service, f"{option} (in seconds)", seconds, least, most)
        every: object = self.recover_every
        if every not in [timedelta(minutes=minutes) for minutes in range(1, 6)]:
            raise DefinitionError(f"{self.service}: recover_every must be 1 to 5 whole minutes, not {every!r}")

    @property
    def access_logs(self) -> AccessLogs:
        return self.access_log if isinstance(self.access_log, AccessLogs) else AccessLogs(self.access_log)

    @property
    def alarms_by_step(self) -> bool:
        """Whether there are alarms for each step. Those of a function roll back its gradual deployment."""
        return self.alarms == "step" or self.deployment is not None

    @property
    def routes_in_document(self) -> bool:
        """Whether the API's routes are one document. A document cannot be mounted, or name an authorizer of the app."""
        return self.mount is None and self.authorizer is None

    def _check_api(self) -> None:
        one_of(self.service, "access_log", self.access_logs.api, get_args(AccessLog))
        if not isinstance(self.endpoint, PrivateEndpoint):
            one_of(self.service, "endpoint", self.endpoint, get_args(Endpoint))
        url = self.callback_base_url
        if url is not None and not Token.is_unresolved(url) and _BASE_URL.fullmatch(url) is None:
            raise DefinitionError(
                f"{self.service}: callback_base_url must be an https URL without a trailing slash, not {url!r}"
            )
        stage_options = {
            "throttling": self.throttling is not None,
            "callback_throttling": self.callback_throttling is not None,
            "web_acl_arn": self.web_acl_arn is not None,
            "endpoint": self.endpoint != "regional",
            "access_log": self.access_logs.api != "off",
        }
        for option in (name for name, chosen in stage_options.items() if chosen and self.mount is not None):
            raise DefinitionError(f"{self.service}: {option} cannot be used with mount; set it on your API's stage")


def service_options(service: str, props: SagaServiceProps) -> ServiceOptions:
    """Return the options of a service, with defaults for options that are not set."""
    allowed = SagaServiceProps.__annotations__
    options = dict[str, Any](props)
    for name in props:
        if name not in allowed:
            similar = get_close_matches(name, allowed, 1) or allowed
            instead = _INSTEAD.get(name, f"did you mean {' or '.join(similar)}?")
            raise DefinitionError(f"{service}: SagaService has no option {name}; {instead}")
    return ServiceOptions(service=options.pop("service_name", None) or service, **options)
