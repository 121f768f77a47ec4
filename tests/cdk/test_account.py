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

from functions.checkout import Checkout
from sagas.cdk import FunctionOptions, Network, PrivateEndpoint, SagaService
from sagas.cdk.layer import PackagingError, build_layer
from sagas.errors import DefinitionError
from tests.cdk.rendered import Template, of_type, render, service, template_of

ALARM = "AWS::CloudWatch::Alarm"


class TestAccessLog:
    def test_none_unless_asked_for(self) -> None:
        template = service()
        assert not of_type(template, "AWS::ApiGateway::Account")
        (stage,) = of_type(template, "AWS::ApiGateway::Stage")
        assert "AccessLogSetting" not in stage

    def test_by_the_role_that_is_there(self) -> None:
        template = service(access_log="account")
        assert not of_type(template, "AWS::ApiGateway::Account")
        (stage,) = of_type(template, "AWS::ApiGateway::Stage")
        form = stage["AccessLogSetting"]["Format"]
        assert "$context.status" in form
        assert "body" not in form.lower()

    def test_by_a_role_for_the_whole_account(self) -> None:
        template = service(access_log="role")
        assert len(of_type(template, "AWS::ApiGateway::Account")) == 1
        accounts = [one for one in template["Resources"].values() if one["Type"] == "AWS::ApiGateway::Account"]
        assert accounts[0]["DeletionPolicy"] == "Retain"

    @pytest.mark.parametrize("options", [{"access_log": "account"}, {"endpoint": "edge"}])
    def test_of_an_api_that_is_there(self, options: dict[str, Any]) -> None:
        def build(stack: Stack) -> None:
            root = apigateway.RestApi(stack, "Api").root
            SagaService(stack, "Shop", sagas=[Checkout], mount=root.add_resource("shop"), **options)

        (option,) = options
        with pytest.raises(DefinitionError, match=f"{option} is that of the stage of the API you mount on"):
            render(build)


class TestEndpoint:
    @pytest.mark.parametrize(("given", "made"), [({}, "REGIONAL"), ({"endpoint": "edge"}, "EDGE")])
    def test_public(self, given: dict[str, Any], made: str) -> None:
        (api,) = of_type(service(**given), "AWS::ApiGateway::RestApi")
        assert api["EndpointConfiguration"] == {"Types": [made]}
        assert "Policy" not in api

    @pytest.mark.parametrize("authorized", [False, True])
    def test_private(self, authorized: bool) -> None:
        def build(stack: Stack) -> None:
            vpc = ec2.Vpc(stack, "Vpc")
            entrance = vpc.add_interface_endpoint("Entrance", service=ec2.InterfaceVpcEndpointAwsService.APIGATEWAY)
            identity: Any = None
            if authorized:
                sources = [apigateway.IdentitySource.header("Who")]
                handler: Any = SagaService(stack, "Other", sagas=[Checkout]).supervisor
                identity = apigateway.RequestAuthorizer(stack, "Who", handler=handler, identity_sources=sources)
            SagaService(stack, "Shop", sagas=[Checkout], endpoint=PrivateEndpoint([entrance]), authorizer=identity)

        (api,) = (one for one in of_type(render(build), "AWS::ApiGateway::RestApi") if "Policy" in one)
        assert api["EndpointConfiguration"]["Types"] == ["PRIVATE"]
        assert len(api["EndpointConfiguration"]["VpcEndpointIds"]) == 1
        allowed, denied = api["Policy"]["Statement"]
        # The account's own IAM decides; what an authorizer decides is for anybody to ask.
        assert (allowed["Principal"] == {"AWS": "*"}) is authorized
        assert (denied["Effect"], denied["Principal"]) == ("Deny", {"AWS": "*"})
        assert denied["Condition"]["StringNotEquals"]["aws:SourceVpce"]

    def test_refused(self) -> None:
        with pytest.raises(DefinitionError, match="endpoint must be one of regional, edge, not 'private'"):
            service(endpoint="private")
        with pytest.raises(DefinitionError, match="vpc_endpoints must name at least one"):
            PrivateEndpoint([])


