"""Mistakes made on purpose. Each names its guards, tests of the fast set, and every one of them must fail.

Another harness has such mistakes, too: the rules of the protocol that ``tests/faults`` switches off.
"""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import pytest
from hypothesis.internal.conjecture import engine
from msgspec.structs import replace

from sagas.authoring.definition.definition import SagaDefinition
from sagas.authoring.redaction import Place, Redaction
from sagas.core import arrivals, automaton, rules, transitions, undoing
from sagas.core import events as ev
from sagas.core.commands import Backlog, Decision
from sagas.core.events import Failure
from sagas.core.fit import Deployed, Fit, fit
from sagas.core.gates import AttemptOutcome, Pause, Scope
from sagas.core.rules import ForwardPlan, Plan, UndoPlan
from sagas.core.states import Purge, SagaState, StepState, StepStatus
from sagas.engine import advance, children, committer, registry
from sagas.engine.attempt import attempt, call, coroutines, doubt, failures, heartbeat, redacted_lines
from sagas.engine.operate import breaker, pausing
from sagas.engine.read import redacting
from sagas.engine.start.children import ChildCreator, new_state
from sagas.engine.start.starter import Started, Starter
from sagas.engine.step_queues import StepQueues
from sagas.engine.supervise import leftovers, purge
from sagas.engine.supervise.purge import Purger
from sagas.errors import TypeChanged
from sagas.spellings import Secrets
from sagas.store.connection import Fenced, SharedConnection
from sagas.store.control.control import ControlItems
from sagas.store.journal.entries import Entry
from sagas.store.journal.journal import Journal, Payloads
from sagas.store.journal.leftovers import Leftovers
from sagas.store.journal.tombstones import Tombstones
from sagas.store.pauses import Pauses
from tests.model import lived, shrinking
from tests.model.pairs import Case

Patch = pytest.MonkeyPatch
Make = Callable[[Patch], None]

MISTAKES: dict[str, tuple[Make, tuple[str, ...]]] = {}
"""By name, how each is made, and its guards: unmarked tests."""

_PAIRS = "tests/model/test_pairs.py::test_some_pairs_of_four_steps"
_ON_THE_ENGINE = "tests/engine/test_pairs.py::test_some_pairs"
_ONCE = "tests/engine/test_pairs.py::test_what_was_wrong_once"
_SETTLING = "tests/engine/test_settling.py"
_PAUSING = "tests/engine/test_pausing.py"
_PURGED_KEYS = "tests/engine/test_purged_keys.py"
_LEFTOVERS = "tests/engine/test_leftovers.py"
_TEXTS = "tests/engine/test_secrets_in_texts.py"


def mistake(name: str, *guards: str) -> Callable[[Make], Make]:
    """Declare a mistake, and the tests that notice it."""

    def declared(make: Make) -> Make:
        MISTAKES[name] = make, guards
        return make

    return declared


def in_place_of(patch: Patch, original: Callable[..., Any], other: Callable[..., Any]) -> None:
    """Put ``other`` in the place of a function, wherever it was imported, and in the table of the automaton."""
    for name, module in [*sys.modules.items()]:
        if name.startswith("sagas.") and vars(module).get(original.__name__) is original:
            patch.setattr(module, original.__name__, other)
    for key, row in automaton.TABLE.items():
        if row.apply is original:
            patch.setitem(automaton.TABLE, key, replace(row, apply=other))


# Releases.


@mistake("an undo is owed only where the release has one", _PAIRS, _ONCE)
def _undo_of_the_release_only(patch: Patch) -> None:
    def judged(was: StepState, now: Deployed | None, saga: str = "") -> Fit:
        owed = now is not None and now.kind == was.waits_for and now.undo
        return fit(was, now, saga)._replace(owes_undo=owed)

    in_place_of(patch, fit, judged)


@mistake("the undo of another kind counts", _PAIRS)
def _undo_of_another_kind(patch: Patch) -> None:
    def judged(was: StepState, now: Deployed | None, saga: str = "") -> Fit:
        return fit(was, now, saga)._replace(owes_undo=was.undo or (now is not None and now.undo))

    in_place_of(patch, fit, judged)


@mistake("plain code runs in place of a wait", _PAIRS, _ON_THE_ENGINE)
def _any_kind_runs(patch: Patch) -> None:
    def judged(was: StepState, now: Deployed | None, saga: str = "") -> Fit:
        return fit(was, now, saga) if now is None else fit(was, now, saga)._replace(forward=None)

    in_place_of(patch, fit, judged)


@mistake("nothing waits for a release", _PAIRS, f"{_SETTLING}::test_it_waits_visibly_and_uses_up_nothing")
def _at_once(patch: Patch) -> None:
    def never(plan: Plan, state: SagaState, now: float) -> bool:
        return False

    in_place_of(patch, rules.settles, never)


