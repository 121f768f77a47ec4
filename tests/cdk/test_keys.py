"""Customers' keys: no statement lets anybody use a key without a condition."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms

from sagas.cdk import SagaService
from tests.cdk.rendered import as_list, by_id, shown, statements, template_of
from tests.cdk.saga_classes import Delivery, Shipment
from tests.cdk.templates import KEY_OF_QUEUE, synthesized

Template = dict[str, Any]
KEYED = ("network_and_key", "nested_within_a_network")
"""The apps with a key of the customer's."""
SERVICES = {"dynamodb.", "lambda.", "s3.", "secretsmanager.", "sqs."}
"""What may use the service's key on behalf of a role."""
_NARROWING = {
    "kms:ViaService",
    "kms:EncryptionContext:sagas:id",
    "kms:EncryptionContext:aws:logs:arn",
    "aws:SourceArn",
    "aws:SourceAccount",
}
"""Keys of conditions. Each says what a KMS key is used for, or for whom."""


def templates_of(name: str) -> list[Template]:
    """All templates of an app, also those of nested stacks."""
    found = sorted(synthesized(name).glob("*.template.json"))
    assert found
    return [json.loads(path.read_text()) for path in found]


def all_statements(value: Any) -> Iterator[Template]:
    """Every statement of every policy in a template, wherever it stands."""
    if isinstance(value, dict):
        if "Effect" in value and ("Action" in value or "NotAction" in value):
            yield value  # pyright: ignore[reportUnknownVariableType] - JSON
        for one in value.values():  # pyright: ignore[reportUnknownVariableType] - JSON
            yield from all_statements(one)
    if isinstance(value, list):
        for one in value:  # pyright: ignore[reportUnknownVariableType] - JSON
            yield from all_statements(one)


def about_keys(templates: Iterable[Template]) -> list[Template]:
    """The statements that allow something with a key, except the one with which a key's policy leaves access to IAM.
    The CDK writes that statement for a key of the app."""
    return [
        statement
        for template in templates
        for statement in all_statements(template)
        if statement["Effect"] == "Allow" and _uses_keys(statement) and not _leaves_access_to_iam(statement)
    ]


def _uses_keys(statement: Template) -> bool:
    named = as_list(statement.get("Action", "*"))
    return any(action.startswith("kms:") or action == "*" for action in named)


def _leaves_access_to_iam(statement: Template) -> bool:
    return statement["Action"] == "kms:*" and shown(statement["Principal"].get("AWS", "")).endswith(":root")


def conditions(statement: Template) -> set[str]:
    """The keys of a statement's conditions."""
    return {key for condition in statement.get("Condition", {}).values() for key in condition}


def without(statements: Iterable[Template]) -> list[Template]:
    """The statements without a condition that narrows the use of a key."""
    return [one for one in statements if not conditions(one) & _NARROWING]


@pytest.mark.parametrize("name", KEYED)
def test_every_use_of_a_key_has_a_condition(name: str) -> None:
    found = about_keys(templates_of(name))
    assert len(found) > 5
    assert without(found) == []


def test_a_use_without_a_condition_is_found() -> None:
    """What CDK's own grants would write."""
    templates = templates_of("network_and_key")
    bare: Template = {"Effect": "Allow", "Action": "kms:Decrypt", "Resource": "*"}
    templates[0]["Resources"]["Added"] = {"Properties": {"PolicyDocument": {"Statement": [bare]}}}
    assert without(about_keys(templates)) == [bare]


def test_no_use_is_broader_than_reading_and_writing() -> None:
    """Nobody may change a key, and no role may copy data to another key."""
    for template in templates_of("network_and_key"):
        allowed = {action for _, one in statements(template) for action in as_list(one["Action"])}
        assert {action for action in allowed if action.startswith("kms:")} <= {
            *("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey")
        }


def test_a_role_uses_a_key_through_the_services_that_it_needs() -> None:
    through: dict[str, set[frozenset[str]]] = {}
    for template in templates_of("network_and_key"):
        for role, statement in statements(template):
            if via := statement.get("Condition", {}).get("StringLike", {}).get("kms:ViaService"):
                names = frozenset(one["Fn::Join"][1][0] for one in as_list(via))
                key = "theirs" if statement["Resource"] == KEY_OF_QUEUE else "ours"
                through.setdefault(f"{key} by {_kind(role)}", set()).add(names)
    assert through == {
        "ours by function": {frozenset(SERVICES)},
        "ours by Clerk": {frozenset({"sqs."})},
        "ours by ShopCommandsSchedulerRole": {frozenset({"sqs."})},
        "theirs by function": {frozenset({"sqs."})},
    }


def _kind(role: str) -> str:
    plain = role[:-8]
    return plain if plain in ("Clerk", "ShopCommandsSchedulerRole") else "function"


def test_keys_of_existing_tables_have_the_same_condition() -> None:
    stack = Stack(App(), "Test")
    keys = {name: f"arn:aws:kms:eu-west-1:123456789012:key/{name}" for name in ("sagas", "audit", "joins")}
    tables = {
        name: dynamodb.Table.from_table_attributes(
            stack, name, table_name=f"my-{name}", encryption_key=kms.Key.from_key_arn(stack, f"Key-{name}", arn)
        )
        for name, arn in keys.items()
    }
    SagaService(stack, "Shop", sagas=[Delivery, Shipment], tables=tables)
    found = about_keys([template_of(stack)])
    assert {one["Resource"] for one in found} == set(keys.values())
    assert without(found) == []


class TestTheTopicOfAlarms:
    def test_is_under_the_key(self) -> None:
        (template,) = templates_of("network_and_key")
        topic = next(one for id, one in by_id(template, "AWS::SNS::Topic").items() if id.startswith("ShopAlarmTopic"))
        assert topic["KmsMasterKeyId"]["Fn::GetAtt"][0].startswith("Key")

    def test_takes_alarms_of_the_own_account_only(self) -> None:
        (template,) = templates_of("network_and_key")
        by_alarms = [
            statement
            for statement in all_statements(template)
            if statement.get("Principal") == {"Service": "cloudwatch.amazonaws.com"}
        ]
        assert [as_list(one["Action"]) for one in by_alarms] == [
            ["kms:Decrypt", "kms:GenerateDataKey"],
            ["sns:Publish"],
        ]
        for statement in by_alarms:
            assert statement["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