def dimensions(template: Template) -> set[tuple[str, str]]:
    """Namespace and dimensions of everything that the alarms watch, as plain text, and the functions' service name."""
    alarms = {(one["Namespace"], json.dumps(one.get("Dimensions"))) for one in of_type(template, ALARM)}
    functions = of_type(template, "AWS::Lambda::Function")
    return alarms | {("name", one["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]) for one in functions}


class TestNames:
    def test_two_stacks_of_one_app_share_no_metric(self) -> None:
        def named(name: str) -> Template:
            stack = Stack(App(), "Same", stack_name=name)
            SagaService(stack, "Shop", sagas=[Checkout])
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
        SagaService(stack, "Shop", sagas=[Checkout])
        assert ("name", "Prod-Orders-Shop") in dimensions(template_of(stack))

    def test_one_of_ones_own(self) -> None:
        assert ("name", "orders") in dimensions(service(service_name="orders"))
        with pytest.raises(DefinitionError, match="service_name must match"):
            service(service_name="our orders")


class TestAFirstDeploymentThatFails:
    def test_takes_along_what_it_made(self) -> None:
        resources = service()["Resources"].values()
        kept = {one["Type"]: one["DeletionPolicy"] for one in resources if "DeletionPolicy" in one}
        assert {"AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::Logs::LogGroup"} <= kept.keys()
        assert set(kept.values()) <= {"RetainExceptOnCreate", "Delete"}
        assert not [one for one in of_type(service(), "AWS::DynamoDB::Table") if one["DeletionProtectionEnabled"]]


class TestPartitions:
    def test_the_key_is_that_of_variables_too(self) -> None:
        stack = Stack(App(), "Test")
        SagaService(stack, "Shop", sagas=[Checkout], encryption_key=kms.Key(stack, "Key"))
        functions = [one for one in of_type(template_of(stack), "AWS::Lambda::Function") if "Environment" in one]
        assert len(functions) == 3 + 3
        assert all("Fn::GetAtt" in one.get("KmsKeyArn", {}) for one in functions)

    @pytest.mark.parametrize(
        ("region", "suffix"), [("cn-north-1", "amazonaws.com.cn"), ("us-gov-west-1", "amazonaws.com")]
    )
    def test_nothing_names_another(self, region: str, suffix: str) -> None:
        stack = Stack(App(), "Test", env=Environment(account="111122223333", region=region))
        SagaService(stack, "Shop", sagas=[Checkout], encryption_key=kms.Key(stack, "Key"), access_log="role")
        template = template_of(stack)
        assert "arn:aws:" not in json.dumps(template)
        (key,) = of_type(template, "AWS::KMS::Key")
        services = [one["Principal"].get("Service") for one in key["KeyPolicy"]["Statement"]]
        (logs,) = (one for one in services if "logs." in json.dumps(one))
        assert json.dumps(logs) in (f'"logs.{region}.{suffix}"', json.dumps(_joined(region)))


def _joined(region: str) -> Template:
    return {"Fn::Join": ["", [f"logs.{region}.", {"Ref": "AWS::URLSuffix"}]]}


class TestNetwork:
    def test_all_functions_share_a_security_group(self) -> None:
        def build(stack: Stack) -> None:
            SagaService(stack, "Shop", sagas=[Checkout], network=Network(ec2.Vpc(stack, "Vpc")))

        template = render(build)
        (group,) = (id for id, one in template["Resources"].items() if one["Type"] == "AWS::EC2::SecurityGroup")
        functions = [one for one in of_type(template, "AWS::Lambda::Function") if "Handler" in one]
        named = {json.dumps(one["VpcConfig"]["SecurityGroupIds"]) for one in functions if "VpcConfig" in one}
        assert named == {json.dumps([{"Fn::GetAtt": [group, "GroupId"]}])}
        assert len([one for one in functions if "VpcConfig" in one]) == 6

    def test_one_for_each_vpc(self) -> None:
        def build(stack: Stack) -> None:
            one, two = (Network(ec2.Vpc(stack, name)) for name in ("One", "Two"))
            functions = {Checkout.ship: FunctionOptions(network=two)}
            SagaService(stack, "Shop", sagas=[Checkout], network=one, functions=functions)

        assert len(of_type(render(build), "AWS::EC2::SecurityGroup")) == 2

    def test_ones_own(self) -> None:
        def build(stack: Stack) -> None:
            vpc = ec2.Vpc(stack, "Vpc")
            own = ec2.SecurityGroup(stack, "Own", vpc=vpc)
            SagaService(stack, "Shop", sagas=[Checkout], network=Network(vpc, security_groups=[own]))

        assert len(of_type(render(build), "AWS::EC2::SecurityGroup")) == 1


class TestTracing:
    def test_can_be_switched_off(self) -> None:
        template = service(tracing=False)
        assert not [one for one in of_type(template, "AWS::Lambda::Function") if "TracingConfig" in one]
        assert "xray" not in json.dumps(template)
        (stage,) = of_type(template, "AWS::ApiGateway::Stage")
        assert stage["TracingEnabled"] is False


class TestPayloads:
    def test_versions_are_kept_for_a_time(self) -> None:
        (bucket,) = of_type(service(payload_versions=timedelta(days=7)), "AWS::S3::Bucket")
        assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
        (rule,) = bucket["LifecycleConfiguration"]["Rules"]
        assert rule["NoncurrentVersionExpiration"] == {"NoncurrentDays": 7}

    def test_none_unless_asked_for(self) -> None:
        (bucket,) = of_type(service(), "AWS::S3::Bucket")
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
        with pytest.raises(PackagingError, match="botocore knows no service 'sens'"):
            build_layer("arm64", "3.13", (), ["sens"])

    def test_one_word_for_a_list(self) -> None:
        with pytest.raises(DefinitionError, match="bundle_sdk must be a list of services, not 'sns'"):
            service(bundle_sdk="sns")
