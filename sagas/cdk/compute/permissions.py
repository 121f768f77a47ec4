"""The permissions of each function: named actions on named resources."""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs

from sagas.cdk.data.encryption import allow_key
from sagas.cdk.data.queues import SagaQueues
from sagas.cdk.data.tables import BY_NAME_INDEX, ENDED_INDEX, INCIDENTS_INDEX, OPEN_INDEX, Stores
from sagas.cdk.layout.acknowledge import acknowledge_objects
from sagas.cdk.layout.nested_stacks import MOST_IN_ROLE
from sagas.cdk.layout.roles import OwnRole
from sagas.cdk.options.existing import AnyTable
from sagas.messaging.routes import DEAD_LETTERS

ARCHIVE = "archive/"
"""The key prefix of a sweep's archive, as in ``sagas.engine.sweep.sweep_pages``, which a deployment cannot import."""
AUDIT_ARCHIVE = "audit"
"""The key prefix of archived audit entries, as in ``sagas.handlers.archiving``."""
_SWEPT = "A sweep covers a prefix of the saga, and the keys under it are not known in advance."
_ARCHIVED = "Archived objects keep their keys, and these are not known in advance."
_MOST_NAMED = 150
"""A role's ten policies have room for the names of this many queues."""
_STATEMENT = 20
"""Queues per statement."""
_READ_ITEM = ("dynamodb:GetItem", "dynamodb:BatchGetItem")
_WRITE_CONTROL = ("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem")


def allow_one_saga(role: OwnRole, tables: Stores) -> None:
    """Let a step's function claim, journal and commit. It cannot use an index, scan a table, or delete anything."""
    for key in tables.keys:
        allow_key(role, key)
    _allow(role, [*_READ_ITEM, *_WRITE_CONTROL], [tables.sagas.table_arn])
    _allow(role, [*_READ_ITEM, "dynamodb:Query", "dynamodb:PutItem"], [tables.audit.table_arn])
    payloads = tables.payloads.arn_for_objects("payloads/*")
    _allow_objects(role, ["s3:GetObject", "s3:PutObject"], payloads, "A large payload's key contains its saga's id.")
    allow_payload_key(role, tables, encrypting=True)


def allow_payload_key(role: OwnRole, tables: Stores, *, encrypting: bool) -> None:
    """Let a function decrypt payloads of sagas, and encrypt them if ``encrypting``. Without a payload key, do nothing.
    A policy cannot list all saga ids. It requires that a request has one, so the key cannot be used for other data."""
    if tables.payload_key is not None:
        actions = ["kms:Decrypt", *(["kms:GenerateDataKey"] if encrypting else [])]
        of_a_saga = {"StringLike": {"kms:EncryptionContext:sagas:id": "*"}}
        arn = tables.payload_key.key_arn
        role.allow(iam.PolicyStatement(actions=actions, resources=[arn], conditions=of_a_saga))


def allow_joining(role: OwnRole, tables: Stores, *, reading: bool = False) -> None:
    """Let a function join children: write a child's outcome and count outcomes. Without a joins table, do nothing."""
    if tables.joins is None:
        return
    more = ["dynamodb:Query"] if reading else []
    actions = ["dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", *more]
    _allow(role, actions, [tables.joins.table_arn])
    if reading:  # another invocation may have started the child, and the child may have been purged since
        _allow(role, ["dynamodb:ConditionCheckItem"], [tables.audit.table_arn])


def allow_commands(role: OwnRole, tables: Stores) -> None:
    """Let the command queue's function start, signal and cancel sagas. Besides a step's permissions, it can check that
    a saga to start was not purged, delete the payload of a refused start or signal, and join a child that a signal or
    cancel ends."""
    allow_one_saga(role, tables)
    allow_joining(role, tables)
    allow_counting(role, tables)
    _allow(role, ["dynamodb:ConditionCheckItem"], [tables.audit.table_arn])
    _allow_deleting(role, tables)


def allow_finding_leftovers(role: OwnRole, tables: Stores) -> None:
    """Let the supervisor look through the audit table for starts that died, and delete them."""
    _allow(role, ["dynamodb:Scan", "dynamodb:DeleteItem"], [tables.audit.table_arn])


