"""Read facts for ``sagas doctor``: about the caller, the account, the app and the deployed stack. Nothing is
changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

from botocore.exceptions import ClientError

from sagas.aws import CALLER, INVOCATION, code_of, connect, open_session
from sagas.cli.target import Target
from sagas.client.endpoints import deployed_stacks, endpoints_from_file, of_aws
from sagas.engine.clock import SystemClock
from sagas.errors import SagaError, Unavailable, full_text, text_of
from sagas.imports import PROVIDED, Code, Shipped, advice, module_names, modules_below
from sagas.local.deploy.assembly import Stack, read_assembly
from sagas.local.deploy.synthesis import synthesize
from sagas.local.emulator.clients import Clients
from sagas.local.emulator.nested import NESTED, prefix_of
from sagas.local.errors import LocalStackError
from sagas.local.files import Files

_OUTPUT = "doctor.out"
_THREADS = 8
_IN_FLIGHT = {"in-flight", "standard", "queue"}
"""Words in the name of the quota of a queue's messages."""
_PROBE = json.dumps({"check": "create", "Records": []})
"""A step's function answers this event by creating its sagas' instances. Other functions see a batch of no messages."""


class NotChecked(Exception):
    """A fact cannot be read here. The message says why."""


class Resource(NamedTuple):
    """A resource of a template; ``physical_id`` is empty if it is not deployed."""

    type: str
    properties: Mapping[str, Any]
    physical_id: str = ""

    @property
    def name(self) -> str:
        """The name of the resource: its physical id, or for a queue the end of that id, which is a URL."""
        return self.physical_id.rpartition("/")[2]


class Member(NamedTuple):
    """A function of a service: its name, and what its variables name."""

    function: str
    service_id: str
    service_name: str
    table: str


class Tables(NamedTuple):
    """A table of sagas that functions of the stack name: their service, and the one that the table belongs to; empty
    if it has no owner yet."""

    table: str
    service_id: str
    owner: str


Resources = dict[str, Resource]
"""Resources by logical id, which has a prefix in nested stacks."""


