"""SagaService: several of them, their options, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from aws_cdk import App, RemovalPolicy, Size, Stack
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns

from functions.checkout import Checkout
from functions.create_zip import CreateZip
from sagas.cdk import FunctionOptions, SagaService
from sagas.errors import DefinitionError
from tests.cdk.rendered import Template, marks, render, template_of
from tests.cdk.saga_classes import Namesake, Slow


def of_type(template: Template, kind: str) -> list[Template]:
    return [resource for resource in template["Resources"].values() if resource["Type"] == kind]


@pytest.fixture(scope="module")
def slow() -> Template:
    """The template of a service without options."""
    return render(lambda stack: SagaService(stack, "S", sagas=[Slow]))


@pytest.fixture(scope="module")
def tuned() -> Template:
    """The template of a service with options, its own and those of one function."""
    options = FunctionOptions(
        memory_size=1024,
        ephemeral_storage=Size.gibibytes(2),
        batch_size=5,
        maximum_concurrency=5,
        environment={"SHAPE": "round"},
    )

    def build(stack: Stack) -> None:
        service = SagaService(
            stack,
            "S",
            sagas=[Slow],
            functions={Slow.work: options},
            environment={"COLOUR": "red"},
            removal_policy=RemovalPolicy.DESTROY,
            architecture=lambda_.Architecture.X86_64,
            log_level="DEBUG",
            shards=2,
            alarm_topic=sns.Topic(stack, "Alarms"),
        )
        s3.Bucket(stack, "B").grant_read(service.function(Slow.work))

    return render(build)


class TestPolicies:
    def test_an_undo_counts_too(self, slow: Template) -> None:
        found = marks(slow)
        assert found["function", "slow", "work"]["Timeout"] == 106
        assert found["queue", "slow", "work"]["VisibilityTimeout"] == 108
        assert found["queue", "slow", "work"]["RedrivePolicy"]["maxReceiveCount"] == 18

    def test_a_retired_step_keeps_function_and_queue(self, slow: Template) -> None:
        assert {("function", "slow", "old"), ("queue", "slow", "old")} <= set(marks(slow))

    def test_a_batch_is_processed_one_by_one(self, tuned: Template) -> None:
        found = marks(tuned)
        assert found["function", "slow", "work"]["Timeout"] == 506
        assert found["queue", "slow", "work"]["VisibilityTimeout"] == 508


class TestOptions:
    def test_of_a_function(self, tuned: Template) -> None:
        function = marks(tuned)["function", "slow", "work"]
        assert function["MemorySize"] == 1024
        assert function["EphemeralStorage"] == {"Size": 2048}
        assert function["Environment"]["Variables"]["SHAPE"] == "round"
        assert "SHAPE" not in marks(tuned)["function", "slow", "old"]["Environment"]["Variables"]
        concurrency = [source["Properties"].get("ScalingConfig") for source in of_type(tuned, MAPPING)]
        assert concurrency == [{"MaximumConcurrency": 5}, None, {"MaximumConcurrency": 10}]

    def test_of_the_service(self, tuned: Template) -> None:
        for function in of_type(tuned, "AWS::Lambda::Function"):
            variables = function["Properties"]["Environment"]["Variables"]
            assert variables["COLOUR"] == "red"
            assert variables["POWERTOOLS_LOG_LEVEL"] == "DEBUG"
            assert variables["SAGAS_SHARDS"] == "2"
            assert function["Properties"]["Architectures"] == ["x86_64"]
        for table in of_type(tuned, "AWS::DynamoDB::Table"):
            assert table["DeletionPolicy"] == "Delete"
            assert table["Properties"]["DeletionProtectionEnabled"] is False

    def test_alarms_go_to_the_topic(self, tuned: Template) -> None:
        alarms = of_type(tuned, "AWS::CloudWatch::Alarm")
        assert alarms
        assert all(len(alarm["Properties"]["AlarmActions"]) == 1 for alarm in alarms)


MAPPING = "AWS::Lambda::EventSourceMapping"


class TestSeveral:
    def test_in_one_stack_and_in_one_app_name_nothing_physically(self) -> None:
        app = App()
        stacks = [Stack(app, name) for name in ("One", "Two")]
        for stack, id in ((stacks[0], "S"), (stacks[1], "S"), (stacks[1], "T")):
            SagaService(stack, id, sagas=[Slow])
        fixed = {"TableName", "QueueName", "FunctionName", "BucketName", "RoleName", "LogGroupName", "AlarmName"}
        for stack, services in zip(stacks, (1, 2), strict=True):
            template = template_of(stack)
            assert len(of_type(template, "AWS::ApiGateway::RestApi")) == services
            given = [one.get("Properties", {}).get(name) for one in template["Resources"].values() for name in fixed]
            assert not [name for name in given if isinstance(name, str)]


class TestAccess:
    def test_parts(self) -> None:
        service = SagaService(Stack(App(), "Test"), "S", sagas=[CreateZip, Checkout])
        assert service.function(CreateZip.upload) is not service.function(CreateZip.check)
        assert service.queue(CreateZip.upload).queue_arn != service.dead_letter_queue(CreateZip).queue_arn
        assert service.sagas_table.table_arn != service.audit_table.table_arn
        assert service.api.url
        assert service.supervisor.function_arn

    def test_users_grant_what_a_step_needs(self, tuned: Template) -> None:
        assert "s3:GetObject*" in str(tuned)


def refused(build: Callable[[Stack], object]) -> str:
    """The message of a service that must not be built."""
    with pytest.raises(DefinitionError) as error:
        build(Stack(App(), "Test"))
    return str(error.value)


class TestRefused:
    def test_no_saga(self) -> None:
        assert refused(lambda stack: SagaService(stack, "Shop", sagas=[])) == "Shop: a service needs at least one saga"

    def test_two_of_one_name(self) -> None:
        message = refused(lambda stack: SagaService(stack, "Shop", sagas=[Checkout, Namesake]))
        assert "two sagas are named checkout: Checkout and Namesake" in message

    def test_the_same_twice(self) -> None:
        assert "two sagas" in refused(lambda stack: SagaService(stack, "Shop", sagas=[Checkout, Checkout]))

    def test_something_else_than_a_saga(self) -> None:
        assert "int is not a saga class" in refused(lambda stack: SagaService(stack, "Shop", sagas=[int]))

    def test_options_for_a_step_of_no_saga_here(self) -> None:
        functions = {CreateZip.upload: FunctionOptions()}
        message = refused(lambda stack: SagaService(stack, "Shop", sagas=[Checkout], functions=functions))
        assert "CreateZip is not among its sagas (Checkout)" in message

    def test_options_for_something_else_than_a_step(self) -> None:
        functions = {"upload": FunctionOptions()}
        message = refused(lambda stack: SagaService(stack, "Shop", sagas=[Checkout], functions=functions))
        assert "'upload' is not a function of the service" in message

    def test_a_step_of_another_service(self) -> None:
        service = SagaService(Stack(App(), "Test"), "Shop", sagas=[Slow])
        with pytest.raises(DefinitionError, match="CreateZip is not among its sagas"):
            service.function(CreateZip.upload)

    def test_a_batch_that_takes_too_long(self) -> None:
        functions = {CreateZip.upload: FunctionOptions(batch_size=2)}
        message = refused(lambda stack: SagaService(stack, "Shop", sagas=[CreateZip], functions=functions))
        assert "step upload: a batch of 2 with a timeout of 840 s each needs 1686 s" in message

    def test_variables_beyond_what_lambda_takes(self) -> None:
        environment = {"LONG": "x" * 3900}
        message = refused(lambda stack: SagaService(stack, "Shop", sagas=[Checkout], environment=environment))
        assert "Lambda's limit is 4096" in message
