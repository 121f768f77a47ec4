"""What must hold under amount. Amounts and rates are scaled down by one factor; times are as they are."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from botocore.exceptions import ClientError

from sagas.aws import code_of
from sagas.core.ids import id_for_key
from sagas.messaging.work import BULK, NOW
from sagas.testing.expressions import Item
from sagas.testing.faults import ProcessDied
from tests.load.cloud import Cloud, away, contended, throttled
from tests.load.sagas import PARTS, Asked, Five, Held, Parked, Part, Sleeping, Slow, Stage, Whole
from tests.load.simulation import Simulation

MINUTE = 60.0
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Told:
    """What became of a story.

    Args:
        sagas: how many there were.
        factor: by which amounts and rates were scaled down.
        statuses: what the sagas came to first: an end, or an operator.
        most_sent_anew: how often the supervisor sent one saga's message again, at most.
        sent_anew: how often for all of them.
        attention: sagas that need a person.
        stalls: messages that counted as lost.
        over_after: virtual seconds until the last came to that.
        slowest: the time from start to end that all but one in a hundred stay below, in seconds.
        invocations: of all functions.
        dead: dead letters.
        took: seconds that the simulation took.
        more: what else the story measures.
    """

    sagas: int
    factor: float
    statuses: Counter[str]
    most_sent_anew: int
    sent_anew: int
    attention: int
    stalls: int
    over_after: float
    slowest: float
    invocations: int
    dead: int
    took: float
    more: dict[str, float] = field(default_factory=dict[str, float])


class _Play:
    """One service, sagas that are started at given times, and what is counted."""

    def __init__(
        self,
        saga_class: type[Any],
        concurrency: int,
        starts: list[float],
        seed: int = 1,
        bulk: int = 10,
        *,
        kin: tuple[type[Any], ...] = (),
        now: int = 20,
        chained: bool = False,
    ) -> None:
        self.simulation = Simulation(seed)
        self.cloud = Cloud(self.simulation, saga_class, concurrency, kin=kin, bulk=bulk, now=now, chained=chained)
        self.starts = starts
        self.more: dict[str, float] = {}

    def now(self) -> float:
        """Virtual seconds since the beginning."""
        return self.simulation.now() - self.simulation.began

    def perform(self, seconds: Callable[[str], float]) -> None:
        """Have each execution of a step take that long; what the function raises, it raises."""

        def take(name: str) -> None:
            self.simulation.sleep(seconds(name))

        Stage.perform = staticmethod(take)

    def run(self, factor: float, limit: float, until: Callable[[], bool] | None = None) -> Told:
        """Play it to its end."""
        cloud, began = self.cloud, time.monotonic()
        count = len(self.starts)
        for number, at in enumerate(self.starts):
            self.simulation.after(at, lambda number=number: cloud.start(number))
        with cloud.installed():
            self.simulation.run(until or (lambda: len(cloud.ended) == count), limit)
        lasted = sorted(cloud.ended.values())
        times = sorted(end - start for end, start in zip(lasted, self.starts, strict=False))
        return Told(
            sagas=count,
            factor=factor,
            statuses=cloud.statuses,
            most_sent_anew=max(cloud.sent_anew.values(), default=0),
            sent_anew=cloud.sent_anew.total(),
            attention=cloud.attention,
            stalls=cloud.stalls,
            over_after=max(lasted, default=0.0),
            slowest=times[int(len(times) * 0.99) - 1] if times else 0.0,
            invocations=cloud.invocations.total(),
            dead=sum(len(lane.dead) for lane in cloud.lanes.values()),
            took=time.monotonic() - began,
            more=self.more,
        )


def burst(sagas: int = 2_000, concurrency: int = 2, *, miscounts: bool = False) -> Told:
    """A burst on a step that takes ten seconds and has few executions: a line of hours, and nothing wrong. Maybe but
    the counts of its messages, which lag a minute; one in ten is zero."""
    play = _Play(Slow, concurrency, [0.0] * sagas)
    play.perform(lambda name: 10.0 if name == "work" else 0.05)
    if miscounts:
        play.cloud.miscount()
    return play.run(100_000 / sagas, limit=sagas * 10 / concurrency + 2 * HOUR)


def without_a_function(
    *queues: str,
    saga_class: type[Any] = Five,
    kin: tuple[type[Any], ...] = (),
    sagas: int = 60,
    redriven: bool = False,
    miscounts: bool = False,
) -> Told:
    """For twelve hours some functions cannot run: their code is broken, then they have no executions. Sagas start
    before, meanwhile and after. Then the dead letters are redriven, or the supervisor is on its own."""
    began, ended = MINUTE, MINUTE + 12 * HOUR
    play = _Play(saga_class, 20, [number * 13 * HOUR / sagas for number in range(sagas)], kin=kin)
    play.perform(lambda name: 2.0)
    cloud = play.cloud
    cloud.broken = lambda queue: queue in queues and began <= play.now() < began + 6 * HOUR
    cloud.throttled = lambda queue: queue in queues and began + 6 * HOUR <= play.now() < ended
    if miscounts:
        cloud.miscount()

    def end() -> None:
        play.more["dead letters in the end"] = sum(len(lane.dead) for lane in cloud.lanes.values())
        play.more["needed a person in the end"] = cloud.attention
        if redriven:
            cloud.redrive()

    play.simulation.after(ended, end)
    count = sagas * (PARTS + 1 if kin else 1)
    told = play.run(1.0, limit=ended + 8 * HOUR, until=lambda: len(cloud.ended) == count)
    service, starts = cloud.settings.service, enumerate(play.starts)
    before = [id_for_key(service, cloud.name, f"order-{number}") for number, at in starts if at < ended]
    told.more["minutes until those that had started ended"] = (max(cloud.ended[one] for one in before) - ended) / MINUTE
    return told


def steady(rate: float = 10.0, seconds: float = 5 * MINUTE, *, chained: bool = False) -> Told:
    """Five steps of 200 ms; one execution in a hundred fails, and one in a thousand dies."""
    play = _Play(Five, 20, [number / rate for number in range(int(rate * seconds))], chained=chained)
    chance = play.simulation.chance

    def work(name: str) -> float:
        if chance() < 0.001:
            raise ProcessDied
        if chance() < 0.01:
            raise RuntimeError("fails")
        return 0.2

    play.perform(work)
    return play.run(2_000 / rate, limit=seconds + HOUR)


def throttling(rate: float = 5.0, seconds: float = 15 * MINUTE) -> Told:
    """DynamoDB throttles half of all writes for five minutes."""
    play = _Play(Five, 20, [number / rate for number in range(int(rate * seconds))])
    play.perform(lambda name: 0.2)

    def refuse(operation: str) -> Exception | None:
        writes = operation in ("PutItem", "UpdateItem", "TransactWriteItems")
        hit = 5 * MINUTE <= play.now() < 10 * MINUTE and writes and play.simulation.chance() < 0.5
        return throttled(operation) if hit else None

    play.cloud.refuse = refuse
    told = play.run(500 / rate, limit=seconds + HOUR)
    late = [end for end in play.cloud.ended.values() if end > 15 * MINUTE + 10]
    told.more["ended more than 10 s after the last start"] = len(late)
    return told


def hot_partitions(rate: float = 4.0, seconds: float = MINUTE, factor: float = 2_000.0) -> Told:
    """Eight thousand sagas a second, more than twice what the indexes' partitions take: of those there are eight by
    default, with a thousand writes a second each, and here two."""
    play = _Play(Five, 20, [number / rate for number in range(int(rate * seconds))])
    play.perform(lambda name: 0.2)
    play.cloud.tables.capacity = int(8 * 1_000 / factor / play.cloud.settings.shards)
    refused, answer = Counter[str](), play.cloud.tables.answer

    def count(operation: str, request: Item) -> Item:
        try:
            return answer(operation, request)
        except ClientError as error:
            refused[code_of(error)] += 1
            raise

    play.cloud.tables.answer = count
    told = play.run(factor, limit=seconds + HOUR)
    told.more["writes refused"] = refused["ThrottlingException"]
    told.more["transactions refused"] = refused["TransactionCanceledException"]
    told.more["attempts that failed"] = play.cloud.entries["StepFailed"] + play.cloud.entries["StepLost"]
    return told


def outage(sagas: int = 200) -> Told:
    """DynamoDB is away for an hour with sagas in flight, half of whose messages are lost."""
    play = _Play(Five, 20, [number * 0.1 for number in range(sagas)])
    play.perform(lambda name: 4.0 if name == "a" else 0.2)
    begins, ends = sagas * 0.1, sagas * 0.1 + HOUR  # five in six still wait for the first step

    def refuse(operation: str) -> Exception | None:
        return away() if begins <= play.now() < ends else None

    def lose() -> None:
        for lane in play.cloud.lanes.values():
            for letter in list(lane.letters.values()):
                if play.simulation.chance() < 0.5:
                    letter.gone = True
                    del lane.letters[letter.message_id]

    play.cloud.refuse = refuse
    play.simulation.after(begins + 60, lose)
    told = play.run(1_000_000 / sagas, limit=ends + 3 * HOUR)
    told.more["minutes from the end of the outage to the last end"] = (told.over_after - ends) / MINUTE
    return told


def lost_messages(sagas: int = 500) -> Told:
    """All messages of many sagas are lost at once. Ten workers recover a million; here it is one with fewer, and each
    request of it takes as much longer: 9 ms, of which 3 are the client's at 1,024 MB."""
    factor = 1_000_000 / sagas
    play = _Play(Five, 20, [0.0] * sagas, bulk=1)
    play.cloud.bulk_request = 0.009 * factor / 10
    play.perform(lambda name: 0.2 if play.now() > MINUTE else 10.0)

    def lose() -> None:
        for name, lane in play.cloud.lanes.items():
            for letter in list(lane.letters.values()) if name != BULK else ():
                letter.gone = True
                del lane.letters[letter.message_id]

    play.simulation.after(5, lose)
    told = play.run(factor, limit=4 * HOUR)
    told.more["recovered a second, unscaled"] = told.sent_anew * factor / (told.over_after - 4 * MINUTE)
    told.more["messages to recover them"] = play.cloud.invocations[BULK]
    return told


