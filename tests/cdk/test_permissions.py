"""Least privilege: a walk over every permission of the template."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.cdk.conftest import shared
from tests.cdk.rendered import as_list, by_id, rights, shown, statements
from tests.cdk.resolved import Deployed

Template = dict[str, Any]
Find = Callable[[str], list[Template]]

XRAY = {"xray:PutTraceSegments", "xray:PutTelemetryRecords"}
"""The actions for which AWS has no narrower resource."""


@pytest.fixture(scope="session")
def permissions(template: Template) -> dict[str, set[tuple[str, str]]]:
    """(action, resource) pairs by the role that has them."""
    return rights(template)


Permissions = dict[str, set[tuple[str, str]]]


def role_of(template: Template, part: str, saga: str = "", step: str = "", name: str = "") -> str:
    """The logical id of the role of a function."""
    wanted = {"part": part, **({"saga": saga, "step": step} if saga else {}), **({"name": name} if name else {})}
    resources: dict[str, Template] = template["Resources"]
    (found,) = (one["Properties"] for one in resources.values() if one.get("Metadata", {}).get("sagas") == wanted)
    if "FunctionName" in found:  # an alias
        found = resources[found["FunctionName"]["Ref"]]["Properties"]
    return found["Role"]["Fn::GetAtt"][0]


def test_no_wildcard_action(permissions: Permissions) -> None:
    assert not [action for granted in permissions.values() for action, _ in granted if "*" in action]


def test_no_wildcard_resource_but_objects_under_a_prefix(permissions: Permissions) -> None:
    for granted in permissions.values():
        for action, resource in granted:
            if action in XRAY:
                continue
            bucket, _, path = resource.partition("/")
            assert "*" not in bucket
            assert "*" not in path or (action.startswith("s3:") and path.endswith("/*") and path.count("*") == 1)


def test_no_managed_policies(of_type: Find) -> None:
    for role in of_type("AWS::IAM::Role"):
        principals = [statement["Principal"]["Service"] for statement in role["AssumeRolePolicyDocument"]["Statement"]]
        if principals != ["apigateway.amazonaws.com"]:
            assert principals == ["lambda.amazonaws.com"]
            assert "ManagedPolicyArns" not in role


def test_only_the_supervisor_scans(template: Template, permissions: Permissions) -> None:
    """It looks through the audit table for starts that died, and for nothing else."""
    scanning = [(role, one) for role, granted in permissions.items() for did, one in granted if did == "dynamodb:Scan"]
    [(role, resource)] = scanning
    assert (role, "TablesAudit" in resource) == (role_of(template, "supervisor"), True)


def test_what_the_library_allows_is_in_the_role_and_what_the_app_grants_next_to_it(template: Template) -> None:
    """A service of few steps has no resource for policies but those that its app makes."""
    roles = by_id(template, "AWS::IAM::Role")
    assert all(len(role["Policies"]) == 1 for role in roles.values())
    granted = {name["Ref"] for policy in by_id(template, "AWS::IAM::Policy").values() for name in policy["Roles"]}
    of_steps = {
        role for role in roles if role.startswith(("Sagascreatezip", "Sagascheckout", "Sagasbasket", "Sagasparcel"))
    }
    assert granted < of_steps | {role for role in roles if role.startswith("Sagasapproval")}


@pytest.mark.parametrize("name", ["plain", "everything", "network_and_key"])
def test_the_policies_of_a_role_have_room_in_it(name: str) -> None:
    """They have 10,240 characters together. The CDK splits off only what is next to the role."""
    sizes = Counter[str]()
    for role, statement in statements(shared(name)):
        sizes[role] += len(json.dumps(Deployed(shared(name)).value(statement), separators=(",", ":")))
    assert max(sizes.values()) < 8_000


def test_only_api_supervisor_and_bulk_delete_items(template: Template, permissions: Permissions) -> None:
    """They purge; a function of a step neither deletes nor replaces what any wrote."""
    deleting = [action for granted in permissions.values() for action, _ in granted]
    assert "dynamodb:DeleteTable" not in deleting
    rights = {
        "dynamodb:DeleteItem": "TablesSagas",
        "dynamodb:BatchWriteItem": "TablesAudit",
        "dynamodb:UpdateItem": "TablesAudit",
    }
    for action, table in rights.items():
        found = [(role, one) for role, granted in permissions.items() for did, one in granted if did == action]
        owners = {role for role, resource in found if table in resource}
        assert {role_of(template, "supervisor"), role_of(template, "work_function", name="bulk")} < owners
        assert len(owners) == 3
        if action != "dynamodb:UpdateItem":
            assert {role for role, _ in found} == owners
            others = {(role, name(one)) for role, one in found if table not in one and "TablesJoins" not in one}
            of_the_search = {(role_of(template, "supervisor"), "TablesAudit")}
            assert others == (of_the_search if action == "dynamodb:DeleteItem" else set())


def test_a_step_has_what_it_needs_and_no_more(template: Template, permissions: Permissions) -> None:
    granted = permissions[role_of(template, "function", "checkout", "capture")]
    dynamodb = {
        (action.removeprefix("dynamodb:"), name(resource)) for action, resource in granted if "dynamodb" in action
    }
    assert dynamodb == {
        *(
            (action, "TablesSagas")
            for action in ("GetItem", "BatchGetItem", "PutItem", "UpdateItem", "ConditionCheckItem")
        ),
        *((action, "TablesAudit") for action in ("GetItem", "BatchGetItem", "PutItem", "Query")),
        *((action, "Ledger") for action in ("GetItem", "PutItem")),
    }
    assert {action for action, resource in granted if "/payloads/*" in resource} == {"s3:GetObject", "s3:PutObject"}
    sent_to = {resource for action, resource in granted if action == "sqs:SendMessage"}
    assert len(sent_to) == 3
    assert not [resource for resource in sent_to if "DeadLetters" in resource or "dead-letters" in resource]
    assert all(":checkout-" in resource for resource in sent_to)
    received_from = {resource for action, resource in granted if action == "sqs:ReceiveMessage"}
    assert len(received_from) == 1
    assert "capture" in received_from.pop()


def name(resource: str) -> str:
    """Which table an ARN is of."""
    return next(known for known in ("TablesSagas", "TablesAudit", "Ledger", "Stock", "Shipments") if known in resource)


def test_only_api_supervisor_and_bulk_read_indexes(template: Template, permissions: Permissions) -> None:
    readers = {
        role
        for role, granted in permissions.items()
        if any("/index/" in resource for action, resource in granted if action == "dynamodb:Query")
    }
    assert {role_of(template, "supervisor"), role_of(template, "work_function", name="bulk")} < readers
    assert len(readers) == 3


def test_supervisor_and_bulk_alone_send_work(template: Template, permissions: Permissions) -> None:
    supervisor, bulk = role_of(template, "supervisor"), role_of(template, "work_function", name="bulk")
    for role, granted in permissions.items():
        actions = {action for action, resource in granted if "BulkQueue" in resource and action.startswith("sqs:")}
        assert ("sqs:SendMessage" in actions) is (role in (supervisor, bulk))
        assert ("sqs:ReceiveMessage" in actions) is (role == bulk)


def test_the_sweep_is_limited_to_the_prefix(template: Template) -> None:
    role = role_of(template, "supervisor")
    own = [statement for of, statement in statements(template) if of == role]
    purging, listing = (one for one in own if "s3:ListBucket" in as_list(one["Action"]))
    assert purging["Condition"] == {"StringLike": {"s3:prefix": "payloads/*"}}
    assert listing["Condition"] == {"StringLike": {"s3:prefix": ["create-zip/", "create-zip/*"]}}
    purged, swept = (one for one in own if "s3:DeleteObject" in as_list(one["Action"]))
    assert shown(purged["Resource"]).endswith(".Arn>/payloads/*")
    assert shown(swept["Resource"]).endswith(".Arn>/create-zip/*")


def test_the_checkout_cannot_reach_the_archives(template: Template, permissions: Permissions) -> None:
    for step in ("reserve", "capture", "ship"):
        granted = permissions[role_of(template, "function", "checkout", step)]
        assert "Zips" not in json.dumps([resource for _, resource in granted])
