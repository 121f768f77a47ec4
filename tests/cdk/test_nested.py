"""Services too large for one stack: each saga in nested stacks of its own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import new_class
from typing import Any, cast

import pytest
from aws_cdk import App, Stack, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from cdk_nag import AwsSolutionsChecks, ServerlessChecks
from jsii._kernel.providers import process

from functions.checkout import Checkout
from functions.create_zip import CreateZip
from sagas import AutoDisable, Context, Saga, step
from sagas.cdk import FunctionOptions, Network, SagaService
from sagas.errors import DefinitionError
from sagas.local.assembly import read_assembly
from tests.cdk.rendered import lint
from tests.cdk.test_permissions import XRAY, pairs
from tests.support.hostile import FULL

Template = dict[str, Any]
Templates = dict[str, Template]
MONTH = timedelta(days=30)
MOST_RESOURCES = 500
MOST_OUTPUTS = 200
MOST_BYTES = 1_000_000


@dataclass(frozen=True)
class Request:
    amount: int


def _work(self: Any, ctx: Context) -> None: ...


def saga_of(number: int, steps: int) -> type[Any]:
    """A saga class with so many steps."""

    def fill(namespace: dict[str, Any]) -> None:
        namespace["__module__"] = __name__
        for position in range(steps):
            namespace[f"step_{position}"] = step(_work)

    return new_class(f"Long{number}", (Saga[Request],), exec_body=fill)


def templates_in(directory: Path) -> Templates:
    """All templates of an assembly, by file name."""
    return {path.name: json.loads(path.read_text()) for path in sorted(directory.glob("*.template.json"))}


def synthesize(directory: Path, *sagas: type[Any], **options: Any) -> Templates:
    """The templates of a service."""
    app = App(outdir=str(directory))
    SagaService(Stack(app, "Large"), "Shop", sagas=sagas, **options)
    app.synth()
    return templates_in(directory)


def resources(templates: Templates, kind: str) -> list[Template]:
    """All resources of a type."""
    return [one for template in templates.values() for one in template["Resources"].values() if one["Type"] == kind]


def marks(templates: Templates, part: str) -> Iterator[tuple[str, str]]:
    """Saga and steps of the resources that are marked as ``part``."""
    for template in templates.values():
        for resource in template["Resources"].values():
            names = resource.get("Metadata", {}).get("sagas", {})
            if names.get("part") == part:
                yield names["saga"], names["step"]


def nested_in(directory: Path, steps: int, **options: Any) -> Path:
    """So many steps, three, and three, with all they can refer to outside of nested stacks; cdk-nag runs with it."""
    app = App(outdir=str(directory))
    Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
    stack = Stack(app, "Large")
    topic: Any = sns.Topic(stack, "Topic", enforce_ssl=True)
    access = s3.Bucket(stack, "Access", enforce_ssl=True, block_public_access=s3.BlockPublicAccess.BLOCK_ALL)
    logs: Any = access
    zips = s3.Bucket(
        stack,
        "Zips",
        enforce_ssl=True,
        server_access_logs_bucket=logs,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
    )
    service = SagaService(
        stack,
        "Shop",
        sagas=[saga_of(0, steps), Checkout, CreateZip],
        alarm_topic=topic,
        environment={"ZIPS_BUCKET": zips.bucket_name},
        functions={CreateZip.upload: FunctionOptions(memory_size=1024), Checkout: FunctionOptions(batch_size=2)},
        **options,
    )
    service.allow_sweep(CreateZip, zips)
    service.function(Checkout.ship).add_environment("COLOUR", "blue")
    app.synth()
    return directory


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More than one stack takes."""
    return nested_in(tmp_path_factory.mktemp("large"), 42)


def test_another_step_asks_the_cdk_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs in another process: what does not change is asked once, and not by each step of each other."""
    kernel = cast("Any", process)._NodeProcess
    send, asked = kernel.send, list[object]()

    def counted(self: Any, request: object, *more: object) -> Any:
        asked.append(request)
        return send(self, request, *more)

    monkeypatch.setattr(kernel, "send", counted)
    synthesize(tmp_path / "ten", saga_of(10, 10), nested_stacks=True)
    ten = len(asked)
    synthesize(tmp_path / "twenty", saga_of(20, 20), nested_stacks=True)
    assert (len(asked) - 2 * ten) / 10 < 100, (ten, len(asked) - ten)


def of_sagas(templates: Templates) -> list[Template]:
    """The queues of sagas, without that of the service's own work."""
    queues = resources(templates, "AWS::SQS::Queue")
    return [one for one in queues if not one["Metadata"]["sagas"]["part"].startswith("work_")]


