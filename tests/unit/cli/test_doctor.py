"""What ``sagas doctor`` makes of facts, what it reads from AWS, and what it says where it cannot look."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError
from botocore.stub import Stubber
from typer.testing import CliRunner, Result

from sagas.aws import code_of
from sagas.cli.doctor import checks
from sagas.cli.doctor.checks import CHECKS, Check, explained
from sagas.cli.doctor.site import NotChecked, Resource, Site, Tables
from sagas.cli.main import app
from sagas.cli.target import Target
from sagas.client import SagaClient
from sagas.errors import SagaError
from sagas.imports import PROVIDED

QUEUE, TABLE = "AWS::SQS::Queue", "AWS::DynamoDB::Table"
ALARM, MAPPING = "AWS::CloudWatch::Alarm", "AWS::Lambda::EventSourceMapping"
TOPIC = "arn:aws:sns:eu-west-1:123456789012:alarms"
ID = "019aa59c-fb80-7c1e-9b52-4f6d0a3e8b17"


def resources(**properties: dict[str, Any]) -> dict[str, Resource]:
    return {name: Resource(QUEUE, one, f"https://sqs/{name}") for name, one in properties.items()}


def table(*indexes: str) -> dict[str, Resource]:
    described = [{"IndexName": name, "KeySchema": [{"AttributeName": name}]} for name in indexes]
    return {"sagas": Resource(TABLE, {"GlobalSecondaryIndexes": described}, "Shop-Sagas")}


JUDGED: dict[str, tuple[Callable[[Any], Any], Any, list[tuple[str, str]]]] = {
    "a caller": (checks.credentials, ("arn:ann", "eu-west-1 (URL)"), [("ok", "arn:ann in eu-west-1 (URL)")]),
    "a clock that is right": (checks.clock, -3.2, [("ok", "3 s behind AWS")]),
    "a clock that is a little wrong": (checks.clock, 90.0, [("warn", "90 s ahead of AWS")]),
    "a clock with which nothing is signed": (checks.clock, -301.0, [("fail", "301 s behind AWS")]),
    "an app": (checks.app, "", [("ok", "the app can be synthesized")]),
    "an app that fails": (checks.app, "the app failed: KeyError", [("fail", "the app failed: KeyError")]),
    "imports": (checks.imports, [], [("ok", "functions have all modules that their code imports")]),
    "imports of other modules": (checks.imports, ["shop.py:1 imports x"], [("fail", "shop.py:1 imports x")]),
    "tables of its own": (
        checks.tables,
        [Tables("sagas", "a1", "a1"), Tables("new", "b2", "")],
        [("ok", "sagas of service 'a1', new of service 'b2'")],
    ),
    "tables of another service": (
        checks.tables,
        [Tables("sagas", "a1", "b2"), Tables("mine", "a1", "a1")],
        [("fail", "sagas belongs to service 'b2', not to this one, 'a1'")],
    ),
    "a name of its own": (
        checks.service_names,
        {"shop": []},
        [("ok", "no other service of this account and region is called 'shop'")],
    ),
    "a name that another service has": (
        checks.service_names,
        {"shop": ["Blue-Api", "Blue-Ship"], "depot": []},
        [("warn", "another service of this account is called 'shop', too, with the function Blue-Api")],
    ),
    "a bootstrap": (checks.bootstrap, (21, 6, "aws://1/eu-west-1"), [("ok", "version 21")]),
    "no bootstrap": (checks.bootstrap, (0, 6, "aws://1/eu-west-1"), [("fail", "has not been bootstrapped")]),
    "an old bootstrap": (checks.bootstrap, (5, 6, "aws://1/eu-west-1"), [("fail", "version 5, but the app needs 6")]),
    "executions": (checks.concurrency, (1000, 900, 0), [("ok", "1,000 concurrent executions, 900 of them unreserved")]),
    "executions of a new account": (checks.concurrency, (10, 10, 0), [("warn", "10 concurrent executions")]),
    "reservations of a new account": (
        checks.concurrency,
        (10, 10, 2),
        [("fail", "the app reserves 2 more executions, but the account has only 0 left")],
    ),
    "reservations that leave too little": (
        checks.concurrency,
        (1000, 400, 301),
        [("fail", "only 300 left")],
    ),
    "fewer reservations": (checks.concurrency, (1000, 100, -5), [("ok", "1,000 concurrent")]),
    "few messages in flight": (checks.in_flight, (120_000, {"a": 4, "b": 9}), [("ok", "at most 9 of 120,000")]),
    "too many messages in flight": (
        checks.in_flight,
        (120_000, {"a": 96_001, "b": 9}),
        [("warn", "a: 96,001 of 120,000 messages are in flight")],
    ),
    "a stack": (checks.stack, ("Shop", "UPDATE_COMPLETE", "x"), [("ok", "UPDATE_COMPLETE")]),
    "no stack yet": (
        checks.stack,
        ("Shop", "", "eu-west-1 (URL)"),
        [("warn", "Shop is not deployed in eu-west-1 (URL)")],
    ),
    "a deployment that goes on": (checks.stack, ("Shop", "UPDATE_IN_PROGRESS", "x"), [("warn", "UPDATE_IN_PROGRESS")]),
    "a deployment that was undone": (
        checks.stack,
        ("Shop", "UPDATE_ROLLBACK_COMPLETE", "x"),
        [("warn", "UPDATE_ROLLBACK_COMPLETE: the last deployment failed")],
    ),
    "a first deployment that failed": (
        checks.stack,
        ("Shop", "ROLLBACK_COMPLETE", "x"),
        [("fail", "ROLLBACK_COMPLETE")],
    ),
    "a deployment that is stuck": (
        checks.stack,
        ("Shop", "UPDATE_ROLLBACK_FAILED", "x"),
        [("fail", "UPDATE_ROLLBACK_FAILED")],
    ),
    "queues that stay": (
        checks.replaced,
        (resources(a={"QueueName": "a"}), resources(a={"QueueName": "a"}, b={})),
        [("ok", "keeps every queue")],
    ),
    "a queue that goes, one that is renamed, and one that becomes a table": (
        checks.replaced,
        (resources(a={}, b={"QueueName": "b"}, c={}), resources(b={"QueueName": "x"}) | {"c": Resource(TABLE, {})}),
        [("fail", f"would replace or delete {name}, with its content") for name in "abc"],
    ),
    "one new index": (
        checks.replaced,
        (table("due"), table("due", "incidents")),
        [("ok", "keeps every queue")],
    ),
    "an index in the place of another": (
        checks.replaced,
        (table("due", "attention"), table("due", "incidents")),
        [
            ("fail", "the table Shop-Sagas differs in its indexes attention, incidents"),
        ],
    ),
    "a new table": (
        checks.replaced,
        ({}, table("due", "incidents")),
        [("ok", "keeps every queue")],
    ),
    "functions": (checks.functions, {"a": "", "b": ""}, [("ok", "2 load their code")]),
    "a broken function": (checks.functions, {"a": "", "b": "no module"}, [("fail", "b: no module")]),
    "an API": (checks.api, (1, ""), [("ok", "it has 1 saga type")]),
    "an API that fails": (checks.api, (0, "the API answered 502"), [("fail", "the API answered 502")]),
    "an API that refuses": (checks.api, (0, "refused (403)"), [("warn", "not checked: refused (403)")]),
    "alarms": (checks.alarms, (73, [], {TOPIC: 1}), [("ok", "none of 73 is firing, and somebody is notified")]),
    "alarms that tell nobody": (checks.alarms, (73, [], {}), [("warn", "nobody is notified of 73 alarms")]),
    "alarms whose e-mail was not answered": (
        checks.alarms,
        (73, [], {TOPIC: 0}),
        [("warn", f"nobody has confirmed a subscription of {TOPIC}")],
    ),
    "alarms that are on": (
        checks.alarms,
        (73, ["a", "b"], {TOPIC: 1}),
        [("warn", f"{name} is firing") for name in "ab"],
    ),
}


@pytest.mark.parametrize(("judge", "facts", "expected"), JUDGED.values(), ids=JUDGED)
def test_what_it_makes_of_facts(judge: Callable[[Any], Any], facts: Any, expected: list[tuple[str, str]]) -> None:
    findings = [*judge(facts)]
    assert [one.state for one in findings] == [state for state, _ in expected]
    assert all(text in one.text for one, (_, text) in zip(findings, expected, strict=True)), findings
    assert all(one.todo or one.state == "ok" for one in findings)


def test_every_check_has_a_judgement_that_is_tested() -> None:
    assert {check.judges for check in CHECKS} == {judge for judge, _, _ in JUDGED.values()}
    assert len({check.name for check in CHECKS}) == len(CHECKS)


def refused(code: str, message: str = "no") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "GetThing")


@pytest.mark.parametrize(
    ("error", "text", "todo"),
    [
        (SagaError("no local stack"), "no local stack", ""),
        (
            refused("AccessDenied", "User: ann is not authorized to perform: sqs:GetQueueAttributes on x"),
            "ann has no permission for sqs:GetQueueAttributes in eu-west-1",
            "grant sqs:GetQueueAttributes to this caller",
        ),
        (
            refused("AccessDeniedException"),
            "ann has no permission for GetThing in eu-west-1",
            "grant GetThing to this caller",
        ),
        (refused("ExpiredToken"), "eu-west-1 refused the credentials (ExpiredToken)", "sign in to AWS"),
        (refused("Throttling"), "Throttling", ""),
        (NoCredentialsError(), "Unable to locate credentials", "--profile"),
        (EndpointConnectionError(endpoint_url="https://sts"), '"https://sts" (eu-west-1)', "check the region"),
    ],
)
def test_a_request_that_fails_is_explained_in_a_line(error: Exception, text: str, todo: str) -> None:
    told, advice = explained(error, "ann", "eu-west-1")
    assert text in told
    assert "\n" not in told
    assert advice.startswith(todo) or todo in advice


APP = """
import json, os, pathlib
out = pathlib.Path(os.environ["CDK_OUTDIR"])
out.mkdir(parents=True)
function = {"Type": "AWS::Lambda::Function", "Properties": {"ReservedConcurrentExecutions": 7}}
alarm = {"Type": "AWS::CloudWatch::Alarm", "Properties": {}}
(out / "Shop.json").write_text(json.dumps({"Resources": {"F": function, "A": alarm, "B": alarm}}))
needs = {"templateFile": "Shop.json", "requiresBootstrapStackVersion": 6}
stack = {"type": "aws:cloudformation:stack", "properties": needs}
(out / "manifest.json").write_text(json.dumps({"artifacts": {"Shop": stack}}))
"""


class Account(Site):
    """An account in which the stack is not deployed, with the answers that AWS would give."""

    def __init__(self, stack: str = "Shop", command: str = "python app.py") -> None:
        super().__init__(Target(stack, None, None, as_json=False), command)
        self.account, self.region, self.caller = "123456789012", "eu-west-1", "arn:ann"
        self.clients: dict[str, Any] = {}
        self.client = self._client
        self.answers("cloudformation", describe_stacks=refused("ValidationError"))

    def _client(self, service: str) -> Any:
        if service not in self.clients:
            session: Any = boto3.Session("key", "secret", region_name="eu-west-1")
            self.clients[service] = session.client(service)
        return self.clients[service]

    def answers(self, service: str, **answers: Any) -> None:
        """Give an operation's answer once; botocore checks its shape."""
        stub: Any = Stubber(self._client(service))
        for operation, answer in answers.items():
            if isinstance(answer, ClientError):
                stub.add_client_error(operation, code_of(answer), "no")
            else:
                stub.add_response(operation, answer)
        stub.activate()


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Account:
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(APP)
    return Account()


