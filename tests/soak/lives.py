"""What a run starts: each saga's type, request and mood, and what people do to it. A pure function of the seed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sagas.core.ids import id_for_key
from tests.soak.work import SERVICE, Order

INITIALLY: Mapping[str, int] = {"book": 100_000, "lamp": 100_000, "chair": 100_000, "none": 0}
"""What is put in stock, by SKU."""

_SKUS = ("book", "lamp", "chair")
_ALWAYS = 99
_CANCELLED = 0.12
_LATEST_CANCEL = 3.0
_LATEST_SIGNAL = 2.0
_TWICE = 0.15
_OTHER_BODY = 0.02
_ANSWERED = 0.7
"""Of those that ask, how many get an answer."""

Ends = frozenset[str]
Case = tuple[dict[str, Any], str]
"""How an order misbehaves, and the status it leads to when nothing else goes wrong."""


@dataclass(frozen=True, slots=True)
class Life:
    """One saga of a run.

    Args:
        number: from 0.
        faulty: whether processes may die of their own, and faults strike.
        saga: its type.
        request: as JSON builtins.
        key: its idempotency key.
        starts: how often it is started, under the same key.
        other_body: whether it is also started under the same key with another body, which must be refused.
        cancel_after: seconds after its start at which a caller cancels it.
        signal_after: seconds after its start at which a caller answers what it asks.
        then: what an operator does when it waits for one: an operation of the API, ``redrive``, or nothing.
        ends: the statuses it may end in.
        when_disturbed: those it may end in besides, when executions are lost.
    """

    number: int
    faulty: bool
    saga: str
    request: dict[str, Any]
    key: str
    starts: int
    other_body: bool
    cancel_after: float | None
    signal_after: float | None
    then: str
    ends: Ends
    when_disturbed: Ends

    @property
    def saga_id(self) -> str:
        """The id that the key decides."""
        return id_for_key(SERVICE, self.saga, self.key)


@dataclass(frozen=True, slots=True)
class _Kind:
    """A saga type in a run: its share, how it misbehaves, what faults alone may lead to, who attends to it."""

    share: int
    cases: tuple[Case, ...]
    under_faults: Ends
    then: tuple[str, ...] = ("",)


def _fails(at: str, times: int, end: str = "COMPLETED") -> Case:
    return {"mood": "fail", "at": at, "times": times}, end


def _killed(at: str, times: int = 1) -> Case:
    return {"mood": "kill", "at": at, "times": times}, "COMPLETED"


def _permanent(at: str) -> Case:
    return {"mood": "permanent", "at": at, "times": _ALWAYS}, "COMPENSATED"


def _refused(step: str, **more: Any) -> Case:
    return {"refused": step, **more}, "COMPENSATED"


_CALM: Case = ({}, "COMPLETED")
_UNDONE: Ends = frozenset({"COMPENSATED"})
_HANGS: Case = ({"mood": "hang", "at": "reserve", "times": 1}, "COMPLETED")

_KINDS: dict[str, _Kind] = {
    "single": _Kind(
        18,
        (
            *[_CALM] * 8,
            _fails("reserve", 1),
            _fails("reserve", 3),
            _fails("reserve", _ALWAYS, "COMPENSATED"),
            _permanent("reserve"),
            _refused("reserve"),
            _killed("reserve"),
        ),
        _UNDONE,
    ),
    "trade": _Kind(
        26,
        (
            *[_CALM] * 9,
            _fails("reserve", 2),
            _fails("charge", 3),
            _fails("charge", _ALWAYS, "COMPENSATED"),
            _fails("reserve", _ALWAYS, "COMPENSATED"),
            _permanent("charge"),
            _refused("charge"),
            _refused("charge", mood="fail", at="release", times=2),
            _refused("charge", mood="kill", at="release", times=1),
            _killed("charge"),
        ),
        _UNDONE,
    ),
    "bulky": _Kind(
        14,
        (
            *[_CALM] * 6,
            _fails("charge", 1),
            _fails("pack", 1),
            _fails("reserve", 2),
            _permanent("charge"),
            _refused("reserve"),
            _killed("reserve"),
        ),
        _UNDONE,
    ),
    "journey": _Kind(
        14,
        (
            *[_CALM] * 6,
            _fails("label", 2),
            _fails("label", _ALWAYS, "COMPENSATED"),
            _fails("check", 1),
            _permanent("check"),
            _refused("announce"),
            _killed("announce"),
            _killed("label"),
        ),
        _UNDONE,
    ),
    "parked": _Kind(
        10,
        (
            *[_CALM] * 4,
            _fails("ask", 1),
            _fails("ask", 2, "DEAD_LETTERED"),
            _fails("ask", _ALWAYS, "DEAD_LETTERED"),
            _refused("ask"),
            _refused("charge"),
        ),
        frozenset({"COMPENSATED", "DEAD_LETTERED"}),
        ("", "retry", "redrive", "compensate", "cancel"),
    ),
    "halting": _Kind(
        10,
        (
            *[_CALM] * 4,
            _fails("ask", 2),
            _fails("ask", _ALWAYS, "FAILED"),
            _refused("ask"),
            _refused("ask", mood="fail", at="refund", times=2),
            ({"refused": "ask", "mood": "fail", "at": "refund", "times": 4}, "COMPENSATION_FAILED"),
        ),
        frozenset({"COMPENSATED", "FAILED", "COMPENSATION_FAILED"}),
        ("", "retry", "compensate", "resolve"),
    ),
    "asked": _Kind(
        10, (*[_CALM] * 4, _fails("charge", 1), _permanent("charge"), _refused("reserve"), _killed("charge")), _UNDONE
    ),
    "fleet": _Kind(
        8,
        (*[_CALM] * 3, _permanent("part"), _permanent("arrive"), _fails("arrive", 1), _killed("charge")),
        _UNDONE,
    ),
    "checkout": _Kind(8, (), _UNDONE),
}
_AFTERWARDS: dict[str, Ends] = {
    "retry": frozenset({"COMPLETED", "COMPENSATED"}),
    "redrive": frozenset({"COMPLETED"}),
    "compensate": frozenset({"COMPENSATED"}),
    "cancel": frozenset({"CANCELLED"}),
}
"""What an operator's deed may lead to."""


