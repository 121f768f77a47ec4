"""The stores of sagas: the control table, the audit table, and the bucket of large payloads."""

from __future__ import annotations

from typing import cast

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct, IConstruct

from sagas.cdk.data.encryption import private_bucket
from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.layout.tags import tag_part
from sagas.cdk.options.existing import EXPIRES, AnyTable, Keys, TableForm, check_table
from sagas.cdk.options.service_options import TABLES, ServiceOptions
from sagas.cdk.parts.part import Part
from sagas.errors import DefinitionError
from sagas.topology import PartName

OPEN_INDEX = "open"
BY_NAME_INDEX = "by_name"
INCIDENTS_INDEX = "incidents"
ENDED_INDEX = "ended"

CONTROL = TableForm(
    {"saga_id": "S"},
    {
        OPEN_INDEX: {"open_shard": "S", "due": "S"},
        BY_NAME_INDEX: {"name_shard": "S", "created_at": "S"},
        INCIDENTS_INDEX: {"incident_shard": "S", "incident": "S"},
        ENDED_INDEX: {"ended": "S", "ended_at": "S"},
    },
    {INCIDENTS_INDEX: ("seq",)},
)
AUDIT = TableForm({"saga_id": "S", "seq": "N"})
JOINS = TableForm({"join": "S", "part": "S"})

_TYPES = {"S": dynamodb.AttributeType.STRING, "N": dynamodb.AttributeType.NUMBER}


class Stores(Construct, Part):
    """The tables and the bucket of one service. CloudFormation chooses their names, so two services never clash.
    ``families`` names the sagas that have children or are children. If there are none, no joins table is created."""

    def __init__(
        self, scope: Construct, id: str, *, options: ServiceOptions, families: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(scope, id)
        sagas, audit, joins = map(options.existing_table, TABLES)
        for name, table, form in (("sagas", sagas, CONTROL), ("audit", audit, AUDIT), ("joins", joins, JOINS)):
            if table is not None:
                # A purge leaves a tombstone in the audit table. Tombstones expire.
                expires = form is AUDIT and options.retention is not None
                check_table(f"{options.service}: tables: {name}", table, form, expires=expires)
        if not families and "joins" in (options.tables or {}):
            raise DefinitionError(f"{options.service}: tables: joins: no saga of this service has children")
        self.sagas: AnyTable = sagas or _table(self, "Sagas", CONTROL, options)
        self.audit: AnyTable = audit or _table(self, "Audit", AUDIT, options)
        self.families = families
        self.joins = (joins or _table(self, "Joins", JOINS, options)) if families else None
        self.keys = [table.encryption_key for table in (sagas, audit, joins) if table and table.encryption_key]
        self.payload_key = options.payload_key
        versions = options.payload_versions
        self.payloads = private_bucket(
            self,
            "Payloads",
            options,
            "Only the service's own functions write here, and every write has an audit entry.",
            versioned=versions is not None,
            lifecycle_rules=[
                s3.LifecycleRule(
                    abort_incomplete_multipart_upload_after=Duration.days(1),
                    noncurrent_version_expiration=None if versions is None else Duration.days(versions.days),
                    expired_object_delete_marker=True if versions else None,
                )
            ],
        )
        tagged: dict[PartName, AnyTable] = {"sagas_table": self.sagas, "audit_table": self.audit}
        for part, table in tagged.items():
            if table.node.default_child is not None:
                tag_part(cast("IConstruct", table), part)

    @classmethod
    def count(cls, catalogue: Catalogue) -> int:
        return 1 if catalogue.families else 0

    def index_arn(self, index: str) -> str:
        return f"{self.sagas.table_arn}/index/{index}"


def _table(scope: Construct, id: str, form: TableForm, options: ServiceOptions) -> dynamodb.Table:
    protected = options.deletion_protection
    if protected is None:
        protected = options.removal_policy is RemovalPolicy.RETAIN
    capacity = options.table_options(id.lower())
    warm = None
    if capacity.warm_reads or capacity.warm_writes:
        warm = dynamodb.WarmThroughput(
            read_units_per_second=capacity.warm_reads, write_units_per_second=capacity.warm_writes
        )
    partition, sort = _attributes(form.keys)
    table = dynamodb.Table(
        scope,
        id,
        partition_key=partition,
        sort_key=sort,
        billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
        max_write_request_units=capacity.max_writes,
        warm_throughput=warm,
        table_class=dynamodb.TableClass.STANDARD_INFREQUENT_ACCESS if capacity.infrequent_access else None,
        encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED if options.encryption_key else None,
        encryption_key=cast("kms.IKey | None", options.encryption_key),
        time_to_live_attribute=EXPIRES if form is AUDIT else None,  # of tombstones
        point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
            point_in_time_recovery_enabled=True
        ),
        deletion_protection=protected,
        removal_policy=options.removal_policy,
    )
    for name, keys in form.indexes.items():
        partition, sort = _attributes(keys)
        projected = [*form.projected.get(name, ())]
        table.add_global_secondary_index(
            index_name=name,
            partition_key=partition,
            sort_key=sort,
            projection_type=dynamodb.ProjectionType.INCLUDE if projected else dynamodb.ProjectionType.KEYS_ONLY,
            non_key_attributes=projected or None,
            # An index that is not ready throttles its table.
            warm_throughput=warm,
        )
    return table


def _attributes(keys: Keys) -> tuple[dynamodb.Attribute, dynamodb.Attribute | None]:
    """Return the partition key, and the sort key or ``None``."""
    partition, *sort = (dynamodb.Attribute(name=name, type=_TYPES[kind]) for name, kind in keys.items())
    return partition, sort[0] if sort else None