def timers(sagas: int = 1_000) -> Told:
    """A hundred thousand sagas wake in the same second. Twenty executions end their waits; here it is one with fewer,
    and each request of it takes as much longer: 9 ms."""
    factor = 100_000 / sagas
    play = _Play(Sleeping, 20, [0.0] * sagas, now=1)
    play.simulation.after(HOUR / 2, lambda: setattr(play.cloud, "bulk_request", 0.009 * factor / 20))
    play.perform(lambda name: 0.05)
    told = play.run(factor, limit=3 * HOUR)
    told.more["seconds from their time to the last on its way"] = told.over_after - HOUR
    return told


def signals(sagas: int = 1_000) -> Told:
    """A hundred thousand sagas wait for an answer each, which come within five minutes, one in twenty of them twice.
    Twenty executions end their waits; here it is one, as for :func:`timers`."""
    factor = 100_000 / sagas
    play = _Play(Asked, 20, [0.0] * sagas, now=1)
    play.simulation.after(MINUTE, lambda: setattr(play.cloud, "bulk_request", 0.009 * factor / 20))
    play.perform(lambda name: 0.05)
    told = Counter[bool]()

    def take(accepted: bool) -> None:
        told[accepted] += 1

    sent = 0
    for number in range(sagas):
        for _ in range(2 if play.simulation.chance() < 0.05 else 1):
            at = 2 * MINUTE + play.simulation.chance() * 5 * MINUTE
            play.simulation.after(at, lambda number=number: play.cloud.signal(number, "answer", "yes", take))
            sent += 1
    done = play.run(factor, limit=HOUR, until=lambda: len(play.cloud.ended) == sagas and told.total() == sent)
    done.more["signals sent"], done.more["signals taken"] = sent, told[True]
    done.more["signals in journals"] = play.cloud.entries["SignalReceived"]
    done.more["seconds from the last signal to the last end"] = done.over_after - 7 * MINUTE
    return done


