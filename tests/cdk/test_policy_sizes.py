"""Policies of callers and operators fit their holders, or the synthesis names those that are too long."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from sagas.cdk import SagaService
from sagas.cdk.access.grants import RIGHTS, Access
from sagas.cdk.access.sizes import GROUP, MANAGED, ROLE, USER, Fitting, Held
from sagas.cdk.data.queues import SagaQueues
from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.layout.nested_stacks import layouts_of
from sagas.cdk.options.service_options import service_options
from tests.cdk.rendered import by_id, template_of
from tests.cdk.resolved import Deployed
from tests.cdk.saga_classes import Trip, saga_of

Template = dict[str, Any]
COUNTS = (1, 12, pytest.param(60, marks=pytest.mark.slow))  # those of 12 fail first
LARGEST: dict[int, dict[str, int]] = {
    1: {"read": 854, "start": 189, "cancel": 187, "operate": 1_726, "signal": 195, "purge": 191, "all": 3_142},
    12: {"read": 854, "start": 1_162, "cancel": 187, "operate": 2_481, "signal": 195, "purge": 191, "all": 4_870},
    60: {"read": 854, "start": 5_562, "cancel": 187, "operate": 6_155, "signal": 195, "purge": 191, "all": 12_944},
}
"""The characters of the largest policy of each right for all types, and of all rights together, by the number of
types."""
HOLDERS: dict[str, Held] = {"User": USER, "Group": GROUP, "ManagedPolicy": MANAGED}
"""Holders whose policies the CDK does not split."""
DOCUMENTS = {"User": "AWS::IAM::Policy", "Group": "AWS::IAM::Policy", "ManagedPolicy": "AWS::IAM::ManagedPolicy"}
"""The resources with their policies."""
IMPORTED: list[tuple[Callable[[Stack], Any], Held]] = [
    (lambda stack: iam.User.from_user_name(stack, "Known", "ann"), USER),
    (lambda stack: iam.Group.from_group_arn(stack, "Known", "arn:aws:iam::123456789012:group/all"), GROUP),
    (lambda stack: iam.Role.from_role_arn(stack, "Known", "arn:aws:iam::123456789012:role/all"), ROLE),
]
_MOST_MANAGED = 10
"""IAM's default quota of managed policies of a role."""


class Office(Construct):
    """What grants rights in a service of this many types of three steps, without the functions of the steps."""

    def __init__(self, types: int) -> None:
        self.app = App()
        self.stack = Stack(self.app, "Test")
        super().__init__(self.stack, "Shop")
        sagas = [saga_of(number, 3) for number in range(types)]
        catalogue = Catalogue("Shop", service_options("Shop", {"sagas": sagas, "nested_stacks": False}))
        queues = {layout.saga.name: SagaQueues(self, layout, None) for layout in layouts_of(self, catalogue, (0, 0))}
        api = apigateway.RestApi(self, "Api", deploy_options=apigateway.StageOptions(stage_name="v1"))
        api.root.add_method("GET")
        code, runtime = lambda_.Code.from_inline("def handler(*_): ..."), lambda_.Runtime.PYTHON_3_13
        supervisor = lambda_.Function(self, "Supervisor", code=code, handler="index.handler", runtime=runtime)
        self.fitting = Fitting(self, api.rest_api_id)
        self.access = Access(
            self,
            catalogue=catalogue,
            queues=queues,
            api=api,
            supervisor=supervisor,
            let_send=lambda _: None,
            fitting=self.fitting,
        )

    def hold(self, kind: str, right: str = "all", id: str = "Held") -> Construct:
        """Create a holder with a right, or all."""
        made: Any
        if kind == "Role":
            made = iam.Role(self.stack, id, assumed_by=cast("iam.IPrincipal", iam.AccountRootPrincipal()))
        else:
            made = getattr(iam, kind)(self.stack, id)
        for one in RIGHTS if right == "all" else (right,):
            if one in ("start", "cancel", "operate"):
                getattr(self.access, one)(made, ())
            else:
                self.access.grant(one, made, ())
        return made


def deployed(template: Template, kind: str) -> list[int]:
    """The sizes of the policies of a template, as IAM counts them."""
    values = Deployed(template)
    documents = [values.value(one["PolicyDocument"]) for one in by_id(template, kind).values()]
    return [len(json.dumps(document, separators=(",", ":"))) for document in documents]


