"""Accepts findings of policy checks, each with a reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from aws_cdk import Acknowledgment, Names, Reference, Stack, Tokenization, Validations
from aws_cdk import aws_iam as iam


def acknowledge(validations: Validations, reasons: Mapping[str, str]) -> None:
    """Accept findings about a construct and everything below it."""
    validations.acknowledge(*(Acknowledgment(id=finding, reason=reason) for finding, reason in reasons.items()))


def acknowledge_objects(role: iam.IGrantable, object_arn: str, reason: str) -> None:
    """Accept that a role's policy has a pattern for resources: their names are not known in advance."""
    principal = role if isinstance(role, iam.Role) else role.grant_principal
    if not isinstance(principal, iam.Role):
        return
    stack = Stack.of(principal)
    parameter = None
    if stack.nested_stack_parent:
        for token in filter(Reference.is_reference, Tokenization.reverse_string(object_arn).tokens):
            reference = cast("Reference", token)
            if Stack.of(reference.target) != stack:
                # A nested stack has a parameter of this name for a resource of another stack.
                parameter = f"<referenceto{Names.node_unique_id(reference.target.node)}{reference.display_name}>"
                break
    finding = _in_finding(stack.resolve(object_arn), parameter)
    acknowledge(Validations.of(principal), {f"AwsSolutions-IAM5[Resource::{finding}]": reason})


def _in_finding(arn: Any, parameter: str | None) -> str:
    """Return a CloudFormation value in the form that cdk-nag uses in the id of a finding."""
    match arn:
        case {"Fn::Join": [_, parts]}:
            return "".join(_in_finding(part, parameter) for part in parts)
        case {"Fn::GetAtt": [_, _]} if parameter:
            return parameter
        case {"Fn::GetAtt": [str(logical_id), str(attribute)]}:
            return f"<{logical_id}.{attribute}>"
        case {"Ref": str(name)}:
            return f"<{name}>"
        case dict():
            return json.dumps(arn, separators=(",", ":"))
        case _:
            return str(arn)
