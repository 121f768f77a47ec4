"""What a service has where some wait is public, and where none is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_cognito as cognito

from sagas.cdk import SagaService
from sagas.cdk.access.api import PUBLIC_ROUTES, ROUTES
from sagas.cdk.access.grants import RIGHTS
from sagas.cdk.options.service_options import Throttling
from sagas.errors import DefinitionError
from tests.cdk.rendered import Template, as_list, by_id, of_type, operations, shown, statements, template_of
from tests.cdk.saga_classes import Loan, Private
from tests.cdk.templates import WEB_ACL
from tests.cdk.test_template import path_of
from tests.support.gateway import RESOURCES

READ = "secretsmanager:GetSecretValue"


class Deployed:
    """A service's template."""

    def __init__(self, template: dict[str, Any]) -> None:
        self.template = template

    def of_type(self, kind: str) -> dict[str, dict[str, Any]]:
        return by_id(self.template, kind)

    @property
    def methods(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The methods of an API that is mounted, or has an authorizer."""
        found = self.of_type("AWS::ApiGateway::Method").values()
        return {(path_of(self.template, one["ResourceId"]), one["HttpMethod"]): one for one in found}

    @property
    def operations(self) -> dict[tuple[str, str], dict[str, Any]]:
        return operations(self.template)

    @property
    def knowing(self) -> dict[str, dict[str, Any]]:
        """The variables of the functions that know of callbacks, by their handler and steps."""
        found: dict[str, dict[str, Any]] = {}
        for one in self.of_type("AWS::Lambda::Function").values():
            variables: dict[str, Any] = one.get("Environment", {}).get("Variables", {})
            if any("CALLBACK" in name for name in variables):
                found[f"{one['Handler']} {one['Description']}"] = variables
        return found

    @property
    def readers(self) -> dict[str, dict[str, Any]]:
        """Statements that let a role read the secret, by the role."""
        return {
            role: statement for role, statement in statements(self.template) if READ in as_list(statement["Action"])
        }


def deploy(*sagas: type[Any], stack: Stack | None = None, **options: Any) -> Deployed:
    """The template of a service, in a stack of its own if none is given."""
    stack = stack or Stack(App(), "Test")
    given: Any = {"sagas": sagas, **options}
    SagaService(stack, "Bank", **given)
    return Deployed(template_of(stack))


@pytest.fixture(scope="module")
def deployed() -> Deployed:
    return deploy(Loan, Private)


def test_without_a_public_wait_there_is_neither_route_nor_secret() -> None:
    private = deploy(Private)
    assert set(private.operations) == {(path, method) for path, methods in ROUTES.items() for method in methods}
    assert not private.of_type("AWS::SecretsManager::Secret")
    assert not private.knowing
    assert not private.readers
    (stage,) = private.of_type("AWS::ApiGateway::Stage").values()
    assert len(stage["MethodSettings"]) == 1


def test_the_route_alone_asks_for_no_authorization(deployed: Deployed) -> None:
    expected = {(path, method) for routes in (ROUTES, PUBLIC_ROUTES) for path, of in routes.items() for method in of}
    assert set(deployed.operations) == expected
    assert {f"/{path}" for path, _ in expected} == set(RESOURCES)
    open_to_all = {call for call, one in deployed.operations.items() if one["security"] != [{"sigv4": []}]}
    assert open_to_all == {("callbacks/{token}", "POST")}
    assert deployed.operations["callbacks/{token}", "POST"]["security"] == []


def test_no_right_is_needed_for_it_and_none_includes_it() -> None:
    assert not set(PUBLIC_ROUTES) & set(ROUTES)
    patterns = [one for right in RIGHTS.values() for one in (*right.of_type, *right.of_all)]
    assert not [one for one in patterns if "callbacks" in one]
    assert all(one.partition("/")[2].split("/")[0] != "*" for one in patterns)


def test_it_is_throttled_by_itself(deployed: Deployed, everything: Template) -> None:
    (stage,) = deployed.of_type("AWS::ApiGateway::Stage").values()
    settings = {one["ResourcePath"]: one for one in stage["MethodSettings"]}
    assert set(settings) == {"/*", "/~1callbacks~1{token}"}
    own = settings["/~1callbacks~1{token}"]
    assert (own["HttpMethod"], own["ThrottlingRateLimit"], own["ThrottlingBurstLimit"]) == ("POST", 50, 100)
    assert own["MetricsEnabled"] is True
    other = of_type(everything, "AWS::ApiGateway::Stage")
    (changed,) = (one for stage in other for one in stage["MethodSettings"] if one["ResourcePath"] != "/*")
    assert (changed["ThrottlingRateLimit"], changed["ThrottlingBurstLimit"]) == (5, 7)


def test_the_secret_is_made_and_known_to_those_who_need_it(deployed: Deployed) -> None:
    ((name, secret),) = deployed.of_type("AWS::SecretsManager::Secret").items()
    assert secret["GenerateSecretString"]["PasswordLength"] >= 43, "as many bits as the code has"
    assert "SecretString" not in secret
    assert {one.rpartition(" ")[0] if "Step" in one else one for one in deployed.knowing} == {
        "sagas.handlers.api.handler Starts, shows and cancels sagas",
        "sagas.handlers.step.handler Step approval of saga",
    }
    ((api, _),) = deployed.of_type("AWS::ApiGateway::RestApi").items()
    for variables in deployed.knowing.values():
        assert variables["SAGAS_CALLBACK_SECRET"] == {"Ref": name}
        url = shown(variables["SAGAS_CALLBACK_URL"])
        assert url == f"https://<{api}>.execute-api.<AWS::Region>.<AWS::URLSuffix>/v1"


def test_only_they_may_read_its_current_and_previous_version(deployed: Deployed) -> None:
    ((name, _),) = deployed.of_type("AWS::SecretsManager::Secret").items()
    assert len(deployed.readers) == 2
    for statement in deployed.readers.values():
        assert statement["Action"] == READ
        assert statement["Resource"] == {"Ref": name}
        versions = {"secretsmanager:VersionStage": ["AWSCURRENT", "AWSPREVIOUS"]}
        assert statement["Condition"] == {"StringEquals": versions}


def test_all_steps_of_a_saga_that_share_a_function(deployed: Deployed, guarded: Template) -> None:
    assert len(Deployed(guarded).readers) == len(deployed.readers)


def test_in_nested_stacks(everything: Template) -> None:
    """No circle of stacks: the URL names the API, and not its stage. One service has none by its option."""
    for template in (deploy(Loan, nested_stacks=True).template, everything):
        assert len(of_type(template, "AWS::SecretsManager::Secret")) == 1


def test_below_a_mount() -> None:
    stack = Stack(App(), "Test")
    api = apigateway.RestApi(stack, "Mine")
    deployed = deploy(Loan, stack=stack, mount=api.root.add_resource("bank"))
    assert deployed.methods["bank/callbacks/{token}", "POST"]["AuthorizationType"] == "NONE"
    assert {shown(one["SAGAS_CALLBACK_URL"])[-10:] for one in deployed.knowing.values()} == {"/prod/bank"}


def test_behind_an_authorizer_of_ones_own_the_route_has_none() -> None:
    for mounted in (True, False):
        stack = Stack(App(), "Test")
        pool: Any = cognito.UserPool(stack, "Users")
        users: Any = apigateway.CognitoUserPoolsAuthorizer(stack, "Pool", cognito_user_pools=[pool])
        options: dict[str, Any] = {"authorizer": users}
        if mounted:
            defaults = apigateway.MethodOptions(authorizer=users)
            options = {"mount": apigateway.RestApi(stack, "Mine", default_method_options=defaults).root}
        methods = deploy(Loan, stack=stack, **options).methods
        assert methods["callbacks/{token}", "POST"]["AuthorizationType"] == "NONE"
        assert "AuthorizerId" not in methods["callbacks/{token}", "POST"]
        assert methods["sagas/{type}", "POST"]["AuthorizationType"] == "COGNITO_USER_POOLS"


def test_an_api_without_a_stage_needs_to_be_told_where_it_is() -> None:
    stack = Stack(App(), "Test")
    api = apigateway.RestApi(stack, "Mine", deploy=False)
    with pytest.raises(DefinitionError, match="no default stage; set callback_base_url"):
        SagaService(stack, "Bank", sagas=[Loan], mount=api.root)
    stack = Stack(App(), "Test")
    api = apigateway.RestApi(stack, "Mine", deploy=False)
    told = deploy(Loan, stack=stack, mount=api.root, callback_base_url="https://hooks.example.com/bank")
    assert {one["SAGAS_CALLBACK_URL"] for one in told.knowing.values()} == {"https://hooks.example.com/bank"}


@pytest.mark.parametrize("url", ["http://example.com", "https://example.com/", "example.com", "https://a b", ""])
def test_a_base_that_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(DefinitionError, match="callback_base_url must be an https URL"):
        deploy(Loan, callback_base_url=url)


def test_a_private_api_lets_callbacks_through_its_endpoints(guarded: Template) -> None:
    (api,) = of_type(guarded, "AWS::ApiGateway::RestApi")
    statements: list[Mapping[str, Any]] = api["Policy"]["Statement"]
    anyone = [one for one in statements if one["Effect"] == "Allow" and one["Principal"] == {"AWS": "*"}]
    assert [one["Resource"] for one in anyone] == ["execute-api:/*/POST/callbacks/*"]


def test_a_web_acl_stands_before_the_stage(everything: Template) -> None:
    (found,) = of_type(everything, "AWS::WAFv2::WebACLAssociation")
    assert found["WebACLArn"] == WEB_ACL
    assert "/stages/" in json.dumps(found["ResourceArn"])
    for option in ({"web_acl_arn": WEB_ACL}, {"callback_throttling": Throttling()}):
        stack = Stack(App(), "Test")
        with pytest.raises(DefinitionError, match="cannot be used with mount"):
            deploy(Loan, stack=stack, mount=apigateway.RestApi(stack, "Mine").root, **option)