@mistake(
    "a saga that waits for a release is on no list",
    f"{_SETTLING}::test_it_is_listed_with_its_release_and_until_when_it_waits",
)
def _waits_for_releases_are_unlisted(patch: Patch) -> None:
    def never(state: SagaState) -> bool:
        return False

    in_place_of(patch, rules.awaits_release, never)


@mistake(
    "a wait that has not ended is on the list of those that wait for a release",
    f"{_SETTLING}::test_a_wait_that_lasts_is_not_listed_because_a_signal_was_refused",
)
def _lasting_waits_are_listed(patch: Patch) -> None:
    def whenever(state: SagaState) -> bool:
        return state.settling_since > 0 and rules.not_called(state) and not state.attention

    in_place_of(patch, rules.awaits_release, whenever)


@mistake(
    "a label outlives the release that shows its values",
    "tests/handlers/test_labels.py::test_a_release_that_hides_one_of_its_values_hides_it[Later-None1]",
)
def _labels_are_always_shown(patch: Patch) -> None:
    def whole(details: Any, redaction: Redaction) -> Any:
        return details

    in_place_of(patch, redacting.start_shown, whole)


@mistake(
    "a message that is sent again restarts the time",
    _PAIRS,
    f"{_SETTLING}::test_each_look_keeps_the_time_since_when_it_waits",
)
def _a_look_restarts_the_time(patch: Patch) -> None:
    settled = cast("Any", automaton)._settled

    def forgotten(plan: Plan, before: SagaState, after: SagaState, event: Any, now: float) -> SagaState:
        kept = replace(before, settling_since=0.0) if isinstance(event, ev.MessageResent) else before
        return settled(plan, kept, after, event, now)

    in_place_of(patch, settled, forgotten)


@mistake("the time counts from the last change", _PAIRS, _ONCE)
def _since_the_last_change(patch: Patch) -> None:
    def settles(plan: Plan, state: SagaState, now: float) -> bool:
        return now < (state.updated_at if state.settling_since else now) + plan.settle

    in_place_of(patch, rules.settles, settles)


@mistake("what has begun needs its code", _PAIRS, _ONCE)
def _what_has_begun(patch: Patch) -> None:
    misfit = rules.misfit

    def always(plan: Plan, state: SagaState, now: float) -> Failure | None:
        if state.current is None or state.undoing:
            return misfit(plan, state, now)
        own = plan.steps[state.cursor].forward
        return own if isinstance(own, Failure) and rules.forward(state) else None

    in_place_of(patch, misfit, always)


@mistake("each search begins at the top", _PAIRS)
def _from_the_top(patch: Patch) -> None:
    next_undo = rules.next_undo

    def top(plan: Plan, state: SagaState, below: int) -> SagaState:
        return next_undo(plan, state, len(state.steps))

    in_place_of(patch, next_undo, top)


@mistake("a retry undoes what was passed", _PAIRS)
def _all_undos(patch: Patch) -> None:
    def redriven(plan: Plan, state: SagaState, fact: ev.SagaRetried, now: float) -> Decision:
        for index, step in enumerate(state.steps):
            if step.status is StepStatus.COMPENSATION_FAILED:
                state = state.with_step(index, replace(step, status=rules.undo_pending(step)))
        after = undoing.entered(state)
        return undoing.proceed(plan, rules.next_undo(plan, after, len(after.steps)), now)

    in_place_of(patch, undoing.undos_redriven, redriven)


@mistake("a claim does not ask for the kind", _ON_THE_ENGINE)
def _a_claim_of_any_kind(patch: Patch) -> None:
    claim = ControlItems.claim_step

    def of_any_kind(self: ControlItems, *given: Any, kind: str | None = None, **named: Any) -> Any:
        return claim(self, *given, **named)

    patch.setattr(ControlItems, "claim_step", of_any_kind)


# What is not deployed.

_UNKNOWN = "tests/engine/test_unknown.py"


@mistake(
    "an undo that is gone is owed only to a step that completed",
    _PAIRS,
    f"{_UNKNOWN}::test_the_undo_of_a_started_step_waits_for_its_code",
    f"{_UNKNOWN}::test_without_it_an_operator_is_asked",
)
def _completed_steps_only(patch: Patch) -> None:
    wants = cast("Any", rules)._undone_when_started

    def known(plan: Plan, index: int, step: StepState) -> bool:
        return not isinstance(plan.steps[index].undo, Failure) and wants(plan, index, step)

    in_place_of(patch, wants, known)


@mistake(
    "a policy that is unknown is to undo",
    _PAIRS,
    f"{_UNKNOWN}::test_children_that_failed_wait_for_the_policy",
    f"{_UNKNOWN}::test_a_lost_last_attempt_is_not_undone_without_its_policy",
)
def _undone_by_default(patch: Patch) -> None:
    policy = rules.exhausted_policy

    def default(plan: Plan, state: SagaState, step: StepState, *, rejected: bool) -> Any:
        found = policy(plan, state, step, rejected=rejected)
        return "COMPENSATE" if isinstance(found, Failure) else found

    in_place_of(patch, policy, default)