def allow_all_sagas(role: OwnRole, tables: Stores) -> None:
    """Let the API or the supervisor also list sagas by the indexes, and purge them."""
    allow_one_saga(role, tables)
    allow_joining(role, tables, reading=True)
    if tables.joins is not None:
        _allow(role, ["dynamodb:BatchWriteItem"], [tables.joins.table_arn])
    _allow(role, ["dynamodb:DeleteItem"], [tables.sagas.table_arn])
    _allow(
        role,
        ["dynamodb:UpdateItem", "dynamodb:BatchWriteItem", "dynamodb:ConditionCheckItem"],
        [tables.audit.table_arn],
    )
    listing = {"StringLike": {"s3:prefix": "payloads/*"}}
    role.allow(
        iam.PolicyStatement(actions=["s3:ListBucket"], resources=[tables.payloads.bucket_arn], conditions=listing)
    )
    _allow_deleting(role, tables)
    indexes = (OPEN_INDEX, BY_NAME_INDEX, INCIDENTS_INDEX, ENDED_INDEX)
    _allow(role, ["dynamodb:Query"], [tables.index_arn(index) for index in indexes])


def allow_publishing(role: OwnRole, tables: Stores, *, payloads: bool) -> None:
    """Let the outbox read and list sagas and their journals. If events contain payloads, the outbox may also read large
    payloads and the outcomes of children."""
    for key in tables.keys:
        allow_key(role, key)
    _allow(role, list(_READ_ITEM), [tables.sagas.table_arn])
    _allow(role, [*_READ_ITEM, "dynamodb:Query"], [tables.audit.table_arn])
    _allow(role, ["dynamodb:Query"], [tables.index_arn(BY_NAME_INDEX)])
    if payloads:
        objects = tables.payloads.arn_for_objects("payloads/*")
        _allow_objects(role, ["s3:GetObject"], objects, "A large payload's key contains its saga's id.")
        allow_payload_key(role, tables, encrypting=False)
        if tables.joins is not None:
            _allow(role, ["dynamodb:BatchGetItem", "dynamodb:Query"], [tables.joins.table_arn])


def allow_counting(role: OwnRole, tables: Stores) -> None:
    """Let a function count consecutive failures of a type: it looks for the type's last completed saga."""
    _allow(role, ["dynamodb:Query"], [tables.index_arn(ENDED_INDEX)])


def is_large(queues: Iterable[SagaQueues]) -> bool:
    """Whether a role that sends to the queues of all steps of these sagas needs more room than it has in itself."""
    return sum(len(own.by_group) for own in queues) > MOST_IN_ROLE


def allow_sending(role: OwnRole, queues: Iterable[SagaQueues], *, counting: bool = False) -> None:
    """Let a function send to the queues of all steps of these sagas. Only SQS itself sends to dead-letter queues."""
    actions = ["sqs:SendMessage", "sqs:GetQueueAttributes"] if counting else ["sqs:SendMessage"]
    several = list(queues)
    arns = [arn for own in several for arn in own.arns(role)]
    if len(arns) > _MOST_NAMED:
        # Both patterns end in the service's token, so they match no other service's queues.
        letters = [several[0].arn_of_all(role, f"*-{DEAD_LETTERS}")]
        role.allow(iam.PolicyStatement(effect=iam.Effect.DENY, actions=actions[:1], resources=letters))
        arns = [several[0].arn_of_all(role)]
        acknowledge_objects(role, arns[0], "A role has no room for the names of all queues of the service.")
    # When a policy exceeds IAM's limit, the CDK moves whole statements to another policy. So keep statements small.
    for start in range(0, len(arns), _STATEMENT):
        _allow(role, actions, arns[start : start + _STATEMENT])


def allow_counting_letters(role: OwnRole, queues: Iterable[SagaQueues]) -> None:
    """Let the supervisor read the number of messages in the dead-letter queues of these sagas."""
    several = list(queues)
    letters = [own.arn_of_letters(role) for own in several]
    if len(several) > MOST_IN_ROLE:
        letters = [several[0].arn_of_all(role, f"*-{DEAD_LETTERS}")]
        acknowledge_objects(role, letters[0], "A role has no room for the names of all queues of the service.")
    if letters:
        _allow(role, ["sqs:GetQueueAttributes"], letters)


