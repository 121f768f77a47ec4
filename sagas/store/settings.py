"""Settings of the store."""

from __future__ import annotations

from msgspec import Struct


class StoreSettings(Struct, frozen=True):
    """Names and limits.

    Args:
        sagas_table: the table of control items.
        audit_table: the table of journal entries.
        payload_bucket: the bucket for payloads that are too large for an entry; empty if there is none.
        payload_limit: maximum bytes of JSON in an entry. Larger payloads go to S3.
        shards: the number of partitions over which an index key is spread.
        region: the AWS region; ``None`` for the environment's region.
        endpoint_url: the URL of DynamoDB and S3; ``None`` for the environment's URLs.
        retention: seconds from a saga's end to its purge; 0 keeps sagas for good.
        key_retention: seconds for which tombstones, and so idempotency keys, are kept.
        joins_table: the table of children's outcomes; empty if no saga has children.
        payload_key: ARN of the KMS key that encrypts payloads; empty if there is none.
        never_expiring: saga types whose sagas are kept for good, because nothing else records which objects they own.
    """

    sagas_table: str
    audit_table: str
    payload_bucket: str = ""
    payload_limit: int = 16 * 1024
    shards: int = 8
    region: str | None = None
    endpoint_url: str | None = None
    retention: float = 0.0
    key_retention: float = 30 * 86_400.0
    never_expiring: frozenset[str] = frozenset()
    joins_table: str = ""
    payload_key: str = ""