def quota(name: str, value: float) -> dict[str, Any]:
    other = {"QuotaName": "Something else", "Value": 3.0}
    return {"Quotas": [other, {"QuotaName": name, "Value": value}]}


def assembly(directory: Path, source: str, **metadata: Any) -> None:
    """Write a synthesized app with one function and its layer."""
    files = {"code/shop/__init__.py": "", "code/shop/sale.py": source, "layer/python/msgspec/__init__.py": ""}
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    content = {"Properties": {"Content": {"S3Key": "layer.zip"}}, "Metadata": metadata}
    function = {
        "Runtime": "python3.13",
        "Code": {"S3Key": "code.zip"},
        "Layers": [{"Ref": "Layer"}],
        "Environment": {"Variables": {"SAGAS_CLASSES": '["shop.sale:Sale"]'}},
    }
    resources = {
        "Layer": {"Type": "AWS::Lambda::LayerVersion", **content},
        "Sale": {"Type": "AWS::Lambda::Function", "Properties": function},
        "Same": {"Type": "AWS::Lambda::Function", "Properties": function},
        "Theirs": {"Type": "AWS::Lambda::Function", "Properties": {"Code": {"ZipFile": "import x"}}},
    }
    (directory / "Shop.json").write_text(json.dumps({"Resources": resources}))
    assets = {
        name: {
            "source": {"path": name, "packaging": "zip"},
            "destinations": {"here": {"bucketName": "assets", "objectKey": f"{name}.zip"}},
        }
        for name in ("code", "layer")
    }
    (directory / "Shop.assets.json").write_text(json.dumps({"files": assets}))
    stack = {"type": "aws:cloudformation:stack", "properties": {"templateFile": "Shop.json"}}
    (directory / "manifest.json").write_text(json.dumps({"artifacts": {"Shop": stack}}))


