"""What a saga type's functions may do beyond their work when its failures are counted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk import App, Stack, assertions

from functions.checkout import Checkout
from sagas import AutoDisable
from sagas.authoring.saga import definition_of
from sagas.cdk import SagaService
from sagas.engine.registry import Registry
from sagas.errors import DefinitionError


class Counted(Checkout, name="counted", auto_disable=AutoDisable()):
    """The same steps; failures in a row disable it."""


def listing_roles(*sagas: type[Any], **options: Any) -> int:
    """How many roles may list the sagas of a type."""
    stack = Stack(App(), "Test")
    SagaService(stack, "Shop", sagas=sagas, **options)
    policies = assertions.Template.from_stack(stack).find_resources("AWS::IAM::Policy")
    return sum("index/by_name" in json.dumps(policy) for policy in policies.values())


def test_only_functions_that_count_failures_may_look_for_a_success() -> None:
    """Besides the API, the supervisor and what works for it, which list sagas anyway."""
    assert listing_roles(Checkout) == 3
    assert listing_roles(Checkout, Counted) == 3 + len(definition_of(Counted).steps)


def test_the_default_of_a_service_holds_for_types_that_declare_none() -> None:
    usual = AutoDisable(threshold=7, cooldown=None)
    assert listing_roles(Checkout, auto_disable=usual) == 3 + len(definition_of(Checkout).steps)
    stack = Stack(App(), "Test")
    SagaService(stack, "Shop", sagas=[Checkout, Counted], auto_disable=usual)
    template = assertions.Template.from_stack(stack)
    alarms = json.dumps(template.find_resources("AWS::CloudWatch::Alarm"))
    assert alarms.count("keeps failing and takes no new sagas") == 2
    functions = template.find_resources("AWS::Lambda::Function").values()
    given = [
        function["Properties"]["Environment"]["Variables"]
        for function in functions
        if "Environment" in function["Properties"]
    ]
    assert {one["SAGAS_AUTO_DISABLE"] for one in given if "SAGAS_TABLE" in one} == {usual.text}
    names = json.dumps([f"{one.__module__}:{one.__qualname__}" for one in (Checkout, Counted)])
    registry = Registry.load(names, AutoDisable.parse(usual.text))
    assert registry.get("checkout").definition.auto_disable == usual
    assert registry.get("counted").definition.auto_disable == AutoDisable()


def test_a_default_that_is_none_is_refused() -> None:
    with pytest.raises(DefinitionError, match="auto_disable must be an AutoDisable or None, not 5"):
        listing_roles(Checkout, auto_disable=5)
