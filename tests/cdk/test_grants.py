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
from sagas.authoring.definition.definition import definition_of
from sagas.cdk import SagaService
from sagas.cdk.access.api import ROUTES
from sagas.cdk.access.grants import RIGHTS
from sagas.errors import DefinitionError
from tests.cdk.rendered import pairs, rights, statements, template_of
from tests.cdk.saga_classes import CheckoutAgain, OldDead, Payout, Stranger, Trip

Template = dict[str, Any]
Grant = Callable[..., object]

ID = "019aa59c-fb80-7c1e-9b52-4f6d0a3e8b17"
OURS, OTHER = "checkout", "create-zip"
LISTS = {"GET/sagas", "GET/attention", "GET/types", "GET/stats", "GET/breakers", "GET/overview", "GET/openapi.json"}
BY_ID_ALONE = f"GET/sagas/{ID}"
"""Whose saga that is, IAM does not see."""
EVERY = ("start", "read", "signal", "cancel", "operate", "purge")


def calls(name: str) -> Iterator[str]:
    """Every call of the API that is about one saga type, as IAM writes it: method and path."""
    for route, methods in ROUTES.items():
        path = route.format(type=name, id=ID, step="pay") if "{" in route else ""
        yield from (f"{method}/{path}" for method in methods if path and (method, route) != ("GET", "sagas/{type}"))


class Desk:
    """A service of three types, and the roles that are granted rights to it."""

    def __init__(self, stack: Stack | None = None, **options: Any) -> None:
        self.stack = stack or Stack(App(), "Test")
        given: Any = {"sagas": [Checkout, CreateZip, Payout], **options}
        self.service = SagaService(self.stack, "Shop", **given)

    def clerk(self, id: str = "Clerk") -> Clerk:
        """A role without rights."""
        anybody = cast("iam.IPrincipal", iam.AccountRootPrincipal())
        return Clerk(self, iam.Role(self.stack, id, assumed_by=anybody))

    @cached_property
    def template(self) -> Template:
        """The template, once all is granted."""
        return template_of(self.stack)

    def id_of(self, arn: str) -> str:
        """The logical id of the resource of an ARN."""
        return self.stack.resolve(arn)["Fn::GetAtt"][0]


class Clerk:
    """A role at a desk."""

    def __init__(self, desk: Desk, role: iam.Role) -> None:
        self.desk = desk
        self.role = role

    def grant(self, right: str, *saga_classes: type[Any]) -> iam.Grant:
        return getattr(self.desk.service, f"grant_{right}")(self.role, *saga_classes)

    @cached_property
    def granted(self) -> set[tuple[str, str]]:
        """(action, resource) pairs of the role, once all is granted."""
        role = self.desk.stack.get_logical_id(self.role.node.default_child)  # type: ignore[arg-type]
        return rights(self.desk.template).get(role, set())

    @cached_property
    def patterns(self) -> set[str]:
        """What of the API the role may call: patterns of method and path."""
        arns = [resource for action, resource in self.granted if action == "execute-api:Invoke"]
        assert all(arn.startswith("arn:<AWS::Partition>:execute-api:<AWS::Region>:<AWS::AccountId>:<") for arn in arns)
        return {arn.split("/", 2)[2] for arn in arns}

    def may(self, call: str) -> bool:
        """Whether IAM lets the role make a call. Its ``*`` spans slashes, as that of ``fnmatch`` does."""
        return any(fnmatchcase(call, pattern) for pattern in self.patterns)


class Clerks:
    """A desk with a clerk for each right of one type, and of all types."""

    def __init__(self) -> None:
        self.desk = Desk()
        self.of_one, self.of_all = ({right: self.desk.clerk(right + of) for right in EVERY} for of in ("One", "All"))
        for right in EVERY:
            self.of_one[right].grant(right, Checkout)
            self.of_all[right].grant(right)
        self.of_several = self.desk.clerk("Several")
        assert self.of_several.grant("start", Checkout, CreateZip).success
        self.of_several.grant("read", Checkout)


@pytest.fixture(scope="module")
def clerks() -> Clerks:
    return Clerks()


def test_each_call_of_the_api_belongs_to_exactly_one_right() -> None:
    patterns = {right: [one.format(type=OURS) for one in RIGHTS[right].of_type] for right in RIGHTS}
    for call in calls(OURS):
        assert len([right for right, own in patterns.items() if any(fnmatchcase(call, one) for one in own)]) == 1, call
    of_none = {f"{method}/{route}" for route, methods in ROUTES.items() if "{" not in route for method in methods}
    assert of_none == LISTS
    assert set(RIGHTS["read"].of_all) >= LISTS


