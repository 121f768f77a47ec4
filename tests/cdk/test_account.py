"""What a service leaves alone in the account it is deployed to, and what it shares with nobody there."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Environment, Stack, Stage
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_

from sagas.cdk import AccessLogs, FunctionOptions, Network, PrivateEndpoint, SagaService
from sagas.cdk.compute.layer import PackagingError, build_layer
from sagas.errors import DefinitionError
from tests.cdk.rendered import Template, as_list, by_id, of_type, render, service, statements, template_of
from tests.cdk.saga_classes import SWEEPING, Trip
from tests.cdk.templates import ACCESS

ALARM = "AWS::CloudWatch::Alarm"


def of_service(template: Template, kind: str) -> list[Template]:
    """The properties of the resources of a type that the service has made."""
    return [one for id, one in by_id(template, kind).items() if id.startswith("Shop")]


class TestAccessLog:
    def test_none_unless_asked_for(self, plain: Template) -> None:
        assert not of_type(plain, "AWS::ApiGateway::Account")
        (stage,) = of_type(plain, "AWS::ApiGateway::Stage")
        assert "AccessLogSetting" not in stage

    def test_by_the_role_that_is_there(self, guarded: Template) -> None:
        assert not of_type(guarded, "AWS::ApiGateway::Account")
        (stage,) = of_type(guarded, "AWS::ApiGateway::Stage")
        form = stage["AccessLogSetting"]["Format"]
        assert "$context.status" in form
        assert "body" not in form.lower()

    def test_by_a_role_for_the_whole_account(self, everything: Template) -> None:
        resources = everything["Resources"].values()
        (account,) = [one for one in resources if one["Type"] == "AWS::ApiGateway::Account"]
        assert account["DeletionPolicy"] == "Retain"

    def test_of_the_buckets_and_of_the_gateways_execution(self, everything: Template, guarded: Template) -> None:
        buckets = by_id(everything, "AWS::S3::Bucket").values()
        prefixes = {bucket["LoggingConfiguration"].pop("LogFilePrefix") for bucket in buckets}
        assert prefixes == {"orders/Payloads/", "orders/Bucket/"}
        assert all(bucket["LoggingConfiguration"] == {"DestinationBucketName": ACCESS} for bucket in buckets)
        everywhere = {"DataTraceEnabled": False, "HttpMethod": "*", "LoggingLevel": "ERROR", "ResourcePath": "/*"}
        (stage,) = of_type(everything, "AWS::ApiGateway::Stage")
        assert [one for one in stage["MethodSettings"] if everywhere.items() <= one.items()]
        (stage,) = of_type(guarded, "AWS::ApiGateway::Stage")
        assert not [one for one in stage["MethodSettings"] if "LoggingLevel" in one]

    def test_an_execution_log_needs_a_role(self) -> None:
        with pytest.raises(DefinitionError, match='execution needs a role: set api="account" or api="role"'):
            AccessLogs(execution=True)

    @pytest.mark.parametrize("options", [{"access_log": "account"}, {"endpoint": "edge"}])
    def test_of_an_api_that_is_there(self, options: dict[str, Any]) -> None:
        def build(stack: Stack) -> None:
            root = apigateway.RestApi(stack, "Api").root
            SagaService(stack, "Shop", sagas=[Trip], mount=root.add_resource("shop"), **options)

        (option,) = options
        with pytest.raises(DefinitionError, match=f"{option} cannot be used with mount"):
            render(build)


@pytest.mark.parametrize(
    ("region", "setting"), [("eu-central-1", "Allow"), ("mx-central-1", None), ("us-gov-west-1", None)]
)
def test_loops_are_allowed_where_lambda_has_a_setting_for_them(region: str, setting: str | None) -> None:
    stack = Stack(App(), "Test", env=Environment(region=region))
    SagaService(stack, "Shop", sagas=[Trip])
    functions = of_type(template_of(stack), "AWS::Lambda::Function")
    of_steps = [one for one in functions if one.get("Handler") == "sagas.handlers.step.handler"]
    assert of_steps
    assert {one.get("RecursiveLoop") for one in of_steps} == {setting}


class TestEndpoint:
    def test_public(self, plain: Template, everything: Template) -> None:
        for template, kind in ((plain, "REGIONAL"), (everything, "EDGE")):
            (api,) = of_type(template, "AWS::ApiGateway::RestApi")
            assert api["EndpointConfiguration"] == {"Types": [kind]}
            assert "Policy" not in api

    def test_accepts_tls_1_2_and_newer_only(self, plain: Template, everything: Template, guarded: Template) -> None:
        named = [
            api["SecurityPolicy"]
            for template in (plain, everything, guarded)
            for api in of_type(template, "AWS::ApiGateway::RestApi")
        ]
        newer = "SecurityPolicy_TLS13_1_2_PFS_PQ_2025_09"
        assert named == [newer, "SecurityPolicy_TLS12_PFS_2025_EDGE", newer]
        # API Gateway refuses such a policy without an access mode.
        assert all(api["EndpointAccessMode"] == "BASIC" for api in of_type(plain, "AWS::ApiGateway::RestApi"))

    @pytest.mark.parametrize("authorized", [False, True])
    def test_private(self, authorized: bool) -> None:
        def build(stack: Stack) -> None:
            entrance: Any = ec2.InterfaceVpcEndpoint.from_interface_vpc_endpoint_attributes(
                stack, "Entrance", vpc_endpoint_id="vpce-1", port=443
            )
            identity: Any = None
            if authorized:
                code, runtime = lambda_.Code.from_inline("def handler(*_): ..."), lambda_.Runtime.PYTHON_3_13
                handler: Any = lambda_.Function(stack, "Function", code=code, handler="index.handler", runtime=runtime)
                sources = [apigateway.IdentitySource.header("Who")]
                identity = apigateway.RequestAuthorizer(stack, "Who", handler=handler, identity_sources=sources)
            SagaService(stack, "Shop", sagas=[Trip], endpoint=PrivateEndpoint([entrance]), authorizer=identity)

        (api,) = of_type(render(build), "AWS::ApiGateway::RestApi")
        assert api["EndpointConfiguration"] == {"Types": ["PRIVATE"], "VpcEndpointIds": ["vpce-1"]}
        allowed, denied = api["Policy"]["Statement"]
        # The account's own IAM decides; what an authorizer decides is for anybody to ask.
        assert (allowed["Principal"] == {"AWS": "*"}) is authorized
        assert (denied["Effect"], denied["Principal"]) == ("Deny", {"AWS": "*"})
        assert denied["Condition"]["StringNotEquals"]["aws:SourceVpce"]

    def test_private_through_an_endpoint_of_the_stack(self, guarded: Template) -> None:
        (api,) = of_type(guarded, "AWS::ApiGateway::RestApi")
        assert api["EndpointConfiguration"]["Types"] == ["PRIVATE"]
        assert len(api["EndpointConfiguration"]["VpcEndpointIds"]) == 1

    def test_refused(self) -> None:
        with pytest.raises(DefinitionError, match="endpoint must be one of regional, edge, not 'private'"):
            service(endpoint="private")
        with pytest.raises(DefinitionError, match="vpc_endpoints must name at least one"):
            PrivateEndpoint([])


def dimensions(template: Template) -> set[tuple[str, str]]:
    """Namespace and dimensions of everything that the alarms watch, as plain text, and the functions' service name."""
    own = of_type(template, ALARM)
    stats = [stat["MetricStat"]["Metric"] for one in own for stat in one.get("Metrics", ()) if "MetricStat" in stat]
    watched = [*stats, *(one for one in own if "Metrics" not in one)]
    alarms = {(one["Namespace"], json.dumps(one.get("Dimensions"))) for one in watched}
    functions = of_type(template, "AWS::Lambda::Function")
    return alarms | {("name", one["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]) for one in functions}


class TestNames:
    def test_two_stacks_of_one_app_share_no_metric(self) -> None:
        def named(name: str) -> Template:
            stack = Stack(App(), "Same", stack_name=name)
            SagaService(stack, "Shop", sagas=[Trip], dashboard=True)
            return template_of(stack)

        blue, green = named("blue"), named("green")
        shared = dimensions(blue) & dimensions(green)
        # References are the same in words, and to other resources in fact; the account's throttles are meant so.
        assert not [words for _, words in shared if "Ref" not in words and "GetAtt" not in words and words != "null"]
        (api,) = of_type(blue, "AWS::ApiGateway::RestApi")
        assert api["Name"] == "blue-Shop"
        assert '"blue-Shop"' in json.dumps(of_type(blue, ALARM))
        assert "green-Shop" in json.dumps(of_type(green, "AWS::CloudWatch::Dashboard"))
        assert "blue" not in json.dumps(of_type(green, "AWS::CloudWatch::Dashboard"))

    def test_in_a_stage(self) -> None:
        stack = Stack(Stage(App(), "Prod"), "Orders")  # pyright: ignore[reportArgumentType] - a Construct, at run time
        SagaService(stack, "Shop", sagas=[Trip])
        assert ("name", "Prod-Orders-Shop") in dimensions(template_of(stack))

    def test_a_service_has_an_id(self, plain: Template, everything: Template) -> None:
        def ids(template: Template) -> set[str]:
            functions = [one for one in of_type(template, "AWS::Lambda::Function") if "Environment" in one]
            variables = [one["Environment"]["Variables"] for one in functions]
            return {json.dumps(one["SAGAS_SERVICE"]) for one in variables if "SAGAS_TABLE" in one}

        (derived,) = ids(plain)
        assert "AWS::StackId" in derived
        assert ids(everything) == {'"the-restored"'}
        for odd in ("", "two words", "x" * 65, "a.b"):
            with pytest.raises(DefinitionError, match="service_id must match"):
                service(service_id=odd)

    def test_one_of_ones_own(self, everything: Template) -> None:
        assert ("name", "orders") in dimensions(everything)
        with pytest.raises(DefinitionError, match="service_name must match"):
            service(service_name="our orders")


class TestAFirstDeploymentThatFails:
    def test_takes_along_what_it_made(self, plain: Template) -> None:
        resources = plain["Resources"].values()
        kept = {one["Type"]: one["DeletionPolicy"] for one in resources if "DeletionPolicy" in one}
        assert {"AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::Logs::LogGroup"} <= kept.keys()
        assert set(kept.values()) <= {"RetainExceptOnCreate", "Delete"}
        assert not [one for one in of_type(plain, "AWS::DynamoDB::Table") if one["DeletionProtectionEnabled"]]


def test_everything_with_data_follows_the_removal_policy(guarded: Template, everything: Template) -> None:
    data = ("AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::Logs::LogGroup", "AWS::SecretsManager::Secret")
    for template, policy in ((guarded, "RetainExceptOnCreate"), (everything, "Delete")):
        resources = [one for id, one in template["Resources"].items() if id.startswith("Shop") and one["Type"] in data]
        assert {one["Type"] for one in resources} == {*data}
        found = {(one["DeletionPolicy"], one["UpdateReplacePolicy"]) for one in resources}
        assert {deletion for deletion, _ in found} == {policy}


class TestPartitions:
    def test_the_key_is_that_of_variables_too(self, guarded: Template) -> None:
        functions = [one for one in of_service(guarded, "AWS::Lambda::Function") if "Environment" in one]
        assert len(functions) == len(SWEEPING) + 3 + 7
        assert all(one["KmsKeyArn"]["Fn::GetAtt"][0].startswith("Key") for one in functions)

    @pytest.mark.parametrize(
        ("region", "suffix"), [("cn-north-1", "amazonaws.com.cn"), ("us-gov-west-1", "amazonaws.com")]
    )
    def test_nothing_names_another(self, region: str, suffix: str) -> None:
        stack = Stack(App(), "Test", env=Environment(account="111122223333", region=region))
        SagaService(stack, "Shop", sagas=[Trip], encryption_key=kms.Key(stack, "Key"), access_log="role")
        template = template_of(stack)
        assert "arn:aws:" not in json.dumps(template)
        (key,) = of_type(template, "AWS::KMS::Key")
        services = [one["Principal"].get("Service") for one in key["KeyPolicy"]["Statement"]]
        (logs,) = (one for one in services if "logs." in json.dumps(one))
        assert json.dumps(logs) in (f'"logs.{region}.{suffix}"', json.dumps(_joined(region)))


def _joined(region: str) -> Template:
    return {"Fn::Join": ["", [f"logs.{region}.", {"Ref": "AWS::URLSuffix"}]]}


class TestNetwork:
    def test_all_functions_share_a_security_group(self, guarded: Template) -> None:
        groups = [id for id, one in guarded["Resources"].items() if one["Type"] == "AWS::EC2::SecurityGroup"]
        (group,) = [id for id in groups if id.startswith("Shop")]
        functions = of_service(guarded, "AWS::Lambda::Function")
        named = {json.dumps(one["VpcConfig"]["SecurityGroupIds"]) for one in functions}
        assert named == {json.dumps([{"Fn::GetAtt": [group, "GroupId"]}])}

    def test_one_for_each_vpc(self) -> None:
        def build(stack: Stack) -> None:
            one, two = (Network(ec2.Vpc(stack, name)) for name in ("One", "Two"))
            functions = {Trip.book: FunctionOptions(network=two)}
            SagaService(stack, "Shop", sagas=[Trip], network=one, functions=functions)

        assert len(of_type(render(build), "AWS::EC2::SecurityGroup")) == 2

    def test_ones_own(self) -> None:
        def build(stack: Stack) -> None:
            vpc = ec2.Vpc(stack, "Vpc")
            own = ec2.SecurityGroup(stack, "Own", vpc=vpc)
            SagaService(stack, "Shop", sagas=[Trip], network=Network(vpc, security_groups=[own]))

        assert len(of_type(render(build), "AWS::EC2::SecurityGroup")) == 1

    def test_code_of_a_function_has_no_right_to_interfaces(self, guarded: Template) -> None:
        """Lambda uses the function's role for them. Only requests of its code name the function as their source."""
        roles: dict[str, dict[str, list[Template]]] = {}
        for role, statement in statements(guarded):
            if any(action.startswith("ec2:") for action in as_list(statement["Action"])):
                roles.setdefault(role, {}).setdefault(statement["Effect"], []).append(statement)
        assert len(roles) == len(SWEEPING) + 3 + 7
        for found in roles.values():
            (allowed,), (denied,) = found["Allow"], found["Deny"]
            assert denied["Action"] == allowed["Action"]
            assert denied["Resource"] == allowed["Resource"] == "*"
            assert denied["Condition"] == {"Null": {"lambda:SourceFunctionArn": "false"}}


class TestTracing:
    def test_can_be_switched_off(self, everything: Template) -> None:
        assert not [one for one in of_type(everything, "AWS::Lambda::Function") if "TracingConfig" in one]
        assert "xray" not in json.dumps(everything)
        (stage,) = of_type(everything, "AWS::ApiGateway::Stage")
        assert stage["TracingEnabled"] is False


class TestPayloads:
    def test_versions_are_kept_for_a_time(self, everything: Template) -> None:
        (bucket,) = [one for id, one in by_id(everything, "AWS::S3::Bucket").items() if "Payloads" in id]
        assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
        (rule,) = bucket["LifecycleConfiguration"]["Rules"]
        assert rule["NoncurrentVersionExpiration"] == {"NoncurrentDays": 7}

    def test_none_unless_asked_for(self, plain: Template) -> None:
        (bucket,) = of_type(plain, "AWS::S3::Bucket")
        assert "VersioningConfiguration" not in bucket
        with pytest.raises(DefinitionError, match="payload_versions"):
            service(payload_versions=timedelta(hours=2))


class TestBundledSdk:
    def test_with_the_services_that_are_named(self) -> None:
        content = build_layer("arm64", "3.13", (), ["sns"]) / "python"
        assert {"boto3", "botocore", "urllib3", "six.py"} <= {path.name for path in content.iterdir()}
        described = {path.name for path in (content / "botocore" / "data").iterdir() if path.is_dir()}
        assert described == {"dynamodb", "events", "kms", "s3", "secretsmanager", "sns", "sqs", "sts"}

    def test_a_service_that_there_is_not(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(PackagingError, match="botocore has no service 'sens'"):
            build_layer("arm64", "3.13", (), ["sens"])

    def test_one_word_for_a_list(self) -> None:
        with pytest.raises(DefinitionError, match="bundle_sdk must be a list of services, not 'sns'"):
            service(bundle_sdk="sns")
