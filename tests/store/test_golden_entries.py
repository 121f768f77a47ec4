"""What journal entries keep of each fact, to the byte: what is stored outlives the code that stored it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from sagas.core import events as ev
from sagas.core.states import DeadMessage
from sagas.store.journal.entries import Entry, details_of, fact_of

_FILE = Path(__file__).with_name("golden_entries.json")
_AT = 1_700_000_000.125
_BOOM = ev.Failure("RuntimeError", "boom")
FACTS: tuple[ev.Fact, ...] = (
    ev.StepCompleted(2, 1),
    ev.StepFailed(2, 1, _BOOM),
    ev.StepFailed(2, 3, _BOOM, permanent=True, rejected=True, retry_at=_AT, excused=True, outcome_unknown=True),
    ev.StepFailed(2, 1, _BOOM, postponed=True),
    ev.StepFailed(2, 1, _BOOM, permanent=True, excused=True, timed_out=True),
    ev.StepLost(2, 1),
    ev.StepSkipped(2, 0, "large() is false"),
    ev.StepDeadLettered(2, ev.DeadLetterCause.EXHAUSTED, DeadMessage(7, 3, "m-1")),
    ev.StepDeadLettered(2, ev.DeadLetterCause.CODE_MISSING, failure=_BOOM),
    ev.StepDeadLettered(2, ev.DeadLetterCause.EXHAUSTED),
    ev.CompensationStarted("cancel"),
    ev.StepCompensated(2, 1),
    ev.CompensationAttemptFailed(2, 1, _BOOM),
    ev.CompensationAttemptFailed(2, 1, _BOOM, _AT),
    ev.CompensationFailed(2, 1, _BOOM),
    ev.CancelRequested(),
    ev.SagaFailed(),
    ev.SagaRecovered(),
    ev.MessageResent(unanswered=3, attention=True),
    ev.SagaRecoveryExhausted(),
    ev.SagaRetried(),
    ev.SagaRetried("why"),
    ev.SagaResolved("done", "refunded", ("charge", "ship")),
    ev.WaitStarted(2, 1, _AT),
    ev.SignalReceived(2),
    ev.WaitTimedOut(2),
    ev.WaitEnded(2),
    ev.StepPostponed(2, 1, "the bank", 60.0, _AT, _AT - 60, 2),
    ev.CompensationPostponed(2, 1, "the bank", 60.0, _AT, _AT - 60, 2),
    ev.CompensationPostponed(2, 1, "not owed", 0.0, _AT, _AT, because=ev.NOT_OWED),
    ev.StepPostponed(2, 1, "it is text", 60.0, _AT, _AT - 60, because="release"),
    ev.StepPostponed(2, 1, "S3 GetObject: SlowDown", 5.0, _AT, _AT, because="inputs", code="inputs_unreachable"),
    ev.CompensationPostponed(
        2, 1, "s3:GetObject on s3://b/k", 5.0, _AT, _AT, because="inputs", code="no_right", key="k"
    ),
    ev.SagaTimedOut(),
    ev.ChildrenStarted(2, 1, 3, ("pay", "ship")),
    ev.ChildrenEnded(2, 3, 0),
    ev.ChildrenEnded(2, 1, 2, ev.Failure("ChildrenFailed", "2 of 3")),
)


def _entry(fact: ev.Fact) -> Entry:
    attempt = getattr(fact, "attempt", None)
    return Entry(
        "id", 5, _AT, "trip", fact.action, "RUNNING", 4, "pay", attempt, details=details_of(fact), salt="s" * 22
    )


def test_every_fact_is_here() -> None:
    known = {type(fact) for fact in FACTS}
    assert known == set(ev.FACTS.values()), f"add an example of each new fact to FACTS in {Path(__file__).name}"


def test_what_is_kept_of_each_has_not_changed() -> None:
    stored = [[repr(fact), json.dumps(details_of(fact)), _entry(fact).seal] for fact in FACTS]
    golden = json.loads(_FILE.read_text())
    new = "\n".join(json.dumps(line) for line in stored if line not in golden)
    assert stored == golden, (
        f"add the lines of new facts to {_FILE.name}, in the order of FACTS; the others must not change:\n{new}"
    )


def test_what_was_stored_before_there_were_reasons_is_a_wait_for_a_release() -> None:
    now = ev.StepPostponed(2, 1, "it is text", 60.0, _AT, _AT - 60, because="release")
    entry = _entry(now)
    before = {name: value for name, value in entry.details.items() if name != "because"}
    assert fact_of(replace(entry, details={**before, "settling": True}), 2) == now


@pytest.mark.parametrize("fact", FACTS, ids=repr)
def test_each_is_read_back_as_it_was(fact: ev.Fact) -> None:
    assert fact_of(_entry(fact), 2) == fact
