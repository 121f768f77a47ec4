"""What is explored: for the gate in seconds each, for ``make proof`` in minutes."""

from __future__ import annotations

from tests.faults.sagas import Parked, Short, Started
from tests.interleavings.explorer import Story

_REFUSED = frozenset({"second"})
_ALWAYS = 9

SHORT: dict[str, Story] = {
    "two workers": Story(Short, {"duplicate": 1}),
    "two workers, undone": Story(Short, {"duplicate": 1}, reject=_REFUSED),
    "two workers, retried": Story(Short, {"duplicate": 1}, {"second": 1}),
    "two workers twice": Story(Short, {"duplicate": 2}),
    "a cancel": Story(Short, {"cancel": 1}),
    "a cancel, undone": Story(Short, {"cancel": 1}, reject=_REFUSED),
    "a cancel and a death": Story(Short, {"cancel": 1, "crash": 1, "switch": 1}),
    "a supervisor": Story(Short, {"visit": 1}),
    "a supervisor and a death": Story(Short, {"visit": 1, "crash": 1}),
    "two deaths": Story(Short, {"crash": 2}),
    "a death, exhausted": Story(Short, {"crash": 1}, {"second": _ALWAYS}),
    "a death, undone when started": Story(Started, {"crash": 1}, {"second": _ALWAYS}),
    "a pause": Story(Short, {"pause": 1}),
    "a pause, undone": Story(Short, {"pause": 1}, reject=_REFUSED),
    "two pauses": Story(Short, {"pause": 2}),
    "a pause and two workers": Story(Short, {"pause": 1, "duplicate": 1}),
    "a late request": Story(Short, {"late": 1, "visit": 1}),
    "a lost answer": Story(Short, {"lost": 1}),
    "a lost answer, undone": Story(Short, {"lost": 1}, reject=_REFUSED),
    "a repeated request": Story(Short, {"repeat": 1}, prompt=True),
    "a repeated request, undone": Story(Short, {"repeat": 1}, reject=_REFUSED),
    "an echo": Story(Short, {"echo": 1}),
    "an echo, undone": Story(Short, {"echo": 1}, reject=_REFUSED),
    "an outage and two workers": Story(Short, {"outage": 1, "duplicate": 1}),
    "two lost messages": Story(Short, {"loss": 2}),
    "an expired item": Story(Short, {"expiry": 1, "duplicate": 1}),
    "an expired item and a cancel": Story(Short, {"expiry": 1, "cancel": 1}),
    "dead letters redriven": Story(Parked, {"redrive": 1, "duplicate": 1}, {"second": 2}),
    "dead letters retried and redriven": Story(Parked, {"redrive": 1, "retry": 1}, {"second": 2}),
    "dead letters, given up": Story(Parked, {"compensate": 1, "crash": 1}, {"second": _ALWAYS}),
}
"""Complete: every order there is, by what happens."""

LONG: dict[str, Story] = {
    "two workers and a cancel": Story(Short, {"duplicate": 1, "cancel": 1}),
    "two workers and a cancel, undone": Story(Short, {"duplicate": 1, "cancel": 1}, reject=_REFUSED),
    "two workers and a supervisor": Story(Short, {"duplicate": 1, "visit": 1}),
    "two workers and a supervisor, undone": Story(Short, {"duplicate": 1, "visit": 1}, reject=_REFUSED),
    "two workers and a pause, undone": Story(Short, {"duplicate": 1, "pause": 1}, reject=_REFUSED),
    "two workers and a death": Story(Short, {"duplicate": 1, "crash": 1}),
    "a supervisor and a cancel": Story(Short, {"visit": 1, "cancel": 1, "switch": 3}),
    "a supervisor and a pause": Story(Short, {"visit": 1, "pause": 1}),
    "a cancel and a death, whenever": Story(Short, {"cancel": 1, "crash": 1}),
    "a cancel and two deaths": Story(Short, {"cancel": 1, "crash": 2, "switch": 2}),
    "a cancel and a pause": Story(Short, {"cancel": 1, "pause": 1}),
    "a cancel and two pauses": Story(Short, {"cancel": 1, "pause": 2, "switch": 1}),
    "a cancel, a supervisor and a death": Story(Short, {"cancel": 1, "visit": 1, "crash": 1, "switch": 1}),
    "two workers, a supervisor and a cancel": Story(Short, {"duplicate": 1, "visit": 1, "cancel": 1, "switch": 2}),
    "an echo and a cancel, undone": Story(Short, {"echo": 1, "cancel": 1}, reject=_REFUSED),
    "an outage and a cancel": Story(Short, {"outage": 1, "cancel": 1}),
    "a lost answer and a cancel": Story(Short, {"lost": 1, "cancel": 1}),
    "a lost answer and a death, undone": Story(Short, {"lost": 1, "crash": 1}, reject=_REFUSED),
    "dead letters, given up and cancelled": Story(Parked, {"compensate": 1, "cancel": 1}, {"second": _ALWAYS}),
    "dead letters, cancelled and redriven": Story(Parked, {"redrive": 1, "cancel": 1}, {"second": 2}),
}
"""Larger: complete but where ``switch`` bounds how often one process interrupts another."""

MISSED: dict[str, Story] = {
    "entries_overwrite": Story(Short, {"crash": 1}),
    "entries_not_adopted": Story(Short, {"crash": 1}),
    "commit_without_seq": Story(Short, {"lost": 1}, reject=_REFUSED),
    "commit_without_token_and_seq": Story(Short, {"lost": 1}, reject=_REFUSED),
    "operations_without_lease": Story(Short, {"crash": 1}),
    "takeover_without_fence": Story(Short, {"crash": 1}, reject=frozenset({"first"})),
    "undoing_does_not_wait": Story(Short, {"pause": 1, "cancel": 1}),
    "takeover_forgets_the_deadline": Story(Short, {"pause": 2, "cancel": 1, "switch": 1}),
    "attempts_not_counted": Story(Short, {"duplicate": 1}),
    "stale_messages_run": Story(Short, {"crash": 1, "visit": 1}),
    "nobody_recovers": Story(Short, {"loss": 1}),
    "own_claims_not_recognised": Story(Short, {"repeat": 1}, prompt=True),
    "own_commits_not_recognised": Story(Short, {"repeat": 1}, prompt=True),
    "own_entries_not_recognised": Story(Short, {"repeat": 1}, prompt=True),
    "lost_answers_count_as_success": Story(Short, {"lost": 1}),
    "doubt_is_silent": Story(Short, {"crash": 1}, {"second": _ALWAYS}),
    "the_end_in_two_writes": Story(Short, {"cancel": 1}),
    "commit_ignores_the_cancel": Story(Short, {"cancel": 1}),
    "items_created_by_updates": Story(Short, {"expiry": 1, "cancel": 1}),
}
"""Where it is noticed that a rule is off."""

STANDING_IN: dict[str, Story] = {
    "commit_without_token": Story(Short, {"pause": 1, "duplicate": 1}),
    "takeover_keeps_the_token": Story(Short, {"pause": 1, "duplicate": 1}),
}
"""Rules that another stands in for: alone they can be done without. A commit is held to its slot by ``seq`` as well,
and what is in the slot was written once, by whoever held the lease first; all who find it there commit the same.
"""