class Site:
    """The service to check, and where it is. ``app`` is the command that synthesizes the CDK app; empty if there is
    none."""

    caller = "the caller"
    region = endpoint_url = account = ""
    emulated = False

    def __init__(self, target: Target, app: str) -> None:
        self.target = target
        self.app = app
        self._now = SystemClock().now

    def connect(self) -> None:
        """Find the caller, the account and the region. Raises SagaError if there is no region or no local stack, and
        boto3's errors if there are no credentials or no answer."""
        if self.target.stack is None:
            self.target.client()  # fails if options need a stack, or no local stack is running
            local = endpoints_from_file(Path.cwd())
            self.client: Callable[[str], Any] = Clients(str(local.endpoint_url), str(local.region)).client
        else:
            session = open_session(self.target.region, self.target.profile)
            if not cast("Any", session).region_name:
                raise SagaError("no AWS region is configured; name one with --region or AWS_DEFAULT_REGION")
            # A function may take as long as its timeout; all others answer at once.
            self.client = lambda name: connect(name, INVOCATION if name == "lambda" else CALLER, session=session)
        meta = self.client("cloudformation").meta
        self.region = meta.region_name
        self.endpoint_url = meta.endpoint_url
        self.emulated = not of_aws(self.endpoint_url, self.region)
        answer: Any = self.client("sts").get_caller_identity()
        self.account = str(answer["Account"])
        self.caller = str(answer["Arn"])
        self._answered: str = answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")

    @property
    def where(self) -> str:
        """The region and its endpoint, for messages."""
        return f"{self.region} ({self.endpoint_url})" if self.region else "AWS"

    def in_an_account(self, what: str) -> None:
        """Raise NotChecked if this is an emulator, because it lacks ``what``."""
        if self.emulated:
            raise NotChecked(f"the emulator has no {what}")

    def clock(self) -> float:
        """Return the seconds by which this machine's clock is ahead of AWS's clock."""
        self.in_an_account("clock of its own")
        return self._now() - parsedate_to_datetime(self._answered).timestamp()

    @cached_property
    def synthesis(self) -> str:
        """The error that the synthesis of the app raised; empty if it succeeded."""
        if not self.app:
            raise NotChecked("there is no cdk.json in this directory; name the app with --app")
        try:
            self._assembled = self._synthesize()
        except (LocalStackError, OSError) as error:
            return text_of(error)
        return ""

    @property
    def no_app(self) -> str:
        """Why the app cannot be compared with the stack; empty if it can."""
        try:
            return self.synthesis
        except NotChecked as error:
            return str(error)

    @property
    def _synthesized(self) -> tuple[Resources, int]:
        if self.synthesis:
            raise NotChecked("the app cannot be synthesized")
        return self._assembled

    def _synthesize(self) -> tuple[Resources, int]:
        """Synthesize the app. Returns the resources of its templates, and the bootstrap version that they need."""
        files = Files(Path.cwd())
        files.root.mkdir(parents=True, exist_ok=True)
        directory = synthesize(self.app, files, output=_OUTPUT)
        stacks = read_assembly(directory, self.account, self.region)
        chosen = [stack for stack in stacks if self.target.stack in (None, stack.name)]
        if not chosen:
            names = ", ".join(stack.name for stack in stacks)
            raise LocalStackError(f"the stack of the app is called {names}, not {self.target.stack}")
        artifacts: dict[str, Any] = json.loads((directory / "manifest.json").read_text())["artifacts"]
        versions = [
            one.get("properties", {}).get("requiresBootstrapStackVersion", 0)
            for one in artifacts.values()
            if one["type"] in ("aws:cloudformation:stack", "cdk:asset-manifest")
        ]
        return {
            f"{stack.name}.{id}": Resource(one["Type"], one.get("Properties", {}))
            for stack in chosen
            for id, one in stack.template["Resources"].items()
        }, max(versions, default=0)

    @property
    def template(self) -> Resources:
        return self._synthesized[0]

    @cached_property
    def _stacks(self) -> dict[str, str]:
        """The statuses of the deployed stacks; an app can have several on an emulator."""
        named = {"StackName": self.target.stack} if self.target.stack else {}
        pages = self.client("cloudformation").get_paginator("describe_stacks").paginate(**named)
        try:
            stacks = [stack for page in pages for stack in page["Stacks"] if "ParentId" not in stack]
        except ClientError as error:
            if code_of(error) != "ValidationError":
                raise
            stacks = []
        return {one["StackName"]: one["StackStatus"] for one in stacks if one["StackStatus"] != "DELETE_COMPLETE"}

    @property
    def status(self) -> str:
        """The status of the stack; empty if it is not deployed."""
        return ", ".join(sorted({*self._stacks.values()}))

    @cached_property
    def deployed(self) -> Resources:
        """The resources of the deployed stack, from its own templates, with the ids of :func:`read_assembly`."""
        if not self.status:
            raise NotChecked("the stack is not deployed yet")
        cloudformation = self.client("cloudformation")
        return {
            f"{name}.{''.join(map(prefix_of, path))}{id}": Resource(
                one["Type"], one.get("Properties", {}), ids.get(id, "")
            )
            for name in self._stacks
            for path, resources, ids in deployed_stacks(cloudformation, name)
            for id, one in resources.items()
            if one["Type"] != NESTED
        }

    def imports(self) -> list[str]:
        """Return what functions of the newest synthesis import and do not have, each with what to write. This may be an
        older one, in ``cdk.out``, if the app cannot be synthesized now."""
        _ = self.no_app
        files = Files(Path.cwd())
        directories = (files.project / "cdk.out", files.assembly, files.root / _OUTPUT)
        manifests = [path for each in directories if (path := each / "manifest.json").is_file()]
        if not manifests:
            raise NotChecked("there is no cdk.out")
        newest = max(manifests, key=lambda path: path.stat().st_mtime)
        stacks = read_assembly(newest.parent, self.account, self.region)
        return list(dict.fromkeys(text for stack in stacks for text in _refused_imports(stack)))

    def bootstrap(self) -> tuple[int, int, str]:
        """Return the version of the CDK's bootstrap stack (0 if missing), the version that the app needs, and the
        place."""
        self.in_an_account("bootstrap stack, and needs none")
        needed = self._synthesized[1]
        place = f"aws://{self.account}/{self.region}"
        try:
            answer = self.client("ssm").get_parameter(Name="/cdk-bootstrap/hnb659fds/version")
        except ClientError as error:
            if code_of(error) == "ParameterNotFound":
                return 0, needed, place
            raise
        return int(answer["Parameter"]["Value"]), needed, place

    def concurrency(self) -> tuple[int, int, int]:
        """Return the account's limit of concurrent executions, how many are unreserved, and how many more the app would
        reserve."""
        self.in_an_account("quotas")
        limits = self.client("lambda").get_account_settings()["AccountLimit"]
        more = _reserved(self.template) - (_reserved(self.deployed) if self.status else 0)
        return limits["ConcurrentExecutions"], limits["UnreservedConcurrentExecutions"], more

    def in_flight(self) -> tuple[int, dict[str, int]]:
        """Return how many messages of one queue may be in flight, and how many are in flight in each queue. The limit
        is AWS's default if Service Quotas does not list it."""
        self.in_an_account("quotas")
        pages = self.client("service-quotas").get_paginator("list_service_quotas").paginate(ServiceCode="sqs")
        quotas = (quota for page in pages for quota in page["Quotas"])
        limits = (int(one["Value"]) for one in quotas if {*one["QuotaName"].lower().split()} >= _IN_FLIGHT)
        sqs = self.client("sqs")
        queues = _of(self.deployed, "AWS::SQS::Queue")

        def in_flight(queue: Resource) -> int:
            names = ["ApproximateNumberOfMessagesNotVisible"]
            answer = sqs.get_queue_attributes(QueueUrl=queue.physical_id, AttributeNames=names)
            return int(answer["Attributes"][names[0]])

        with ThreadPoolExecutor(_THREADS) as threads:
            counts = dict(zip(queues, threads.map(in_flight, queues.values()), strict=True))
        return next(limits, 120_000), counts

    def functions(self) -> dict[str, str]:
        """Invoke each function that handles messages or a stream with an empty event, so that it loads its code.
        Returns its problem by name; empty if it has none, and is called."""
        ours = [one.physical_id for one in _of(self.deployed, "AWS::Lambda::EventSourceMapping").values()]
        lambda_ = self.client("lambda")
        pages = lambda_.get_paginator("list_event_source_mappings").paginate()
        mappings = {one["UUID"]: one for page in pages for one in page["EventSourceMappings"]}

        def problem(id: str) -> tuple[str, str]:
            mapping = mappings.get(id)
            if mapping is None:
                return f"event source mapping {id}", "it is missing, so its function is not called"
            name = str(mapping["FunctionArn"]).partition(":function:")[2].partition(":")[0]
            if mapping["State"] in ("Disabled", "Disabling"):
                return name, "its event source mapping is disabled"
            answer = lambda_.invoke(FunctionName=mapping["FunctionArn"], Payload=_PROBE)
            result: Any = json.loads(answer["Payload"].read() or b"{}")
            if "FunctionError" in answer:
                return name, f"{result.get('errorType', 'Error')}: {result.get('errorMessage', '')}"
            return name, "; ".join(result.get("problems", ()))

        problems = dict[str, str]()
        with ThreadPoolExecutor(_THREADS) as threads:
            for name, text in threads.map(problem, ours):
                problems[name] = problems.get(name) or text
        return problems

    @cached_property
    def _members(self) -> tuple[list[Member], list[Member]]:
        """The functions of services in the region: those of this stack, and all others."""
        ids = {one.physical_id for one in _of(self.deployed, "AWS::Lambda::Function").values()}
        ours = list[Member]()
        others = list[Member]()
        for page in self.client("lambda").get_paginator("list_functions").paginate():
            for one in page["Functions"]:
                variables: dict[str, str] = one.get("Environment", {}).get("Variables", {})
                if "SAGAS_SERVICE" in variables:
                    names = ("SAGAS_SERVICE", "POWERTOOLS_SERVICE_NAME", "SAGAS_TABLE")
                    member = Member(one["FunctionName"], *(variables.get(name, "") for name in names))
                    (ours if member.function in ids else others).append(member)
        return ours, others

    def tables(self) -> list[Tables]:
        """Return the tables that the functions of the stack name, with their owners."""
        from sagas.store.pauses import owner_of

        named = sorted({(one.table, one.service_id) for one in self._members[0]})
        dynamodb = self.client("dynamodb")
        return [Tables(table, service, owner_of(table, dynamodb)) for table, service in named]

    def service_names(self) -> dict[str, list[str]]:
        """Return the names of the stack's services, each with the functions of other services with this name."""
        ours, others = self._members
        own = {one.service_name: one.service_id for one in ours}
        return {
            name: sorted(
                one.function for one in (*ours, *others) if one.service_name == name and one.service_id != service
            )
            for name, service in sorted(own.items())
        }

    def api(self) -> tuple[int, str]:
        """Return the number of types that the API lists, and the error if the call failed."""
        if not self.status:
            raise NotChecked("the stack is not deployed yet")
        try:
            return len(self.target.client().types()), ""
        except Unavailable:  # also where the API is private
            raise
        except SagaError as error:
            return 0, full_text(error)

    def alarms(self) -> tuple[int, list[str], dict[str, int]]:
        """Return how many alarms are deployed, the names of the firing ones, and how many confirmed subscriptions each
        of their topics has."""
        self.in_an_account("CloudWatch that evaluates alarms")
        names = {one.physical_id for one in _of(self.deployed, "AWS::CloudWatch::Alarm").values()}
        pages = self.client("cloudwatch").get_paginator("describe_alarms").paginate()
        alarms = [one for page in pages for one in page["MetricAlarms"] if one["AlarmName"] in names]
        topics = {action for one in alarms for action in one["AlarmActions"] if ":sns:" in action}
        sns = self.client("sns")
        confirmed = {
            topic: sum(
                one["SubscriptionArn"].startswith("arn:")
                for one in sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
            )
            for topic in sorted(topics)
        }
        return len(names), [one["AlarmName"] for one in alarms if one["StateValue"] == "ALARM"], confirmed


