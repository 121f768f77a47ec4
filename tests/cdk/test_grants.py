"""Rights of callers and operators: which calls of the API a role may make, by saga type, and nothing beside them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, cast

import pytest
from aws_cdk import App, Stack, assertions
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms

from functions.checkout import Checkout
from functions.create_zip import CreateZip
from sagas import Saga, step
from sagas.authoring.saga import definition_of
from sagas.cdk import SagaService, grants
from sagas.cdk.api import ROUTES
from sagas.cdk.grants import RIGHTS
from sagas.errors import DefinitionError
from tests.cdk.test_permissions import pairs

Template = dict[str, Any]
Grant = Callable[..., object]

ID = "019aa59c-fb80-7c1e-9b52-4f6d0a3e8b17"
OURS, OTHER = "checkout", "create-zip"
LISTS = {"GET/sagas", "GET/attention", "GET/definitions", "GET/stats", "GET/breakers", "GET/openapi.json"}
BY_ID_ALONE = f"GET/sagas/{ID}"
"""Whose saga that is, IAM does not see."""
EVERY = ("start", "read", "signal", "cancel", "operate", "purge")


class Payout(Saga[str], name="payout", cancellable=False):
    """Callers may not cancel it."""

    @step
    def pay(self) -> None: ...


def calls(name: str) -> Iterator[str]:
    """Every call of the API that is about one saga type, as IAM writes it: method and path."""
    for route, methods in ROUTES.items():
        path = route.format(name=name, saga=name, id=ID, step="pay") if "{" in route else ""
        yield from (f"{method}/{path}" for method in methods if path and (method, route) != ("GET", "sagas/{name}"))


class Desk:
    """A service, and a role that is granted rights to it."""

    def __init__(self, **options: Any) -> None:
        self.stack = Stack(App(), "Test")
        given: Any = {"sagas": [Checkout, CreateZip], "dashboard": False, **options}
        self.service = SagaService(self.stack, "Shop", **given)
        anybody = cast("iam.IPrincipal", iam.AccountRootPrincipal())
        self.role = iam.Role(self.stack, "Clerk", assumed_by=anybody)

    def grant(self, right: str, *saga_classes: type[Any]) -> iam.Grant:
        return getattr(self.service, f"grant_{right}")(self.role, *saga_classes)

    @cached_property
    def granted(self) -> set[tuple[str, str]]:
        """(action, resource) pairs of the role, once all is granted."""
        resources = assertions.Template.from_stack(self.stack).to_json()["Resources"].values()
        role = self.stack.get_logical_id(self.role.node.default_child)  # type: ignore[arg-type]
        policies = [
            one["Properties"]
            for one in resources
            if one["Type"] == "AWS::IAM::Policy" and {"Ref": role} in one["Properties"]["Roles"]
        ]
        return {pair for policy in policies for pair in pairs(policy["PolicyDocument"])}

    @cached_property
    def patterns(self) -> set[str]:
        """What of the API the role may call: patterns of method and path."""
        arns = [resource for action, resource in self.granted if action == "execute-api:Invoke"]
        assert all(arn.startswith("arn:<AWS::Partition>:execute-api:<AWS::Region>:<AWS::AccountId>:<") for arn in arns)
        return {arn.split("/", 2)[2] for arn in arns}

    def may(self, call: str) -> bool:
        """Whether IAM lets the role make a call. Its ``*`` spans slashes, as that of ``fnmatch`` does."""
        return any(fnmatchcase(call, pattern) for pattern in self.patterns)


def test_each_call_of_the_api_belongs_to_exactly_one_right() -> None:
    patterns = {right: [one.format(name=OURS) for one in RIGHTS[right].of_type] for right in RIGHTS}
    for call in calls(OURS):
        assert len([right for right, own in patterns.items() if any(fnmatchcase(call, one) for one in own)]) == 1, call
    of_none = {f"{method}/{route}" for route, methods in ROUTES.items() if "{" not in route for method in methods}
    assert of_none == LISTS
    assert set(RIGHTS["read"].of_all) >= LISTS


@pytest.mark.parametrize("right", EVERY)
def test_a_right_of_one_type_holds_for_it_alone(right: str) -> None:
    desk = Desk()
    desk.grant(right, Checkout)
    expected = {call for call in calls(OURS) if _belongs(call, right)}
    assert expected
    assert {call for call in calls(OURS) if desk.may(call)} == expected
    assert not [call for call in calls(OTHER) if desk.may(call)]
    assert not [call for call in calls(f"{OURS}-2") if desk.may(call)]
    assert not [call for call in (*LISTS, BY_ID_ALONE) if desk.may(call)]


@pytest.mark.parametrize("right", EVERY)
def test_without_a_type_it_holds_for_all_and_is_still_no_other_right(right: str) -> None:
    desk = Desk()
    desk.grant(right)
    for name in (OURS, OTHER):
        assert {call for call in calls(name) if desk.may(call)} == {
            call for call in calls(name) if _belongs(call, right)
        }
    assert {call for call in LISTS if desk.may(call)} == (LISTS if right == "read" else set())
    assert desk.may(BY_ID_ALONE) == (right == "read")


def _belongs(call: str, right: str) -> bool:
    names = (OURS, OTHER)
    return any(fnmatchcase(call, one.format(name=name)) for name in names for one in RIGHTS[right].of_type)


def test_several_types_and_rights_add_up() -> None:
    desk = Desk(sagas=[Checkout, CreateZip, Payout])
    assert desk.grant("start", Checkout, CreateZip).success
    desk.grant("read", Checkout)
    assert desk.patterns == {
        "POST/sagas/checkout",
        "POST/sagas/create-zip",
        "GET/sagas/checkout/*",
        "GET/definitions/checkout",
    }


@pytest.mark.parametrize("right", ["start", "read", "cancel", "purge"])
def test_a_caller_may_do_nothing_but_call_the_api(right: str) -> None:
    desk = Desk()
    desk.grant(right)
    assert {action for action, _ in desk.granted} == {"execute-api:Invoke"}


def test_an_operator_of_many_queues_gets_a_pattern_for_each_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which fits no queue of another type, and not the command queue."""
    monkeypatch.setattr(grants, "_MOST_NAMED", 3)

    class CheckoutAgain(Payout, name="checkout-again"):
        """Its queues would fit the pattern of the saga that is called checkout."""

    desk = Desk(sagas=[Checkout, CreateZip, CheckoutAgain])
    desk.grant("operate")
    sent = [text for action, text in desk.granted if action == "sqs:SendMessage"]
    names = [name for text in sent for name in re.findall(r":([a-z_*-]+)-(?:\$\{Token\}|[0-9a-f]{6}-)", text)]
    assert sorted(names) == sorted(
        [
            *(f"checkout-{step.name}" for step in definition_of(Checkout).steps),
            "checkout-again-*",
            "create-zip-*",
        ]
    )


