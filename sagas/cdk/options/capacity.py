"""What a table of a service can take from the start, at most, and for which price of storage."""

from __future__ import annotations

from dataclasses import dataclass

from sagas.cdk.options.checks import of_kind, within
from sagas.errors import DefinitionError

_NEWBORN_READS, _NEWBORN_WRITES = 12_000, 4_000
"""Units a second that a new table takes anyway; DynamoDB refuses less."""
_MOST = 10_000_000


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Capacity and storage of a table that the service makes.

    Args:
        warm_reads: read units a second that the table and its indexes take at once, 12,000 or more. Costs once, when it
            is raised. AWS never lowers it.
        warm_writes: write units a second, 4,000 or more, likewise.
        max_writes: write units a second that the table takes at most, so that sagas which run away cost no more. Beyond
            it writes are refused and tried again: sagas become slow, and starts are answered with 503.
        infrequent_access: whether storage costs less and each request more, as suits an audit trail that is kept for
            months.

    Raises:
        DefinitionError: a value that DynamoDB would refuse.
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
