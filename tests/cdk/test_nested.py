"""Services too large for one stack: each saga in nested stacks of its own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import new_class
from typing import Any, cast

import pytest
from aws_cdk import App, Stack, Validations
from cdk_nag import AwsSolutionsChecks, ServerlessChecks
from jsii._kernel.providers import process

from functions.checkout import Checkout
from functions.create_zip import CreateZip
from sagas import AutoDisable, Context, Saga, step
from sagas.cdk import SagaService
from sagas.errors import DefinitionError
from sagas.local.deploy.assembly import read_assembly
from tests.cdk import saga_classes
from tests.cdk.rendered import lint, rights
from tests.cdk.saga_classes import Order, saga_of
from tests.cdk.templates import nested, synthesized
from tests.cdk.test_permissions import XRAY

Template = dict[str, Any]
Templates = dict[str, Template]
MOST_RESOURCES = 500
MOST_OUTPUTS = 200
MOST_BYTES = 1_000_000


def templates_in(directory: Path) -> Templates:
    """All templates of an assembly, by file name."""
    return {path.name: json.loads(path.read_text()) for path in sorted(directory.glob("*.template.json"))}


def synthesize(directory: Path, *sagas: type[Any], **options: Any) -> Templates:
    """The templates of a service."""
    app = App(outdir=str(directory))
    SagaService(Stack(app, "Large"), "Shop", sagas=sagas, **options)
    app.synth()
    return templates_in(directory)


def _work(self: Any, ctx: Context) -> None: ...


def resources(templates: Templates, kind: str) -> list[Template]:
    """All resources of a type."""
    return [one for template in templates.values() for one in template["Resources"].values() if one["Type"] == kind]


def own_functions(templates: Templates) -> list[Template]:
    """The functions of the service, without those of the CDK."""
    found = [one for one in resources(templates, "AWS::Lambda::Function") if "Environment" in one["Properties"]]
    assert found
    return found


def marks(templates: Templates, part: str) -> Iterator[tuple[str, str]]:
    """Saga and steps of the resources that are marked as ``part``."""
    for template in templates.values():
        for resource in template["Resources"].values():
            names = resource.get("Metadata", {}).get("sagas", {})
            if names.get("part") == part:
                yield names["saga"], names["step"]


@dataclass
class Large:
    """A service that one stack has no room for: a long saga, and two of three steps.

    Args:
        steps: of the long saga.
        directory: the output of its app.
    """

    steps: int
    directory: Path

    @property
    def all_steps(self) -> int:
        """How many steps the three sagas have."""
        return self.steps + 6

    @cached_property
    def templates(self) -> Templates:
        """All templates, by file name."""
        return templates_in(self.directory)


def of_steps(steps: int, directory: Path) -> Large:
    """A service whose long saga has so many steps; it does not ask for nested stacks."""
    app = App(outdir=str(directory))
    Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
    nested(app, steps, nested_stacks=None)
    app.synth()
    return Large(steps, directory)


@pytest.fixture(scope="module", params=[30, pytest.param(42, marks=pytest.mark.slow)])
def large(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Large:
    """With 42 steps, the functions of one saga need two nested stacks."""
    return of_steps(request.param, tmp_path_factory.mktemp("large"))


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
    def test_one_nested_stack_a_saga_or_more(self, large: Large) -> None:
        templates = large.templates
        stacks = resources(templates, "AWS::CloudFormation::Stack")
        assert len(stacks) == (3 if large.steps == 30 else 4)
        for template in templates.values():
            sagas = {saga for saga, _ in marks({"": template}, "function")}
            assert len(sagas) <= 1

    def test_queues_stay_in_the_stack_of_the_service(self, large: Large) -> None:
        templates = large.templates
        assert [name for name, one in templates.items() if resources({name: one}, "AWS::SQS::Queue")] == [
            "Large.template.json"
        ]
        (own,) = resources({"": templates["Large.template.json"]}, "AWS::Lambda::EventSourceMapping")
        assert "Bulk" in json.dumps(own["Properties"]["EventSourceArn"])

    def test_every_template_keeps_to_the_limits(self, large: Large) -> None:
        for path in large.directory.glob("*.template.json"):
            template = json.loads(path.read_text())
            assert len(template["Resources"]) < MOST_RESOURCES
            assert len(template.get("Outputs", {})) < MOST_OUTPUTS
            assert path.stat().st_size < MOST_BYTES

    @pytest.mark.slow
    def test_cfn_lint_finds_nothing(self, tmp_path: Path) -> None:
        """Nor in the gate, with few steps: see ``test_policies.py``."""
        # W3045: how the CDK lets S3 write access logs, to the bucket of this test.
        assert lint(*of_steps(42, tmp_path).directory.glob("*.template.json"), ignored=["W3045"]) == []

    def test_every_step_has_its_queue_and_function(self, large: Large) -> None:
        templates = large.templates
        for part in ("queue", "function"):
            found = list(marks(templates, part))
            assert len(found) == len(set(found)) == large.all_steps
            assert ("long0", f"step_{large.steps - 1}") in found

    def test_options_and_grants_reach_functions(self, large: Large) -> None:
        functions = {
            tuple(one["Metadata"]["sagas"].values())[1:]: one["Properties"]
            for one in resources(large.templates, "AWS::Lambda::Function")
            if "sagas" in one.get("Metadata", {})
        }
        assert functions["create-zip", "upload"]["MemorySize"] == 1024
        assert functions["checkout", "ship"]["Environment"]["Variables"]["COLOUR"] == "blue"
        assert "Ref" in functions["checkout", "ship"]["Environment"]["Variables"]["ZIPS_BUCKET"]

    def test_functions_may_send_to_the_queues_of_their_saga_only(self, large: Large) -> None:
        for template in large.templates.values():
            for own in rights(template).values():
                granted = {one for action, one in own if action == "sqs:SendMessage"}
                assert not [one for one in granted if "*" in one or "dead-letters" in one]
        (checkout,) = (template for name, template in large.templates.items() if "checkout" in name)
        sagas = rights(checkout)
        assert len(sagas) == 3
        for own in sagas.values():
            granted = {one for action, one in own if action == "sqs:SendMessage"}
            assert len(granted) == 3
            assert all(":checkout-" in str(one) for one in granted)

    def test_no_wildcard_but_objects_under_a_prefix(self, large: Large) -> None:
        all_rights = (
            pair for template in large.templates.values() for own in rights(template).values() for pair in own
        )
        for action, one in all_rights:
            assert "*" not in action
            assert action in XRAY or "*" not in one or (action.startswith("s3:") and one.endswith("/*"))

    def test_alarms_are_told_to_the_topic(self, large: Large) -> None:
        alarms = resources(large.templates, "AWS::CloudWatch::Alarm")
        assert len([one for one in alarms if one["Properties"].get("MetricName") == "Failing"]) == 3
        assert all(len(one["Properties"]["AlarmActions"]) == 1 for one in alarms)

    def test_the_local_stack_takes_it_for_one(self, large: Large) -> None:
        (stack,) = read_assembly(large.directory, "000000000000", "us-east-1")
        kinds = [resource["Type"] for resource in stack.template["Resources"].values()]
        assert "AWS::CloudFormation::Stack" not in kinds
        assert kinds.count("AWS::SQS::Queue") == large.all_steps + 5


@pytest.mark.slow
def test_the_longest_saga_with_the_longest_names(tmp_path: Path) -> None:
    def fill(namespace: dict[str, Any]) -> None:
        namespace["__module__"] = saga_classes.__name__
        for position in range(100):
            namespace[f"step_{position:03}_{'x' * 31}"] = step(_work)

    longest = new_class("Longest", (Saga[Order],), {"name": "l" * 40, "auto_disable": AutoDisable()}, fill)
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

    def test_when_a_service_grows_out_of_its_stack(self, large: Large, tmp_path: Path) -> None:
        small = synthesize(tmp_path, Checkout, CreateZip)
        assert (len(small), len(large.templates) > 3) == (1, True)
        before, after = self.queues(small), self.queues(large.templates)
        assert {place: after[place] for place in before} == before

    @pytest.mark.slow  # test_when_a_service_grows_out_of_its_stack fails first
    def test_when_a_long_saga_gets_a_step_at_its_beginning(self, tmp_path: Path) -> None:
        def saga(*more: str) -> type[Any]:
            def fill(namespace: dict[str, Any]) -> None:
                namespace["__module__"] = saga_classes.__name__
                for name in (*more, *(f"step_{position}" for position in range(33))):
                    namespace[name] = step(_work)

            return new_class("Growing", (Saga[Order],), exec_body=fill)

        options = {"nested_stacks": True}
        before = self.queues(synthesize(tmp_path / "before", saga(), **options))
        after = self.queues(synthesize(tmp_path / "after", saga("first", "second"), **options))
        assert {place: after[place] for place in before} == before
        assert len({template for template, _, _ in after.values()}) == 1


class TestRedriveAllowPolicy:
    def test_takes_the_sagas_own_queues_only(self) -> None:
        queues = resources(templates_in(synthesized("plain")), "AWS::SQS::Queue")
        mark = {"part": "dead_letter_queue", "saga": "checkout"}
        (letters,) = [one for one in queues if one["Metadata"]["sagas"] == mark]
        allowed = letters["Properties"]["RedriveAllowPolicy"]
        assert allowed["redrivePermission"] == "byQueue"
        names = [arn["Fn::Sub"][0].rpartition(":")[2] for arn in allowed["sourceQueueArns"]]
        assert names == [f"checkout-{step}-${{Token}}" for step in ("reserve", "capture", "ship")]

    def test_of_a_longer_saga_cannot_name_them(self, large: Large) -> None:
        queues = of_sagas({name: template for name, template in large.templates.items() if "nested" not in name})
        of_long = [one for one in queues if one["Metadata"]["sagas"]["saga"] == "long0"]
        assert len(of_long) == large.steps + 1
        assert not [one for one in of_long if "RedriveAllowPolicy" in one["Properties"]]


class TestAsked:
    def test_few_steps_stay_in_the_stack(self) -> None:
        assert len(templates_in(synthesized("plain"))) == 1

    def test_few_steps_nested_from_the_start(self) -> None:
        assert len(templates_in(synthesized("nested"))) == 1 + 3

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

    def test_all_functions_of_a_service_have_its_id(self, tmp_path: Path) -> None:
        app = App(outdir=str(tmp_path))
        stack = Stack(app, "Large")
        SagaService(stack, "Shop", sagas=[Checkout], nested_stacks=True)
        app.synth()
        templates = templates_in(tmp_path)
        (nested,) = resources(templates, "AWS::CloudFormation::Stack")
        own = json.dumps(nested["Properties"]["Parameters"]["Token"])
        found = [
            json.dumps(one["Properties"]["Environment"]["Variables"]["SAGAS_SERVICE"])
            for one in resources(templates, "AWS::Lambda::Function")
        ]
        assert set(found) == {own, json.dumps({"Ref": "Token"})}

    def test_with_a_key_and_a_network_of_the_outer_stack(self) -> None:
        templates = templates_in(synthesized("nested_within_a_network"))
        (inner,) = (template for name, template in templates.items() if "nested" in name)
        queues = resources({"": inner}, "AWS::SQS::Queue")
        assert len(queues) == 4
        assert all("Ref" in one["Properties"]["KmsMasterKeyId"] for one in queues)
        functions = resources({"": inner}, "AWS::Lambda::Function")
        assert len(functions) == 3
        assert all(one["Properties"]["VpcConfig"]["SubnetIds"] for one in functions)

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

    def test_names_are_derived_from_what_they_are_for(self, large: Large) -> None:
        for function in own_functions(large.templates):
            assert "step_7" not in json.dumps(function["Properties"]["Environment"]["Variables"]["SAGAS_QUEUES"])

    def test_a_shared_queue_is_named_once(self, tmp_path: Path) -> None:
        sagas = [saga_of(number, 40) for number in range(2)]
        templates = synthesize(tmp_path, *sagas, isolation="saga")
        assert len(templates) == 1
        for function in own_functions(templates):
            assert "step_7" not in json.dumps(function["Properties"]["Environment"]["Variables"]["SAGAS_QUEUES"])


def refused(*sagas: type[Any]) -> str:
    """The message of a service that must not be built."""
    with pytest.raises(DefinitionError) as error:
        SagaService(Stack(App(), "Test"), "Shop", sagas=sagas)
    return str(error.value)


class TestRefused:
    def test_a_saga_that_is_too_long(self) -> None:
        assert "saga long0 has 101 steps with a function each; the limit is 100" in refused(saga_of(0, 101))

    def test_queues_beyond_what_a_stack_takes(self) -> None:
        message = refused(*(saga_of(number, 75) for number in range(3)))
        assert "a stack has no room for all its queues; set nested_stacks=True if it is not deployed yet" in message
