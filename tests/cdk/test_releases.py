"""How new code takes over: versions, aliases, gradual deployments, and what keeps functions warm."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk import App, Size, Stack, assertions
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_

from functions.checkout import Checkout
from functions.create_zip import CreateZip
from sagas.cdk import Deployment, FunctionOptions, SagaService
from sagas.errors import DefinitionError
from sagas.local.adapt import without_gradual_deployment

Template = dict[str, Any]
Find = Callable[[str], list[Template]]


def service(**options: Any) -> Template:
    """The template of a service of two sagas."""
    stack = Stack(App(), "Test")
    SagaService(stack, "Shop", sagas=[Checkout, CreateZip], **options)
    return dict(assertions.Template.from_stack(stack).to_json())


def of_type(template: Template, kind: str) -> dict[str, Template]:
    """The properties of all resources of a type, by logical id."""
    resources = template["Resources"].items()
    return {id: one.get("Properties", {}) for id, one in resources if one["Type"] == kind}


@pytest.fixture(scope="module")
def plain() -> Template:
    return service()


@pytest.fixture(scope="module")
def gradual() -> Template:
    return service(deployment=Deployment.canary(percent=10, minutes=5), nested_stacks=False)


class TestAliases:
    def test_of_every_function(self, plain: Template) -> None:
        functions = {name for name, one in of_type(plain, "AWS::Lambda::Function").items() if "sagas" in one["Handler"]}
        aliases = of_type(plain, "AWS::Lambda::Alias")
        assert {one["FunctionName"]["Ref"] for one in aliases.values()} == functions
        assert {one["Name"] for one in aliases.values()} == {"live"}
        versions = of_type(plain, "AWS::Lambda::Version")
        for alias in aliases.values():
            version = versions[alias["FunctionVersion"]["Fn::GetAtt"][0]]
            assert version["FunctionName"] == alias["FunctionName"]

    def test_are_what_is_called(self, plain: Template) -> None:
        aliases = of_type(plain, "AWS::Lambda::Alias").keys()
        sources = of_type(plain, "AWS::Lambda::EventSourceMapping").values()
        called = [json.dumps(one["FunctionName"]) for one in sources]
        assert all(":live" in name and any(f'"{alias}"' in name for alias in aliases) for name in called)
        assert len(set(called)) == 7
        targets = [rule["Targets"][0]["Arn"]["Ref"] for rule in of_type(plain, "AWS::Events::Rule").values()]
        assert set(targets) <= aliases
        permissions = of_type(plain, "AWS::Lambda::Permission").values()
        assert {one["FunctionName"]["Ref"] for one in permissions} <= aliases
        for method in of_type(plain, "AWS::ApiGateway::Method").values():
            assert any(f'"{alias}"' in json.dumps(method["Integration"]["Uri"]) for alias in aliases)
        (invocation,) = of_type(plain, "AWS::Lambda::EventInvokeConfig").values()
        assert invocation["Qualifier"] == "live" or "Alias" in json.dumps(invocation["Qualifier"])

    def test_have_the_name_that_is_asked_for(self) -> None:
        assert {one["Name"] for one in of_type(service(alias="in-use"), "AWS::Lambda::Alias").values()} == {"in-use"}
        with pytest.raises(DefinitionError, match=r"alias must match .*, not '12'"):
            service(alias="12")

    def test_can_be_had(self) -> None:
        made = SagaService(Stack(App(), "Test"), "Shop", sagas=[Checkout])
        assert made.alias(Checkout.ship).alias_name == "live"


class TestVersions:
    def changed(self, **options: Any) -> set[str]:
        """Handlers and steps of the functions whose version is another one with these options."""
        before, after = (self._versions(service(**given)) for given in ({}, options))
        assert before.keys() == after.keys()
        return {function for function in before if before[function] != after[function]}

    def _versions(self, template: Template) -> dict[str, str]:
        return {one["FunctionName"]["Ref"]: id for id, one in of_type(template, "AWS::Lambda::Version").items()}

    def test_stay_while_nothing_changes(self) -> None:
        assert self.changed() == set()

    def test_change_with_the_function_alone(self) -> None:
        (function,) = self.changed(functions={Checkout.ship: FunctionOptions(memory_size=512)})
        assert function.startswith("Shopcheckoutship")

    def test_change_with_what_is_in_the_layer(self) -> None:
        assert len(self.changed(bundle_sdk=["sns"])) == 9


class TestGradualDeployment:
    def test_moves_every_alias(self, gradual: Template) -> None:
        groups = of_type(gradual, "AWS::CodeDeploy::DeploymentGroup")
        aliases = [one for one in gradual["Resources"].values() if one["Type"] == "AWS::Lambda::Alias"]
        moved = {one["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"]["DeploymentGroupName"]["Ref"] for one in aliases}
        assert moved == groups.keys()
        assert len(groups) == len(aliases) == 9
        assert len({json.dumps(one["ServiceRoleArn"]) for one in groups.values()}) == 1

    def test_is_undone_by_the_alarms_of_the_saga(self, gradual: Template) -> None:
        alarms = of_type(gradual, "AWS::CloudWatch::Alarm")
        for id, group in of_type(gradual, "AWS::CodeDeploy::DeploymentGroup").items():
            assert {"DEPLOYMENT_FAILURE", "DEPLOYMENT_STOP_ON_ALARM"} <= set(
                group["AutoRollbackConfiguration"]["Events"]
            )
            watched = [alarms[one["Name"]["Ref"]] for one in group["AlarmConfiguration"]["Alarms"]]
            names = sorted(alarm["MetricName"] for alarm in watched)
            if "checkout" in id:
                assert names == ["Errors", "RecordFailed", "SagaCompensationFailed", "SagaNeedsAttention"]
                sagas = [one for alarm in watched for one in alarm["Dimensions"] if one["Name"] == "saga"]
                assert {one["Value"] for one in sagas} == {"checkout"}

    @pytest.mark.parametrize(
        ("deployment", "routing"),
        [
            (
                Deployment.canary(percent=10, minutes=5),
                {"Type": "TimeBasedCanary", "TimeBasedCanary": {"CanaryInterval": 5, "CanaryPercentage": 10}},
            ),
            (
                Deployment.linear(percent=20, minutes=3),
                {"Type": "TimeBasedLinear", "TimeBasedLinear": {"LinearInterval": 3, "LinearPercentage": 20}},
            ),
        ],
    )
    def test_as_asked_for(self, deployment: Deployment, routing: Template) -> None:
        (made,) = of_type(service(deployment=deployment), "AWS::CodeDeploy::DeploymentConfig").values()
        assert made["TrafficRoutingConfig"] == routing
        name = f"Test-Shop-{deployment.kind}-{deployment.percent}-{deployment.minutes}"
        assert made["DeploymentConfigName"] == name

    def test_all_at_once(self) -> None:
        template = service(deployment=Deployment.all_at_once())
        assert not of_type(template, "AWS::CodeDeploy::DeploymentConfig")
        for group in of_type(template, "AWS::CodeDeploy::DeploymentGroup").values():
            assert group["DeploymentConfigName"] == "CodeDeployDefault.LambdaAllAtOnce"

    def test_none_unless_asked_for(self, plain: Template) -> None:
        assert "CodeDeploy" not in json.dumps(plain)

    def test_alarms_of_ones_own(self) -> None:
        stack = Stack(App(), "Test")
        metric: Any = cloudwatch.Metric(namespace="Shop", metric_name="Refunds")
        refunds = cloudwatch.Alarm(stack, "Refunds", metric=metric, threshold=1, evaluation_periods=1)
        SagaService(stack, "Shop", sagas=[Checkout], deployment=Deployment.all_at_once(alarms=[refunds]))
        template = dict(assertions.Template.from_stack(stack).to_json())
        for group in of_type(template, "AWS::CodeDeploy::DeploymentGroup").values():
            assert "Refunds" in json.dumps(group["AlarmConfiguration"])

    @pytest.mark.parametrize(
        ("make", "refused"),
        [
            (lambda: Deployment.canary(percent=0, minutes=5), "percent must be 1 to 99"),
            (lambda: Deployment.canary(percent=10, minutes=0), "minutes must be 1 to 2,880"),
            (lambda: Deployment.linear(percent=10, minutes=289), "minutes must be 1 to 288"),
            (lambda: Deployment.all_at_once(alarms=[None] * 7), "alarms must be 6 at most, not 7"),  # type: ignore[list-item]
        ],
    )
    def test_refused(self, make: Callable[[], Deployment], refused: str) -> None:
        with pytest.raises(DefinitionError, match=refused):
            make()

    def test_the_local_stack_moves_aliases_at_once(self, gradual: Template) -> None:
        changed = without_gradual_deployment(gradual)
        assert "CodeDeploy" not in json.dumps({id: one["Type"] for id, one in changed["Resources"].items()})
        assert "CodeDeployLambdaAliasUpdate" not in json.dumps(changed)
        assert len(of_type(changed, "AWS::Lambda::Alias")) == 9


class TestWarmFunctions:
    def test_provisioned_concurrency_is_the_aliass(self) -> None:
        template = service(functions={Checkout.ship: FunctionOptions(provisioned_concurrency=3)})
        given = {
            id: one.get("ProvisionedConcurrencyConfig") for id, one in of_type(template, "AWS::Lambda::Alias").items()
        }
        (made,) = (id for id, one in given.items() if one is not None)
        assert made.startswith("Shopcheckoutship")
        assert given[made] == {"ProvisionedConcurrentExecutions": 3}

    def test_snapshots_are_of_versions(self) -> None:
        template = service(functions={Checkout.ship: FunctionOptions(snap_start=True)})
        functions = of_type(template, "AWS::Lambda::Function")
        (made,) = (id for id, one in functions.items() if "SnapStart" in one)
        assert made.startswith("Shopcheckoutship")
        assert functions[made]["SnapStart"] == {"ApplyOn": "PublishedVersions"}

    @pytest.mark.parametrize(
        ("options", "refused"),
        [
            ({"snap_start": True, "provisioned_concurrency": 2}, "snap_start goes without provisioned_concurrency"),
            ({"snap_start": True, "ephemeral_storage": Size.gibibytes(1)}, "ephemeral_storage of 512 MB only"),
            ({"provisioned_concurrency": 0}, "provisioned_concurrency must be 1"),
            ({"provisioned_concurrency": 5, "reserved_concurrency": 4}, "provisioned_concurrency must be 1 to 4"),
        ],
    )
    def test_refused(self, options: dict[str, Any], refused: str) -> None:
        with pytest.raises(DefinitionError, match=refused):
            FunctionOptions(**options)

    def test_a_runtime_without_snapshots(self) -> None:
        options = {Checkout.ship: FunctionOptions(snap_start=True)}
        with pytest.raises(
            DefinitionError, match=r"checkout/ship: snap_start takes Python 3.12 or newer, not python3.11"
        ):
            service(functions=options, runtime=lambda_.Runtime.PYTHON_3_11)
