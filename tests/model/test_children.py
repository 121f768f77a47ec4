"""A parent with two children as a model of explicit states: starters, looks, ends of children and a cancel, in every
order.

As ``test_waits`` it came before the code: the design's conditions were tried here first. Each mistake in ``MISTAKES``
leaves one of them out, and is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.model.search import search

CHILDREN = 2
Rules = frozenset[str]


class Child(NamedTuple):
    """One position: what is stored of it.

    Args:
        slot: the first slot of its journal: vacant, ``start`` or ``never``.
        status: of its control item; empty while there is none.
        cancel: a cancel was accepted.
        ordered: its parent ordered its undo, and that has not begun.
        lost: that order was a message, and is gone.
        joins: joins of it that are still to be written; only where they are apart from its end.
        forward, undo: its outcomes in either phase.
    """

    slot: str = ""
    status: str = ""
    cancel: bool = False
    ordered: bool = False
    lost: bool = False
    joins: tuple[str, ...] = ()
    forward: str = ""
    undo: str = ""


class World(NamedTuple):
    """What is stored, and who is at what.

    Args:
        parent: ``waits``, ``turned`` (is being undone), ``completed`` or ``compensated``.
        reserved: how many positions were given to starters.
        ended, undone: what the counters say.
        starters: for each position what its starters are at: ``slot`` or ``control``.
    """

    parent: str = "waits"
    reserved: int = 0
    ended: int = 0
    undone: int = 0
    children: tuple[Child, ...] = (Child(),) * CHILDREN
    starters: tuple[tuple[str, ...], ...] = ((),) * CHILDREN
    deaths: int = 2


STANDING = ("done",)
ENDED = ("done", "undone")


def moves(at: World, off: Rules) -> Iterator[tuple[str, World]]:
    """Everything that can happen next. ``off``: the rules that are left out."""
    yield from _looked(at, off)
    for place in range(CHILDREN):
        yield from ((f"{what} {place}", after) for what, after in _started(at, place))
        yield from ((f"{what} {place}", after) for what, after in _lived(at, place, off))
    if at.parent == "waits":
        yield "cancel", at._replace(parent="turned")


def _with(at: World, place: int, child: Child) -> World:
    return at._replace(children=(*at.children[:place], child, *at.children[place + 1 :]))


def _starting(at: World, place: int, *tasks: str) -> World:
    return at._replace(starters=(*at.starters[:place], tasks, *at.starters[place + 1 :]))


def _joined(at: World, place: int, phase: str, how: str, off: Rules) -> World:
    """Add an outcome: once, unless that rule is left out."""
    child = at.children[place]
    if getattr(child, phase) and "an outcome is written once" not in off:
        return at
    counted = at._replace(ended=at.ended + 1) if phase == "forward" else at._replace(undone=at.undone + 1)
    return _with(counted, place, child._replace(**{phase: how}))


def _started(at: World, place: int) -> Iterator[tuple[str, World]]:
    """What a starter does next; it may pause for as long as it likes, and die."""
    tasks, child = at.starters[place], at.children[place]
    if not tasks:
        return
    first, rest = tasks[0], tasks[1:]
    if first == "slot" and child.slot == "never":
        yield "start stops", _starting(at, place, *rest)
    elif first == "slot":
        yield "slot", _starting(_with(at, place, child._replace(slot="start")), place, "control", *rest)
    else:
        made = child if child.status else child._replace(status="runs")
        yield "control", _starting(_with(at, place, made), place, *rest)
    if at.deaths:
        yield "starter dies", _starting(at, place, *rest)._replace(deaths=at.deaths - 1)


def _ended(at: World, place: int, child: Child, how: str, off: Rules, phase: str = "forward") -> World:
    """A child is over: that it joins is part of the same write."""
    if "the join is in the transaction" in off:
        return _with(at, place, child._replace(status=how, joins=(*child.joins, phase)))
    return _joined(_with(at, place, child._replace(status=how)), place, phase, how, off)


def _lived(at: World, place: int, off: Rules) -> Iterator[tuple[str, World]]:
    child = at.children[place]
    if child.status == "runs":
        yield (
            "completes" if not child.cancel else "is undone",
            _ended(at, place, child, "undone" if child.cancel else "done", off),
        )
        if not child.cancel:
            yield "fails", _ended(at, place, child, "undone", off)
    if child.status == "done" and child.ordered and not child.lost:
        yield "turns", _ended(at, place, child._replace(ordered=False), "undone", off, "undo")
    if child.status == "done":
        yield "operator undoes", _ended(at, place, child, "undone", off, "undo" if child.ordered else "forward")
    if child.ordered and not child.lost and "an order is a flag" in off:
        yield "order is lost", _with(at, place, child._replace(lost=True))
    if child.joins:
        rest = child.joins[1:]
        joined = _with(at, place, child._replace(joins=rest))
        yield "joins", _joined(joined, place, child.joins[0], child.status, off)
        if at.deaths:
            yield "join dies", joined._replace(deaths=at.deaths - 1)


def _looked(at: World, off: Rules) -> Iterator[tuple[str, World]]:
    """What the function that looks after the parent does next. Two may run at once: each of these is one request."""
    if (at.parent == "waits" or "only a parent that waits reserves" in off) and at.reserved < CHILDREN:
        yield "reserve", _starting(at._replace(reserved=at.reserved + 1), at.reserved, "slot")
    if at.parent == "waits":
        for place in range(at.reserved):
            if not at.children[place].status and not at.starters[place]:
                yield f"continue {place}", _starting(at, place, "slot")
        if at.ended >= CHILDREN and all(child.forward == "done" for child in at.children):
            yield "join", at._replace(parent="completed")
        elif at.ended >= CHILDREN:
            yield "join fails", at._replace(parent="turned")
    if at.parent == "turned":
        for place in range(at.reserved):
            yield from ((f"{what} {place}", after) for what, after in _closed(at, place, off))
        closed = all(at.children[place].forward or _passed_over(at, place, off) for place in range(at.reserved))
        if at.ended >= at.reserved or closed:
            yield from _undone(at, off)


def _passed_over(at: World, place: int, off: Rules) -> bool:
    child = at.children[place]
    if "a vacant slot is closed" in off and not child.slot:
        return True
    return "a start that is found is completed" in off and child.slot == "start" and not child.status


def _closed(at: World, place: int, off: Rules) -> Iterator[tuple[str, World]]:
    child = at.children[place]
    if not child.slot:
        if "a vacant slot is closed" not in off:
            yield "close", _joined(_with(at, place, child._replace(slot="never")), place, "forward", "never", off)
    elif child.slot == "never" and not child.forward:
        yield "close again", _joined(at, place, "forward", "never", off)
    elif child.slot == "start" and not child.status:
        if "a start that is found is completed" not in off:
            yield "complete and cancel", _with(at, place, child._replace(status="runs", cancel=True))
    elif child.status == "runs" and not child.cancel:
        yield "order cancel", _with(at, place, child._replace(cancel=True))


def _undone(at: World, off: Rules) -> Iterator[tuple[str, World]]:
    """All are over in the forward phase: order what stands to be undone, and end when all of it is."""
    standing = [place for place in range(at.reserved) if at.children[place].forward == "done"]
    for place in standing:
        child = at.children[place]
        if child.status == "done" and not child.ordered and not child.undo and not child.lost:
            yield f"order {place}", _with(at, place, child._replace(ordered=True))
        if child.status == "undone" and not child.undo and not child.joins:
            yield f"record {place}", _joined(at, place, "undo", "undone", off)
    if at.undone >= len(standing):
        yield "undone", at._replace(parent="compensated")


def wrong(at: World) -> str:
    """What is wrong at a moment; empty if nothing is."""
    if at.parent in ("completed", "compensated"):
        for place, child in enumerate(at.children):
            if child.status == "runs" or (at.parent == "completed" and child.forward != "done"):
                return f"the parent is {at.parent}, and child {place} is {child.status or 'not there'}"
            if at.parent == "compensated" and child.status == "done":
                return f"the parent is compensated, and child {place} stands"
    if at.ended > at.reserved or at.undone > at.ended:
        return "an end was counted twice"
    return ""


def explore(off: Rules = frozenset()) -> tuple[int, str]:
    """Go through every order; return how many moments there are, and the first thing that is wrong."""

    def wrong_at(at: World, coming: list[str]) -> str:
        # A caller may never cancel, and an operator never undo.
        rests = all(one.startswith(("cancel", "operator")) for one in coming)
        stuck = rests and at.parent in ("waits", "turned")
        return wrong(at) or ("the parent waits, and nothing comes any more" if stuck else "")

    return search(World(), lambda at: (move for move in moves(at, off) if move[1] != at), wrong_at)


def test_every_order_of_starts_ends_looks_and_a_cancel_is_right() -> None:
    moments, found = explore()
    assert found == ""
    assert moments > 1_000


MISTAKES = (
    "a vacant slot is closed",
    "a start that is found is completed",
    "the join is in the transaction",
    "an outcome is written once",
    "only a parent that waits reserves",
    "an order is a flag",
)


@pytest.mark.parametrize("rule", MISTAKES)
def test_leaving_a_rule_out_is_noticed(rule: str) -> None:
    _, found = explore(frozenset({rule}))
    assert found
