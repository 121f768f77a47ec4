"""Options of the tables that a service creates: initial and maximum capacity, and storage class."""

from __future__ import annotations

from dataclasses import dataclass

from sagas.cdk.options.checks import of_kind, within
from sagas.errors import DefinitionError

_NEWBORN_READS, _NEWBORN_WRITES = 12_000, 4_000
"""The read and write units per second of any new table. DynamoDB refuses lower values."""
_MOST = 10_000_000


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Capacity and storage of a table that the service creates.

    Args:
        warm_reads: read units per second that the table and its indexes support at once, 12,000 or more. You pay only
            when you raise the number. AWS never lowers it.
        warm_writes: the same for write units, 4,000 or more.
        max_writes: maximum write units per second, to limit the cost of runaway sagas. DynamoDB refuses writes above
            the limit. They are retried, so sagas slow down, and starts return 503.
        infrequent_access: whether storage costs less and each request more. This class suits audit trails kept for
            months.

    Raises:
        DefinitionError: DynamoDB would refuse a value.
    """

    warm_reads: int | None = None
    warm_writes: int | None = None
    max_writes: int | None = None
    infrequent_access: bool = False

    def __post_init__(self) -> None:
        within("TableOptions", "warm_reads", self.warm_reads, _NEWBORN_READS, _MOST)
        within("TableOptions", "warm_writes", self.warm_writes, _NEWBORN_WRITES, _MOST)
        within("TableOptions", "max_writes", self.max_writes, 1, _MOST)
        of_kind("TableOptions", "infrequent_access", self.infrequent_access, bool)
        if self.max_writes is not None and self.max_writes < (self.warm_writes or 0):
            raise DefinitionError("TableOptions: max_writes must not be less than warm_writes")
