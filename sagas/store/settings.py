"""Where the store's tables are, and how long a call to them may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StoreSettings:
    """Names and limits.

    Args:
        sagas_table: the table of control items.
        audit_table: the table of journal entries.
        payload_bucket: the bucket of payloads too large for an entry; empty when there is none.
        payload_limit: bytes of JSON above which a payload goes to S3.
        shards: how many partitions an index key is spread over.
        region: AWS region; ``None`` takes the environment's.
        endpoint_url: of DynamoDB and S3; ``None`` takes the environment's.
        retention: seconds after its end at which a saga is purged; 0 keeps sagas for good.
        key_retention: seconds for which what is left of a purged saga is kept, and its idempotency key with it.
        joins_table: the table of what became of children; empty where no saga has any.
        payload_key: ARN of the KMS key that payloads are encrypted with; empty where they are not.
        never_expiring: saga types whose sagas are kept for good: they own objects, and what a saga owns is known by it.
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
