"""What is explored: for ``make check`` in a few seconds each, for ``make proof`` in minutes."""

from __future__ import annotations

from tests.faults.sagas import (
    Approved,
    ApprovedByCode,
    Brief,
    BriefAsking,
    Halting,
    Impatient,
    Parked,
    Passing,
    PassingNothing,
    Pivotal,
    PivotalLast,
    Plain,
    Rash,
    Retyped,
    Short,
    ShortWithoutSecond,
    ShortWithoutUndos,
    Skipping,
    SkippingEnds,
    Started,
    StartedBriefly,
    Stuck,
    Wanted,
    WithoutFirst,
    WithoutSecond,
    WithoutUndos,
)
from tests.interleavings.explorer import Story
from tests.interleavings.family_stories import FAMILIES, LONG_FAMILIES

_REFUSED = frozenset({"second"})
_ALWAYS = 9
_SETTLE = 120.0
"""Seconds for which sagas wait for a release: the supervisor comes by twice."""

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
    "a queued recovery": Story(Short, {"loss": 1}, queued=True),
    "a queued recovery, found twice": Story(Short, {"loss": 1, "visit": 1, "switch": 1}, queued=True),
    "a queued recovery, delivered twice": Story(Short, {"loss": 1, "duplicate": 1, "switch": 1}, queued=True),
    "a queued recovery, its message lost": Story(Short, {"loss": 2}, queued=True),
    "a queued recovery and two deaths": Story(Short, {"crash": 2, "switch": 0}, queued=True),
    "a queued recovery and a repeated request": Story(Short, {"loss": 1, "repeat": 1, "switch": 1}, queued=True),
    "a queued recovery and a lost answer": Story(Short, {"loss": 1, "lost": 1, "switch": 0}, queued=True),
    "a queued recovery and a cancel": Story(Short, {"loss": 1, "cancel": 1, "switch": 1}, queued=True),
    "a lost item": Story(Short, {"deletion": 1, "duplicate": 1}),
    "a lost item and a cancel": Story(Short, {"deletion": 1, "cancel": 1}),
    "a lost item and a start": Story(Short, {"deletion": 1, "start": 2}),
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
    "a failed saga, settled or undone as it was read": Story(
        Halting, {"resolve": 1, "compensate": 1, "switch": 1}, {"second": _ALWAYS}, named=True
    ),
    "dead letters, retried twice as they were read": Story(Stuck, {"retry": 2, "switch": 2}, {"second": 1}, named=True),
    "dead letters, retried twice as they were read, a death": Story(
        Stuck, {"retry": 2, "crash": 1, "switch": 0}, {"second": 1}, named=True
    ),
    "dead letters, retried, settled or given up as they were read": Story(
        Stuck, {"retry": 1, "resolve": 1, "compensate": 1, "switch": 0}, {"second": _ALWAYS}, named=True
    ),
    "failed undos, retried or settled as they were read": Story(
        Plain, {"retry": 1, "resolve": 1, "pause": 1, "switch": 0}, {"undo_first": 1}, _REFUSED, named=True
    ),
    "dead letters, cancelled": Story(Stuck, {"cancel": 1, "switch": 1}, {"second": _ALWAYS}),
    "undone when started, a pause": Story(StartedBriefly, {"pause": 1, "switch": 0}, {"second": _ALWAYS}),
    "a failed saga, undone": Story(Halting, {"compensate": 1, "crash": 1}, {"second": _ALWAYS}),
    "failed undos, retried": Story(Plain, {"retry": 1, "crash": 1}, {"undo_first": 1}, _REFUSED),
    "a duplicate and a loss": Story(Plain, {"duplicate": 1, "loss": 1}),
    "a lost answer and a pause": Story(Plain, {"lost": 1, "pause": 1, "switch": 0}),
    "losses beyond patience": Story(Impatient, {"loss": 3}, passed=True),
    "losses beyond patience, undone": Story(Impatient, {"loss": 3}, reject=_REFUSED, passed=True),
    "a function that cannot run": Story(Impatient, {"loss": 3}),
    "an undo whose function cannot run": Story(Impatient, {"loss": 3}, reject=_REFUSED),
    "losses beyond patience, undone, a message twice": Story(
        Impatient, {"loss": 3, "duplicate": 1, "switch": 0}, reject=_REFUSED, passed=True
    ),
    "an impatient supervisor": Story(Rash, {"visit": 2}),
    "an impatient supervisor, undone": Story(Rash, {"visit": 2}, reject=_REFUSED),
    "a signal": Story(BriefAsking, {"signal": 1}),
    "a signal, where nobody is asked": Story(Brief, {"signal": 1}),
    "two signals": Story(BriefAsking, {"signal": 2}),
    "a signal and a death": Story(BriefAsking, {"signal": 1, "crash": 1, "switch": 1}),
    "a signal and a cancel": Story(BriefAsking, {"signal": 1, "cancel": 1, "switch": 1}),
    "a signal and a supervisor": Story(BriefAsking, {"signal": 1, "visit": 1}),
    "a signal and the end of its time": Story(BriefAsking, {"signal": 1, "pause": 1, "switch": 1}),
    "a signal and a lost answer": Story(BriefAsking, {"signal": 1, "lost": 1}),
    "a signal, two workers": Story(BriefAsking, {"signal": 1, "duplicate": 1}),
    "a wait in vain and a cancel": Story(BriefAsking, {"cancel": 1, "duplicate": 1, "switch": 1}),
    "a pivot and a cancel": Story(Pivotal, {"cancel": 1}),
    "a pivot, a step that is refused and a cancel": Story(Pivotal, {"cancel": 1}, reject=frozenset({"third"})),
    "a pivot that fails and a cancel": Story(PivotalLast, {"cancel": 1}, {"second": _ALWAYS}),
    "a pivot, a cancel and a death": Story(PivotalLast, {"cancel": 1, "crash": 1, "switch": 0}),
    "a pivot in doubt and a cancel": Story(PivotalLast, {"cancel": 1, "crash": 2, "switch": 0}),
    "chained: a pivot and a cancel": Story(Pivotal, {"cancel": 1}, chained=True),
    "a skipped step, two workers": Story(Skipping, {"duplicate": 1}),
    "a skipped step, two deaths": Story(Skipping, {"crash": 2, "switch": 0}),
    "a skipped step and a cancel": Story(Skipping, {"cancel": 1, "crash": 1, "switch": 0}),
    "a skipped step and a supervisor": Story(Skipping, {"visit": 1, "crash": 1, "switch": 0}),
    "a skipped step, a pause": Story(Skipping, {"pause": 1}),
    "a skipped step, a lost answer": Story(Skipping, {"lost": 1}),
    "a skipped step, undone": Story(Skipping, {"crash": 1, "switch": 0}, reject=frozenset({"third"})),
    "a step that is skipped until a release": Story(Skipping, {"deploy": 1, "crash": 1, "switch": 0}, other=Wanted),
    "a step that a release has skipped": Story(Wanted, {"deploy": 1, "crash": 1, "switch": 0}, other=Skipping),
    "a step that a release has passed over": Story(
        Wanted, {"deploy": 1, "crash": 1, "switch": 0}, {"second": 1}, other=Skipping
    ),
    "skipped steps at both ends": Story(SkippingEnds, {"crash": 1, "switch": 0}),
    "skipped steps at both ends and a cancel": Story(SkippingEnds, {"cancel": 1, "switch": 1}),
    "chained: a skipped step, two deaths": Story(Skipping, {"crash": 2, "switch": 0}, chained=True),
    "chained: a skipped step and a cancel": Story(Skipping, {"cancel": 1, "crash": 1, "switch": 0}, chained=True),
    "chained: a skipped step, a lost answer": Story(Skipping, {"lost": 1, "switch": 1}, chained=True),
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
    "the first starts of a release": Story(Short, {"deploy": 1, "start": 2, "switch": 1}, other=ShortWithoutSecond),
    "the first start of a release, a death": Story(
        Short, {"deploy": 1, "start": 1, "crash": 1, "switch": 0}, other=ShortWithoutSecond
    ),
    "a release comes and goes": Story(
        Short, {"deploy": 2, "crash": 1, "switch": 0}, other=ShortWithoutSecond, settle=_SETTLE
    ),
    "a release comes and goes, two workers": Story(
        Short, {"deploy": 2, "duplicate": 1, "switch": 1}, other=ShortWithoutSecond, settle=_SETTLE
    ),
    "a release comes and goes, cancelled": Story(
        Short, {"deploy": 2, "cancel": 1, "switch": 0}, other=ShortWithoutSecond, settle=_SETTLE
    ),
    "a release without undos comes and goes": Story(
        Short, {"deploy": 2}, reject=_REFUSED, other=ShortWithoutUndos, settle=_SETTLE
    ),
    "a release on half of the functions": Story(Short, {"deploy": 4}, other=ShortWithoutSecond, settle=_SETTLE),
    "a wait is a step for a while, and a signal comes": Story(
        Approved, {"deploy": 2, "signal": 1, "switch": 0}, other=ApprovedByCode, settle=_SETTLE
    ),
    "a passed step, and a retry of undos": Story(
        Passing,
        {"deploy": 1, "retry": 1, "switch": 0},
        {"undo_first": 1},
        frozenset({"third"}),
        other=PassingNothing,
    ),
    "a release comes for good, retried": Story(
        Short, {"deploy": 2, "retry": 1, "switch": 0}, other=ShortWithoutSecond, settle=_SETTLE
    ),
    "chained: a release comes and goes": Story(
        Short, {"deploy": 2}, other=ShortWithoutSecond, settle=_SETTLE, chained=True
    ),
    "chained: two workers": Story(Short, {"duplicate": 1}, chained=True),
    "chained: two workers, undone": Story(Short, {"duplicate": 1}, reject=_REFUSED, chained=True),
    "chained: two workers, retried": Story(Short, {"duplicate": 1}, {"second": 1}, chained=True),
    "chained: a cancel": Story(Short, {"cancel": 1}, chained=True),
    "chained: a cancel and a death": Story(Short, {"cancel": 1, "crash": 1, "switch": 0}, chained=True),
    "chained: a cancel and a lost answer": Story(Short, {"cancel": 1, "lost": 1, "switch": 1}, chained=True),
    "chained: a supervisor and a death": Story(Short, {"visit": 1, "crash": 1, "switch": 0}, chained=True),
    "chained: two deaths": Story(Short, {"crash": 2}, chained=True),
    "chained: a death, exhausted": Story(Short, {"crash": 1}, {"second": _ALWAYS}, chained=True),
    "chained: a death, undone": Story(Short, {"crash": 1}, reject=_REFUSED, chained=True),
    "chained: a pause": Story(Short, {"pause": 1}, chained=True),
    "chained: a pause, undone": Story(Short, {"pause": 1}, reject=_REFUSED, chained=True),
    "chained: a late request": Story(Short, {"late": 1, "visit": 1, "switch": 1}, chained=True),
    "chained: a lost answer": Story(Short, {"lost": 1}, chained=True),
    "chained: a lost answer, undone": Story(Short, {"lost": 1}, reject=_REFUSED, chained=True),
    "chained: a repeated request": Story(Short, {"repeat": 1}, prompt=True, chained=True),
    "chained: a lost item and a cancel": Story(Short, {"deletion": 1, "cancel": 1, "switch": 1}, chained=True),
    "chained: an echo": Story(Short, {"echo": 1}, chained=True),
    "chained: an outage and two workers": Story(Short, {"outage": 1, "duplicate": 1}, chained=True),
    "chained: dead letters redriven": Story(Parked, {"redrive": 1, "duplicate": 1}, {"second": 2}, chained=True),
    "chained: dead letters, a death": Story(Stuck, {"redrive": 1, "crash": 1}, {"second": 1}, chained=True),
    "chained: the next step's code is gone": Story(Plain, {"deploy": 1, "crash": 1}, other=WithoutSecond, chained=True),
    **FAMILIES,
}
"""Complete, but for those that ``switch`` bounds: every order there is, by what happens."""

