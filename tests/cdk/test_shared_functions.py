"""Steps that share a function: all of a saga with ``isolation="saga"``, or those that ``functions`` names together."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from aws_cdk import App, Stack, assertions

from functions.checkout import Checkout
from functions.create_zip import CreateZip
from sagas.cdk import FunctionOptions, SagaService
from sagas.errors import DefinitionError
from tests.cdk.rendered import Template, marks, of_type, render, service, variables

SHIP = ("function", "checkout", "ship")


@pytest.fixture(scope="module")
def built() -> tuple[SagaService, Template]:
    """A service whose sagas have one function each, and its template."""
    stack = Stack(App(), "Test")
    functions = {Checkout: FunctionOptions(memory_size=512, batch_size=2)}
    made = SagaService(stack, "Shop", sagas=[Checkout, CreateZip], isolation="saga", functions=functions)
    return made, dict(assertions.Template.from_stack(stack).to_json())


class TestSagaIsolation:
    def test_one_queue_and_one_function_a_saga(self, built: tuple[SagaService, Template]) -> None:
        found = marks(built[1])
        assert [key for key in found if key[0] in ("queue", "function")] == [
            ("queue", "checkout", "reserve,capture,ship"),
            ("queue", "create-zip", "check,upload,announce"),
            ("function", "checkout", "reserve,capture,ship"),
            ("function", "create-zip", "check,upload,announce"),
        ]
        assert len(of_type(built[1], "AWS::Lambda::EventSourceMapping")) == 3

    def test_a_chain_has_the_time_of_all_its_steps_as_far_as_there_is(
        self, built: tuple[SagaService, Template]
    ) -> None:
        found = marks(built[1])
        function, queue = (found[part, "create-zip", "check,upload,announce"] for part in ("function", "queue"))
        assert function["Timeout"] == 900
        assert queue["VisibilityTimeout"] == 902
        of_steps = [key for key in found if key[0] == "function" and "," in key[-1]]
        chains = [found[key]["Environment"]["Variables"]["SAGAS_CHAIN"] for key in of_steps]
        assert set(chains) == {"*"}
        assert found["function", "checkout", "reserve,capture,ship"]["MemorySize"] == 512

    def test_the_most_attempts_decide(self, built: tuple[SagaService, Template], plain: Template) -> None:
        queue = marks(built[1])["queue", "checkout", "reserve,capture,ship"]
        alone = marks(plain)
        each = [alone["queue", "checkout", step]["RedrivePolicy"]["maxReceiveCount"] for step in STEPS]
        assert queue["RedrivePolicy"]["maxReceiveCount"] == max(each)

    def test_access(self, built: tuple[SagaService, Template]) -> None:
        made = built[0]
        assert made.function(Checkout.reserve) is made.function(Checkout.ship)
        assert made.queue(Checkout.reserve) is made.queue(Checkout.ship)
        assert made.function(Checkout.reserve) is not made.function(CreateZip.check)

    def test_options_of_a_single_step(self) -> None:
        functions = {Checkout.ship: FunctionOptions(memory_size=1024)}
        template = service(Checkout, functions=functions, isolation="saga")
        assert marks(template)["function", "checkout", "reserve,capture,ship"]["MemorySize"] == 1024
        told = "step ship shares its function with reserve, capture, so .* give the others to the saga class Checkout"
        with pytest.raises(DefinitionError, match=told):
            service(Checkout, functions={Checkout.ship: FunctionOptions(timeout=300)}, isolation="saga")


STEPS = ("reserve", "capture", "ship")


PAID = ("function", "checkout", "reserve,capture")
TWO: dict[str, Any] = {"batch_size": 2, "memory_size": 512, "capture": 256}
LONG: dict[str, Any] = {"timeout": 200, "memory_size": 512, "capture": 1024, "reversed": True}


@cache
def grouped(*, reversed: bool = False, capture: int | None = None, **options: Any) -> Template:
    """The template of a service of *checkout* in which its first two steps share a function with these options.

    Args:
        reversed: whether the second step is named first.
        capture: memory that the second step asks for itself.
        options: of the shared function.
    """
    steps: Any = (Checkout.capture, Checkout.reserve) if reversed else (Checkout.reserve, Checkout.capture)
    functions: dict[Any, FunctionOptions] = {steps: FunctionOptions(**options)}
    if capture is not None:
        functions[Checkout.capture] = FunctionOptions(memory_size=capture)
    return service(Checkout, functions=functions)


class TestGroups:
    """Steps that share a function because ``functions`` names them together."""

    def test_one_queue_and_one_function_for_them(self) -> None:
        found = marks(grouped(memory_size=512))
        assert [key for key in found if key[0] in ("queue", "function") and key[1] == "checkout"] == [
            ("queue", "checkout", "reserve,capture"),
            ("queue", "checkout", "ship"),
            ("function", "checkout", "reserve,capture"),
            ("function", "checkout", "ship"),
        ]
        assert found[PAID]["MemorySize"] == 512
        assert found[SHIP]["MemorySize"] == 256

    def test_they_are_chained_and_the_others_are_not(self) -> None:
        found = grouped(memory_size=512)
        assert variables(found, PAID)["SAGAS_CHAIN"] == "reserve,capture"
        assert "SAGAS_CHAIN" not in variables(found, SHIP)

    def test_the_function_has_the_time_of_all(self, plain: Template) -> None:
        alone = marks(plain)
        each = [alone["function", "checkout", step]["Timeout"] - 6 for step in ("reserve", "capture")]
        assert marks(grouped(memory_size=512))[PAID]["Timeout"] == sum(each) + 6
        assert marks(grouped(**TWO))[PAID]["Timeout"] == 2 * sum(each) + 6
        assert marks(grouped(**LONG))[PAID]["Timeout"] == 200

    def test_their_order_in_the_name_makes_no_difference(self) -> None:
        assert PAID in marks(grouped(**LONG))

    def test_the_largest_memory_counts(self) -> None:
        assert marks(grouped(**LONG))[PAID]["MemorySize"] == 1024
        assert marks(grouped(**TWO))[PAID]["MemorySize"] == 512

    def test_access(self) -> None:
        stack = Stack(App(), "Test")
        functions = {(Checkout.reserve, Checkout.capture): FunctionOptions()}
        made = SagaService(stack, "Shop", sagas=[Checkout], functions=functions)
        assert made.function(Checkout.reserve) is made.function(Checkout.capture)
        assert made.queue(Checkout.reserve) is made.queue(Checkout.capture)
        assert made.function(Checkout.reserve) is not made.function(Checkout.ship)

    @pytest.mark.parametrize(
        ("functions", "told"),
        [
            ({(): FunctionOptions()}, "name two steps or more"),
            ({(Checkout.reserve,): FunctionOptions()}, "name two steps or more"),
            ({(Checkout.reserve, Checkout.reserve): FunctionOptions()}, "each once"),
            ({(Checkout.reserve, Checkout.ship): FunctionOptions()}, "capture of saga checkout runs between them"),
            ({(Checkout.reserve, "capture"): FunctionOptions()}, "is not a step"),
            ({(Checkout.reserve, CreateZip.check): FunctionOptions()}, "CreateZip is not among its sagas"),
            (
                {
                    (Checkout.reserve, Checkout.capture): FunctionOptions(),
                    (Checkout.capture, Checkout.ship): FunctionOptions(),
                },
                "capture already shares one with reserve, capture",
            ),
            (
                {
                    (Checkout.reserve, Checkout.capture): FunctionOptions(),
                    Checkout.capture: FunctionOptions(timeout=100),
                },
                "step capture shares its function with reserve, so its only own option can be memory_size",
            ),
        ],
    )
    def test_what_cannot_be_shared(self, functions: dict[Any, FunctionOptions], told: str) -> None:
        with pytest.raises(DefinitionError, match=told):
            service(Checkout, functions=functions)

    def test_steps_of_two_sagas_share_nothing(self) -> None:
        functions = {(Checkout.reserve, CreateZip.check): FunctionOptions()}
        with pytest.raises(DefinitionError, match="they belong to different sagas"):
            render(lambda stack: SagaService(stack, "Shop", sagas=[Checkout, CreateZip], functions=functions))

    def test_where_all_share_one_some_cannot_share_another(self) -> None:
        functions = {(Checkout.reserve, Checkout.capture): FunctionOptions()}
        with pytest.raises(DefinitionError, match="reserve already shares one with reserve, capture, ship"):
            service(Checkout, functions=functions, isolation="saga")

    def test_a_step_that_takes_too_long_is_refused_by_its_name(self) -> None:
        functions = {(CreateZip.check, CreateZip.upload): FunctionOptions(batch_size=2)}
        with pytest.raises(DefinitionError, match="step upload: a batch of 2"):
            render(lambda stack: SagaService(stack, "Shop", sagas=[CreateZip], functions=functions))
