"""Every option of SagaService and FunctionOptions, by what it makes of the template."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest
from aws_cdk import Duration, RemovalPolicy, Size, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs

from functions.checkout import Checkout
from sagas.cdk import FunctionOptions, Network, SagaService, Throttling
from sagas.errors import DefinitionError
from tests.cdk.rendered import CAPTURE, Template, actions, marks, of_type, render, service, variables, with_capture

SHIP = ("function", "checkout", "ship")


class TestNames:
    def test_one_asked_for_is_given_and_the_rest_follows(self) -> None:
        def build(stack: Stack) -> None:
            shop = SagaService(stack, "Shop", sagas=[Checkout], queue_names="generated")
            cast("lambda_.CfnFunction", shop.function(Checkout.capture).node.default_child).function_name = "capture"
            cast("sqs.CfnQueue", shop.queue(Checkout.capture).node.default_child).queue_name = "captures"

        template = render(build)
        assert marks(template)[CAPTURE]["FunctionName"] == "capture"
        assert marks(template)["queue", "checkout", "capture"]["QueueName"] == "captures"
        assert "FunctionName" not in marks(template)[SHIP]


class TestFunctionOptions:
    def test_concern_one_function(self) -> None:
        template = with_capture(memory_size=2048, reserved_concurrency=7, log_level="DEBUG")
        capture, ship = marks(template)[CAPTURE], marks(template)[SHIP]
        assert (capture["MemorySize"], ship["MemorySize"]) == (2048, 256)
        assert capture["ReservedConcurrentExecutions"] == 7
        assert "ReservedConcurrentExecutions" not in ship
        assert variables(template)["POWERTOOLS_LOG_LEVEL"] == "DEBUG"
        assert variables(template, SHIP)["POWERTOOLS_LOG_LEVEL"] == "INFO"

    def test_of_a_saga_class_are_those_of_its_steps(self) -> None:
        functions = {Checkout: FunctionOptions(memory_size=512), Checkout.ship: FunctionOptions(memory_size=1024)}
        found = marks(service(functions=functions))
        assert (found[CAPTURE]["MemorySize"], found[SHIP]["MemorySize"]) == (512, 1024)

    def test_architecture_and_runtime(self) -> None:
        found = with_capture(architecture=lambda_.Architecture.X86_64, runtime=lambda_.Runtime.PYTHON_3_12)
        capture, ship = marks(found)[CAPTURE], marks(found)[SHIP]
        assert (capture["Architectures"], capture["Runtime"]) == (["x86_64"], "python3.12")
        assert (ship["Architectures"], ship["Runtime"]) == (["arm64"], "python3.13")
        layers = {id: one for id, one in found["Resources"].items() if one["Type"] == "AWS::Lambda::LayerVersion"}
        assert len(layers) == 2
        for function in (capture, ship):
            (layer,) = (layers[one["Ref"]]["Properties"] for one in function["Layers"])
            assert layer["CompatibleArchitectures"] == function["Architectures"]
            assert layer["CompatibleRuntimes"] == [function["Runtime"]]

    def test_one_layer_for_each_platform_in_use(self) -> None:
        options = FunctionOptions(architecture=lambda_.Architecture.X86_64)
        found = service(functions={Checkout.capture: options, Checkout.ship: options})
        assert len(of_type(found, "AWS::Lambda::LayerVersion")) == 2

    @pytest.mark.parametrize(
        "runtime", [lambda_.Runtime.PYTHON_3_10, lambda_.Runtime.NODEJS_22_X, lambda_.Runtime.PROVIDED_AL2023]
    )
    def test_a_runtime_that_the_library_does_not_run_on(self, runtime: lambda_.Runtime) -> None:
        with pytest.raises(DefinitionError, match=f"runtime must be a Python from 3.11 on, not {runtime.name}"):
            FunctionOptions(runtime=runtime)
        with pytest.raises(DefinitionError, match="Test-Shop: runtime must be a Python"):
            service(runtime=runtime)

    def test_an_architecture_that_lambda_lacks(self) -> None:
        with pytest.raises(DefinitionError, match="architecture must be one of arm64, x86_64, not 'riscv'"):
            FunctionOptions(architecture=lambda_.Architecture.custom("riscv"))

    def test_of_the_service_are_those_of_all_others(self) -> None:
        functions = {Checkout.ship: FunctionOptions(memory_size=1024)}
        found = marks(service(functions=functions, function_options=FunctionOptions(memory_size=512)))
        assert (found[CAPTURE]["MemorySize"], found[SHIP]["MemorySize"]) == (512, 1024)

    def test_of_api_and_supervisor(self) -> None:
        api, supervisor = FunctionOptions(reserved_concurrency=5), FunctionOptions(memory_size=1024, timeout=600)
        made = of_type(service(api_options=api, supervisor_options=supervisor), "AWS::Lambda::Function")
        found = {function["Handler"].split(".")[2]: function for function in made}
        assert found["api"]["ReservedConcurrentExecutions"] == 5
        assert (found["supervisor"]["MemorySize"], found["supervisor"]["Timeout"]) == (1024, 600)

    @pytest.mark.parametrize(
        ("option", "given", "refused"),
        [
            ("api_options", FunctionOptions(timeout=20), "timeout"),
            ("api_options", FunctionOptions(batch_size=2), "batch_size"),
            ("supervisor_options", FunctionOptions(maximum_concurrency=2), "maximum_concurrency"),
        ],
    )
    def test_no_queue_is_in_front_of_api_and_supervisor(
        self, option: str, given: FunctionOptions, refused: str
    ) -> None:
        with pytest.raises(DefinitionError, match=f"{option} takes no {refused}"):
            service(**{option: given})

    def test_a_longer_timeout_lengthens_the_visibility(self) -> None:
        found = marks(with_capture(timeout=300))
        assert found[CAPTURE]["Timeout"] == 300
        assert found["queue", "checkout", "capture"]["VisibilityTimeout"] == 302

    def test_a_timeout_of_ones_own_need_not_cover_a_batch(self) -> None:
        found = marks(with_capture(timeout=60, batch_size=10))
        assert found[CAPTURE]["Timeout"] == 60

    def test_a_timeout_that_is_too_short(self) -> None:
        with pytest.raises(DefinitionError, match=r"step capture: the option timeout must be at least \d+ s"):
            with_capture(timeout=12)

    @pytest.mark.parametrize(
        ("option", "value"),
        [
            ("memory_size", 127),
            ("memory_size", 10_241),
            ("memory_size", "512"),
            ("batch_size", 0),
            ("batch_size", 11),
            ("timeout", 901),
            ("maximum_concurrency", 1),
            ("reserved_concurrency", 0),
            ("log_level", "LOUD"),
            ("environment", ["BUCKET"]),
            ("environment", {"LIMIT": 7}),
            ("environment", {"_HANDLER": "mine"}),
            ("environment", {"2ND": "from a digit"}),
        ],
    )
    def test_refused(self, option: str, value: Any) -> None:
        with pytest.raises(DefinitionError, match=f"FunctionOptions: {option}.* must be"):
            FunctionOptions(**{option: value})

    def test_a_tmp_that_lambda_cannot_give(self) -> None:
        with pytest.raises(DefinitionError, match="ephemeral_storage"):
            FunctionOptions(ephemeral_storage=Size.gibibytes(11))


class TestNetwork:
    def test_of_the_service_is_that_of_all_functions(self) -> None:
        def build(stack: Stack) -> None:
            SagaService(stack, "Shop", sagas=[Checkout], network=Network(ec2.Vpc(stack, "Vpc")))

        template = render(build)
        functions = [f for f in of_type(template, "AWS::Lambda::Function") if "sagas.handlers" in f["Handler"]]
        assert len(functions) == 6
        assert all(len(function["VpcConfig"]["SubnetIds"]) == 2 for function in functions)
        assert "ec2:CreateNetworkInterface" in actions(template, "ec2")
        assert "ec2:*" not in actions(template, "ec2")

    def test_of_one_function(self) -> None:
        def build(stack: Stack) -> None:
            vpc = ec2.Vpc(stack, "Vpc")
            group = ec2.SecurityGroup(stack, "Group", vpc=vpc)  # pyright: ignore[reportArgumentType] - a Vpc is one
            subnets = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PUBLIC)
            network = Network(vpc, subnets, [group])
            functions = {Checkout.capture: FunctionOptions(network=network)}
            with pytest.raises(RuntimeError, match="public subnet"):
                SagaService(stack, "Refused", sagas=[Checkout], functions=functions)
            functions = {Checkout.capture: FunctionOptions(network=Network(vpc, None, [group]))}
            SagaService(stack, "Shop", sagas=[Checkout], functions=functions)

        found = marks(render(build))
        assert found[CAPTURE]["VpcConfig"]["SecurityGroupIds"]
        assert "VpcConfig" not in found[SHIP]

    def test_is_none_unless_asked_for(self) -> None:
        assert actions(service(), "ec2") == set()


class TestService:
    def test_retention_of_finished_sagas(self) -> None:
        template = service(retention=timedelta(days=30), key_retention=timedelta(days=7))
        assert variables(template)["SAGAS_RETENTION"] == "2592000"
        assert variables(template)["SAGAS_KEY_RETENTION"] == "604800"
        for table in of_type(template, "AWS::DynamoDB::Table"):
            assert table["TimeToLiveSpecification"]["Enabled"] is True
        assert not {"SAGAS_RETENTION", "SAGAS_KEY_RETENTION"} & variables(service()).keys()

    def test_payload_limit_and_shards(self) -> None:
        found = variables(service(payload_limit=100_000, shards=32))
        assert (found["SAGAS_PAYLOAD_LIMIT"], found["SAGAS_SHARDS"]) == ("100000", "32")

    def test_the_supervisors_period(self) -> None:
        template = service(recover_every=timedelta(minutes=3))
        rates = {
            rule["Targets"][0]["Input"]: rule["ScheduleExpression"] for rule in of_type(template, "AWS::Events::Rule")
        }
        assert rates['{"task":"recover","queue":true}'] == "rate(3 minutes)"
        (invocation,) = of_type(template, "AWS::Lambda::EventInvokeConfig")
        assert invocation["MaximumEventAgeInSeconds"] == 180

    def test_the_sample_that_is_verified(self) -> None:
        def daily(**options: Any) -> list[str]:
            rules = of_type(service(**options), "AWS::Events::Rule")
            return [one["Targets"][0]["Input"] for one in rules if one["ScheduleExpression"] == "rate(1 day)"]

        assert daily() == ['{"task":"verify","sample":100}']
        assert daily(verify_sample=5) == ['{"task":"verify","sample":5}']
        assert daily(verify_sample=0) == []
        with pytest.raises(DefinitionError, match="verify_sample must be"):
            service(verify_sample=-1)

    @pytest.mark.parametrize("every", [timedelta(0), timedelta(seconds=90), timedelta(minutes=6), 1, None])
    def test_a_period_that_is_none(self, every: Any) -> None:
        with pytest.raises(DefinitionError, match="Test-Shop: recover_every must be 1 to 5 whole minutes"):
            service(recover_every=every)

    def test_throttling(self) -> None:
        (stage,) = of_type(service(throttling=Throttling(rate=50, burst=80)), "AWS::ApiGateway::Stage")
        (settings,) = stage["MethodSettings"]
        assert (settings["ThrottlingRateLimit"], settings["ThrottlingBurstLimit"]) == (50, 80)

    def test_log_retention(self) -> None:
        groups = of_type(service(log_retention=logs.RetentionDays.ONE_WEEK), "AWS::Logs::LogGroup")
        assert all(group["RetentionInDays"] == 7 for group in groups)

    def test_runtime(self) -> None:
        found = of_type(service(runtime=lambda_.Runtime.PYTHON_3_12), "AWS::Lambda::Function")
        assert {function["Runtime"] for function in found} == {"python3.12"}

    @pytest.mark.parametrize(
        ("policy", "asked", "protected"),
        [
            ("DESTROY", True, True),
            ("RETAIN", False, False),
            ("RETAIN", None, True),
            ("DESTROY", None, False),
            # What a first deployment that fails could not delete would stay, and block the second.
            ("RETAIN_ON_UPDATE_OR_DELETE", None, False),
            ("RETAIN_ON_UPDATE_OR_DELETE", True, True),
        ],
    )
    def test_deletion_protection(self, policy: str, asked: bool | None, protected: bool) -> None:
        template = service(removal_policy=RemovalPolicy[policy], deletion_protection=asked)
        tables = of_type(template, "AWS::DynamoDB::Table")
        assert [table["DeletionProtectionEnabled"] for table in tables] == [protected, protected]

    def test_an_authorizer_of_ones_own(self) -> None:
        def build(stack: Stack) -> None:
            code, runtime = lambda_.Code.from_inline("def handler(*_): ..."), lambda_.Runtime.PYTHON_3_13
            handler: Any = lambda_.Function(stack, "Who", code=code, handler="index.handler", runtime=runtime)
            authorizer = apigateway.TokenAuthorizer(stack, "Authorizer", handler=handler)
            SagaService(stack, "Shop", sagas=[Checkout], authorizer=authorizer)

        methods = of_type(render(build), "AWS::ApiGateway::Method")
        assert {method["AuthorizationType"] for method in methods} == {"CUSTOM"}
        assert all(method["AuthorizerId"] for method in methods)

    @pytest.mark.parametrize(
        ("option", "value"),
        [
            ("shards", 0),
            ("payload_limit", 10),
            ("payload_limit", 2**20),
            ("retention", timedelta(seconds=1)),
            ("retention", Duration.days(30)),
            ("key_retention", timedelta(hours=23)),
            ("key_retention", timedelta(days=100 * 366 + 1)),
            ("log_level", "info"),
            ("isolation", "none"),
            ("functions", [Checkout.reserve]),
            ("function_options", {"memory_size": 512}),
            ("command_options", {"memory_size": 512}),
            ("environment", ["BUCKET"]),
            ("environment", {"LIMIT": 7}),
            ("environment", {"AWS_REGION": "eu-central-1"}),
            ("environment", {"A": "too short"}),
            ("environment", {"MY-TABLE": "orders"}),
            ("throttling", {"rate": 7}),
            ("network", "vpc-1"),
            ("deployment", "canary"),
            ("dashboard", "no"),
            ("nested_stacks", "no"),
            ("tracing", 1),
            ("auto_disable", True),
            ("archive", True),
        ],
    )
    def test_refused(self, option: str, value: Any) -> None:
        with pytest.raises(DefinitionError, match=rf"Test-Shop: {option}.* must be"):
            service(**{option: value})

    def test_one_saga_is_a_list_too(self) -> None:
        sagas: Any = Checkout
        with pytest.raises(DefinitionError, match="Test-Shop: sagas must be a list of saga classes, not "):
            render(lambda stack: SagaService(stack, "Shop", sagas=sagas))

    def test_options_of_a_function_that_are_none(self) -> None:
        with pytest.raises(DefinitionError, match=r"Shop: each of functions must be a FunctionOptions, not \{'mem"):
            service(functions={Checkout.reserve: {"memory_size": 512}})

    def test_one_that_there_is_not(self) -> None:
        with pytest.raises(DefinitionError, match="Test-Shop: SagaService has no option retenton; is it retention\\?"):
            service(retenton=timedelta(days=30))
        with pytest.raises(DefinitionError, match="has no option colour; is it sagas or functions or "):
            service(colour="blue")

    def test_where_the_runbook_is(self) -> None:
        page = "https://docs.example.com/sagas/operations/runbook.html"
        template = service(runbook_url=page)
        described = [alarm["AlarmDescription"] for alarm in of_type(template, "AWS::CloudWatch::Alarm")]
        assert {one.partition(" What to do: ")[2].partition("#")[0] for one in described} == {page}
        (dashboard,) = of_type(template, "AWS::CloudWatch::Dashboard")
        assert page in str(dashboard["DashboardBody"])

    @pytest.mark.parametrize("page", ["", "https://docs.example.com/runbook.html#events-late", "the wiki"])
    def test_a_runbook_that_is_no_page(self, page: str) -> None:
        with pytest.raises(DefinitionError, match="runbook_url must be the address of a page"):
            service(runbook_url=page)

    @pytest.mark.parametrize(("option", "value"), [("rate", 0), ("burst", 0)])
    def test_throttling_refused(self, option: str, value: int) -> None:
        with pytest.raises(DefinitionError, match=f"Throttling: {option} must be"):
            Throttling(**{option: value})


@pytest.fixture(scope="module")
def encrypted() -> Template:
    """A service with a customer's key."""

    def build(stack: Stack) -> None:
        SagaService(stack, "Shop", sagas=[Checkout], encryption_key=kms.Key(stack, "Key"))

    return render(build)


class TestEncryptionKey:
    def test_encrypts_all_that_is_kept(self, encrypted: Template) -> None:
        for table in of_type(encrypted, "AWS::DynamoDB::Table"):
            assert table["SSESpecification"]["SSEType"] == "KMS"
            assert table["SSESpecification"]["KMSMasterKeyId"]["Fn::GetAtt"][0].startswith("Key")
        for queue in of_type(encrypted, "AWS::SQS::Queue"):
            assert queue["KmsMasterKeyId"]
        for group in of_type(encrypted, "AWS::Logs::LogGroup"):
            assert group["KmsKeyId"]
        (bucket,) = of_type(encrypted, "AWS::S3::Bucket")
        (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"
        assert rule["BucketKeyEnabled"] is True

    def test_is_open_to_functions_and_logs_only(self, encrypted: Template) -> None:
        named = actions(encrypted, "kms")
        assert {"kms:Decrypt", "kms:GenerateDataKey"} <= named
        assert not [action for action in named if "*" in action]
        (key,) = of_type(encrypted, "AWS::KMS::Key")
        services = [s["Principal"].get("Service") for s in key["KeyPolicy"]["Statement"]]
        assert len([one for one in services if one and "logs." in str(one)]) == 1
