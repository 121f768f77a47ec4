"""One number for all lanes of a service, divided over them when it is synthesized."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from aws_cdk import App, Stack, assertions

from functions.checkout import Checkout
from functions.create_zip import CreateZip
from sagas.cdk import FunctionOptions, SagaService
from sagas.cdk.layout.concurrency import divided
from sagas.errors import DefinitionError
from tests.cdk.rendered import Template, by_id, marks, of_type

MAPPING = "AWS::Lambda::EventSourceMapping"


def lanes(*weights: float, own: int | None = None, reserved: int | None = None) -> dict[str, FunctionOptions]:
    """Lanes a, b and so on of these weights; the first has the limit of its own, if one is given."""
    found = {chr(97 + place): FunctionOptions(weight=weight) for place, weight in enumerate(weights)}
    if own or reserved:
        found["a"] = FunctionOptions(maximum_concurrency=own, reserved_concurrency=reserved)
    return found


@pytest.mark.parametrize(
    ("most", "given", "shares"),
    [
        (6, lanes(1, 1, 1), [2, 2, 2]),
        (10, lanes(1, 1, 1), [4, 3, 3]),
        (100, lanes(1, 1, 2), [25, 25, 50]),
        (100, lanes(3, 1, 0.001), [74, 24, 2]),
        (100, lanes(1, 1, 1, own=80), [10, 10]),
        (100, lanes(1, 1, 1, own=70, reserved=80), [15, 15]),
        (100, lanes(1, 1, reserved=1), [99]),
        (5_000, lanes(1, 1), [1_000, 1_000]),
        (9, lanes(5, 1, 1, 1), [3, 2, 2, 2]),
        (80, lanes(1, own=80), []),
    ],
)
def test_it_is_divided_by_weight(most: int, given: dict[str, FunctionOptions], shares: list[int]) -> None:
    found = divided("Shop", most, given)
    assert list(found.values()) == shares
    assert sum(found.values()) <= most


@pytest.mark.parametrize(
    ("most", "given", "said"),
    [
        (5, lanes(1, 1, 1), "max_concurrency=5 is not enough for 3 functions of steps: 3 need 2 each, which is 6"),
        (11, lanes(1, 1, own=10), "1 with a limit of their own take 10 and 1 others need 2 each, which is 12"),
        (9, lanes(1, own=10), "1 with a limit of their own take 10, which is 10"),
    ],
)
def test_too_few_are_refused(most: int, given: dict[str, FunctionOptions], said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        divided("Shop", most, given)


def service(**options: Any) -> tuple[Stack, dict[str, Any]]:
    stack = Stack(App(), "Test")
    SagaService(stack, "Shop", sagas=[Checkout, CreateZip], **options)
    return stack, dict(assertions.Template.from_stack(stack).to_json())


def test_each_queue_has_its_share_and_synth_prints_it() -> None:
    functions = {CreateZip.upload: FunctionOptions(maximum_concurrency=50), Checkout.ship: FunctionOptions(weight=6)}
    stack, template = service(max_concurrency=150, functions=functions)
    shares = {
        name: resource["Properties"]["ScalingConfig"]["MaximumConcurrency"]
        for name, resource in template["Resources"].items()
        if resource["Type"] == MAPPING and "Bulk" not in name
    }
    assert sorted(shares.values()) == [10, 10, 10, 10, 50, 60]
    told = [
        str(one.entry.data)
        for one in assertions.Annotations.from_stack(stack).find_info("*", assertions.Match.any_value())
    ]
    (line,) = [one for one in told if "max_concurrency" in one]
    assert (
        "Test-Shop: max_concurrency=150 is divided: checkout reserve 10, checkout capture 10, checkout ship 60" in line
    )
    assert not [one for one in told if "nothing limits" in one]


def test_without_the_runtimes_python_synth_says_what_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = "there is no python3.13 here to compile the functions' code"

    def lines() -> list[str]:
        stack, _ = service()
        found = assertions.Annotations.from_stack(stack).find_info("*", assertions.Match.any_value())
        return [str(one.entry.data) for one in found if lost in str(one.entry.data)]

    monkeypatch.setattr("sagas.cdk.watch.notes.compiler_for", {"python3.13": None}.get)
    assert len(lines()) == 1
    monkeypatch.setattr("sagas.cdk.watch.notes.compiler_for", {"python3.13": sys.executable}.get)
    assert lines() == []


def test_of_shared_functions() -> None:
    _, template = service(max_concurrency=7, isolation="saga", functions={Checkout: FunctionOptions(weight=2)})
    limits = [
        resource["Properties"]["ScalingConfig"]["MaximumConcurrency"]
        for name, resource in template["Resources"].items()
        if resource["Type"] == MAPPING and "Bulk" not in name
    ]
    assert sorted(limits) == [2, 5]


@pytest.mark.parametrize("most", [1, 2.5, True, "10"])
def test_a_number_that_is_none(most: Any) -> None:
    with pytest.raises(DefinitionError, match="Test-Shop: max_concurrency must be"):
        service(max_concurrency=most)


def test_the_service_refuses_what_does_not_fit() -> None:
    with pytest.raises(DefinitionError, match="Shop: max_concurrency=11 is not enough for 6 functions of steps"):
        service(max_concurrency=11)


@pytest.mark.parametrize("name", ["api", "supervisor", "bulk"])
def test_other_functions_have_no_weight(name: str) -> None:
    with pytest.raises(DefinitionError, match=f"functions: {name} does not support weight"):
        service(functions={name: FunctionOptions(weight=2)})


def test_of_the_function_behind_the_work_queue(everything: Template) -> None:
    functions = of_type(everything, "AWS::Lambda::Function")
    (function,) = [one for one in functions if one["Handler"] == "sagas.handlers.bulk.handler"]
    assert (function["MemorySize"], function["Timeout"]) == (512, 600)
    (source,) = [one for id, one in by_id(everything, MAPPING).items() if "Bulk" in id]
    assert source["ScalingConfig"] == {"MaximumConcurrency": 40}
    queue = marks(everything)["work_queue", "bulk"]
    assert queue["VisibilityTimeout"] == 602
    with pytest.raises(DefinitionError, match="functions: bulk does not support batch_size"):
        service(functions={"bulk": FunctionOptions(batch_size=2)})