def lives(seed: int, many: int, *, faulty: bool) -> list[Life]:
    """Return what a run starts.

    Args:
        seed: decides everything.
        many: how many.
        faulty: whether processes may die of their own.
    """
    return [_life(seed, number, faulty) for number in range(many)]


def _life(seed: int, number: int, faulty: bool) -> Life:
    chance = random.Random(f"{seed}/{number}")  # noqa: S311 - what to start is no secret
    saga = chance.choices(list(_KINDS), [kind.share for kind in _KINDS.values()])[0]
    kind = _KINDS[saga]
    request, end = _checkout(chance, number) if saga == "checkout" else _order(chance, number, kind, faulty)
    then = chance.choice(kind.then)
    cancel_after = chance.uniform(0.0, _LATEST_CANCEL) if chance.random() < _CANCELLED else None
    ends, when_disturbed = {end, *_AFTERWARDS.get(then, ())}, kind.under_faults | {"COMPLETED"}
    signal_after = None
    if saga == "asked":  # an answer may come too late on a busy machine, and one that is not given cannot be taken
        signal_after = chance.uniform(0.0, _LATEST_SIGNAL) if chance.random() < _ANSWERED else None
        ends = ends | _UNDONE if signal_after is not None else {*_UNDONE}
        when_disturbed = when_disturbed if signal_after is not None else _UNDONE
    if cancel_after is not None:
        ends |= {"CANCELLED", "COMPENSATED"}
    return Life(
        number=number,
        faulty=faulty,
        saga=saga,
        request=request,
        key=f"soak-{seed}-{'faulty' if faulty else 'calm'}-{number}",
        starts=1 + (chance.random() < _TWICE) * chance.choice((1, 2)),
        other_body=chance.random() < _OTHER_BODY,
        cancel_after=cancel_after,
        signal_after=signal_after,
        then=then,
        ends=frozenset(ends),
        when_disturbed=when_disturbed,
    )


def _order(chance: random.Random, number: int, kind: _Kind, faulty: bool) -> Case:
    case, end = chance.choice(kind.cases)
    if faulty and chance.random() < 0.004 and kind is _KINDS["trade"]:
        case, end = _HANGS
    if not faulty and case.get("mood") == "kill":
        case = case | {"mood": "calm"}
    order = Order(number, chance.choice(_SKUS), chance.randint(1, 3), chance.randint(100, 99_999))
    return asdict(order) | case, end


def _checkout(chance: random.Random, number: int) -> Case:
    sku, card, country = chance.choice(_SKUS), "tok_visa", "CH"
    end = "COMPENSATED"
    match chance.randrange(8):
        case 0:
            sku = "none"
        case 1:
            card = "tok_declined"
        case 2:
            country = "XX"
        case _:
            end = "COMPLETED"
    address = {"name": "A", "street": "B", "postal_code": "C", "city": "D", "country": country}
    quantity, cents = chance.randint(1, 3), chance.randint(100, 99_999)
    items = [{"sku": sku, "quantity": quantity}, {"sku": _SKUS[number % 3], "quantity": 1}]
    amount = f"{cents // 100}.{cents % 100:02}"
    return {"order_id": str(number), "items": items, "card": card, "amount": amount, "address": address}, end
