"""Where it should be noticed that a rule of the commit protocol is off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sagas.testing.faults import DEATHS, DELAYS, LOST_ANSWERS, Fault
from tests.faults.explore import Figures, explore
from tests.faults.family_rules import FAMILY_RULES
from tests.faults.rules import RULES
from tests.faults.world import CrashWorld

EVERY_RULE = RULES | FAMILY_RULES


@dataclass(frozen=True, slots=True)
class Mutant:
    """The scenarios and disturbances in which a rule is missed."""

    scenarios: tuple[str, ...]
    faults: Sequence[Fault] = DEATHS
    bounds: Sequence[int] = (1, 2, 3, 4, 6, 7)


MUTANTS: dict[str, Mutant] = {
    "entries_overwrite": Mutant(("short_lease", "short_lease_undone"), DELAYS),
    "commit_without_token_and_seq": Mutant(("short_lease",), DELAYS),
    "takeover_without_fence": Mutant(("happy", "rejected")),
    "undoing_does_not_wait": Mutant(("short_lease",), DELAYS),
    "attempts_not_counted": Mutant(("happy", "exhausted_compensate")),
    "stale_messages_run": Mutant(("slow_message_overtaken", "every_message_again_and_again", "message_lost")),
    "nobody_recovers": Mutant(("message_lost", "happy")),
    "handed_out_for_good": Mutant(("message_lost",)),
    "own_claims_not_recognised": Mutant(("happy", "rejected"), LOST_ANSWERS),
    "lost_answers_count_as_success": Mutant(("happy", "rejected"), LOST_ANSWERS),
    "takeover_forgets_the_deadline": Mutant(("short_lease",), DELAYS),
    "the_end_in_two_writes": Mutant(("happy", "cancel_during_the_last_step"), DELAYS),
    "commit_ignores_the_cancel": Mutant(("cancel_during_the_last_step", "happy"), DELAYS),
    "own_commits_not_recognised": Mutant(("happy",), LOST_ANSWERS),
    "own_entries_not_recognised": Mutant(("happy",), LOST_ANSWERS),
    "heads_of_ones_own_entries": Mutant(("happy", "rejected")),
    "entries_not_adopted": Mutant(("happy", "rejected")),
    "doubt_is_silent": Mutant(("exhausted_compensate",)),
    "starts_ignore_tombstones": Mutant(("purged_and_started_again",)),
    "starts_ignore_the_journal": Mutant(("started_again_after_its_item_expired",)),
    "the_control_item_goes_first": Mutant(("purged_and_started_again",)),
    "entries_go_before_the_tombstone": Mutant(("purged_and_started_again",)),
    "purges_take_no_lease": Mutant(("failed_settled_and_purged",), DELAYS),
    "claims_not_checked_by_nonce": Mutant(("cancel_during_a_step, chained",), LOST_ANSWERS),
    "chains_ignore_the_time": Mutant(("steps_take_their_time, chained",)),
    "chained_attempts_not_counted": Mutant(("exhausted_compensate, chained",)),
    "joins_apart_from_the_end": Mutant(("two_children",)),
    "plain_commits_do_not_join": Mutant(("a_child_fails",)),
    "outcomes_counted_again": Mutant(("cancelled_before_the_children_are_started",), (Fault.REPEATED,)),
    "starts_are_not_continued": Mutant(("starts_of_children_lost",)),
    "closing_fences_no_start": Mutant(("two_children",), DELAYS, (3,)),
    "undoing_ends_early": Mutant(("children_undone_with_their_parent",)),
    "orders_are_obeyed_again": Mutant(("a_child_cannot_be_undone",)),
    "nobody_looks_after_parents": Mutant(("messages_of_children_lost",)),
    "purges_leave_the_children": Mutant(("a_family_is_purged",)),
    "purges_ignore_starts_of_children": Mutant(("an_undone_family_is_purged_by_an_operator",), (Fault.PAUSES,), (8,)),
    "purges_take_the_needy": Mutant(("a_cancelled_family_is_purged_by_an_operator",)),
}
"""By rule. What needs more than one process at every moment of another is missed by the interleavings only."""


def missed(world: CrashWorld, name: str) -> Figures:
    """Explore without a rule, until something is violated."""
    mutant = MUTANTS[name]
    with EVERY_RULE[name].off():
        return explore(world, mutant.scenarios, faults=mutant.faults, bounds=mutant.bounds, stop=True)
