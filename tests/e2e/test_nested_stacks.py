"""A service too large for one stack, on the emulator: sagas in nested stacks run like any other."""

from __future__ import annotations

import json
from collections.abc import Generator

import pytest

from sagas.messaging.routes import Routes
from tests.e2e.api import Api
from tests.e2e.conftest import project_in
from tests.e2e.nested.sagas import LENGTH, TAKEN
from tests.e2e.stack import Running, assembled, launched

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    """A local stack of 44 steps."""
    with launched(project_in(tmp_path_factory.mktemp("large")), assembled("python -m tests.e2e.nested.app")) as running:
        yield running


def test_everything_is_described(large: Running) -> None:
    description = large.description
    for part in ("queues", "functions"):
        assert len(description[part]["long"]) == LENGTH
        assert len(description[part]["short"]) == 2
    assert set(description["dead_letter_queues"]) == {"long", "short"}


def test_functions_find_the_queues_whose_names_are_derived(large: Running) -> None:
    queues, functions = large.description["queues"], large.client("lambda")
    steps = {saga: list(urls) for saga, urls in queues.items()}
    named = [large.description["supervisor"], large.description["functions"]["long"]["step_42"]]
    for name in named:
        variables = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        routes = Routes.parse(variables["SAGAS_QUEUES"], steps)
        assert {step: routes.queue("long", step) for step in queues["long"]} == queues["long"]
        assert "step_7" not in json.dumps(variables)


def test_a_saga_reaches_what_its_function_was_granted(large: Running) -> None:
    saga = Api(large).run("short", {})
    assert saga["status"] == "COMPLETED"
    assert saga["steps"][1]["result"] == large.description["outputs"]["NotesBucket"]


def test_a_saga_goes_from_one_nested_stack_to_the_next_and_back(large: Running) -> None:
    api = Api(large)
    saga = api.wait(api.start("long", {"until": TAKEN[-2]}), deadline=60)
    assert saga["status"] == "COMPENSATED"
    assert [step["name"] for step in saga["steps"]] == [f"step_{number}" for number in TAKEN]
    assert [step["status"] for step in saga["steps"]] == ["COMPENSATED"] * 3 + ["FAILED"]
    queues, functions = (large.description[part]["long"] for part in ("queues", "functions"))
    assert len(set(queues.values())) == len(set(functions.values())) == LENGTH