def families(parents: int = 10) -> Told:
    """A thousand parents of a hundred children each, all of which end within a minute; a third of all transactions meet
    another write, as where many children end at once."""
    play = _Play(Whole, 20, [0.0] * parents, kin=(Part,))
    play.perform(lambda name: 1.0 if name == "make" else 0.05)

    def refuse(operation: str) -> Exception | None:
        hit = operation == "TransactWriteItems" and play.simulation.chance() < 1 / 3
        return contended(operation) if hit else None

    play.cloud.refuse = refuse
    told = play.run(1_000 / parents, HOUR, until=lambda: len(play.cloud.ended) == parents * (PARTS + 1))
    told.more["children"] = parents * PARTS
    told.more["joins taken"] = play.cloud.entries["ChildrenEnded"]
    told.more["attempts that failed"] = play.cloud.entries["StepFailed"] + play.cloud.entries["StepLost"]
    return told


def broken_dependency(sagas: int = 500) -> Told:
    """All wait behind a breaker while another service is down for an hour."""
    play = _Play(Held, 20, [number * 0.2 for number in range(sagas)])
    looks = Counter[str]()

    def work(name: str) -> float:
        looks["ran"] += 1
        if play.now() < HOUR:
            raise RuntimeError("out of reach")
        return 0.05

    play.perform(work)
    told = play.run(200_000 / sagas, limit=3 * HOUR)
    told.more["looks a saga"] = (told.invocations - play.cloud.invocations[BULK] - looks["ran"]) / sagas
    told.more["minutes from its return to the last end"] = (told.over_after - HOUR) / MINUTE
    return told


