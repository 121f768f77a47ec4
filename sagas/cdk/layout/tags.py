"""Names a service, and tags the resources that are its parts for tools that read the template."""

from __future__ import annotations

from aws_cdk import CfnResource, Stack, Token
from constructs import Construct, IConstruct

from sagas.topology import PartName, tag


def tag_part(construct: IConstruct, part: PartName, **names: str) -> None:
    """Mark a construct's CloudFormation resource as a part of a service, in the metadata of the resource."""
    resource = construct.node.default_child
    if not isinstance(resource, CfnResource):
        raise TypeError(f"{construct.node.path} has no CloudFormation resource to tag")
    resource.add_metadata(*tag(part, **names))


def default_name(scope: Construct) -> str:
    """Return the stack's name and the construct's path in the stack. Together they are unique in the account."""
    stack = Stack.of(scope)
    while stack.nested_stack_parent is not None:
        stack = stack.nested_stack_parent
    below = scope.node.path.removeprefix(f"{stack.node.path}/")
    name = stack.artifact_id if Token.is_unresolved(stack.stack_name) else stack.stack_name
    return f"{name}-{below.replace('/', '-')}"