class TestWithoutRoomInOneStack:
    def test_one_nested_stack_a_saga_or_more(self, large: Path) -> None:
        templates = templates_in(large)
        stacks = resources(templates, "AWS::CloudFormation::Stack")
        assert len(stacks) == 4
        for template in templates.values():
            sagas = {saga for saga, _ in marks({"": template}, "function")}
            assert len(sagas) <= 1

    def test_queues_stay_in_the_stack_of_the_service(self, large: Path) -> None:
        templates = templates_in(large)
        assert [name for name, one in templates.items() if resources({name: one}, "AWS::SQS::Queue")] == [
            "Large.template.json"
        ]
        (own,) = resources({"": templates["Large.template.json"]}, "AWS::Lambda::EventSourceMapping")
        assert "Bulk" in json.dumps(own["Properties"]["EventSourceArn"])

    def test_every_template_keeps_to_the_limits(self, large: Path) -> None:
        for path in large.glob("*.template.json"):
            template = json.loads(path.read_text())
            assert len(template["Resources"]) < MOST_RESOURCES
            assert len(template.get("Outputs", {})) < MOST_OUTPUTS
            assert path.stat().st_size < MOST_BYTES

    def test_cfn_lint_finds_nothing(self, tmp_path: Path) -> None:
        # One step is as the other, and the limits are counted above: those of 42 steps take half a minute.
        nested = nested_in(tmp_path, 42) if FULL else nested_in(tmp_path, 2, nested_stacks=True)
        templates = list(nested.glob("*.template.json"))
        assert len(templates) > 3
        # W3045: how the CDK lets S3 write access logs, to the bucket of this test.
        assert lint(*templates, ignored=["W3045"]) == []

    def test_every_step_has_its_queue_and_function(self, large: Path) -> None:
        templates = templates_in(large)
        for part in ("queue", "function"):
            found = list(marks(templates, part))
            assert len(found) == len(set(found)) == 48
            assert ("long0", "step_41") in found

    def test_options_and_grants_reach_functions(self, large: Path) -> None:
        functions = {
            tuple(one["Metadata"]["sagas"].values())[1:]: one["Properties"]
            for one in resources(templates_in(large), "AWS::Lambda::Function")
            if "sagas" in one.get("Metadata", {})
        }
        assert functions["create-zip", "upload"]["MemorySize"] == 1024
        assert functions["checkout", "ship"]["Environment"]["Variables"]["COLOUR"] == "blue"
        assert "Ref" in functions["checkout", "ship"]["Environment"]["Variables"]["ZIPS_BUCKET"]

    def test_functions_may_send_to_the_queues_of_their_saga_only(self, large: Path) -> None:
        for template in templates_in(large).values():
            for policy in resources({"": template}, "AWS::IAM::Policy"):
                granted = {
                    one for action, one in pairs(policy["Properties"]["PolicyDocument"]) if action == "sqs:SendMessage"
                }
                assert not [one for one in granted if "*" in one or "dead-letters" in one]
        sagas = resources({n: t for n, t in templates_in(large).items() if "checkout" in n}, "AWS::IAM::Policy")
        assert len(sagas) == 3
        for policy in sagas:
            granted = {
                one for action, one in pairs(policy["Properties"]["PolicyDocument"]) if action == "sqs:SendMessage"
            }
            assert len(granted) == 3
            assert all(":checkout-" in str(one) for one in granted)

    def test_no_wildcard_but_objects_under_a_prefix(self, large: Path) -> None:
        templates = templates_in(large)
        policies = [*resources(templates, "AWS::IAM::Policy"), *resources(templates, "AWS::IAM::ManagedPolicy")]
        for action, one in (pair for policy in policies for pair in pairs(policy["Properties"]["PolicyDocument"])):
            assert "*" not in action
            assert action in XRAY or "*" not in one or (action.startswith("s3:") and one.endswith("/*"))

    def test_alarms_are_told_to_the_topic(self, large: Path) -> None:
        alarms = resources(templates_in(large), "AWS::CloudWatch::Alarm")
        assert len([one for one in alarms if one["Properties"]["MetricName"] == "ApproximateAgeOfOldestMessage"]) == 48
        assert all(len(one["Properties"]["AlarmActions"]) == 1 for one in alarms)

    def test_the_local_stack_takes_it_for_one(self, large: Path) -> None:
        (stack,) = read_assembly(large, "000000000000", "us-east-1")
        kinds = [resource["Type"] for resource in stack.template["Resources"].values()]
        assert "AWS::CloudFormation::Stack" not in kinds
        assert kinds.count("AWS::SQS::Queue") == 53


