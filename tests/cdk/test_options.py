"""Every option of SagaService and FunctionOptions, by what it makes of the template."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest
from aws_cdk import App, RemovalPolicy, Size, Stack, assertions
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs

from functions.checkout import Checkout
from functions.create_zip import CreateZip
from sagas.cdk import FunctionOptions, Network, SagaService, Throttling
from sagas.errors import DefinitionError

Template = dict[str, Any]
CAPTURE = ("function", "checkout", "capture")
SHIP = ("function", "checkout", "ship")


def render(build: Callable[[Stack], object]) -> Template:
    """Synthesize a stack."""
    stack = Stack(App(), "Test")
    build(stack)
    return dict(assertions.Template.from_stack(stack).to_json())


def service(**options: Any) -> Template:
    """The template of a service of one saga."""
    return render(lambda stack: SagaService(stack, "Shop", sagas=[Checkout], **options))


def with_capture(**options: Any) -> Template:
    """The same, with options of one function."""
    return service(functions={Checkout.capture: FunctionOptions(**options)})


def of_type(template: Template, kind: str) -> list[Template]:
    """The properties of all resources of a type."""
    return [one.get("Properties", {}) for one in template["Resources"].values() if one["Type"] == kind]


def marks(template: Template) -> dict[tuple[str, ...], Template]:
    """The marked resources' properties, by what their mark says."""
    return {
        tuple(resource["Metadata"]["sagas"].values()): resource["Properties"]
        for resource in template["Resources"].values()
        if "sagas" in resource.get("Metadata", {})
    }


def variables(template: Template, function: tuple[str, ...] = CAPTURE) -> Template:
    return marks(template)[function]["Environment"]["Variables"]


def actions(template: Template, service_name: str) -> set[str]:
    """The actions of a service that some role has."""
    statements = [s for policy in of_type(template, "AWS::IAM::Policy") for s in policy["PolicyDocument"]["Statement"]]
    named = [a for s in statements for a in (s["Action"] if isinstance(s["Action"], list) else [s["Action"]])]
    return {action for action in named if action.startswith(f"{service_name}:")}


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
        ],
    )
    def test_refused(self, option: str, value: Any) -> None:
        with pytest.raises(DefinitionError, match=f"FunctionOptions: {option} must be"):
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
            ("key_retention", timedelta(hours=23)),
            ("key_retention", timedelta(days=100 * 366 + 1)),
            ("log_level", "info"),
            ("isolation", "none"),
        ],
    )
    def test_refused(self, option: str, value: Any) -> None:
        with pytest.raises(DefinitionError, match=rf"Test-Shop: {option}.* must be"):
            service(**{option: value})

    def test_one_that_there_is_not(self) -> None:
        with pytest.raises(DefinitionError, match="Test-Shop: SagaService has no option retenton; is it retention\\?"):
            service(retenton=timedelta(days=30))
        with pytest.raises(DefinitionError, match="has no option colour; is it sagas or functions or "):
            service(colour="blue")

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


@pytest.fixture(scope="module")
def built() -> tuple[SagaService, Template]:
    """A service whose sagas have one function each, and its template."""
    stack = Stack(App(), "Test")
    functions = {Checkout: FunctionOptions(memory_size=512, batch_size=2)}
    made = SagaService(stack, "Shop", sagas=[Checkout, CreateZip], isolation="saga", functions=functions)
    return made, dict(assertions.Template.from_stack(stack).to_json())


class TestSagaIsolation:
    def test_one_queue_and_one_function_a_saga(self, built: tuple[SagaService, Template]) -> None:
        found = marks(built[1])
        assert [key for key in found if key[0] in ("queue", "function")] == [
            ("queue", "checkout", "reserve,capture,ship"),
            ("queue", "create-zip", "check,upload,announce"),
            ("function", "checkout", "reserve,capture,ship"),
            ("function", "create-zip", "check,upload,announce"),
        ]
        assert len(of_type(built[1], "AWS::Lambda::EventSourceMapping")) == 3

    def test_a_chain_has_the_time_of_all_its_steps_as_far_as_there_is(
        self, built: tuple[SagaService, Template]
    ) -> None:
        found = marks(built[1])
        function, queue = (found[part, "create-zip", "check,upload,announce"] for part in ("function", "queue"))
        assert function["Timeout"] == 900
        assert queue["VisibilityTimeout"] == 902
        of_steps = [key for key in found if key[0] == "function" and "," in key[-1]]
        chains = [found[key]["Environment"]["Variables"]["SAGAS_CHAIN"] for key in of_steps]
        assert set(chains) == {"*"}
        assert found["function", "checkout", "reserve,capture,ship"]["MemorySize"] == 512

    def test_without_a_chain_the_slowest_step_decides(self) -> None:
        found = marks(
            render(lambda stack: SagaService(stack, "Shop", sagas=[CreateZip], isolation="saga", chain=False))
        )
        function = found["function", "create-zip", "check,upload,announce"]
        assert function["Timeout"] == 846
        assert "SAGAS_CHAIN" not in function["Environment"]["Variables"]

    def test_the_most_attempts_decide(self, built: tuple[SagaService, Template]) -> None:
        queue = marks(built[1])["queue", "checkout", "reserve,capture,ship"]
        alone = marks(service())
        each = [alone["queue", "checkout", step]["RedrivePolicy"]["maxReceiveCount"] for step in STEPS]
        assert queue["RedrivePolicy"]["maxReceiveCount"] == max(each)

    def test_access(self, built: tuple[SagaService, Template]) -> None:
        made = built[0]
        assert made.function(Checkout.reserve) is made.function(Checkout.ship)
        assert made.queue(Checkout.reserve) is made.queue(Checkout.ship)
        assert made.function(Checkout.reserve) is not made.function(CreateZip.check)

    def test_options_of_a_single_step(self) -> None:
        functions = {Checkout.ship: FunctionOptions()}
        with pytest.raises(DefinitionError, match="give the options of Checkout instead of"):
            service(functions=functions, isolation="saga")


