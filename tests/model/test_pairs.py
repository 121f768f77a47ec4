"""A saga of one release under the code of another: it does what it would have done, or waits, as the rules say.

A definition is data, and so is a pair of releases: ``tests/model/pairs.py``. ``tests/model/oracle.py`` says beforehand
what the saga will do.
"""

from __future__ import annotations

import re
from itertools import islice
from random import Random

import pytest

from sagas.core.states import SagaStatus
from sagas.lock.content import blueprint_of
from sagas.lock.judging import Position, judge
from tests.model import pairs
from tests.model.lived import Life, alone, scripts, some_script
from tests.model.oracle import Oracle
from tests.model.pairs import Case, Release, definition, of_two_steps, some_pair
from tests.model.shrinking import refuse, smallest
from tests.support.hostile import FULL

MOST_LOOKS = 10
"""Looks at a saga that waits for a release, in a quarter of an hour."""


def wrong(case: Case) -> str:
    """What is wrong with a saga; empty if nothing is."""
    old, new, script = case[:3]
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
    if life.settled is not oracle.waited and life.cancelled_at < 0 and not script.mixed:
        return f"it waited for a release: {life.settled}"
    if life.looks > MOST_LOOKS * max(1, sum(1 for act in life.acts if act.error)):  # each undo waits alone
        return f"it was looked at {life.looks} times"
    steps = tuple(part for part in old if not part.retired)
    return _overlooked(steps, life) or _against_the_old(steps, life)


def _overlooked(steps: Release, life: Life) -> str:
    """What is done and not undone, although the saga says that it is undone; what was undone twice."""
    undone = [act.place for act in life.acts if act.fact == "StepCompensated"]
    if len(undone) != len(set(undone)):
        return f"undone twice: {life.acts}"
    if life.state.status not in ("COMPENSATED", "CANCELLED"):
        return ""
    done = ("StepCompleted", "WaitEnded", "SignalReceived", "ChildrenStarted")
    owed = [act.place for act in life.acts if act.fact in done]
    polled = [act.place for act in life.acts if act.fact == "StepPostponed" and act.place not in owed]
    doubted = [steps.index(part) for part in steps if part.name in life.state.in_doubt]
    missed = [place for place in owed if steps[place].undo or steps[place].kind == "children"]
    missed += [place for place in polled if steps[place].undo and place not in doubted]
    return ", ".join(steps[place].name for place in missed if place not in undone)


def _against_the_old(steps: Release, life: Life) -> str:
    """Whether the saga ended as under the first release alone, unless it was cancelled at another moment, or owes an
    undo that only the second release has."""
    _, status = alone(life.old, life.script.fails, life.script.signal)
    added = any(act.error and not steps[act.place].undo for act in life.acts if act.fact == "CompensationFailed")
    before, now = ({part.name: part.when for part in release} for release in (life.old, life.new))
    if life.cancelled_at >= 0 or added or status == life.state.status or before != now:
        return ""
    return f"{life.state.status}, not {status}"


def test_some_pairs_of_four_steps() -> None:
    """As authors edit them."""
    chance = Random(None if FULL else 12)  # noqa: S311 - it selects cases, and makes no secret
    for _ in range(100_000 if FULL else 1_500):
        old, new = some_pair(chance)
        refuse(Case(old, new, some_script(old, chance)), wrong)


_PARTS = 53
"""Of all pairs of two steps; a prime number, so that each part has all sorts."""


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, _PARTS if FULL else 6))]
)
def test_check_names_what_waits_and_nothing_else(part: int) -> None:
    """At each position at which a release may come: it stops sagas there if some of them would wait."""
    count = 0
    stopped = 0
    for old, new in islice(of_two_steps(), part, None, _PARTS):
        waited = dict[Position, bool]()
        for script in scripts(old):
            if script.back >= 0 or script.returns or script.mixed or script.keeps_new_undos:
                continue
            life = Life.begin(old, new, script)
            assert life.run() == ""
            if life.state.status is SagaStatus.COMPLETED:
                life.compensate()
            if life.before is None:  # it had ended
                continue
            steps = tuple(one.status for one in life.before.steps)
            at = Position(life.before.status, life.before.cursor, steps)
            waited[at] = waited.get(at, False) or life.settled or any(act.error for act in life.acts)
        for at, waits in waited.items():
            count += 1
            found = judge(blueprint_of(definition(old)), definition(new), at)
            assert any(finding.effect for finding in found) is waits, (old, new, at, found)
            stopped += waits
    assert 20 < stopped < count - 20


def test_what_is_wrong_is_made_small_and_printed_as_code() -> None:
    """And on the way there, whatever is tried is a pair of releases."""

    def a_step_now(case: Case) -> str:
        waits = {part.name for part in case.old if part.kind == "signal"}
        steps = {part.name for part in case.new if not part.kind}
        return wrong(case) or ("a wait is a step now" if waits & steps else "")

    chance = Random(12)  # noqa: S311 - it selects cases, and makes no secret
    cases = (Case(old, new, some_script(old, chance)) for old, new in (some_pair(chance) for _ in range(500)))
    large = next(case for case in cases if len(case.old) > 2 and a_step_now(case))
    case, found = smallest(large, a_step_now)
    with pytest.raises(AssertionError, match=re.escape(repr(case))):
        refuse(large, a_step_now)
    assert found == "a wait is a step now"
    assert [len(release) for release in case[:2]] == [1, 1]
    assert case == eval(repr(case), {**vars(pairs)})  # noqa: S307 - the code that was printed
