"""How new code takes over: versions, aliases, gradual deployments, and what keeps functions warm."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from aws_cdk import App, Size, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_

from functions.checkout import Checkout
from functions.create_zip import CreateZip
from sagas.cdk import Deployment, FunctionOptions, SagaService
from sagas.errors import DefinitionError
from sagas.local.emulator.adapt import without_gradual_deployment
from tests.cdk.rendered import by_id, template_of
from tests.cdk.saga_classes import Trip
from tests.cdk.templates import template

Template = dict[str, Any]
Find = Callable[[str], list[Template]]


def service(**options: Any) -> Template:
    """The template of a service of two sagas."""
    stack = Stack(App(), "Test")
    SagaService(stack, "Shop", sagas=[Checkout, CreateZip], **options)
    return template_of(stack)


@pytest.fixture
def gradual(everything: Template) -> Template:
    """The template of a service whose deployments are canaries."""
    return everything


@pytest.fixture(scope="module")
def at_once() -> Template:
    """The template of a service that is deployed all at once, watched by an alarm of the user's."""
    stack = Stack(App(), "Test")
    metric: Any = cloudwatch.Metric(namespace="Shop", metric_name="Refunds")
    refunds = cloudwatch.Alarm(stack, "Refunds", metric=metric, threshold=1, evaluation_periods=1)
    SagaService(stack, "Shop", sagas=[Trip], deployment=Deployment.all_at_once(alarms=[refunds]))
    return template_of(stack)


class TestAliases:
    def test_of_every_function(self, plain: Template) -> None:
        functions = {name for name, one in by_id(plain, "AWS::Lambda::Function").items() if "sagas" in one["Handler"]}
        aliases = by_id(plain, "AWS::Lambda::Alias")
        assert {one["FunctionName"]["Ref"] for one in aliases.values()} == functions
        assert {one["Name"] for one in aliases.values()} == {"live"}
        versions = by_id(plain, "AWS::Lambda::Version")
        for alias in aliases.values():
            version = versions[alias["FunctionVersion"]["Fn::GetAtt"][0]]
            assert version["FunctionName"] == alias["FunctionName"]

    def test_older_versions_stay_where_that_is_asked_for(self, plain: Template, everything: Template) -> None:
        kept, gone = (
            {
                (one.get("DeletionPolicy"), one.get("UpdateReplacePolicy"))
                for one in template["Resources"].values()
                if one["Type"] == "AWS::Lambda::Version"
            }
            for template in (everything, plain)
        )
        # But for those of a deployment that fails.
        assert kept == {("RetainExceptOnCreate", "Retain")}
        assert gone == {(None, None)}

    def test_are_what_is_called(self, plain: Template) -> None:
        aliases = by_id(plain, "AWS::Lambda::Alias").keys()
        sources = by_id(plain, "AWS::Lambda::EventSourceMapping").values()
        called = [json.dumps(one["FunctionName"]) for one in sources]
        assert all(":live" in name and any(f'"{alias}"' in name for alias in aliases) for name in called)
        assert len(set(called)) == 7
        targets = [rule["Targets"][0]["Arn"]["Ref"] for rule in by_id(plain, "AWS::Events::Rule").values()]
        assert set(targets) <= aliases
        permissions = by_id(plain, "AWS::Lambda::Permission").values()
        assert {one["FunctionName"]["Ref"] for one in permissions} <= aliases
        (stage,) = by_id(plain, "AWS::ApiGateway::Stage").values()
        assert stage["Variables"]["alias"] == "live"
        (invocation,) = by_id(plain, "AWS::Lambda::EventInvokeConfig").values()
        assert invocation["Qualifier"] == "live" or "Alias" in json.dumps(invocation["Qualifier"])

    def test_have_the_name_that_is_asked_for(self, everything: Template) -> None:
        assert {one["Name"] for one in by_id(everything, "AWS::Lambda::Alias").values()} == {"in-use"}
        with pytest.raises(DefinitionError, match=r"alias must match .*, not '12'"):
            service(alias="12")

    def test_can_be_had(self) -> None:
        made = SagaService(Stack(App(), "Test"), "Shop", sagas=[Trip])
        assert made.alias(Trip.book).alias_name == "live"


