"""Mistakes about results, secrets, breakers and pauses, which the automaton alone cannot make. The test of its clause
notices each, and fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sagas.authoring.definition.definition import SagaDefinition
from sagas.authoring.redaction import Place, Redaction
from sagas.core.gates import AttemptOutcome, Pause, Scope
from sagas.core.states import SagaState, StepState
from sagas.engine import advance, children, committer, registry
from sagas.engine.attempt import attempt
from sagas.engine.operate import breaker, pausing
from sagas.errors import InvalidRequest, NotFound
from sagas.store.connection import Fenced, SharedConnection
from sagas.store.pauses import Pauses
from tests.engine import test_pausing as pauses
from tests.engine import test_results_of_releases as results
from tests.engine import test_secrets_of_releases as secrets
from tests.engine import test_settling as settling
from tests.model.mistakes import MISTAKES as OF_PAIRS
from tests.support.bench import Bench

Make = Callable[..., Bench]
Patch = pytest.MonkeyPatch


def _a_later_release_shows_nothing(bench: Make) -> None:
    secrets.test_a_later_release_neither_shows_nor_journals_them(secrets.begun_in(bench, carry=True))


def _no_breaker_closes(bench: Make) -> None:
    settling.test_a_value_that_the_code_cannot_read_closes_no_breaker(settling.settling_in(bench))


def _all_are_resumed(bench: Make) -> None:
    settling.test_resuming_a_type_resumes_all_its_sagas_but_for_one_that_has_no_queue(settling.settling_in(bench))


def _the_result_is_the_last_steps(patch: Patch) -> None:
    def last(state: SagaState) -> StepState:
        return state.steps[-1]

    patch.setattr(SagaState, "result_step", property(last))


def _no_paths_are_stored(patch: Patch) -> None:
    def nothing(paths: object) -> dict[str, object]:
        return {}

    for module in (attempt, registry, committer, children):
        patch.setattr(module, "hiding", nothing)


def _stored_paths_do_not_count(patch: Patch) -> None:
    whole = Redaction.view

    def view(self: Redaction, source: str, data: Any, stored: Iterable[Place] = ()) -> tuple[Any, list[str]]:
        return whole(self, source, data)

    patch.setattr(Redaction, "view", view)


def _declared_paths_do_not_count(patch: Patch) -> None:
    whole = Redaction.view

    def view(self: Redaction, source: str, data: Any, stored: Iterable[Place] = ()) -> tuple[Any, list[str]]:
        return whole(Redaction(), source, data, stored)

    patch.setattr(Redaction, "view", view)


def _paths_in_a_join_have_no_place(patch: Patch) -> None:
    patch.setattr(children, "EACH", "nowhere")


def _a_value_that_does_not_fit_is_an_answer(patch: Patch) -> None:
    class Counted:
        SUCCESS = NONE = AttemptOutcome.SUCCESS
        FAILURE = AttemptOutcome.FAILURE

    patch.setattr(breaker, "AttemptOutcome", Counted)


def _the_types_of_children_do_not_count(patch: Patch) -> None:
    def none(definition: SagaDefinition, state: SagaState) -> list[str]:
        return []

    patch.setattr(attempt, "changed_children", none)


def _a_queue_that_is_gone_is_an_error(patch: Patch) -> None:
    patch.setattr(advance, "NotFound", Fenced)


def _pauses_are_stored_without_a_condition(patch: Patch) -> None:
    put = Pauses.put

    def unconditional(self: Pauses, scope: Scope, pause: Pause) -> None:
        put(self, scope, replace(pause, revision=self.get(scope, fresh=True).revision))

    patch.setattr(Pauses, "put", unconditional)


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


def _nobody_looks_at_what_is_marked(patch: Patch) -> None:
    patch.setattr(pausing, "NEVER_DUE", 0.0)


def _resume_asks_the_deployed_type(patch: Patch) -> None:
    def never(self: Pauses, scope: Scope) -> bool:
        return False

    patch.setattr(Pauses, "ever", never)


def _no_pause_is_replaced_unseen(bench: Make) -> None:
    with pytest.MonkeyPatch.context() as patch:
        pauses.test_two_calls_for_one_scope_leave_what_one_after_the_other_would(bench, patch, "pause", "resume")


def _what_is_marked_goes_on(bench: Make) -> None:
    with pytest.MonkeyPatch.context() as patch:
        pauses.at_once(patch)
        pauses.test_what_a_pause_marked_goes_on_when_no_pause_holds_it(bench, {})


MISTAKES: dict[str, tuple[Callable[[Patch], None], Callable[[Make], None]]] = {
    "the last step gives the result": (
        _the_result_is_the_last_steps,
        results.test_a_saga_shows_the_result_of_the_step_that_its_own_release_named,
    ),
    "the last step gives a child's result": (
        _the_result_is_the_last_steps,
        results.test_children_are_joined_by_the_step_that_their_own_release_named,
    ),
    "the types of children are not compared": (
        _the_types_of_children_do_not_count,
        results.test_children_in_another_order_do_not_take_each_others_places,
    ),
    "no value is stored with its hidden paths": (_no_paths_are_stored, _a_later_release_shows_nothing),
    "only the deployed type hides": (_stored_paths_do_not_count, _a_later_release_shows_nothing),
    "only what is stored hides": (
        _declared_paths_do_not_count,
        secrets.test_what_a_later_release_hides_is_hidden_in_older_sagas,
    ),
    "the results of children lose their places": (
        _paths_in_a_join_have_no_place,
        secrets.test_results_of_children_keep_their_paths_in_the_join,
    ),
    "a value that does not fit closes the breaker": (_a_value_that_does_not_fit_is_an_answer, _no_breaker_closes),
    "one saga without a queue ends a resume": (_a_queue_that_is_gone_is_an_error, _all_are_resumed),
    "a pause is stored without a condition": (_pauses_are_stored_without_a_condition, _no_pause_is_replaced_unseen),
    "pauses that have ended stay in the common item": (
        _ended_pauses_stay_in_the_common_item,
        pauses.test_pauses_that_have_ended_take_no_room,
    ),
    "nobody looks at what is marked as paused": (_nobody_looks_at_what_is_marked, _what_is_marked_goes_on),
    "resume asks the deployed type": (
        _resume_asks_the_deployed_type,
        pauses.test_a_step_that_a_release_removed_is_resumed,
    ),
}
MISTAKES_ABOUT_SECRETS = (
    *("no value is stored with its hidden paths", "only the deployed type hides", "only what is stored hides"),
)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_noticed(bench: Make, monkeypatch: Patch, mistake: str) -> None:
    make, clause = MISTAKES[mistake]
    make(monkeypatch)
    with pytest.raises((AssertionError, InvalidRequest, NotFound)):
        clause(bench)


def test_the_page_about_testing_lists_each() -> None:
    page = (Path(__file__).parents[2] / "docs/contributing/testing.md").read_text().replace("\n  ", " ")
    assert [name for name in (*MISTAKES, *OF_PAIRS) if name not in page] == []
