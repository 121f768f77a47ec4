"""A saga of one release under the code of another: it does what it would have done, or waits, as the rules say.

A definition is data, and so is a pair of releases: :mod:`tests.model.pairs`.
"""

from __future__ import annotations

import random

import pytest

from tests.model.pairs import Life, Oracle, Release, Script, of_two_steps, scripts
from tests.support.hostile import FULL

ACTS = 7
"""A saga of two steps does at most so many acts before its last delivery."""
MOST_LOOKS = 10
"""Looks at a saga that waits for a release, in a quarter of an hour."""


def wrong(old: Release, new: Release, script: Script) -> str:
    """What is wrong with a saga; empty if nothing is."""
    life = Life.begin(old, new, script)
    found = life.run()
    oracle = Oracle(life)
    for retried in (False, True):
        status = oracle.retried() if retried else oracle.foretell()
        if found or (life.acts, life.state.status) != (oracle.acts, status):
            return found or f"{life.state.status} after {life.acts}; not {status} after {oracle.acts}"
        if retried or status not in ("DEAD_LETTERED", "COMPENSATION_FAILED"):
            break
        found = life.retry()
    if life.settled is not oracle.waited and life.cancelled_at < 0:
        return f"it waited for a release: {life.settled}"
    if life.looks > MOST_LOOKS:
        return f"{life.looks} looks in vain"
    return _overlooked(old, life) or _against_the_old(old, life)


def _overlooked(old: Release, life: Life) -> str:
    """What is done and not undone, although the saga says that it is undone; what was undone twice."""
    undone = [act.index for act in life.acts if act.fact == "StepCompensated"]
    if len(undone) != len(set(undone)):
        return f"undone twice: {life.acts}"
    if life.state.status not in ("COMPENSATED", "CANCELLED"):
        return ""
    done = ("StepCompleted", "WaitEnded", "SignalReceived", "ChildrenStarted")
    owed = [act.index for act in life.acts if act.fact in done]
    missed = [old[index].name for index in owed if old[index].undo or old[index].kind == "children"]
    return ", ".join(name for name in missed if name not in {old[index].name for index in undone})


def _against_the_old(old: Release, life: Life) -> str:
    """Whether the saga ended as under the first release alone, unless it was cancelled at another moment."""
    if life.cancelled_at >= 0:
        return ""
    alone = Life.begin(old, old, life.script._replace(deploys=-1, cancels=-1))
    alone.run()
    return "" if alone.state.status == life.state.status else f"{life.state.status}, not {alone.state.status}"


def test_every_pair_of_two_steps() -> None:
    """All of them in the proof, a tenth in the gate."""
    chance, count = random.Random(12), 0
    for old, new in of_two_steps():
        for script in scripts(old, ACTS):
            if FULL or chance.random() < 0.1:
                count += 1
                assert wrong(old, new, script) == "", (old, new, script)
    assert count > 10_000
