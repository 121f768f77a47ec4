"""Tagging the resources that are parts of a service, for those who read the template."""

from __future__ import annotations

from aws_cdk import CfnResource
from constructs import IConstruct

from sagas.topology import Part, tag


def tag_part(construct: IConstruct, part: Part, **names: str) -> None:
    """Write into the metadata of the construct's CloudFormation resource which part of a service it is.

    Args:
        construct: a construct whose default child is a CloudFormation resource.
        part: which.
        names: as :func:`sagas.topology.tag` takes them.
    """
    resource = construct.node.default_child
    if not isinstance(resource, CfnResource):
        raise TypeError(f"{construct.node.path} has no CloudFormation resource to tag")
    resource.add_metadata(*tag(part, **names))