@mistake(
    "a step that waits is undone by its children",
    _PAIRS,
    f"{_UNKNOWN}::test_the_undo_of_a_step_that_waits_settles",
)
def _every_wait_is_for_children(patch: Patch) -> None:
    misfit = rules.misfit

    def of_others(plan: Plan, state: SagaState, now: float) -> Failure | None:
        waits = state.undoing and state.current is not None and state.current.status is StepStatus.WAITING
        return None if waits else misfit(plan, state, now)

    in_place_of(patch, misfit, of_others)


@mistake(
    "a takeover needs no code",
    f"{_UNKNOWN}::test_a_release_without_the_step_closes_no_lost_attempt_before_it_has_settled",
    f"{_UNKNOWN}::test_a_journaled_failure_is_not_committed_without_its_policy",
    f"{_UNKNOWN}::test_a_lost_undo_settles_before_an_earlier_undo_runs",
)
def _taken_over_at_once(patch: Patch) -> None:
    take_over = cast("Any", arrivals)._taken_over

    def at_once(plan: Plan, state: SagaState, lease: Any, now: float) -> Decision:
        return take_over(replace(plan, settle=0.0), state, lease, now)

    in_place_of(patch, take_over, at_once)


@mistake(
    "an undo that is gone has one attempt",
    _PAIRS,
    f"{_UNKNOWN}::test_a_lost_undo_settles_before_an_earlier_undo_runs",
)
def _one_attempt(patch: Patch) -> None:
    used_up = rules.undo_out_of_budget

    def once(plan: Plan, state: SagaState) -> bool:
        return used_up(plan, state) or isinstance(plan.steps[state.cursor].undo, Failure)

    in_place_of(patch, used_up, once)


@mistake(
    "a step that is not ready is in doubt at once",
    f"{_UNKNOWN}::test_a_pivot_that_is_not_yet_done_holds_nothing",
)
def _in_doubt_at_once(patch: Patch) -> None:
    postponed = transitions.step_postponed

    def doubted(plan: Plan, state: SagaState, fact: ev.StepPostponed, now: float) -> Decision:
        decision, own = postponed(plan, state, fact, now), plan.steps[fact.index].undo
        step = decision.state.steps[fact.index]
        unknown = step.outcome_unknown or (isinstance(own, UndoPlan) and own.needs_result)
        after = decision.state.with_step(fact.index, replace(step, outcome_unknown=unknown))
        return replace(decision, state=after)

    in_place_of(patch, postponed, doubted)


@mistake(
    "no job is in doubt",
    _PAIRS,
    f"{_UNKNOWN}::test_a_job_is_stopped_or_in_doubt",
    f"{_UNKNOWN}::test_a_job_that_ran_out_of_time_is_in_doubt_if_its_undo_is_gone",
)
def _no_job_in_doubt(patch: Patch) -> None:
    def never(plan: Plan, index: int, step: StepState) -> bool:
        return False

    in_place_of(patch, rules.job_in_doubt, never)


@mistake(
    "an undo that was reached is called",
    f"{_UNKNOWN}::test_an_undo_that_turns_out_not_to_be_owed_is_not_called",
)
def _every_undo_is_called(patch: Patch) -> None:
    def always(plan: Plan, index: int, step: StepState) -> bool:
        return True

    in_place_of(patch, rules.undo_still_owed, always)


@mistake(
    "children whose number is unknown begin at once",
    f"{_UNKNOWN}::test_children_are_not_all_started_because_their_number_is_unknown",
)
def _all_children_at_once(patch: Patch) -> None:
    started = transitions.children_started

    def default(plan: Plan, state: SagaState, fact: ev.ChildrenStarted, now: float) -> Decision:
        steps = (replace(own, forward=ForwardPlan()) if isinstance(own.forward, Failure) else own for own in plan.steps)
        return started(replace(plan, steps=tuple(steps)), state, fact, now)

    in_place_of(patch, started, default)


@mistake(
    "an outcome that was kept is committed by any release",
    f"{_UNKNOWN}::test_an_outcome_that_could_not_be_committed_waits_for_its_policy",
)
def _kept_outcomes_need_no_policy(patch: Patch) -> None:
    def never(plan: Plan, state: SagaState, fact: ev.Fact) -> bool:
        return False

    in_place_of(patch, rules.lacks_policy, never)


@mistake(
    "a type that is gone gives its sagas up after five stalls",
    f"{_UNKNOWN}::test_it_is_never_given_up_by_a_number_of_stalls_that_is_not_its_own",
)
def _five_stalls(patch: Patch) -> None:
    plan_of = registry.Registry.plan

    def five(self: registry.Registry, state: SagaState) -> Plan:
        own = plan_of(self, state)
        return own if state.saga in self else replace(own, max_recovery_attempts=5)

    patch.setattr(registry.Registry, "plan", five)


# Values of another release.

