"""Notes in the template's metadata that tell a reader, such as the local stack, which resource is what."""

from __future__ import annotations

from aws_cdk import CfnResource
from constructs import IConstruct

METADATA_KEY = "sagas"


def tag_part(construct: IConstruct, part: str, **names: str) -> None:
    """Write into the metadata of the construct's CloudFormation resource which part of a service it is.

    Args:
        construct: a construct whose default child is a CloudFormation resource.
        part: ``sagas_table``, ``audit_table``, ``queue``, ``dead_letter_queue``, ``function``, ``supervisor``, ``api``.
        names: the saga and the step it belongs to; for an API, its path if it has one.
    """
    resource = construct.node.default_child
    if not isinstance(resource, CfnResource):
        raise TypeError(f"{construct.node.path} has no CloudFormation resource to tag")
    resource.add_metadata(METADATA_KEY, {"part": part, **names})
