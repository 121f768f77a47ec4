"""What is explored: for the gate in a few seconds each, for ``make proof`` in minutes."""

from __future__ import annotations

from tests.faults.sagas import (
    Halting,
    Impatient,
    Parked,
    Plain,
    Rash,
    Retyped,
    Short,
    Started,
    StartedBriefly,
    Stuck,
    WithoutFirst,
    WithoutSecond,
    WithoutUndos,
)
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
    "a cancel and a death": Story(Short, {"cancel": 1, "crash": 1, "switch": 0}),
    "a supervisor": Story(Short, {"visit": 1}),
    "a supervisor and a death": Story(Short, {"visit": 1, "crash": 1, "switch": 0}),
    "two deaths": Story(Short, {"crash": 2}),
    "a death, exhausted": Story(Short, {"crash": 1}, {"second": _ALWAYS}),
    "a death, undone when started": Story(Started, {"crash": 1}, {"second": _ALWAYS}),
    "a pause": Story(Short, {"pause": 1}),
    "a pause, undone": Story(Short, {"pause": 1}, reject=_REFUSED),
    "two pauses": Story(Short, {"pause": 2, "switch": 1}),
    "a pause and two workers": Story(Short, {"pause": 1, "duplicate": 1, "switch": 0}),
    "a late request": Story(Short, {"late": 1, "visit": 1, "switch": 1}),
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
    "an expired item and a start": Story(Short, {"expiry": 1, "start": 2}),
    "a purge and a start": Story(Short, {"purge": 1, "start": 1}),
    "a purge, a start and a death": Story(Short, {"purge": 1, "start": 1, "crash": 1, "switch": 0}),
    "two purges": Story(Short, {"purge": 2, "crash": 1, "switch": 0}),
    "a purge and a lost answer": Story(Short, {"purge": 1, "lost": 1}, reject=_REFUSED),
    "a purge and a repeated request": Story(Short, {"purge": 1, "repeat": 1}),
    "a failed saga, purged or undone": Story(
        Halting, {"resolve": 1, "purge": 1, "compensate": 1, "switch": 2}, {"second": _ALWAYS}
    ),
    "dead letters redriven": Story(Parked, {"redrive": 1, "duplicate": 1}, {"second": 2}),
    "dead letters retried and redriven": Story(Parked, {"redrive": 1, "retry": 1}, {"second": 2}),
    "dead letters redriven, an echo": Story(Parked, {"redrive": 1, "echo": 1}, {"second": 2}),
    "dead letters redriven, a death": Story(Stuck, {"redrive": 1, "crash": 1}, {"second": 1}),
    "dead letters retried, a death": Story(Stuck, {"retry": 1, "crash": 1, "switch": 0}, {"second": 1}),
    "dead letters, given up": Story(Stuck, {"compensate": 1, "crash": 1, "switch": 0}, {"second": _ALWAYS}),
    "dead letters, cancelled": Story(Stuck, {"cancel": 1, "switch": 1}, {"second": _ALWAYS}),
    "undone when started, a pause": Story(StartedBriefly, {"pause": 1, "switch": 0}, {"second": _ALWAYS}),
    "a failed saga, undone": Story(Halting, {"compensate": 1, "crash": 1}, {"second": _ALWAYS}),
    "failed undos, retried": Story(Plain, {"retry": 1, "crash": 1}, {"undo_first": 1}, _REFUSED),
    "a duplicate and a loss": Story(Plain, {"duplicate": 1, "loss": 1}),
    "a lost answer and a pause": Story(Plain, {"lost": 1, "pause": 1, "switch": 0}),
    "losses beyond patience": Story(Impatient, {"loss": 3}),
    "losses beyond patience, undone": Story(Impatient, {"loss": 3}, reject=_REFUSED),
    "an impatient supervisor": Story(Rash, {"visit": 2}),
    "an impatient supervisor, undone": Story(Rash, {"visit": 2}, reject=_REFUSED),
    "a step's code is gone": Story(Plain, {"deploy": 1, "crash": 1}, other=WithoutFirst),
    "a step's code is gone, retried": Story(Plain, {"deploy": 1, "retry": 1, "crash": 1}, other=WithoutFirst),
    "a step's code is gone, cancelled": Story(Plain, {"deploy": 1, "cancel": 1, "switch": 1}, other=WithoutFirst),
    "the next step's code is gone": Story(Plain, {"deploy": 1, "crash": 1}, other=WithoutSecond),
    "the next step's code is gone, retried": Story(Plain, {"deploy": 1, "retry": 1}, other=WithoutSecond),
    "the next step's code is gone, given up": Story(Plain, {"deploy": 1, "compensate": 1}, other=WithoutSecond),
    "the next step's code is gone, cancelled": Story(
        Plain, {"deploy": 1, "cancel": 1, "switch": 1}, other=WithoutSecond
    ),
    "the next step's code is gone, messages too": Story(Plain, {"deploy": 1, "loss": 2}, other=WithoutSecond),
    "the next step's code is gone and comes back": Story(Plain, {"deploy": 2, "retry": 1}, other=WithoutSecond),
    "the undos' code is gone": Story(Plain, {"deploy": 1, "retry": 1, "crash": 1}, {}, _REFUSED, other=WithoutUndos),
    "the undos' code is gone and comes back": Story(
        Plain, {"deploy": 2, "retry": 1}, reject=_REFUSED, other=WithoutUndos
    ),
    "the undos' code is gone, cancelled": Story(Plain, {"deploy": 1, "cancel": 1, "switch": 1}, other=WithoutUndos),
    "a result does not fit": Story(Plain, {"deploy": 1, "crash": 1}, other=Retyped),
    "a result does not fit, retried": Story(Plain, {"deploy": 1, "retry": 1}, other=Retyped),
    "a result does not fit, given up": Story(Plain, {"deploy": 1, "compensate": 1}, other=Retyped),
    "a result does not fit, cancelled": Story(Plain, {"deploy": 1, "cancel": 1, "switch": 1}, other=Retyped),
    "a result does not fit, two workers": Story(Plain, {"deploy": 1, "duplicate": 1}, other=Retyped),
    "a result does not fit and does again": Story(Plain, {"deploy": 2, "retry": 1}, other=Retyped),
    "what an undo takes does not fit": Story(Plain, {"deploy": 1, "retry": 1}, reject=_REFUSED, other=Retyped),
}
"""Complete, but for those that ``switch`` bounds: every order there is, by what happens."""

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
    "a supervisor and a death, whenever": Story(Short, {"visit": 1, "crash": 1}),
    "two pauses, whenever": Story(Short, {"pause": 2}),
    "a pause and two workers, whenever": Story(Short, {"pause": 1, "duplicate": 1}),
    "a late request, whenever": Story(Short, {"late": 1, "visit": 1}),
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
    "dead letters, given up, a death": Story(Parked, {"compensate": 1, "crash": 1}, {"second": _ALWAYS}),
    "dead letters, given up, a pause": Story(Stuck, {"compensate": 1, "pause": 1}, {"second": _ALWAYS}),
    "dead letters, cancelled, a death": Story(Stuck, {"cancel": 1, "crash": 1, "switch": 1}, {"second": _ALWAYS}),
    "dead letters retried, a pause": Story(Stuck, {"retry": 1, "pause": 1}, {"second": 1}),
    "dead letters, everybody": Story(
        Stuck,
        {"crash": 1, "cancel": 1, "redrive": 1, "retry": 1, "compensate": 1, "switch": 0},
        {"second": _ALWAYS},
    ),
    "a failed saga, undone, a pause": Story(Halting, {"compensate": 1, "pause": 1}, {"second": _ALWAYS}),
    "failed undos, retried, a pause": Story(Plain, {"retry": 1, "pause": 1}, {"undo_first": 1}, _REFUSED),
    "undone when started, a pause, whenever": Story(StartedBriefly, {"pause": 1}, {"second": _ALWAYS}),
    "undone when started, cancelled": Story(
        StartedBriefly, {"crash": 1, "pause": 1, "cancel": 1, "switch": 0}, {"second": _ALWAYS}
    ),
    "an impatient supervisor and a pause": Story(Rash, {"visit": 2, "pause": 1, "switch": 0}),
    "an impatient supervisor and a cancel": Story(Rash, {"visit": 2, "cancel": 1, "switch": 0}),
    "losses, a pause and a cancel": Story(Plain, {"loss": 2, "pause": 1, "cancel": 1, "switch": 0}),
    "two deaths and a pause": Story(Plain, {"crash": 2, "pause": 1, "switch": 0}),
    "a death, a pause and a cancel": Story(Plain, {"crash": 1, "pause": 1, "cancel": 1, "switch": 0}),
    "a death, two workers and a cancel": Story(Plain, {"crash": 1, "duplicate": 1, "cancel": 1, "switch": 0}),
    "lost answers, a death and a cancel": Story(Plain, {"lost": 1, "crash": 1, "cancel": 1, "switch": 0}),
    "the next step's code is gone, everybody": Story(
        Plain,
        {"deploy": 1, "crash": 1, "cancel": 1, "retry": 1, "compensate": 1, "switch": 0},
        other=WithoutSecond,
    ),
    "the next step's code is gone, a pause": Story(Plain, {"deploy": 1, "pause": 1, "retry": 1}, other=WithoutSecond),
    "the undos' code is gone, everybody": Story(
        Plain, {"deploy": 1, "crash": 1, "cancel": 1, "retry": 1, "switch": 0}, reject=_REFUSED, other=WithoutUndos
    ),
    "a result does not fit, everybody": Story(
        Plain,
        {"deploy": 1, "crash": 1, "cancel": 1, "retry": 1, "compensate": 1, "switch": 0},
        other=Retyped,
    ),
    "a result does not fit, a pause": Story(Plain, {"deploy": 1, "pause": 1, "retry": 1}, other=Retyped),
    "what an undo takes does not fit, everybody": Story(
        Plain, {"deploy": 1, "crash": 1, "cancel": 1, "retry": 1, "switch": 0}, reject=_REFUSED, other=Retyped
    ),
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
    "retries_without_end": Story(Short, {"duplicate": 1}, {"second": _ALWAYS}),
    "retries_of_undos_without_end": Story(Plain, {"crash": 1}, {"undo_first": _ALWAYS}, _REFUSED),
    "any_message_revives": Story(Parked, {"redrive": 1, "echo": 1}, {"second": _ALWAYS}),
    "undoing_is_never_given_up": Story(Impatient, {"loss": 3}, reject=_REFUSED),
    "given_up_is_failed": Story(Impatient, {"loss": 2}),
    "losses_are_forgotten": Story(Plain, {"crash": 1}),
    "nothing_is_undone": Story(Plain, {}, reject=_REFUSED),
    "starts_ignore_tombstones": Story(Short, {"purge": 1, "start": 1}),
    "starts_ignore_the_journal": Story(Short, {"expiry": 1, "start": 1}),
    "the_control_item_goes_first": Story(Short, {"purge": 1}),
    "entries_go_before_the_tombstone": Story(Short, {"purge": 1}),
    "purges_take_no_lease": Story(Short, {"purge": 1}),
}
"""Where it is noticed that a rule is off."""

STANDING_IN: dict[str, Story] = {
    "commit_without_token": Story(Short, {"pause": 1, "duplicate": 1}),
    "takeover_keeps_the_token": Story(Short, {"pause": 1, "duplicate": 1}),
}
"""Rules that another stands in for: alone they can be done without. A commit is held to its slot by ``seq`` as well,
and what is in the slot was written once, by whoever held the lease first; all who find it there commit the same. The
gate bounds how often one process interrupts another.
"""
