"""An option of a function changes what it names and nothing else, whatever the kind of function."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any

import pytest
from aws_cdk import Size, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs

from functions.checkout import Checkout
from sagas.cdk import FunctionOptions, Network, SagaService
from sagas.cdk.options.service_options import _OWN_FUNCTIONS, SagaServiceProps  # pyright: ignore[reportPrivateUsage]
from sagas.errors import DefinitionError
from tests.cdk.rendered import Template, by_id, marks, of_type, render, service
from tests.cdk.saga_classes import Loan, Trip

_HANDLERS = {
    **{name: f"sagas.handlers.{name}.handler" for name in _OWN_FUNCTIONS},
    "step": "sagas.handlers.step.handler",
}
_QUEUES = {
    "bulk": ("work_queue", "bulk"),
    "now": ("work_queue", "now"),
    "commands": ("command_queue",),
    "step": ("queue", "loan", "score"),
}
_TIMES = {"Timeout", "VisibilityTimeout"}


def _network(stack: Stack) -> Network:
    vpc = ec2.Vpc.from_vpc_attributes(
        stack, "Vpc", vpc_id="vpc-1", availability_zones=["a"], private_subnet_ids=["subnet-1"]
    )
    return Network(vpc)


_OPTIONS: dict[str, tuple[Callable[[Stack], Any], set[str]]] = {
    "memory_size": (lambda _: 1111, {"MemorySize"}),
    "ephemeral_storage": (lambda _: Size.gibibytes(2), {"EphemeralStorage"}),
    "batch_size": (lambda _: 3, {"BatchSize", *_TIMES}),
    "timeout": (lambda _: 333, _TIMES),
    "maximum_concurrency": (lambda _: 7, {"ScalingConfig"}),
    "reserved_concurrency": (lambda _: 4, {"ReservedConcurrentExecutions", "ScalingConfig"}),
    "weight": (lambda _: 3, set()),
    "environment": (lambda _: {"COLOUR": "blue"}, {"Environment"}),
    "network": (_network, {"VpcConfig"}),
    "log_level": (lambda _: "ERROR", {"Environment"}),
    "architecture": (lambda _: lambda_.Architecture.X86_64, {"Architectures", "Layers"}),
    "runtime": (lambda _: lambda_.Runtime.PYTHON_3_12, {"Runtime", "Layers", "Code"}),
    "provisioned_concurrency": (lambda _: 2, {"ProvisionedConcurrencyConfig"}),
    "snap_start": (lambda _: True, {"SnapStart"}),
}
"""A value of each option, and the properties of a function, its alias, its queue and its mapping that it may change."""


def _template(option: str | None = None) -> Template:
    """A service with every kind of function; all that support an option have it."""

    def build(stack: Stack) -> None:
        functions: dict[Any, FunctionOptions] = {}
        if option is not None:
            options = FunctionOptions(**{option: _OPTIONS[option][0](stack)})
            functions = {Loan: options, **{name: options for name in _supporting(option) if name != "step"}}
        SagaService(stack, "Shop", sagas=[Loan], functions=functions).command_queue()

    return render(build)


def _supporting(option: str) -> list[str]:
    return [name for name in _HANDLERS if option not in _OWN_FUNCTIONS.get(name, ())]


@cache
def _plain() -> dict[str, Template]:
    return _by_function(_template())


def _by_function(template: Template) -> dict[str, Template]:
    """The properties of each kind of function, its alias, its mapping and its queue."""
    functions, aliases = by_id(template, "AWS::Lambda::Function"), by_id(template, "AWS::Lambda::Alias")
    mappings = of_type(template, "AWS::Lambda::EventSourceMapping")
    found: dict[str, Template] = {}
    for name, handler in _HANDLERS.items():
        # The saga has two steps. The first stands for both.
        id = next(id for id, one in functions.items() if one["Handler"] == handler and "pay" not in id)
        [alias] = [alias for alias, one in aliases.items() if one["FunctionName"] == {"Ref": id}]
        found[name] = {**functions[id], **aliases[alias]}
        if name in _QUEUES:
            [mapping] = [one for one in mappings if alias in str(one["FunctionName"])]
            queue = marks(template)[_QUEUES[name]]
            found[name] |= {"VisibilityTimeout": queue["VisibilityTimeout"], **mapping}
        for changing in ("FunctionVersion", "FunctionName", "Role"):
            del found[name][changing]
    return found


def test_each_option_has_a_value_here() -> None:
    assert _OPTIONS.keys() == {option.name for option in fields(FunctionOptions)}


@pytest.mark.slow
@pytest.mark.parametrize("option", _OPTIONS)
def test_an_option_changes_nothing_else(option: str) -> None:
    before, after = _plain(), _by_function(_template(option))
    allowed = _OPTIONS[option][1]
    for name in _HANDLERS:
        changed = {
            key for key in before[name].keys() | after[name].keys() if before[name].get(key) != after[name].get(key)
        }
        supported = name in _supporting(option)
        assert changed <= (allowed if supported else set()), name
        assert changed or not (allowed and supported), f"{name}: {option} has no effect"


def test_the_reference_has_the_defaults_of_the_own_functions() -> None:
    text = " ".join((SagaServiceProps.__doc__ or "").split())
    plain = _plain()
    for name in _OWN_FUNCTIONS:
        [said] = re.findall(rf'``"{name}"`` \(([^)]*)\)', text)
        assert f"{plain[name]['MemorySize']:,} MB" in said
        if "timeout" not in _OWN_FUNCTIONS[name]:
            assert f"{plain[name]['Timeout']} seconds" in said
        most = plain[name].get("ScalingConfig", {}).get("MaximumConcurrency")
        assert (f"``maximum_concurrency`` {most}" in said) == (most is not None)


@pytest.mark.parametrize(("reserved", "most"), [(1, 2), (2, 2), (10, 10), (1_500, 1_000)])
def test_pollers_take_no_more_than_is_reserved(reserved: int, most: int) -> None:
    resolved = FunctionOptions(reserved_concurrency=reserved).over(FunctionOptions())
    assert resolved.maximum_concurrency == most


def test_a_reservation_does_not_raise_the_usual_maximum() -> None:
    resolved = FunctionOptions(reserved_concurrency=50).over(FunctionOptions(maximum_concurrency=10))
    assert (resolved.reserved_concurrency, resolved.maximum_concurrency) == (50, 10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"maximum_concurrency": 11, "reserved_concurrency": 10},
            "maximum_concurrency=11 is more than reserved_concurrency=10; lower it to 10, or raise",
        ),
        ({"maximum_concurrency": 3, "reserved_concurrency": 1}, "reserved_concurrency=1; lower it to 2, or raise"),
        ({"provisioned_concurrency": 5, "reserved_concurrency": 4}, "provisioned_concurrency=5 is more than reserved"),
        ({"provisioned_concurrency": 5, "maximum_concurrency": 4}, "provisioned_concurrency=5 is more than maximum"),
        ({"weight": 2, "maximum_concurrency": 4}, r"weight=2 has no effect with a limit of the function's own \(4\)"),
        ({"weight": 2, "reserved_concurrency": 4}, "weight=2 has no effect"),
    ],
)
def test_options_that_contradict_each_other(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=f"FunctionOptions: .*{message}"):
        FunctionOptions(**options)


def test_an_option_that_contradicts_a_default() -> None:
    bulk = FunctionOptions(provisioned_concurrency=20)
    with pytest.raises(DefinitionError, match="provisioned_concurrency=20 is more than maximum_concurrency=10"):
        service(Trip, functions={"bulk": bulk})


@pytest.mark.parametrize("given", [{"batch_size": 1}, {"weight": 1}])
def test_an_option_without_effect_is_refused_whatever_its_value(given: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match=f"functions: now does not support {next(iter(given))}"):
        render(lambda stack: SagaService(stack, "Shop", sagas=[Loan], functions={"now": FunctionOptions(**given)}))


def test_queues_of_one_function_share_what_is_reserved() -> None:
    def build(stack: Stack, **options: Any) -> None:
        shop = SagaService(stack, "Shop", sagas=[Trip], functions={"commands": FunctionOptions(**options)})
        shop.start_on(sqs.Queue(stack, "Orders"), Trip)

    with pytest.raises(DefinitionError, match="2 queues call the function 'commands', with up to 6 executions each"):
        render(lambda stack: build(stack, reserved_concurrency=6))
    template = render(lambda stack: build(stack, reserved_concurrency=6, maximum_concurrency=3))
    limits = [one.get("ScalingConfig") for one in of_type(template, "AWS::Lambda::EventSourceMapping")]
    assert limits.count({"MaximumConcurrency": 3}) == 2


def test_a_share_takes_the_weight_and_leaves_the_rest() -> None:
    functions = {Checkout.ship: FunctionOptions(weight=6, memory_size=512)}
    template = service(Checkout, functions=functions, max_concurrency=80)
    assert marks(template)["function", "checkout", "ship"]["MemorySize"] == 512
    assert {"MaximumConcurrency": 60} in [
        one.get("ScalingConfig") for one in of_type(template, "AWS::Lambda::EventSourceMapping")
    ]