def test_the_longest_saga_with_the_longest_names(tmp_path: Path) -> None:
    def fill(namespace: dict[str, Any]) -> None:
        namespace["__module__"] = __name__
        for position in range(100):
            namespace[f"step_{position:03}_{'x' * 31}"] = step(_work)

    longest = new_class("Longest", (Saga[Request],), {"name": "l" * 40, "auto_disable": AutoDisable()}, fill)
    templates = synthesize(tmp_path, longest)
    assert len(templates) == 5
    assert max(len(template["Resources"]) for template in templates.values()) < MOST_RESOURCES
    assert max(path.stat().st_size for path in tmp_path.glob("*.template.json")) < MOST_BYTES
    policies = resources(templates, "AWS::IAM::ManagedPolicy")
    attached = Counter(json.dumps(role) for policy in policies for role in policy["Properties"]["Roles"])
    assert max(attached.values()) <= 10


class TestQueuesStay:
    """Their messages are lost with them, so nothing that happens to a service may replace its queues."""

    def queues(self, templates: Templates) -> dict[tuple[str, str], tuple[str, str, str]]:
        """Template, logical id and name of the queue of each step."""
        return {
            (tag["saga"], tag["step"]): (name, id, json.dumps(one["Properties"]["QueueName"]))
            for name, template in templates.items()
            for id, one in template["Resources"].items()
            if (tag := one.get("Metadata", {}).get("sagas", {})).get("part") == "queue"
        }

    def test_when_a_service_grows_out_of_its_stack(self, tmp_path: Path) -> None:
        small = synthesize(tmp_path / "small", Checkout, CreateZip, dashboard=False)
        grown = synthesize(tmp_path / "grown", Checkout, CreateZip, saga_of(0, 30), dashboard=False)
        assert (len(small), len(grown)) == (1, 4)
        before, after = self.queues(small), self.queues(grown)
        assert {place: after[place] for place in before} == before

    def test_when_a_long_saga_gets_a_step_at_its_beginning(self, tmp_path: Path) -> None:
        def saga(*more: str) -> type[Any]:
            def fill(namespace: dict[str, Any]) -> None:
                namespace["__module__"] = __name__
                for name in (*more, *(f"step_{position}" for position in range(33))):
                    namespace[name] = step(_work)

            return new_class("Growing", (Saga[Request],), exec_body=fill)

        options = {"nested_stacks": True, "dashboard": False}
        before = self.queues(synthesize(tmp_path / "before", saga(), **options))
        after = self.queues(synthesize(tmp_path / "after", saga("first", "second"), **options))
        assert {place: after[place] for place in before} == before
        assert len({template for template, _, _ in after.values()}) == 1


class TestRedriveAllowPolicy:
    def test_takes_the_sagas_own_queues_only(self, tmp_path: Path) -> None:
        templates = synthesize(tmp_path, Checkout, dashboard=False)
        queues = {one["Metadata"]["sagas"]["part"]: one for one in resources(templates, "AWS::SQS::Queue")}
        allowed = queues["dead_letter_queue"]["Properties"]["RedriveAllowPolicy"]
        assert allowed["redrivePermission"] == "byQueue"
        names = [arn["Fn::Sub"][0].rpartition(":")[2] for arn in allowed["sourceQueueArns"]]
        assert names == [f"checkout-{step}-${{Token}}" for step in ("reserve", "capture", "ship")]

    def test_of_a_longer_saga_cannot_name_them(self, tmp_path: Path) -> None:
        queues = of_sagas(synthesize(tmp_path, saga_of(1, 11), dashboard=False))
        assert queues
        assert not [one for one in queues if "RedriveAllowPolicy" in one["Properties"]]