@pytest.mark.parametrize("right", EVERY)
def test_a_right_of_one_type_holds_for_it_alone(right: str, clerks: Clerks) -> None:
    clerk = clerks.of_one[right]
    expected = {call for call in calls(OURS) if _belongs(call, right)}
    assert expected
    assert {call for call in calls(OURS) if clerk.may(call)} == expected
    assert not [call for call in calls(OTHER) if clerk.may(call)]
    assert not [call for call in calls(f"{OURS}-2") if clerk.may(call)]
    assert not [call for call in (*LISTS, BY_ID_ALONE) if clerk.may(call)]


@pytest.mark.parametrize("right", EVERY)
def test_without_a_type_it_holds_for_all_and_is_still_no_other_right(right: str, clerks: Clerks) -> None:
    clerk = clerks.of_all[right]
    for name in (OURS, OTHER):
        assert {call for call in calls(name) if clerk.may(call)} == {
            call for call in calls(name) if _belongs(call, right)
        }
    assert {call for call in LISTS if clerk.may(call)} == (LISTS if right == "read" else set())
    assert clerk.may(BY_ID_ALONE) == (right == "read")


def _belongs(call: str, right: str) -> bool:
    names = (OURS, OTHER)
    return any(fnmatchcase(call, one.format(type=name)) for name in names for one in RIGHTS[right].of_type)


def test_several_types_and_rights_add_up(clerks: Clerks) -> None:
    assert clerks.of_several.patterns == {
        "POST/sagas/checkout",
        "POST/sagas/create-zip",
        "GET/sagas/checkout/*",
        "GET/types/checkout",
        "GET/types/checkout/in-flight",
    }


@pytest.mark.parametrize("right", ["start", "read", "cancel", "purge"])
def test_a_caller_may_do_nothing_but_call_the_api(right: str, clerks: Clerks) -> None:
    assert {action for action, _ in clerks.of_all[right].granted} == {"execute-api:Invoke"}


def test_an_operator_gets_a_pattern_for_each_type() -> None:
    """Which fits no queue of another type, and not the command queue."""
    clerk = Desk(sagas=[Checkout, CreateZip, CheckoutAgain]).clerk()
    clerk.grant("operate")
    sent = [text for action, text in clerk.granted if action == "sqs:SendMessage"]
    names = [name for text in sent for name in re.findall(r":([a-z_*-]+)-(?:\$\{Token\}|[0-9a-f]{6}-)", text)]
    assert sorted(names) == sorted(
        [
            *(f"checkout-{step.name}" for step in definition_of(Checkout).steps),
            "checkout-again-*",
            "create-zip-*",
        ]
    )


def test_an_operator_of_all_types_gets_all_dead_letters_by_one_pattern(clerks: Clerks) -> None:
    received = {text for action, text in clerks.of_all["operate"].granted if action == "sqs:ReceiveMessage"}
    assert [re.findall(r":([a-z*-]+)-[0-9a-f]{6}-", text) for text in received] == [["*-dead-letters"]]


def test_a_step_whose_queue_is_named_like_dead_letters_is_not_received_from() -> None:
    """The queue of step ``letters`` of a type ``old-dead`` would match the pattern for all dead letters."""
    desk = Desk(sagas=[OldDead, Payout])
    clerk = desk.clerk()
    clerk.grant("operate")
    received = {text for action, text in clerk.granted if action == "sqs:ReceiveMessage"}
    ids = {desk.id_of(desk.service.dead_letter_queue(one).queue_arn) for one in (OldDead, Payout)}
    assert received == {f"<{id}.Arn>" for id in ids}


def test_an_operator_of_one_type_gets_its_dead_letters_and_its_queues(clerks: Clerks) -> None:
    letters = clerks.desk.id_of(clerks.desk.service.dead_letter_queue(Checkout).queue_arn)
    found = clerks.of_one["operate"].granted
    on_letters = {action for action, resource in found if resource == f"<{letters}.Arn>"}
    assert on_letters == {
        f"sqs:{name}"
        for name in (
            *("ReceiveMessage", "ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes"),
            *("StartMessageMoveTask", "ListMessageMoveTasks"),
        )
    }
    (sent_to,) = [resource for action, resource in found if action == "sqs:SendMessage"]
    assert ":checkout-*-" in sent_to
    templates = {resource for action, resource in found if action.startswith("cloudformation:")}
    assert templates == {"arn:<AWS::Partition>:cloudformation:<AWS::Region>:<AWS::AccountId>:stack/Test/*"}
    assert not [action for action, _ in found if action.startswith("lambda:")]