STEPS = ("reserve", "capture", "ship")


PAID = ("function", "checkout", "reserve,capture")


class TestGroups:
    """Steps that share a function because ``functions`` names them together."""

    def grouped(self, **options: Any) -> Template:
        return service(functions={(Checkout.reserve, Checkout.capture): FunctionOptions(**options)})

    def test_one_queue_and_one_function_for_them(self) -> None:
        found = marks(self.grouped(memory_size=512))
        assert [key for key in found if key[0] in ("queue", "function") and key[1] == "checkout"] == [
            ("queue", "checkout", "reserve,capture"),
            ("queue", "checkout", "ship"),
            ("function", "checkout", "reserve,capture"),
            ("function", "checkout", "ship"),
        ]
        assert found[PAID]["MemorySize"] == 512
        assert found[SHIP]["MemorySize"] == 256

    def test_they_are_chained_and_the_others_are_not(self) -> None:
        found = self.grouped()
        assert variables(found, PAID)["SAGAS_CHAIN"] == "reserve,capture"
        assert "SAGAS_CHAIN" not in variables(found, SHIP)
        without = service(functions={(Checkout.reserve, Checkout.capture): FunctionOptions()}, chain=False)
        assert "SAGAS_CHAIN" not in variables(without, PAID)

    def test_the_function_has_the_time_of_all(self) -> None:
        alone = marks(service())
        each = [alone["function", "checkout", step]["Timeout"] - 6 for step in ("reserve", "capture")]
        assert marks(self.grouped())[PAID]["Timeout"] == sum(each) + 6
        assert marks(self.grouped(batch_size=2))[PAID]["Timeout"] == 2 * sum(each) + 6
        assert marks(self.grouped(timeout=200))[PAID]["Timeout"] == 200

    def test_their_order_in_the_name_makes_no_difference(self) -> None:
        found = marks(service(functions={(Checkout.capture, Checkout.reserve): FunctionOptions()}))
        assert PAID in found

    def test_the_largest_memory_counts(self) -> None:
        both = {(Checkout.reserve, Checkout.capture): FunctionOptions(memory_size=512)}
        for size, expected in ((1024, 1024), (256, 512)):
            functions = {**both, Checkout.capture: FunctionOptions(memory_size=size)}
            assert marks(service(functions=functions))[PAID]["MemorySize"] == expected

    def test_access(self) -> None:
        stack = Stack(App(), "Test")
        functions = {(Checkout.reserve, Checkout.capture): FunctionOptions()}
        made = SagaService(stack, "Shop", sagas=[Checkout], functions=functions)
        assert made.function(Checkout.reserve) is made.function(Checkout.capture)
        assert made.queue(Checkout.reserve) is made.queue(Checkout.capture)
        assert made.function(Checkout.reserve) is not made.function(Checkout.ship)

    @pytest.mark.parametrize(
        ("functions", "told"),
        [
            ({(): FunctionOptions()}, "name two steps or more"),
            ({(Checkout.reserve,): FunctionOptions()}, "name two steps or more"),
            ({(Checkout.reserve, Checkout.reserve): FunctionOptions()}, "each once"),
            ({(Checkout.reserve, Checkout.ship): FunctionOptions()}, "capture of saga checkout runs between them"),
            ({(Checkout.reserve, "capture"): FunctionOptions()}, "is not a step"),
            ({(Checkout.reserve, CreateZip.check): FunctionOptions()}, "CreateZip is not among its sagas"),
            (
                {
                    (Checkout.reserve, Checkout.capture): FunctionOptions(),
                    (Checkout.capture, Checkout.ship): FunctionOptions(),
                },
                "capture shares one with reserve, capture",
            ),
            (
                {
                    (Checkout.reserve, Checkout.capture): FunctionOptions(),
                    Checkout.capture: FunctionOptions(timeout=100),
                },
                "step capture shares its function with reserve; of its own options memory_size alone counts",
            ),
        ],
    )
    def test_what_cannot_be_shared(self, functions: dict[Any, FunctionOptions], told: str) -> None:
        with pytest.raises(DefinitionError, match=told):
            service(functions=functions)

    def test_steps_of_two_sagas_share_nothing(self) -> None:
        functions = {(Checkout.reserve, CreateZip.check): FunctionOptions()}
        with pytest.raises(DefinitionError, match="they are of several sagas"):
            render(lambda stack: SagaService(stack, "Shop", sagas=[Checkout, CreateZip], functions=functions))

    def test_where_all_share_one_some_cannot_share_another(self) -> None:
        functions = {(Checkout.reserve, Checkout.capture): FunctionOptions()}
        with pytest.raises(DefinitionError, match="all steps of a saga share one already"):
            service(functions=functions, isolation="saga")

    def test_a_step_that_takes_too_long_is_refused_by_its_name(self) -> None:
        functions = {(CreateZip.check, CreateZip.upload): FunctionOptions(batch_size=2)}
        with pytest.raises(DefinitionError, match="step upload: a batch of 2"):
            render(lambda stack: SagaService(stack, "Shop", sagas=[CreateZip], functions=functions))
