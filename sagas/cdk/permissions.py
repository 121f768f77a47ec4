"""What each function may do: named actions on named resources."""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from sagas.cdk.acknowledge import acknowledge_objects
from sagas.cdk.queues import SagaQueues
from sagas.cdk.tables import BY_NAME_INDEX, OPEN_INDEX, Tables

__all__ = ["allow_all_sagas", "allow_listing", "allow_network", "allow_one_saga", "allow_sending", "allow_sweeping"]

_STATEMENT = 20
"""Queues in a statement."""
_READ_ITEM = ("dynamodb:GetItem", "dynamodb:BatchGetItem")
_WRITE_CONTROL = ("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem")


def allow_one_saga(role: iam.Role, tables: Tables) -> None:
    """Let a step's function claim, journal and commit: items by key, no index, no scan, no deletion."""
    _allow(role, [*_READ_ITEM, *_WRITE_CONTROL], [tables.sagas.table_arn])
    _allow(role, [*_READ_ITEM, "dynamodb:Query", "dynamodb:PutItem"], [tables.audit.table_arn])
    _allow_payloads(role, tables.payloads)


def allow_all_sagas(role: iam.Role, tables: Tables) -> None:
    """Let the API or the supervisor also list sagas, by the two indexes."""
    allow_one_saga(role, tables)
    _allow(role, ["dynamodb:Query"], [tables.index_arn(OPEN_INDEX), tables.index_arn(BY_NAME_INDEX)])


def allow_listing(role: iam.Role, tables: Tables) -> None:
    """Let a function also list the sagas of a type: whoever counts their failures looks for a success in between."""
    _allow(role, ["dynamodb:Query"], [tables.index_arn(BY_NAME_INDEX)])


def allow_sending(role: iam.Role, queues: Iterable[SagaQueues]) -> None:
    """Let a function send to the queues of all steps of these sagas. To dead-letter queues only SQS itself sends."""
    arns = [arn for own in queues for arn in own.arns(role)]
    # The CDK moves whole statements to further policies when one grows beyond what IAM takes.
    for start in range(0, len(arns), _STATEMENT):
        _allow(role, ["sqs:SendMessage"], arns[start : start + _STATEMENT])


def allow_network(role: iam.Role) -> None:
    """Let Lambda make the function's network interfaces in a VPC. It checks these before any interface is there."""
    names = ("CreateNetworkInterface", "DeleteNetworkInterface", "DescribeNetworkInterfaces", "DescribeSubnets")
    addresses = ("AssignPrivateIpAddresses", "UnassignPrivateIpAddresses")
    _allow(role, [f"ec2:{name}" for name in (*names, *addresses)], ["*"])


def allow_sweeping(role: iam.IGrantable, bucket: s3.IBucket, prefix: str) -> None:
    """Let a role list, read and delete objects under ``prefix``, and nothing beside it."""
    listing = iam.PolicyStatement(
        actions=["s3:ListBucket"],
        resources=[bucket.bucket_arn],
        conditions={"StringLike": {"s3:prefix": [prefix, f"{prefix}*"]}},
    )
    object_arn = bucket.arn_for_objects(f"{prefix}*")
    objects = iam.PolicyStatement(actions=["s3:GetObject", "s3:DeleteObject"], resources=[object_arn])
    acknowledge_objects(role, object_arn, "A sweep covers the saga's prefix, whose keys are not known beforehand.")
    for statement in (listing, objects):
        role.grant_principal.add_to_principal_policy(statement)


def _allow_payloads(role: iam.Role, bucket: s3.IBucket) -> None:
    object_arn = bucket.arn_for_objects("payloads/*")
    _allow(role, ["s3:GetObject", "s3:PutObject"], [object_arn])
    acknowledge_objects(role, object_arn, "A large payload's key holds the id of its saga.")


def _allow(role: iam.Role, actions: list[str], resources: list[str]) -> None:
    role.add_to_policy(iam.PolicyStatement(actions=actions, resources=resources))
