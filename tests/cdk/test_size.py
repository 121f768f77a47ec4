"""A service of many saga types: 60 of 8 steps each by ``make proof``, some of them in the gate."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
from aws_cdk import App, Stack, Validations
from aws_cdk import aws_iam as iam
from cdk_nag import AwsSolutionsChecks, ServerlessChecks

from sagas.cdk import SagaService
from sagas.cdk.access import grants
from sagas.cdk.access.grants import RIGHTS
from sagas.cdk.compute import permissions
from sagas.local.deploy.assembly import read_assembly
from tests.cdk.rendered import as_list, by_id, lint, statements
from tests.e2e.nested.many import SAGAS, STEPS

pytestmark = pytest.mark.slow

Template = dict[str, Any]
TYPES = 60 if os.environ.get("SAGAS_PROOF") == "full" else 4


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The assembly, looked through by cdk-nag."""
    directory = tmp_path_factory.mktemp("many")
    with pytest.MonkeyPatch.context() as patch:
        # So that fewer queues, too, are more than a role can name.
        patch.setattr(permissions, "_MOST_NAMED", min(150, TYPES * STEPS - 1))
        app = App(outdir=str(directory))
        Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
        patch.setattr(grants, "_ARNS", min(20, TYPES - 1))
        stack = Stack(app, "Many")
        service = SagaService(stack, "Sagas", sagas=SAGAS[:TYPES], nested_stacks=True)
        anyone = cast("iam.IPrincipal", iam.AccountRootPrincipal())
        everything, operator = (iam.Role(stack, id, assumed_by=anyone) for id in ("Everything", "Operator"))
        for right in RIGHTS:
            getattr(service, f"grant_{right}")(everything)
        service.grant_operate(operator)
        app.synth()
    return directory


def told(value: Any) -> Any:
    """A value of a template as IAM gets it, about: what only AWS knows is as long as it may be."""
    match value:
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(map(str, map(told, parts)))
        case {"Fn::Sub": [text, _]} | {"Fn::Sub": text}:
            return text.replace("${Token}", "0a1b2c-89abcdef").replace("${AWS::AccountId}", "123456789012")
        case {"Ref": str(name)} if name.startswith("AWS::"):
            return {"AWS::AccountId": "123456789012", "AWS::Region": "ap-southeast-1"}.get(name, "aws-cn")
        case {"Fn::GetAtt": [str(id), "Arn"]}:
            return f"arn:aws-cn:lambda:ap-southeast-1:123456789012:function:{id}"
        case {"Ref": _} | {"Fn::Select": _} | {"Fn::GetAtt": _}:
            return "x" * 15
        case dict():
            return {key: told(one) for key, one in cast("Template", value).items()}
        case list():
            return [told(one) for one in cast("list[Any]", value)]
        case _:
            return value


def test_what_each_role_may_fits_into_its_policies(many: Path) -> None:
    """10,240 characters of its own policies together, and ten others of 6,144 each."""
    for path in many.glob("*.template.json"):
        template = json.loads(path.read_text())
        own, others = Counter[str](), Counter[str]()
        for id, role in by_id(template, "AWS::IAM::Role").items():
            inside = [told(policy["PolicyDocument"]) for policy in role.get("Policies", ())]
            own[id] += sum(len(json.dumps(policy, separators=(",", ":"))) for policy in inside)
        for one in template["Resources"].values():
            if one["Type"] in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
                size = len(json.dumps(told(one["Properties"]["PolicyDocument"]), separators=(",", ":")))
                managed = one["Type"] == "AWS::IAM::ManagedPolicy"
                assert size <= (6_144 if managed else 10_240)
                for role in one["Properties"]["Roles"]:
                    own[role["Ref"]] += 0 if managed else size
                    others[role["Ref"]] += managed
        assert max(own.values()) <= 10_240
        assert max(others.values(), default=0) <= 10


def test_an_operator_is_named_no_queue_one_by_one(many: Path) -> None:
    resources: Template = json.loads((many / "Many.template.json").read_text())["Resources"]
    # The CDK moves statements to further policies where one has no room for all.
    own = [one for name, one in resources.items() if name.startswith("Operator") and "Policy" in one["Type"]]
    statements = [one for policy in own for one in policy["Properties"]["PolicyDocument"]["Statement"]]
    sent = [one["Resource"] for one in statements if one["Action"] == "sqs:SendMessage"]
    arns = [arn for named in sent for arn in as_list(named)]
    assert len(arns) == TYPES
    assert all("-*-" in json.dumps(arn) for arn in arns)


def test_variables_of_functions_have_room(many: Path) -> None:
    for path in many.glob("*.template.json"):
        resources: Template = json.loads(path.read_text())["Resources"]
        for one in (one for one in resources.values() if one["Type"] == "AWS::Lambda::Function"):
            variables: Template = one["Properties"].get("Environment", {}).get("Variables", {})
            assert sum(len(name) + len(str(told(value))) for name, value in variables.items()) < 4_096


def test_every_template_keeps_to_the_limits(many: Path) -> None:
    paths = list(many.glob("*.template.json"))
    assert len(paths) == 1 + TYPES
    for path in paths:
        template = json.loads(path.read_text())
        assert path.stat().st_size < 1_000_000
        for section, most in (("Resources", 500), ("Outputs", 200), ("Parameters", 200)):
            assert len(template.get(section, {})) < most
        for name, one in template["Resources"].items():
            if one["Type"] == "AWS::IAM::ManagedPolicy" and not name.startswith(("Everything", "Operator")):
                raise AssertionError("one policy a role has room for all")


def test_every_step_has_a_queue(many: Path) -> None:
    (stack,) = read_assembly(many, "123456789012", "eu-central-1")
    marks = [one.get("Metadata", {}).get("sagas", {}) for one in stack.template["Resources"].values()]
    assert len([mark for mark in marks if mark.get("part") == "queue"]) == TYPES * STEPS


def test_api_and_supervisor_send_to_the_queues_of_this_service_only(many: Path) -> None:
    template = json.loads((many / "Many.template.json").read_text())
    by_role: dict[str, list[Template]] = {}
    for role, statement in statements(template):
        by_role.setdefault(role, []).append(statement)
    for role in (name for name in by_role if name.startswith("Sagas")):
        sending = [one for one in by_role[role] if "sqs:SendMessage" in str(one["Action"])]
        to_steps = [one for one in sending if "BulkQueue" not in json.dumps(one["Resource"])]
        assert [one["Effect"] for one in to_steps] == ["Deny", "Allow"]
        for one in to_steps:
            # The token, which no other service has, follows the pattern.
            assert "AWS::StackId" in json.dumps(one["Resource"])
        assert "*-dead-letters-" in json.dumps(to_steps[0]["Resource"])


def test_the_local_stack_takes_it_for_one(many: Path) -> None:
    (stack,) = read_assembly(many, "000000000000", "us-east-1")
    kinds = [resource["Type"] for resource in stack.template["Resources"].values()]
    assert kinds.count("AWS::SQS::Queue") == TYPES * (STEPS + 1) + 2
    assert kinds.count("AWS::Lambda::Alias") == TYPES * STEPS + 3


def test_cfn_lint_finds_nothing(many: Path) -> None:
    # One saga's template is as the other's.
    nested = sorted(many.glob("*nested.template.json"))
    assert lint(many / "Many.template.json", nested[0]) == []