def test_an_operator_of_one_type_gets_its_dead_letters_and_its_queues() -> None:
    desk = Desk()
    desk.grant("operate", Checkout)
    letters = desk.stack.resolve(desk.service.dead_letter_queue(Checkout).queue_arn)["Fn::GetAtt"][0]
    found = desk.granted
    on_letters = {action for action, resource in found if resource == f"<{letters}.Arn>"}
    assert on_letters == {
        f"sqs:{name}"
        for name in (
            *("ReceiveMessage", "ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes"),
            *("StartMessageMoveTask", "ListMessageMoveTasks"),
        )
    }
    # By names that are derived, or by references: each tells saga and step.
    sent_to = {resource.lower() for action, resource in found if action == "sqs:SendMessage"}
    assert len(sent_to) == len(definition_of(Checkout).steps)
    for one in definition_of(Checkout).steps:
        assert [resource for resource in sent_to if "checkout" in resource and one.name in resource]
    templates = {resource for action, resource in found if action.startswith("cloudformation:")}
    assert templates == {"arn:<AWS::Partition>:cloudformation:<AWS::Region>:<AWS::AccountId>:stack/Test/*"}
    assert not [action for action, _ in found if action.startswith("lambda:")]


def test_an_operator_of_all_types_may_call_the_supervisor() -> None:
    desk = Desk()
    desk.grant("operate")
    supervisor = desk.stack.resolve(desk.service.supervisor.function_arn)["Fn::GetAtt"][0]
    invoked = {resource for action, resource in desk.granted if action == "lambda:InvokeFunction"}
    assert invoked == {f"<{supervisor}.Arn>", f"<{supervisor}.Arn>:live"}