LONG: dict[str, Story] = {
    "a release without undos comes and goes, a death": Story(
        Short, {"deploy": 2, "crash": 1, "switch": 0}, {}, _REFUSED, other=ShortWithoutUndos, settle=_SETTLE
    ),
    "a signal and a cancel, whenever": Story(BriefAsking, {"signal": 1, "cancel": 1}),
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
    # Five at once have more than ten million moments: four at a time.
    "dead letters, everybody who is an operator": Story(
        Stuck, {"cancel": 1, "redrive": 1, "retry": 1, "compensate": 1, "switch": 0}, {"second": _ALWAYS}
    ),
    "dead letters, a death and everybody but a caller": Story(
        Stuck, {"crash": 1, "redrive": 1, "retry": 1, "compensate": 1, "switch": 0}, {"second": _ALWAYS}
    ),
    "dead letters, a death and everybody who undoes": Story(
        Stuck, {"crash": 1, "cancel": 1, "redrive": 1, "compensate": 1, "switch": 0}, {"second": _ALWAYS}
    ),
    "dead letters, retried, settled or given up as they were read, switched": Story(
        Stuck, {"retry": 1, "resolve": 1, "compensate": 1, "switch": 1}, {"second": _ALWAYS}, named=True
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
    "chained: a cancel and a death, whenever": Story(Short, {"cancel": 1, "crash": 1}, chained=True),
    "chained: a cancel and a lost answer, whenever": Story(Short, {"cancel": 1, "lost": 1}, chained=True),
    "chained: two workers and a cancel": Story(Short, {"duplicate": 1, "cancel": 1}, chained=True),
    "chained: two workers and a pause": Story(Short, {"duplicate": 1, "pause": 1}, chained=True),
    "chained: two workers and a death": Story(Short, {"duplicate": 1, "crash": 1}, chained=True),
    "chained: a supervisor and a pause": Story(Short, {"visit": 1, "pause": 1}, chained=True),
    "chained: two pauses": Story(Short, {"pause": 2, "switch": 1}, chained=True),
    "chained: a lost answer, a death and a cancel": Story(
        Plain, {"lost": 1, "crash": 1, "cancel": 1, "switch": 0}, chained=True
    ),
    "chained: a lost answer and a death, undone": Story(Short, {"lost": 1, "crash": 1}, reject=_REFUSED, chained=True),
    "chained: an echo and a cancel": Story(Short, {"echo": 1, "cancel": 1}, chained=True),
    "chained: a late request, whenever": Story(Short, {"late": 1, "visit": 1}, chained=True),
    **LONG_FAMILIES,
}
"""Larger: complete but where ``switch`` bounds how often one process interrupts another."""

STANDING_IN: dict[str, Story] = {
    "commit_without_token": Story(Short, {"pause": 1, "duplicate": 1}),
    "takeover_keeps_the_token": Story(Short, {"pause": 1, "duplicate": 1}),
}
"""Rules that another stands in for: alone they can be done without. A commit is held to its slot by ``seq`` as well,
and what is in the slot was written once, by the holder of the lease; all who find it there commit the same. ``make
check`` bounds how often one process interrupts another.
"""
