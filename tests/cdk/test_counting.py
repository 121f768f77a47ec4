"""What a saga type's functions may do beyond their work when its failures are counted."""

from __future__ import annotations

import json
from typing import Any

from aws_cdk import App, Stack, assertions

from functions.checkout import Checkout
from sagas import AutoDisable
from sagas.authoring.saga import definition_of
from sagas.cdk import SagaService


class Counted(Checkout, name="counted", auto_disable=AutoDisable()):
    """The same steps; failures in a row disable it."""


def listing_roles(*sagas: type[Any]) -> int:
    """How many roles may list the sagas of a type."""
    stack = Stack(App(), "Test")
    SagaService(stack, "Shop", sagas=sagas)
    policies = assertions.Template.from_stack(stack).find_resources("AWS::IAM::Policy")
    return sum("index/by_name" in json.dumps(policy) for policy in policies.values())


def test_only_functions_that_count_failures_may_look_for_a_success() -> None:
    """Besides the API and the supervisor, which list sagas anyway."""
    assert listing_roles(Checkout) == 2
    assert listing_roles(Checkout, Counted) == 2 + len(definition_of(Counted).steps)