def test_an_operator_may_read_encrypted_letters() -> None:
    desk = Desk()
    made = kms.Key(desk.stack, "Key")
    desk.service = SagaService(desk.stack, "Vault", sagas=[Payout], encryption_key=made, dashboard=False)
    desk.grant("operate", Payout)
    key = desk.stack.resolve(made.key_arn)["Fn::GetAtt"][0]
    uses = {action for action, resource in desk.granted if resource == f"<{key}.Arn>"}
    assert uses == {"kms:Decrypt", "kms:GenerateDataKey"}


def test_with_nested_stacks_an_operator_finds_the_parts_in_them() -> None:
    desk = Desk(nested_stacks=True)
    desk.grant("operate")
    templates = {resource for action, resource in desk.granted if action == "cloudformation:GetTemplate"}
    assert len(templates) == 3
    assert sum(one.endswith(":stack/Test/*") for one in templates) == 1


def test_below_a_mount_the_paths_are_those_there() -> None:
    stack = Stack(App(), "Test")
    api = apigateway.RestApi(stack, "Api")
    service = SagaService(
        stack, "Shop", sagas=[Checkout], mount=api.root.add_resource("shop").add_resource("v2"), dashboard=False
    )
    user = iam.User(stack, "Ann")
    service.grant_start(user, Checkout)
    (policy,) = (
        assertions.Template.from_stack(stack)
        .find_resources("AWS::IAM::Policy", {"Properties": {"Users": [stack.resolve({"Ref": _id(stack, user)})]}})
        .values()
    )
    ((_, arn),) = pairs(policy["Properties"]["PolicyDocument"])
    assert arn.endswith("/POST/shop/v2/sagas/checkout")
    assert "/<ApiDeploymentStageprod" in arn


def test_an_api_without_a_stage_of_its_own_means_any() -> None:
    stack = Stack(App(), "Test")
    api = apigateway.RestApi(stack, "Api", deploy=False)
    service = SagaService(stack, "Shop", sagas=[Checkout], mount=api.root, dashboard=False)
    policy = iam.ManagedPolicy(stack, "Starters")
    service.grant_start(policy, Checkout)
    document = stack.resolve(policy.document)
    ((_, arn),) = pairs(document)
    assert arn.endswith("/*/POST/sagas/checkout")


def _id(stack: Stack, user: iam.User) -> str:
    return stack.get_logical_id(user.node.default_child)  # type: ignore[arg-type]


def test_a_type_that_callers_may_not_cancel_has_no_cancel_to_grant() -> None:
    desk = Desk(sagas=[Checkout, Payout])
    with pytest.raises(DefinitionError, match="saga payout is declared with cancellable=False: there is no cancel"):
        desk.grant("cancel", Payout)
    desk.grant("cancel")


@pytest.mark.parametrize("right", EVERY)
def test_a_class_that_is_not_the_services_is_refused(right: str) -> None:
    with pytest.raises(DefinitionError, match="Payout is not among its sagas"):
        Desk().grant(right, Payout)


def test_behind_an_authorizer_of_ones_own_there_is_nothing_to_grant() -> None:
    stack = Stack(App(), "Test")
    pool = apigateway.CognitoUserPoolsAuthorizer(stack, "Pool", cognito_user_pools=[_pool(stack)])
    service = SagaService(stack, "Shop", sagas=[Checkout], authorizer=pool, dashboard=False)
    with pytest.raises(DefinitionError, match="permissions of IAM have no effect"):
        service.grant_read(iam.User(stack, "Ann"))


def _pool(stack: Stack) -> Any:
    from aws_cdk import aws_cognito as cognito

    return cognito.UserPool(stack, "Users")