@pytest.mark.parametrize("types", COUNTS)
def test_a_right_needs_no_more_than_this(types: int) -> None:
    office = Office(types)
    for right, most in LARGEST[types].items():
        for kind, held in HOLDERS.items():
            assert office.fitting.sizes(office.hold(kind, right, f"{kind}-{right}")) == {held: most}


@pytest.mark.parametrize("kind", HOLDERS)
@pytest.mark.parametrize("types", COUNTS)
def test_it_fits_its_holder_or_the_synthesis_says_so(types: int, kind: str) -> None:
    for right in ("start", "operate", "all"):
        office, size, most = Office(types), LARGEST[types][right], HOLDERS[kind].most
        office.hold(kind, right)
        if size > most:
            message = f"Test/Held: {HOLDERS[kind].what} would have {size:,} characters, and IAM allows {most:,}; "
            with pytest.raises(RuntimeError, match=message + "grant to .*a role"):
                template_of(office.stack)
        else:
            (found,) = deployed(template_of(office.stack), DOCUMENTS[kind])
            # The estimate has the longest names of regions and partitions.
            assert 0.8 * size < found <= size


@pytest.mark.parametrize("types", COUNTS)
def test_a_role_has_room_for_all_rights_since_the_cdk_splits_its_policies(types: int) -> None:
    office = Office(types)
    office.hold("Role")
    template = template_of(office.stack)
    inline, managed = (deployed(template, f"AWS::IAM::{kind}") for kind in ("Policy", "ManagedPolicy"))
    assert sum(inline) <= ROLE.most
    assert all(size <= MANAGED.most for size in managed)
    assert len(managed) <= _MOST_MANAGED


def test_what_the_app_adds_counts_whenever_it_is_added() -> None:
    office = Office(1)
    user = cast("iam.User", office.hold("User", "operate"))
    assert not office.node.validate()
    user.add_to_policy(iam.PolicyStatement(actions=["s3:GetObject"], resources=[f"arn:aws:s3:::{'x' * 400}/*"]))
    (fault,) = office.node.validate()
    assert "Test/Held: the inline policies of this user would have 2," in fault


@pytest.mark.slow  # test_it_fits_its_holder_or_the_synthesis_says_so fails first
@pytest.mark.parametrize(("imported", "held"), IMPORTED)
def test_imported_holders_have_the_same_limits(imported: Callable[[Stack], Any], held: Held) -> None:
    """The CDK does not split the policies of an imported role."""
    office = Office(60)
    known = imported(office.stack)
    office.access.start(known, ())
    office.access.operate(known, ())
    (fault,) = office.node.validate()
    assert f"Test/Known: {held.what} would have 11," in fault


def test_a_grantee_in_another_stack_is_estimated_alike() -> None:
    """There, references are imports."""
    office = Office(12)
    user = iam.User(Stack(office.app, "Other"), "Held")
    office.access.operate(user, ())
    assert office.fitting.sizes(user) == {USER: LARGEST[12]["operate"]}


def test_a_policy_that_the_app_attaches_has_the_limit_of_its_holder() -> None:
    office = Office(12)
    group = iam.Group(office.stack, "Group")
    policy = iam.Policy(office.stack, "Attached", groups=[group])
    office.access.operate(policy, ())
    assert office.fitting.sizes(policy) == {GROUP: LARGEST[12]["operate"]}


def test_what_the_app_grants_a_step_must_fit_next_to_what_is_in_its_role() -> None:
    """The CDK splits the policy next to a role only from 10,000 characters on, and counts none of those within."""
    stack = Stack(App(), "Test")
    service = SagaService(stack, "Shop", sagas=[Trip])
    assert not service.node.validate()
    for number in range(34):
        statement = iam.PolicyStatement(actions=["s3:GetObject"], resources=[f"arn:aws:s3:::{number}-{'x' * 190}/*"])
        service.function(Trip.book).add_to_role_policy(statement)
    (fault,) = service.node.validate()
    assert "Test/Shop/trip/book/Role: the inline policies of this role would have 1" in fault
    assert "put your own statements into a managed policy" in fault
