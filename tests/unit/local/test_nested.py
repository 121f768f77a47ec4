"""Nested stacks become one template that makes the same resources."""

from __future__ import annotations

from typing import Any

from sagas.local.emulator.nested import flattened

Template = dict[str, Any]

INNER: Template = {
    "Parameters": {"TableName": {"Type": "String"}, "Colour": {"Type": "String", "Default": "blue"}},
    "Conditions": {"Blue": {"Fn::Equals": [{"Ref": "Colour"}, "blue"]}},
    "Resources": {
        "Queue": {"Type": "AWS::SQS::Queue", "Condition": "Blue"},
        "Function": {
            "Type": "AWS::Lambda::Function",
            "DependsOn": ["Queue"],
            "Properties": {
                "Table": {"Ref": "TableName"},
                "Queue": {"Fn::GetAtt": ["Queue", "Arn"]},
                "Text": {"Fn::Sub": "${AWS::Region}/${TableName}/${Queue}/${Queue.Arn}/${!Literal}"},
                "Choice": {"Fn::If": ["Blue", {"Ref": "Colour"}, {"Ref": "AWS::NoValue"}]},
                "Policy": {"Condition": {"StringLike": {"a": {"Ref": "Colour"}}}},
            },
        },
    },
    "Outputs": {"QueueArn": {"Value": {"Fn::GetAtt": ["Queue", "Arn"]}}, "Table": {"Value": {"Ref": "TableName"}}},
}


def nested(url: str, **parameters: Any) -> Template:
    """A nested stack's resource."""
    return {"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateURL": url, "Parameters": parameters}}


def templates(**named: Template) -> dict[str, Template]:
    """Templates by what is their URL here."""
    return named


def outer() -> Template:
    """A stack whose nested stacks know its table, and each other's queue."""
    return {
        "Resources": {
            "Table": {"Type": "AWS::DynamoDB::Table"},
            "One": nested("inner", TableName={"Ref": "Table"}),
            "Two": {**nested("inner", TableName={"Fn::GetAtt": ["One", "Outputs.QueueArn"]}), "DependsOn": "One"},
            "Api": {
                "Type": "AWS::ApiGateway::RestApi",
                "DependsOn": ["One", "Table"],
                "Properties": {"Name": {"Fn::GetAtt": ["Two", "Outputs.Table"]}, "Id": {"Ref": "One"}},
            },
        }
    }


def flat() -> tuple[Template, str, str]:
    """The flat template, and the prefixes of the two nested stacks' ids."""
    template = flattened(outer(), {"inner": INNER}.__getitem__)
    one, two = (id.removesuffix("Queue") for id in template["Resources"] if id.endswith("Queue"))
    return template, one, two


def test_without_nested_stacks_nothing_changes() -> None:
    assert flattened(INNER, templates().__getitem__) is INNER


def test_every_resource_is_there_once() -> None:
    template, one, two = flat()
    assert sorted(template["Resources"]) == sorted(
        ["Table", "Api", f"{one}Queue", f"{one}Function", f"{two}Queue", f"{two}Function"]
    )
    assert all(id.isalnum() for id in template["Resources"])
    assert flat()[0] == template


def test_parameters_become_what_was_given_for_them() -> None:
    template, one, two = flat()
    first, second = (template["Resources"][f"{prefix}Function"]["Properties"] for prefix in (one, two))
    assert first["Table"] == {"Ref": "Table"}
    assert second["Table"] == {"Fn::GetAtt": [f"{one}Queue", "Arn"]}
    assert first["Policy"] == {"Condition": {"StringLike": {"a": "blue"}}}


def test_own_names_are_prefixed() -> None:
    template, one, _ = flat()
    function = template["Resources"][f"{one}Function"]
    assert function["Properties"]["Queue"] == {"Fn::GetAtt": [f"{one}Queue", "Arn"]}
    assert function["DependsOn"] == [f"{one}Queue"]
    text = f"${{AWS::Region}}/${{TableName}}/${{{one}Queue}}/${{{one}Queue.Arn}}/${{!Literal}}"
    assert function["Properties"]["Text"] == {"Fn::Sub": [text, {"TableName": {"Ref": "Table"}}]}


def test_conditions_come_along() -> None:
    template, one, two = flat()
    assert template["Conditions"] == {f"{prefix}Blue": {"Fn::Equals": ["blue", "blue"]} for prefix in (one, two)}
    assert template["Resources"][f"{one}Queue"]["Condition"] == f"{one}Blue"
    choice = template["Resources"][f"{one}Function"]["Properties"]["Choice"]
    assert choice == {"Fn::If": [f"{one}Blue", "blue", {"Ref": "AWS::NoValue"}]}


def test_whoever_needed_a_stack_needs_its_resources() -> None:
    template, one, two = flat()
    assert template["Resources"]["Api"]["DependsOn"] == [f"{one}Queue", f"{one}Function", "Table"]
    assert template["Resources"][f"{two}Function"]["DependsOn"] == [f"{two}Queue", f"{one}Queue", f"{one}Function"]
    assert template["Resources"]["Api"]["Properties"]["Name"] == {"Fn::GetAtt": [f"{one}Queue", "Arn"]}


def test_stacks_within_stacks() -> None:
    middle = {"Resources": {"Deep": nested("inner", TableName="tables")}, "Outputs": {}}
    middle["Outputs"] = {"Queue": {"Value": {"Fn::GetAtt": ["Deep", "Outputs.QueueArn"]}}}
    top = {
        "Resources": {
            "Middle": nested("middle"),
            "Top": {"Type": "T", "Q": {"Fn::GetAtt": ["Middle", "Outputs.Queue"]}},
        }
    }
    template = flattened(top, {"inner": INNER, "middle": middle}.__getitem__)
    (queue,) = (id for id in template["Resources"] if id.endswith("Queue"))
    assert template["Resources"]["Top"]["Q"] == {"Fn::GetAtt": [queue, "Arn"]}