def test_an_operator_of_all_types_may_call_the_supervisor(clerks: Clerks) -> None:
    supervisor = clerks.desk.id_of(clerks.desk.service.supervisor.function_arn)
    granted = clerks.of_all["operate"].granted
    invoked = {resource for action, resource in granted if action == "lambda:InvokeFunction"}
    assert invoked == {f"<{supervisor}.Arn>", f"<{supervisor}.Arn>:live"}


def test_an_operator_may_read_encrypted_letters() -> None:
    stack = Stack(App(), "Test")
    made = kms.Key(stack, "Key")
    desk = Desk(stack, sagas=[Payout], encryption_key=made)
    clerk = desk.clerk()
    clerk.grant("operate", Payout)
    uses = {action for action, resource in clerk.granted if resource == f"<{desk.id_of(made.key_arn)}.Arn>"}
    assert uses == {"kms:Decrypt", "kms:GenerateDataKey"}
    via = [
        service
        for _, statement in statements(desk.template)
        if statement["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]
        for service in statement["Condition"]["StringLike"]["kms:ViaService"]
    ]
    assert via == [{"Fn::Join": ["", ["sqs.", {"Ref": "AWS::Region"}, ".amazonaws.*"]]}]


def test_with_nested_stacks_an_operator_finds_the_parts_in_them() -> None:
    clerk = Desk(sagas=[Payout, Trip], nested_stacks=True).clerk()
    clerk.grant("operate")
    templates = {resource for action, resource in clerk.granted if action == "cloudformation:GetTemplate"}
    assert {one.partition(":stack/")[2] for one in templates} == {"Test/*", "Test-Shop*/*"}


def test_below_a_mount_the_paths_are_those_there() -> None:
    stack = Stack(App(), "Test")
    api = apigateway.RestApi(stack, "Api")
    service = SagaService(stack, "Shop", sagas=[Payout], mount=api.root.add_resource("shop").add_resource("v2"))
    user = iam.User(stack, "Ann")
    service.grant_start(user, Payout)
    (policy,) = (
        assertions.Template.from_stack(stack)
        .find_resources("AWS::IAM::Policy", {"Properties": {"Users": [stack.resolve({"Ref": _id(stack, user)})]}})
        .values()
    )
    ((_, arn),) = pairs(policy["Properties"]["PolicyDocument"]["Statement"])
    assert arn.endswith("/POST/shop/v2/sagas/payout")
    assert "/prod/POST/" in arn


def test_an_api_without_a_stage_of_its_own_means_any() -> None:
    stack = Stack(App(), "Test")
    api = apigateway.RestApi(stack, "Api", deploy=False)
    service = SagaService(stack, "Shop", sagas=[Payout], mount=api.root)
    policy = iam.ManagedPolicy(stack, "Starters")
    service.grant_start(policy, Payout)
    document = stack.resolve(policy.document)
    ((_, arn),) = pairs(document["Statement"])
    assert arn.endswith("/*/POST/sagas/payout")


def _id(stack: Stack, user: iam.User) -> str:
    return stack.get_logical_id(user.node.default_child)  # type: ignore[arg-type]


def test_a_type_that_callers_may_not_cancel_has_no_cancel_to_grant(clerks: Clerks) -> None:
    """For all types together there is."""
    with pytest.raises(DefinitionError, match="saga payout is declared with cancellable=False, so"):
        clerks.of_several.grant("cancel", Payout)
    assert clerks.of_all["cancel"].may(f"DELETE/sagas/{OURS}/{ID}")


@pytest.mark.parametrize("right", EVERY)
def test_a_class_that_is_not_the_services_is_refused(right: str, clerks: Clerks) -> None:
    with pytest.raises(DefinitionError, match="Stranger is not among its sagas"):
        clerks.of_several.grant(right, Stranger)


def test_behind_an_authorizer_of_ones_own_there_is_nothing_to_grant() -> None:
    stack = Stack(App(), "Test")
    pool = apigateway.CognitoUserPoolsAuthorizer(stack, "Pool", cognito_user_pools=[_pool(stack)])
    service = SagaService(stack, "Shop", sagas=[Payout], authorizer=pool)
    with pytest.raises(DefinitionError, match="so IAM permissions have no effect"):
        service.grant_read(iam.User(stack, "Ann"))


def _pool(stack: Stack) -> Any:
    from aws_cdk import aws_cognito as cognito

    return cognito.UserPool(stack, "Users")
