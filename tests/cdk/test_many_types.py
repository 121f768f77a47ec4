"""A service of many types: what its functions must know has room in their variables."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack

from sagas.authoring.definition.definition import SagaDefinition, definition_of
from sagas.cdk import FunctionOptions, SagaService
from sagas.errors import SagaError
from sagas.messaging.routes import Routes
from tests.cdk.saga_classes import LONG_NAMES
from tests.e2e.nested.many import SAGAS, STEPS
from tests.support.engine import engine_of

Template = dict[str, Any]
LIMIT = 4096
"""Bytes of all variables of a function, names included."""
FILE = "sagas-types.json"


def told(value: Any) -> str:
    """A value of the template as it may be once deployed: what only AWS knows has its longest likely name."""
    match value:
        case str():
            return value
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(map(told, parts))
        case {"Ref": str(name)} if name.startswith("AWS::"):
            return {"AWS::AccountId": "123456789012", "AWS::Region": "ap-southeast-1"}.get(name, "aws")
        case _:
            return "https://sqs.ap-southeast-1.amazonaws.com/123456789012".ljust(80, "x")


def variables(function: Template) -> dict[str, str]:
    """A function's environment, as it may be once deployed."""
    return {name: told(value) for name, value in function["Properties"]["Environment"]["Variables"].items()}


def functions_in(assembly: Path) -> list[Template]:
    """The service's own functions in all templates, not those of the CDK."""
    templates = [json.loads(path.read_text()) for path in assembly.glob("*.template.json")]
    resources = [one for template in templates for one in template["Resources"].values()]
    found = [one for one in resources if one["Type"] == "AWS::Lambda::Function"]
    return [one for one in found if "SAGAS_CLASSES" in one["Properties"].get("Environment", {}).get("Variables", {})]


def code_of(assembly: Path, function: Template) -> Path:
    """The directory that is deployed as the function's code."""
    key = function["Properties"]["Code"]["S3Key"].removesuffix(".zip")
    listed = [json.loads(path.read_text())["files"] for path in assembly.glob("*.assets.json")]
    (place,) = {one[key]["source"]["path"] for one in listed if key in one}
    return assembly / place


def synthesized(directory: Path, sagas: list[type[Any]], **options: Any) -> Path:
    app = App(outdir=str(directory))
    service = SagaService(Stack(app, "Many"), "Sagas", sagas=sagas, **options)
    assert service.event_bus() is not None
    assert service.command_queue() is not None
    app.synth()
    return directory


@dataclass(frozen=True)
class Many:
    """A service of these types; each has one function, whose queue's name is long besides."""

    sagas: list[type[Any]]
    assembly: Path

    @cached_property
    def functions(self) -> list[Template]:
        return functions_in(self.assembly)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(LONG_NAMES, id="6"),
        pytest.param(SAGAS, id="60", marks=pytest.mark.slow),
    ],
)
def many(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Many:
    """Few types with long names, or all 60."""
    return Many(request.param, synthesized(tmp_path_factory.mktemp("many"), request.param, isolation="saga"))


class TestManyTypes:
    def test_have_room_in_every_functions_variables(self, many: Many) -> None:
        assert len(many.functions) == len(many.sagas) + 5
        sizes = [sum(len(name) + len(value) for name, value in variables(one).items()) for one in many.functions]
        assert max(sizes) < LIMIT

    def test_are_in_a_file_beside_the_code_of_functions_that_deal_with_all(self, many: Many) -> None:
        for one in many.functions:
            classes, code = variables(one)["SAGAS_CLASSES"], code_of(many.assembly, one)
            if one["Properties"]["Handler"] == "sagas.handlers.step.handler":
                assert len(json.loads(classes)) == 1
                assert not (code / FILE).exists()
            else:
                assert classes == f"@{FILE}"
                assert len(json.loads((code / FILE).read_text())["classes"]) == len(many.sagas)

    def test_are_all_known_to_a_function_that_reads_it(self, many: Many) -> None:
        (api,) = [one for one in many.functions if one["Properties"]["Handler"] == "sagas.handlers.api.handler"]
        engine = engine_of(variables(api) | {"LAMBDA_TASK_ROOT": str(code_of(many.assembly, api))})
        found: list[SagaDefinition] = [one.definition for one in engine.registry]
        expected = [definition_of(one) for one in many.sagas]
        assert [one.name for one in found] == [one.name for one in expected]
        assert [len(one.steps) for one in found] == [len(one.steps) for one in expected]

    def test_without_the_file_it_says_so(self, many: Many, tmp_path: Path) -> None:
        (first, *_) = [one for one in many.functions if variables(one)["SAGAS_CLASSES"].startswith("@")]
        with pytest.raises(SagaError, match=f"SAGAS_CLASSES names {tmp_path}/{FILE}, which does not exist"):
            engine_of(variables(first) | {"LAMBDA_TASK_ROOT": str(tmp_path)})


class TestManySharedSteps:
    """Which steps share a queue takes the most room of all, and is in that file, too."""

    def test_are_in_the_file(self, tmp_path: Path) -> None:
        shared: dict[Any, FunctionOptions] = {}
        for saga in SAGAS[:5]:
            steps = [getattr(saga, f"step_{position}") for position in range(1, STEPS + 1)]
            shared[tuple(steps)] = FunctionOptions()
        assembly = synthesized(tmp_path, SAGAS[:5], functions=shared)
        functions = functions_in(assembly)
        assert len(functions) == 5 + 5
        (api,) = [one for one in functions if one["Properties"]["Handler"] == "sagas.handlers.api.handler"]
        assert "groups" not in variables(api)["SAGAS_QUEUES"]
        groups = json.loads((code_of(assembly, api) / FILE).read_text())["groups"]
        name, steps = definition_of(SAGAS[0]).name, [f"step_{n}" for n in range(1, STEPS + 1)]
        routes = Routes.parse(variables(api)["SAGAS_QUEUES"], {name: steps}, groups)
        names = {routes.queue(name, step) for step in steps}
        assert len(names) == 1
        assert "step_1-to-step_8" in names.pop()