_RESULTS = "tests/engine/test_results_of_releases.py"
_SECRETS = "tests/engine/test_secrets_of_releases.py"
_SHOWS_NOTHING = f"{_SECRETS}::test_a_later_release_neither_shows_nor_journals_them"


@mistake(
    "the last step gives the result",
    _ON_THE_ENGINE,
    f"{_RESULTS}::test_a_saga_shows_the_result_of_the_step_that_its_own_release_named",
    f"{_RESULTS}::test_children_are_joined_by_the_step_that_their_own_release_named",
)
def _the_result_is_the_last_steps(patch: Patch) -> None:
    def last(state: SagaState) -> StepState:
        return state.steps[-1]

    patch.setattr(SagaState, "result_step", property(last))


@mistake("no value is stored with its hidden paths", _ON_THE_ENGINE, _SHOWS_NOTHING)
def _no_paths_are_stored(patch: Patch) -> None:
    def nothing(paths: object) -> dict[str, object]:
        return {}

    for module in (attempt, registry, committer, children):
        patch.setattr(module, "hiding", nothing)


@mistake("only the deployed type hides", _ON_THE_ENGINE, _SHOWS_NOTHING)
def _stored_paths_do_not_count(patch: Patch) -> None:
    whole = Redaction.view

    def view(self: Redaction, source: str, data: Any, stored: Iterable[Place] = ()) -> tuple[Any, list[str]]:
        return whole(self, source, data)

    patch.setattr(Redaction, "view", view)


@mistake(
    "only what is stored hides",
    _ON_THE_ENGINE,
    f"{_SECRETS}::test_what_a_later_release_hides_is_hidden_in_older_sagas",
)
def _declared_paths_do_not_count(patch: Patch) -> None:
    whole = Redaction.view

    def view(self: Redaction, source: str, data: Any, stored: Iterable[Place] = ()) -> tuple[Any, list[str]]:
        return whole(Redaction(), source, data, stored)

    patch.setattr(Redaction, "view", view)


@mistake(
    "a text of an older release is shown",
    f"{_TEXTS}::test_a_text_of_a_release_that_hid_less_is_not_shown_without_its_values",
    f"{_TEXTS}::test_progress_is_redacted_in_each_answer",
    f"{_TEXTS}::test_so_is_what_a_step_waits_for",
    f"{_TEXTS}::test_the_error_of_a_child_is_redacted_by_its_own_type",
    f"{_TEXTS}::test_an_outcome_that_waits_in_its_queue_keeps_its_mark",
)
def _any_mark_covers(patch: Patch) -> None:
    def covers(self: Redaction, mark: str) -> bool:
        return True

    patch.setattr(Redaction, "covers", covers)


@mistake("texts of the library are not told apart", f"{_TEXTS}::test_texts_of_the_library_are_shown")
def _all_texts_are_by_code(patch: Patch) -> None:
    def by_code(*_: object) -> bool:
        return True

    patch.setattr(redacting, "_by_code", by_code)


@mistake(
    "values that are left out count as read",
    f"{_TEXTS}::test_a_value_that_is_not_read_hides_its_texts",
    f"{_TEXTS}::test_progress_is_redacted_in_each_answer",
)
def _nothing_is_left_out(patch: Patch) -> None:
    of = redacting.Texts.of

    def whole(entries: Any, left_out: Any, redaction: Redaction) -> redacting.Texts:
        return of(entries, (), redaction)

    patch.setattr(redacting.Texts, "of", staticmethod(whole))


@mistake(
    "only the literal value is searched for",
    f"{_TEXTS}::test_a_value_is_shown_nowhere",
    "tests/unit/test_spellings.py::test_each_shape_is_hidden_in_each_spelling",
)
def _only_the_value_itself(patch: Patch) -> None:
    made = Secrets.__init__

    def literally(self: Secrets, values: Iterable[str]) -> None:
        made(self, ())
        self.values = sorted(values, key=len, reverse=True)  # pyright: ignore[reportAttributeAccessIssue]

    def without(self: Any, text: str, longest: int | None = None) -> str:
        for value in self.values:
            text = text.replace(value, "***") if len(value) >= 4 else text
        return text[:longest]

    patch.setattr(Secrets, "__init__", literally)
    patch.setattr(Secrets, "without", without)


@mistake("the message of NotYet is stored as it is", f"{_TEXTS}::test_a_value_is_shown_nowhere[not yet]")
def _reasons_are_not_redacted(patch: Patch) -> None:
    whole = failures.postponement

    def plainly(*arguments: Any) -> Any:
        return whole(*arguments[:5], mark=arguments[6])

    patch.setattr(attempt, "postponement", plainly)


@mistake("progress is stored as it is", f"{_TEXTS}::test_progress_is_redacted_in_each_answer")
def _progress_is_not_redacted(patch: Patch) -> None:
    report = heartbeat.ProgressReport.report

    def plain(self: Any, fraction: float, message: str) -> None:
        self._redact = lambda text, longest: text[:longest]  # pyright: ignore[reportUnknownLambdaType]
        report(self, fraction, message)

    patch.setattr(heartbeat.ProgressReport, "report", plain)