class TestVersions:
    """Which functions have another version in a service of the same sagas with these options."""

    def changed(self, plain: Template, **options: Any) -> set[str]:
        """The logical ids of these functions."""
        before, after = self._versions(plain), self._versions(service(**options))
        assert before.keys() == after.keys()
        return {function for function in before if before[function] != after[function]}

    def _versions(self, template: Template) -> dict[str, str]:
        return {one["FunctionName"]["Ref"]: id for id, one in by_id(template, "AWS::Lambda::Version").items()}

    def test_stay_while_nothing_changes(self, plain: Template) -> None:
        assert self.changed(plain) == set()

    def test_change_with_the_function_alone(self, plain: Template) -> None:
        (function,) = self.changed(plain, functions={Checkout.ship: FunctionOptions(memory_size=512)})
        assert function.startswith("Shopcheckoutship")

    def test_change_with_what_is_in_the_layer(self, plain: Template) -> None:
        assert len(self.changed(plain, bundle_sdk=["sns"])) == 9


class TestGradualDeployment:
    def test_moves_every_alias(self, gradual: Template) -> None:
        """But for that of the archive's function, which no saga waits for."""
        groups = by_id(gradual, "AWS::CodeDeploy::DeploymentGroup")
        resources = gradual["Resources"].items()
        aliases = {id: one.get("UpdatePolicy") for id, one in resources if one["Type"] == "AWS::Lambda::Alias"}
        (still,) = [id for id, policy in aliases.items() if policy is None]
        assert still.startswith("ShopArchiveCopy")
        policies = [policy for policy in aliases.values() if policy is not None]
        moved = {policy["CodeDeployLambdaAliasUpdate"]["DeploymentGroupName"]["Ref"] for policy in policies}
        assert moved == groups.keys()
        assert len(groups) == len(policies) == 10 + 6
        assert len({json.dumps(one["ServiceRoleArn"]) for one in groups.values()}) == 1

    def test_is_undone_by_the_alarms_of_the_saga(self, gradual: Template) -> None:
        alarms = by_id(gradual, "AWS::CloudWatch::Alarm")
        for id, group in by_id(gradual, "AWS::CodeDeploy::DeploymentGroup").items():
            assert {"DEPLOYMENT_FAILURE", "DEPLOYMENT_STOP_ON_ALARM"} <= set(
                group["AutoRollbackConfiguration"]["Events"]
            )
            watched = [alarms[one["Name"]["Ref"]] for one in group["AlarmConfiguration"]["Alarms"]]
            names = sorted(alarm["MetricName"] for alarm in watched)
            if "checkout" in id:
                assert names == ["Errors", "Failing", "SagaNeedsAttention"], "no gauge, which would block the fix"
                sagas = [one for alarm in watched for one in alarm["Dimensions"] if one["Name"] == "saga"]
                assert {one["Value"] for one in sagas} == {"checkout"}

    @pytest.mark.parametrize(
        ("name", "stack", "config", "routing"),
        [
            (
                "everything",
                "Test",
                "orders-canary-10-5",
                {"Type": "TimeBasedCanary", "TimeBasedCanary": {"CanaryInterval": 5, "CanaryPercentage": 10}},
            ),
            (
                "nested_within_a_network",
                "Guarded",
                "Guarded-Shop-linear-20-5",
                {"Type": "TimeBasedLinear", "TimeBasedLinear": {"LinearInterval": 5, "LinearPercentage": 20}},
            ),
        ],
    )
    def test_as_asked_for(self, name: str, stack: str, config: str, routing: Template) -> None:
        (made,) = by_id(template(name, stack), "AWS::CodeDeploy::DeploymentConfig").values()
        assert made["TrafficRoutingConfig"] == routing
        assert made["DeploymentConfigName"] == config

    def test_all_at_once(self, at_once: Template) -> None:
        assert not by_id(at_once, "AWS::CodeDeploy::DeploymentConfig")
        groups = by_id(at_once, "AWS::CodeDeploy::DeploymentGroup").values()
        assert {group["DeploymentConfigName"] for group in groups} == {"CodeDeployDefault.LambdaAllAtOnce"}

    def test_none_unless_asked_for(self, plain: Template) -> None:
        assert "CodeDeploy" not in json.dumps(plain)

    def test_alarms_of_ones_own(self, at_once: Template) -> None:
        groups = by_id(at_once, "AWS::CodeDeploy::DeploymentGroup").values()
        assert groups
        for group in groups:
            assert "Refunds" in json.dumps(group["AlarmConfiguration"])

    @pytest.mark.parametrize(
        ("make", "refused"),
        [
            (lambda: Deployment.canary(percent=0, minutes=5), "percent must be 1 to 99"),
            (lambda: Deployment.canary(percent=10, minutes=0), "minutes must be 1 to 2,880"),
            (lambda: Deployment.linear(percent=10, minutes=289), "minutes must be 1 to 288"),
            (lambda: Deployment.all_at_once(alarms=[cast("Any", None)] * 7), "alarms: at most 6 are allowed, not 7"),
        ],
    )
    def test_refused(self, make: Callable[[], Deployment], refused: str) -> None:
        with pytest.raises(DefinitionError, match=refused):
            make()

    def test_the_local_stack_moves_aliases_at_once(self, gradual: Template) -> None:
        changed = without_gradual_deployment(gradual)
        assert "CodeDeploy" not in json.dumps({id: one["Type"] for id, one in changed["Resources"].items()})
        assert "CodeDeployLambdaAliasUpdate" not in json.dumps(changed)
        assert by_id(changed, "AWS::Lambda::Alias").keys() == by_id(gradual, "AWS::Lambda::Alias").keys() != set()


