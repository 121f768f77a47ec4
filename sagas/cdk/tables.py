"""Where a service keeps its sagas: the control table, the audit table, and the bucket of large payloads."""

from __future__ import annotations

from typing import cast

from aws_cdk import Duration, RemovalPolicy, Validations
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct, IConstruct

from sagas.cdk.acknowledge import acknowledge
from sagas.cdk.existing import EXPIRES, AnyTable, TableForm, check_table
from sagas.cdk.options import ServiceOptions
from sagas.cdk.parts import tag_part
from sagas.topology import Part

OPEN_INDEX = "open"
BY_NAME_INDEX = "by_name"

CONTROL = TableForm(
    {"saga_id": "S"},
    {OPEN_INDEX: {"open_shard": "S", "due": "S"}, BY_NAME_INDEX: {"name_shard": "S", "created_at": "S"}},
)
AUDIT = TableForm({"saga_id": "S", "seq": "N"})

_STRING = dynamodb.AttributeType.STRING
_NUMBER = dynamodb.AttributeType.NUMBER


class Tables(Construct):
    """The stores of one service. Names are left to CloudFormation, so two services never clash.

    Args:
        scope: parent construct.
        id: construct id.
        options: of the service.

    Raises:
        DefinitionError: a table that is there already does not fit.
    """

    def __init__(self, scope: Construct, id: str, *, options: ServiceOptions) -> None:
        super().__init__(scope, id)
        sagas, audit = options.sagas_table, options.audit_table
        for name, table, form in (("sagas_table", sagas, CONTROL), ("audit_table", audit, AUDIT)):
            if table is not None:
                check_table(f"{options.service}: {name}", table, form, expires=options.retention is not None)
        self.sagas: AnyTable = sagas or _control_table(self, options)
        self.audit: AnyTable = audit or _table(self, "Audit", "saga_id", options, sort=("seq", _NUMBER))
        self.payloads = _payload_bucket(self, options)
        self.keys = [table.encryption_key for table in (sagas, audit) if table is not None and table.encryption_key]
        tagged: dict[Part, AnyTable] = {"sagas_table": self.sagas, "audit_table": self.audit}
        for part, table in tagged.items():
            if table.node.default_child is not None:
                tag_part(cast("IConstruct", table), part)

    def index_arn(self, index: str) -> str:
        """The ARN of an index of the control table."""
        return f"{self.sagas.table_arn}/index/{index}"


def _control_table(scope: Construct, options: ServiceOptions) -> dynamodb.Table:
    table = _table(scope, "Sagas", "saga_id", options)
    _add_index(table, OPEN_INDEX, "open_shard", "due")
    _add_index(table, BY_NAME_INDEX, "name_shard", "created_at")
    return table


def _table(
    scope: Construct,
    id: str,
    key: str,
    options: ServiceOptions,
    sort: tuple[str, dynamodb.AttributeType] | None = None,
) -> dynamodb.Table:
    return dynamodb.Table(
        scope,
        id,
        partition_key=dynamodb.Attribute(name=key, type=_STRING),
        sort_key=dynamodb.Attribute(name=sort[0], type=sort[1]) if sort else None,
        billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
        encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED if options.encryption_key else None,
        encryption_key=cast("kms.IKey | None", options.encryption_key),
        time_to_live_attribute=EXPIRES,
        point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
            point_in_time_recovery_enabled=True
        ),
        deletion_protection=_protected(options),
        removal_policy=options.removal_policy,
    )


def _protected(options: ServiceOptions) -> bool:
    if options.deletion_protection is not None:
        return options.deletion_protection
    return options.removal_policy is not RemovalPolicy.DESTROY


def _add_index(table: dynamodb.Table, name: str, partition: str, sort: str) -> None:
    table.add_global_secondary_index(
        index_name=name,
        partition_key=dynamodb.Attribute(name=partition, type=_STRING),
        sort_key=dynamodb.Attribute(name=sort, type=_STRING),
        projection_type=dynamodb.ProjectionType.KEYS_ONLY,
    )


def _payload_bucket(scope: Construct, options: ServiceOptions) -> s3.Bucket:
    bucket = s3.Bucket(
        scope,
        "Payloads",
        encryption=s3.BucketEncryption.KMS if options.encryption_key else s3.BucketEncryption.S3_MANAGED,
        encryption_key=cast("kms.IKey | None", options.encryption_key),
        # One data key for many objects: KMS is asked, and paid, far less often.
        bucket_key_enabled=True if options.encryption_key else None,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        enforce_ssl=True,
        removal_policy=options.removal_policy,
        lifecycle_rules=[s3.LifecycleRule(abort_incomplete_multipart_upload_after=Duration.days(1))],
    )
    acknowledge(
        Validations.of(bucket),
        {"AwsSolutions-S1": "Only the service's own functions write here, and every write has an audit entry."},
    )
    return bucket