def dead_lettered(rate: float = 2.0, seconds: float = 10 * MINUTE) -> Told:
    """A dependency is down, and each saga goes to the dead letters; then all of them are redriven."""
    count = int(rate * seconds)
    play = _Play(Parked, 20, [number / rate for number in range(count)])

    def work(name: str) -> float:
        if play.now() < seconds + 60:
            raise RuntimeError("out of reach")
        return 0.05

    play.perform(work)
    lanes = play.cloud.lanes.values()

    def redrive() -> None:
        play.more["dead letters"] = sum(len(lane.dead) for lane in lanes)
        play.cloud.redrive()

    play.simulation.after(seconds + 2 * MINUTE, redrive)

    def over() -> bool:
        return play.cloud.entries["StepCompleted"] == count

    return play.run(500 / rate, limit=seconds + HOUR, until=over)


STORIES: dict[str, Callable[[], Told]] = {
    "a burst on a slow step": burst,
    "a burst on a slow step, counts late and wrong": partial(burst, miscounts=True),
    "twelve hours without a step's function": partial(without_a_function, "five-b", miscounts=True),
    "twelve hours without it, and a redrive": partial(without_a_function, "five-b", redriven=True),
    "twelve hours without what ends waits": partial(without_a_function, NOW, saga_class=Sleeping),
    "twelve hours without what works for the supervisor": partial(without_a_function, BULK, "five-b"),
    "twelve hours without all of these": partial(
        without_a_function, *(BULK, NOW, "sleeping-wake"), saga_class=Sleeping
    ),
    "a steady load": steady,
    "a steady load, chained": partial(steady, chained=True),
    "DynamoDB throttles half of all writes": throttling,
    "partitions of indexes that take no more": hot_partitions,
    "an outage of an hour, half of the messages lost": outage,
    "all messages of a million sagas lost": lost_messages,
    "timers that end in the same second": timers,
    "signals for all that wait": signals,
    "parents whose children end in a minute": families,
    "a breaker that is open for an hour": broken_dependency,
    "a dependency that is down, and a redrive": dead_lettered,
}