class TestImports:
    """Of what was synthesized last, also where the app cannot be synthesized now."""

    @pytest.mark.parametrize("command", ["", "python -c 1/0"])
    def test_that_functions_lack(self, account: Account, command: str) -> None:
        account.app = command
        assembly(Path("cdk.out"), "import json, msgspec\nimport pytest\n")
        (text,) = account.imports()
        line = f"pytest=={pytest.__version__}"
        assert text.startswith(
            f"shop/sale.py:2 imports pytest, which functions do not have: add to shop/requirements.txt the line {line};"
        )

    def test_that_functions_have(self, account: Account) -> None:
        account.app = ""
        assembly(Path("cdk.out"), "import json, msgspec\n")
        assert account.imports() == []
        assembly(Path("cdk.out"), "import pytest\n", **{PROVIDED: ["pytest"]})
        assert account.imports() == []

    def test_of_nothing(self, account: Account) -> None:
        account.app = ""
        with pytest.raises(NotChecked, match=r"there is no cdk\.out"):
            account.imports()


class TestReading:
    def test_the_bootstrap_stack(self, account: Account) -> None:
        account.answers("ssm", get_parameter={"Parameter": {"Value": "21"}})
        assert account.bootstrap() == (21, 6, "aws://123456789012/eu-west-1")

    def test_no_bootstrap_stack(self, account: Account) -> None:
        account.answers("ssm", get_parameter=refused("ParameterNotFound"))
        assert account.bootstrap() == (0, 6, "aws://123456789012/eu-west-1")

    def test_executions(self, account: Account) -> None:
        limits = {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": 900}
        account.answers("lambda", get_account_settings={"AccountLimit": limits})
        assert account.concurrency() == (1000, 900, 7)

    def test_messages_in_flight(self, account: Account) -> None:
        account.__dict__["deployed"] = resources(a={})
        counts = {"ApproximateNumberOfMessagesNotVisible": "12", "RedrivePolicy": '{"maxReceiveCount": 9}'}
        account.answers("sqs", get_queue_attributes={"Attributes": counts})
        account.answers("service-quotas", list_service_quotas=quota("In-flight messages per standard queue", 90_000.0))
        assert account.in_flight() == (90_000, {"a": 12})

    def test_a_quota_that_is_not_listed_is_the_one_of_aws(self, account: Account) -> None:
        account.__dict__["deployed"] = {}
        account.answers("service-quotas", list_service_quotas=quota("Messages per queue", 3.0))
        assert account.in_flight() == (120_000, {})

    def test_functions_that_nothing_calls(self, account: Account) -> None:
        account.__dict__["deployed"] = {"m": Resource(MAPPING, {}, ID), "n": Resource(MAPPING, {}, "2")}
        arn = "arn:aws:lambda:eu-west-1:123456789012:function:Ship:live"
        found = {"UUID": ID, "State": "Disabled", "FunctionArn": arn}
        account.answers("lambda", list_event_source_mappings={"EventSourceMappings": [found]})
        assert account.functions() == {
            "Ship": "its event source mapping is disabled",
            "event source mapping 2": "it is missing, so its function is not called",
        }

    def test_services_of_the_region(self, account: Account) -> None:
        names = ("Shop-Api", "Shop-Pay")
        account.__dict__["deployed"] = {name: Resource("AWS::Lambda::Function", {}, name) for name in names}

        def listed(name: str, *values: str) -> dict[str, Any]:
            named = ("SAGAS_SERVICE", "POWERTOOLS_SERVICE_NAME", "SAGAS_TABLE")
            return {"FunctionName": name, "Environment": {"Variables": dict(zip(named, values, strict=True))}}

        functions = [
            *(listed(name, "a1", "shop", "sagas") for name in names),
            listed("Blue-Api", "b2", "shop", "blue"),
            listed("Depot-Api", "c3", "depot", "depot"),
            {"FunctionName": "Unreadable", "Environment": {"Error": {"ErrorCode": "AccessDeniedException"}}},
            {"FunctionName": "Plain"},
        ]
        account.answers("lambda", list_functions={"Functions": functions})
        assert account.service_names() == {"shop": ["Blue-Api"]}
        item = {"saga_id": {"S": "pauses"}, "service": {"S": "z9"}}
        for answer, owner in (({"Item": item}, "z9"), ({}, "")):
            account.clients.pop("dynamodb", None)
            account.answers("dynamodb", get_item=answer)
            assert account.tables() == [Tables("sagas", "a1", owner)]

    def test_alarms_and_who_is_notified(self, account: Account) -> None:
        account.__dict__["deployed"] = {"A": Resource(ALARM, {}, "one"), "B": Resource(ALARM, {}, "two")}
        states: list[tuple[str, str, list[str]]] = [
            ("one", "ALARM", [TOPIC]),
            ("two", "OK", [TOPIC]),
            ("another's", "ALARM", []),
        ]
        alarms = [{"AlarmName": name, "StateValue": state, "AlarmActions": do} for name, state, do in states]
        account.answers("cloudwatch", describe_alarms={"MetricAlarms": alarms})
        pending = {"Subscriptions": [{"SubscriptionArn": "PendingConfirmation"}]}
        account.answers("sns", list_subscriptions_by_topic=pending)
        assert account.alarms() == (2, ["one"], {TOPIC: 0})

    def test_the_stacks_of_nested_stacks_have_the_ids_of_the_app(self, account: Account) -> None:
        """The app's own is flattened where it is read."""
        account.clients.clear()
        stub: Any = Stubber(account.client("cloudformation"))
        stack = {"StackName": "Shop", "StackStatus": "CREATE_COMPLETE", "CreationTime": 0}
        stub.add_response("describe_stacks", {"Stacks": [stack]})
        for name, type, id in (("Inner", "AWS::CloudFormation::Stack", "arn:inner"), ("Q", QUEUE, "https://sqs/q")):
            summary = {"LogicalResourceId": name, "PhysicalResourceId": id, "ResourceType": type}
            more = {"LastUpdatedTimestamp": 0, "ResourceStatus": "CREATE_COMPLETE"}
            stub.add_response("list_stack_resources", {"StackResourceSummaries": [summary | more]})
            stub.add_response("get_template", {"TemplateBody": json.dumps({"Resources": {name: {"Type": type}}})})
        stub.activate()
        ((id, queue),) = account.deployed.items()
        assert (id[:6], id[-1], queue.name) == ("Shop.N", "Q", "q")

    def test_an_app_without_the_stack(self, account: Account) -> None:
        assert Account("Other").no_app == "the stack of the app is called Shop, not Other"
        assert Account(command="").no_app.startswith("there is no cdk.json in this directory")
        assert account.no_app == ""


class TestWhereItCannotLook:
    def test_a_right_that_is_missing(self, account: Account) -> None:
        account.answers("ssm", get_parameter=refused("AccessDeniedException"))
        (finding,) = Check("bootstrap", Site.bootstrap, checks.bootstrap).findings(account)
        assert finding.state == "warn"
        assert finding.text.startswith("not checked: arn:ann has no permission for GetParameter in ")

    def test_before_the_first_deployment(self, account: Account) -> None:
        found = {check.name: check.findings(account) for check in CHECKS if check.name in ("stack", "functions", "API")}
        assert found["stack"][0].state == "warn"
        for name in ("functions", "API"):
            (finding,) = found[name]
            assert (finding.state, finding.text) == ("unchecked", "not checked here: the stack is not deployed yet")

    def test_an_api_that_is_out_of_reach(self, account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
        account.__dict__["_stacks"] = {"Shop": "CREATE_COMPLETE"}
        account.target.__dict__["_client"] = SagaClient("http://127.0.0.1:1/live", region="eu-west-1")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
        (finding,) = next(check for check in CHECKS if check.name == "API").findings(account)
        assert finding.state == "warn"
        assert finding.text.startswith("not checked: the API at http://127.0.0.1:1/live is out of reach")

    def test_an_app_that_cannot_be_synthesized_is_named_once(self, account: Account) -> None:
        broken = Account(command="python nowhere.py")
        (finding,) = next(check for check in CHECKS if check.name == "app").findings(broken)
        assert finding.state == "fail"
        with pytest.raises(NotChecked, match="the app cannot be synthesized"):
            _ = broken.template


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs the command where nothing is configured."""
    monkeypatch.chdir(tmp_path)
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "SAGAS_STACK"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return lambda *arguments: CliRunner().invoke(app, ["doctor", *arguments])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "no local stack is running for this project; `sagas local up` starts one"),
        (("--stack", "Shop"), "no AWS region is configured; name one with --region or AWS_DEFAULT_REGION"),
        (("--stack", "Shop", "--region", "eu-west-1"), "Unable to locate credentials; sign in to AWS"),
        (("--stack", "Shop", "--region", "eu-west-1", "--profile", "nope"), "The config profile (nope) could not"),
    ],
)
def test_without_a_place_there_is_one_line(run: Callable[..., Result], arguments: tuple[str, ...], told: str) -> None:
    ended = run(*arguments)
    assert (ended.exit_code, ended.stdout) == (2, "")
    (line,) = ended.stderr.splitlines()
    assert told in line


def test_a_region_in_which_nothing_answers(run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ACCESS_KEY_ID", "a"), ("SECRET_ACCESS_KEY", "b"), ("ENDPOINT_URL", "http://127.0.0.1:1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    ended = run("--stack", "Shop", "--region", "eu-west-1")
    assert ended.exit_code == 2
    (line,) = ended.stderr.splitlines()
    assert "eu-west-1 (http://127.0.0.1:1)" in line
    assert line.endswith("check the region and your network")
