"""Least privilege: a walk over every permission of the template."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

Template = dict[str, Any]
Find = Callable[[str], list[Template]]

XRAY = {"xray:PutTraceSegments", "xray:PutTelemetryRecords"}
"""The actions for which AWS has no narrower resource."""


def as_list(value: Any) -> list[Any]:
    """IAM writes a list of one as the one."""
    return value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType] - JSON


def shown(resource: Any) -> str:
    """A resource as text: ``<LogicalId.Arn>/path``."""
    match resource:
        case {"Fn::Join": [_, parts]}:
            return "".join(shown(part) for part in parts)
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Ref": name}:
            return f"<{name}>"
        case _:
            return str(resource)


@pytest.fixture(scope="session")
def permissions(of_type: Find) -> dict[str, set[tuple[str, str]]]:
    """(action, resource) pairs by the role that has them."""
    granted: dict[str, set[tuple[str, str]]] = {}
    for policy in of_type("AWS::IAM::Policy"):
        for role in policy["Roles"]:
            granted.setdefault(role["Ref"], set()).update(pairs(policy["PolicyDocument"]))
    return granted


def pairs(document: Template) -> Iterator[tuple[str, str]]:
    """The permissions of a policy document."""
    for statement in document["Statement"]:
        assert statement["Effect"] == "Allow"
        assert "NotAction" not in statement
        assert "NotResource" not in statement
        for action in as_list(statement["Action"]):
            for resource in as_list(statement["Resource"]):
                yield action, shown(resource)


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


def test_no_inline_or_managed_policies(of_type: Find) -> None:
    for role in of_type("AWS::IAM::Role"):
        assert "Policies" not in role
        principals = [statement["Principal"]["Service"] for statement in role["AssumeRolePolicyDocument"]["Statement"]]
        if principals != ["apigateway.amazonaws.com"]:
            assert principals == ["lambda.amazonaws.com"]
            assert "ManagedPolicyArns" not in role


def test_only_the_supervisor_scans(template: Template, permissions: Permissions) -> None:
    """It looks through the audit table for starts that died, and for nothing else."""
    scanning = [(role, one) for role, granted in permissions.items() for did, one in granted if did == "dynamodb:Scan"]
    [(role, resource)] = scanning
    assert (role, "TablesAudit" in resource) == (role_of(template, "supervisor"), True)


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


def test_the_sweep_is_limited_to_the_prefix(template: Template, of_type: Find) -> None:
    role = role_of(template, "supervisor")
    statements = [
        statement
        for policy in of_type("AWS::IAM::Policy")
        if policy["Roles"] == [{"Ref": role}]
        for statement in policy["PolicyDocument"]["Statement"]
    ]
    purging, listing = (one for one in statements if "s3:ListBucket" in as_list(one["Action"]))
    assert purging["Condition"] == {"StringLike": {"s3:prefix": "payloads/*"}}
    assert listing["Condition"] == {"StringLike": {"s3:prefix": ["create-zip/", "create-zip/*"]}}
    purged, swept = (one for one in statements if "s3:DeleteObject" in as_list(one["Action"]))
    assert shown(purged["Resource"]).endswith(".Arn>/payloads/*")
    assert shown(swept["Resource"]).endswith(".Arn>/create-zip/*")


def test_the_checkout_cannot_reach_the_archives(template: Template, permissions: Permissions) -> None:
    for step in ("reserve", "capture", "ship"):
        granted = permissions[role_of(template, "function", "checkout", step)]
        assert "Zips" not in json.dumps([resource for _, resource in granted])