def _refused_imports(stack: Stack) -> Iterator[str]:
    """Yield what the functions of a stack import and do not have, each with what to write."""
    contents = {asset.key: asset.path for asset in stack.assets}
    resources: dict[str, Any] = stack.template["Resources"]
    functions = [each["Properties"] for each in resources.values() if each["Type"] == "AWS::Lambda::Function"]
    for function in functions:
        code = contents.get(str(function.get("Code", {}).get("S3Key")))
        classes = function.get("Environment", {}).get("Variables", {}).get("SAGAS_CLASSES")
        layers = [resources[each["Ref"]] for each in function.get("Layers", ()) if each.get("Ref") in resources]
        layer = contents.get(str(layers[0]["Properties"]["Content"].get("S3Key"))) if layers else None
        if code is None or layer is None or not isinstance(classes, str):
            continue
        if classes.startswith("@"):
            classes = json.dumps(json.loads((code / classes[1:]).read_text())["classes"])
        files = {path.relative_to(code).as_posix(): path for path in code.rglob("*.py")}
        python = function["Runtime"].removeprefix("python")
        modules = module_names(files) | modules_below(layer / "python")
        shipped = Shipped(python, modules, layers[0].get("Metadata", {}).get(PROVIDED, ()))
        roots = {name.partition(":")[0] for name in json.loads(classes)}
        if missing := Code(files).missing_in(roots, shipped):
            yield advice(missing, python)


def _reserved(resources: Resources) -> int:
    functions = _of(resources, "AWS::Lambda::Function").values()
    return sum(int(one.properties.get("ReservedConcurrentExecutions", 0)) for one in functions)


def _of(resources: Resources, type: str) -> Resources:
    return {id: one for id, one in resources.items() if one.type == type}
