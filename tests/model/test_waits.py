"""A wait as a model of explicit states: asker, worker, signals, a cancel and time, in every order.

It is smaller than ``tests/interleavings``, which plays the real code, and came before it: the design's conditions were
tried here first. Each mistake in ``MISTAKES`` leaves one of them out, and is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.model.search import search

VALUES = ("yes", "no")


class Actor(NamedTuple):
    """Who looks after the saga.

    Args:
        at: ``look`` (has not read yet), ``write`` (holds the lease), ``commit`` (has put what to commit), ``gone``.
        token: its fencing token.
        fact: what it put.
        knows: what it has seen of flag and cancel.
    """

    at: str = "look"
    token: int = 0
    fact: str = ""
    knows: tuple[bool, bool] = (False, False)


class World(NamedTuple):
    """What is stored, and who is at what.

    Args:
        status: of the saga: asking, waiting, went on, timed out or turned round.
        journal: what is in the slots, committed or not: fact and token.
        seq: how many of them are committed.
        flag: the step is signalled.
        look_soon: it is due at once, whatever the wait's end.
        inbox: the value.
        answers: what each signaller was told.
        over_time: the wait's time has passed.
    """

    status: str = "asking"
    journal: tuple[tuple[str, int], ...] = ()
    seq: int = 0
    token: int = 1
    lease: int = 1
    flag: bool = False
    cancel: bool = False
    look_soon: bool = False
    inbox: str = ""
    answers: tuple[str, ...] = ("", "")
    over_time: bool = False
    deaths: int = 1
    actors: tuple[Actor, ...] = (Actor("write", 1), Actor(), Actor())


OPEN = ("asking", "waiting")
LEADS = {"WaitStarted": "waiting", "SignalReceived": "went on", "WaitTimedOut": "timed out", "Turned": "turned"}
Rules = frozenset[str]


def moves(at: World, off: Rules) -> Iterator[tuple[str, World]]:
    """Everything that can happen next. ``off``: the rules that are left out."""
    for number, actor in enumerate(at.actors):
        yield from ((f"{number} {what}", after) for what, after in _by_actor(at, number, actor, off))
    for number, value in enumerate(VALUES):
        if not at.answers[number]:
            yield f"signal {value}", _signalled(at, number, value, off)
    if at.inbox and "inbox and flag are one transaction" in off and not at.flag and at.status in OPEN and not at.cancel:
        yield "the flag follows", at._replace(flag=True, look_soon=at.status == "waiting")
    if not at.cancel and at.status in OPEN:
        yield "cancel", at._replace(cancel=True, look_soon=True)
    if at.status == "waiting" and not at.over_time:
        yield "time is over", at._replace(over_time=True)


def _signalled(at: World, number: int, value: str, off: Rules) -> World:
    answers = list(at.answers)
    takes = at.status in OPEN or "late signals are refused" in off
    if at.inbox:
        answers[number] = "same" if at.inbox == value else "refused"
    elif not takes or at.cancel:
        answers[number] = "refused"
    else:
        answers[number] = "accepted"
        flag = "inbox and flag are one transaction" not in off
        soon = at.look_soon or (at.status == "waiting" and flag and "a signal is due at once" not in off)
        return at._replace(inbox=value, flag=flag, look_soon=soon, answers=tuple(answers))
    return at._replace(answers=tuple(answers))


def _by_actor(at: World, number: int, actor: Actor, off: Rules) -> Iterator[tuple[str, World]]:
    def now(after: World, actor: Actor) -> World:
        actors = list(after.actors)
        actors[number] = actor
        return after._replace(actors=tuple(actors))

    if actor.at == "look":
        due = at.over_time or at.look_soon or at.lease
        holder_lives = any(other.at in ("write", "commit") and other.token == at.lease for other in at.actors)
        if at.status in (*OPEN,) and due and not holder_lives:
            token = at.token + 1
            held = at._replace(token=token, lease=token)
            yield "claims", now(held, Actor("write", token, "", (at.flag, at.cancel)))
    elif actor.at == "write":
        if at.deaths:
            yield "dies", now(at, actor._replace(at="gone"))._replace(deaths=at.deaths - 1)
        yield from ((what, now(after, then)) for what, after, then in _written(at, actor, off))
    elif actor.at == "commit":
        if at.deaths:
            yield "dies", now(at, actor._replace(at="gone"))._replace(deaths=at.deaths - 1)
        after, then = _committed(at, actor, off)
        yield "commits", now(after, then)


def _owed(at: World, actor: Actor) -> str:
    flag, cancel = actor.knows
    if at.status == "asking":
        return "WaitStarted"
    if flag:
        return "SignalReceived"
    if cancel:
        return "Turned"
    return "WaitTimedOut" if at.over_time else ""


def _written(at: World, actor: Actor, off: Rules) -> Iterator[tuple[str, World, Actor]]:
    """Put what is owed into the open slot, or adopt what is there; let go when nothing is owed."""
    if actor.token != at.token:
        yield "is fenced", at, actor._replace(at="gone")
        return
    if len(at.journal) > at.seq:  # a predecessor's
        yield "adopts", at, actor._replace(at="commit", fact=at.journal[at.seq][0])
        return
    fact = _owed(at, actor)
    if not fact:
        yield "lets go", at._replace(lease=0, look_soon=at.flag or at.cancel), actor._replace(at="look")
    elif fact == "WaitTimedOut" and "the timeout is one transaction" not in off:
        if at.flag or at.cancel:
            yield "is refused", at, actor._replace(knows=(at.flag, at.cancel))
        else:
            put = at._replace(journal=(*at.journal, (fact, actor.token)))
            after, then = _committed(put, actor._replace(fact=fact), off)
            yield "times out", after, then
    else:
        put = at._replace(journal=(*at.journal, (fact, actor.token)))
        yield f"puts {fact}", put, actor._replace(at="commit", fact=fact)


def _committed(at: World, actor: Actor, off: Rules) -> tuple[World, Actor]:
    if actor.token != at.token:
        return at, actor._replace(at="gone")
    minds = actor.fact in ("WaitStarted", "WaitTimedOut") and "commits mind the flag" not in off
    if (minds and at.flag and not actor.knows[0]) or (at.cancel and not actor.knows[1] and actor.fact != "Turned"):
        return at, actor._replace(knows=(at.flag, at.cancel))  # the same entry again, knowing
    after = at._replace(status=LEADS[actor.fact], seq=at.seq + 1)
    if after.status == "waiting":
        if any(actor.knows):
            return after, actor._replace(at="write", fact="")
        return after._replace(lease=0, look_soon=False), actor._replace(at="look", fact="")
    return after._replace(lease=0), actor._replace(at="gone")


def wrong(at: World) -> str:
    """What is wrong at a moment; empty if nothing is."""
    facts = [fact for fact, _ in at.journal[: at.seq]]
    ends = [fact for fact in facts if fact != "WaitStarted"]
    if len(ends) > 1:
        return f"it ends twice: {facts}"
    if "SignalReceived" in ends and not at.inbox:
        return "a signal was taken that nobody sent"
    if at.answers.count("accepted") > 1:
        return "two signals were accepted"
    if "WaitTimedOut" in ends and "accepted" in at.answers:
        return "a signal that was accepted is lost: the wait timed out"
    return ""


def wrong_rest(at: World) -> str:
    """What is wrong when nothing can happen any more."""
    if any(actor.at == "look" for actor in at.actors) and at.status in OPEN and (at.flag or at.cancel or at.over_time):
        return f"it is {at.status}, although it is signalled, cancelled or over time, and nobody looks"
    waits = any(actor.at == "look" for actor in at.actors)
    if "accepted" in at.answers and at.status != "went on" and not at.cancel and (waits or at.status not in OPEN):
        return f"a signal that was accepted is lost: the saga is {at.status}"
    return ""


def explore(off: Rules = frozenset()) -> tuple[int, str]:
    """Go through every order; return how many moments there are, and the first thing that is wrong."""

    def wrong_at(at: World, coming: list[str]) -> str:
        # A person may never signal or cancel, and the wait's end may be years away.
        alone = any(not one.startswith(("signal", "cancel", "the flag", "time")) for one in coming)
        return wrong(at) or ("" if alone else wrong_rest(at))

    return search(World(), lambda at: moves(at, off), wrong_at)


def test_every_order_of_signals_time_cancel_and_workers_is_right() -> None:
    moments, found = explore()
    assert found == ""
    assert moments > 1_000


MISTAKES = (
    "commits mind the flag",
    "the timeout is one transaction",
    "inbox and flag are one transaction",
    "late signals are refused",
    "a signal is due at once",
)


@pytest.mark.parametrize("rule", MISTAKES)
def test_leaving_a_rule_out_is_noticed(rule: str) -> None:
    _, found = explore(frozenset({rule}))
    assert found