class TestAsked:
    def test_few_steps_stay_in_the_stack(self, tmp_path: Path) -> None:
        assert len(synthesize(tmp_path, Checkout, CreateZip)) == 1

    def test_few_steps_nested_from_the_start(self, tmp_path: Path) -> None:
        assert len(synthesize(tmp_path, Checkout, CreateZip, nested_stacks=True)) == 3

    def test_two_services_in_one_stack_name_their_queues_apart(self, tmp_path: Path) -> None:
        app = App(outdir=str(tmp_path))
        stack = Stack(app, "Large")
        for name in ("One", "Two"):
            SagaService(stack, name, sagas=[Checkout], nested_stacks=True)
        app.synth()
        nested = resources(templates_in(tmp_path), "AWS::CloudFormation::Stack")
        tokens = [json.dumps(one["Properties"]["Parameters"]["Token"]) for one in nested]
        assert len(set(tokens)) == 2
        # The same app in another stack, or deployed anew, has queues of other names.
        assert all("AWS::StackId" in token for token in tokens)

    def test_with_a_key_and_a_network_of_the_outer_stack(self, tmp_path: Path) -> None:
        app = App(outdir=str(tmp_path))
        Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
        stack = Stack(app, "Large")
        key = kms.Key(stack, "Key", enable_key_rotation=True)
        vpc = ec2.Vpc(stack, "Vpc", nat_gateways=1, max_azs=2, flow_logs={"All": ec2.FlowLogOptions()})
        SagaService(
            stack,
            "Shop",
            sagas=[Checkout],
            nested_stacks=True,
            encryption_key=key,
            network=Network(vpc),
            retention=MONTH,
        )
        app.synth()
        templates = templates_in(tmp_path)
        (nested,) = (template for name, template in templates.items() if "nested" in name)
        queues = resources({"": nested}, "AWS::SQS::Queue")
        assert len(queues) == 4
        assert all("Ref" in one["Properties"]["KmsMasterKeyId"] for one in queues)
        functions = resources({"": nested}, "AWS::Lambda::Function")
        assert all(one["Properties"]["VpcConfig"]["SubnetIds"] for one in functions)
        assert lint(*tmp_path.glob("*.template.json")) == []

    def test_shared_functions(self, tmp_path: Path) -> None:
        templates = synthesize(tmp_path, Checkout, CreateZip, nested_stacks=True, isolation="saga")
        assert sorted(marks(templates, "queue")) == [
            ("checkout", "reserve,capture,ship"),
            ("create-zip", "check,upload,announce"),
        ]
        names = [json.dumps(one["Properties"].get("QueueName")) for one in resources(templates, "AWS::SQS::Queue")]
        assert len([name for name in names if "checkout-steps-" in name]) == 1


class TestVariables:
    """Lambda allows 4 KB for the variables of a function, and checks it only when it is deployed."""

    def test_names_are_derived_from_what_they_are_for(self, tmp_path: Path) -> None:
        templates = synthesize(tmp_path, saga_of(0, 9), Checkout, dashboard=False)
        for function in resources(templates, "AWS::Lambda::Function"):
            assert "step_7" not in json.dumps(function["Properties"]["Environment"]["Variables"]["SAGAS_QUEUES"])

    def test_names_of_cloudformations_are_written_down(self, tmp_path: Path) -> None:
        templates = synthesize(tmp_path, Checkout, queue_names="generated", dashboard=False)
        assert not [one for one in of_sagas(templates) if "QueueName" in one["Properties"]]
        for function in resources(templates, "AWS::Lambda::Function"):
            assert "reserve" in json.dumps(function["Properties"]["Environment"]["Variables"]["SAGAS_QUEUES"])

    def test_a_shared_queue_is_named_once(self, tmp_path: Path) -> None:
        sagas = [saga_of(number, 40) for number in range(2)]
        templates = synthesize(tmp_path, *sagas, isolation="saga")
        assert len(templates) == 1
        for function in resources(templates, "AWS::Lambda::Function"):
            assert "step_7" not in json.dumps(function["Properties"]["Environment"]["Variables"]["SAGAS_QUEUES"])


def refused(*sagas: type[Any]) -> str:
    """The message of a service that must not be built."""
    with pytest.raises(DefinitionError) as error:
        SagaService(Stack(App(), "Test"), "Shop", sagas=sagas)
    return str(error.value)


class TestRefused:
    def test_a_saga_that_is_too_long(self) -> None:
        assert "saga long0 has 101 steps. With a function each 100 are the most" in refused(saga_of(0, 101))

    def test_queues_beyond_what_a_stack_takes(self) -> None:
        message = refused(*(saga_of(number, 67) for number in range(3)))
        assert "a stack has no room for all its queues: say nested_stacks=True if it is not deployed yet" in message
