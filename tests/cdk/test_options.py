"""Every option of SagaService and FunctionOptions, by what it makes of the template."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any, cast

import pytest
from aws_cdk import Duration, RemovalPolicy, Size, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_lambda as lambda_

from functions.checkout import Checkout
from sagas.cdk import FunctionOptions, Network, SagaService, TableOptions, Throttling
from sagas.cdk.data.tables import Stores
from sagas.cdk.options.service_options import service_options
from sagas.errors import DefinitionError
from tests.cdk.rendered import CAPTURE, Template, actions, by_id, marks, of_type, render, service, variables
from tests.cdk.saga_classes import SWEEPING, Trip
from tests.cdk.templates import RUNBOOK

RESERVE, SHIP = ("function", "checkout", "reserve"), ("function", "checkout", "ship")
BOOK = ("function", "trip", "book")


class TestNames:
    def test_one_asked_for_is_given_and_the_rest_follows(self) -> None:
        def build(stack: Stack) -> None:
            shop = SagaService(stack, "Shop", sagas=[Checkout])
            cast("lambda_.CfnFunction", shop.function(Checkout.capture).node.default_child).function_name = "capture"

        template = render(build)
        assert marks(template)[CAPTURE]["FunctionName"] == "capture"
        assert "FunctionName" not in marks(template)[SHIP]


class TestFunctionOptions:
    @pytest.mark.slow
    def test_concern_one_function(self, everything: Template) -> None:
        capture, book = marks(everything)[CAPTURE], marks(everything)[BOOK]
        assert (capture["MemorySize"], book["MemorySize"]) == (2048, 320)
        assert capture["ReservedConcurrentExecutions"] == 7
        assert "ReservedConcurrentExecutions" not in book
        assert variables(everything)["POWERTOOLS_LOG_LEVEL"] == "DEBUG"
        assert variables(everything, BOOK)["POWERTOOLS_LOG_LEVEL"] == "WARNING"

    def test_of_a_saga_class_are_those_of_its_steps(self, everything: Template) -> None:
        found = marks(everything)
        assert (found[RESERVE]["MemorySize"], found[SHIP]["MemorySize"]) == (512, 1024)

    def test_architecture_and_runtime(self, everything: Template) -> None:
        capture, ship = marks(everything)[CAPTURE], marks(everything)[SHIP]
        assert (capture["Architectures"], capture["Runtime"]) == (["x86_64"], "python3.12")
        assert (ship["Architectures"], ship["Runtime"]) == (["arm64"], "python3.13")
        resources = everything["Resources"].items()
        layers = {id: one for id, one in resources if one["Type"] == "AWS::Lambda::LayerVersion"}
        for function in (capture, ship):
            (layer,) = (layers[one["Ref"]]["Properties"] for one in function["Layers"])
            assert layer["CompatibleArchitectures"] == function["Architectures"]
            assert layer["CompatibleRuntimes"] == [function["Runtime"]]

    def test_one_layer_for_each_platform_in_use(self, everything: Template) -> None:
        found = marks(everything)
        assert found["function", "counted", "work"]["Architectures"] == found[CAPTURE]["Architectures"] == ["x86_64"]
        assert len(of_type(everything, "AWS::Lambda::LayerVersion")) == 2

    @pytest.mark.parametrize(
        "runtime", [lambda_.Runtime.PYTHON_3_10, lambda_.Runtime.NODEJS_22_X, lambda_.Runtime.PROVIDED_AL2023]
    )
    def test_a_runtime_that_the_library_does_not_run_on(self, runtime: lambda_.Runtime) -> None:
        with pytest.raises(DefinitionError, match=f"runtime must be Python 3.11 or newer, not {runtime.name}"):
            FunctionOptions(runtime=runtime)
        with pytest.raises(DefinitionError, match="Test-Shop: runtime must be Python"):
            service(runtime=runtime)

    def test_an_architecture_that_lambda_lacks(self) -> None:
        with pytest.raises(DefinitionError, match="architecture must be one of arm64, x86_64, not 'riscv'"):
            FunctionOptions(architecture=lambda_.Architecture.custom("riscv"))

    def test_of_the_service_are_those_of_all_others(self, everything: Template) -> None:
        found = marks(everything)
        assert (found[BOOK]["MemorySize"], found[SHIP]["MemorySize"]) == (320, 1024)

    def test_of_api_and_supervisor(self, everything: Template) -> None:
        functions = [one for one in of_type(everything, "AWS::Lambda::Function") if "sagas.handlers" in one["Handler"]]
        found = {function["Handler"].split(".")[2]: function for function in functions}
        assert found["api"]["ReservedConcurrentExecutions"] == 5
        assert (found["supervisor"]["MemorySize"], found["supervisor"]["Timeout"]) == (1024, 600)

    @pytest.mark.parametrize(
        ("name", "given", "refused"),
        [
            ("api", FunctionOptions(timeout=20), "timeout"),
            ("api", FunctionOptions(batch_size=2), "batch_size"),
            ("supervisor", FunctionOptions(maximum_concurrency=2), "maximum_concurrency"),
        ],
    )
    def test_no_queue_is_in_front_of_api_and_supervisor(self, name: str, given: FunctionOptions, refused: str) -> None:
        with pytest.raises(DefinitionError, match=f"Test-Shop: functions: {name} does not support {refused}"):
            service(functions={name: given})

    def test_of_a_function_that_there_is_not(self) -> None:
        told = (
            "Test-Shop: functions: 'reserve' is not a function of the service; name a step by its class, like "
            "CreateZip.upload, or one of api, supervisor, bulk, now, commands"
        )
        with pytest.raises(DefinitionError, match=re.escape(told)):
            service(functions={"reserve": FunctionOptions()})

    def test_a_longer_timeout_lengthens_the_visibility(self, everything: Template) -> None:
        found = marks(everything)
        assert found[CAPTURE]["Timeout"] == 300
        assert found["queue", "checkout", "capture"]["VisibilityTimeout"] == 302

    def test_a_timeout_of_ones_own_need_not_cover_a_batch(self, everything: Template) -> None:
        assert marks(everything)["function", "loan", "score"]["Timeout"] == 60
        mappings = of_type(everything, "AWS::Lambda::EventSourceMapping")
        (mapping,) = [one for one in mappings if "loanscore" in str(one["FunctionName"])]
        assert mapping["BatchSize"] == 10

    def test_a_timeout_that_is_too_short(self) -> None:
        with pytest.raises(DefinitionError, match=r"step book: the option timeout must be at least \d+ s"):
            service(functions={Trip.book: FunctionOptions(timeout=12)})

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
    @pytest.mark.slow
    def test_of_the_service_is_that_of_all_functions(self, guarded: Template) -> None:
        functions = [f for f in of_type(guarded, "AWS::Lambda::Function") if "sagas.handlers" in f["Handler"]]
        assert len(functions) == len(SWEEPING) + 3 + 7
        assert all(len(function["VpcConfig"]["SubnetIds"]) == 2 for function in functions)
        assert "ec2:CreateNetworkInterface" in actions(guarded, "ec2")
        assert "ec2:*" not in actions(guarded, "ec2")

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

    def test_is_none_unless_asked_for(self, plain: Template) -> None:
        assert actions(plain, "ec2") == set()


class TestService:
    def test_retention_of_finished_sagas(self, everything: Template, plain: Template) -> None:
        assert variables(everything)["SAGAS_RETENTION"] == "2592000"
        assert variables(everything)["SAGAS_KEY_RETENTION"] == "604800"
        assert marks(everything)["audit_table",]["TimeToLiveSpecification"]["Enabled"] is True
        assert not {"SAGAS_RETENTION", "SAGAS_KEY_RETENTION"} & variables(plain).keys()

    def test_payload_limit_and_shards(self, everything: Template) -> None:
        found = variables(everything)
        assert (found["SAGAS_PAYLOAD_LIMIT"], found["SAGAS_SHARDS"]) == ("100000", "32")

    def test_the_supervisors_period(self, everything: Template) -> None:
        rules = [one for one in of_type(everything, "AWS::Events::Rule") if "ScheduleExpression" in one]
        assert [rule["ScheduleExpression"] for rule in rules] == ["cron(0/3 * * * ? *)"]
        (invocation,) = of_type(everything, "AWS::Lambda::EventInvokeConfig")
        assert invocation["MaximumEventAgeInSeconds"] == 180

    def test_the_sample_that_is_verified(self, everything: Template, plain: Template) -> None:
        def sample(template: Template) -> str:
            (rule,) = [one for one in of_type(template, "AWS::Events::Rule") if "ScheduleExpression" in one]
            return rule["Targets"][0]["InputTransformer"]["InputTemplate"].partition('"sample":')[2]

        assert sample(plain) == "100}"
        assert sample(everything) == "5}"
        assert sample(service(verify_sample=0)) == "0}"
        with pytest.raises(DefinitionError, match="verify_sample must be"):
            service(verify_sample=-1)

    @pytest.mark.parametrize("every", [timedelta(0), timedelta(seconds=90), timedelta(minutes=6), 1, None])
    def test_a_period_that_is_none(self, every: Any) -> None:
        with pytest.raises(DefinitionError, match="Test-Shop: recover_every must be 1 to 5 whole minutes"):
            service(recover_every=every)

    def test_throttling(self, everything: Template) -> None:
        (stage,) = of_type(everything, "AWS::ApiGateway::Stage")
        (settings,) = [one for one in stage["MethodSettings"] if one["ResourcePath"] == "/*"]
        assert (settings["ThrottlingRateLimit"], settings["ThrottlingBurstLimit"]) == (50, 80)

    def test_log_retention(self, everything: Template) -> None:
        groups = of_type(everything, "AWS::Logs::LogGroup")
        assert groups
        assert all(group["RetentionInDays"] == 7 for group in groups)

    def test_runtime(self, guarded: Template) -> None:
        functions = [one for one in of_type(guarded, "AWS::Lambda::Function") if "sagas.handlers" in one["Handler"]]
        assert {function["Runtime"] for function in functions} == {"python3.12"}

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
        options = service_options(
            "Test-Shop", {"sagas": [Trip], "removal_policy": RemovalPolicy[policy], "deletion_protection": asked}
        )
        template = render(lambda stack: Stores(stack, "Tables", options=options, families=frozenset()))
        tables = of_type(template, "AWS::DynamoDB::Table")
        assert [table["DeletionProtectionEnabled"] for table in tables] == [protected, protected]

    def test_tables_of_a_service_are_made_by_its_options(self, everything: Template, plain: Template) -> None:
        for template, protected in ((everything, True), (plain, False)):
            tables = of_type(template, "AWS::DynamoDB::Table")
            assert {table["DeletionProtectionEnabled"] for table in tables} == {protected}

    def test_capacity_and_class_of_tables(self, everything: Template, plain: Template) -> None:
        sagas, audit = marks(everything)["sagas_table",], marks(everything)["audit_table",]
        warm = {"ReadUnitsPerSecond": 20_000, "WriteUnitsPerSecond": 16_000}
        assert [one["WarmThroughput"] for one in (sagas, *sagas["GlobalSecondaryIndexes"])] == [warm] * 5
        assert sagas["OnDemandThroughput"] == {"MaxWriteRequestUnits": 30_000}
        assert "TableClass" not in sagas
        assert audit["TableClass"] == "STANDARD_INFREQUENT_ACCESS"
        for table in (audit, *of_type(plain, "AWS::DynamoDB::Table")):
            assert not {"WarmThroughput", "OnDemandThroughput"} & table.keys()

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ({"sagas": {"warm_writes": 9_000}}, "tables: sagas must be a table or TableOptions"),
            ({"control": TableOptions()}, "each key of tables must be one of sagas, audit, joins, not 'control'"),
            ({"joins": TableOptions()}, "tables: joins: no saga of this service has children"),
            ([], "tables must be a Mapping or None"),
        ],
    )
    def test_tables_refused(self, given: Any, told: str) -> None:
        with pytest.raises(DefinitionError, match=f"Test-Shop: {told}"):
            service(tables=given)

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ({"warm_writes": 3_999}, "warm_writes must be"),
            ({"warm_reads": 11_999}, "warm_reads must be"),
            ({"max_writes": 0}, "max_writes must be"),
            ({"max_writes": 5_000, "warm_writes": 6_000}, "max_writes must not be less than warm_writes"),
            ({"infrequent_access": "yes"}, "infrequent_access must be True or False"),
        ],
    )
    def test_capacity_refused(self, given: dict[str, Any], told: str) -> None:
        with pytest.raises(DefinitionError, match=f"TableOptions: {told}"):
            TableOptions(**given)

    def test_an_authorizer_of_ones_own(self) -> None:
        def build(stack: Stack) -> None:
            code, runtime = lambda_.Code.from_inline("def handler(*_): ..."), lambda_.Runtime.PYTHON_3_13
            handler: Any = lambda_.Function(stack, "Who", code=code, handler="index.handler", runtime=runtime)
            authorizer = apigateway.TokenAuthorizer(stack, "Authorizer", handler=handler)
            SagaService(stack, "Shop", sagas=[Trip], authorizer=authorizer)

        template = render(build)
        methods = of_type(template, "AWS::ApiGateway::Method")
        assert {method["AuthorizationType"] for method in methods} == {"CUSTOM"}
        assert all(method["AuthorizerId"] for method in methods)
        variables = [
            one.get("Environment", {}).get("Variables", {}) for one in of_type(template, "AWS::Lambda::Function")
        ]
        [said] = [one["SAGAS_AUTHORIZER"] for one in variables if "SAGAS_AUTHORIZER" in one]
        assert said == "custom header Authorization"

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
        with pytest.raises(
            DefinitionError, match=r"Shop: each value of functions must be a FunctionOptions, not \{'mem"
        ):
            service(functions={Trip.book: {"memory_size": 512}})

    def test_one_that_there_is_not(self) -> None:
        with pytest.raises(
            DefinitionError, match="Test-Shop: SagaService has no option retenton; did you mean retention\\?"
        ):
            service(retenton=timedelta(days=30))

    @pytest.mark.parametrize(
        ("option", "instead"),
        [
            ("chain", "steps that share a function are always chained"),
            ("queue_names", "names of queues are always derived"),
            ("command_options", 'give functions={"commands": FunctionOptions(...)}'),
            ("retry", "give it to a base class of the sagas, as in class Ours(Saga[T], retry=...)"),
            ("sagas_table", 'give tables={"sagas": ...}'),
        ],
    )
    def test_one_that_is_no_longer_there(self, option: str, instead: str) -> None:
        with pytest.raises(
            DefinitionError, match=re.escape(f"Test-Shop: SagaService has no option {option}; {instead}")
        ):
            service(**{option: None})
        with pytest.raises(DefinitionError, match="has no option colour; did you mean sagas or functions or "):
            service(colour="blue")

    def test_where_the_runbook_is(self, everything: Template) -> None:
        described = [alarm["AlarmDescription"] for alarm in of_type(everything, "AWS::CloudWatch::Alarm")]
        assert {one.partition(" What to do: ")[2].partition("#")[0] for one in described} == {RUNBOOK}
        (dashboard,) = of_type(everything, "AWS::CloudWatch::Dashboard")
        assert RUNBOOK in str(dashboard["DashboardBody"])

    @pytest.mark.parametrize("page", ["", "https://docs.example.com/runbook.html#events-late", "the wiki"])
    def test_a_runbook_that_is_no_page(self, page: str) -> None:
        with pytest.raises(DefinitionError, match="runbook_url must be the address of a page"):
            service(runbook_url=page)

    @pytest.mark.parametrize(("option", "value"), [("rate", 0), ("burst", 0)])
    def test_throttling_refused(self, option: str, value: int) -> None:
        with pytest.raises(DefinitionError, match=f"Throttling: {option} must be"):
            Throttling(**{option: value})


class TestEncryptionKey:
    def test_encrypts_all_that_is_kept(self, guarded: Template) -> None:
        def own(kind: str) -> list[Template]:
            resources = guarded["Resources"].items()
            found = [one["Properties"] for id, one in resources if one["Type"] == kind and id.startswith("Shop")]
            assert found
            return found

        for table in own("AWS::DynamoDB::Table"):
            assert table["SSESpecification"]["SSEType"] == "KMS"
            assert table["SSESpecification"]["KMSMasterKeyId"]["Fn::GetAtt"][0].startswith("Key")
        for queue in own("AWS::SQS::Queue"):
            assert queue["KmsMasterKeyId"]
        for group in own("AWS::Logs::LogGroup"):
            assert group["KmsKeyId"]
        for bucket in own("AWS::S3::Bucket"):
            (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
            assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"
            assert rule["BucketKeyEnabled"] is True

    def test_is_open_to_functions_and_logs_only(self, guarded: Template) -> None:
        named = actions(guarded, "kms")
        assert {"kms:Decrypt", "kms:GenerateDataKey"} <= named
        assert not [action for action in named if "*" in action]
        resources = guarded["Resources"].items()
        (key,) = [one for id, one in resources if one["Type"] == "AWS::KMS::Key" and id.startswith("Key")]
        services = [s["Principal"].get("Service") for s in key["Properties"]["KeyPolicy"]["Statement"]]
        assert len([one for one in services if one and "logs." in str(one)]) == 1

    def test_is_open_to_a_service_of_aws_for_the_own_account_alone(self, guarded: Template) -> None:
        (key,) = [one for id, one in by_id(guarded, "AWS::KMS::Key").items() if id.startswith("Key")]
        found: dict[str, list[Template]] = {}
        for statement in key["KeyPolicy"]["Statement"]:
            if isinstance(service := statement["Principal"].get("Service"), str):
                found.setdefault(service, []).append(statement["Condition"])
        assert found.keys() == {"cloudwatch.amazonaws.com", "events.amazonaws.com", "sns.amazonaws.com"}
        for conditions in found.values():
            for condition in conditions:
                assert '{"Ref": "AWS::AccountId"}' in json.dumps(condition)

    def test_encrypts_events(self, guarded: Template, everything: Template) -> None:
        (bus,) = of_type(guarded, "AWS::Events::EventBus")
        assert bus["KmsKeyIdentifier"]["Fn::GetAtt"][0].startswith("Key")
        assert bus["Name"] == "Test-Shop"
        assert "KmsKeyIdentifier" not in of_type(everything, "AWS::Events::EventBus")[0]