@mistake("log lines are not redacted", f"{_TEXTS}::test_a_value_is_shown_nowhere[error]")
def _the_log_is_as_it_is(patch: Patch) -> None:
    def every(*_: object) -> bool:
        return True

    patch.setattr(redacted_lines.RedactedLines, "filter", every)


@mistake("only what is stored is a value", f"{_TEXTS}::test_defaults_and_converted_values_are_values")
def _defaults_are_no_values(patch: Patch) -> None:
    def fails(*_: object) -> Any:
        raise TypeChanged("it does not fit")

    whole = call.secrets_in

    def secrets_in(*arguments: Any) -> list[str]:
        with patch.context() as within:
            within.setattr(SagaDefinition, "stored", fails)
            return whole(*arguments)

    patch.setattr(attempt, "secrets_in", secrets_in)


@mistake(
    "texts are cut before they are redacted", "tests/unit/test_spellings.py::test_a_text_is_cut_after_it_is_redacted"
)
def _cut_first(patch: Patch) -> None:
    whole = Secrets.without

    def without(self: Secrets, text: str, longest: int | None = None) -> str:
        return whole(self, text[:longest])

    patch.setattr(Secrets, "without", without)


@mistake(
    "the results of children lose their places",
    f"{_SECRETS}::test_results_of_children_keep_their_paths_in_the_join",
)
def _paths_in_a_join_have_no_place(patch: Patch) -> None:
    patch.setattr(children, "EACH", "nowhere")


@mistake(
    "a value that does not fit closes the breaker",
    f"{_SETTLING}::test_a_value_that_the_code_cannot_read_closes_no_breaker",
)
def _a_value_that_does_not_fit_is_an_answer(patch: Patch) -> None:
    class Counted:
        SUCCESS = NONE = AttemptOutcome.SUCCESS
        FAILURE = AttemptOutcome.FAILURE

    patch.setattr(breaker, "AttemptOutcome", Counted)


@mistake(
    "the types of children are not compared",
    f"{_RESULTS}::test_children_in_another_order_do_not_take_each_others_places",
)
def _the_types_of_children_do_not_count(patch: Patch) -> None:
    def none(definition: SagaDefinition, state: SagaState) -> list[str]:
        return []

    patch.setattr(attempt, "changed_children", none)


@mistake(
    "a queue that is gone is an error",
    f"{_SETTLING}::test_resuming_a_type_resumes_all_its_sagas_but_for_one_that_has_no_queue",
    _ONCE,
)
def _a_queue_that_is_gone_is_an_error(patch: Patch) -> None:
    patch.setattr(advance, "NotFound", Fenced)


# The automaton.

_PROPERTIES = "tests/unit/core/test_properties.py"
_NO_EXECUTION = f"{_PROPERTIES}::test_a_fact_about_no_execution_under_way_changes_nothing"


def _anybody(state: SagaState, fact: ev.StepFact) -> StepState | None:
    return state.current


@mistake("a fact about another execution counts", _NO_EXECUTION)
def _anybody_runs(patch: Patch) -> None:
    patch.setattr(transitions, "_running", _anybody)


@mistake("a fact about another undo counts", _NO_EXECUTION)
def _anybody_is_undone(patch: Patch) -> None:
    patch.setattr(undoing, "_being_undone", _anybody)


@mistake("a commit counts backward", f"{_PROPERTIES}::test_any_events_in_any_order_and_number")
def _counts_backward(patch: Patch) -> None:
    def backward(state: SagaState) -> SagaState:
        return replace(state, seq=state.seq - 1)

    patch.setattr(transitions, "entered", backward)


# The proof that a message is still in its queue.

_QUEUES = "tests/engine/test_step_queues.py"


@mistake("every message counts as lost", f"{_QUEUES}::test_a_function_that_cannot_run_undoes_nothing")
def _no_line(patch: Patch) -> None:
    def lost(queues: StepQueues, state: SagaState) -> Backlog:
        return Backlog.LOST

    patch.setattr(StepQueues, "backlog", lost)


@mistake("an empty queue has lost its messages", f"{_QUEUES}::test_a_function_that_cannot_run_undoes_nothing")
def _empty_is_lost(patch: Patch) -> None:
    backlog = StepQueues.backlog

    def lost(queues: StepQueues, state: SagaState) -> Backlog:
        said = backlog(queues, state)
        return said if said is Backlog.WAITING else Backlog.LOST

    patch.setattr(StepQueues, "backlog", lost)


# Signals and children.