class TestWarmFunctions:
    def test_provisioned_concurrency_is_the_aliass(self, everything: Template) -> None:
        aliases = by_id(everything, "AWS::Lambda::Alias").items()
        given = {id: one.get("ProvisionedConcurrencyConfig") for id, one in aliases}
        (made,) = (id for id, one in given.items() if one is not None)
        assert made.startswith("Shopcheckoutcapture")
        assert given[made] == {"ProvisionedConcurrentExecutions": 3}

    def test_snapshots_are_of_versions(self, everything: Template) -> None:
        functions = by_id(everything, "AWS::Lambda::Function")
        (made,) = (id for id, one in functions.items() if "SnapStart" in one)
        assert made.startswith("Shopcheckoutship")
        assert functions[made]["SnapStart"] == {"ApplyOn": "PublishedVersions"}

    @pytest.mark.parametrize(
        ("options", "refused"),
        [
            (
                {"snap_start": True, "provisioned_concurrency": 2},
                "snap_start cannot be combined with prov",
            ),
            (
                {"snap_start": True, "ephemeral_storage": Size.gibibytes(1)},
                "requires an ephemeral_storage of 512 MB",
            ),
            ({"provisioned_concurrency": 0}, "provisioned_concurrency must be 1"),
        ],
    )
    def test_refused(self, options: dict[str, Any], refused: str) -> None:
        with pytest.raises(DefinitionError, match=refused):
            FunctionOptions(**options)

    def test_a_runtime_without_snapshots(self) -> None:
        options = {Checkout.ship: FunctionOptions(snap_start=True)}
        with pytest.raises(
            DefinitionError, match=r"checkout/ship: snap_start requires Python 3.12 or newer, not python3.11"
        ):
            service(functions=options, runtime=lambda_.Runtime.PYTHON_3_11)
