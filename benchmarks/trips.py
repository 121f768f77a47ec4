"""What each trip of a saga takes: the one table that the tests hold, and that the pages of costs are made from.

``tests/engine/test_costs.py`` makes each trip and compares. Items have less than a kilobyte unless ``larger`` says
otherwise.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import reduce

from benchmarks import prices


@dataclass(frozen=True, slots=True)
class Taken:
    """What a trip takes.

    Args:
        control: write units of the table of sagas.
        entries: write units of the audit table.
        joins: write units of the table of joins.
        indexes: write units of the indexes.
        reads: read units.
        messages: that are sent.
        largest: bytes of the largest control item that it writes.
        larger: control items over a kilobyte that it writes.
        requests: to DynamoDB, SQS and S3, in their order; their numbers where there are more than eight.
    """

    control: int = 0
    entries: int = 0
    joins: int = 0
    indexes: int = 0
    reads: float = 0
    messages: int = 0
    largest: int = 0
    larger: int = 0
    requests: str = ""

    def __add__(self, other: Taken) -> Taken:
        return Taken(
            self.control + other.control,
            self.entries + other.entries,
            self.joins + other.joins,
            self.indexes + other.indexes,
            self.reads + other.reads,
            self.messages + other.messages,
            max(self.largest, other.largest),
            self.larger + other.larger,
            named([*_names(self.requests), *_names(other.requests)]),
        )

    def beyond(self, other: Taken) -> tuple[float, ...]:
        """Return how many requests, write units, read units and messages it takes beyond those of another."""
        mine, theirs = ((one.number, one.writes, one.reads, one.messages) for one in (self, other))
        return tuple(a - b for a, b in zip(mine, theirs, strict=True))

    def usd_with_functions(self, works: int) -> float:
        """Return a million times, with so many invocations of functions that run a step or undo each."""
        return prices.Counts({}, self.writes, self.reads, self.messages, works).usd

    @property
    def number(self) -> int:
        """How many requests there are."""
        return len(_names(self.requests))

    @property
    def table_writes(self) -> int:
        """Write units, without the indexes."""
        return self.control + self.entries + self.joins

    @property
    def writes(self) -> int:
        """Write units, indexes included."""
        return self.table_writes + self.indexes

    @property
    def usd(self) -> float:
        """A million times, of DynamoDB and SQS: a message is sent, received and deleted."""
        stored = self.writes * prices.WRITE_UNIT + self.reads * prices.READ_UNIT
        return stored + 3 * self.messages * prices.SQS_REQUEST


def named(names: list[str]) -> str:
    """Return requests as the table has them."""
    if len(names) <= 8:
        return ", ".join(names)
    return ", ".join(f"{count} {name}" for name, count in sorted(Counter(names).items()))


def _names(requests: str) -> list[str]:
    counted = (part.rpartition(" ") for part in requests.split(", ") if part)
    return [name for number, _, name in counted for _ in range(int(number or 1))]


# fmt: off
TRIPS: dict[str, Taken] = {
    # Columns: control, entries, joins, indexes, reads, messages, largest, larger; below, the requests.
    "a start":                                                             Taken(  1,   1,  0,   2,   0,  1,  404, 0,
        "PutItem, PutItem, SendMessage"),
    "the first start of a release":                                        Taken(  3,   1,  0,   2,   1,  1,  404, 0,
        "BatchGetItem, PutItem, UpdateItem, PutItem, PutItem, SendMessage"),
    "a start by the API":                                                  Taken(  1,   1,  0,   2,   0,  1,  404, 0,
        "PutItem, PutItem, SendMessage"),
    "a start by the API, whose request goes to the bucket":                Taken(  1,   1,  0,   2,   0,  1,  404, 0,
        "PutObject, PutItem, PutItem, SendMessage"),
    "a start that is repeated after the saga has ended":                   Taken(  0,   0,  0,   0,   2,  0,    0, 0,
        "GetItem, GetItem, Query"),
    "a look at a saga that has not changed":                               Taken(  0,   0,  0,   0,   1,  0,    0, 0,
        "GetItem"),
    "an hourly look at what pauses have marked of a type":                 Taken(  0,   0,  0,   0,   8,  0,    0, 0,
        "16 Query"),
    "a step":                                                              Taken(  2,   1,  0,   0,   0,  1,  509, 0,
        "UpdateItem, PutItem, UpdateItem, SendMessage"),
    "a step that reads its input":                                         Taken(  2,   1,  0,   0,   1,  1,  519, 0,
        "UpdateItem, BatchGetItem, PutItem, UpdateItem, SendMessage"),
    "the last step":                                                       Taken(  3,   2,  0,   2,   0,  0,  528, 0,
        "UpdateItem, TransactWriteItems"),
    "a chain of three steps":                                              Taken(  5,   4,  0,   2,   0,  0,  528, 0,
        "UpdateItem, ChangeMessageVisibility, PutItem, UpdateItem, PutItem, UpdateItem, TransactWriteItems"),
    "a step, and the next one is skipped":                                 Taken(  3,   2,  0,   0,   0,  1,  515, 0,
        "UpdateItem, PutItem, UpdateItem, PutItem, UpdateItem, SendMessage"),
    "a step that its own attempt skips":                                   Taken(  2,   1,  0,   0,   0,  1,  502, 0,
        "UpdateItem, PutItem, UpdateItem, SendMessage"),
    "a chain of three steps, the second one skipped":                      Taken(  5,   4,  0,   2,   0,  0,  516, 0,
        "UpdateItem, ChangeMessageVisibility, PutItem, UpdateItem, PutItem, UpdateItem, TransactWriteItems"),
    "a failure that is tried again after a minute":                        Taken(  2,   1,  0,   2,   0,  1,  463, 0,
        "UpdateItem, PutItem, UpdateItem, SendMessage"),
    "a retry":                                                             Taken(  2,   1,  0,   0,   0,  1,  463, 0,
        "UpdateItem, PutItem, UpdateItem, SendMessage"),
    "a step that fails for good, something to undo":                       Taken(  3,   2,  0,   0,   0,  1,  558, 0,
        "UpdateItem, PutItem, UpdateItem, PutItem, UpdateItem, SendMessage"),
    "an undo":                                                             Taken(  2,   1,  0,   0,   0,  1,  583, 0,
        "UpdateItem, PutItem, UpdateItem, SendMessage"),
    "the last undo":                                                       Taken(  2,   1,  0,   2,   0,  0,  594, 0,
        "UpdateItem, PutItem, UpdateItem"),
    "a cancel":                                                            Taken(  4,   2,  0,   0,   2,  1,  640, 0,
        "2 GetItem, 2 PutItem, 1 SendMessage, 4 UpdateItem"),
    "a purge of four entries":                                             Taken(  2,   4,  0,   3,   1,  0,  604, 0,
        "GetItem, UpdateItem, Query, UpdateItem, BatchWriteItem, DeleteItem"),
    "a purge of four entries by an operator":                              Taken(  2,   5,  0,   5,   2,  0,  688, 0,
        "GetItem, UpdateItem, Query, UpdateItem, ListObjectsV2, BatchWriteItem, DeleteItem, BatchGetItem"),
    "a weekly search for leftovers":                                       Taken(  2,   0,  0,   0,   1,  0,  103, 0,
        "GetItem, Scan, PutItem, ListObjectsV2, PutItem"),
    "a visit of the supervisor between two searches for leftovers":        Taken(  0,   0,  0,   0,   1,  0,    0, 0,
        "GetItem"),
    "a life of three steps that is kept for an hour":                      Taken(  8,   5,  0,   5,   0,  3,  528, 0,
        "4 PutItem, 3 SendMessage, 1 TransactWriteItems, 5 UpdateItem"),
    "a life of two steps":                                                 Taken(  6,   4,  0,   4,   0,  2,  473, 0,
        "3 PutItem, 2 SendMessage, 1 TransactWriteItems, 3 UpdateItem"),
    "a life of three steps":                                               Taken(  8,   5,  0,   4,   0,  3,  512, 0,
        "4 PutItem, 3 SendMessage, 1 TransactWriteItems, 5 UpdateItem"),
    "a life of three steps, the second one skipped":                       Taken(  7,   5,  0,   4,   0,  2,  516, 0,
        "4 PutItem, 2 SendMessage, 1 TransactWriteItems, 4 UpdateItem"),
    "a life of five steps":                                                Taken( 12,   7,  0,   4,   0,  5,  642, 0,
        "6 PutItem, 5 SendMessage, 1 TransactWriteItems, 9 UpdateItem"),
    "a life of ten steps":                                                 Taken( 22,  12,  0,   4,   0, 10,  849, 0,
        "11 PutItem, 10 SendMessage, 1 TransactWriteItems, 19 UpdateItem"),
    "a life of ten steps whose results go to the bucket":                  Taken( 22,  12,  0,   4,  10, 10,  934, 0,
        "9 BatchGetItem, 10 GetObject, 11 PutItem, 9 PutObject, 10 SendMessage, 1 TransactWriteItems, "
        "19 UpdateItem"),
    "five steps, and the last one rejects: three steps are undone":        Taken( 18,  10,  0,   4,   0,  8,  720, 0,
        "11 PutItem, 8 SendMessage, 17 UpdateItem"),
    "a life of two steps and a wait for a signal":                         Taken( 13,   6,  0,  10,   5,  2,  559, 0,
        "1 BatchGetItem, 4 GetItem, 5 PutItem, 2 SendMessage, 2 TransactWriteItems, 6 UpdateItem"),
    "a life of two steps and ten minutes for a signal that never comes":   Taken( 10,   7,  0,   8,   2,  3,  558, 0,
        "1 BatchGetItem, 1 GetItem, 4 PutItem, 2 SendMessage, 1 SendMessageBatch, 2 TransactWriteItems, "
        "5 UpdateItem"),
    "a life of two steps and a year for a signal that never comes":        Taken( 11,   7,  0,  10,   3,  3,  554, 0,
        "1 BatchGetItem, 2 GetItem, 4 PutItem, 2 SendMessage, 1 SendMessageBatch, 2 TransactWriteItems, "
        "6 UpdateItem"),
    "a life of two steps and a sleep of ten minutes":                      Taken(  9,   6,  0,   8,   2,  3,  548, 0,
        "1 BatchGetItem, 1 GetItem, 5 PutItem, 2 SendMessage, 1 SendMessageBatch, 1 TransactWriteItems, "
        "6 UpdateItem"),
    "a life of two steps and a sleep of a year":                           Taken( 10,   6,  0,  10,   3,  3,  554, 0,
        "1 BatchGetItem, 2 GetItem, 5 PutItem, 2 SendMessage, 1 SendMessageBatch, 1 TransactWriteItems, "
        "7 UpdateItem"),
    "a parent of 8 children, and these":                                   Taken( 71,  44, 32,  36,  48, 27,  642, 0,
        "13 BatchGetItem, 11 GetItem, 35 PutItem, 1 Query, 17 SendMessage, 3 SendMessageBatch, "
        "9 TransactWriteItems, 44 UpdateItem"),
    "a parent of 16 children, and these":                                  Taken(139,  84, 64,  68, 108, 55,  642, 0,
        "29 BatchGetItem, 27 GetItem, 67 PutItem, 1 Query, 33 SendMessage, 11 SendMessageBatch, "
        "17 TransactWriteItems, 88 UpdateItem"),
    "a parent of 24 children, and these":                                  Taken(207, 124, 96, 100, 168, 83,  642, 0,
        "45 BatchGetItem, 43 GetItem, 99 PutItem, 1 Query, 49 SendMessage, 19 SendMessageBatch, "
        "25 TransactWriteItems, 132 UpdateItem"),
    "a thousand children at once, handed out and cancelled":               Taken(  8,  19,  0,   6,  21, 43,  620, 0,
        "2 BatchGetItem, 4 GetItem, 5 PutItem, 1 SendMessage, 6 SendMessageBatch, 7 UpdateItem"),
    "ten steps, with all that can go wrong on the way to a dead letter":   Taken(102,  36,  0,  14,  53, 13, 1069, 1,
        "6 BatchGetItem, 47 GetItem, 2 GetQueueAttributes, 35 PutItem, 1 Query, 13 SendMessage, "
        "1 TransactWriteItems, 97 UpdateItem"),
    "a retry by an operator, to the end of ten steps":                     Taken(  8,   3,  0,   5,   3,  1, 1172, 1,
        "2 BatchGetItem, 1 GetItem, 1 PutItem, 1 SendMessage, 1 TransactWriteItems, 4 UpdateItem"),
    "ten steps, and their purge":                                          Taken( 24,  25,  0,  10,  14, 10,  956, 0,
        "1 BatchWriteItem, 1 DeleteItem, 14 GetItem, 11 PutItem, 2 Query, 10 SendMessage, 1 TransactWriteItems, "
        "21 UpdateItem"),
    "five steps of ten, cancelled and undone":                             Taken( 25,  13,  0,   5,  12, 13, 1012, 0,
        "1 BatchGetItem, 11 GetItem, 14 PutItem, 13 SendMessage, 24 UpdateItem"),
    "ten steps, and their undos":                                          Taken( 50,  21,  0,   5,  10, 19, 1077, 6,
        "10 GetItem, 22 PutItem, 19 SendMessage, 39 UpdateItem"),
}
# fmt: on
"""What each trip takes, by its name."""


def life(steps: int) -> Taken:
    """Return what a saga takes whose steps succeed at once."""
    between = [TRIPS["a step"]] * (steps - 1)
    return reduce(Taken.__add__, between, TRIPS["a start"]) + TRIPS["the last step"]


STEP_GIGABYTES, STEP_SECONDS, API_GIGABYTES, API_SECONDS = 0.25, 0.05, 0.5, 0.1
"""What a step and a call of the API are taken to last, on arm64."""
CALL = prices.REST_CALL + prices.INVOCATION + API_SECONDS * API_GIGABYTES * prices.GIGABYTE_SECOND_ARM
"""USD of a million calls of the API, and the function behind it."""


def usd_with_api(steps: int) -> float:
    """Return what a million sagas cost whose steps succeed at once, with the API call that starts them."""
    step = prices.INVOCATION + STEP_SECONDS * STEP_GIGABYTES * prices.GIGABYTE_SECOND_ARM
    return CALL + life(steps).usd + steps * step