@mistake(
    "a signal and its flag are two writes",
    "tests/engine/test_waits.py::test_a_signal_that_a_cancel_overtakes_leaves_no_value",
)
def _signals_in_two_writes(patch: Patch) -> None:
    dispatch = SharedConnection.dispatch

    def apart(self: SharedConnection, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        writes = request.get("TransactItems", [])
        if not any("content" in write.get("Put", {}).get("Item", {}) for write in writes):
            return dispatch(self, operation, request)
        for write in writes:
            dispatch(self, operation, {"TransactItems": [write]})
        return {}

    patch.setattr(SharedConnection, "dispatch", apart)


@mistake(
    "a start that a cancel finds is left as it is",
    "tests/engine/test_children.py::test_an_interrupted_start_is_completed_and_cancelled",
)
def _starts_are_left(patch: Patch) -> None:
    start = ChildCreator.start_child

    def left(self: ChildCreator, *given: Any, sends: bool = True, **named: Any) -> Any:
        return start(self, *given, **named) if sends else None

    patch.setattr(ChildCreator, "start_child", left)


# Pauses.


@mistake(
    "a pause is stored without a condition",
    f"{_PAUSING}::test_two_calls_for_one_scope_leave_what_one_after_the_other_would",
)
def _pauses_are_stored_without_a_condition(patch: Patch) -> None:
    put = Pauses.put

    def unconditional(self: Pauses, scope: Scope, pause: Pause) -> None:
        put(self, scope, replace(pause, revision=self.get(scope, fresh=True).revision))

    patch.setattr(Pauses, "put", unconditional)


@mistake("pauses that have ended stay in the common item", f"{_PAUSING}::test_pauses_that_have_ended_take_no_room")
def _ended_pauses_stay_in_the_common_item(patch: Patch) -> None:
    dispatch = SharedConnection.dispatch

    def keeping(self: SharedConnection, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        for write in request.get("TransactItems", ()):
            update = write.get("Update", {})
            if update.get("Key") == {"saga_id": {"S": "pauses"}} and update["UpdateExpression"] == "REMOVE #scope":
                update["UpdateExpression"] += " SET #ended = :revision"
                update["ExpressionAttributeNames"]["#ended"] = f"ended {update['ExpressionAttributeNames']['#scope']}"
        return dispatch(self, operation, request)

    patch.setattr(SharedConnection, "dispatch", keeping)


@mistake(
    "nobody looks at what is marked as paused",
    f"{_PAUSING}::test_what_a_pause_marked_goes_on_when_no_pause_holds_it",
)
def _nobody_looks_at_what_is_marked(patch: Patch) -> None:
    patch.setattr(pausing, "NEVER_DUE", 0.0)


@mistake("resume asks the deployed type", f"{_PAUSING}::test_a_step_that_a_release_removed_is_resumed")
def _resume_asks_the_deployed_type(patch: Patch) -> None:
    def never(self: Pauses, scope: Scope) -> bool:
        return False

    patch.setattr(Pauses, "ever", never)


# The outcome of an attempt.


_DOUBT = "tests/engine/test_doubt.py"
_GROUPS = "tests/engine/test_groups.py"
_INSTANCES = "tests/engine/test_instances.py"


@mistake(
    "one instance serves all attempts",
    f"{_INSTANCES}::test_what_an_attempt_stores_on_self_is_gone_in_the_next",
    "tests/unit/testing/test_parity.py::test_both_give_each_attempt_an_instance_of_its_own",
)
def _one_instance(patch: Patch) -> None:
    instances: dict[str, Any] = {}
    new_instance = call.new_instance

    def cached(definition: SagaDefinition) -> Any:
        return instances.setdefault(definition.name, new_instance(definition))

    in_place_of(patch, call.new_instance, cached)


@mistake(
    "context variables are those of the attempt before",
    f"{_INSTANCES}::test_context_variables_do_not_reach_the_next_attempt",
)
def _one_context(patch: Patch) -> None:
    context = contextvars.copy_context()
    patch.setattr(call, "copy_context", lambda: context)


@mistake(
    "each attempt has an event loop of its own",
    f"{_INSTANCES}::test_a_client_in_the_loop_lives_longer_than_its_attempt",
)
def _a_loop_per_attempt(patch: Patch) -> None:
    run = coroutines.EventLoop.run

    def alone(self: coroutines.EventLoop, result: Any, context: Any) -> Any:
        try:
            return run(self, result, context)
        finally:
            self.close()

    patch.setattr(coroutines.EventLoop, "run", alone)


@mistake("a group is one error", _GROUPS, f"{_GROUPS}::test_a_permanent_error_is_not_retried")
def _a_group_is_one_error(patch: Patch) -> None:
    def whole(error: Exception, retry: Any) -> Exception:
        return error

    in_place_of(patch, failures.leading, whole)


@mistake(
    "what raises NotYet in a group has begun nothing",
    f"{_GROUPS}::test_a_step_that_raised_not_yet_beside_a_rejection_is_undone",
)
def _nothing_has_begun(patch: Patch) -> None:
    step_failure = failures.step_failure

    def forgetting(*arguments: Any, **options: Any) -> Any:
        fact, details = step_failure(*arguments, **options)
        return replace(fact, postponed=False) if isinstance(fact, ev.StepFailed) else fact, details

    in_place_of(patch, failures.step_failure, forgetting)


@mistake(
    "a client's timeout did not happen",
    f"{_DOUBT}::test_a_step_in_doubt_is_listed",
    f"{_DOUBT}::test_a_pivot_in_doubt_counts_as_completed",
    f"{_DOUBT}::test_a_lost_answer_is_in_doubt_and_a_failed_connect_is_not[requests]",
)
def _it_did_not_happen(patch: Patch) -> None:
    def never(error: BaseException, others: Any = ()) -> bool:
        return False

    in_place_of(patch, doubt.in_doubt, never)


@mistake(
    "a connection that failed may have taken effect",
    f"{_DOUBT}::test_a_lost_answer_is_in_doubt_and_a_failed_connect_is_not[urllib]",
    f"{_DOUBT}::test_a_handshake_that_fails_is_a_failed_connect[requests]",
)
def _a_failed_connect_may_have(patch: Patch) -> None:
    patch.setattr(doubt, "_CONNECTING", frozenset[tuple[str, str]]())


@mistake(
    "a call that failed to connect excuses the next",
    f"{_DOUBT}::test_a_call_that_failed_to_connect_before_does_not_excuse_the_next",
)
def _the_call_before_excuses(patch: Patch) -> None:
    patch.setattr(doubt, "_wrapped", cast("Any", doubt)._cause)


# Purges.


@mistake(
    "what a refused writer stored stays in S3",
    f"{_LEFTOVERS}::test_a_start_repeated_after_the_purge_brings_nothing_back",
    f"{_LEFTOVERS}::test_a_large_signal_that_loses_against_a_cancel_leaves_nothing",
)
def _refused_writers_leave_objects(patch: Patch) -> None:
    def kept(self: Payloads, key: str, named: str) -> None:
        return

    patch.setattr(Payloads, "discard", kept)


@mistake(
    "a refused start deletes what the slot names",
    f"{_LEFTOVERS}::test_a_start_that_won_without_hearing_of_it_keeps_its_request",
)
def _refused_starts_delete_what_is_named(patch: Patch) -> None:
    discard = Payloads.discard

    def always(self: Payloads, key: str, named: str) -> None:
        discard(self, key, "")

    patch.setattr(Payloads, "discard", always)


@mistake(
    "two starts with one request share an object",
    f"{_LEFTOVERS}::test_a_start_refused_for_its_key_leaves_nothing_and_takes_nothing",
    f"{_LEFTOVERS}::test_the_search_leaves_the_object_of_a_start_that_came_just_now",
)
def _starts_share_an_object(patch: Patch) -> None:
    put, discard = Payloads.put, Payloads.discard

    def shared(self: Payloads, saga_id: str, seq: int, writer: int | str, payload: str) -> str:
        return put(self, saga_id, seq, 0 if isinstance(writer, str) else writer, payload)

    def careless(self: Payloads, key: str, named: str) -> None:
        discard(self, key, "")

    patch.setattr(Payloads, "put", shared)
    patch.setattr(Payloads, "discard", careless)


@mistake("two senders of one value share an object", f"{_LEFTOVERS}::test_a_signal_that_comes_twice_keeps_its_value")
def _signals_share_an_object(patch: Patch) -> None:
    _starts_share_an_object(patch)


@mistake(
    "a purge by hand believes the entries",
    f"{_LEFTOVERS}::test_a_refused_start_that_died_goes_with_a_purge_by_hand",
    "tests/engine/test_purged_objects.py::test_a_purge_by_hand_always_asks_s3",
)
def _purges_by_hand_believe_the_entries(patch: Patch) -> None:
    clear = Tombstones.clear

    def believing(self: Tombstones, saga_id: str, seqs: Sequence[int], *, aside: bool) -> None:
        clear(self, saga_id, seqs, aside=aside and len(seqs) > 0)

    patch.setattr(Purge, "requested", property(lambda _: False))
    patch.setattr(Tombstones, "clear", believing)


@mistake(
    "children that never started have no objects",
    f"{_LEFTOVERS}::test_children_that_never_started_leave_nothing[False]",
)
def _unborn_children_have_no_objects(patch: Patch) -> None:
    def never(entry: Entry) -> bool:
        return False

    patch.setattr(purge, "_names_objects", never)


@mistake("a purge leaves first entries of children", f"{_LEFTOVERS}::test_a_child_whose_start_died_is_its_parents")
def _purges_leave_first_entries_of_children(patch: Patch) -> None:
    def nothing(self: Purger, *_: Any) -> None:
        return

    patch.setattr(Purger, "_clear_unborn", nothing)


@mistake(
    "a start is forgotten although its saga exists",
    f"{_LEFTOVERS}::test_one_that_is_redriven_while_it_is_forgotten_keeps_all",
)
def _starts_are_forgotten_without_a_check(patch: Patch) -> None:
    dispatch = SharedConnection.dispatch

    def unchecked(self: SharedConnection, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        writes = request.get("TransactItems", [])
        if any("#salt" in write.get("Delete", {}).get("ConditionExpression", "") for write in writes):
            request = {"TransactItems": [write for write in writes if "Delete" in write]}
        return dispatch(self, operation, request)

    patch.setattr(SharedConnection, "dispatch", unchecked)


@mistake(
    "a start believes in the entry that it has found",
    f"{_LEFTOVERS}::test_one_that_is_forgotten_while_it_is_redriven_starts_as_well",
)
def _starts_believe_in_what_they_found(patch: Patch) -> None:
    found = Starter._found  # pyright: ignore[reportPrivateUsage]

    def believing(self: Starter, saga_type: Any, entry: Any) -> Started:
        return found(self, saga_type, entry) or Started(new_state(saga_type, entry), entry, created=False)

    patch.setattr(Starter, "_found", believing)


@mistake(
    "the search deletes what is young",
    f"{_LEFTOVERS}::test_nor_is_a_start_of_the_last_hour",
)
def _the_search_deletes_what_is_young(patch: Patch) -> None:
    patch.setattr(leftovers, "_OLD", 0.0)


@mistake(
    "the search takes a saga with more entries for a dead start",
    f"{_LEFTOVERS}::test_a_second_entry_on_the_next_page_is_seen",
)
def _the_search_does_not_look_for_more_entries(patch: Patch) -> None:
    dispatch = SharedConnection.dispatch

    def unchecked(self: SharedConnection, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        writes = request.get("TransactItems", [])
        if any("#salt" in write.get("Delete", {}).get("ConditionExpression", "") for write in writes):
            request = {
                "TransactItems": [
                    write for write in writes if "seq" not in write.get("ConditionCheck", {}).get("Key", {})
                ]
            }
        return dispatch(self, operation, request)

    patch.setattr(SharedConnection, "dispatch", unchecked)


@mistake("the search believes any audit table", f"{_LEFTOVERS}::test_payloads_of_no_saga_stay_where_they_are_the_most")
def _the_search_believes_any_table(patch: Patch) -> None:
    patch.setattr(leftovers, "_FEW", 10_000)


@mistake(
    "an expired tombstone keeps its slot",
    f"{_PURGED_KEYS}::test_children_begin_whose_tombstones_are_still_there",
    f"{_PURGED_KEYS}::test_an_expired_tombstone_is_gone_whether_dynamodb_has_deleted_it_or_not",
)
def _expired_tombstones_keep_their_slots(patch: Patch) -> None:
    def never(self: Journal, *_: Any) -> bool:
        return False

    patch.setattr(Journal, "_replaced", never)


@mistake(
    "the search believes that a saga has a first entry", f"{_LEFTOVERS}::test_nor_is_one_that_lost_its_first_entry"
)
def _the_search_believes_in_first_entries(patch: Patch) -> None:
    def none(self: Leftovers, saga_ids: Iterable[str]) -> set[str]:
        return set()

    patch.setattr(Leftovers, "_sagas", none)


@mistake("the search begins at every visit", f"{_LEFTOVERS}::test_a_search_begins_once_a_week")
def _the_search_begins_at_every_visit(patch: Patch) -> None:
    patch.setattr(leftovers, "_WEEK", 0.0)


def _run(*options: str) -> pytest.ExitCode:
    """Run tests of the fast set in this process, up to the first failure."""
    caches = lived.plan, lived.alone
    for cache in caches:
        cache.cache_clear()
    fast = ("-m", "not slow and not proof")
    code = pytest.main(["-qx", *fast, "-p", "no:cacheprovider", "-p", "no:xdist", *options])
    for cache in caches:
        cache.cache_clear()
    return pytest.ExitCode(code)


def _as_found(case: Case, wrong: Callable[[Case], str]) -> tuple[Case, str]:
    """Do not reduce a case that is wrong: nobody reads it."""
    return case, wrong(case)


_GUARDS = list(dict.fromkeys(guard for _, guards in MISTAKES.values() for guard in guards))


@pytest.fixture(scope="module")
def imported() -> None:
    """Import what the guards need: what is imported while a mistake is made would keep it."""
    assert _run("--collect-only", *_GUARDS) is pytest.ExitCode.OK


@pytest.mark.slow
@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.usefixtures("imported")
def test_a_mistake_is_noticed(name: str, monkeypatch: Patch) -> None:
    make, guards = MISTAKES[name]
    make(monkeypatch)
    monkeypatch.setattr(shrinking, "smallest", _as_found)
    monkeypatch.setattr(engine, "MAX_SHRINKS", 0)
    assert [guard for guard in guards if _run(guard) is not pytest.ExitCode.TESTS_FAILED] == []


@pytest.mark.slow
def test_without_a_mistake_the_guards_pass() -> None:
    """After all of them: none is left, and no guard fails because it runs a second time."""
    assert _run(*_GUARDS) is pytest.ExitCode.OK