def allow_working(role: OwnRole, queue: sqs.IQueue, *, counting: bool = True) -> None:
    """Let a function send to a work queue and, if ``counting``, read the number of its messages."""
    actions = ["sqs:SendMessage", "sqs:GetQueueAttributes"] if counting else ["sqs:SendMessage"]
    _allow(role, actions, [queue.queue_arn])


def allow_streaming(role: OwnRole, table: AnyTable, stream: str, lost: sqs.IQueue) -> None:
    """Let Lambda read a table's stream for a function, and send changes that it gives up to a queue."""
    _allow(role, [f"dynamodb:{name}" for name in ("DescribeStream", "GetRecords", "GetShardIterator")], [stream])
    streams = f"{table.table_arn}/stream/*"
    _allow(role, ["dynamodb:ListStreams"], [streams])
    acknowledge_objects(role, streams, "Lambda lists the table's streams before it reads one.")
    _allow(role, ["sqs:SendMessage"], [lost.queue_arn])


def allow_archiving(role: OwnRole, bucket: s3.IBucket) -> None:
    """Let a function add to the archive of the audit trail, but not read or delete anything in it."""
    archived = bucket.arn_for_objects(f"{AUDIT_ARCHIVE}/*")
    _allow_objects(role, ["s3:PutObject"], archived, "The key of an archived object contains its time.")
    if bucket.encryption_key is not None:
        allow_key(role, bucket.encryption_key)


def allow_network(role: OwnRole) -> None:
    """Let Lambda create the function's network interfaces, and deny it to the function's own code. Lambda checks this
    before it knows their names, so the actions are on all resources."""
    names = ("CreateNetworkInterface", "DeleteNetworkInterface", "DescribeNetworkInterfaces", "DescribeSubnets")
    addresses = ("AssignPrivateIpAddresses", "UnassignPrivateIpAddresses")
    actions = [f"ec2:{name}" for name in (*names, *addresses)]
    _allow(role, actions, ["*"])
    # Requests of a function's code have this key, and those of Lambda itself do not. A role cannot name its function,
    # which refers to the role.
    by_code = {"Null": {"lambda:SourceFunctionArn": "false"}}
    role.allow(iam.PolicyStatement(effect=iam.Effect.DENY, actions=actions, resources=["*"], conditions=by_code))


def allow_sweeping(role: OwnRole, bucket: s3.IBucket, prefix: str, action: str, archive_to: s3.IBucket) -> None:
    """Let a role do what a sweep with ``action`` does under ``prefix``, and nothing else."""
    listing = iam.PolicyStatement(
        actions=["s3:ListBucket"],
        resources=[bucket.bucket_arn],
        conditions={"StringLike": {"s3:prefix": [prefix, f"{prefix}*"]}},
    )
    role.allow(listing)
    if action == "report":
        return
    swept = bucket.arn_for_objects(f"{prefix}*")
    archived = archive_to.arn_for_objects(f"{ARCHIVE}{prefix}*")
    _allow_objects(role, ["s3:GetObject", "s3:DeleteObject"], swept, _SWEPT)
    if action == "archive":
        # Objects keep their tags. An object over 5 GB is copied in parts, and an interrupted copy removes its parts.
        _allow_objects(role, ["s3:PutObject", "s3:PutObjectTagging", "s3:AbortMultipartUpload"], archived, _ARCHIVED)
        _allow_objects(role, ["s3:GetObjectTagging"], swept, _SWEPT)


def _allow_deleting(role: OwnRole, tables: Stores) -> None:
    payloads = tables.payloads.arn_for_objects("payloads/*")
    _allow_objects(role, ["s3:DeleteObject"], payloads, "A large payload's key contains its saga's id.")


def _allow_objects(role: OwnRole, actions: list[str], objects: str, reason: str) -> None:
    role.allow(iam.PolicyStatement(actions=actions, resources=[objects]))
    acknowledge_objects(role, objects, reason)


def _allow(role: OwnRole, actions: list[str], resources: list[str]) -> None:
    role.allow(iam.PolicyStatement(actions=actions, resources=resources))
